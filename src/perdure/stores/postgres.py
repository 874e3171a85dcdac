"""PostgreSQL through psycopg 3, in a schema of its own. Any number of workers on any number of machines. Keeps P1, P3, P7.

A flush is one round trip: BEGIN, the heads, the events, the rows and COMMIT go out together. Heads are moved only from where this
process last saw them (compare-and-set, locked in order inside the same statement); if one had moved, the whole flush fails and
the verbs run again, this time with the heads locked first. So READ COMMITTED is serial per stream (docs/decisions/0003).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import psycopg
from psycopg.pq import TransactionStatus

from perdure.log.table import Table
from perdure.stores.dialect import BLOB_COLUMNS, EVENT_COLUMNS, STREAM_COLUMNS, conflict_key, listed, upsert_tail
from perdure.stores.postgres_types import COLUMN_TYPES
from perdure.stores.statements import Statement
from perdure.stores.store import Fault, FaultKind, Head, HeadMove, NewStream, Params, Rows, Writes

_FAULTS = {
    "08": FaultKind.LOST,  # connection exceptions
    "57P01": FaultKind.LOST,  # admin shutdown
    "57P02": FaultKind.LOST,  # crash shutdown
    "57P03": FaultKind.LOST,  # cannot connect now
    "57P05": FaultKind.LOST,  # idle session timeout
    "25P03": FaultKind.LOST,  # idle in transaction timeout
    "40": FaultKind.RACED,  # serialisation failure, deadlock
    "22012": FaultKind.RACED,  # division by zero: the guard of a head that had moved
    "23505": FaultKind.RACED,  # somebody else made the same row
    "55P03": FaultKind.BUSY,  # lock timeout
    "57014": FaultKind.BUSY,  # statement timeout
    "53100": FaultKind.FULL,
    "53": FaultKind.BUSY,  # too many connections, out of memory
    "25006": FaultKind.READ_ONLY,
    "28": FaultKind.REFUSED,  # authorisation
    "3D": FaultKind.REFUSED,  # no such database
    "42501": FaultKind.REFUSED,
    "58": FaultKind.IO,
    "XX00": FaultKind.DAMAGED,
}


def fault_of(error: psycopg.Error) -> Fault:
    """What kind of failure this is, by its SQLSTATE."""
    state = error.sqlstate or ""
    for length in (5, 4, 2):
        kind = _FAULTS.get(state[:length])
        if kind is not None:
            return Fault(kind, error)
    lost = not state and isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError))
    return Fault(FaultKind.LOST if lost else FaultKind.BROKEN, error)


def _arrays(table: str, columns: Sequence[str]) -> str:
    return listed(f"%s::{COLUMN_TYPES.get((table, column)) or COLUMN_TYPES[column]}[]" for column in columns)


def _insert(table: str, columns: Sequence[str], tail: str = "") -> str:
    return f"INSERT INTO {table} ({listed(columns)}) SELECT * FROM unnest({_arrays(table, columns)}){tail}"


@cache
def _select_row(table: Table) -> str:
    where = " AND ".join(f"{column} = %s" for column in conflict_key(table))
    return f"SELECT {listed(table.all_columns)} FROM {table.name} WHERE {where}"


@cache
def _put(table: Table) -> str:
    return _insert(table.name, table.all_columns, upsert_tail(table))


@cache
def _delete(table: Table) -> str:
    key = conflict_key(table)
    where = " AND ".join(f"t.{column} = gone.{column}" for column in key)
    return f"DELETE FROM {table.name} t USING unnest({_arrays(table.name, key)}) AS gone ({listed(key)}) WHERE {where}"


_PUT_EVENTS = _insert("events", EVENT_COLUMNS)
_PUT_STREAMS = _insert("streams", STREAM_COLUMNS)
_PUT_BLOBS = _insert("blobs", BLOB_COLUMNS, " ON CONFLICT (tenant, address) DO NOTHING")
_MOVE_HEAD = """
WITH moved AS (UPDATE streams SET seq = %s, hash = %s WHERE id = %s AND seq = %s AND hash = %s RETURNING 1)
SELECT 1 / count(*) FROM moved"""
_MOVE_HEADS = """
WITH moves AS (
  SELECT * FROM unnest(%s::bigint[], %s::bytea[], %s::bigint[], %s::bigint[], %s::bytea[]) AS m (seq, hash, id, old_seq, old_hash)),
locked AS (SELECT s.id FROM streams s WHERE s.id = ANY (%s::bigint[]) ORDER BY s.id FOR UPDATE),
moved AS (
  UPDATE streams s SET seq = m.seq, hash = m.hash FROM moves m JOIN locked l ON l.id = m.id
  WHERE s.id = m.id AND s.seq = m.old_seq AND s.hash = m.old_hash RETURNING 1)
