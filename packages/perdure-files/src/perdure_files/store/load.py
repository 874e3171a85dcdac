"""Lines of the log into the cache: the rows follow from the events, each checked against its chain.

Many lines go in at once; where one of them does not, it is found by halving, and what cannot be loaded of it is set aside, stream
by stream: an event whose predecessor is not there ends what can be known of its stream, and of no other. Inside a transaction of
the caller's. Callers: `engine`, `merge`. Keeps P5, P6, P10.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from perdure.errors import Damaged, Error
from perdure.log.change import Stream
from perdure.log.event import GENESIS
from perdure.log.table import declared
from perdure.log.written import WrittenEvent, WrittenStream, encode, event_read, from_hex, split_name
from perdure.model.ids import Entropy
from perdure.model.instants import system_clock
from perdure.stores import moved_away
from perdure.stores.batch import EVENTS, Batch
from perdure.stores.blobs import Blobs
from perdure.stores.clocks import Clocks
from perdure.stores.migrate import Q as META
from perdure.stores.migrate import number_in, uid_in
from perdure.stores.replay import Seen, adopt_event, meaning_of, verbatim
from perdure.stores.sqlite import SqliteConnection
from perdure.stores.statements import Statements
from perdure.stores.store import Fault, FaultKind, Head
from perdure.stores.tx import LOG, Tx
from perdure_files.store.journal import Entry
from perdure_files.store.line import FoundLine, Line, Piece, WrittenBlob, WrittenStore

Q = Statements("perdure_files.store", "files.sql")
CHUNK_LINES = 16_384
EPOCH_MAX = 10**9 - 1  # one that could not rise any more is none (`migrate.number_in`)
_CLOCKS = Clocks(system_clock, system_clock)
_COPY = "a copy of what was loaded before"
_OF_THE_LINE = frozenset({FaultKind.BROKEN, FaultKind.TAKEN, FaultKind.RACED})  # others are the disk's
# The errors that a foreign whole line causes in our code: a number that is too large, a list where a name belongs.
_NOT_OURS = (Error, TypeError, ValueError, ArithmeticError, LookupError, AttributeError, struct.error)


_IMPORTED = "tenant.imported"  # after such an event a stream may mean something else here (planes/execution/imported)


class Loader:
    """Loads lines into one cache, whose transaction is open. `facts` is what the log said of the store itself."""

    def __init__(self, cache: SqliteConnection, facts: WrittenStore | None = None) -> None:
        self._cache = cache
        self._entropy = Entropy()
        self._tables = declared()
        self._named: dict[str, Stream] = {}  # streams by their names in lines
        self._pruned: dict[int, set[str]] = {}
        self._seen: dict[int, Seen] = {}  # meaning of a stream's events here; anew after a tenant has said something
        self._tenants_said = bool(cache.query(Q.tenants_said, {}))
        self._tenants = {name: number for number, name in cache.query(Q.tenants_all, {})}
        self.facts = facts

    def load(self, entries: Sequence[Entry]) -> list[tuple[int, Piece]]:
        """Load what can be; returns what was not, with what was no line to begin with, in the order of the log."""
        aside: list[tuple[int, Piece]] = []
        for start in range(0, len(entries), CHUNK_LINES):
            aside += self._chunk(entries[start : start + CHUNK_LINES])
        return aside

    def _chunk(self, entries: Sequence[Entry]) -> list[tuple[int, Piece]]:
        """All of it at once, or each half for itself, down to the one line that cannot be loaded as it is."""
        if self._loaded([part for _, part in entries if isinstance(part, FoundLine)]):
            return [(number, part) for number, part in entries if isinstance(part, Piece)]
        if len(entries) > 1:
            middle = len(entries) // 2
            return self._chunk(entries[:middle]) + self._chunk(entries[middle:])
        ((number, line),) = entries
        assert isinstance(line, FoundLine)
        return [(number, piece) for piece in self._parts(line)]

    def _loaded(self, lines: Sequence[FoundLine]) -> bool:
        """Whether all of these could be loaded; if not, nothing of them is. Raises Fault when that is no fault of theirs."""
        try:
            with self._tx() as tx:
                for line in lines:
                    self._line(tx, line)
        except Fault as fault:
            if fault.kind not in _OF_THE_LINE or not self._cache.raw.in_transaction:
                raise
            return False
        except _NOT_OURS:
            return False
        return True

    @contextmanager
    def _tx(self) -> Iterator[Tx]:
        """A transaction of its own inside the caller's: all of it, or nothing."""
        self._cache.query(Q.savepoint_begin, {})
        batch = Batch(self._cache, Blobs(None, ""), self._entropy)
        tx = Tx(batch, "", 0, _CLOCKS)
        try:
            yield tx
            batch.absorb(tx)
            batch.flush(commit=False)
        except BaseException:
            if self._cache.raw.in_transaction:  # else a full disk has taken back all of it
                self._undo()
            raise
        self._cache.query(Q.savepoint_keep, {})

    def _undo(self) -> None:
        self._cache.query(Q.savepoint_undo, {})
        self._cache.query(Q.savepoint_keep, {})
        self._named.clear()
        self._pruned.clear()
        self._seen.clear()
        self._tenants = {name: number for number, name in self._cache.query(Q.tenants_all, {})}

    # -- one line --------------------------------------------------------------------------------------------------------

    def _line(self, tx: Tx, part: FoundLine) -> None:
        line = part.line
        if line.store is not None or line.tenants or line.blobs:
            self._begins(tx, line)
        begun = {stream.uid: stream for stream in line.streams} if line.streams else None
        for event in line.events:
            if begun and event.stream in begun:  # only now: it may be a fork of what the same line says
                self._begin(tx, begun.pop(event.stream))
            self._event(tx, event)
        if line.empties or line.drops:
            self._ends(tx, line)

    def _begins(self, tx: Tx, line: Line) -> None:
        """Make the targets that events may refer to."""
        if line.store is not None:
            self._store(line.store)
        for tenant in line.tenants:
            if tenant.name not in self._tenants:
                self._make_tenant(tenant.name, tenant.number, from_hex(tenant.uid, 16, "tenants.uid"))
        for blob in line.blobs:
            tx.tenant = self._tenant_number(blob.tenant)
            tx.keep_row((tx.tenant, from_hex(blob.address, 32, "blobs.address"), blob.size, 0, None))

    def _ends(self, tx: Tx, line: Line) -> None:
        """What goes. Emptying reads nothing; dropping must not leave what is still buffered."""
        for uid, seq in line.empties:
            stream = self._stream(uid, "empties")
            if stream is not None:
                tx.empty(stream, [seq])
        if line.drops:
            tx.claim_blobs()
        for blob in line.drops:
            self._drop(blob)

    def _store(self, statement: WrittenStore) -> None:
        """The epoch only rises; what another store says of itself (somebody put its lines here) is not about this one."""
        from_hex(statement.uid, 16, "store.uid")
        if statement.partition:
            from_hex(statement.partition, 16, "store.partition")
        if not 1 <= statement.epoch < EPOCH_MAX:
            raise Damaged("no store has this epoch", path="store.epoch")
        if self.facts is None or (statement.uid == self.facts.uid and statement.epoch >= self.facts.epoch):
            self.facts = statement

    def _tenant_number(self, name: str) -> int:
        """The number of a tenant. One whose beginning was lost begins here: what names it stands."""
        if name not in self._tenants:
            self._make_tenant(name, 1, hashlib.sha256(name.encode()).digest()[:16])
        return self._tenants[name]

    def _make_tenant(self, name: str, number: int, uid: bytes) -> None:
        while number in self._tenants.values():
            number += 1
        self._cache.query(Q.tenant_put, {"id": number, "uid": uid, "name": name})
        self._tenants[name] = number

    def _drop(self, blob: WrittenBlob) -> None:
        self._cache.drop_blobs(self._tenant_number(blob.tenant), [from_hex(blob.address, 32, "drops.address")])

    # -- streams -----------------------------------------------------------------------------------------------------------

    def _stream(self, name: str, path: str) -> Stream | None:
        """A stream that is here already, by its name in a line."""
        stream = self._named.get(name)
        if stream is None:
            uid, tenant = split_name(name, path)
            if tenant and tenant not in self._tenants:
                return None
            rows = self._cache.query(Q.stream_named, {"uid": uid, "tenant": self._tenants.get(tenant)})
            if not rows:
                return None
            stream = self._named[name] = Stream(*rows[0])
            emptied = self._cache.query(LOG.pruned_tables, {"stream": stream.id, "upto": 2**62})
            self._pruned[stream.id] = {table for (table,) in emptied}
        return stream

    def _begin(self, tx: Tx, statement: WrittenStream) -> None:
        uid, tenant = split_name(statement.uid, "streams.uid")
        if self._stream(statement.uid, "streams.uid") is not None or tenant not in ("", statement.tenant):
            raise Damaged(f"the stream {statement.name[:60]!r} begins twice", path="streams")
        parent = self._stream(statement.parent, "streams.parent") if statement.parent else None
        if statement.parent and parent is None:
            raise Damaged(f"the parent of the stream {statement.name[:60]!r} is not known", path="streams.parent")
        tx.tenant = self._tenant_number(statement.tenant)
        stream = tx.new_stream(statement.kind, statement.name, parent, _fork(tx, parent, statement.fork), uid=uid)
        self._named[statement.uid] = stream
        self._pruned[stream.id] = set()

    def _event(self, tx: Tx, statement: WrittenEvent) -> None:
        stream = self._named.get(statement.stream) or self._find(statement.stream)
        event = event_read(statement, "events")
        pruned = self._pruned[stream.id]
        if event.body is None:
            pruned.add(event.table)
        if statement.kind == _IMPORTED:
            self._tenants_said = True
            self._seen.clear()
        meaning = self._seen.get(stream.id) or self._meaning(tx, stream)
        adopt_event(tx, stream, event, tx.head(stream), self._tables, meaning, pruned=event.table in pruned)

    def _meaning(self, tx: Tx, stream: Stream) -> Seen:
        """Tenants' own streams say which others were imported: what they said in this very line counts too."""
        meaning = verbatim
        if self._tenants_said:
            tx.relieve()
            meaning = meaning_of(tx, stream)
        if stream.kind != "tenant":  # of which each event may change what the others mean
            self._seen[stream.id] = meaning
        return meaning

    def _find(self, uid: str) -> Stream:
        stream = self._stream(uid, "events.stream")
        if stream is None:
            raise Damaged("its stream is not known", path="events.stream")
        return stream

    # -- a line that cannot be loaded as it is -----------------------------------------------------------------------------------

    def _parts(self, part: FoundLine) -> Iterator[Piece]:
        """Load what can be of it, stream by stream; the rest is set aside."""
        line = part.line
        if not self._part(Line(line.v, line.prev, store=line.store, tenants=line.tenants, blobs=line.blobs)):
            yield Piece(part.start, encode(line), "its statements about tenants and blobs cannot be loaded")
            return
        for uid in dict.fromkeys(event.stream for event in line.events):
            begun = [stream for stream in line.streams if stream.uid == uid]
            piece = self._of_stream(part.start, begun, [event for event in line.events if event.stream == uid])
            if piece is not None:
                yield piece
        self._part(Line(line.v, line.prev, drops=line.drops, empties=line.empties))

    def _of_stream(self, start: int, begun: list[WrittenStream], events: list[WrittenEvent]) -> Piece | None:
        new = [event for event in events if not self._is_loaded(event)]
        if not new:
            return Piece(start, encode(events), _COPY, lost=False)
        is_here = begun and self._stream_or_none(begun[0].uid) is not None
        if self._part(Line(1, "", streams=[] if is_here else begun, events=new)):
            return None
        return Piece(start, encode(new), self._why(begun, new[0]))

    def _part(self, line: Line) -> bool:
        return self._loaded([FoundLine(line, "", 0, 0)])

    def _stream_or_none(self, uid: str) -> Stream | None:
        """A stream by what may be no uid at all."""
        try:
            return self._stream(uid, "stream")
        except Damaged:
            return None

    def _is_loaded(self, event: WrittenEvent) -> bool:
        stream = self._stream_or_none(event.stream)
        if stream is None or not 0 < event.seq < 2**63:
            return False
        rows = self._cache.query(Q.event_hash, {"stream": stream.id, "seq": event.seq})
        return bool(rows) and bytes(rows[0][0]).hex() == event.hash

    def _why(self, begun: list[WrittenStream], event: WrittenEvent) -> str:
        stream = self._stream_or_none(event.stream)
        if stream is None:
            return "its stream cannot begin here" if begun else "the beginning of its stream is missing"
        seq = self._cache.query(LOG.stream_head, {"stream": stream.id})[0][0]
        return f"its stream ends at {seq}: event {event.seq} does not follow, what lies between is missing or another"


