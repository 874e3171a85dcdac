"""The transaction as verbs see it, and the batch that several of them share.

Verbs are plain functions `verb(tx, …)`: they read, decide and record. `record` is the only door to recorded state, `touch` to
ephemeral state; both only buffer. The lane runs the verbs, flushes the batch and commits. Keeps P5 and P7.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

from perdure.errors import NotFound, Refused
from perdure.log.change import Change, Stream
from perdure.log.derive import derive
from perdure.log.event import (
    CODEC_JSON,
    GENESIS,
    SALT_BYTES,
    Body,
    Event,
    commit_to,
    encode_body,
    hash_header,
)
from perdure.log.fold import step
from perdure.log.table import Row, Table, TableClass
from perdure.model.ids import UID_BYTES, Entropy, new_uid
from perdure.model.limits import INLINE_MAX_BYTES
from perdure.stores.blobs import BlobRow, Blobs
from perdure.stores.statements import Statement, Statements
from perdure.stores.store import Connection, Fault, FaultKind, Head, HeadMove, NewEvent, NewStream, Reads, Rows, Writes

LOG = Statements("perdure.stores", "log.sql")
ADDRESSES_MAX = 500  # in one statement
OPEN_AGAIN = "open the session again through the store"

# Only to be named in `touches`: every record touches both. HISTORY is what lies before a fork: it does not change, so a verb
# that reads it sees its own writes, and is not run again because the parent went on meanwhile.
EVENTS = Table("events", TableClass.DERIVED, ("seq",), ())
HISTORY = Table("events", TableClass.DERIVED, ("seq",), (), streamed=False)

_NONE: list[Any] = []  # never changed: a body's lists are replaced, not added to
_Place = tuple[int, tuple[Any, ...]]  # stream (0 when the table has none) and key
# stream, seq, kind, table, actor, at, tx, body, and the event itself when it was recorded elsewhere (`adopt`)
_Pending = tuple[Stream, int, str, str, str, int, bytes, bytes | None, Event | None]


class Clocks(NamedTuple):
    """Two clocks: `now` dates events (data); `store` decides leases, and gives None where the database's own is to decide."""

    now: Callable[[], int]
    store: Callable[[], int | None]


