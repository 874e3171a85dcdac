"""PostgreSQL through psycopg 3, in a schema of its own. Any number of workers on any number of machines. Keeps P1, P3, P7.

A flush is one statement, hence one round trip: the heads, the events and the rows go out together. Heads are moved only
from where this process last saw them (compare-and-set, locked in order inside the same statement). If one had moved, the
whole flush fails and the verbs run again, this time with the heads locked first. So READ COMMITTED is serial per stream
(docs/decisions/0003).

A process that is stopped (SIGSTOP, a suspended machine) must not hold what others wait for (decision 0028). So a flush is
mostly a transaction of its own. Where there must be several statements, each is sent with its own Sync, never in a pipeline:
the server knows then that it waits in a transaction, and ends it after IDLE_MS.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

import psycopg
from psycopg.pq import TransactionStatus

from perdure.errors import Invalid, Refused, TimedOut
from perdure.log.table import Table
from perdure.model.ids import new_uid
from perdure.model.limits import BLOB_IN_DATABASE_MAX_BYTES
from perdure.stores.bounded_connection import CONFIRM, BoundedConnection
from perdure.stores.dialect import BLOB_COLUMNS, EVENT_COLUMNS, STREAM_COLUMNS, conflict_key, listed, upsert_tail
from perdure.stores.postgres_faults import dial_fault, fault_of
from perdure.stores.postgres_listener import PostgresListener
from perdure.stores.postgres_session import AskedFor, options_in, refuses_options
from perdure.stores.postgres_types import type_of
from perdure.stores.postgres_wall import check_wall, look, names_tenants, raise_wall
from perdure.stores.statements import Statement
from perdure.stores.store import (
    Fault,
    FaultKind,
    Head,
    HeadMove,
    History,
    NewStream,
    Params,
    Rows,
    WithoutLines,
    WithoutQuickReads,
    Writes,
)

# While connecting there is no SQLSTATE, only the server's words. A failure that is not recognised may pass by itself.
_COMING = re.compile(r"the database system is (starting up|in recovery|not yet accepting)")  # says the server itself
_CUT = re.compile(r"server closed the connection unexpectedly|Connection reset by peer")
_CUTS_MAX = 3  # in a row: a server that recovers ends whoever is about to be told so; the next one is
_COMING_PAUSE_SECONDS = 0.05


@cache
def _source(table: str, columns: tuple[str, ...], *, single: bool) -> str:
    """Rows as parameters: plain ones for a single row, one array a column for many."""
    if single:
        return f"VALUES ({listed(f'%b::{type_of(table, column)}' for column in columns)})"
    return f"SELECT * FROM unnest({listed(f'%b::{type_of(table, column)}[]' for column in columns)})"


@cache
def _select_row(table: Table) -> str:
    where = " AND ".join(f"{column} = %s" for column in conflict_key(table))
    return f"SELECT {listed(table.all_columns)} FROM {table.name} WHERE {where}"


@cache
def _put(table: Table, *, single: bool) -> str:
    source = _source(table.name, table.all_columns, single=single)
    return f"INSERT INTO {table.name} ({listed(table.all_columns)}) {source}{upsert_tail(table)}"


@cache
def _delete(table: Table, *, single: bool) -> str:
    key = conflict_key(table)
    where = " AND ".join(f"t.{column} = gone.{column}" for column in key)
    source = _source(table.name, key, single=single)
    return f"DELETE FROM {table.name} t USING ({source}) AS gone ({listed(key)}) WHERE {where}"


@cache
def _insert(table: str, columns: tuple[str, ...], tail: str = "", *, single: bool) -> str:
    return f"INSERT INTO {table} ({listed(columns)}) {_source(table, columns, single=single)}{tail}"


_DROP_BLOBS = "DELETE FROM blobs WHERE tenant = %s AND address = ANY (%s::bytea[])"
_GONE = "unnest(%s::bigint[], %s::bigint[]) AS gone (stream, seq) WHERE t.stream = gone.stream AND t.seq = gone.seq"
_EMPTY = (
    f"UPDATE events t SET salt = NULL, body = NULL FROM {_GONE}",
    f"DELETE FROM refs t USING {_GONE}",
    f"DELETE FROM blob_refs t USING {_GONE}",
    f"DELETE FROM subjects t USING {_GONE}",
    f"DELETE FROM calls t USING {_GONE}",
    f"DELETE FROM turns t USING {_GONE}",
    f"DELETE FROM texts t USING {_GONE.replace('t.stream', 't.in_stream')}",
)
# As in planes/memory/index.sql: whoever indexes a text must see that it was emptied, or be seen here.
_PRUNE = """INSERT INTO pruning (tenant) SELECT DISTINCT tenant FROM streams WHERE id = ANY (%s::bigint[]) ORDER BY 1
RETURNING tenant"""
_LOCK_INDEX = "SELECT pg_advisory_xact_lock(hashtext('perdure.index'), hashtext(current_schema() || '.' || %s::bigint))"
# A job that keeps blobs, or builds on stored ones, shares the lock; a collection has it alone. Taken before the rows are looked
# at: in a
# statement of its own, because a statement sees what was committed when it began.
_SHARE_BLOBS = "SELECT pg_advisory_xact_lock_shared(hashtext('perdure.blobs'), hashtext(current_schema() || '.{:d}')); "
_CLAIM_BLOBS = "SELECT pg_advisory_xact_lock(hashtext('perdure.blobs'), hashtext(current_schema() || '.{:d}'))"
_END = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = ANY (%s::text[])"
_FROM_ELSEWHERE = "SELECT 1 FROM events WHERE xid >= pg_snapshot_xmax(pg_current_snapshot()) LIMIT 1"
_END_PAUSE_SECONDS = 0.002
IDLE_MS = 5_000  # between two statements of one of our transactions: verbs take milliseconds
_ENDS_IDLE = f"SET LOCAL idle_in_transaction_session_timeout = {IDLE_MS}; "
_LOCKS = "pg_advisory_xact_lock"  # held until the transaction ends: so there must be one
_ANSWER_SECONDS = 5.0  # beyond the statement timeout: a server that lives has answered by then
_MOVE_HEAD = """UPDATE streams s SET seq = %s, hash = %s WHERE s.id = %s AND s.seq = %s AND s.hash = %s{} RETURNING 1"""
_MOVE_HEADS = """
UPDATE streams s SET seq = m.seq, hash = m.hash
FROM unnest(%b::bigint[], %b::bytea[], %b::bigint[], %b::bigint[], %b::bytea[]) AS m (seq, hash, id, old_seq, old_hash)
JOIN (SELECT id FROM streams WHERE id = ANY (%s::bigint[]) ORDER BY id FOR UPDATE) AS locked ON locked.id = m.id
WHERE s.id = m.id AND s.seq = m.old_seq AND s.hash = m.old_hash{} RETURNING 1"""
# The feed's order is that of transaction ids. A transaction that had got its id before it came to see this head could have a
# smaller one than the head's own: then it has lost the race too, and is run again with a new id. (Ids that are not given out
# yet are of the cluster that this database was restored from.)
_IN_ORDER = """ AND NOT EXISTS (SELECT 1 FROM events e WHERE e.stream = s.id AND e.seq = s.seq
  AND e.xid > pg_current_xact_id() AND e.xid < pg_snapshot_xmax(pg_current_snapshot()))"""
_GUARD = "SELECT 1 / (CASE WHEN (SELECT count(*) FROM moved) = %s THEN 1 ELSE 0 END)"
_ANNOUNCE = ", pg_notify('perdure_' || (hashtext(current_schema()) & 2147483647), '')"  # with the commit, or not at all
_ASK = "SELECT set_config('perdure.tenant', %s, true), set_config('statement_timeout', %s, true)"
_LOOK_BACK = """SELECT (SELECT value FROM meta WHERE name = 'epoch'), (SELECT value FROM meta WHERE name = 'server'),
  (SELECT hash FROM events WHERE stream = %s AND seq = %s)"""


class Flush:
    """One statement that writes everything: each table a common table expression, and a guard that no head had moved."""

    def __init__(self, writes: Writes, *, alone: bool) -> None:
        self._in_order = "" if alone else _IN_ORDER
        self.single = len(writes.events) <= 1  # a plan made once for any number of rows is a bad one for most numbers
        self._parts: list[str] = []
        self._params: list[Any] = []
        if writes.streams:
            self._rows(_insert, [_stream_row(new) for new in writes.streams], "streams", STREAM_COLUMNS)
        self._move(writes.heads)
        if writes.blobs:
            blobs = sorted(writes.blobs, key=lambda row: row[:2])
            self._rows(_insert, blobs, "blobs", BLOB_COLUMNS, " ON CONFLICT (tenant, address) DO NOTHING")
        if writes.events:
            self._rows(_insert, writes.events, "events", EVENT_COLUMNS)
        for table, rows in writes.deletes.items():
            self._rows(_delete, rows, table)
        for table, rows in writes.puts.items():
            self._rows(_put, rows, table)
        self.text = "WITH " + ",\n".join(self._parts) + "\n" + _GUARD + (_ANNOUNCE if _announces(writes) else "")
        self.params = [*self._params, len(writes.heads)]

    def _add(self, text: str, params: Sequence[Any], name: str = "") -> None:
        self._parts.append(f"{name or f'w{len(self._parts)}'} AS ({text})")
        self._params += params

    def _rows(self, make: Callable[..., str], rows: Sequence[Sequence[Any]], *what: Any) -> None:
        single = len(rows) == 1
        self._add(make(*what, single=single), rows[0] if single else _columns(rows))

    def _move(self, heads: list[HeadMove]) -> None:
        if not heads:
            self._add("SELECT 1 WHERE false", (), "moved")
        elif len(heads) == 1:
            stream, before, after = heads[0]
            self._add(_MOVE_HEAD.format(self._in_order), (*after, stream, *before), "moved")
        else:
            moves = _columns([(*after, stream, *before) for stream, before, after in heads])
            self._add(_MOVE_HEADS.format(self._in_order), (*moves, [move.stream for move in heads]), "moved")


class PostgresConnection:
    """One connection in autocommit mode; a transaction is begun with the first statement that locks or writes.

    `lost` collects the names of connections that were let go in the middle of something. `brought`: behind a pooler, the
    statement with which each transaction begins; everything is in a transaction there (`postgres_session`). So it is behind the
    wall around tenants: each transaction names its `tenants` (`postgres_wall`).
    """

    dialect = "postgres"
    is_server = True
    file = ""
    is_cache = False
    tenants: Sequence[int] = ()

    def __init__(self, made: NewConnection, lost: set[str] | None = None) -> None:
        self.raw: Any = made.raw  # its types want literal texts; ours are made from our own declarations
        self.history = made.history
        self.pooled = bool(made.brought)
        self.walled = made.walled
        self._settings = made.brought
        self._name = made.name
        self._lost = lost
        self._wants_begin = False

    @property
    def brought(self) -> str:
        """The statement with which each transaction begins; "" where it need not be one."""
        return self._settings + names_tenants(self.tenants) if self.walled else self._settings

    def query(self, statement: Statement, params: Params) -> Rows:
        """Run one read. It needs no transaction: nothing is locked by it, and the flush verifies what was read."""
        text = statement.text("postgres", params)
        if _LOCKS in text:
            self._begin_now()
        return self._fetch(text, params, prepare=False if statement.spans else None)

    def _fetch(self, text: str, params: Any, *, prepare: bool | None = None) -> Rows:
        if self.brought:
            return self._fetch_inside(text, params)
        try:
            return self.raw.execute(text, params, prepare=prepare).fetchall()
        except psycopg.Error as error:
            raise fault_of(error) from error

    def _fetch_inside(self, text: str, params: Any) -> Rows:
        """Behind a pooler, or the wall: in the transaction of who writes, or in one of its own."""
        self._begin_now()
        alone = self.raw.info.transaction_status == TransactionStatus.IDLE
        try:
            if alone:
                self.raw.execute(f"BEGIN READ ONLY; {self.brought}", prepare=False)
            rows = self.raw.execute(text, params, prepare=False).fetchall()
            if alone:
                self.raw.execute("COMMIT", prepare=False)
        except psycopg.Error as error:
            if alone:
                self.rollback()
            raise fault_of(error) from error
        return rows

    def _begin_now(self, then: str = "") -> None:
        """Begin the transaction, if there is none yet; `then` in the same round trip. SET LOCAL holds behind a pooler, too."""
        begin = f"BEGIN; {self.brought}{_ENDS_IDLE}" if self._wants_begin else ""
        self._wants_begin = False
        if begin or then:
            try:
                self.raw.execute(begin + then, prepare=False)
            except psycopg.Error as error:
                raise fault_of(error) from error
        if then and self.raw.info.transaction_status == TransactionStatus.IDLE:
            raise Fault(FaultKind.BROKEN, "a lock was asked for outside a transaction, where it would hold nothing")

    def select_row(self, table: Table, stream: int, tenant: int, key: Sequence[Any]) -> tuple[Any, ...] | None:
        """One row by its key."""
        owner = (stream,) if table.streamed else (tenant,) if table.tenant else ()
        rows = self._fetch(_select_row(table), (*owner, *key))
        return rows[0] if rows else None

    def begin(self) -> None:
        """A transaction begins with the next statement that locks or writes."""
        self._wants_begin = True

    def begin_reading(self) -> None:
        """Hold one snapshot."""
        self.begin_with("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")

    def begin_with(self, begin: str) -> None:
        """Begin a transaction at once, in this way."""
        try:
            self.raw.execute(f"{begin}; {self.brought}", prepare=False)
        except psycopg.Error as error:
            raise fault_of(error) from error

    def ask(self, text: str, params: Params, tenant: str, limit: int, seconds: float) -> tuple[list[str], Rows]:
        """Run one statement of the user's, which can only read: inside `begin_reading`, as a cursor of the server."""
        try:
            self.raw.execute(_ASK, (tenant, str(max(1, int(seconds * 1000)))))
            # In binary the statement is bound, and so is one, whatever semicolons are in it.
            self.raw.execute(f"DECLARE asked NO SCROLL CURSOR FOR {text}", params, binary=True)
            found = self.raw.execute(f"FETCH FORWARD {limit + 1} FROM asked")
            return [column.name for column in found.description or ()], found.fetchall()
        except psycopg.errors.QueryCanceled:
            raise TimedOut(
                f"it took more than {seconds:g} s", path="sql", hint="ask for less, or pass a longer timeout="
            ) from None
        except psycopg.errors.ReadOnlySqlTransaction as error:
            raise Refused(
                f"not in a query: {error}", path="sql", hint="change things with the verbs of the store"
            ) from None
        except psycopg.Error as error:
            fault = fault_of(error)
            raise (Invalid(str(error), path="sql") if fault.kind is FaultKind.BROKEN else fault) from error

    def heads(self, streams: Sequence[int], *, lock: bool) -> dict[int, Head]:
        """The heads of these streams; locked in order if asked."""
        if lock:
            self._begin_now()
        text = "SELECT id, seq, hash FROM streams WHERE id = ANY (%s::bigint[]) ORDER BY id" + (
            " FOR UPDATE" if lock else ""
        )
        return {stream: (seq, digest) for stream, seq, digest in self._fetch(text, (list(streams),))}

    def new_stream_ids(self, count: int) -> list[int]:
        """Ids from the sequence; never given out twice."""
        rows = self._fetch("SELECT nextval('stream_ids') FROM generate_series(1, %s)", (count,))
        return [row[0] for row in rows]

    def new_tenant(self, name: str, uid: bytes) -> int:
        """Insert a tenant."""
        self._begin_now()
        text = "INSERT INTO tenants (id, uid, name) VALUES (nextval('stream_ids'), %s, %s) RETURNING id"
        return self._fetch(text, (uid, name))[0][0]

    def write(self, writes: Writes, *, commit: bool) -> None:
        """Flush and commit; a flush alone is a transaction of its own, in one round trip. A commit of nothing confirms: a
        standby for which commits wait then has all that was to be seen here.
        """
        if writes.is_empty() and not commit:
            return  # locks that come now still need their transaction
        try:
            if self._wants_begin and commit and not (writes.blobs or writes.empties or self.brought):
                self._wants_begin = False
                with self.raw.committing():
                    self._flush(writes, alone=True)
            else:
                tenants = sorted({row[0] for row in writes.blobs})
                self._begin_now("".join(_SHARE_BLOBS.format(tenant) for tenant in tenants))
                self._flush(writes, alone=False)
                if commit:
                    self.commit()
        except psycopg.Error as error:
            raise fault_of(error) from error

    def commit(self) -> None:
        """Commit the transaction. LOST when it is not certain that all have it for whom commits wait."""
        try:
            with self.raw.committing():
                self.raw.execute("COMMIT")
        except psycopg.Error as error:
            raise fault_of(error) from error

    def _flush(self, writes: Writes, *, alone: bool) -> None:
        if not writes.is_empty():
            flush = Flush(writes, alone=alone)
            self.raw.execute(flush.text, flush.params, prepare=flush.single and not self.brought)
        else:
            self.raw.execute(CONFIRM)
        if writes.empties:
            self._empty(writes.empties)

    def _empty(self, events: Sequence[tuple[int, int]]) -> None:
        """One prune at a time in a tenant: a second one waits here for the first one's commit."""
        tenants = self._fetch(_PRUNE, ([stream for stream, _ in events],))
        for (tenant,) in tenants:
            self._fetch(_LOCK_INDEX, (tenant,))
        for text in _EMPTY:
            self.raw.execute(text, _columns(events))
        self.raw.execute("DELETE FROM pruning WHERE tenant = ANY (%s::bigint[])", ([tenant for (tenant,) in tenants],))

    def backlog(self) -> int:
        """None: the server moves its WAL by itself."""
        return 0

    def share_blobs(self, tenant: int) -> None:
        """No blob row of the tenant goes before this transaction ends."""
        self._begin_now(_SHARE_BLOBS.format(tenant))

    def claim_blobs(self, tenant: int) -> None:
        """Nobody keeps a blob of the tenant, or builds on one, from here to the end of this transaction."""
        self._begin_now(_CLAIM_BLOBS.format(tenant))

    def drop_blobs(self, tenant: int, addresses: Sequence[bytes]) -> None:
        """Delete blob rows."""
        try:
            self.raw.execute(_DROP_BLOBS, (tenant, list(addresses)))
        except psycopg.Error as error:
            raise fault_of(error) from error

    def rollback(self) -> None:
        """Forget what was not committed."""
        self._wants_begin = False
        try:
            if self.raw.info.transaction_status != TransactionStatus.IDLE:
                self.raw.execute("ROLLBACK")
        except psycopg.Error:
            self.close()

    def close(self) -> None:
        """Let the connection go."""
        try:
            if self._lost is not None and self.raw.info.transaction_status != TransactionStatus.IDLE:
                self._lost.add(self._name)
            self._lost = None
            self.raw.close()
        except psycopg.Error:
            return

    def is_from_another_cluster(self) -> bool:
        """Whether an event has a transaction id that is not given out yet: a dump of another database brought it here."""
        return bool(self._fetch(_FROM_ELSEWHERE, ()))

    def look_back(self, event: tuple[int, int]) -> tuple[str | None, str | None, bytes | None]:
        """The store's epoch, the history that it says it is of, and the hash of this event: None for what is not there."""
        epoch, server, digest = self._fetch(_LOOK_BACK, event)[0]
        return epoch, server, None if digest is None else bytes(digest)

    def end(self, names: Sequence[str], deadline: float) -> None:
        """End the backends of connections of ours that were lost, and wait until they are gone."""
        while self._fetch(_END, (list(names),)):
            if time.monotonic() > deadline:
                raise Fault(FaultKind.LOST, "the backend of a lost connection does not end")
            time.sleep(_END_PAUSE_SECONDS)


