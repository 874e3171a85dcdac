"""`perdure envelope`, `handover` and `adopt`: the state needed to resume a run, and resuming it elsewhere."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from perdure.cli.finding import find_run
from perdure.cli.given import read_given
from perdure.cli.keys import check_new, write_private
from perdure.cli.names import argument, run_names
from perdure.cli.options import StoreOptions, command, reads, writes
from perdure.cli.output import bytes_size, counted, moment, note, say_facts, say_heading, say_json, say_prose
from perdure.cli.tables import Column, folded, say_table, state
from perdure.errors import Conflict, Damaged, Invalid, NotFound, Refused, TooLarge
from perdure.model.instants import to_datetime
from perdure.model.limits import VALUE_MAX_BYTES
from perdure.model.records.envelope import ENVELOPE_MAX_BYTES, Envelope, WaitPart
from perdure.model.records.runs import WaitState

if TYPE_CHECKING:
    from perdure.handles.sync.store import Store

FILE, BLOBS = "envelope.json", "blobs"
CLAIM = "adopted-by"  # in a folder: the store that adopted it

PENDING = (
    Column("effect", lambda effect: effect.id),
    Column("tool", lambda effect: f"{effect.tool} ({effect.kind})"),
    state("state", lambda effect: effect.state),
    Column("sent key", lambda effect: effect.handed, spare=True),
    Column("undo", lambda effect: effect.undo, spare=True),
    folded("do", lambda effect: f"{effect.action}: {effect.reason}"),
)
WAITS = (
    Column("number", lambda wait: wait.seq),
    Column("for", lambda wait: wait.kind),
    folded("what", lambda wait: wait.name or _question(wait)),
    Column("until", lambda wait: None if wait.expires_at is None else moment(to_datetime(wait.expires_at))),
)


def _question(wait: WaitPart) -> object:
    return wait.meant.doc.get("question") if isinstance(wait.meant.doc, dict) else None


@command(
    "envelope",
    "perdure envelope 4f1c2a9b77d0",
    "perdure envelope 4f1c2a9b77d0 --save copy-of-4f1c",
    "perdure envelope 4f1c2a9b77d0 --json > envelope.json",
)
@argument("run", run_names)
@click.option(
    "--save", metavar="FOLDER", type=click.Path(path_type=Path), help="Write it and its blobs to a new folder."
)
@reads
def envelope(asked: StoreOptions, *, run: str, save: Path | None) -> None:
    """Show the state needed to resume RUN: its position, its open work and what to do about it, and a verdict.

    With --json: the envelope itself, with its digest, as `perdure adopt` reads it.
    """
    with asked.open() as store:
        found = find_run(store, run).envelope()
        if save is not None:
            _save(store, found, save)
    if asked.as_json:
        click.echo(found.to_json())
    else:
        _say(found)


def _say(found: Envelope) -> None:
    run, cursor = found.run, found.cursor
    say_facts(
        {
            "run": run.name,
            "agent": run.agent,
            "status": run.status,
            "program": f"{run.program}{' (pinned)' if run.pinned else ''}",
            "pins": found.pins,
            "workspace": found.workspace,
            "cut": f"{cursor.cut}, after event {cursor.cut_seq} of {cursor.seq}",
            "done since": counted(cursor.done, "place"),
            "last step": cursor.last,
            "checkpoint": bytes_size(found.checkpoint.size) if found.checkpoint else None,
            "artifacts": found.artifacts,
            "children": [child.run.name for child in found.children],
            "size": bytes_size(len(found.to_json())),
        }
    )
    if found.pending:
        say_heading("Effects that are not settled")
        say_table(PENDING, found.pending)
    open_ones = [each for each in found.waits if each.state is WaitState.OPEN]
    if open_ones:
        say_heading("Waits for")
        say_table(WAITS, open_ones)
    say_heading(f"Verdict: {found.verdict.standing.value}")
    say_prose(found.verdict.says)


def _save(store: Store, found: Envelope, folder: Path) -> None:
    """The envelope and its blobs in a new folder; the envelope last, so that what has one is whole."""
    check_new(folder, "folder")
    blobs = store.artifacts_of(found)
    (folder / BLOBS).mkdir(parents=True, mode=0o700)
    for address, data in blobs.items():
        write_private(folder / BLOBS / address, data, "folder")
    write_private(folder / FILE, found.to_json(), "folder")
    note(f"saved, with {counted(len(blobs), 'blob')}, to {folder}")


@command(
    "handover",
    "perdure handover 4f1c2a9b77d0 moving --dry-run",
    "perdure handover 4f1c2a9b77d0 moving && perdure adopt moving --store postgresql://me@host/db",
)
@argument("run", run_names)
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--dry-run", is_flag=True, help="Only show what would be handed over.")
@writes
def handover(asked: StoreOptions, *, run: str, folder: Path, dry_run: bool) -> None:
    """Write the envelope of RUN and its blobs to a new FOLDER, and let the run continue only in the store that adopts it.

    The run is parked here, and so are the runs that it waits for. `perdure unpark` takes it back, as long as no store has
    adopted it.
    """
    check_new(folder, "folder")
    with asked.open() as store:
        handle = find_run(store, run)
        found = handle.envelope() if dry_run else handle.hand_over()
        if not dry_run:
            _save(store, found, folder)
    if asked.as_json:
        say_json({"dry_run": dry_run, "run": found.run.name, "folder": str(folder), "artifacts": found.artifacts})
        return
    _say(found)
    note("nothing was changed: a dry run" if dry_run else f"it continues where {folder} is adopted")


@command(
    "adopt",
    "perdure adopt moving --store postgresql://me@host/db",
    "perdure adopt copy-of-4f1c --lost --actor alice --json",
)
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--lost", is_flag=True, help="Its store is gone for good, and the run was not handed over.")
@writes
def adopt(asked: StoreOptions, *, folder: Path, lost: bool) -> None:
    """Continue here a run that another store handed over to FOLDER. It keeps its name and the keys of its effects.

    With --lost every effect that was planned or under way is in doubt, and is settled by rule or by you. So is each new effect,
    because the lost store may have sent it. `perdure resume RUN --vouch` says that it did not.
    """
    from perdure.runtime.callers import caller_of  # noqa: PLC0415 - help must not load this

    data = _read(folder / FILE, ENVELOPE_MAX_BYTES)
    with asked.open() as store, _claimed(folder, caller_of(store).core.uid):
        record = store.adopt(data, _Folder(folder / BLOBS), lost=lost).record
    if asked.as_json:
        say_json(record)
        return
    say_facts({"run": record.id, "agent": record.agent, "status": record.status, "key": record.key})
    note("a worker may take it now")


@contextmanager
def _claimed(folder: Path, store: str) -> Iterator[None]:
    """Let one store adopt a folder: the first one leaves its id there. A refusal leaves nothing."""
    marker = folder / CLAIM
    try:
        with marker.open("x") as file:
            file.write(store)
            file.flush()
            os.fsync(file.fileno())
    except FileExistsError:
        _check_own(marker, store)
        yield
        return
    except OSError as error:
        hint = "another store must see that it is adopted here: make the folder writable"
        raise Refused(f"the folder cannot be claimed: {error.strerror}", path=str(marker), hint=hint) from error
    try:
        yield
    except (Invalid, Conflict, Refused, Damaged):  # nothing was adopted; of anything else that is not known
        marker.unlink()
        raise


def _check_own(marker: Path, store: str) -> None:
    """Conflict if another store has claimed the folder. One that died in the middle comes again."""
    other = _read(marker, 1_000).decode(errors="replace").strip()
    if other != store:
        raise Conflict(
            f"store {other[:40]} has adopted this folder, or was about to", path=str(marker),
            hint="adopted twice, a run acts twice; if that store does not have it (`perdure runs`), remove this file",
        )  # fmt: skip


class _Folder(Mapping[str, bytes]):
    """Blobs in the files of a folder, named by their addresses."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __getitem__(self, address: str) -> bytes:
        path = self._folder / address
        if not path.is_file():
            raise KeyError(address)
        return _read(path, VALUE_MAX_BYTES)

    def __iter__(self) -> Iterator[str]:
        return (path.name for path in self._folder.iterdir())

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _read(path: Path, max_bytes: int) -> bytes:
    try:
        if path.stat().st_size > max_bytes:
            raise TooLarge(f"at most {max_bytes} bytes are read", path=str(path))
        return read_given(path)
    except FileNotFoundError:
        raise NotFound(
            "there is no such file", path=str(path), hint="`perdure handover` writes such a folder"
        ) from None
    except NotADirectoryError:
        raise Invalid(
            "this is a file", path=str(path.parent), hint="name the folder that `perdure handover` wrote, not a file"
        ) from None
