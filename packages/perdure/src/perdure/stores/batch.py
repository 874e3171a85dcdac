"""The writes of several verbs on their way to one commit: each verb's buffer, and the batch that absorbs them.

The lane owns a batch, and flushes and commits it. Callers: `tx`, the lane, a store that writes in its user's transaction.
Keeps P5.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import msgspec

from perdure.errors import NotFound
from perdure.log.change import Stream
from perdure.log.table import Row, Table, TableClass
from perdure.model.ids import Entropy
from perdure.stores.blobs import BlobRow, Blobs
from perdure.stores.store import Connection, Fault, FaultKind, Head, HeadMove, NewEvent, NewStream, Writes

if TYPE_CHECKING:
    from perdure.stores.tx import Tx

# Only to be named in `touches`: every record touches both. HISTORY is what lies before a fork: it does not change, so a verb
# that reads it sees its own writes, and is not run again because the parent grew meanwhile.
EVENTS = Table("events", TableClass.DERIVED, ("seq",), ())
HISTORY = Table("events", TableClass.DERIVED, ("seq",), (), streamed=False)

Key = tuple[Any, ...]
Actor = tuple[int, str]  # tenant and name
NOBODY: Mapping[Actor, str] = {}


class Buffer(msgspec.Struct, eq=False):
    """Writes that have not reached the database: by one job, or by all those of a batch that are done."""

    events: list[tuple[Stream, NewEvent]] = []
    heads: dict[int, Head] = {}  # where these events move the heads of their streams
    rows: dict[tuple[Table, int], dict[Key, Row | None]] = {}  # by table and stream (or tenant, or 0)
    streams: dict[int, Stream] = {}  # new ones
    blob_rows: dict[tuple[int, bytes], BlobRow] = {}
    empties: list[tuple[int, int]] = []
    adopted: bool = False  # these events were recorded elsewhere

    def add(self, later: Buffer) -> None:
        """Take over what was written after this."""
        self.events += later.events
        self.heads.update(later.heads)
        for place, rows in later.rows.items():
            self.rows.setdefault(place, {}).update(rows)
        self.streams.update(later.streams)
        self.blob_rows.update(later.blob_rows)
        self.empties += later.empties
        self.adopted |= later.adopted

    def concerns(self, places: Iterable[tuple[Table, int]]) -> bool:
        """Whether a query of these tables and streams would miss something that is here."""
        return any(
            stream in self.heads if table is EVENTS or table is HISTORY else (table, stream) in self.rows
            for table, stream in places
        )


_EMPTY = Buffer()  # never changed
_EVENT = itemgetter(1)


class Batch:
    """The writes of the jobs of one commit so far. The lane owns it; a failed job leaves no trace in it."""

    __slots__ = ("actors", "blobs", "buffer", "connection", "entropy", "exact",
                 "flushed", "hints", "locked", "named", "read", "trail")  # fmt: skip

    def __init__(
        self, connection: Connection, blobs: Blobs, entropy: Entropy, hints: Mapping[int, Head] | None = None,
        actors: Mapping[Actor, str] = NOBODY,
    ) -> None:  # fmt: skip
        self.connection = connection
        self.blobs = blobs
        self.hints = hints or {}
        self.actors = actors  # their random names in headers, as far as this process knows them
        self.named: dict[Actor, str] = {}  # those that this batch looked up or introduced
        self.exact = hints is None  # heads that were read cannot move before the commit
        self.entropy = entropy
        self.flushed: dict[int, Head] = {}  # heads as the database has them inside this transaction
        self.locked: set[int] = set()  # streams whose heads this transaction holds
        self.read: set[int] = set()  # streams by whose state absorbed jobs decided
        self.buffer = _EMPTY
        # The events that were sent to the database; of an adopted page its ends.
        self.trail: list[tuple[Stream, NewEvent]] = []

    def head(self, stream: int) -> Head:
        """The head of a stream as the database has it (or, where heads are verified at the flush, had it last)."""
        head = self.flushed.get(stream)
        if head is None:
            head = self.hints.get(stream) or self.connection.heads([stream], lock=False).get(stream)
            if head is None:
                raise NotFound("the stream does not exist in this store", path="stream")
            self.flushed[stream] = head
        return head

    def look_up(self, streams: Collection[int]) -> None:
        """Read the heads that the jobs will most likely ask for, at once; where they are verified at the flush, nothing."""
        if self.exact and streams:
            self.flushed.update(self.connection.heads([*streams], lock=False))

    def lock_heads(self, streams: Iterable[int]) -> None:
        """Read and lock these heads before any verb runs: the way after a lost race."""
        self._hold(streams)
        self.flushed.update(self.connection.heads(sorted(streams), lock=True))

    def _hold(self, streams: Iterable[int]) -> None:
        """Asked before heads are locked. They are locked in ascending order only, so that no two transactions wait for each
        other: a batch that comes to a lower head is run again, with all of its heads locked first.
        """
        if self.exact:
            return
        highest = max(self.locked, default=0)
        new = {*streams} - self.locked
        self.locked |= new
        if new and min(new) < highest:
            raise Fault(FaultKind.RACED, "its heads are locked in one order")

    def lock(self, stream: int) -> None:
        """Lock one head while verbs run. If it is not where this batch has seen it, the batch is stale."""
        if stream in self.buffer.streams:
            return
        self._hold([stream])
        found = self.connection.heads([stream], lock=True)
        if stream in self.flushed and self.flushed[stream] != found.get(stream):
            # If this is swallowed, the flush says so again: the head that was seen is not forgotten.
            raise Fault(FaultKind.RACED, "the stream grew meanwhile")
        self.flushed.update(found)

    def absorb(self, tx: Tx) -> None:
        """Merge a finished job's writes and its read set. A job that read twice without writing must have seen one state."""
        own = tx.buffer
        if not (own.events or own.rows or own.streams or own.blob_rows or own.empties or tx.flushed_early):
            if tx.looks > 1:
                self.read |= tx.read
            return
        self.read |= tx.read
        if tx.named:
            self.named |= tx.named
        if self.buffer is _EMPTY:  # mostly: one job, or the first
            self.buffer = own
        else:
            self.buffer.add(own)

    def flush(self, *, commit: bool) -> None:
        """Write everything that is buffered, set-wise; with `commit`, make it durable."""
        buffer = self.buffer
        writes = self._writes(buffer)
        if commit and not self.exact:
            self._verify_read(writes)
        # An import brings as many events as it likes, in one transaction: nobody who follows commits has seen them happen.
        self.trail += [*buffer.events[:1], *buffer.events[-1:]] if buffer.adopted else buffer.events
        self.flushed.update(buffer.heads)
        if not self.exact:
            self._hold(move.stream for move in writes.heads)
        self.connection.write(writes, commit=commit)
        if not commit:  # else this batch is over; a new stream becomes real with its first event
            unreal = {number: stream for number, stream in buffer.streams.items() if number not in buffer.heads}
            self.buffer = Buffer(streams=unreal)

    def _writes(self, buffer: Buffer) -> Writes:
        writes = Writes(
            events=[*map(_EVENT, buffer.events)], blobs=[*buffer.blob_rows.values()], empties=buffer.empties
        )
        for stream, head in buffer.heads.items():
            if stream in buffer.streams:
                writes.streams.append(NewStream(buffer.streams[stream], head))
            else:
                writes.heads.append(HeadMove(stream, self.flushed[stream], head))
        for (table, owner), rows in buffer.rows.items():
            for key, row in rows.items():
                if row is None:
                    writes.deletes.setdefault(table, []).append(_address(table, owner, key))
                else:
                    writes.puts.setdefault(table, []).append([*map(row.__getitem__, table.all_columns)])
        return writes

    def check(self, read: set[int]) -> None:
        """RACED if one of these streams is not where it was when a verb looked at it: what it saw may be of two states."""
        looked = read - self.buffer.streams.keys()
        if self.exact or not looked:
            return
        found = self.connection.heads([*looked], lock=False)
        if any(found.get(stream) != self.flushed[stream] for stream in looked):
            raise Fault(FaultKind.RACED, "the stream grew meanwhile")

    def _verify_read(self, writes: Writes) -> None:
        """A stream that was only read moves from its head to its head: if it is elsewhere by now, the decision was stale. A batch
        that writes nothing looks.
        """
        if writes.is_empty():
            self.check(self.read)
            return
        moved = {move.stream for move in writes.heads}
        for stream in self.read - moved - self.buffer.streams.keys():
            head = self.flushed[stream]
            writes.heads.append(HeadMove(stream, head, head))


def _address(table: Table, owner: int, key: Key) -> list[Any]:
    return [owner, *key] if table.streamed or table.tenant else list(key)
