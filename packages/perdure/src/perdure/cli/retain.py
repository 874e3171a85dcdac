"""`perdure retain`: what may go, goes; a dry run unless it is told to."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from perdure.cli.anchors import READABLE_FILE
from perdure.cli.given import read_given
from perdure.cli.options import StoreOptions, command, writes
from perdure.cli.output import bytes_size, counted, note, plain, say_json
from perdure.cli.progress import progress
from perdure.cli.tables import Column, say_table

if TYPE_CHECKING:
    from perdure.model.records.retention import RetainReport, Retention

COLUMNS = (
    Column("what", lambda found: found.kind),
    Column("name", lambda found: found.name),
    Column("checkpoints", lambda found: len(found.checkpoints)),
    Column("turns", lambda found: len(found.turns)),
    Column("values", lambda found: len(found.values)),
    Column("events", lambda found: len(found.events)),
    Column("said", lambda found: bytes_size(found.bytes)),
)


@command(
    "retain",
    "perdure retain --checkpoints 5",
    "perdure retain --turns 50 --older-than 30d",
    "perdure retain --checkpoints 1 --label scratch --except-label hold --apply",
    "perdure retain --checkpoints 3 --larger-than 10MiB --apply --json",
    "perdure retain --sessions --runs --older-than 90d --except-label hold",
    "perdure retain --values 10 --emitted 1000 --older-than 30d",
    "perdure retain --policy retention.toml --apply",
)
@click.option("--checkpoints", metavar="N", type=click.IntRange(1), help="Keep the newest N checkpoints of each name.")
@click.option(
    "--turns", metavar="N", type=click.IntRange(0), help="Remove turns that a summary covers, except the newest N."
)
@click.option(
    "--sessions", is_flag=True, default=None, help="Remove turns, checkpoints and emitted events of ended sessions."
)
@click.option("--runs", is_flag=True, default=None, help="Remove all checkpoints and steps of runs that are over.")
@click.option(
    "--values",
    metavar="N",
    type=click.IntRange(1),
    help="Keep the newest N versions of each value.",
)
@click.option(
    "--emitted", metavar="N", type=click.IntRange(0), help="Keep the newest N emitted events of each session and scope."
)
@click.option("--session", metavar="NAME", help="Only of this session, and of its runs.")
@click.option("--older-than", metavar="AGE", help="Only what is older: 90s, 24h, 30d.")
@click.option("--label", metavar="LABEL", help="Only of sessions with this label, and of their runs.")
@click.option("--except-label", metavar="LABEL", help="Not of sessions with this label, nor of their runs.")
@click.option("--larger-than", metavar="SIZE", help="Only of sessions and runs that take more: 500KiB, 10MiB.")
@click.option(
    "--policy", type=READABLE_FILE, help="Rules from a TOML file: a [[rule]] for each, with these very names."
)
@click.option(
    "--apply", "--execute", "execute", is_flag=True, help="Really remove; without this, only say what would go."
)
@writes
def retain(asked: StoreOptions, *, policy: Path | None, execute: bool, **rule: Any) -> None:
    """Remove old checkpoints, turns that a summary covers, old values and emitted events, and ended work. A dry run unless
    --apply.

    Blobs that nothing needs go last. The rest reads back as before, also in forks; unfinished runs keep everything. The removal
    is recorded, and hashes stay: the chain still verifies, and `perdure verify` lists what can no longer be compared. If it is
    interrupted, run it again.
    """
    rules = _rules(policy, {name: value for name, value in rule.items() if value is not None})
    with asked.open() as store, progress("letting go" if execute else "looking") as step:
        report = store.retain(*rules, dry_run=not execute, progress=step)
    if asked.as_json:
        counts = {
            "checkpoints": report.checkpoints,
            "turns": report.turns,
            "values": report.values,
            "events": report.events,
        }
        say_json({**counts, **plain(report)})
    else:
        say_report(report)


def _rules(policy: Path | None, flags: dict[str, Any]) -> list[Retention]:
    from perdure.planes.retention.policy import policy_rules, rule_of  # noqa: PLC0415 - help must not load the planes

    if (policy is None) == (not flags):
        raise click.UsageError("expected rules as options (--checkpoints N, --turns N …), or --policy FILE")
    return [rule_of(flags, "rule")] if policy is None else policy_rules(read_given(policy))


def say_report(report: RetainReport) -> None:
    """The parts that went, or would go, for people."""
    if report.streams:
        say_table(COLUMNS, report.streams)
    counts = {
        "checkpoint": report.checkpoints, "turn": report.turns, "version of values": report.values, "event": report.events,
        "blob": report.blobs,
    }  # fmt: skip
    gone = ", ".join(counted(count, what) for what, count in counts.items())
    if not (report.streams or report.blobs):
        note("nothing to remove")
    elif report.dry_run:
        note(f"would be removed: {gone}: {bytes_size(report.bytes)}. A dry run; --apply removes it")
    else:
        note(f"removed: {gone}: {bytes_size(report.bytes)}")
    if report.lingering:
        why = "--apply takes them out" if report.dry_run else "a file is damaged (perdure doctor)"
        note(f"removed bodies of {counted(report.lingering, 'event')} still stand in lines of the log: {why}")
