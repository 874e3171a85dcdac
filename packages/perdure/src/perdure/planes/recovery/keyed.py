"""Checkpoints that a caller names: a key, a parent by key, a document, and the writes of tasks after each.

The plane behind adapters of frameworks that keep a line of checkpoints of their own (docs/decisions/0049). Keys of one name
are ordered by their bytes. The state is made of parts (`artifacts.parts`), so a save costs the parts that changed. Keeps P5 (all
rows are recorded), P8 (flat cost), P15.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from perdure.artifacts import tree
from perdure.errors import Conflict, Damaged
from perdure.log.change import Change, Stream
from perdure.log.event import Body
from perdure.model.instants import to_datetime
from perdure.model.limits import check_name, check_text
from perdure.model.records.checkpoints import CheckpointRecord
from perdure.model.values import to_plain
from perdure.planes import subjects
from perdure.planes.reading.body_reading import body_of, doc_of, stored_value
from perdure.planes.reading.lineage import segments, touching
from perdure.planes.reading.row_reading import stored_address, stored_as, stored_numbers
from perdure.planes.reading.snapshots import one_state
from perdure.planes.recovery.checkpoints import SAVED, Prepared, prepared_or_anew, take_away
from perdure.planes.tables import CHECKPOINT_WRITES, CHECKPOINTS
from perdure.stores.blobs import BlobRow
from perdure.stores.statements import Statements
from perdure.stores.store import Reads
from perdure.stores.tx import Tx

Q = Statements("perdure.planes.recovery", "keyed.sql")
WROTE = "checkpoint.wrote"

NAME_MAX_CHARS = 10_000  # frameworks nest: a subgraph's name holds those of all its parents
PAGE_ROWS = 200


class Base(NamedTuple):
    """A checkpoint that a new one builds on: whoever saves has seen its parts, and they stand while it does."""

    key: str
    root: str


class Laid(NamedTuple):
    """A state on its way in: its root, its new nodes (packed), and what those build on."""

    root: bytes
    size: int
    rows: list[BlobRow]
    leans_on: Collection[bytes] = ()
    base: Base | None = None


class KeyedCheckpoint(NamedTuple):
    """A stored checkpoint. `document` is plain data, as it was given."""

    seq: int
    name: str
    key: str
    parent_key: str | None
    root: str
    at: int
    document: Any
    session: str = ""
    stream: int = 0


class TaskWrite(NamedTuple):
    """One write of a task, plain data. A later one with the same negative index stands for it; else the first one stays."""

    idx: int
    channel: str
    document: Any


class StoredWrite(NamedTuple):
    """A write of a task as it is stored, and the number of its event."""

    task: str
    path: str
    idx: int
    channel: str
    document: Any
    seq: int


class Outdated(Conflict):
    """The nodes that a new state builds on went meanwhile (pruned and collected): lay it out anew."""


# -- writing -------------------------------------------------------------------------------------------------


def save(
    tx: Tx, stream: Stream, laid: Laid, name: str, key: str, *, parent_key: str | None = None, document: Any = None,
    about: Iterable[str] = (), derived: bool = False,
) -> int:  # fmt: skip
    """Record a checkpoint under its key; one that has this key is replaced. Returns its number.

    derived: it was made of its stream up to here (see `checkpoints.save`). Its nodes, its row and its event land together. Raises
    Outdated when what it builds on is gone: nothing is written then.
    """
    check_text(name, "name", NAME_MAX_CHARS)
    check_text(key, "key", NAME_MAX_CHARS)
    present = _with_keys(tx, stream, name, key, laid.base.key if laid.base is not None else key)
    _check_stands(tx, laid, present)
    replaced = [seq for seq, stands, _ in present if stands == key]
    if replaced:
        take_away(tx, stream, replaced)
    for row in laid.rows:
        tx.keep_row(row)
    columns = {
        "name": name, "root": laid.root.hex(), "size": laid.size, "at": tx.now, "key": key, "parent_key": parent_key,
    }  # fmt: skip
    subject_names, sources = subjects.named(about), [stream.ref(tx.seq(stream))] if derived else ()
    saved = Change(SAVED, stream, CHECKPOINTS, set=columns, doc=document, subjects=subject_names, derived_from=sources)
    return tx.record(saved)  # its row names the root


def save_prepared(
    tx: Tx, stream: Stream, prepared: Prepared, name: str, key: str, parent: str | None, document: Any,
    about: Iterable[str] = (),
) -> CheckpointRecord:  # fmt: skip
    """Record a state that was cut whole (`checkpoints.prepare`) under a key."""
    check_name(name, "name")
    check_name(key, "key")
    if parent is not None:
        check_name(parent, "parent")
    prepared = prepared_or_anew(tx, stream, prepared, name)
    laid = Laid(prepared.root, prepared.size, prepared.rows)
    plain = to_plain(document, "document")
    seq = save(tx, stream, laid, name, key, parent_key=parent, document=plain, about=about, derived=True)
    return CheckpointRecord(
        seq=seq, name=name, parent=None, hash=prepared.root.hex(), size=prepared.size, at=to_datetime(tx.now), actor=tx.actor,
        ref=stream.ref(seq), key=key, parent_key=parent,
    )  # fmt: skip


def _check_stands(tx: Tx, laid: Laid, present: Iterable[tuple[int, str, str]]) -> None:
    base = laid.base
    if base is not None and all(base != (key, root) for _, key, root in present):
        raise Outdated(f"the checkpoint {base.key!r} that this one builds on is gone", path="key")
    if set(laid.leans_on) - tx.known(laid.leans_on):
        raise Outdated("nodes that this checkpoint builds on were collected", path="key")


def _with_keys(reads: Reads, stream: Stream, name: str, key: str, base: str) -> list[tuple[int, str, str]]:
    """The checkpoints of this stream that have one of these keys: number, key and root. One query serves both."""
    touches = [(CHECKPOINTS, stream.id)]
    return reads.query(Q.keyed_standing, touches=touches, stream=stream.id, name=name, key=key, base=base)


def write(
    tx: Tx, stream: Stream, name: str, checkpoint: str, task: str, path: str, writes: Sequence[TaskWrite],
    rows: Sequence[BlobRow] = (),
) -> int | None:  # fmt: skip
    """Record writes of a task after a checkpoint, which may itself land later. Idempotent by task and index: see TaskWrite.

    rows: blobs that their documents name, packed. Returns its number; None if there was nothing new.
    """
    touches = [(CHECKPOINT_WRITES, stream.id)]
    about = {"stream": stream.id, "name": name, "checkpoint": checkpoint, "task": task}
    place_rows = tx.query(Q.writes_standing, touches=touches, **about)
    stored_places = {place for (places,) in place_rows for place in stored_numbers(places, "checkpoint_writes.places")}
    new = {
        task_write.idx: task_write for task_write in writes if task_write.idx < 0 or task_write.idx not in stored_places
    }
    if not new:
        return None
    columns = {"name": name, "checkpoint": checkpoint, "task": task, "path": path, "places": json.dumps([*new])}
    document = [[task_write.idx, task_write.channel, task_write.document] for task_write in new.values()]
    blobs = [tx.keep_row(row) for row in rows]
    return tx.record(Change(WROTE, stream, CHECKPOINT_WRITES, set=columns, doc=document, blobs=blobs))


def drop(tx: Tx, stream: Stream, seqs: Iterable[int]) -> list[int]:
    """Take checkpoints of this stream away, with the writes after them; returns those that were still there. Recorded."""
    tx.lock(stream)
    return take_away(tx, stream, seqs)


def copy(tx: Tx, stream: Stream, source: Stream, prefix: str) -> int:
    """Record the checkpoints of another stream here, with the writes after them: rows alone, the nodes are shared."""
    checkpoints = [*own(tx, source, prefix)]
    for checkpoint in reversed(checkpoints):
        columns = {
            "name": checkpoint.name, "root": checkpoint.root, "size": 0, "at": checkpoint.at,
            "key": checkpoint.key, "parent_key": checkpoint.parent_key,
        }  # fmt: skip
        tx.record(Change(SAVED, stream, CHECKPOINTS, set=columns, doc=checkpoint.document))
        for _, task, path, body in _wrote(tx, source, checkpoint.name, checkpoint.key):
            rows = [tx.pack(tx.blob(address)) for address in body.blobs]
            write(
                tx,
                stream,
                checkpoint.name,
                checkpoint.key,
                task,
                path,
                _writes_in(body, f"checkpoint {checkpoint.key}"),
                rows,
            )
    return len(checkpoints)


# -- reading -------------------------------------------------------------------------------------------------


@one_state
def get(reads: Reads, stream: Stream, name: str, key: str | None = None) -> KeyedCheckpoint | None:
    """The checkpoint of a name with this key, or the one with the greatest key; None if there is none."""
    for part in segments(reads, stream):
        touches = touching(CHECKPOINTS, stream, part.stream)
        about = {**part._asdict(), "name": name}
        if key is None:
            rows = reads.query(Q.keyed_last, touches=touches, **about)
        else:
            rows = reads.query(Q.keyed_get, touches=touches, **about, key=key)
        if rows:
            return _keyed_checkpoint(reads, rows[0])
    return None


@one_state
def restore(reads: Reads, stream: Stream, name: str, key: str, default: Any = None) -> Any:
    """The state of a checkpoint by its key, `default` when there is none. Damaged names the node that is missing."""
    checkpoint = get(reads, stream, check_name(name, "name"), check_name(key, "key"))
    return default if checkpoint is None else stored_value(state(checkpoint, reads.fetch), "state")


def state(checkpoint: KeyedCheckpoint, fetch: tree.Fetch) -> Any:
    """The state of a checkpoint as plain data. Damaged names the node that is missing or was altered."""
    return tree.load(stored_address(checkpoint.root, f"checkpoint {checkpoint.key}"), fetch)


def names_in(reads: Reads, checkpoint: KeyedCheckpoint, name: str) -> frozenset[str]:
    """The keys of the map under a name at the top of a checkpoint's state, without the rest of the state."""
    return tree.load_keys(stored_address(checkpoint.root, f"checkpoint {checkpoint.key}"), reads.fetch, name)


