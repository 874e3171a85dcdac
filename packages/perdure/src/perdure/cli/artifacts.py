"""`perdure artifacts` and `perdure collect`: what was kept, and freeing what nothing needs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from perdure.cli.filters import filtered_by
from perdure.cli.options import StoreOptions, command, reads, writes
from perdure.cli.output import bytes_size, note, say_facts, say_json
from perdure.cli.progress import progress
from perdure.cli.show import records
from perdure.cli.tables import Column, is_filtered, say_page
from perdure.model.filters import ArtifactFilters

if TYPE_CHECKING:
    from perdure.handles.sync.store import Store
    from perdure.model.records.artifacts import CollectReport

COLUMNS = (
    Column("session", lambda artifact: artifact.session),
    Column("seq", lambda artifact: artifact.seq),
    Column("name", lambda artifact: artifact.name),
    Column("type", lambda artifact: artifact.media_type),
    Column("size", lambda artifact: bytes_size(artifact.size)),
    Column("hash", lambda artifact: artifact.hash),
    Column("actor", lambda artifact: artifact.actor),
    Column("at", lambda artifact: artifact.at),
)


@command(
    "artifacts",
    "perdure artifacts --since 7d",
    "perdure artifacts --media-type text/plain --json",
    "perdure artifacts --save 9f86d081 build.log",
)
@filtered_by(ArtifactFilters)
@click.option(
    "--save",
    nargs=2,
    metavar="HASH PATH",
    help="Instead of a list: write this content to a file, verified. The first 8 digits will do if no other begins so.",
)
@reads
def artifacts(asked: StoreOptions, *, save: tuple[str, str] | None, **filters: Any) -> None:
    """List artifacts of all sessions, newest first; or save one to a file."""
    with asked.open() as store:
        if save is None:
            found = records(store.artifacts(**filters))
            say_page(found, COLUMNS, as_json=asked.as_json, what="artifacts", filtered=is_filtered(filters))
        else:
            _save(store, save[0], Path(save[1]), as_json=asked.as_json)


def _save(store: Store, digits: str, path: Path, *, as_json: bool) -> None:
    found = store.artifact(digits)
    saved = found.save(path)
    if as_json:
        say_json({"path": str(saved), "artifact": found.record})
    else:
        note(f"saved {bytes_size(found.size)} to {saved}")


@command("collect", "perdure collect", "perdure collect --execute", "perdure collect --grace 1d --execute --json")
@click.option("--execute", is_flag=True, help="Really remove; without this, only say what would go.")
@click.option(
    "--grace",
    metavar="AGE",
    default="1h",
    show_default=True,
    help="Leave files alone that were put within this time: longer than any upload takes.",
)
@writes
def collect(asked: StoreOptions, *, execute: bool, grace: str) -> None:
    """Remove blobs that nothing refers to any more, and files without a blob. A dry run unless --execute."""
    with asked.open() as store, progress("collecting") as step:
        report = store.collect(grace, dry_run=not execute, progress=step)
    if asked.as_json:
        say_json(report)
        return
    say_facts(
        {
            "blobs": str(report.blobs),
            "bytes": bytes_size(report.bytes),
            "files without a blob": str(report.files),
            "unfinished uploads": str(report.leftovers),
        }
    )
    note(_outcome(report))


def _outcome(report: CollectReport) -> str:
    if not (report.blobs or report.files or report.leftovers):
        return "nothing to remove"
    return "nothing was removed: a dry run; --execute removes" if report.dry_run else "removed"
