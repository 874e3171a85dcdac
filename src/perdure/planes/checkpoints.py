"""Checkpoints: the whole state of an agent, saved again and again at the cost of what changed. The plane
behind `checkpoint restore checkpoints prune_checkpoints`.

A state is a tree of content-addressed nodes (`artifacts.tree`), which are blobs; the event names the root
alone. What costs time (`freeze`, `prepare`) is done before the lane is entered; the verb asks once whether
what the new nodes build on still stands. Keeps P5 (a prune is recorded), P6 (every node is verified by its
address), P8 (a checkpoint costs what changed).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, NamedTuple, TypeVar

import msgspec

from perdure.artifacts import tree
from perdure.errors import Invalid, NotFound
from perdure.log.change import Change, Op, Stream
from perdure.model.instants import duration_us, to_datetime
from perdure.model.limits import check_name, check_page
from perdure.model.records.checkpoints import CheckpointRecord, PruneReport
from perdure.model.refs import Ref
from perdure.model.values import from_plain, to_plain
from perdure.planes.lineage import MAX_SEQ, segments
from perdure.planes.origins import check_seq
from perdure.planes.spans import Duration, store_now
from perdure.planes.tables import CHECKPOINTS
from perdure.stores.blobs import BlobRow
from perdure.stores.statements import Statements
from perdure.stores.store import Reads
from perdure.stores.tx import EVENTS, Tx

Q = Statements("perdure.planes", "checkpoints.sql")

PAGE_ROWS = 500  # pruned in one transaction, read at once

T = TypeVar("T")

# -- saving --------------------------------------------------------------------------------------------------


class Prepared(NamedTuple):
    """A state on its way in: its new nodes, packed, and the stored ones that they build on (`leans_on`)."""

    frozen: bytes
    root: bytes
    size: int
    rows: list[BlobRow]
    leans_on: set[bytes]


def freeze(state: Any) -> bytes:
    """The state as it is now: whatever the caller does to it afterwards is not saved. Invalid names the path
    inside it."""
    return msgspec.msgpack.encode(to_plain(state, "state"))


def prepare(reads: Reads, frozen: bytes) -> Prepared:
    """Cut a state into nodes and pack those that are not stored. Writes nothing (a huge node may go to the
    place early)."""
    leans_on: set[bytes] = set()

    def known(addresses: Collection[bytes]) -> set[bytes]:
        found = reads.known(addresses)
        leans_on.update(found)
        return found

    saved = tree.save(msgspec.msgpack.decode(frozen), known)
    rows = [reads.pack(node) for node in saved.nodes.values()]
    return Prepared(frozen, saved.root, saved.total_bytes, rows, leans_on)


def save(tx: Tx, stream: Stream, prepared: Prepared, name: str = "default") -> CheckpointRecord:
    """Record a checkpoint; its new nodes and its event land together, or not at all."""
    check_name(name, "name")
    if prepared.leans_on - tx.known(prepared.leans_on):
        prepared = prepare(tx, prepared.frozen)  # a collection took some of them meanwhile: rare, so inside the lane
    for row in prepared.rows:
        tx.keep_row(row)
    root = prepared.root.hex()
    parent = _last_seq(tx, stream, name)
    columns = {"name": name, "parent": parent, "root": root, "size": prepared.size, "at": tx.now}
    seq = tx.record(Change("checkpoint.saved", stream, CHECKPOINTS, set=columns, blobs=[root]))
    return CheckpointRecord(seq, name, parent, root, prepared.size, to_datetime(tx.now), tx.actor, stream.ref(seq))


def _last_seq(reads: Reads, stream: Stream, name: str) -> int | None:
    return next((seq for seq, _ in _newest(reads, stream, name)), None)


def _newest(reads: Reads, stream: Stream, name: str) -> Iterator[tuple[int, str]]:
    """The newest checkpoint of a name (seq, root) in each segment of the lineage."""
    for part in segments(reads, stream):
        touches = [(CHECKPOINTS, part.stream)]
        yield from reads.query(
            Q.checkpoint_last,
            touches=touches,
            stream=part.stream,
            name=name,
            first=part.first,
            last=part.last,
        )


# -- reading -------------------------------------------------------------------------------------------------


def restore(reads: Reads, stream: Stream, seq: int | None = None, *, name: str = "default", default: Any = None) -> Any:
    """The state of the newest checkpoint of a name (`default` when there is none), or of the one with this
    number.

    NotFound when no checkpoint has this number; Damaged names the node that is missing or was altered.
    """
    root = _root_of(reads, stream, check_seq(seq, "seq")) if seq is not None else _newest_root(reads, stream, name)
    return default if root is None else from_plain(tree.load(bytes.fromhex(root), reads.fetch), "state")


def _newest_root(reads: Reads, stream: Stream, name: str) -> str | None:
    check_name(name, "name")
    return next((root for _, root in _newest(reads, stream, name)), None)


def _root_of(reads: Reads, stream: Stream, seq: int) -> str:
    for part in segments(reads, stream):
        if part.first < seq <= part.last:
            rows = reads.query(Q.checkpoint_root, touches=[(CHECKPOINTS, part.stream)], stream=part.stream, seq=seq)
            if rows:
                return rows[0][0]
    raise NotFound(f"{stream.kind} {stream.name!r} has no checkpoint {seq}", path="seq")


def listing(
    reads: Reads, stream: Stream, *, name: str | None = None, limit: int = 50, before: int | None = None
) -> list[CheckpointRecord]:
    """Checkpoints, newest first, those of a fork's parents included; `before` is a sequence number."""
    limit = check_page(limit)
    if name is not None:
        check_name(name, "name")
    upto = MAX_SEQ if before is None else check_seq(before, "before") - 1
    found: list[CheckpointRecord] = []
    for part in segments(reads, stream, upto):
        if len(found) < limit:
            rows = reads.query(
                Q.checkpoints_page,
                touches=[(CHECKPOINTS, part.stream)],
                **part._asdict(),
                name=name,
                limit=limit - len(found),
            )
            found += [_record(row) for row in rows]
    return found


