"""What an envelope says: the cursor, what is pending and what to do about it, the verdict; and how large it is."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
from collections.abc import Callable, Iterator
from typing import Any
from unittest.mock import patch

import apsw
import pytest

import perdure
from perdure import errors
from perdure.effects import envelope, timeline
from perdure.effects.effect_engine import EffectEngine
from perdure.model import crash_points
from perdure.model.limits import PAGE_MAX_ROWS
from perdure.model.records.envelope import Envelope, RunVerdict, Standing
from perdure_testing.clock import FakeClock


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def store(clock: FakeClock) -> Iterator[perdure.Store]:
    with perdure.open("memory:", actor="me", clock=clock) as opened:
        yield opened


def envelope_of(store: perdure.Store, agent: Callable[..., Any], *args: Any) -> Envelope:
    """The envelope of a run after it was driven as far as it goes."""
    handle = store.start(agent, *args, key="k")
    with contextlib.suppress(errors.Error):
        store.drive(agent, *args, key="k")
    return handle.envelope()


def gone(*_: Any) -> None:
    raise OSError("no answer")


def tool_of(**declared: Any) -> Any:
    """A tool that is never heard of again."""

    def call(x: int, *, key: str = "") -> None:
        gone()

    return perdure.tool(name="call", **declared)(call)


# -- the verdict -------------------------------------------------------------------------------------------


def test_a_verdict_is_not_true_or_false() -> None:
    verdict = RunVerdict(Standing.RESUMABLE, "nothing is open")
    with pytest.raises(errors.Invalid, match="not true or false"):
        bool(verdict)
    with pytest.raises(errors.Invalid):
        assert verdict


def test_over(store) -> None:
    found = envelope_of(store, lambda run: 7)
    assert found.verdict == RunVerdict(Standing.OVER, "it is completed")


def test_waits_for_a_person(store) -> None:
    found = envelope_of(store, lambda run: run.ask("Merge?"))
    assert found.verdict.standing is Standing.PERSON
    assert found.verdict.says == f"run:{found.run.name}/3 must be answered: `perdure answer`"
    assert [(each.kind, each.state, each.meant.doc["question"]) for each in found.waits] == [("ask", "open", "Merge?")]


def test_can_be_resumed_though_it_waits_for_a_signal(store) -> None:
    found = envelope_of(store, lambda run: run.wait("ci"))
    assert found.verdict == RunVerdict(Standing.RESUMABLE, "it waits for a signal")


def test_ready(store) -> None:
    found = store.start(lambda run: 1, key="k").envelope()
    assert found.verdict == RunVerdict(Standing.RESUMABLE, "nothing is open")
    assert (found.cursor.cut, found.cursor.done, found.cursor.last) == (0, 0, "")


def test_parked(store) -> None:
    def first(run: perdure.Run) -> None:
        run.step(len, "a")
        run.ask("?")

    def second(run: perdure.Run) -> None:
        run.step(str, "a")

    envelope_of(store, perdure.agent(name="same")(first))
    handle = store.runs()[0]
    handle.resume()
    with pytest.raises(errors.Parked):
        store.drive(perdure.agent(name="same")(second), key="k")
    found = handle.envelope()
    assert found.verdict.standing is Standing.PARKED
    assert "changed" in found.verdict.says


def test_a_child_speaks_for_its_parent(store) -> None:
    asker = perdure.agent(name="asker")(lambda run: run.ask("?"))
    found = envelope_of(store, lambda run: run.call(asker))
    (child,) = found.children
    assert found.verdict.standing is Standing.PERSON
    assert found.verdict.says == f"it waits for run {child.run.name}: {child.verdict.says}"
    assert child.run.parent == found.run.name


# -- what to do ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("declared", "action"),
    [
        ({}, "ask a person"),
        ({"kind": "keyed", "keeps_keys": 1}, "ask a person"),
        ({"probe": lambda x: perdure.Unknown("?")}, "probe"),
    ],
)
def test_doubt_that_no_rule_settles_now(store, declared, action) -> None:
    tool = tool_of(**declared)
    found = envelope_of(store, lambda run: run.act(tool, 1))
    (pending,) = found.pending
    assert (pending.tool, pending.state, pending.action) == ("call", "in_doubt", action)
    assert pending.settle.startswith(f"`perdure settle {pending.id} VERDICT` (happened, absent or failed)")
    assert found.verdict.standing is Standing.DOUBT
    assert pending.handed != pending.key


def test_doubt_that_rules_settle(store, clock) -> None:
    """As it stands after a crash that nobody has looked at yet."""
    handles = {kind: run_with_a_dispatched_effect(store, kind) for kind in DECLARED}
    assert {handle.envelope().pending[0].action for handle in handles.values()} == {
        "wait"
    }  # it lives, as far as one knows
    clock.advance(3_600)
    advised = {kind: handle.envelope().pending[0] for kind, handle in handles.items()}
    assert {kind: each.action for kind, each in advised.items()} == {
        "idempotent": "call again", "keyed": "call again", "probed": "probe", "unsafe": "ask a person",
    }  # fmt: skip
    assert (
        "if it says absent: probe, it has not arrived, but its caller may still send it; it is asked again at"
        in advised["probed"].reason
    )


DECLARED: dict[str, dict[str, Any]] = {
    "idempotent": {"kind": "idempotent"},
    "keyed": {"kind": "keyed"},
    "probed": {"probe": lambda x: perdure.Unknown("?")},
    "unsafe": {},
}


class Died(BaseException):
    """Stands for the end of the process: nothing is recorded after it."""


def run_with_a_dispatched_effect(store: perdure.Store, kind: str) -> perdure.RunHandle:
    """A run whose process ended right after the dispatch."""

    def die() -> None:
        raise Died

    tool = tool_of(**DECLARED[kind])
    handle = store.start(perdure.agent(name=f"run_{kind}")(lambda run: run.act(tool, 1)), key=kind)
    disarm = crash_points.arm("effect.dispatch.after", die)
    try:
        # The dead take nothing back.
        with (
            patch.object(EffectEngine, "_take_back_dispatch", lambda *_: ()),
            contextlib.suppress(Died),
        ):
            store.drive(perdure.agent(name=f"run_{kind}")(lambda run: run.act(tool, 1)), key=kind)
    finally:
        disarm()
    return handle


def test_a_planned_effect_is_sent_when_it_is_approved_and_the_run_goes_on(store) -> None:
    tool = tool_of(undo=gone)
    found = envelope_of(store, lambda run: run.act(tool, 1, approve="May I?"))
    (pending,) = found.pending
    assert (pending.state, pending.action, pending.settle) == ("planned", "wait", "")
    assert (pending.undo, pending.undo_idempotent) == ("call.undo", True)
    assert found.verdict.standing is Standing.PERSON
    (ask,) = store.asks()
    assert pending.reason == f"nothing was sent; it is sent when {ask.id} is approved"
    store.answer(ask.id, "approve")
    (pending,) = store.runs()[0].envelope().pending
    assert (pending.action, pending.settle) == ("send", "")


def test_what_was_planned_before_a_restore_is_not_said_to_be_unsent(store) -> None:
    envelope_of(store, lambda run: run.act(tool_of(), 1, approve="May I?"))
    store._caller.core.epoch += 1
    found = store.runs()[0].envelope()
    (pending,) = found.pending
    assert (pending.state, pending.action) == ("planned", "ask a person")
    assert pending.settle
    assert found.verdict.standing is Standing.DOUBT


# -- the cursor ------------------------------------------------------------------------------------------------


def test_cursor_pins_and_program(store) -> None:
    def work(run: perdure.Run) -> None:
        assert run.restored is None
        run.step(len, "ab")
        run.model(lambda: {"usage": {"tokens": 3}}, pins={"model": "m-1"})
        run.checkpoint({"n": 1})
        run.step(len, "abc")
        run.ask("?")

    found = envelope_of(store, work)
    assert (found.cursor.cut, found.cursor.done, found.cursor.last) == (1, 2, "1//1 len")
    assert found.checkpoint is not None
    assert found.artifacts == (found.checkpoint.root,)
    assert found.run.program == store.runs()[0].record.program
    assert found.pins is None  # of before the cut


def test_the_pins_of_the_newest_model_step(store) -> None:
    def work(run: perdure.Run) -> None:
        run.model(lambda: {"usage": {"tokens": 3}}, pins={"model": "m-1"})
        run.model(lambda: {"usage": {"tokens": 3}, "text": "long " * 4_000}, pins={"model": "m-2"})
        run.ask("?")

    assert envelope_of(store, work).pins == {"model": "m-2"}


def test_it_reads_back_what_it_wrote(store) -> None:
    found = envelope_of(store, lambda run: run.ask("Grüße \x9b \u202e?"))
    text = found.to_json()
    assert text.isascii()
    assert Envelope.from_json(text) == found
    assert Envelope.from_json(text.decode()) == found


# -- its size ----------------------------------------------------------------------------------------------------


def steps_then_ask(run: perdure.Run, steps: int, cut: bool) -> None:
    if run.restored is None:
        for i in range(steps - 3):
            run.step(str.ljust, str(i % 10), 1_000)
        if cut:
            run.checkpoint({"state": "s" * 500}, now=True)
    for i in range(3):
        run.step(str.ljust, str(i), 1_000)
    run.ask("?")


def size_after(steps: int, *, cut: bool) -> int:
    with perdure.open("memory:", actor="me") as store:
        return len(envelope_of(store, steps_then_ask, steps, cut).to_json())


def test_it_is_bounded_by_what_came_since_the_last_checkpoint() -> None:
    short, long = size_after(100, cut=True), size_after(10_000, cut=True)
    assert abs(long - short) < 64  # the digits of larger numbers
    assert long < 3 * 8 * 1024
    assert size_after(1_000, cut=False) > 100 * 1_000  # the control: without a checkpoint it grows with the run


def test_large_documents_are_named_and_not_carried(store) -> None:
    def work(run: perdure.Run) -> None:
        run.step(str.ljust, "x", 100_000)
        run.ask("?")

    found = envelope_of(store, work)
    assert len(found.to_json()) < 4_000
    (address,) = found.artifacts
    assert len(store.artifacts_of(found)[address]) > 100_000


def test_the_timeline(store) -> None:
    tool = tool_of()

    def work(run: perdure.Run) -> None:
        run.step(len, "abc")
        run.act(tool, 1)

    envelope_of(store, work)
    found = store.runs()[0].timeline()
    assert [(each.kind, each.about, each.place, each.of) for each in found][2:] == [
        ("step.done", "len", "0//1", None),
        ("effect.dispatched", "call", "0//2", None),
        ("effect.doubted", "call", "", 4),
        ("run.waiting", "doubt", "", None),
    ]
    assert [each.seq for each in store.runs()[0].timeline(last=2)] == [5, 6]
    assert [each.seq for each in store.runs()[0].timeline(last=2, before=5)] == [3, 4]


# -- async -------------------------------------------------------------------------------------------------------


@perdure.agent(name="async_asker")
async def async_asker(run: perdure.AsyncRun) -> Any:
    await run.step(len, "abc")
    return await run.ask("?")


def test_the_same_in_async_code() -> None:
    async def move() -> Any:
        async with (
            await perdure.aopen("memory:", actor="a") as first,
            await perdure.aopen("memory:", actor="b") as second,
        ):
            handle = await first.start(async_asker, key="k")
            with pytest.raises(errors.Waiting):
                await first.drive(async_asker, key="k")
            assert (await handle.envelope()).verdict.standing is Standing.PERSON
            envelope = await handle.hand_over()
            await second.adopt(envelope, await first.artifacts_of(envelope))
            (ask,) = await second.asks()
            await second.answer(ask.id, "yes")
            return await second.drive(async_asker, key="k"), len(await handle.timeline())

    assert asyncio.run(move()) == ("yes", 6)


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        (envelope.Q.effects_kept, ["SEARCH f USING PRIMARY KEY (stream=? AND seq>?)"]),
        (
            envelope.Q.waits_kept,
            [
                "SEARCH waits USING PRIMARY KEY (stream=? AND seq>?)",
                "SEARCH waits USING COVERING INDEX waits_open (stream=?)",
            ],
        ),
        (envelope.Q.signals_kept, ["SEARCH g USING INDEX signals_waiting (stream=?)"]),
        (timeline.Q.timeline, ["SEARCH e USING INDEX events_by_stream (stream=? AND seq<?)"]),
    ],
)
def test_nothing_is_looked_through_that_came_before_the_cut(tmp_path, statement, expected) -> None:
    perdure.open(f"sqlite:///{tmp_path}/a.db", actor="me").close()
    connection = apsw.Connection(str(tmp_path / "a.db"))
    params = {"stream": 1, "after": 0, "before": 9, "limit": 9}
    plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {statement.text('sqlite', params)}", params)]
    connection.close()
    assert set(expected) <= set(plan)
    assert not [line for line in plan if line.startswith("SCAN")]


def test_the_workspace_goes_along(store, tmp_path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)

    def work(run: perdure.Run) -> str:
        if run.restored is None:
            run.checkpoint({"n": 1})
        return run.ask("?")

    agent = perdure.agent(name="in_a_workspace", workspace=str(tmp_path))(work)
    found = envelope_of(store, agent)
    assert found.workspace is not None
    sealed = store.runs()[0].hand_over()
    with perdure.open("memory:", actor="other") as other:
        run = other.adopt(sealed, store.artifacts_of(sealed))
        assert run.envelope().workspace == found.workspace
        (tmp_path / "new").write_text("somebody was here")
        other.answer(other.asks()[0].id, "yes")
        with pytest.raises(errors.Parked, match="workspace"):
            other.drive(agent, key="k")


def test_it_says_everything_that_is_pending_however_much_it_is(store: perdure.Store) -> None:
    send = tool_of()
    count = PAGE_MAX_ROWS + 1

    @perdure.agent
    async def many(run: perdure.AsyncRun) -> None:
        await asyncio.gather(*(run.act(send, number) for number in range(count)))

    assert len(envelope_of(store, many).pending) == count
