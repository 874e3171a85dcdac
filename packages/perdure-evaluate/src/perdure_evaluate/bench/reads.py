"""Cases of reading, and of getting going: pages, tails, imports."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from importlib import metadata
from typing import Any

import perdure
from perdure_evaluate.bench.case import Benchmark, Context, Figure, at_most
from perdure_evaluate.bench.raw_events import DAY_US, fill_events, fill_raw, raw_page, say_many, start_us

KINDS, ACTORS, DAYS = 20, 50, 30


def _side_by_side(count: int, *acts: Callable[[int], Any]) -> list[list[float]]:
    """The times of each, taken in turn: whatever disturbs the machine, and the tail is made of that, disturbs all alike."""
    rounds = [[_time_ms(act, number) for act in acts] for number in range(count)]
    return [list(times) for times in zip(*rounds, strict=True)]


def _time_ms(act: Callable[[int], Any], number: int) -> float:
    began = time.perf_counter()
    act(number)
    return (time.perf_counter() - began) * 1000


def _p99(times: list[float]) -> float:
    return statistics.quantiles(times, n=100)[98]


def tail(context: Context) -> list[Figure]:
    """The last 20 turns of a session of 100,000 turns, and of 1,000."""
    old, young = context.count(100_000, 10_000), 1_000
    with context.scratch() as folder, perdure.open(f"sqlite:///{folder}/bench.db") as store:
        medians = []
        for name, turns in (("young", young), ("old", old)):
            for first in range(0, turns, 500):
                count = min(500, turns - first)
                say_many(store, name, count)
            session = store.session(name)
            times = [_time_ms(lambda _, session=session: session.turns(last=20), number) for number in range(300)]
            medians.append(statistics.median(times))
    return [
        at_most(
            "last 20 turns of 100,000, p50", medians[1], 1, "ms", detail=f"of {young:,} turns: {medians[0]:.2f} ms"
        ),
    ]


def _page_figure(name: str, context: Context, url: str) -> list[Figure]:
    rows = context.count(1_000_000, 20_000)
    with perdure.open(url) as store:
        fill_events(store, rows, kinds=KINDS, actors=ACTORS, days=DAYS)
        raw = fill_raw(store, rows, kinds=KINDS, actors=ACTORS, days=DAYS)

        def since(number: int) -> int:
            return start_us() + (number % DAYS) * DAY_US

        def ours(number: int) -> None:
            page = store.events(
                kind=f"kind.{number % KINDS}",
                actor=f"actor {number % ACTORS}",
                since=since(number),
                until=since(number) + DAY_US,
                limit=50,
            )
            assert len(page) <= 50

        def raws(number: int) -> None:
            first = since(number)
            raw_page(raw, f"kind.{number % KINDS}", f"actor {number % ACTORS}", first, first + DAY_US)

        raw_times, our_times = _side_by_side(600, raws, ours)
    ratio = _p99(our_times) / _p99(raw_times)
    detail = f"{_p99(our_times):.2f} ms beside {_p99(raw_times):.2f} ms raw, {rows:,} rows"
    return [at_most(f"a filtered page of 50, p99, {name}", ratio, 2, "× raw", detail=detail)]


def page_sqlite(context: Context) -> list[Figure]:
    """A filtered page of 50 events over 1 M, SQLite."""
    with context.scratch() as folder:
        return _page_figure("SQLite", context, f"sqlite:///{folder}/bench.db")


def page_postgres(context: Context) -> list[Figure]:
    """A filtered page of 50 events over 1 M, PostgreSQL."""
    assert context.postgres is not None
    return _page_figure("PostgreSQL", context, context.postgres)


def getting_going(_context: Context) -> list[Figure]:
    """`import perdure` in a new interpreter, beside the empty interpreter; packages that the core installs."""
    with_it = [_interpreter_s("import perdure; perdure.open") for _ in range(7)]
    without = [_interpreter_s("pass") for _ in range(7)]
    packages = _installed("perdure")
    return [
        at_most("import perdure", statistics.median(with_it) - statistics.median(without), 0.15, "s"),
        at_most("packages that the core installs", len(packages), 10, "packages", detail=" ".join(sorted(packages))),
    ]


def _interpreter_s(code: str) -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ})  # noqa: S603 - our own interpreter
    return time.perf_counter() - began


def _installed(name: str, names: set[str] | None = None) -> set[str]:
    """Every distribution that installing this one brings, itself not counted."""
    from packaging.requirements import Requirement  # noqa: PLC0415 - comes with the development tools

    names = set() if names is None else names
    for line in metadata.requires(name) or ():
        needed = Requirement(line)
        applies = needed.marker is None or needed.marker.evaluate({"extra": ""})
        if applies and needed.name.lower() not in names:
            names.add(needed.name.lower())
            _installed(needed.name, names)
    return names


CASES = [
    Benchmark("tail", "the last 20 turns of a 100,000-turn session", tail),
    Benchmark("page", "a filtered page of 50 over 1 M events, SQLite", page_sqlite),
    Benchmark("page-postgres", "a filtered page of 50 over 1 M events, PostgreSQL", page_postgres, needs_postgres=True),
    Benchmark("start", "import time and packages", getting_going),
]
