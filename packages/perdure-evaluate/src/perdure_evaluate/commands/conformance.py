"""`perdure conformance`: try a worker in any language. The program stands in `perdure_evaluate.conformance`."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from perdure.cli.options import command, json_option, log_options
from perdure.cli.output import note, say_facts, say_json
from perdure.errors import Failed, Invalid

SHOWN_MAX = 5


@command(
    "conformance",
    "perdure conformance node clients/typescript/conformance/worker.js",
    "perdure conformance --faults 500 --workers 4 ./my-worker",
)
@click.argument("worker", nargs=-1, type=click.UNPROCESSED, required=True)
@click.option(
    "--faults", type=click.IntRange(1, 100_000), default=50, show_default=True, help="Kills and pauses, at least."
)
@click.option("--workers", type=click.IntRange(2, 64), default=3, show_default=True, help="Processes at once.")
@click.option("--seed", type=click.IntRange(0, 2**31), default=1, show_default=True, help="Decides every choice.")
@click.option("--keep", type=click.Path(path_type=Path, file_okay=False), help="Where the store and the logs are kept.")
@json_option
@log_options
def conformance(
    worker: tuple[str, ...], *, faults: int, workers: int, seed: int, keep: Path | None, as_json: bool
) -> None:
    """Drive a worker in any language over HTTP: it is killed, stopped past its lease, cut off, repeated and given wrong
    tokens. Counted is what was lost, done twice or stranded.

    WORKER is the command that starts it. It reads PERDURE_URL, PERDURE_TOKEN and PERDURE_OUTSIDE from its environment, and
    drives the agents `conformance` and `conformance-child` (docs/guide/other-languages.md). Exits with 1 if it does not conform.
    """
    try:
        import uvicorn  # noqa: F401, PLC0415 - an extra, loaded where it is used
    except ImportError as error:
        hint = "pip install 'perdure[server]'"
        raise Invalid("the extra `server` is not installed", path="conformance", hint=hint) from error
    from perdure_evaluate.conformance.program import ConformancePlan, conform  # noqa: PLC0415 - help must not load it

    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
    report = conform(worker, ConformancePlan(faults=faults, workers=workers, seed=seed), note, keep)
    facts = msgspec.to_builtins(report)
    if as_json:
        say_json(facts | {"conforms": report.conforms})
    else:
        say_facts({name: _text_of(value) for name, value in facts.items()})
    if not report.conforms:
        raise Failed(
            "the worker does not conform", code="Nonconforming", path="worker", hint="--keep DIR keeps the logs"
        )


def _text_of(value: object) -> str:
    match value:
        case []:
            return "0"
        case list():
            more = f" … {len(value)} in all" if len(value) > SHOWN_MAX else ""
            return "; ".join(map(str, value[:SHOWN_MAX])) + more
        case dict():
            return ", ".join(f"{name} {count}" for name, count in value.items())
    return str(value)