def _record(row: tuple[Any, ...]) -> CheckpointRecord:
    seq, name, parent, root, size, at, actor, uid = row
    return CheckpointRecord(seq, name, parent, root, size, to_datetime(at), actor, Ref(bytes(uid).hex(), seq))


# -- pruning -------------------------------------------------------------------------------------------------


class Choice(NamedTuple):
    """What a prune would take (seq and root, oldest first), the roots that stay, and where forks left this
    session."""

    doomed: list[tuple[int, str]]
    kept: list[str]
    forks: set[int]


def choose(
    reads: Reads, stream: Stream, *, keep: int, name: str | None = None, older_than: Duration | None = None
) -> Choice:
    """The checkpoints beyond the newest `keep` of each name that are older than that; what a fork restores is
    spared."""
    if type(keep) is not int or keep < 1:
        raise Invalid(f"expected how many to keep, at least 1, got {keep!r}", path="keep")
    if name is not None:
        check_name(name, "name")
    before = MAX_SEQ if older_than is None else store_now(reads) - duration_us(older_than, "older_than")
    rows = reads.query(Q.checkpoints_own, touches=[(CHECKPOINTS, stream.id)], stream=stream.id)
    forks = _forks(reads, stream)
    spared = _newest_of_each(rows, keep)
    for fork in forks:
        spared |= _newest_of_each([row for row in rows if row[0] <= fork], 1)
    doomed = {seq for seq, of, _, at in rows if seq not in spared and at < before and (name is None or of == name)}
    taken = [(seq, root) for seq, _, root, _ in reversed(rows) if seq in doomed]
    return Choice(taken, [root for seq, _, root, _ in rows if seq not in doomed], forks)


def _newest_of_each(rows: list[tuple[Any, ...]], keep: int) -> set[int]:
    """The newest so many of each name; rows come newest first."""
    left: dict[str, int] = {}
    spared: set[int] = set()
    for seq, name, *_ in rows:
        left[name] = left.get(name, keep) - 1
        if left[name] >= 0:
            spared.add(seq)
    return spared


def _forks(reads: Reads, stream: Stream) -> set[int]:
    return {seq for (seq,) in reads.query(Q.forks_of, touches=[(EVENTS, stream.id)], stream=stream.id)}


def plan(reads: Reads, stream: Stream, **chosen: Any) -> PruneReport:
    """What a prune would take, with the bytes: this walks the trees of all checkpoints of the session."""
    doomed, kept, _ = choose(reads, stream, **chosen)
    only_theirs = _reach(reads, [root for _, root in doomed]) - _reach(reads, kept)
    freed_bytes = sum(len(node) for page in pages(only_theirs) for node in reads.fetch(page).values())
    return PruneReport(tuple(seq for seq, _ in doomed), len(kept), freed_bytes, dry_run=True)


def _reach(reads: Reads, roots: list[str]) -> set[bytes]:
    return tree.reachable([bytes.fromhex(root) for root in roots], reads.fetch)


def pages(items: Collection[T]) -> Iterator[list[T]]:
    """The items in order, so many at a time as one transaction takes."""
    ordered = sorted(items)  # type: ignore[type-var]
    return (ordered[start : start + PAGE_ROWS] for start in range(0, len(ordered), PAGE_ROWS))


def prune(tx: Tx, stream: Stream, seqs: list[int], forks: set[int], **chosen: Any) -> list[int]:
    """Take away checkpoints that were chosen outside the lane; returns those that were still there.

    What was beyond the newest stays so, whatever was saved since; only a new fork makes us choose again.
    Recorded: each row goes with an event of its own, and `log.pruned` names the events whose bodies are
    emptied. The nodes themselves go with the next collection, unless something else reaches them.
    """
    if _forks(tx, stream) != forks:
        doomed = {seq for seq, _ in choose(tx, stream, **chosen).doomed}
        seqs = [seq for seq in seqs if seq in doomed]
    seqs = [seq for seq in seqs if tx.row(CHECKPOINTS, stream, seq) is not None]
    for seq in seqs:
        tx.record(Change("checkpoint.pruned", stream, CHECKPOINTS, op=Op.DELETE, key={"seq": seq}))
    if seqs:
        tx.record(Change("log.pruned", stream, op=Op.NOTE, doc={"emptied": seqs}))
        tx.empty(stream, seqs)
    return seqs