class Batch:
    """What the jobs of one commit have written so far. The lane owns it; a failed job leaves no trace in it."""

    def __init__(
        self, connection: Connection, blobs: Blobs, entropy: Entropy, hints: Mapping[int, Head] | None = None
    ) -> None:
        self.connection = connection
        self.blobs = blobs
        self.hints = hints or {}
        self.exact = hints is None  # heads that were read cannot move before the commit
        self.entropy = entropy
        self.flushed: dict[int, Head] = {}  # heads as the database has them inside this transaction
        self.seqs: dict[int, int] = {}  # heads as absorbed jobs have moved them
        self.read: set[int] = set()  # streams by whose state absorbed jobs decided
        self.rows: dict[Table, dict[_Place, Row | None]] = {}
        self.dirty: set[tuple[Table, int]] = set()
        self.events: list[_Pending] = []
        self.trail: list[_Pending] = []  # events that were flushed, for the logs
        self.streams: dict[int, Stream] = {}
        self.blob_rows: dict[tuple[int, bytes], BlobRow] = {}
        self.empties: list[tuple[int, int]] = []
        self.first: tuple[int, int, bytes] | None = (
            None  # stream, seq and tx of the first event: resolves a lost COMMIT
        )

    def head(self, stream: int) -> Head:
        """The head of a stream as the database has it (or, where heads are verified at the flush, had it last)."""
        head = self.flushed.get(stream)
        if head is None:
            head = self.hints.get(stream) or self._read_head(stream)
            self.flushed[stream] = head
        return head

    def _read_head(self, stream: int) -> Head:
        found = self.connection.heads([stream], lock=False)
        if stream not in found:
            raise NotFound("the stream does not exist in this store", path="stream")
        return found[stream]

    def lock_heads(self, streams: Iterable[int]) -> None:
        """Read and lock these heads before any verb runs: the way after a lost race."""
        self.flushed.update(self.connection.heads(sorted(streams), lock=True))

    def lock(self, stream: int) -> None:
        """Lock one head while verbs run. If it is not where this batch has seen it, the batch is stale."""
        if stream in self.streams:
            return
        seen = self.flushed.get(stream)
        self.lock_heads([stream])
        if seen is not None and seen != self.flushed.get(stream):
            raise Fault(FaultKind.RACED, "the stream went on meanwhile")

    def absorb(self, tx: Tx) -> None:
        """Take over what a finished job wrote."""
        if not (tx.written or tx.streams):
            return
        self.events += tx.events
        self.seqs.update(tx.seqs)
        self.read |= tx.read
        self.streams.update(tx.streams)
        self.blob_rows.update(tx.blob_rows)
        self.empties += tx.empties
        for table, rows in tx.rows.items():
            mine = self.rows.get(table)
            if mine is None:
                self.rows[table] = rows
            else:
                mine.update(rows)
        self.dirty |= tx.dirty

    def flush(self, *, commit: bool) -> None:
        """Write everything that is buffered, set-wise; with `commit`, make it durable."""
        writes = self._writes()
        if commit and not self.exact:
            self._verify_read(writes)
        self.connection.write(writes, commit=commit)
        self.trail += self.events
        self.rows, self.dirty, self.events, self.blob_rows, self.empties = {}, set(), [], {}, []
        for new in writes.streams:  # one that has no event yet stays: it becomes real with its first
            del self.streams[new.stream.id]

    def _writes(self) -> Writes:
        writes = Writes(blobs=[*self.blob_rows.values()], empties=self.empties)
        for stream, before in self._chain(writes.events).items():
            if stream in self.streams:
                writes.streams.append(NewStream(self.streams[stream], self.flushed[stream]))
            else:
                writes.heads.append(HeadMove(stream, before, self.flushed[stream]))
        for table, rows in self.rows.items():
            _sort_rows(table, rows, writes)
        return writes

    def _verify_read(self, writes: Writes) -> None:
        """A stream that was only read moves from its head to its head: if it is elsewhere by now, the decision was stale."""
        moved = {move.stream for move in writes.heads}
        for stream in self.read - moved - self.streams.keys():
            head = self.flushed[stream]
            writes.heads.append(HeadMove(stream, head, head))

    def _chain(self, out: list[NewEvent]) -> dict[int, Head]:
        """Number and hash what is buffered; returns where the head of each stream was before."""
        flushed, take = self.flushed, self.entropy.take
        befores: dict[int, Head] = {}
        for stream, seq, kind, table, actor, at, tx, body, given in self.events:
            head = flushed[stream.id]
            befores.setdefault(stream.id, head)
            if seq != head[0] + 1:
                raise AssertionError("events of a stream are numbered without a gap")
            if body is None or given is not None:
                assert given is not None
                flushed[stream.id] = (seq, given.hash)
                out.append(_verbatim(stream, given))
                continue
            salt = take(SALT_BYTES)
            commitment = commit_to(salt, body)
            digest = hash_header(stream.uid, seq, head[1], kind, table, actor, at, CODEC_JSON, commitment)
            flushed[stream.id] = (seq, digest)
            out.append(
                NewEvent(
                    stream.tenant, stream.id, seq, kind, table, actor, at, CODEC_JSON, tx, commitment, digest, salt, body
                )
            )  # fmt: skip
        if self.first is None and out:
            self.first = (out[0].stream, out[0].seq, out[0].tx)
        return befores


def _verbatim(stream: Stream, event: Event) -> NewEvent:
    return NewEvent(
        stream.tenant, stream.id, event.seq, event.kind, event.table, event.actor, event.at, event.codec, event.tx,
        event.commitment, event.hash, event.salt, event.body,
    )  # fmt: skip


def _sort_rows(table: Table, rows: dict[_Place, Row | None], writes: Writes) -> None:
    puts, deletes = [], []
    for place, row in rows.items():
        if row is None:
            deletes.append(_address(table, place))
        else:
            puts.append([row[column] for column in table.all_columns])
    if puts:
        writes.puts[table] = puts
    if deletes:
        writes.deletes[table] = deletes


def _address(table: Table, place: _Place) -> list[Any]:
    owner, key = place
    return [owner, *key] if table.streamed or table.tenant else list(key)