def _announces(writes: Writes) -> bool:
    """Whether somebody waits for what is written here (`Table.announces`)."""
    for table, rows in writes.puts.items():
        if table.announces is not None:
            column, value = table.announces
            at = table.all_columns.index(column)
            if any(row[at] == value for row in rows):
                return True
    return False


def _columns(rows: Sequence[Sequence[Any]]) -> list[list[Any]]:
    return [list(column) for column in zip(*rows, strict=True)]


def _stream_row(new: NewStream) -> tuple[Any, ...]:
    stream, (seq, digest) = new
    return (stream.id, stream.uid, stream.tenant, stream.kind, stream.name, stream.parent, stream.fork_seq, seq, digest)


class NewConnection(NamedTuple):
    """A connection as it was made. brought: what each transaction must bring, "" where the server itself answers.

    walled: row-level security holds for its role.
    """

    raw: psycopg.Connection[Any]
    name: str
    history: History
    brought: str = ""
    walled: bool = False


class PostgresEngine(WithoutLines, WithoutQuickReads):
    """One schema of one PostgreSQL database."""

    dialect = "postgres"
    exact_heads = False
    blobs_inside_max_bytes = BLOB_IN_DATABASE_MAX_BYTES
    plain_text_blobs = True
    one_connection = False
    is_server = True
    joins_transactions = True

    def __init__(
        self, url: str, conninfo: str, schema: str, timeout_seconds: float = 30.0, *, read_only: bool = False
    ) -> None:
        self.url = url
        self.schema = schema
        self._conninfo = conninfo
        self.read_only = read_only
        self._timeout_ms = max(1, int(timeout_seconds * 1000))
        theirs = options_in(conninfo) or os.environ.get("PGOPTIONS", "")
        self._session = AskedFor(schema, self._timeout_ms, theirs, read_only=read_only)
        self._takes_options = True  # a pooler may refuse a connection that asks for settings
        self._newest: History | None = None
        self._lost: set[str] = set()
        self._spare: list[PostgresConnection] = []  # at most one; a list, because threads may ask at the same time

    def connect(self) -> PostgresConnection:
        """A connection whose every wait is bounded.

        It is given out only when nothing that a lost one had sent can still happen, as `Engine.connect` promises.
        """
        connection = PostgresConnection(self._connect(f"perdure-{new_uid().hex()}"), self._lost)
        if self._lost:
            try:
                connection.end([*self._lost], time.monotonic() + self._timeout_ms / 1000)
            except Fault:
                connection.raw.close()
                raise
            self._lost.clear()
        return connection

    def reader(self) -> PostgresConnection:
        """A connection for reading."""
        with contextlib.suppress(IndexError):
            return self._spare.pop()
        return PostgresConnection(self._connect("perdure-reader"))

    def spare(self, reader: PostgresConnection) -> None:
        """Keep a reader that is in no transaction for who asks next: connecting costs more than most of what is read."""
        if self._spare:
            reader.close()
        else:
            self._spare.append(reader)

    def raise_wall(self) -> None:
        """Wall tenants off by roles and row-level security. Idempotent."""
        with contextlib.closing(self.connect()) as connection:
            raise_wall(connection.raw, self.schema)
            connection.begin()
            connection.write(Writes(), commit=True)

    def check_wall(self) -> None:
        """Refused where this role could see every tenant."""
        with contextlib.closing(self.reader()) as connection:
            check_wall(look(connection.raw, self.schema))

    def ears(self) -> PostgresListener:
        """A connection that hears of what commits announce. A listener comes again by itself: nothing is waited for."""
        return PostgresListener(self._connect_now("perdure-listener"), self.schema)

    def history_of(self, connection: PostgresConnection) -> History:
        """The history that a connection leads to."""
        return connection.history

    def look_back(
        self, connection: PostgresConnection, event: tuple[int, int]
    ) -> tuple[str | None, str | None, bytes | None]:
        """The store's epoch, the history that it says it is of, and the hash of an event."""
        return connection.look_back(event)

    def _connect(self, name: str) -> NewConnection:
        """A connection. A server that says that it is coming up is waited for, as long as the store waits for anything."""
        deadline = time.monotonic() + self._timeout_ms / 1000
        cuts = 0
        while True:
            try:
                return self._connect_now(name)
            except Fault as fault:
                cuts = cuts + 1 if _CUT.search(str(fault)) else 0
                comes = 0 < cuts <= _CUTS_MAX or _COMING.search(str(fault))
                if not comes or time.monotonic() > deadline:
                    raise
            time.sleep(_COMING_PAUSE_SECONDS)

    def _connect_now(self, name: str) -> NewConnection:
        try:
            raw = self._dialled(name)
        except psycopg.Error as error:
            raise dial_fault(error, self._conninfo) from error
        try:
            return self._looked_at(raw, name)
        except psycopg.Error as error:
            raw.close()
            raise fault_of(error) from error
        except BaseException:
            raw.close()
            raise

    def _dialled(self, name: str) -> psycopg.Connection[Any]:
        """Connect; without asking for settings where a pooler refuses that."""
        try:
            raw = BoundedConnection.connect(
                self._conninfo, autocommit=True, connect_timeout=max(2, min(5, self._timeout_ms // 1000)),
                options=self._session.options if self._takes_options else "", application_name=name,
                tcp_user_timeout=self._timeout_ms, keepalives_idle=10, keepalives_interval=5, keepalives_count=4,
                client_encoding="UTF8",
            )  # fmt: skip
        except psycopg.OperationalError as error:
            if not self._takes_options or not refuses_options(error):
                raise
            self._takes_options = False
            return self._dialled(name)
        raw.wait_seconds = self._timeout_ms / 1000 + _ANSWER_SECONDS
        return raw

    def _looked_at(self, raw: psycopg.Connection[Any], name: str) -> NewConnection:
        """Compare what is in force with what was asked for. Behind a pooler each transaction brings it."""
        found = self._session.look(raw, name)
        self._check_newest(found.history)
        if found.direct:
            if found.transaction_timeout != "0":
                raw.execute("SET transaction_timeout = 0")
            return NewConnection(raw, name, found.history, walled=found.walled)
        raw.prepare_threshold = None
        brought = self._session.brought(name)
        self._session.check_brought(raw, name, brought)
        return NewConnection(raw, name, found.history, brought, found.walled)

    def _check_newest(self, history: History) -> None:
        """A server that was replaced, and does not know it, is neither read nor written any more."""
        if not history.name or history.recovers:
            return
        newest = self._newest
        if newest is not None and newest.system == history.system and (newest.line or 0) > (history.line or 0):
            raise Fault(
                FaultKind.LOST,
                f"the server is on time line {history.line}, and this process has seen {newest.line}: it was replaced",
                "stop the server that was replaced; if the newer one was given up on purpose, start this program again",
            )
        self._newest = history

    def close(self) -> None:
        """Connections are closed by who holds them: here, the one that nobody asked for."""
        while self._spare:
            self._spare.pop().close()
