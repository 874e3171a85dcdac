"""Cases of running: steps, effects, many runs at once, and how long a new process takes to be back at work."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
import time
from typing import Any

import perdure
from perdure_evaluate.bench.case import (
    Benchmark,
    Context,
    Figure,
    alternating,
    at_least,
    at_most,
    between,
    users_environment,
)
from perdure_evaluate.bench.counters import counting_statements, counting_syncs
from perdure_evaluate.bench.floor import Rate, timed
from perdure_evaluate.bench.long_run import TEXT, long_run, think


async def athink(number: int) -> str:
    """Think in an async agent."""
    return think(number)


@perdure.tool(kind="keyed")
def send(number: int, *, key: str) -> str:
    """An effect that costs nothing and gives 1 KiB."""
    return f"{number:04}{key}" + TEXT[36:]


@perdure.agent(name="bench-steps")
def steps(run: perdure.Run, count: int) -> int:
    """So many steps, one after the other."""
    return sum(len(run.step(think, number)) for number in range(count))


@perdure.agent(name="bench-async-steps")
async def async_steps(run: perdure.AsyncRun, count: int) -> int:
    """The steps in async code."""
    return sum([len(await run.step(athink, number)) for number in range(count)])


@perdure.agent(name="bench-effects")
def effects(run: perdure.Run, count: int) -> int:
    """So many effects, one after the other."""
    return sum(len(run.act(send, number)) for number in range(count))


def _driven(store: Any, agent: Any, count: int) -> Rate:
    store.drive(agent, 20)
    return timed(count, lambda: store.drive(agent, count))


def _beside(measure: str, floor: Rate, rate: Rate, target: float) -> Figure:
    detail = f"{rate.per_second:,.0f}/s of {floor.per_second:,.0f}/s"
    return at_least(measure, rate.per_second / floor.per_second, target, detail=detail)


def steps_sqlite(context: Context) -> list[Figure]:
    """One run of 1,000 steps on SQLite, sync and async, and what a step costs."""
    count = context.count(1_000, 100)
    figures: list[Figure] = []
    for name, agent, target in (("sync", steps, 0.65), ("async", async_steps, 0.35)):
        with context.scratch() as folder, perdure.open(f"sqlite:///{folder}/bench.db") as store:
            floor, rate = between(context.sqlite_floor, lambda: _driven(store, agent, count))  # noqa: B023
            figures.append(_beside(f"steps of one run, {name} agent, SQLite", floor, rate, target))
    with context.scratch() as folder, perdure.open(f"sqlite:///{folder}/bench.db") as store:
        figures.append(
            at_most("statements a step", _statements_a_step(store) - 2, 3, "statements", "BEGIN and COMMIT apart")
        )
    return figures


def steps_postgres(context: Context) -> list[Figure]:
    """One run of 1,000 steps on PostgreSQL."""
    assert context.postgres is not None
    with perdure.open(context.postgres) as store:
        floor, rate = between(context.postgres_floor, lambda: _driven(store, steps, context.count(1_000, 100)))
        trips = _statements_a_step(store)
    return [
        _beside("steps of one run, PostgreSQL", floor, rate, 0.55),
        at_most("statements a step, BEGIN and COMMIT included", trips, 1, "round trips"),
    ]


def _statements_a_step(store: Any) -> float:
    """How many statements 100 more steps of a run take."""
    counts: list[int] = []
    for count in (20, 120):
        with counting_statements(store) as counted:
            store.drive(steps, count)
        counts.append(counted.count)
    return (counts[1] - counts[0]) / 100


def effects_sqlite(context: Context) -> list[Figure]:
    """Effects of one run on SQLite: dispatch and commit each."""
    with context.scratch() as folder, perdure.open(f"sqlite:///{folder}/bench.db") as store:
        floor, rate = alternating(context.sqlite_floor, lambda: _driven(store, effects, context.count(300, 50)))
    return [_beside("effects of one run, SQLite", floor, rate, 0.33)]


async def _crowd(url: str, count: int, length: int) -> Rate:
    async with await perdure.aopen(url) as store:
        await store.drive(async_steps, 2)
        cpu, clock = time.process_time(), time.perf_counter()
        await asyncio.gather(*(store.drive(async_steps, length, key=f"r{number}") for number in range(count)))
        elapsed, done = time.perf_counter() - clock, count * length
        return Rate(done / elapsed, (time.process_time() - cpu) / done * 1e6)


def crowd_sqlite(context: Context) -> list[Figure]:
    """1,000 async runs at once on SQLite."""
    count = context.count(1_000, 50)
    with context.scratch() as folder:
        url = f"sqlite:///{folder}/bench.db"
        floor, rate = between(context.sqlite_floor, lambda: asyncio.run(_crowd(url, count, 20)))
    return [_beside("1,000 runs at once, async, SQLite", floor, rate, 3)]


def crowd_postgres(context: Context) -> list[Figure]:
    """1,000 async runs at once on PostgreSQL."""
    assert context.postgres is not None
    url, count = context.postgres, context.count(1_000, 50)
    floor, rate = between(context.postgres_floor, lambda: asyncio.run(_crowd(url, count, 20)))
    return [_beside("1,000 runs at once, async, PostgreSQL", floor, rate, 2)]


def syncs(context: Context) -> list[Figure]:
    """Syncs per step and per effect, one writer."""
    figures: list[Figure] = []
    for name, agent, target in (("step", steps, 1.05), ("effect", effects, 2.1)):
        count = context.count(1_000, 200)
        with context.scratch() as folder, counting_syncs() as counted:
            with perdure.open(f"sqlite:///{folder}/bench.db") as store:
                store.drive(agent, 20)
                before = counted.count
                store.drive(agent, count)
                sync_count = counted.count - before
        figures.append(at_most(f"syncs per {name}", sync_count / count, target, "syncs", f"{sync_count} for {count}"))
    return figures


RESUME = "import sys; from perdure_evaluate.bench.long_run import resume; resume(*sys.argv[1:])"


def resuming(context: Context) -> list[Figure]:
    """A run of 10,000 steps resumed in a new process, interpreter included; and with a checkpoint near the end."""
    count = context.count(10_000, 500)
    figures: list[Figure] = []
    for name, cut, target in (("", 0, 1.0), (", checkpoint near the end", count - 10, 0.3)):
        with context.scratch() as folder:
            url = f"sqlite:///{folder}/bench.db"
            with perdure.open(url) as store, contextlib.suppress(perdure.Waiting):
                store.drive(long_run, count, cut, key="long")
            seconds = min(_seconds([sys.executable, "-c", RESUME, url, str(count), str(cut)]) for _ in range(3))
        figures.append(at_most(f"resume a run of {count:,} steps{name}", seconds, target, "s"))
    return figures


def _seconds(command: list[str]) -> float:
    began = time.perf_counter()
    subprocess.run(command, check=True, env=users_environment())  # noqa: S603 - our own interpreter and text
    return time.perf_counter() - began


CASES = [
    Benchmark("steps", "one run of 1,000 steps of 1 KiB, SQLite", steps_sqlite),
    Benchmark("steps-postgres", "one run of 1,000 steps of 1 KiB, PostgreSQL", steps_postgres, needs_postgres=True),
    Benchmark("effects", "effects of one run (dispatch and commit), SQLite", effects_sqlite),
    Benchmark("runs", "1,000 runs × 20 steps at once, async, SQLite", crowd_sqlite),
    Benchmark("runs-postgres", "1,000 runs × 20 steps at once, async, PostgreSQL", crowd_postgres, needs_postgres=True),
    Benchmark("run-syncs", "syncs per step and per effect", syncs),
    Benchmark("resume", "a run of 10,000 steps in a new process", resuming),
]