def writes_of(reads: Reads, stream: Stream, name: str, key: str) -> list[StoredWrite]:
    """The writes of tasks after a checkpoint, by path, task and index."""
    by_place: dict[tuple[str, str, int], StoredWrite] = {}
    for seq, task, path, body in _wrote(reads, stream, name, key):
        for task_write in _writes_in(body, f"{stream.name} seq {seq}"):
            by_place[path, task, task_write.idx] = StoredWrite(task, path, *task_write, seq)
    return [by_place[place] for place in sorted(by_place)]


def _wrote(reads: Reads, stream: Stream, name: str, key: str) -> list[tuple[int, str, str, Body]]:
    """The writes of tasks after a checkpoint, oldest first."""
    writes: list[tuple[int, str, str, Body]] = []
    for part in reversed(segments(reads, stream)):
        touches = touching(CHECKPOINT_WRITES, stream, part.stream)
        rows = reads.query(Q.writes_get, touches=touches, **part._asdict(), name=name, checkpoint=key)
        writes += [
            (seq, task, path, body_of(reads, body, f"{stream.name} seq {seq}")) for seq, task, path, body in rows
        ]
    return writes


def _writes_in(body: Body, where: str) -> list[TaskWrite]:
    return [TaskWrite(*fields) for fields in stored_as(list[tuple[int, str, Any]], body.doc, "list of writes", where)]