def _fork(tx: Tx, parent: Stream | None, seq: int) -> Head:
    """Where a stream begins: at nothing, or after its parent's event."""
    if parent is None:
        return 0, GENESIS
    rows = tx.query(Q.event_hash, touches=[(EVENTS, parent.id)], stream=parent.id, seq=seq)
    if not rows:
        raise Damaged(f"the parent has no event {seq}", path="streams.fork")
    return seq, bytes(rows[0][0])


def facts_of(cache: SqliteConnection) -> WrittenStore:
    """The cache's facts about the store. Damaged when it says nothing."""
    facts = {str(name): str(value) for name, value in cache.query(META.meta_facts, {})}
    return WrittenStore(
        uid_in(facts, "uid"),
        number_in(facts, "epoch"),
        *(facts.get(name, "") for name in WrittenStore.__struct_fields__[2:]),
    )


def put_facts(cache: SqliteConnection, facts: WrittenStore) -> None:
    """Let the cache say of the store what the log says, and be sealed as that is."""
    for name in WrittenStore.__struct_fields__:
        value = getattr(facts, name)
        if value:
            cache.query(META.meta_put, {"name": name, "value": str(value)})
        else:
            cache.query(moved_away.Q.meta_drop, {"name": name})
    if facts.moved:
        cache.query(moved_away.Q.seal, {})
