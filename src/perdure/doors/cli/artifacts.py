"""`perdure artifacts` and `perdure collect`: what was kept, and freeing what nothing needs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from perdure.doors.cli.options import Asked, command, pages, reads, spans, writes
from perdure.doors.cli.output import bytes_size, note, say_facts, say_json, say_page
from perdure.doors.cli.progress import progress

COLUMNS = (
    ("session", lambda artifact: artifact.session),
    ("seq", lambda artifact: artifact.seq),
    ("name", lambda artifact: artifact.name),
    ("type", lambda artifact: artifact.media_type),
    ("size", lambda artifact: bytes_size(artifact.size)),
    ("hash", lambda artifact: artifact.hash),
    ("actor", lambda artifact: artifact.actor),
    ("at", lambda artifact: artifact.at),
)


@command(
    "artifacts",
    "perdure artifacts --since 7d",
    "perdure artifacts --media-type text/plain --json",
    "perdure artifacts --save 9f86d081… build.log",
)
@click.option("--name", metavar="NAME", help="Only those of this name.")
@click.option("--media-type", metavar="TYPE", help="Only those of this media type.")
@click.option("--actor", metavar="NAME", help="Only those that this actor attached.")
@click.option("--save", nargs=2, metavar="HASH PATH", help="Instead of a list: write this content to a file, verified.")
@spans
@pages
@reads
def artifacts(asked: Asked, *, save: tuple[str, str] | None, **filters: Any) -> None:
    """List artifacts of all sessions, newest first; or save one to a file."""
    with asked.open() as store:
        if save is None:
            say_page(store.artifacts(**filters), COLUMNS, as_json=asked.as_json, none="no such artifacts")
            return
        found = store.artifact(save[0])
        path = found.save(Path(save[1]))
        if asked.as_json:
            say_json({"path": str(path), "artifact": found.record})
        else:
            note(f"saved {bytes_size(found.size)} to {path}")


@command("collect", "perdure collect", "perdure collect --execute", "perdure collect --grace 1d --execute --json")
@click.option("--execute", is_flag=True, help="Really remove; without it, only say what would be.")
@click.option(
    "--grace",
    metavar="AGE",
    default="1h",
    show_default=True,
    help="Leave files alone that were put within this time: longer than any upload takes.",
)
@writes
def collect(asked: Asked, *, execute: bool, grace: str) -> None:
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
            "leftovers": str(report.leftovers),
        }
    )
    note("nothing was removed: a dry run; --execute removes" if report.dry_run else "removed")
