"""Measure what 10,000 ready runs of one tenant do to another: its time to the first step, beside that of an idle worker.

`python benchmarks/fairness.py [--url URL] [--ready 10000] [--trials 40] [--step-ms 200]`. A worker with ten places serves both
tenants in a process of its own. Alone: nothing else is ready. Beside: the other tenant's runs fill the queue. The control takes
the oldest first: one trial, which gives up after 60 s. Prints one JSON document with medians, 99th percentiles and ratios.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import statistics
import tempfile
import time
from itertools import islice
from typing import Any

import perdure
from perdure.handles.colours import run_for
from perdure.handles.working import callers_of, open_for_worker
from perdure.runtime.fair_order import FairOrder
from perdure.runtime.worker import Worker, WorkerSettings

PLACES = 10
GIVE_UP_SECONDS = 60.0


class OldestFirst(FairOrder):
    """The control: the oldest first, and no place is kept."""

    def choose(self, found: Any, room: int, at_work: Any, fits: Any) -> Any:  # noqa: ARG002 - as a worker calls it
        """The first that fit."""
        return [*islice(filter(fits, found), room)]


async def _think(ms: float) -> float:
    await asyncio.sleep(ms / 1000)
    return time.time()


async def _now() -> float:
    return time.time()


@perdure.agent(name="measured_fairness")
async def measured(run: perdure.AsyncRun, ms: float) -> float:
    """One step; gives when it began."""
    began = await run.step(_now)
    await run.step(_think, ms)
    return began


def serve(url: str, stop: Any, *, fair: bool) -> None:
    """A worker of both tenants, until it is told to stop."""
    asyncio.run(_serve(url, stop, fair=fair))


async def _serve(url: str, stop: Any, *, fair: bool) -> None:
    caller = open_for_worker(url, actor="worker", tenant="many", lease_seconds=30.0)
    settings = WorkerSettings(PLACES, grace_seconds=0.0)
    also = callers_of(caller, ["few"])
    worker = Worker(caller, {"measured_fairness": measured}, settings, run_for, also=also)
    if not fair:
        worker._fair = OldestFirst(several=True)
    work = asyncio.create_task(worker.run())
    await asyncio.get_running_loop().run_in_executor(None, stop.wait)
    worker.stop()
    await work
    await worker.close()


def latency(store: perdure.Store, ms: float) -> float:
    """From `start` to the beginning of the first step, in milliseconds; the time to give up if it never came."""
    asked = time.time()
    handle = store.start(measured, ms)
    try:
        return (handle.result(timeout=GIVE_UP_SECONDS) - asked) * 1000
    except perdure.TimedOut:
        return GIVE_UP_SECONDS * 1000


def trials(url: str, count: int, ms: float, *, fair: bool) -> list[float]:
    """Starts of the small tenant, one after the other, with a worker of their own."""
    context = multiprocessing.get_context("spawn")
    stop = context.Event()
    worker = context.Process(target=serve, args=(url, stop), kwargs={"fair": fair})
    worker.start()
    try:
        with perdure.open(url, tenant="few") as store:
            if fair:
                latency(store, 0)  # the first one waits for the worker
            return [latency(store, ms) for _ in range(count)]
    finally:
        stop.set()
        worker.join()


async def fill(url: str, ready: int, ms: float) -> None:
    """Start the runs of the large tenant, many in a commit."""
    async with perdure.aopen(url, tenant="many") as store:
        for _ in range(0, ready, 500):
            await asyncio.gather(*(store.start(measured, ms) for _ in range(500)))


def told(found: list[float]) -> dict[str, float]:
    """Median and 99th percentile, in milliseconds."""
    ordered = sorted(found)
    return {"p50_ms": round(statistics.median(ordered), 2), "p99_ms": round(ordered[int(len(ordered) * 0.99)], 2)}


def main() -> None:
    """Measure, and print."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--url")
    asked.add_argument("--ready", type=int, default=10_000)
    asked.add_argument("--trials", type=int, default=40)
    asked.add_argument("--step-ms", type=float, default=200.0)
    given = asked.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        url = given.url or f"sqlite:///{folder}/a.db"
        alone = told(trials(url, given.trials, given.step_ms, fair=True))
        asyncio.run(fill(url, given.ready, given.step_ms))
        beside = told(trials(url, given.trials, given.step_ms, fair=True))
        with perdure.open(url, tenant="many") as store:
            assert store.runs(status="ready", limit=1), "the queue ran dry: more --ready, or fewer --trials"
        control = told(trials(url, 1, given.step_ms, fair=False))
        print(
            json.dumps(
                {
                    "ready": given.ready, "places": PLACES, "step_ms": given.step_ms, "alone": alone, "beside": beside,
                    "ratio_p50": round(beside["p50_ms"] / alone["p50_ms"], 2),
                    "ratio_p99": round(beside["p99_ms"] / alone["p99_ms"], 2),
                    "oldest_first": control,
                },
                indent=1,
            )
        )  # fmt: skip


if __name__ == "__main__":
    main()