SELECT 1 / (CASE WHEN count(*) = %s THEN 1 ELSE 0 END) FROM moved"""


class PostgresConnection:
    """One connection in autocommit mode; transactions are begun with the first statement that needs one."""

    dialect = "postgres"

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self.raw = connection
        self._wants_begin = False

    def query(self, statement: Statement, params: Params) -> Rows:
        """Run one read."""
        return self._fetch(statement.text("postgres", params), params)

    def _fetch(self, text: str, params: Any) -> Rows:
        try:
            self._begin_now()
            return self.raw.execute(text, params).fetchall()
        except psycopg.Error as error:
            raise fault_of(error) from error

    def _begin_now(self) -> None:
        if self._wants_begin:
            self._wants_begin = False
            self.raw.execute("BEGIN")

    def select_row(self, table: Table, stream: int, tenant: int, key: Sequence[Any]) -> tuple[Any, ...] | None:
        """One row by its key."""
        owner = (stream,) if table.streamed else (tenant,) if table.tenant else ()
        rows = self._fetch(_select_row(table), (*owner, *key))
        return rows[0] if rows else None

    def begin(self) -> None:
        """A transaction begins with the next statement."""
        self._wants_begin = True

    def heads(self, streams: Sequence[int], *, lock: bool) -> dict[int, Head]:
        """The heads of these streams; locked in order if asked."""
        text = "SELECT id, seq, hash FROM streams WHERE id = ANY (%s::bigint[]) ORDER BY id" + (" FOR UPDATE" if lock else "")
        return {stream: (seq, digest) for stream, seq, digest in self._fetch(text, (list(streams),))}

    def new_stream_ids(self, count: int) -> list[int]:
        """Ids from the sequence; never given out twice."""
        rows = self._fetch("SELECT nextval('stream_ids') FROM generate_series(1, %s)", (count,))
        return [row[0] for row in rows]

    def new_tenant(self, name: str, uid: bytes) -> int:
        """Insert a tenant."""
        text = "INSERT INTO tenants (id, uid, name) VALUES (nextval('stream_ids'), %s, %s) RETURNING id"
        return self._fetch(text, (uid, name))[0][0]

    def write(self, writes: Writes, *, commit: bool) -> None:
        """Flush set-wise and commit, in one round trip."""
        if not writes and (not commit or self._wants_begin):
            self._wants_begin = self._wants_begin and not commit
            return
        try:
            with self.raw.pipeline():
                self._begin_now()
                self._flush(writes)
                if commit:
                    self.raw.execute("COMMIT")
        except psycopg.Error as error:
            raise fault_of(error) from error

    def _flush(self, writes: Writes) -> None:
        execute = self.raw.execute
        if writes.streams:
            execute(_PUT_STREAMS, _columns([_stream_row(new) for new in writes.streams]))
        if writes.heads:
            self._move(writes.heads)
        if writes.blobs:
            execute(_PUT_BLOBS, _columns(sorted(writes.blobs, key=lambda row: row[:2])))
        if writes.events:
            execute(_PUT_EVENTS, _columns(writes.events))
        for table, rows in writes.deletes.items():
            execute(_delete(table), _columns(rows))
        for table, rows in writes.puts.items():
            execute(_put(table), _columns(rows))

    def _move(self, heads: list[HeadMove]) -> None:
        if len(heads) == 1:
            stream, before, after = heads[0]
            self.raw.execute(_MOVE_HEAD, (*after, stream, *before))
            return
        moves = _columns([(*after, stream, *before) for stream, before, after in heads])
        self.raw.execute(_MOVE_HEADS, (*moves, [move.stream for move in heads], len(heads)))

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
            self.raw.close()
        except psycopg.Error:
            return


def _columns(rows: Sequence[Sequence[Any]]) -> list[list[Any]]:
    return [list(column) for column in zip(*rows, strict=True)]


def _stream_row(new: NewStream) -> tuple[Any, ...]:
    stream, (seq, digest) = new
    return (stream.id, stream.uid, stream.tenant, stream.kind, stream.name, stream.parent, stream.fork_seq, seq, digest)


class PostgresEngine:
    """One schema of one PostgreSQL database."""

    dialect = "postgres"
    exact_heads = False
    one_connection = False

    def __init__(self, url: str, conninfo: str, schema: str, timeout_seconds: float = 30.0, *, read_only: bool = False) -> None:
        self.url = url
        self.schema = schema
        self._conninfo = conninfo
        self._read_only = read_only
        self._timeout_ms = max(1, int(timeout_seconds * 1000))

    def connect(self) -> PostgresConnection:
        """A connection whose every wait is bounded."""
        try:
            raw = psycopg.connect(self._conninfo, autocommit=True, connect_timeout=5, options=self._options(),
                                  tcp_user_timeout=self._timeout_ms, keepalives_idle=10, application_name="perdure")  # fmt: skip
        except psycopg.Error as error:
            raise fault_of(error) from error
        return PostgresConnection(raw)

    def reader(self) -> PostgresConnection:
        """A connection for reading."""
        return self.connect()

    def _options(self) -> str:
        settings = {
            "search_path": self.schema,
            "statement_timeout": self._timeout_ms,
            "lock_timeout": self._timeout_ms,
            "idle_in_transaction_session_timeout": 2 * self._timeout_ms,
            "default_transaction_read_only": "on" if self._read_only else "off",
            "synchronous_commit": "on",
        }
        return " ".join(f"-c {name}={value}" for name, value in settings.items())

    def close(self) -> None:
        """Connections are closed by who holds them."""
