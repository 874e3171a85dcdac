"""What the proofs found in our own code, each as a case. What is not mended yet fails, strictly, until it is."""

from __future__ import annotations

from typing import Any

import pytest

import perdure
from perdure.planes.execution import leases, runs, steps
from perdure.planes.execution.runs import RunRequest
from perdure.runtime.callers import caller_of
from perdure_testing.clock import FakeClock

ARRIVED: list[str] = []


def test_who_only_reads_sees_one_state(postgres_store):
    """On SQLite one lock gives one state; the contract is the same on every store (P9)."""
    with perdure.open(postgres_store) as store, perdure.open(postgres_store) as other:
        for name in "ab":
            store.scope(name).set("x", 0)

        def between() -> None:
            other.atomic(lambda tx: [tx.scope(name).set("x", tx.scope(name).get("x") + 1) for name in "ab"])

        def both(tx: Any) -> tuple[int, int]:
            first = tx.scope("a").get("x")
            if not first:
                between()
            return first, tx.scope("b").get("x")

        first, second = store.atomic(both)
        assert first == second


def test_a_lease_that_was_given_up_writes_no_more():
    """A thread of a sync agent that goes on after its trunk ended records steps in a run that is over (P7)."""
    with perdure.open("memory:", clock=FakeClock()) as store:
        write = caller_of(store).write
        stream, _ = write(runs.start, RunRequest("agent", [], {}), 1)
        lease = write(leases.claim, stream, holder="h", program="p", epoch=1)
        assert lease is not None
        _, lease.seq = write(leases.fenced, lease, runs.wait, "ask", None)
        with pytest.raises(perdure.Stale):
            write(leases.fenced, lease, steps.done, {"place": "0//0", "name": "x", "digest": "", "value": 1})


def test_a_suspect_is_taken_back_by_who_lost_sight_of_it():
    """Two deaths, then its holder only lapsed: it must get the run again (P13)."""
    clock = FakeClock()
    with perdure.open("memory:", clock=clock) as store:
        write = caller_of(store).write
        stream, _ = write(runs.start, RunRequest("agent", [], {}), 1)
        for holder in ("a", "b", "c", "d"):
            assert write(leases.claim, stream, holder=holder, program="p", epoch=1) is not None
            clock.advance("5m")
        assert write(leases.claim, stream, holder="d", program="p", epoch=1) is not None


def seen(what: str) -> perdure.Happened | perdure.Absent:
    return perdure.Happened(what) if what in ARRIVED else perdure.Absent()


@perdure.tool(name="findings.send", probe=seen)
def send(what: str) -> str:
    ARRIVED.append(what)
    return what


@perdure.agent(name="findings.sender")
def sender(run: perdure.Run) -> str:
    run.step(lambda: 1)
    run.ask("Go on?", choices=["yes"])
    return run.act(send, "letter")


def test_what_a_probed_tool_did_after_the_backup_is_found_out(tmp_path):
    ARRIVED.clear()
    with perdure.open(f"sqlite:///{tmp_path}/a.db") as store:
        with pytest.raises(perdure.Waiting):
            store.drive(sender, key="k")
        store.backup(tmp_path / "backup.db")
        store.answer(store.asks()[0].id, "yes")
        assert store.drive(sender, key="k") == "letter"
    perdure.restore(tmp_path / "backup.db", f"sqlite:///{tmp_path}/b.db")
    with perdure.open(f"sqlite:///{tmp_path}/b.db") as store:
        store.answer(store.asks()[0].id, "yes")
        assert store.drive(sender, key="k") == "letter"
    assert ARRIVED == ["letter"]
