"""The transaction as verbs see it, and the batch that several of them share.

Verbs are plain functions `verb(tx, …)`: they read, decide and record. `record` is the only door to recorded state, `touch` to
ephemeral state; both only buffer. The lane runs the verbs, flushes the batch and commits. Keeps P5 and P7.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from perdure.errors import Refused
from perdure.log.actors import ACTORS, NAMED, RANDOM_BYTES, random_name
from perdure.log.change import Change, Op, Stream
from perdure.log.derive import derive
from perdure.log.event import CODEC_JSON, GENESIS, SALT_BYTES, Body, Event, commit_to, encode_body, hash_header
from perdure.log.fold import step
from perdure.log.table import Row, Table, TableClass
from perdure.model.ids import UID_BYTES, new_uid
from perdure.model.limits import INLINE_MAX_BYTES
from perdure.stores.batch import Actor, Batch, Buffer, Key
from perdure.stores.blobs import BlobRow
from perdure.stores.clocks import Clocks
from perdure.stores.statements import Statement, Statements
from perdure.stores.store import Connection, Head, NewEvent, Reads, Rows

LOG = Statements("perdure.stores", "log.sql")
ADDRESSES_MAX = 500  # in one statement
OPEN_AGAIN = "open the session again through the store"

_NONE: list[Any] = []  # never changed: a body's lists are replaced, not added to
_TENANTS_OWN = ("tenant", "tenant")  # kind and name of a tenant's own stream


class Tx:
    """One job's transaction: all of it is committed, or none. `now` is the instant of all its events."""

    __slots__ = ("_batch", "actor", "buffer", "clocks", "flushed_early", "looks", "named", "now", "pin", "read", "seen",
                 "tenant", "uid")  # fmt: skip

    def __init__(self, batch: Batch, actor: str, tenant: int, clocks: Clocks, pin: str = "") -> None:
        self._batch = batch
        self.clocks = clocks
        self.actor = actor
        self.tenant = tenant
        self.now = clocks.now()
        self.pin = pin
        self.uid = batch.entropy.take(UID_BYTES)
        self.buffer = Buffer()
        self.read: set[int] = set()  # streams by whose state the verb decided
        self.looks = 0  # how often it looked at one: twice may be two states
        self.seen: dict[tuple[Table, int, Key], Row | None] = {}  # rows as they were read
        self.flushed_early = False
        self.named: dict[Actor, str] = {}

    # -- writing ---------------------------------------------------------------------------------------------------------

    def record(self, change: Change) -> int:
        """Change a row and append the event that says so, together. Returns the event's sequence number.

        Nothing is durable until the lane commits; nothing at all happens if this job fails.
        """
        stream, table = change.stream, change.table
        assert table is None or table.table_class is TableClass.RECORDED
        body = Body(
            op=change.op, key=change.key, set=change.set, mark=change.mark, doc=change.doc, doc_blob="",
            blobs=[*change.blobs] if change.blobs else _NONE, refs=[*change.refs] if change.refs else _NONE,
            subjects=[*change.subjects] if change.subjects else _NONE,
            derived_from=[*change.derived_from] if change.derived_from else _NONE, pin=self.pin,
            calls=[*change.calls] if change.calls else _NONE,
        )  # fmt: skip
        stored = encode_body(body)
        if len(stored) > INLINE_MAX_BYTES and change.doc is not None:
            stored = self._move_out(body)
        seq = self._append(stream, change.kind, table.name if table else "", stored)
        self._follow(table, stream, body, seq)
        return seq

    def _append(self, stream: Stream, kind: str, table: str, body: bytes) -> int:
        """The next event of a stream, numbered and hashed."""
        batch = self._batch
        actor = batch.actors.get((stream.tenant, self.actor)) or _known_as(self, stream.tenant)
        last, previous = self.buffer.heads.get(stream.id) or batch.buffer.heads.get(stream.id) or batch.head(stream.id)
        seq = last + 1
        salt = batch.entropy.take(SALT_BYTES)
        commitment = commit_to(salt, body)
        digest = hash_header(stream.uid, seq, previous, kind, table, actor, self.now, CODEC_JSON, commitment)
        event = NewEvent(
            tenant=stream.tenant, stream=stream.id, seq=seq, kind=kind, tbl=table, actor=actor, at=self.now,
            codec=CODEC_JSON, tx=self.uid, commitment=commitment, hash=digest, salt=salt, body=body,
        )  # fmt: skip
        self.buffer.events.append((stream, event))
        self.buffer.heads[stream.id] = (seq, digest)
        return seq

    def adopt(
        self, stream: Stream, event: Event, table: Table | None, body: Body | None, *, pruned: bool = False
    ) -> None:
        """Append an event that was recorded elsewhere, verbatim, and the rows that it gives. For `stores.replay` alone.

        The caller has checked that the event follows the stream's head; `body` is None when it was emptied. `pruned`: see
        `log.fold.step`.
        """
        verbatim = NewEvent(
            tenant=stream.tenant, stream=stream.id, seq=event.seq, kind=event.kind, tbl=event.table,
            actor=event.actor, at=event.at, codec=event.codec, tx=event.tx, commitment=event.commitment,
            hash=event.hash, salt=event.salt, body=event.body,
        )  # fmt: skip
        self.buffer.events.append((stream, verbatim))
        self.buffer.adopted = True
        self.buffer.heads[stream.id] = (event.seq, event.hash)
        if body is not None:
            self._follow(table, stream, body, event.seq, pruned=pruned)

    def _follow(self, table: Table | None, stream: Stream, body: Body, seq: int, *, pruned: bool = False) -> None:
        """The row that an event changes, and what is derived from it."""
        done = None
        if table is not None and not table.rowless:
            done = step(table, body, seq, partial(self._find, table, stream.id, stream.tenant), pruned=pruned)
            if done is not None:
                if done.old and done.new and any(done.old[each] != done.new[each] for each in table.yields):
                    self._put(table, stream, done.key, None)
                    self.relieve()
                self._put(table, stream, done.key, done.new)
        if done is not None or body.refs or body.blobs or body.subjects:
            for derived, row, gone in derive(table, seq, body, done):
                self._put(derived, stream, derived.key_of(row), None if gone else row)

    def _move_out(self, body: Body) -> bytes:
        """A large document becomes a blob; the body keeps its address."""
        address = self.keep(encode_body(body.doc))
        body.doc, body.doc_blob = None, address
        body.blobs = [*body.blobs, address]
        return encode_body(body)

    def _put(self, table: Table, stream: Stream, key: Key, row: Row | None) -> None:
        if row is not None:
            row["stream"] = stream.id
            row["tenant"] = stream.tenant
        self.buffer.rows.setdefault((table, stream.id), {})[key] = row

    def touch(
        self, table: Table, key: Mapping[str, Any], values: Mapping[str, Any] | None, stream: Stream | None = None
    ) -> None:
        """Write (or with None delete) an ephemeral row: no event, neither verified nor moved."""
        assert table.table_class is TableClass.EPHEMERAL
        assert table.streamed == (stream is not None)
        owner = stream.id if stream else self.tenant if table.tenant else 0
        tenant = stream.tenant if stream else self.tenant
        row = None if values is None else {**key, **values, "stream": owner, "tenant": tenant}
        self.buffer.rows.setdefault((table, owner), {})[tuple(key[column] for column in table.key)] = row

    def keep(self, data: bytes) -> str:
        """Keep bytes by their content; returns the address. The same bytes are kept once for a tenant."""
        return self.keep_row(self.pack(data))

    def keep_row(self, row: BlobRow) -> str:
        """Keep bytes that were packed before, outside the lane; returns the address."""
        address = row[1]
        self.buffer.blob_rows[self.tenant, address] = row
        return address.hex()

    def empty(self, stream: Stream, seqs: Iterable[int]) -> None:
        """Take the bodies of these events away, for ever: only for prune and erase, which record what they empty.

        Rows that only they gave go with them, because folding no longer gives them: derived rows, and the row of a turn. At once:
        jobs later in this batch must not build on it.
        """
        self.buffer.empties += [(stream.id, seq) for seq in seqs]
        self.relieve()

    def relieve(self) -> None:
        """Bring what is buffered into the database, uncommitted: for verbs that write more than memory should hold at once, or
        that query what they wrote. From here on, failing means failing the whole batch.
        """
        self.flushed_early = True
        self._batch.absorb(self)
        self._batch.flush(commit=False)
        self.buffer = Buffer()
        self.seen = {}

    def claim_blobs(self) -> None:
        """Have the tenant's blobs alone until the commit: from here on queries see every blob that anybody refers to."""
        self.relieve()
        self._batch.connection.claim_blobs(self.tenant)

    def lend(self) -> Connection:
        """The connection itself, for rows that are not ours (`guests`). From here on, failing means failing the whole batch."""
        self.flushed_early = True
        return self._batch.connection

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
        return self.head(stream)[0]

    def head(self, stream: Stream) -> Head:
        """The head with the hash of that event: which event it is, whatever became of others with its number."""
        own = self.buffer.heads.get(stream.id)
        if own is not None:
            return own
        batch = self._batch
        seen = batch.head(stream.id)  # as `_decide_by` has it
        self.read.add(stream.id)
        self.looks += 2  # it may be where this process saw it last: alone it is as good as two states
        return batch.buffer.heads.get(stream.id) or seen

    def lock(self, stream: Stream) -> None:
        """From here to the commit nobody else writes to this stream, or forks it; what follows sees what they did before."""
        self._batch.lock(stream.id)

    def find_stream(self, kind: str, name: str) -> Stream | None:
        """The stream of this name, if it exists."""
        for known in (*self.buffer.streams.values(), *self._batch.buffer.streams.values()):
            if (known.tenant, known.kind, known.name) == (self.tenant, kind, name):
                return known
        rows = self.query(LOG.stream_by_name, tenant=self.tenant, kind=kind, name=name)
        return Stream(*rows[0]) if rows else None

    def new_stream(
        self, kind: str, name: str, parent: Stream | None = None, fork: Head | None = None, uid: bytes | None = None
    ) -> Stream:
        """Begin a stream; a fork continues from its parent's event. It becomes real with its first event.

        `uid` is given only when the stream exists elsewhere and is replayed here.
        """
        (stream_id,) = self._batch.connection.new_stream_ids(1)
        head = fork or (0, GENESIS)
        stream = Stream(
            id=stream_id, uid=uid or new_uid(), tenant=self.tenant, kind=kind, name=name,
            parent=parent.id if parent else None, fork_seq=head[0],
        )  # fmt: skip
        self.buffer.streams[stream_id] = stream
        self._batch.flushed[stream_id] = head
        return stream

    # -- reading ---------------------------------------------------------------------------------------------------------

    def row(self, table: Table, stream: Stream, *key: Any) -> Row | None:
        """One row by its key, own writes and those of earlier jobs in the batch included. Do not change it in place."""
        return self._find(table, stream.id, stream.tenant, key)

    def changed(self, table: Table, stream: Stream, *key: Any) -> Row | None:
        """A row as this very job leaves it; None if the job has not changed it."""
        if self.flushed_early:
            return self.row(table, stream, *key)
        return self.buffer.rows.get((table, stream.id), {}).get(key)

    def own_row(self, table: Table, *key: Any) -> Row | None:
        """One row of a table that belongs to no stream."""
        return self._find(table, self.tenant if table.tenant else 0, self.tenant, key)

    def _find(self, table: Table, owner: int, tenant: int, key: Key) -> Row | None:
        for buffer in (self.buffer, self._batch.buffer):
            rows = buffer.rows.get((table, owner))
            if rows and key in rows:
                return rows[key]
            if table.streamed and owner in buffer.streams:
                return None
        place = (table, owner, key)
        if place not in self.seen:  # `record` must build on what the verb decided by, not on what came after it
            if table.streamed:
                self._decide_by(owner)
            found = self._batch.connection.select_row(table, owner, tenant, key)
            self.seen[place] = dict(zip(table.all_columns, found, strict=True)) if found else None
        return self.seen[place]

    def _decide_by(self, stream: int) -> None:
        """Know the head before the state is read: if it moves meanwhile, the flush finds out and the verb runs again."""
        self._batch.head(stream)
        self.read.add(stream)
        self.looks += 1

    def query(self, statement: Statement, *, touches: Iterable[tuple[Table, int]] = (), **params: Any) -> Rows:
        """Run a named read. Buffered writes to what it `touches` are flushed first, so that it sees them."""
        batch = self._batch
        touched = [*touches]
        if touched and (self.buffer.concerns(touched) or batch.buffer.concerns(touched)):
            self.relieve()
        for table, stream in touched:
            if table.streamed and stream:
                self._decide_by(stream)
        if statement.uses_now:
            params["now"] = self.clocks.store()
        return batch.connection.query(statement, params)

    def blob(self, address: str) -> bytes:
        """The bytes of a blob of this tenant, verified; one that was kept in this batch is seen."""
        return self._batch.blobs.read(self.tenant, bytes.fromhex(address), self._blob_row(address))

    def open_blob(self, address: str) -> Iterator[bytes]:
        """Read a blob piece by piece."""
        return self._batch.blobs.open(self.tenant, bytes.fromhex(address), self._blob_row(address))

    def _blob_row(self, address: str) -> tuple[Any, ...] | None:
        raw = bytes.fromhex(address)
        kept = self._kept(raw)
        if kept is not None:
            return kept[2:]
        self.looks += 1  # the event that named it may have been pruned, and the blob collected, since the caller looked
        rows = self.query(LOG.blob_get, tenant=self.tenant, address=raw)
        return rows[0] if rows else None

    def _kept(self, address: bytes) -> BlobRow | None:
        place = (self.tenant, address)
        return self.buffer.blob_rows.get(place) or self._batch.buffer.blob_rows.get(place)

    def known(self, addresses: Collection[bytes]) -> set[bytes]:
        """Which of these blobs are stored, those kept in this batch included; they stay until the commit."""
        kept = {address for address in addresses if self._kept(address)}
        self._batch.connection.share_blobs(self.tenant)
        return kept | known_blobs(self, set(addresses) - kept)

    def fetch(self, addresses: Collection[bytes]) -> dict[bytes, bytes]:
        """The bytes of these blobs, verified."""
        kept = {address: row[2:] for address in addresses if (row := self._kept(address))}
        rows = [*kept.items(), *blob_rows(self, set(addresses) - kept.keys())]
        return {address: self._batch.blobs.read(self.tenant, address, row) for address, row in rows}

    def pack(self, data: bytes) -> BlobRow:
        """The row that keeps these bytes; a large blob is durable in the place when this returns."""
        return self._batch.blobs.row_for(self.tenant, data)[1]

    def store_now(self) -> int:
        """Now on the store's clock: what leases and expiry are decided by, whatever this machine's clock says."""
        return self.query(LOG.store_clock)[0][0]

    def check(self) -> None:
        """Before a verb is refused: RACED if what it saw may be of two states, by which nobody would have refused it."""
        if self.looks > 1:
            self._batch.check(self.read - self.buffer.streams.keys())

    def end(self) -> None:
        """It is over: from here on whatever is asked of it is refused. Called by the lane, once, whatever came of the verb."""
        del self._batch  # a handle that is kept must not keep everybody's writes
        self.__class__ = EndedTx  # type: ignore[assignment] - the same slots, so that it costs open ones nothing


