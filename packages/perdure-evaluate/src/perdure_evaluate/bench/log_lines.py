"""Cases of the files store: appending lines when the log is young and old, and opening it with its cache and without."""

from __future__ import annotations

import asyncio
import shutil
import time
from pathlib import Path
from typing import Any

import perdure
from perdure_evaluate.bench.case import Benchmark, Context, Figure, alternating, at_least, at_most
from perdure_evaluate.bench.floor import Rate, append_floor, timed

TEXT = "x" * 1024
SESSIONS = 500  # that fill a log together: their lines share their syncs


async def _filled(url: str, lines: int) -> None:
    async with await perdure.aopen(url) as store:
        sessions = await asyncio.gather(*(store.session(f"s{number}") for number in range(min(SESSIONS, lines))))

        async def say(session: Any) -> None:
            for _ in range(lines // len(sessions) - 1):
                await session.say("user", TEXT)

        await asyncio.gather(*map(say, sessions))


def _says(url: str, count: int) -> Rate:
    with perdure.open(url) as store:
        session = store.session("one-writer")
        for _ in range(20):
            session.say("user", TEXT)

        def act() -> None:
            for _ in range(count):
                session.say("user", TEXT)

        return timed(count, act)


def appending(context: Context) -> list[Figure]:
    """One writer on a files store with 100 lines and with 100,000, beside a plain file that is appended to and synced."""
    return [_appended(context, context.count(full, least)) for full, least in ((100, 100), (100_000, 2_000))]


def _appended(context: Context, lines: int) -> Figure:
    count = context.count(1_000, 100)
    with context.scratch() as folder:
        url = f"files:///{folder}/bench"
        asyncio.run(_filled(url, lines))
        floor, rate = alternating(lambda: append_floor(folder, count), lambda: _says(url, count))
    detail = f"{rate.per_second:,.0f}/s of {floor.per_second:,.0f}/s, {rate.cpu_us:.0f} µs of CPU each"
    return at_least(f"appends of 1 KiB, files, {lines:,} lines", rate.per_second / floor.per_second, 0.5, detail=detail)


def _opened_s(url: str) -> tuple[float, float]:
    """How long it takes to open, and what that costs in CPU."""
    cpu, clock = time.process_time(), time.perf_counter()
    with perdure.open(url):
        return time.perf_counter() - clock, time.process_time() - cpu


def opening(context: Context) -> list[Figure]:
    """A files store of 100,000 lines: opened with its cache, and with a cache that must be made from the log."""
    lines = context.count(100_000, 2_000)
    with context.scratch() as folder:
        url = f"files:///{folder}/bench"
        asyncio.run(_filled(url, lines))
        _opened_s(url)
        cached, _ = _opened_s(url)
        shutil.rmtree(Path(folder) / "bench" / ".perdure")
        rebuilt, cpu = _opened_s(url)
    return [
        at_most(f"open, files, {lines:,} lines, with the cache", cached, 0.1, "s"),
        at_most(f"open, files, {lines:,} lines, cache rebuilt", rebuilt, 5, "s", detail=f"{cpu:.1f} s of CPU"),
    ]


CASES = [
    Benchmark("files", "one writer on a files store, young and old, beside synced appends", appending),
    Benchmark("files-open", "opening a files store of 100,000 lines, with and without its cache", opening),
]
