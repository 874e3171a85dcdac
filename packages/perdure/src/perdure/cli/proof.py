"""`perdure verify`, `quarantine` and `anchor`: proof that nothing was changed, and statements to keep elsewhere."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from perdure.cli.anchors import READABLE_FILE, anchored, keys_read, read_anchored
from perdure.cli.given import read_given
from perdure.cli.keys import check_new, new_key_pair, write_private
from perdure.cli.options import StoreOptions, command, whole, writes_whole
from perdure.cli.output import counted, note, plain, say_json
from perdure.cli.progress import progress
from perdure.cli.tables import Column, folded, say_table
from perdure.errors import Damaged
from perdure.model.display import visible

UNVERIFIABLE_SHOWN = 20

COLUMNS = (
    Column("problem", lambda problem: problem.kind),
    Column("stream", lambda problem: problem.stream),
    Column("seq", lambda problem: problem.seq),
    Column("table", lambda problem: problem.table),
    folded("what", lambda problem: problem.message),
)
SIGNATURES = {
    "": "",
    "good": "; the anchor's signature is good",
    "bad": "; the anchor's signature is BAD",
    "unchecked": "; the anchor's signature was NOT checked (give --public-key)",
    "unsigned": "; the anchor is NOT signed",
}


@command(
    "verify",
    "perdure verify",
    "perdure verify --anchor anchor.json --public-key anchor.pub",
    "perdure verify --json | jq '.problems[]'",
)
@anchored
@click.option("--blobs/--no-blobs", default=True, show_default=True, help="Whether to read and hash every blob.")
@whole
def verify(asked: StoreOptions, *, anchor_file: Path | None, public_key: Path | None, blobs: bool) -> None:
    """Prove that every event, row and blob is as it was written. Changes nothing; others may write meanwhile.

    Exits with 8 if anything is wrong. It reads the whole store. Without an anchor it cannot notice events that were cut off the
    end of a stream together with its head.
    """
    anchor, key = read_anchored(anchor_file, public_key)
    with asked.open_whole() as store, progress("verifying") as step, keys_read():
        report = store.verify(anchor=anchor, public_key=key, progress=step, blobs=blobs)
    if asked.as_json:
        say_json({"ok": report.ok, **plain(report)})
    else:
        _say_report(report)
    sys.exit(0 if report.ok else Damaged.exit_code)


def _say_report(report: Any) -> None:
    if report.problems:
        say_table(COLUMNS, report.problems)
    for problem in report.quarantined[:UNVERIFIABLE_SHOWN]:
        note(f"in quarantine: {problem}")
    if len(report.quarantined) > UNVERIFIABLE_SHOWN:
        note(f"… and {len(report.quarantined) - UNVERIFIABLE_SHOWN} more in quarantine (all of them with --json)")
    for gone in report.unverifiable[:UNVERIFIABLE_SHOWN]:
        note(f"no longer verifiable: {gone.stream} seq {gone.seq}: its body was pruned; the chain holds")
    if len(report.unverifiable) > UNVERIFIABLE_SHOWN:
        more = len(report.unverifiable) - UNVERIFIABLE_SHOWN
        note(f"… and {more} more such events (all of them with --json)")
    if len(report.unnamed) > 1:
        shown = ", ".join(visible(name) for name in report.unnamed[:UNVERIFIABLE_SHOWN])
        note(f"not verifiable: the log does not name these tenants: {shown}. `perdure anchor` records their names")
    counts = report.counts
    looked = ", ".join(counted(getattr(counts, f"{noun}s"), noun) for noun in ("stream", "event", "row", "blob"))
    found = "ok" if report.ok else counted(len(report.problems) + report.left_out, "problem")
    click.echo(f"{found}: {looked}{SIGNATURES[report.signature]}")


@command(
    "quarantine",
    "perdure quarantine issue-42 --because 'imported by 0.0.9'",
    "perdure quarantine issue-42 --because 'imported by 0.0.9' --apply",
)
@click.argument("stream")
@click.option("--because", required=True, metavar="TEXT", help="Why this damage is known; it is recorded.")
@click.option("--apply", is_flag=True, help="Record it; without it nothing is changed.")
@writes_whole
def quarantine(asked: StoreOptions, *, stream: str, because: str, apply: bool) -> None:
    """Record the damage of a stream as known, so that verify, move and restore pass and list it apart.

    STREAM is the name or the uid of a stream that `perdure verify` names. Nothing is mended or deleted. New damage in the same
    stream is a problem again.
    """
    with asked.open_whole() as store:
        found = store.quarantine(stream, because, apply=apply)
    if asked.as_json:
        say_json({"applied": apply, "problems": found})
        return
    say_table(COLUMNS, found)
    note("recorded: `perdure verify` lists it apart" if apply else "nothing was changed: --apply records it")


@command(
    "anchor",
    "perdure anchor --new-key anchor.key",
    "perdure anchor --key anchor.key -o anchor.json",
    "perdure anchor --key anchor.key -o - | ssh elsewhere 'cat > anchor.json'",
)
@click.option("--key", type=READABLE_FILE, help="The private key (Ed25519, PEM) to sign with.")
@click.option("-o", "--output", metavar="FILE", help="The new file where the anchor goes; - for stdout.")
@click.option(
    "--new-key",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Instead: make a key pair, FILE and FILE.pub.",
)
@click.option(
    "--unsigned", is_flag=True, help="Without a signature: anybody who can write the file can also replace it."
)
@writes_whole
def anchor(asked: StoreOptions, *, key: Path | None, output: str | None, new_key: Path | None, unsigned: bool) -> None:
    """Write a signed statement of the ends of all chains. Keep it where this store's administrators cannot change it."""
    if new_key is not None:
        if key or output or unsigned:
            raise click.UsageError("--new-key makes a key and no anchor: it stands without --key, -o and --unsigned")
        public = new_key_pair(new_key)
        note(f"made {new_key} (keep it secret) and {public} (give it to the people who verify)")
        return
    if not output or bool(key) == unsigned:
        raise click.UsageError("expected --key FILE (or --unsigned) and -o FILE; --new-key FILE makes a key")
    if output != "-":
        check_new(Path(output), "output")  # before anything is recorded
    with asked.open_whole() as store, keys_read():
        made = store.anchor(read_given(key) if key else None)
    if output == "-":
        click.echo(made.to_json())
        return
    write_private(Path(output), f"{made.to_json()}\n".encode(), "output")
    if asked.as_json:
        say_json({"path": output, "root": made.root, "heads": len(made.heads), "key": made.key})
    else:
        note(f"anchored {counted(len(made.heads), 'stream')} in {output}; keep it elsewhere")
