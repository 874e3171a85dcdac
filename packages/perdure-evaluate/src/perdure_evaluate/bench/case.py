"""A case, and the means that it is given."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from perdure.stores import url as store_url
from perdure_evaluate.bench.floor import Rate, postgres_floor, sqlite_floor


class Figure(msgspec.Struct, frozen=True):
    """One measured figure. `target` is what it is to reach, as text; `met` whether it does."""

    measure: str
    value: float
    unit: str
    target: str
    met: bool
    detail: str = ""


class Context(msgspec.Struct):
    """Where a case may work and how much it should do (1.0 is the full size)."""

    folder: Path
    postgres: str | None
    scale: float = 1.0

    def count(self, full: int, least: int = 1) -> int:
        """A number of things, scaled."""
        return max(least, round(full * self.scale))

    @contextmanager
    def scratch(self) -> Iterator[Path]:
        """A folder that is gone afterwards."""
        folder = Path(tempfile.mkdtemp(dir=self.folder))
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def sqlite_floor(self) -> Rate:
        """The floor of SQLite, now."""
        with self.scratch() as folder:
            return sqlite_floor(folder, self.count(1_000, 100))

    def postgres_floor(self) -> Rate:
        """The floor of PostgreSQL, now."""
        assert self.postgres is not None
        return postgres_floor(store_url.parse(self.postgres).conninfo, self.count(500, 100))


class Benchmark(msgspec.Struct, frozen=True):
    """One benchmark: a name to choose it by, what it needs, and what it does."""

    name: str
    about: str
    run: Callable[[Context], list[Figure]]
    needs_postgres: bool = False


def between(floor: Callable[[], Rate], act: Callable[[], Any]) -> tuple[Rate, Any]:
    """The mean of the floors just before and just after, and what was measured between them."""
    before = floor()
    measured = act()
    after = floor()
    return Rate((before.per_second + after.per_second) / 2, (before.cpu_us + after.cpu_us) / 2), measured


def alternating(floor: Callable[[], Rate], act: Callable[[], Rate], rounds: int = 5) -> tuple[Rate, Rate]:
    """Measure a short task several times, each between two floors: the round in the middle counts. A machine that is busy for
    a moment spoils one of them, and not the figure.
    """
    pairs = sorted(
        (between(floor, act) for _ in range(rounds)), key=lambda pair: pair[1].per_second / pair[0].per_second
    )
    return pairs[rounds // 2]


def users_environment() -> dict[str, str]:
    """The environment of a user's process: what Python has compiled is kept."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def at_least(measure: str, value: float, target: float, unit: str = "× floor", detail: str = "") -> Figure:
    """A figure that should be large."""
    return Figure(measure, value, unit, f"≥ {target:g}", value >= target, detail)


def at_most(measure: str, value: float, target: float, unit: str, detail: str = "") -> Figure:
    """A figure that should be small."""
    return Figure(measure, value, unit, f"≤ {target:g}", value <= target, detail)
