"""Leaving a store: how fast events go into a bundle and out of one, and into another database and back, unchanged."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import perdure
from perdure.interchange.move import move
from perdure_evaluate.bench.case import Benchmark, Context, Figure, at_least
from perdure_evaluate.bench.raw_events import fill_events, say_many

EVENTS = 100_000
SESSION_TURNS = 100


def _fill(url: str, events: int) -> None:
    """Half of them in one long session, the rest in many short ones, with values that change."""
    with perdure.open(url) as store:
        fill_events(store, events // 2, kinds=20, actors=5, days=3)
        for number in range(max(1, events // 2 // (SESSION_TURNS + 2))):
            say_many(store, f"session {number}", SESSION_TURNS)
            store.session(f"session {number}").set("turns", number)


def _rate(count: int, act: Callable[[], Any]) -> float:
    began = time.perf_counter()
    act()
    return count / (time.perf_counter() - began)


def _exported(url: str, path: Path) -> tuple[bytes, int]:
    with perdure.open(url, read_only=True) as store:
        report = store.export(path, everything=True)
    return path.read_bytes(), report.events


def moves(context: Context) -> list[Figure]:
    """Files → SQLite → PostgreSQL → files, with everything proved on each side."""
    assert context.postgres is not None
    with context.scratch() as folder:
        stores = {
            "files": f"files:///{folder}/first",
            "SQLite": f"sqlite:///{folder}/second.db",
            "PostgreSQL": f"{context.postgres}&artifacts=file://{folder}/places",
            "files again": f"files:///{folder}/last",
        }
        _fill(stores["files"], context.count(EVENTS, 2_000))
        before, events = _exported(stores["files"], folder / "before")
        detail = f"{events:,} events; every chain compared, and the target's log folded to its rows"
        figures = [_moved(events, source, target, detail) for source, target in pairwise(stores.items())]
        after, _ = _exported(stores["files again"], folder / "after")
        same = at_least("bytes of the export after all moves equal those before", float(before == after), 1, "yes")
        return [*figures, same]


def _moved(events: int, source: tuple[str, str], target: tuple[str, str], detail: str) -> Figure:
    rate = _rate(events, lambda: move(source[1], target[1], actor="bench"))
    return at_least(f"move {source[0]} → {target[0]}", rate, 1_000, "events/s", detail)


def bundles(context: Context) -> list[Figure]:
    """Everything of a store into one file, and into another store."""
    with context.scratch() as folder:
        source = f"sqlite:///{folder}/source.db"
        _fill(source, context.count(EVENTS, 2_000))
        counts: list[int] = []
        events = context.count(EVENTS, 2_000)
        out = _rate(events, lambda: counts.append(_exported(source, folder / "x")[1]))
        with perdure.open(f"sqlite:///{folder}/target.db") as target:
            back = _rate(counts[0], lambda: target.import_(folder / "x"))
        detail = f"{counts[0]:,} events, {(folder / 'x').stat().st_size / 1e6:.0f} MB"
        return [
            at_least("export into a bundle", out, 5_000, "events/s", detail),
            at_least("import, verified and rehearsed first", back, 2_000, "events/s", detail),
        ]


CASES = [
    Benchmark(
        "move", "100,000 events: files, SQLite, PostgreSQL, files again, bytes compared", moves, needs_postgres=True
    ),
    Benchmark("bundle", "100,000 events into a bundle and out of it", bundles),
]