class Tx:
    """One job's transaction: all of it is committed, or none. `now` is the instant of all its events."""

    __slots__ = ("_batch", "_lease_clock", "actor", "blob_rows", "dirty", "empties", "events", "flushed_early", "now", "pin",
                 "read", "rows", "seen", "seqs", "streams", "tenant", "uid", "written")  # fmt: skip

    def __init__(self, batch: Batch, actor: str, tenant: int, clocks: Clocks, pin: str = "") -> None:
        self._batch = batch
        self._lease_clock = clocks.store
        self.actor = actor
        self.tenant = tenant
        self.now = clocks.now()
        self.pin = pin
        self.uid = batch.entropy.take(UID_BYTES)
        self.events: list[_Pending] = []
        self.seqs: dict[int, int] = {}
        self.read: set[int] = set()
        self.seen: dict[tuple[Table, int, tuple[Any, ...]], Row | None] = {}  # rows as they were read
        self.rows: dict[Table, dict[_Place, Row | None]] = {}
        self.dirty: set[tuple[Table, int]] = set()
        self.streams: dict[int, Stream] = {}
        self.blob_rows: dict[tuple[int, bytes], BlobRow] = {}
        self.empties: list[tuple[int, int]] = []
        self.written = False
        self.flushed_early = False

    # -- writing ---------------------------------------------------------------------------------------------------------

    def record(self, change: Change) -> int:
        """Change a row and append the event that says so, together. Returns the event's sequence number.

        Nothing is durable until the lane commits; nothing at all happens if this job fails.
        """
        stream, table = change.stream, change.table
        assert table is None or table.table_class is TableClass.RECORDED
        seq = self.seq(stream) + 1
        body = Body(
            change.op, change.key, change.set, change.mark, change.doc, "", [*change.blobs] if change.blobs else _NONE,
            [*change.refs] if change.refs else _NONE, [*change.subjects] if change.subjects else _NONE,
            [*change.derived_from] if change.derived_from else _NONE, self.pin, [*change.calls] if change.calls else _NONE,
        )  # fmt: skip
        stored = encode_body(body)
        if len(stored) > INLINE_MAX_BYTES and change.doc is not None:
            stored = self._move_out(body)
        self.written = True
        self.seqs[stream.id] = seq
        self.dirty |= {(EVENTS, stream.id), (HISTORY, stream.id)}
        self.events.append(
            (stream, seq, change.kind, table.name if table else "", self.actor, self.now, self.uid, stored, None)
        )
        self._follow(table, stream, body, seq)
        return seq

    def adopt(
        self, stream: Stream, event: Event, table: Table | None, body: Body | None, *, pruned: bool = False
    ) -> None:
        """Append an event that was recorded elsewhere, verbatim, and the rows that it gives. For `stores.replay` alone.

        The caller has checked that the event follows the stream's head; `body` is None when it was emptied. `pruned`: see
        `log.fold.step`.
        """
        if event.seq != self.seq(stream) + 1:
            raise AssertionError("events of a stream are numbered without a gap")
        self.written = True
        self.seqs[stream.id] = event.seq
        self.dirty |= {(EVENTS, stream.id), (HISTORY, stream.id)}
        self.events.append(
            (stream, event.seq, event.kind, event.table, event.actor, event.at, event.tx, event.body, event)
        )
        if body is not None:
            self._follow(table, stream, body, event.seq, pruned=pruned)

    def _follow(self, table: Table | None, stream: Stream, body: Body, seq: int, *, pruned: bool = False) -> None:
        """The row that an event changes, and what is derived from it."""
        done = None
        if table is not None:
            done = step(table, body, seq, partial(self._find, table, stream.id, stream.tenant), pruned=pruned)
            if done is not None:
                self._put(table, stream, done.key, done.new)
        for derived, row, gone in derive(table, seq, body, done):
            self._put(derived, stream, derived.key_of(row), None if gone else row)

    def _move_out(self, body: Body) -> bytes:
        """A large document becomes a blob; the body keeps its address."""
        address = self.keep(encode_body(body.doc))
        body.doc, body.doc_blob = None, address
        body.blobs = [*body.blobs, address]
        return encode_body(body)

    def _put(self, table: Table, stream: Stream, key: tuple[Any, ...], row: Row | None) -> None:
        if row is not None:
            row["stream"] = stream.id
            row["tenant"] = stream.tenant
        rows = self.rows.get(table)
        if rows is None:
            rows = self.rows[table] = {}
        rows[stream.id, key] = row
        self.dirty.add((table, stream.id))

    def touch(
        self, table: Table, key: Mapping[str, Any], values: Mapping[str, Any] | None, stream: Stream | None = None
    ) -> None:
        """Write (or with None delete) an ephemeral row: no event, outside verify and move."""
        assert table.table_class is TableClass.EPHEMERAL
        assert table.streamed == (stream is not None)
        owner = stream.id if stream else self.tenant if table.tenant else 0
        row = None if values is None else {**key, **values, "stream": owner, "tenant": self.tenant}
        self.rows.setdefault(table, {})[owner, tuple(key[column] for column in table.key)] = row
        self.dirty.add((table, owner))
        self.written = True

    def keep(self, data: bytes) -> str:
        """Keep bytes by their content; returns the address. The same bytes are kept once for a tenant."""
        return self.keep_row(self.pack(data))

    def keep_row(self, row: BlobRow) -> str:
        """Keep bytes that were packed before, outside the lane; returns the address."""
        address = row[1]
        self.blob_rows[self.tenant, address] = row
        self.written = True
        return address.hex()

    def empty(self, stream: Stream, seqs: Iterable[int]) -> None:
        """Take the bodies of these events away, for ever: only for prune and erase, which record what they empty."""
        self.empties += [(stream.id, seq) for seq in seqs]
        self.written = True

    def claim_blobs(self) -> None:
        """Have the blobs alone until the commit: from here on queries see every blob that anybody refers to."""
        self._flush_early()
        self._batch.connection.claim_blobs()

    def drop_blobs(self, addresses: Collection[bytes]) -> None:
        """Delete blob rows, at once: jobs later in this batch must not build on them. Only after `claim_blobs`."""
        self._batch.connection.drop_blobs(self.tenant, sorted(addresses))

    def new_tenant(self, name: str) -> int:
        """Begin a tenant; at once, because the first open of a tenant is rare and stands alone."""
        self.flushed_early = True
        return self._batch.connection.new_tenant(name, new_uid())

    # -- streams ---------------------------------------------------------------------------------------------------------

    def seq(self, stream: Stream) -> int:
        """The sequence number of the stream's last event, own events included."""
        seq = self.seqs.get(stream.id)
        if seq is None:
            seq = self._batch.seqs.get(stream.id)
        return self._batch.head(stream.id)[0] if seq is None else seq

    def lock(self, stream: Stream) -> None:
        """From here to the commit nobody else writes to this stream, or forks it; what follows sees what they did before."""
        self._batch.lock(stream.id)

    def find_stream(self, kind: str, name: str) -> Stream | None:
        """The stream of this name, if it exists."""
        for known in (*self.streams.values(), *self._batch.streams.values()):
            if (known.tenant, known.kind, known.name) == (self.tenant, kind, name):
                return known
        rows = self.query(LOG.stream_by_name, tenant=self.tenant, kind=kind, name=name)
        return Stream(*rows[0]) if rows else None

    def new_stream(
        self, kind: str, name: str, parent: Stream | None = None, fork: Head | None = None, uid: bytes | None = None
    ) -> Stream:
        """Begin a stream; a fork goes on from its parent's event. It becomes real with its first event.

        `uid` is given only when the stream exists elsewhere and is replayed here.
        """
        (stream_id,) = self._batch.connection.new_stream_ids(1)
        head = fork or (0, GENESIS)
        stream = Stream(stream_id, uid or new_uid(), self.tenant, kind, name, parent.id if parent else None, head[0])
        self.streams[stream_id] = stream
        self._batch.flushed[stream_id] = head
        return stream

    # -- reading ---------------------------------------------------------------------------------------------------------

    def row(self, table: Table, stream: Stream, *key: Any) -> Row | None:
        """One row by its key, own writes and those of earlier jobs in the batch included. Do not change it in place."""
        return self._find(table, stream.id, stream.tenant, key)

    def own_row(self, table: Table, *key: Any) -> Row | None:
        """One row of a table that belongs to no stream."""
        return self._find(table, self.tenant if table.tenant else 0, self.tenant, key)

    def _find(self, table: Table, owner: int, tenant: int, key: tuple[Any, ...]) -> Row | None:
        for rows in (self.rows.get(table), self._batch.rows.get(table)):
            if rows and (owner, key) in rows:
                return rows[owner, key]
        if table.streamed and (owner in self.streams or owner in self._batch.streams):
            return None
        place = (table, owner, key)
        if place not in self.seen:  # `record` must build on what the verb decided by, not on what came after it
            self.seen[place] = self._select(table, owner, tenant, key)
        return self.seen[place]

    def _select(self, table: Table, owner: int, tenant: int, key: tuple[Any, ...]) -> Row | None:
        if table.streamed:
            self._decide_by(owner)
        found = self._batch.connection.select_row(table, owner, tenant, key)
        return dict(zip(table.all_columns, found, strict=True)) if found else None

    def _decide_by(self, stream: int) -> None:
        """Know the head before the state is read: if it moves meanwhile, the flush finds out and the verb runs again."""
        self._batch.head(stream)
        self.read.add(stream)

    def query(self, statement: Statement, *, touches: Iterable[tuple[Table, int]] = (), **params: Any) -> Rows:
        """Run a named read. Buffered writes to what it `touches` are flushed first, so that it sees them."""
        batch = self._batch
        touched = set(touches)
        if touched and not (touched.isdisjoint(batch.dirty) and touched.isdisjoint(self.dirty)):
            self._flush_early()
        for table, stream in touched:
            if table.streamed and stream:
                self._decide_by(stream)
        if statement.uses_now:
            params["now"] = self._lease_clock()
        return batch.connection.query(statement, params)

    def blob(self, address: str) -> bytes:
        """The bytes of a blob of this tenant, verified; one that was kept in this batch is seen."""
        return self._batch.blobs.read(self.tenant, bytes.fromhex(address), self._blob_row(address))

    def open_blob(self, address: str) -> Iterator[bytes]:
        """The same, piece by piece."""
        return self._batch.blobs.open(self.tenant, bytes.fromhex(address), self._blob_row(address))

    def _blob_row(self, address: str) -> tuple[Any, ...] | None:
        raw = bytes.fromhex(address)
        kept = self._kept(raw)
        if kept is not None:
            return kept[2:]
        rows = self.query(LOG.blob_get, tenant=self.tenant, address=raw)
        return rows[0] if rows else None

    def _kept(self, address: bytes) -> BlobRow | None:
        place = (self.tenant, address)
        return self.blob_rows.get(place) or self._batch.blob_rows.get(place)

    def known(self, addresses: Collection[bytes]) -> set[bytes]:
        """Which of these blobs are stored, those kept in this batch included; they stay until the commit."""
        kept = {address for address in addresses if self._kept(address)}
        self._batch.connection.share_blobs()
        return kept | known_blobs(self, set(addresses) - kept)

    def fetch(self, addresses: Collection[bytes]) -> dict[bytes, bytes]:
        """The bytes of these blobs, verified."""
        kept = {address: row[2:] for address in addresses if (row := self._kept(address))}
        rows = [*kept.items(), *blob_rows(self, set(addresses) - kept.keys())]
        return {address: self._batch.blobs.read(self.tenant, address, row) for address, row in rows}

    def pack(self, data: bytes) -> BlobRow:
        """The row that keeps these bytes; a large blob is durable outside when this returns."""
        return self._batch.blobs.row_for(self.tenant, data)[1]

    def store_now(self) -> int:
        """Now on the store's clock: what leases and expiry are decided by, whatever this machine's clock says."""
        return self.query(LOG.store_clock)[0][0]

    def _flush_early(self) -> None:
        """Bring what is buffered into the database, uncommitted. From here on, failing means failing the whole batch."""
        self.flushed_early = True
        self._batch.absorb(self)
        self._batch.flush(commit=False)
        self.events, self.rows, self.dirty, self.streams, self.blob_rows, self.empties = [], {}, set(), {}, {}, []
        self.seen = {}

    def end(self) -> None:
        """It is over: from here on whatever is asked of it is refused. Called by the lane, once, whatever came of the verb."""
        del self._batch  # a handle that is kept must not keep everybody's writes
        self.__class__ = Ended  # type: ignore[assignment] - the same slots, so that it costs open ones nothing


