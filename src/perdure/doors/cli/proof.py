"""`perdure verify` and `perdure anchor`: proof that nothing was changed, and statements to keep elsewhere."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from perdure.doors.cli.anchors import READABLE_FILE, anchored, read_anchored
from perdure.doors.cli.keys import new_key_pair, write_private
from perdure.doors.cli.options import Asked, command, reads, writes
from perdure.doors.cli.output import note, plain, say_json, say_table
from perdure.doors.cli.progress import progress
from perdure.errors import Damaged

UNVERIFIABLE_SHOWN = 20

COLUMNS = (
    ("problem", lambda problem: problem.kind),
    ("stream", lambda problem: problem.stream),
    ("seq", lambda problem: problem.seq),
    ("table", lambda problem: problem.table),
    ("what", lambda problem: problem.message),
)


@command(
    "verify",
    "perdure verify",
    "perdure verify --anchor anchor.json --public-key anchor.pub",
    "perdure verify --json | jq '.problems[]'",
)
@anchored
@click.option("--blobs/--no-blobs", default=True, show_default=True, help="Whether to read and hash every blob.")
@reads
def verify(asked: Asked, *, anchor_file: Path | None, public_key: Path | None, blobs: bool) -> None:
    """Prove that every event, row and blob is as it was written. Changes nothing; others may write meanwhile.

    Exits with 8 if anything is wrong. Costs a fold of every stream. Without an anchor, events that were cut
    off the end of a stream together with its head cannot be noticed by anybody.
    """
    anchor, key = read_anchored(anchor_file, public_key)
    with asked.open() as store, progress("verifying") as step:
        report = store.verify(anchor=anchor, public_key=key, progress=step, blobs=blobs)
    if asked.as_json:
        say_json({"ok": report.ok, **plain(report)})
    else:
        _say_report(report)
    sys.exit(0 if report.ok else Damaged.exit_code)


def _say_report(report: Any) -> None:
    if report.problems:
        say_table(COLUMNS, report.problems)
    for gone in report.unverifiable[:UNVERIFIABLE_SHOWN]:
        note(f"no longer verifiable: {gone.stream} seq {gone.seq}: its body was pruned; the chain holds")
    if len(report.unverifiable) > UNVERIFIABLE_SHOWN:
        more = len(report.unverifiable) - UNVERIFIABLE_SHOWN
        note(f"… and {more} more such events (all of them with --json)")
    counts = report.counts
    looked = f"{counts.streams} streams, {counts.events} events, {counts.rows} rows, {counts.blobs} blobs"
    signed = f"; the anchor's signature: {report.signature}" if report.signature else ""
    found = len(report.problems) + report.left_out
    click.echo(f"{'ok' if report.ok else f'{found} problems'}: {looked}{signed}")


@command(
    "anchor",
    "perdure anchor --new-key anchor.key",
    "perdure anchor --key anchor.key -o anchor.json",
    "perdure anchor --key anchor.key -o - | ssh elsewhere 'cat > anchor.json'",
)
@click.option("--key", type=READABLE_FILE, help="The private key (Ed25519, PEM) to sign with.")
@click.option("-o", "--output", metavar="FILE", help="Where the anchor goes; - for stdout.")
@click.option(
    "--new-key",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Instead: make a key pair, FILE and FILE.pub.",
)
@click.option("--unsigned", is_flag=True, help="Without a signature: who can write the file can also replace it.")
@writes
def anchor(asked: Asked, *, key: Path | None, output: str | None, new_key: Path | None, unsigned: bool) -> None:
    """State the ends of all chains, signed, to be kept where this store's administrators cannot change it."""
    if new_key:
        public = new_key_pair(new_key)
        note(f"made {new_key} (keep it secret) and {public} (give it to whoever verifies)")
        return
    if not output or bool(key) == unsigned:
        raise click.UsageError("expected --key FILE (or --unsigned) and -o FILE; --new-key FILE makes a key")
    with asked.open() as store:
        made = store.anchor(key.read_bytes() if key else None)
    if output == "-":
        click.echo(made.to_json())
        return
    write_private(Path(output), f"{made.to_json()}\n".encode(), replace=True)
    if asked.as_json:
        say_json({"path": output, "root": made.root, "heads": len(made.heads), "key": made.key})
    else:
        note(f"anchored {len(made.heads)} streams in {output}; keep it elsewhere")
