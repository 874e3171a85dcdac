"""DBOS on SQLite: workflows of steps that give 1 KiB; one after the other, many at once, and resumed in a new process."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

from dbos import DBOS, SetWorkflowID  # type: ignore[import-not-found]

from perdure.evaluation.bench.floor import Rate, timed
from perdure.evaluation.bench.peers import TEXT, TURNS, main

AT_ITS_END = threading.Event()


@DBOS.step()
def think(number: int) -> str:
    """A step that costs nothing."""
    return f"{number:04}" + TEXT[4:]


@DBOS.step()
async def athink(number: int) -> str:
    """Think in async code."""
    return f"{number:04}" + TEXT[4:]


@DBOS.workflow()
def run(count: int) -> int:
    """So many steps, one after the other."""
    return sum(len(think(number)) for number in range(count))


@DBOS.workflow()
async def arun(count: int) -> int:
    """Run in async code."""
    return sum([len(await athink(number)) for number in range(count)])


@DBOS.workflow()
def long_run(count: int) -> str:
    """Many steps, and then a wait for somebody."""
    for number in range(count):
        think(number)
    AT_ITS_END.set()
    return DBOS.recv("answer", timeout_seconds=86_400)


def _launched(folder: Path) -> None:
    url = f"sqlite:///{folder}/dbos.sqlite"
    DBOS(config={"name": "bench", "system_database_url": url, "application_version": "1", "log_level": "CRITICAL"})
    DBOS.launch()


def steps(folder: Path, count: int) -> Rate:
    """One workflow."""
    _launched(folder)
    run(20)
    return timed(count, lambda: run(count))


def crowd(folder: Path, count: int) -> Rate:
    """Many workflows at once, as coroutines."""
    _launched(folder)

    async def act() -> None:
        started = [await DBOS.start_workflow_async(arun, TURNS) for _ in range(count // TURNS)]
        await asyncio.gather(*(each.get_result(polling_interval_sec=0.05) for each in started))

    return timed(count, lambda: asyncio.run(act()))


def begun(folder: Path, count: int) -> Rate:
    """A long workflow up to where it waits."""
    _launched(folder)
    with SetWorkflowID("long"):
        DBOS.start_workflow(long_run, count)
    return timed(count, AT_ITS_END.wait)


def resumed(folder: Path, count: int) -> Rate:
    """Resume it in a new process, which continues when it is launched."""
    return timed(count, lambda: (_launched(folder), AT_ITS_END.wait()))


if __name__ == "__main__":
    main(steps=steps, crowd=crowd, begun=begun, resumed=resumed)
