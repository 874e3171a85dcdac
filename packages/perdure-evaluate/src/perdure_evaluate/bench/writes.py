"""Cases of writing: one writer, many at once, syncs, and what a turn costs when the session is old."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from pathlib import Path
from typing import Any

import perdure
from perdure.runtime.callers import caller_of
from perdure_evaluate.bench.case import Benchmark, Context, Figure, alternating, at_least, at_most, between
from perdure_evaluate.bench.counters import counting_statements, counting_syncs
from perdure_evaluate.bench.floor import Rate, timed
from perdure_evaluate.bench.raw_events import say_many

TEXT = "x" * 1024


def _says(store: Any, count: int) -> Rate:
    session = store.session("one-writer")
    for _ in range(50):
        session.say("user", TEXT)

    def act() -> None:
        for _ in range(count):
            session.say("user", TEXT)

    return timed(count, act)


def one_writer_sqlite(context: Context) -> list[Figure]:
    """One writer on SQLite, beside the floor."""
    with context.scratch() as folder, perdure.open(f"sqlite:///{folder}/bench.db") as store:
        floor, rate = alternating(context.sqlite_floor, lambda: _says(store, context.count(1_000, 100)))
    detail = f"{rate.per_second:,.0f}/s of {floor.per_second:,.0f}/s"
    return [
        at_least("one writer, SQLite", rate.per_second / floor.per_second, 0.75, detail=detail),
        at_most("CPU above the floor", (rate.cpu_us - floor.cpu_us) / 1000, 0.12, "ms"),
    ]


def one_writer_postgres(context: Context) -> list[Figure]:
    """One writer on PostgreSQL, beside the floor."""
    assert context.postgres is not None
    with perdure.open(context.postgres) as store:
        floor, rate = between(context.postgres_floor, lambda: _says(store, context.count(1_500, 200)))
        session = store.session("statements")
        session.say("user", TEXT)
        with counting_statements(store) as statements:
            for _ in range(10):
                session.say("user", TEXT)
    detail = f"{rate.per_second:,.0f}/s of {floor.per_second:,.0f}/s"
    return [
        at_least("one writer, PostgreSQL", rate.per_second / floor.per_second, 0.6, detail=detail),
        at_most("statements a turn, BEGIN and COMMIT included", statements.count / 10, 1, "round trips"),
    ]


async def _crowd(url: str, sessions: int, turns: int) -> tuple[Rate, float]:
    slowest = 0.0

    async def one(session: Any) -> None:
        nonlocal slowest
        for _ in range(turns):
            began = time.perf_counter()
            await session.say("user", TEXT)
            slowest = max(slowest, time.perf_counter() - began)

    async with await perdure.aopen(url) as store:
        opened = await asyncio.gather(*(store.session(f"s{number}") for number in range(sessions)))
        await asyncio.gather(*(session.say("user", TEXT) for session in opened))
        cpu, clock = time.process_time(), time.perf_counter()
        await asyncio.gather(*(one(session) for session in opened))
        elapsed, count = time.perf_counter() - clock, sessions * turns
        return Rate(count / elapsed, (time.process_time() - cpu) / count * 1e6), slowest


def crowd_sqlite(context: Context) -> list[Figure]:
    """1,000 async sessions at once on SQLite."""
    with context.scratch() as folder:
        url = f"sqlite:///{folder}/bench.db"
        floor, (rate, slowest) = between(
            context.sqlite_floor, lambda: asyncio.run(_crowd(url, context.count(1_000, 50), 20))
        )
    detail = f"{rate.per_second:,.0f}/s of {floor.per_second:,.0f}/s"
    return [
        at_least("1,000 sessions at once, async, SQLite", rate.per_second / floor.per_second, 4, detail=detail),
        at_most("slowest single call, async", slowest, 1, "s"),
    ]


def crowd_postgres(context: Context) -> list[Figure]:
    """1,000 async sessions at once on PostgreSQL, one process."""
    assert context.postgres is not None
    url = context.postgres
    floor, (rate, slowest) = between(
        context.postgres_floor, lambda: asyncio.run(_crowd(url, context.count(1_000, 50), 20))
    )
    detail = f"{rate.per_second:,.0f}/s of {floor.per_second:,.0f}/s"
    return [
        at_least("1,000 sessions at once, async, PostgreSQL", rate.per_second / floor.per_second, 3, detail=detail),
        at_most("slowest single call, async, PostgreSQL", slowest, 1, "s"),
    ]


def _threads(store: Any, count: int, turns: int) -> tuple[Rate, float]:
    sessions = [store.session(f"t{number}") for number in range(count)]
    slowest = [0.0] * count
    start = threading.Barrier(count + 1)

    def one(number: int) -> None:
        start.wait()
        for _ in range(turns):
            began = time.perf_counter()
            sessions[number].say("user", TEXT)
            slowest[number] = max(slowest[number], time.perf_counter() - began)

    threads = [threading.Thread(target=one, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()

    def act() -> None:
        start.wait()
        for thread in threads:
            thread.join()

    return timed(count * turns, act), max(slowest)


def threads_sqlite(context: Context) -> list[Figure]:
    """1,000 threads at once on SQLite."""
    with context.scratch() as folder, perdure.open(f"sqlite:///{folder}/bench.db") as store:
        floor, (rate, slowest) = between(context.sqlite_floor, lambda: _threads(store, context.count(1_000, 50), 20))
    detail = f"{rate.per_second:,.0f}/s of {floor.per_second:,.0f}/s"
    return [
        at_least("1,000 threads at once, SQLite", rate.per_second / floor.per_second, 1.5, detail=detail),
        at_most("slowest single call, threads", slowest, 1, "s"),
    ]


def syncs(context: Context) -> list[Figure]:
    """Syncs per durable write, one writer, averaged over checkpoints of the WAL."""
    count = context.count(3_000, 500)
    with context.scratch() as folder, counting_syncs() as counted:
        with perdure.open(f"sqlite:///{folder}/bench.db") as store:
            session = store.session("one-writer")
            before = counted.count
            for _ in range(count):
                session.say("user", TEXT)
            sync_count = counted.count - before
    return [
        at_most("syncs per durable write", sync_count / count, 1.05, "syncs", detail=f"{sync_count} for {count} turns")
    ]


def _next_thousand(store: Any, session: Any) -> tuple[int, int]:
    """Statements and bytes of 1,000 turns, from an empty WAL to an empty WAL: all that they write."""
    raw = caller_of(store).core.lane._connection.raw  # looking into our own store is what this is for
    list(raw.execute("PRAGMA wal_checkpoint(TRUNCATE)"))
    before = _written()
    with counting_statements(store) as statements:
        for _ in range(1_000):
            session.say("user", TEXT)
    list(raw.execute("PRAGMA wal_checkpoint(TRUNCATE)"))
    return statements.count, _written() - before


def _written() -> int:
    with Path("/proc/self/io").open(encoding="ascii") as io:
        return next(int(line.split()[1]) for line in io if line.startswith("wchar"))


def flat_cost(context: Context) -> list[Figure]:
    """Bytes and statements of the next 1,000 turns when the session is 10³, 10⁴ and 10⁵ turns old."""
    ages = [1_000, 10_000, context.count(100_000, 20_000)]
    costs: list[tuple[int, int]] = []
    with context.scratch() as folder, perdure.open(f"sqlite:///{folder}/bench.db") as store:
        session = store.session("old")
        turns = 0
        for age in ages:
            while turns < age:
                step = min(500, age - turns)
                say_many(store, "old", step)
                turns += step
            costs.append(_next_thousand(store, session))
            turns += 1_000
    statements, written = zip(*costs, strict=True)
    detail = " · ".join(
        f"{age:,}: {count:,} statements, {size / 1e6:.1f} MB" for age, (count, size) in zip(ages, costs, strict=True)
    )
    return [
        at_most("growth of statements with age", max(statements) / min(statements) - 1, 0.1, "share", detail=detail),
        at_most("growth of bytes with age", max(written) / min(written) - 1, 0.1, "share"),
    ]


def disk(context: Context) -> list[Figure]:
    """Disk after 400 turns of 2 KB of random text, each with a checkpoint of the whole state."""
    source = random.Random(7)
    letters = "abcdefghijklmnopqrstuvwxyz ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.,;"
    with context.scratch() as folder:
        with perdure.open(f"sqlite:///{folder}/bench.db") as store:
            session = store.session("growing")
            state: dict[str, list[str]] = {"turns": []}
            for _ in range(context.count(400, 40)):
                text = "".join(source.choices(letters, k=2_000))
                session.say("user", text)
                state["turns"].append(text)
                session.checkpoint(state)
        size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    return [at_most("disk after 400 turns and checkpoints", size / 1e6, 5, "MB")]


CASES = [
    Benchmark("writer", "one writer, 1 KiB turns, SQLite", one_writer_sqlite),
    Benchmark("writer-postgres", "one writer, 1 KiB turns, PostgreSQL", one_writer_postgres, needs_postgres=True),
    Benchmark("crowd", "1,000 sessions × 20 turns at once, async, SQLite", crowd_sqlite),
    Benchmark(
        "crowd-postgres", "1,000 sessions × 20 turns at once, async, PostgreSQL", crowd_postgres, needs_postgres=True
    ),
    Benchmark("threads", "1,000 threads × 20 turns at once, SQLite", threads_sqlite),
    Benchmark("syncs", "syncs per durable write", syncs),
    Benchmark("flat", "the next 1,000 turns at 10³, 10⁴, 10⁵", flat_cost),
    Benchmark("disk", "disk after 400 turns with checkpoints", disk),
]
