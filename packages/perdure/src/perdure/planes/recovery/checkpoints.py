"""Checkpoints: the whole state of an agent, saved again and again at the cost of what changed. The plane
behind `checkpoint restore checkpoints prune_checkpoints`.

A state is a tree of content-addressed nodes (`artifacts.tree`), which are blobs; the event names the root
alone. The slow work (`freeze`, `prepare`) is done before the lane is entered; the verb asks once whether what the new nodes build
on still stands. Keeps P5 (a prune is recorded), P6 (every node is verified by its
address), P8 (a checkpoint costs what changed).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Any, NamedTuple, TypeVar

import msgspec

from perdure.artifacts import tree
from perdure.errors import Invalid, NotFound
from perdure.log.change import Change, Op, Stream
from perdure.model.instants import duration_us, to_datetime
from perdure.model.limits import check_name, check_page
from perdure.model.records.checkpoints import CheckpointRecord, PruneReport
from perdure.model.refs import Ref
from perdure.model.values import to_plain
from perdure.planes import subjects
from perdure.planes.reading.body_reading import body_of, stored_value
from perdure.planes.reading.durations import Duration, store_now
from perdure.planes.reading.lineage import MAX_SEQ, ancestry, segments, touching
from perdure.planes.reading.origins import check_seq
from perdure.planes.reading.paging import Page, page_by_seq, read_rows, seq_or_cursor
from perdure.planes.reading.row_reading import stored_address, stored_fields, stored_instant
from perdure.planes.reading.snapshots import one_state
from perdure.planes.tables import CHECKPOINT_WRITES, CHECKPOINTS
from perdure.stores.batch import EVENTS, HISTORY
from perdure.stores.blobs import BlobRow
from perdure.stores.past_store import PastReader
from perdure.stores.statements import Statements
from perdure.stores.store import Reads
from perdure.stores.tx import LOG, Tx

Q = Statements("perdure.planes.recovery", "checkpoints.sql")
SAVED = "checkpoint.saved"

PAGE_ROWS = 500  # pruned in one transaction, read at once

T = TypeVar("T")

# -- saving --------------------------------------------------------------------------------------------------


class NewestCheckpoint(NamedTuple):
    """The newest checkpoint of a name. While it stands, so do all its nodes: a new state shares what it has in common with it."""

    stream: int
    seq: int
    root: str


class Prepared(NamedTuple):
    """A state on its way in: its new nodes, packed, the stored ones that they build on (`leans_on`), and its base."""

    frozen: bytes
    root: bytes
    size: int
    rows: list[BlobRow]
    leans_on: set[bytes]
    base: NewestCheckpoint | None


def freeze(state: Any) -> bytes:
    """The state as it is now: whatever the caller does to it afterwards is not saved. Invalid names the path
    inside it."""
    return msgspec.msgpack.encode(to_plain(state, "state", from_store=True))


def prepare(reads: Reads, stream: Stream, frozen: bytes, name: str = "default") -> Prepared:
    """Cut a state into nodes and pack those that are not stored. Writes nothing (a huge node may go to the
    place early)."""
    base = next(_newest(reads, stream, name), None)
    address = None if base is None else stored_address(base.root, f"{stream.kind} {stream.name} checkpoints.root")
    saved = tree.save(msgspec.msgpack.decode(frozen), reads.known, address, reads.fetch)
    rows = [reads.pack(node) for node in saved.nodes.values()]
    return Prepared(frozen, saved.root, saved.total_bytes, rows, saved.stored, base)


def prepared_or_anew(tx: Tx, stream: Stream, prepared: Prepared, name: str) -> Prepared:
    """The prepared state if all that it builds on stands until this commits; else it is prepared anew, inside the lane. A prune
    or a collection between is rare."""
    stands = not prepared.leans_on - tx.known(prepared.leans_on)
    base = prepared.base
    if stands and base is not None:
        rows = tx.query(Q.checkpoint_root, touches=[(CHECKPOINTS, base.stream)], stream=base.stream, seq=base.seq)
        stands = rows == [(base.root,)]
    return prepared if stands else prepare(tx, stream, prepared.frozen, name)


def save(
    tx: Tx, stream: Stream, prepared: Prepared, name: str = "default", kind: str = SAVED, *, about: Iterable[str] = ()
) -> CheckpointRecord:
    """Record a checkpoint; its new nodes and its event land together, or not at all. It was derived from its stream up to here,
    and is about whom anything there is: a filter sees that, so that no checkpoint need repeat it.
    """
    check_name(name, "name")
    prepared = prepared_or_anew(tx, stream, prepared, name)
    for row in prepared.rows:
        tx.keep_row(row)
    root = prepared.root.hex()
    parent = next((newest.seq for newest in _newest(tx, stream, name)), None)
    columns = {"name": name, "parent": parent, "root": root, "size": prepared.size, "at": tx.now}
    subject_names, sources = subjects.named(about), [stream.ref(tx.seq(stream))]
    seq = tx.record(
        Change(kind, stream, CHECKPOINTS, set=columns, blobs=[root], subjects=subject_names, derived_from=sources)
    )
    return CheckpointRecord(
        seq=seq,
        name=name,
        parent=parent,
        hash=root,
        size=prepared.size,
        at=to_datetime(tx.now),
        actor=tx.actor,
        ref=stream.ref(seq),
    )


def _newest(reads: Reads, stream: Stream, name: str) -> Iterator[NewestCheckpoint]:
    """The newest checkpoint of a name in each segment of the lineage."""
    for part in segments(reads, stream):
        touches = touching(CHECKPOINTS, stream, part.stream)
        about = {"stream": part.stream, "name": name, "first": part.first, "last": part.last}
        yield from (
            NewestCheckpoint(part.stream, *row) for row in reads.query(Q.checkpoint_last, touches=touches, **about)
        )


# -- reading -------------------------------------------------------------------------------------------------


@one_state
def restore(reads: Reads, stream: Stream, seq: int | None = None, *, name: str = "default", default: Any = None) -> Any:
    """The state of the newest checkpoint of a name (`default` when there is none), or of the one with this
    number.

    NotFound when no checkpoint has this number, or when what was the newest one at this point of the past was
    pruned since; Damaged names the node that is missing or was altered.
    """
    root = _root_of(reads, stream, check_seq(seq, "seq")) if seq is not None else _newest_root(reads, stream, name)
    if root is None:
        return default
    address = stored_address(root, f"{stream.kind} {stream.name} checkpoints.root")
    return stored_value(tree.load(address, reads.fetch), "state")


def _newest_root(reads: Reads, stream: Stream, name: str) -> str | None:
    check_name(name, "name")
    newest = next(_newest(reads, stream, name), None)
    _refuse_pruned(reads, stream, name, newest.seq if newest else 0)
    return newest.root if newest else None


# A prune leaves the newest of every name, as seen then. So it can have taken the newest one only of a point of
# the past (`at`), or of a fork that was made there since.


def _refuse_pruned(reads: Reads, stream: Stream, name: str, seq: int) -> None:
    """NotFound if a newer checkpoint of this name stood at this point, and was pruned after it."""
    looking_back = isinstance(reads, PastReader)
    upto = MAX_SEQ
    for ancestor in ancestry(reads, stream):
        if upto <= seq:
            return
        if looking_back or ancestor.id != stream.id:
            _refuse_emptied(reads, ancestor, name, max(seq, ancestor.fork_seq), upto)
        upto = min(upto, ancestor.fork_seq)


def _refuse_emptied(reads: Reads, holder: Stream, name: str, after: int, upto: int) -> None:
    touches = [(HISTORY, holder.id)]
    rows = reads.query(Q.saves_emptied, touches=touches, stream=holder.id, after=after, upto=upto)
    if not rows:
        return
    emptied = {seq for (seq,) in rows}
    last = min(upto, reads.query(LOG.stream_head, touches=touches, stream=holder.id)[0][0])
    by = [one for one in _prunings(reads, holder, min(emptied)) if one.by > last and one.name in (name, None)]
    pruned = max((one for one in by if one.seq in emptied), default=None)
    if pruned is not None:
        raise NotFound(f"the checkpoint {pruned.seq} of {name!r} was pruned by event {pruned.by}", path="name")


class Pruning(NamedTuple):
    """A checkpoint that went: its number, the event that says so, and its name."""

    seq: int
    by: int
    name: str | None


def _prunings(reads: Reads, stream: Stream, after: int) -> list[Pruning]:
    """The prunings of a stream since, also after the moment that is seen."""
    if isinstance(reads, PastReader):
        return reads.beyond(lambda origin: _prunings(origin, stream, after))
    rows = reads.query(Q.prunings, uid=stream.uid, tenant=reads.tenant, after=after)
    bodies = [(by, body_of(reads, body, f"{stream.name} seq {by}")) for by, body in rows]
    return [
        Pruning(body.key["seq"], by, stored_fields(body.doc, f"seq {by}").get("name"))
        for by, body in bodies
        if "seq" in body.key
    ]


def _root_of(reads: Reads, stream: Stream, seq: int) -> str:
    for part in segments(reads, stream):
        if part.first < seq <= part.last:
            touches = touching(CHECKPOINTS, stream, part.stream)
            rows = reads.query(Q.checkpoint_root, touches=touches, stream=part.stream, seq=seq)
            if rows:
                return rows[0][0]
    raise NotFound(f"{stream.kind} {stream.name!r} has no checkpoint {seq}", path="seq")


def listing(
    reads: Reads,
    stream: Stream,
    name: str | None = None,
    *,
    about: str | None = None,
    limit: int = 50,
    before: int | str | None = None,
) -> Page[CheckpointRecord]:
    """Checkpoints, newest first, those of a fork's parents included; before a sequence number or the cursor of a page."""
    limit = check_page(limit)
    if name is not None:
        check_name(name, "name")
    upto = MAX_SEQ if before is None else check_seq(seq_or_cursor(before, "before"), "before") - 1
    rows: list[tuple[Any, ...]] = []
    for part in segments(reads, stream, upto):
        if len(rows) <= limit:
            rows += reads.query(
                Q.checkpoints_page,
                touches=touching(CHECKPOINTS, stream, part.stream),
                **part._asdict(),
                name=name,
                about=subjects.wanted_here(reads, part.stream, about),
                limit=limit + 1 - len(rows),
            )
    page = page_by_seq(rows, limit, lambda row: row[0])
    return read_rows(page, _record, page.next)


