"""A transaction that is over acknowledges nothing, also where assertions are off."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest

import perdure
from perdure.errors import Refused
from perdure.stores.tx import Tx

PROGRAM = """
import asyncio, perdure
from perdure.errors import Refused
assert False, "assertions must be off here"

def make(tx):
    session = tx.session("b")
    return session, session.decide("d", because="b"), session.task("t")

async def main():
    async with perdure.aopen("memory:") as store:
        session, decision, task = await store.atomic(make)
        late = [lambda: session.say("user", "x"), lambda: decision.close("late"), task.claim, session.turns, session.info]
        refused = 0
        for call in late:
            try:
                call()
            except Refused as error:
                refused += error.path == "atomic"
        print(refused, len(late), len(await (await store.session("b")).events()))

asyncio.run(main())
"""


def test_handles_that_outlive_atomic_are_refused_under_minus_o():
    ran = subprocess.run([sys.executable, "-O", "-c", PROGRAM], capture_output=True, text=True, check=False, timeout=60)
    assert ran.stdout.split() == ["5", "5", "3"], ran.stderr


def test_control_without_an_end_it_acknowledges_what_is_never_stored(monkeypatch):
    """What the contract of `atomic` guards against; it fails with this change."""
    monkeypatch.setattr(Tx, "end", lambda tx: None)

    async def main() -> None:
        async with perdure.aopen("memory:") as store:
            session = await store.atomic(lambda tx: tx.session("b"))
            assert session.say("user", "x").seq == 2
            assert await (await store.session("b")).turns() == []

    asyncio.run(main())


@pytest.mark.parametrize("url", ["memory:", "sqlite:///{}/a.db"])
def test_a_view_of_what_was_never_committed_shows_nothing(tmp_path, url):
    """A view of the past is made of what the transaction had written: if that never happened, it was no past."""
    kept = []

    def fail(tx):
        session = tx.session("a")
        turn = session.say("user", "x")
        kept.append(session.at(turn.seq))
        assert [each.content for each in kept[-1].turns()] == ["x"]  # the control: inside it is good
        raise ZeroDivisionError

    with perdure.open(url.format(tmp_path)) as store:
        with pytest.raises(ZeroDivisionError):
            store.atomic(fail)
        for late in (kept[-1].turns, kept[-1].info, kept[-1].restore):
            with pytest.raises(Refused) as refused:
                late()
            assert refused.value.path == "atomic"


@pytest.mark.parametrize("gives", ["say", "set", "session"])
def test_what_a_step_cannot_keep_is_refused_with_the_way_out_and_nothing_is_written(tmp_path, gives):
    made = {
        "say": lambda tx: tx.session("a").say("user", "x"),
        "set": lambda tx: tx.session("a").set("k", 1),
        "session": lambda tx: tx.session("a"),
    }

    @perdure.agent(name=f"keeps {gives}")
    def keeper(run: perdure.Run) -> None:
        run.atomic(made[gives])

    with perdure.open(f"sqlite:///{tmp_path}/a.db") as store:
        with pytest.raises(perdure.Failed, match=r"return what the program needs of it \(its \.seq, \.id, \.value\)"):
            store.drive(keeper, key="k")
        assert list(store.sessions()) == []