def _known_as(tx: Tx, tenant: int) -> str:
    """The random name by which headers know the actor of a transaction; a new actor is introduced in the same commit."""
    who = (tenant, tx.actor)
    batch = tx._batch
    known = tx.named.get(who) or batch.named.get(who)
    if known or not tx.actor:
        return known or ""
    own = own_stream(tx, tenant)
    if own.id not in tx.buffer.streams:
        tx._decide_by(own.id)  # before the look: if two introduce it at once, the second one looks again
    found = tx.query(LOG.actor_of, tenant=tenant, name=tx.actor)
    tx.named[who] = found[0][0] if found else random_name(batch.entropy.take(RANDOM_BYTES))
    if not found:
        introduce(tx, own, tx.named[who], tx.actor)
    return tx.named[who]


def is_buffered(tx: Tx, table: Table) -> bool:
    """Whether rows of a table, of whatever stream, have not reached the database."""
    return any(each is table for buffer in (tx.buffer, tx._batch.buffer) for each, _ in buffer.rows)


def flushed_spans(tx: Tx) -> dict[int, tuple[int, int]]:
    """The events of a transaction that were let go of before its end: the first and the last in each stream."""
    found: dict[int, tuple[int, int]] = {}
    for stream, event in tx._batch.trail if tx.flushed_early else ():
        if event.tx == tx.uid:
            found[stream.id] = (found.get(stream.id, (event.seq,))[0], event.seq)
    return found


