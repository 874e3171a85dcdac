"""A connection to the cache of a files store: it keeps the cache at the end of the log, and the append is the commit.

A batch holds the lock of the store from its begin to its end: the cache is brought up to the log, the verbs run on it, the lines
of the batch are appended and synced, and only then is the cache committed. A crash before the append leaves nothing, one after it
leaves a line that the next one who looks replays. A failure after the append is the cache's loss, never the caller's. Callers:
lane and readers, through `engine`. Keeps P1, P5, P9.
"""

from __future__ import annotations

import logging
import shlex
from collections.abc import Sequence
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from typing import Any

import apsw
from msgspec.structs import replace

from perdure.log.change import Stream
from perdure.log.event import Event
from perdure.log.table import Table
from perdure.log.written import WrittenStream, decode, encode, event_written, name_of, stream_written
from perdure.model.instants import system_clock
from perdure.model.records.integrity import Aside
from perdure.stores import migrate, moved_away
from perdure.stores.atomic_files import disk_errors
from perdure.stores.held_files import place_of
from perdure.stores.lane import HINTS_MAX
from perdure.stores.sqlite import SqliteConnection
from perdure.stores.statements import Statement
from perdure.stores.store import Fault, FaultKind, NewEvent, Params, Rows, Writes
from perdure_files.store import set_aside
from perdure_files.store.journal import START, LineLog, LogMark, fault_of, replaced
from perdure_files.store.line import FORMAT, Line, Piece, WrittenBlob, WrittenStore, WrittenTenant
from perdure_files.store.load import Loader, Q, facts_of, put_facts
from perdure_files.store.set_aside import gathered

log = logging.getLogger("perdure.store")

_USELESS = (FaultKind.DAMAGED, FaultKind.FOREIGN)
_NO_ROOM = (
    "free some space; nothing was written. Until then open it with read_only=True: that reads the log into memory"
)
_NEVER = (-1,)  # a look that no log has
_RESTATING = (migrate.Q.meta_put, moved_away.Q.meta_drop)


def remake(cache: Path) -> str:
    """The advice about a cache that cannot be used, for a process that may not remake it."""
    return f"nothing is lost: rm {shlex.quote(str(cache))}, and the next program that writes makes it anew from the log"


def mark_of(cache: SqliteConnection) -> LogMark:
    """How far a cache has read the log."""
    rows = cache.query(Q.mark_get, {})
    return decode(rows[0][0], LogMark, "meta.log_mark") if rows else START


def put_mark(cache: SqliteConnection, mark: LogMark) -> bytes:
    """Say how far it has, in the transaction that brings it there; returns what was said."""
    data = encode(mark)
    cache.query(migrate.Q.meta_put, {"name": "log_mark", "value": data.decode()})
    return data


def raised(journal: LineLog, facts: WrittenStore, mark: LogMark) -> tuple[WrittenStore, LogMark]:
    """The next epoch, in the log, which ends at this mark: what is done from here on is of another world."""
    facts = replace(facts, epoch=facts.epoch + 1)
    mark = journal.append(mark, [Line(FORMAT, "", system_clock(), store=facts)], facts)
    log.warning(
        "the log is not the one that was seen here last, and is treated as restored",
        extra={"store": facts.uid, "epoch": facts.epoch},
    )
    return facts, mark


class CacheReader(SqliteConnection):
    """A connection that only reads a cache. Damage in it is no loss, and a backup is not the way out."""

    is_cache = True

    def _fault(self, error: apsw.Error) -> Fault:
        fault = super()._fault(error)
        return Fault(fault.kind, str(fault), remake(Path(self.file))) if fault.kind in _USELESS else fault


class CacheConnection(CacheReader):
    """One that may write. A cache that turns out to be damaged is given up: whoever opens the store next has another."""

    def _fault(self, error: apsw.Error) -> Fault:
        fault = super()._fault(error)
        if fault.kind is FaultKind.FULL:
            return Fault(fault.kind, str(fault), _NO_ROOM)
        if fault.kind not in _USELESS:
            return fault
        with suppress(OSError):
            self._give_up()
        return Fault(fault.kind, str(fault), "nothing is lost: open the store again, and it is made anew from the log")

    def _give_up(self) -> None:
        """Unless somebody else has made another one by now."""
        if self._place is not None and place_of(self.file) == self._place:
            log.warning("the cache is damaged, and is given up", extra={"cache": self.file})
            Path(self.file).unlink()