def _record(row: tuple[Any, ...]) -> CheckpointRecord:
    seq, name, parent, root, size, at, actor, uid, key, parent_key = row
    when = stored_instant(at, f"checkpoints seq {seq}")
    return CheckpointRecord(
        seq=seq, name=name, parent=parent, hash=root, size=size, at=when, actor=actor, ref=Ref(bytes(uid).hex(), seq),
        key=key, parent_key=parent_key,
    )  # fmt: skip


# -- pruning -------------------------------------------------------------------------------------------------


class PruneChoice(NamedTuple):
    """The checkpoints that a prune would take (seq and root, oldest first), the roots that stay, and where forks left this
    session.
    """

    doomed: list[tuple[int, str]]
    remaining: list[str]
    forks: set[int]


@one_state
def choose(
    reads: Reads, stream: Stream, *, keep: int, name: str | None = None, older_than: Duration | None = None
) -> PruneChoice:
    """The checkpoints beyond the newest `keep` of each name that are older than that; what a fork restores is
    spared."""
    if type(keep) is not int or keep < 1:
        raise Invalid(f"expected how many to keep, at least 1, got {keep!r}", path="keep")
    if name is not None:
        check_name(name, "name")
    before = MAX_SEQ if older_than is None else store_now(reads) - duration_us(older_than, "older_than")
    rows = reads.query(Q.checkpoints_own, touches=[(CHECKPOINTS, stream.id)], stream=stream.id)
    forks = forks_of(reads, stream)
    spared = _newest_of_each(rows, keep)
    for fork in forks:
        spared |= _newest_of_each([row for row in rows if row[0] <= fork], 1)
    doomed = {seq for seq, of, _, at in rows if seq not in spared and at < before and (name is None or of == name)}
    doomed_rows = [(seq, root) for seq, _, root, _ in reversed(rows) if seq in doomed]
    return PruneChoice(doomed_rows, [root for seq, _, root, _ in rows if seq not in doomed], forks)


