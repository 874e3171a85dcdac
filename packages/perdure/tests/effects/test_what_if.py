"""Runs that suppose: the controls, and what is under way when a run is forked."""

from __future__ import annotations

import asyncio
import hashlib

import pytest

from perdure.effects.tool import tool
from perdure.effects.what_if import _left
from perdure.errors import Failed
from perdure.handles.opening import aopen
from perdure.handles.opening import open as open_store
from perdure.handles.sync.run import Run
from perdure.model.records.effects import EffectState, ToolKind
from perdure.model.records.envelope import Document, EffectPart
from perdure.model.records.runs import RunStatus
from perdure.runtime.agent import agent
from perdure.runtime.run_engine import RunEngine
from perdure_testing.clock import FakeClock
from perdure_testing.contract.sync.what_if import SendingWorld, reviewing


def forked_and_driven(outside):
    review = reviewing(outside.sending())
    with open_store("memory:") as store:
        handle = store.start(review, key="r")
        store.drive(review, key="r")
        forked = handle.fork(handle.steps()[-1].place, "bad")
        store.recover(agents=[review])
        return forked.refresh().status.value


def test_control_without_the_question_it_acts_unasked(monkeypatch):
    asked, unasked = SendingWorld(), SendingWorld()
    assert forked_and_driven(asked) == "waiting"
    assert len(asked.done) == 1
    monkeypatch.setattr(RunEngine, "_what_if_question", lambda _: None)
    assert forked_and_driven(unasked) == "completed"
    assert len(unasked.done) == 2


def drawn_by_itself(run):
    """As if a fork drew numbers of its own."""
    return hashlib.sha256(run._engine.stream.uid + run._here().next_place(run._engine.replay.cut).encode()).digest()


def test_control_a_fork_that_draws_other_numbers_is_noticed(monkeypatch):
    """The first effect is named by what the run drew: another draw is another program, and nothing is done."""
    outside = SendingWorld()
    monkeypatch.setattr(Run, "_drawn", drawn_by_itself)
    assert forked_and_driven(outside) == "parked"
    assert len(outside.done) == 1


async def fork_beside_doubt(sent):
    """One branch is in doubt about what it sent; the other one's step is replaced."""
    called = asyncio.Event()

    @tool(name="breaks")
    async def breaks(title):
        sent.append(title)
        called.set()
        raise RuntimeError("no reply")

    async def tried(run):
        try:
            return await run.act(breaks, "it")
        except Failed as error:
            return error.code

    async def stepped(run):
        await called.wait()
        return await run.step(lambda: 1)

    @agent(name="supposed beside")
    async def beside(run):
        return await asyncio.gather(tried(run), stepped(run))

    async with await aopen("memory:") as store:
        handle = await store.start(beside, key="b")
        await store.recover(agents=[beside])
        assert (await handle.refresh()).status is RunStatus.WAITING
        forked = await handle.fork((await handle.steps())[0].place, 2)
        await store.recover(agents=[beside])
        left = [each.state for each in await handle.effects()]
        return await forked.result(), left


def test_what_is_under_way_stays_the_other_runs():
    sent = []
    assert asyncio.run(fork_beside_doubt(sent)) == (["Forked", 2], [EffectState.IN_DOUBT])
    assert sent == ["it"]


async def fork_beside_a_question():
    """One branch asks a person; the other one's step, which ended meanwhile, is replaced. Gives what became of either."""
    clock = FakeClock()

    @agent(name="supposed beside a question")
    async def beside(run):
        return await asyncio.gather(run.ask("Merge?", timeout="1h", default="late"), run.step(once_asked))

    async def once_asked():
        while not await store.asks():
            pass  # every read lets the other branch go on
        return 1

    async with await aopen("memory:", clock=clock) as store:
        handle = await store.start(beside, key="b")
        await store.recover(agents=[beside])
        clock.advance("50m")
        forked = await handle.fork((await handle.steps())[0].place, 2)
        before = await forked.waits()
        await store.recover(agents=[beside])
        asked = await store.asks()
        clock.advance("20m")
        await store.recover(agents=[beside])
        await store.answer((await forked.waits())[0].id, "merge", by="alice")
        await store.recover(agents=[beside])
        return before, len(asked), await handle.result(), await forked.result()


def test_what_the_other_run_still_waits_for_is_asked_anew_with_all_its_time():
    before, asked, others, forks = asyncio.run(fork_beside_a_question())
    assert (before, asked) == ([], 2)
    assert (others, forks) == (["late", 1], ["merge", 2])


@pytest.mark.parametrize("state", [EffectState.PLANNED, EffectState.DISPATCHED, EffectState.IN_DOUBT])
def test_an_open_effect_is_withdrawn_in_the_fork(state):
    part = EffectPart(seq=1, state=state, tool="t", kind=ToolKind.UNSAFE, key="k", digest="d", attempt=1, epoch=1, actor="a",
                      at=1, meant=Document())  # fmt: skip
    assert (_left(part).state, _left(part).error) == (EffectState.WITHDRAWN, "Forked")