class FilesConnection(CacheConnection):
    """A connection to the cache that keeps it at the end of the log, and appends to that."""

    def __init__(self, connection: apsw.Connection, journal: LineLog, wait_seconds: float, *, unsure: bool) -> None:
        super().__init__(connection)
        self._journal = journal
        self._wait_seconds = wait_seconds
        self._cache = CacheConnection(connection)  # the same connection, without a log
        self._mark = START
        self._look = _NEVER
        self._unsure = unsure  # whether the end of the log must be known, and not only may be
        self._facts: WrittenStore | None = None
        self._pending: list[Writes] = []
        self._new_tenants: list[WrittenTenant] = []
        self._drops: dict[tuple[int, bytes], None] = {}
        self._restated = False  # whether somebody changed what the store says of itself: an epoch, a seal
        self._tenants: dict[int, str] = {}
        self._names: dict[int, str] = {}  # of streams, as a line names them

    # -- reading -------------------------------------------------------------------------------------------------------

    def query(self, statement: Statement, params: Params) -> Rows:
        """Run one read; outside a transaction after a look at the log."""
        self._refresh()
        if statement in _RESTATING:
            self._restated = True
        return super().query(statement, params)

    def select_row(self, table: Table, stream: int, tenant: int, key: Sequence[Any]) -> tuple[Any, ...] | None:
        """One row by its key, likewise."""
        self._refresh()
        return super().select_row(table, stream, tenant, key)

    def begin_reading(self) -> None:
        """Hold one snapshot of what the log says now."""
        self._refresh()
        super().begin_reading()

    def _refresh(self) -> None:
        """Follow a log that grew without this cache, unless its writer is about to bring it here."""
        if self.raw.in_transaction or self._journal.look(self._mark.segment) == self._look:
            return
        if self._unsure:
            self._journal.lock(self._wait_seconds)
        elif not self._journal.try_lock():
            return
        try:
            self.catch_up()
        finally:
            self._journal.unlock()

    def follow(self, journal: LineLog) -> None:
        """Catch up under a lock that somebody else took with this journal."""
        own, self._journal = self._journal, journal
        try:
            self.catch_up()
        finally:
            self._journal = own

    # -- catching up -----------------------------------------------------------------------------------------------------

    def catch_up(self) -> None:
        """Under the lock: bring the cache to the end of the log. DAMAGED when the log does not hold what was read from it."""
        if self._journal.look(self._mark.segment) == self._look:
            return
        try:
            self._catch_up()
        except OSError as error:
            raise fault_of(error, self._journal.layout.log) from error

    def _catch_up(self) -> None:
        if place_of(self.file) != self._place:  # it was taken away or replaced: another one is made from the log
            raise replaced(self._journal.layout.cache)
        self._journal.let_go()
        self._facts = None
        mark = mark_of(self._cache)
        if not self._journal.holds(mark):
            raise replaced(self._journal.layout.log)
        if not self._journal.is_at(mark):
            self._read_on(mark)
        self._mark = mark_of(self._cache)
        self._look = self._journal.look(self._mark.segment) or _NEVER
        self._unsure = False

    def _read_on(self, mark: LogMark) -> None:
        """Read the lines after a mark, in one transaction of the cache. Lost lines raise the epoch."""
        self._mend(mark)
        self._cache.begin()
        try:
            self._cache.query(moved_away.Q.unseal, {})  # it may have been taken back, and continued
            loader = Loader(self._cache, None if mark == START else facts_of(self._cache))
            pieces: list[tuple[int, Piece]] = []
            for after, entries in self._journal.read_on(mark):
                self._journal.sync(after.segment)
                pieces += loader.load(entries)
                mark = after
            asides = self._set_aside(pieces)
            facts = loader.facts or facts_of(self._cache)
            # In this very transaction: after a crash nothing would tell it any more.
            if any(aside.lost for aside in asides):
                facts, mark = raised(self._journal, facts, mark)
            put_facts(self._cache, facts)
            put_mark(self._cache, mark)
            self._cache.write(Writes(), commit=True)
        finally:
            self._cache.rollback()
        self._tenants.clear()

    def _mend(self, mark: LogMark) -> None:
        """Take a torn end off the segment that is written to; its writer may have moved on to another than the mark's."""
        number = max(self._journal.layout.numbers(), default=mark.segment)
        last = mark if number <= mark.segment else LogMark(number)
        torn = self._journal.mend(last)
        if torn is not None:
            self._set_aside([(last.segment, torn._replace(lost=mark == START))])
            self._journal.cut(last, torn)

    def _set_aside(self, pieces: list[tuple[int, Piece]]) -> list[Aside]:
        asides = gathered(pieces)
        layout = self._journal.layout
        with disk_errors(layout.aside, "store"):
            set_aside.keep(layout, asides)
        return asides

    # -- writing -------------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Take the lock, see what others wrote, and begin."""
        self._forget()
        self._journal.lock(self._wait_seconds)
        try:
            self.catch_up()
            super().begin()
            self._said_facts()
        except BaseException:
            self._journal.unlock()
            raise

    def new_tenant(self, name: str, uid: bytes) -> int:
        """Insert a tenant; the log says so too."""
        number = super().new_tenant(name, uid)
        self._new_tenants.append(WrittenTenant(number, uid.hex(), name))
        self._tenants[number] = name
        return number

    def drop_blobs(self, tenant: int, addresses: Sequence[bytes]) -> None:
        """Delete blob rows; the log says so too."""
        super().drop_blobs(tenant, addresses)
        self._drops.update(dict.fromkeys((tenant, address) for address in addresses))

    def write(self, writes: Writes, *, commit: bool) -> None:
        """Flush; with `commit` append what was recorded, synced, and then commit the cache."""
        self._pending.append(writes)
        for row in writes.blobs:
            self._drops.pop((row[0], row[1]), None)  # dropped by an earlier job of this batch, and kept again
        super().write(writes, commit=False)
        if commit:
            try:
                self._commit()
            finally:
                self._forget()
            self._journal.unlock()

    def _commit(self) -> None:
        """The append is the commit: what comes after it can only leave the cache behind."""
        lines = self._lines()
        if not lines:
            return super().write(Writes(), commit=True)
        look, self._unsure, self._look = self._look, True, _NEVER
        after = self._journal.append(self._mark, lines, self._said_facts())
        try:
            self._journal.note(put_mark(self._cache, after))
            self._cache.commit()  # a cache that lost its name meanwhile is noticed by the next begin: nothing rests on it
        except Fault as fault:
            log.warning("the cache is behind its log, and will catch up", extra={"cause": str(fault)})
            super().rollback()
            return None
        look = self._journal.look_after(look, self._mark, after)
        self._mark, self._look, self._unsure = after, look or _NEVER, False
        return None

    def rollback(self) -> None:
        """Forget what was not committed, and let others write."""
        super().rollback()
        self._forget()
        self._names.clear()
        self._tenants.clear()
        self._journal.unlock()

    def close(self) -> None:
        """Let the connection and the lock go."""
        super().close()
        self._journal.close()

    def _forget(self) -> None:
        self._pending, self._new_tenants, self._drops, self._restated = [], [], {}, False

    # -- the lines of a batch --------------------------------------------------------------------------------------------

    def _lines(self) -> list[Line]:
        """One line a transaction; what cannot be told apart (bodies that go, blobs that go) makes the batch one line."""
        batch = self._pending[0] if len(self._pending) == 1 else _together(self._pending)
        begins, ends = batch.blobs or self._new_tenants, batch.empties or self._drops
        facts = self._facts_line() if self._restated else []
        if not (batch.events or begins or ends):
            return facts
        streams = {new.stream.id: new.stream for new in batch.streams}
        groups = [batch.events] if ends or not batch.events else _by_transaction(batch.events)
        lines = [self._line(group, streams) for group in groups]
        if begins:
            blobs = [WrittenBlob(self._tenant(row[0]), row[1].hex(), row[2]) for row in batch.blobs]
            lines[0] = replace(lines[0], tenants=self._new_tenants, blobs=blobs)
        if ends:
            drops = [WrittenBlob(self._tenant(tenant), address.hex()) for tenant, address in self._drops]
            empties = [(self._name(stream), seq) for stream, seq in batch.empties]
            lines[-1] = replace(lines[-1], drops=drops, empties=empties)
        return [*facts, *lines]

    def _line(self, events: list[NewEvent], streams: dict[int, Stream]) -> Line:
        """One transaction. Streams begin with the line of their first event."""
        begun = self._begun(events, streams) if streams else []
        written = [event_written(self._name(event.stream), _event(event)) for event in events]
        tx = events[0].tx.hex() if events else ""
        at = events[0].at if events else system_clock()
        return Line(FORMAT, "", at, tx, streams=begun, events=written)

    def _begun(self, events: list[NewEvent], streams: dict[int, Stream]) -> list[WrittenStream]:
        """The streams that begin with these events; they are taken out of those that are still to begin."""
        begun = [streams.pop(number) for number in dict.fromkeys(event.stream for event in events) if number in streams]
        self._names.update((stream.id, self._line_name(stream.id, stream.uid, stream.tenant)) for stream in begun)
        return [
            stream_written(
                stream,
                self._name(stream.id),
                self._tenant(stream.tenant),
                "" if stream.parent is None else self._name(stream.parent),
            )
            for stream in begun
        ]

    def _facts_line(self) -> list[Line]:
        """A line of its own for a new epoch, before what it is about: a torn batch must not have that alone."""
        before, facts = self._said_facts(), facts_of(self._cache)
        self._facts = facts
        return [] if facts == before else [Line(FORMAT, "", system_clock(), store=facts)]

    def _said_facts(self) -> WrittenStore:
        """The log's facts about the store, as far as this connection knows."""
        if self._facts is None:
            self._facts = facts_of(self._cache)
        return self._facts

    def _tenant(self, number: int) -> str:
        if number not in self._tenants:
            self._tenants.update(self._cache.query(Q.tenants_all, {}))  # type: ignore[arg-type] - pairs
        return self._tenants[number]

    def _name(self, stream: int) -> str:
        if stream not in self._names:
            if len(self._names) >= HINTS_MAX:
                self._names.clear()
            uid, tenant = self._cache.query(Q.stream_uid, {"id": stream})[0]
            self._names[stream] = self._line_name(stream, bytes(uid), tenant)
        return self._names[stream]

    def _line_name(self, stream: int, uid: bytes, tenant: int) -> str:
        """The name of a stream in a line. Numbers follow the log, so that the first one of a uid is the same for every reader."""
        shared = self._cache.query(Q.stream_shared, {"uid": uid, "id": stream})
        return name_of(uid, self._tenant(tenant) if shared else "")


def _together(pending: Sequence[Writes]) -> Writes:
    """The messages of several flushes of a batch to the log, as one."""
    return Writes(
        streams=[new for writes in pending for new in writes.streams],
        events=[event for writes in pending for event in writes.events],
        blobs=[row for writes in pending for row in writes.blobs],
        empties=[event for writes in pending for event in writes.empties],
    )


def _by_transaction(events: list[NewEvent]) -> list[list[NewEvent]]:
    """Neighbours of one transaction together: the order stays, also of events that were recorded elsewhere."""
    if len(events) == 1:
        return [events]
    return [[*group] for _, group in groupby(events, key=lambda event: event.tx)]


def _event(new: NewEvent) -> Event:
    return Event(
        seq=new.seq, kind=new.kind, table=new.tbl, actor=new.actor, at=new.at, codec=new.codec,
        commitment=new.commitment, hash=new.hash, salt=new.salt, body=new.body, tx=new.tx,
    )  # fmt: skip