def _newest_of_each(rows: list[tuple[Any, ...]], keep: int) -> set[int]:
    """The newest so many of each name; rows come newest first."""
    room: dict[str, int] = {}
    spared: set[int] = set()
    for seq, name, *_ in rows:
        room[name] = room.get(name, keep) - 1
        if room[name] >= 0:
            spared.add(seq)
    return spared


def forks_of(reads: Reads, stream: Stream) -> set[int]:
    """Where the forks of a stream, and the forks of those, left it: what they see of it must stay."""
    return {seq for (seq,) in reads.query(Q.forks_of, touches=[(EVENTS, stream.id)], stream=stream.id)}


@one_state
def plan(reads: Reads, stream: Stream, **chosen: Any) -> PruneReport:
    """The checkpoints that a prune would take, with the bytes: this walks the trees of all checkpoints of the session."""
    doomed, remaining, _ = choose(reads, stream, **chosen)
    only_theirs = _reach(reads, [root for _, root in doomed]) - _reach(reads, remaining)
    freed_bytes = sum(len(node) for page in pages(only_theirs) for node in reads.fetch(page).values())
    return PruneReport(tuple(seq for seq, _ in doomed), len(remaining), freed_bytes, dry_run=True)


def _reach(reads: Reads, roots: list[str]) -> set[bytes]:
    return tree.reachable([stored_address(root, "checkpoints.root") for root in roots], reads.fetch)