class Ended(Tx):
    """A transaction that is over. What a handle or a closure kept of it must never look as if it were written (P1)."""

    __slots__ = ()

    def __getattribute__(self, name: str) -> Any:
        raise Refused(f"this belongs to a transaction that is over ({name})", path="atomic", hint=OPEN_AGAIN)

    def __setattr__(self, name: str, value: Any) -> None:
        self.__getattribute__(name)


def known_blobs(reads: Reads, addresses: Collection[bytes]) -> set[bytes]:
    """Which of these blobs the database has."""
    pages = [reads.query(LOG.blobs_known, tenant=reads.tenant, addresses=page) for page in _listed(addresses)]
    return {bytes(address) for page in pages for (address,) in page}


def blob_rows(reads: Reads, addresses: Collection[bytes]) -> Iterator[tuple[bytes, tuple[Any, ...]]]:
    """The rows (size, codec, data) of those of these blobs that the database has."""
    for page in _listed(addresses):
        for address, *row in reads.query(LOG.blobs_get, tenant=reads.tenant, addresses=page):
            yield bytes(address), tuple(row)


def _listed(addresses: Collection[bytes]) -> Iterator[str]:
    ordered = sorted(addresses)
    for start in range(0, len(ordered), ADDRESSES_MAX):
        yield json.dumps([address.hex() for address in ordered[start : start + ADDRESSES_MAX]])