@one_state
def page(
    reads: Reads, stream: Stream, *, prefix: str = "", name: str | None = None, before: str | None = None, limit: int = PAGE_ROWS
) -> list[KeyedCheckpoint]:  # fmt: skip
    """Checkpoints of a session, greatest key first: those of a name, or of all names that begin with a prefix."""
    checkpoints: list[KeyedCheckpoint] = []
    for part in segments(reads, stream):
        rows = reads.query(
            Q.keyed_page, touches=touching(CHECKPOINTS, stream, part.stream), **part._asdict(), name=name,
            prefix=prefix if name is None and prefix else None, before=before, limit=limit,
        )  # fmt: skip
        checkpoints += [_keyed_checkpoint(reads, row) for row in rows]
    return sorted(checkpoints, key=lambda checkpoint: checkpoint.key, reverse=True)[:limit]


def page_across(
    reads: Reads, prefix: str, *, upto: str | None = None, after: KeyedCheckpoint | None = None, limit: int = PAGE_ROWS
) -> list[KeyedCheckpoint]:
    """Checkpoints of all sessions whose name begins with a prefix, greatest key first; after: the last of the page before."""
    rows = reads.query(
        Q.keyed_across, tenant=reads.tenant, prefix=prefix, upto=upto, limit=limit, key=after.key if after else None,
        after=after.stream if after else None, seq=after.seq if after else None,
    )  # fmt: skip
    return [_keyed_checkpoint(reads, row[:7])._replace(session=row[7], stream=row[8]) for row in rows]


def own(reads: Reads, stream: Stream, prefix: str) -> Iterator[KeyedCheckpoint]:
    """The checkpoints that a stream sees under names with this prefix, newest key first."""
    before = None
    while batch := page(reads, stream, prefix=prefix, before=before):
        yield from batch
        before = batch[-1].key


def _keyed_checkpoint(reads: Reads, row: tuple[Any, ...]) -> KeyedCheckpoint:
    seq, name, key, parent_key, root, at, body = row
    if body is None:
        raise Damaged("the document of this checkpoint is gone", path=f"checkpoint {key}")
    document = doc_of(reads, body, f"checkpoint {key}")
    return KeyedCheckpoint(seq=seq, name=name, key=key, parent_key=parent_key, root=root, at=at, document=document)