def pages(items: Collection[T]) -> Iterator[list[T]]:
    """The items in order, so many at a time as one transaction takes."""
    ordered = sorted(items)  # type: ignore[type-var]
    return (ordered[start : start + PAGE_ROWS] for start in range(0, len(ordered), PAGE_ROWS))


def prune(tx: Tx, stream: Stream, seqs: list[int], forks: set[int], **chosen: Any) -> list[int]:
    """Take away checkpoints that were chosen outside the lane; returns those that were still there.

    A checkpoint beyond the newest stays so, whatever was saved since; only a new fork makes us choose again.
    Recorded: each row goes with an event of its own, and `log.pruned` names the events whose bodies are
    emptied. The nodes themselves go with the next collection, unless something else reaches them.

    The stream is locked before its forks are read: one that is being made is either seen here, or made after
    this prune.
    """
    tx.lock(stream)
    if forks_of(tx, stream) != forks:
        doomed = {seq for seq, _ in choose(tx, stream, **chosen).doomed}
        seqs = [seq for seq in seqs if seq in doomed]
    return take_away(tx, stream, seqs)


def take_away(tx: Tx, stream: Stream, seqs: Iterable[int]) -> list[int]:
    """Delete the rows of checkpoints, and of what tasks wrote after them; returns the checkpoints that were still there.

    Each row goes with an event of its own, and `log.pruned` names the events that are emptied.
    """
    rows = {seq: row for seq in seqs if (row := tx.row(CHECKPOINTS, stream, seq)) is not None}
    writes: list[int] = []
    for seq, row in rows.items():
        doc = {"name": row["name"]} | ({"key": row["key"]} if row["key"] is not None else {})
        tx.record(Change("checkpoint.pruned", stream, CHECKPOINTS, op=Op.DELETE, key={"seq": seq}, doc=doc))
        if row["key"] is not None:
            touches = [(CHECKPOINT_WRITES, stream.id)]
            about = {"stream": stream.id, "name": row["name"], "checkpoint": row["key"]}
            writes += [written for (written,) in tx.query(Q.writes_after, touches=touches, **about)]
    for seq in writes:
        tx.record(Change("checkpoint.write_pruned", stream, CHECKPOINT_WRITES, op=Op.DELETE, key={"seq": seq}))
    emptied = sorted([*rows, *writes])
    if emptied:
        tx.record(Change("log.pruned", stream, op=Op.NOTE, doc={"emptied": emptied}))
        tx.empty(stream, emptied)
    return list(rows)
