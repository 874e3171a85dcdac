"""A driver whose heartbeat lapsed while nobody took its runs: it goes on, and is in nobody's way, least of all its own (P13)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import perdure
from perdure.handles.colours import run_for
from perdure.planes.execution import runs
from perdure.runtime.callers import AsyncCaller
from perdure.runtime.worker import Worker, WorkerSettings
from perdure.stores.core import open_core
from perdure_testing.clock import FakeClock

SENT: list[str] = []
CLOCKS: list[FakeClock] = []


@perdure.tool
def send(what: str) -> str:
    SENT.append(what)
    return what


def stand_still() -> None:
    """The process is stopped for longer than its lease, and nobody else looks."""
    CLOCKS[0].advance("1h")


@perdure.agent(name="lapsing")
def lapsing(run: perdure.Run) -> str:
    run.step(stand_still)
    return run.act(send, "a")


@perdure.agent(name="async-lapsing")
async def async_lapsing(run: perdure.AsyncRun) -> str:
    await run.step(stand_still)
    return await run.act(send, "a")


AGENTS = {each.name: each for each in (lapsing, async_lapsing)}


@pytest.fixture
def url(tmp_path) -> str:
    SENT.clear()
    CLOCKS[:] = [FakeClock()]
    return f"sqlite:///{tmp_path}/a.db"


@pytest.mark.parametrize("name", AGENTS)
def test_who_drives_it_in_place_goes_on(url, name):
    with perdure.open(url, clock=CLOCKS[0]) as store:
        assert store.drive(AGENTS[name], key="k") == "a"
        assert SENT == ["a"]
        assert [each.state for each in store.effects()] == ["committed"]
        assert store.drive(AGENTS[name], key="k") == "a"


def worked(url: str, until: Any, seconds: float = 60) -> None:
    """Let a worker work until something is so. TimeoutError if it does not come."""

    async def main() -> None:
        core = open_core(url, clock=CLOCKS[0])
        caller = AsyncCaller(core, "worker", core.tenant_id("default"))
        worker = Worker(caller, AGENTS, WorkerSettings(poll_seconds=0.01), run_for)
        task = asyncio.create_task(worker.run())
        try:
            async with asyncio.timeout(seconds):
                while not await caller.read(until):  # noqa: ASYNC110 - played, not timed
                    await asyncio.sleep(0.01)
        finally:
            worker.stop()
            await task
            await worker.close()

    asyncio.run(main())


@pytest.mark.parametrize("name", AGENTS)
def test_a_worker_goes_on(url, name):
    with perdure.open(url, clock=CLOCKS[0]) as store:
        handle = store.start(AGENTS[name])
        worked(url, lambda reads: runs.run(reads, handle._stream).ended)
        assert handle.result() == "a"
        assert SENT == ["a"]


def test_control_a_worker_that_does_not_count_its_runs_strands_it(url, monkeypatch):
    async def nothing(_self: Worker) -> None: ...

    monkeypatch.setattr(Worker, "_find_lost", nothing)
    with perdure.open(url, clock=CLOCKS[0]) as store:
        handle = store.start(lapsing)
        with pytest.raises(TimeoutError):
            worked(url, lambda reads: runs.run(reads, handle._stream).ended, 0.5)
        assert SENT == []