def introduce(tx: Tx, own: Stream, actor: str, name: str) -> None:
    """Record in a tenant's own stream whose random name this is, and what the tenant is called (decision 0036)."""
    doc = {"tenant": tx.query(LOG.tenant_name, tenant=own.tenant)[0][0]}
    tx.record(Change(NAMED, own, ACTORS, Op.INSERT, {"actor": actor}, {"name": name}, doc=doc, mark="seq"))


def own_stream(tx: Tx, tenant: int) -> Stream:
    """The stream of a tenant itself; it is begun if there is none."""
    before, tx.tenant = tx.tenant, tenant
    try:
        return tx.find_stream(*_TENANTS_OWN) or tx.new_stream(*_TENANTS_OWN)
    finally:
        tx.tenant = before


class EndedTx(Tx):
    """A transaction that is over. A handle or a closure that kept a part of it must never look as if it were written (P1)."""

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
        for row in reads.query(LOG.blobs_get, tenant=reads.tenant, addresses=page):
            yield bytes(row[0]), row[1:]


def _listed(addresses: Collection[bytes]) -> Iterator[str]:
    ordered = sorted(addresses)
    for start in range(0, len(ordered), ADDRESSES_MAX):
        yield json.dumps([address.hex() for address in ordered[start : start + ADDRESSES_MAX]])
