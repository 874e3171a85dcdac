"""Agents that do not end when they are told to, and agents that block: the others in their worker are not harmed (P13, P15)."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

import perdure
from perdure.runtime import current_branch, log_context, run_engine, stalled_loops
from perdure.runtime.journal import Branch
from perdure.runtime.stalled_loops import LoopWatchdog
from runtime.crew import Scene, scene, until
from runtime.test_worker_processes import steps_of, total
from runtime.worker_app import aplod, blocks, goes_on, plods_on

BLOCKED = "an async agent blocks the event loop: call what blocks in a step, as a plain function"


@pytest.fixture
def stage(tmp_path):
    with scene(f"sqlite:///{tmp_path}/a.db", tmp_path) as made:
        yield made


def test_agents_that_spin_block_or_are_cancelled_harm_nobody_beside_them(stage: Scene):
    crew = stage.crew("--grace", "500ms", "--concurrency", "30")
    others = [stage.store.start(aplod, 6, 0.05) for _ in range(20)]
    told = [stage.store.start(goes_on, catches) for catches in ("Failed", "Exception", "everything")]
    told.append(stage.store.start(plods_on))
    until(lambda: all(steps_of(each) for each in told))
    for each in told:
        each.cancel("enough")
    there = stage.folder / "there"
    blocker = stage.store.start(blocks, str(there))
    until(lambda: crew.logged(BLOCKED, run=blocker.id, agent="blocks"))
    assert "until_there" in crew.logged(BLOCKED)[0]["trace"]
    there.touch()
    assert blocker.result(timeout=60) == "back"
    assert [each.result(timeout=60) for each in others] == [total(6)] * 20
    until(lambda: all(each.refresh().status in ("cancelled", "parked") for each in told))
    assert [each.status for each in told] == ["cancelled", "cancelled", "parked", "parked"]
    assert told[2].record.reason == "does not end"
    assert told[2].cancel().status == "cancelled"
    assert all(each.record.deaths == 0 for each in others)
    assert crew.end() == 0
    assert crew.logged("killed: it did not end") == []


def test_a_worker_whose_event_loop_is_blocked_ends_after_its_grace(stage: Scene):
    crew = stage.crew("--grace", "500ms")
    there = stage.folder / "there"
    handle = stage.store.start(blocks, str(there))
    until(stage.said)
    assert crew.end() == 0
    assert crew.logged("killed: it did not end") == []
    assert [each["run"] for each in crew.logged(BLOCKED)] == [handle.id]
    there.touch()
    stage.crew()
    assert handle.result(timeout=60) == "back"


# -- the watch -----------------------------------------------------------------------------------------------


def stalled(*, branch: bool, told: bool, shared: bool) -> tuple[list[log_context.RunInLogs | None], int]:
    """Who was blamed when a loop stood still until the process would have ended, and how often it was said."""
    over = threading.Event()
    blamed: list[log_context.RunInLogs | None] = []

    async def block() -> None:
        task = asyncio.current_task()
        over.wait(60)
        blamed.append(log_context.of(task))

    async def story() -> int:
        current_branch.number_branches(asyncio.get_running_loop())
        watch = LoopWatchdog(0.0, over.set, lambda: shared)
        if told:
            watch.told()
        with log_context.driving("r1", "blocker", None), current_branch.in_branch(Branch()):
            log_context.note(asyncio.current_task())
            await (asyncio.create_task(block()) if branch else block())
        watch.close()
        return watch.count

    count = asyncio.run(story())
    assert over.is_set()
    return blamed, count


@pytest.mark.parametrize("branch", [False, True])
@pytest.mark.parametrize("why", ["told", "shared"])
def test_a_process_that_is_blocked_ends_when_it_was_told_to_or_others_wait(monkeypatch, why, branch):
    for name in ("LOOK_SECONDS", "STALL_SECONDS", "STALL_MAX_SECONDS"):
        monkeypatch.setattr(stalled_loops, name, 0.01)
    blamed, count = stalled(branch=branch, told=why == "told", shared=why == "shared")
    assert blamed == [log_context.RunInLogs("r1", "blocker", None)]
    assert count >= 1


def test_a_run_that_is_alone_may_block(monkeypatch):
    monkeypatch.setattr(stalled_loops, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(stalled_loops, "STALL_MAX_SECONDS", 0.02)
    said = threading.Event()
    monkeypatch.setattr(stalled_loops, "STALL_SECONDS", 0.05)
    left: list[Any] = []

    async def story() -> None:
        watch = LoopWatchdog(0.0, lambda: left.append(1), lambda: False)
        monkeypatch.setattr(watch, "_say", lambda _: said.set())
        assert said.wait(60)
        watch.close()

    asyncio.run(story())
    assert left == []


# -- what ends ---------------------------------------------------------------------------------------------


def test_a_program_that_catches_everything_is_left_after_a_bounded_number_of_verbs(tmp_path, monkeypatch):
    monkeypatch.setattr(run_engine, "REFUSED_SECONDS", 0.0)
    tries = 0

    @perdure.agent(name="never ends")
    async def never(run: perdure.AsyncRun) -> str:
        nonlocal tries
        await run.step(len, "ab")
        await (await store.run(run.id)).cancel("enough")
        while (await store.run(run.id)).status == "running":
            tries += 1
            try:
                await run.step(len, "abc")
            except BaseException:
                continue
        return "over at last"

    async def story() -> Any:
        nonlocal store
        async with await perdure.aopen(f"sqlite:///{tmp_path}/a.db") as store:
            with pytest.raises(perdure.Parked, match="its program does not end"):
                await store.drive(never, key="k")
            (handle,) = await store.runs()
            assert (await handle.cancel()).status == "cancelled"

    store: Any = None
    asyncio.run(story())
    assert tries == run_engine.REFUSALS_MAX + 3  # the first was done: it had not heard of it yet; the last was held up
