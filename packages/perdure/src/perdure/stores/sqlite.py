"""SQLite through apsw: WAL, full sync, immediate transactions, one writer at a time by its lock. Keeps P1.

`synchronous=FULL` is not a setting: NORMAL loses acknowledged commits at a power loss. Speed comes from the lane.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

import apsw

from perdure.log.table import Table
from perdure.model.crash_points import reach
from perdure.model.limits import BLOB_IN_DATABASE_MAX_BYTES
from perdure.stores import held_files, one_path
from perdure.stores.dialect import BLOB_COLUMNS, EVENT_COLUMNS, STREAM_COLUMNS, conflict_key, listed, upsert_tail
from perdure.stores.held_files import place_of
from perdure.stores.statements import Statement
from perdure.stores.store import Fault, FaultKind, Head, NewStream, Params, Rows, WithoutLines, WithoutRoles, Writes

BUSY_WAIT_MS = 10_000
WAL_PAGES = 2_000  # frames after which the writer moves the WAL into the database

_FAULTS: tuple[tuple[type[apsw.Error], FaultKind], ...] = (
    (apsw.BusyError, FaultKind.BUSY),
    (apsw.LockedError, FaultKind.BUSY),
    (apsw.ProtocolError, FaultKind.BUSY),  # the race for the WAL's locks was lost several times in a row
    (apsw.SchemaChangeError, FaultKind.BUSY),
    (apsw.ConnectionClosedError, FaultKind.LOST),  # after a rollback that failed: connect again
    (apsw.CursorClosedError, FaultKind.LOST),  # it goes with its connection
    (apsw.FullError, FaultKind.FULL),
    (apsw.IOError, FaultKind.IO),
    (apsw.ReadOnlyError, FaultKind.READ_ONLY),
    (apsw.CantOpenError, FaultKind.REFUSED),
    (apsw.PermissionsError, FaultKind.REFUSED),
    (apsw.CorruptError, FaultKind.DAMAGED),
)
_TAKEN = frozenset({apsw.SQLITE_CONSTRAINT_UNIQUE, apsw.SQLITE_CONSTRAINT_PRIMARYKEY, apsw.SQLITE_CONSTRAINT_ROWID})
_NOT_OF_THE_FILE = frozenset({FaultKind.BROKEN, FaultKind.TAKEN})
_MOVED = "this store was moved"  # the message of its trigger (stores/moved_away.sql)
_GONE = "bring the file back, or restore a backup, and open the store again"
_WITH_ITS_WAL = "copy the file, with its -wal, to a writable folder"


def fault_of(error: apsw.Error, file: str = "") -> Fault:
    """The kind of a failure, and its file (a broken constraint is no matter of the file)."""
    if isinstance(error, apsw.NotADBError):
        return foreign(file)
    if isinstance(error, apsw.ConstraintError) and _MOVED in str(error):
        return Fault(FaultKind.READ_ONLY, error, "opening it again says where it went")
    if isinstance(error, apsw.ConstraintError) and getattr(error, "extendedresult", 0) in _TAKEN:
        return Fault(FaultKind.TAKEN, error)
    kind = next((kind for error_class, kind in _FAULTS if isinstance(error, error_class)), FaultKind.BROKEN)
    return Fault(kind, f"{file}: {error}" if file and kind not in _NOT_OF_THE_FILE else error)


def no_text(error: UnicodeDecodeError) -> str:
    """SQLite itself does not look whether a text is one: a damaged page may hold any bytes."""
    return f"a text is no UTF-8: {bytes(error.object[:60])!r}"


def foreign(file: str) -> Fault:
    """It is something else: nothing in it was touched."""
    return Fault(FaultKind.FOREIGN, f"{file}: this is not an SQLite database")


@cache
def _select_row(table: Table) -> str:
    where = " AND ".join(f"{column} = ?" for column in conflict_key(table))
    return f"SELECT {listed(table.all_columns)} FROM {table.name} WHERE {where}"


@cache
def _put(table: Table) -> str:
    marks = listed("?" for _ in table.all_columns)
    return f"INSERT INTO {table.name} ({listed(table.all_columns)}) VALUES ({marks}){upsert_tail(table)}"


@cache
def _delete(table: Table) -> str:
    return f"DELETE FROM {table.name} WHERE " + " AND ".join(f"{column} = ?" for column in conflict_key(table))


def _insert(table: str, columns: Sequence[str], tail: str = "") -> str:
    return f"INSERT INTO {table} ({listed(columns)}) VALUES ({listed('?' for _ in columns)}){tail}"


_PUT_EVENT = _insert("events", EVENT_COLUMNS)
_PUT_STREAM = _insert("streams", STREAM_COLUMNS)
_PUT_BLOB = _insert("blobs", BLOB_COLUMNS, " ON CONFLICT (tenant, address) DO NOTHING")
_MOVE_HEAD = "UPDATE streams SET seq = ?, hash = ? WHERE id = ? AND seq = ?"
_DROP_BLOB = "DELETE FROM blobs WHERE tenant = ? AND address = ?"
_EMPTY = (
    "UPDATE events SET salt = NULL, body = NULL WHERE stream = ? AND seq = ?",
    "DELETE FROM refs WHERE stream = ? AND seq = ?",
    "DELETE FROM blob_refs WHERE stream = ? AND seq = ?",
    "DELETE FROM subjects WHERE stream = ? AND seq = ?",
    "DELETE FROM turns WHERE stream = ? AND seq = ?",
    "DELETE FROM texts WHERE in_stream = ? AND seq = ?",
)
_PRUNE = "INSERT INTO pruning (tenant) SELECT DISTINCT tenant FROM streams WHERE id IN (SELECT value FROM json_each(?))"
_EMPTY_CALLS = (
    "DELETE FROM calls WHERE stream = ? AND seq IN (SELECT value FROM json_each(?))"  # no index: once for all
)


class SqliteConnection:
    """One connection to one file. Not for two threads at once; it may go from one to the other."""

    dialect = "sqlite"
    is_server = False
    tenants: Sequence[int] = ()
    walled = False
    is_cache = False  # whether what it keeps can be made again, so that nothing of others belongs into it

    def __init__(self, connection: apsw.Connection, still: Path | None = None) -> None:
        self._still = still  # the file, if it is read as one that does not change
        self._seen = _look_of(still) if still else None
        self.raw = connection
        self.file = connection.filename
        self._look_at_file = held_files.FileLook(self.file)
        self._place = place_of(self.file)  # which file that is: who deletes or replaces it must not be answered "kept"
        self.links_ignored = True  # unless it is a store's own file
        self._cursor = connection.cursor()  # for what is read at once: making one costs as much as a small read
        self._given_id = 0  # the last stream id that was given out in this transaction
        self._look_at_wal = held_files.FileLook(f"{self.file}-wal")
        self._wal: held_files.Place | None = (
            None  # which WAL it writes to, if it does: others may take that away (`held`)
        )
        self.pid = os.getpid()

    def enter(self, *, wal: bool) -> None:
        """Hold the file, now that it is open. wal: it is written to, and acknowledgements rest on its WAL (not a cache's)."""
        if self._place is not None:
            found = None if self._still else self._look_at_wal()
            self._wal = found if wal and not self.is_cache else None
            held_files.enter(self, self._place, found)

    def join(self) -> bool:
        """Become one of the connections that write, after looking (`opened_to_look`). False, and nothing is done, where the file
        cannot be written to or would have to be switched to WAL first.
        """
        if self.raw.readonly("main") or self.raw.pragma("journal_mode") != "wal":
            return False
        self.raw.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0)
        self.enter(wal=True)
        return True

    def query(self, statement: Statement, params: Params) -> Rows:
        """Run one read."""
        try:
            found = self._cursor.execute(statement.text("sqlite", params), params).fetchall()
        except apsw.Error as error:
            self._check_still()
            raise self._fault(error) from error
        except UnicodeDecodeError as error:
            raise self._fault(apsw.CorruptError(no_text(error))) from error
        self._check_still()
        return found

    def _fault(self, error: apsw.Error) -> Fault:
        """The kind of a failure."""
        return fault_of(error, self.file)

    def _check_still(self) -> None:
        """Check that a file read as unchanging has not changed: else it is opened again, as one that does."""
        if self._still is not None and _look_of(self._still) != self._seen:
            raise Fault(FaultKind.LOST, f"{self.file} is being written to")

    def select_row(self, table: Table, stream: int, tenant: int, key: Sequence[Any]) -> tuple[Any, ...] | None:
        """One row by its key."""
        owner = (stream,) if table.streamed else (tenant,) if table.tenant else ()
        try:
            found = self._cursor.execute(_select_row(table), (*owner, *key)).get
        except apsw.Error as error:
            self._check_still()
            raise self._fault(error) from error
        except UnicodeDecodeError as error:
            raise self._fault(apsw.CorruptError(no_text(error))) from error
        self._check_still()
        return found

    def version(self) -> int:
        """A number that changes whenever another connection, of any process, has committed. Costs no read of the file."""
        try:
            return self._cursor.execute("PRAGMA data_version").get
        except apsw.Error as error:
            raise self._fault(error) from error

    def begin(self) -> None:
        """Take the write lock."""
        self._given_id = 0
        self._check_place()
        try:
            self._cursor.execute("BEGIN IMMEDIATE")
        except apsw.Error as error:
            raise self._fault(error) from error

    def begin_reading(self) -> None:
        """Hold one snapshot: a deferred transaction takes it with its first read."""
        try:
            self._cursor.execute("BEGIN DEFERRED")
        except apsw.Error as error:
            raise self._fault(error) from error

    def heads(self, streams: Sequence[int], *, lock: bool) -> dict[int, Head]:  # noqa: ARG002 - the file is locked
        """The heads of these streams, in one statement: each lets go of the interpreter, which others then take."""
        try:
            if len(streams) == 1:
                head = self._cursor.execute("SELECT seq, hash FROM streams WHERE id = ?", (streams[0],)).get
                return {} if head is None else {streams[0]: head}
            rows = self._cursor.execute(
                "SELECT id, seq, hash FROM streams WHERE id IN (SELECT value FROM json_each(?))", (str([*streams]),)
            )
            return {stream: (seq, digest) for stream, seq, digest in rows}
        except apsw.Error as error:
            raise self._fault(error) from error

    def new_stream_ids(self, count: int) -> list[int]:
        """The next ids; nobody else can take them while the file is locked."""
        try:
            last = self.raw.execute("SELECT coalesce(max(id), 0) FROM streams").get
        except apsw.Error as error:
            raise self._fault(error) from error
        first = max(last, self._given_id) + 1
        self._given_id = first + count - 1
        return list(range(first, first + count))

    def new_tenant(self, name: str, uid: bytes) -> int:
        """Insert a tenant."""
        try:
            return self.raw.execute("INSERT INTO tenants (uid, name) VALUES (?, ?) RETURNING id", (uid, name)).get
        except apsw.Error as error:
            raise self._fault(error) from error

    def write(self, writes: Writes, *, commit: bool) -> None:
        """Flush one statement a table, then commit if asked."""
        try:
            if not self.raw.in_transaction:  # an error rolled it back, and was swallowed: nothing may go in by itself
                raise Fault(FaultKind.BROKEN, "the transaction was rolled back meanwhile")
            self._flush(writes)
        except apsw.Error as error:
            raise self._fault(error) from error
        if commit:
            self.commit()
            self._check_place()  # again: what was synced into a file without a name is not acknowledged (P1)
            if self._wal is not None and self._place is not None and self._look_at_wal() != self._wal:
                raise held_files.lost(self._place)

    def commit(self) -> None:
        """Commit what was flushed, and nothing more: whether the file still has its name is for the caller to know."""
        try:
            self._cursor.execute("COMMIT")
        except apsw.Error as error:
            raise self._fault(error) from error

    def _check_place(self) -> None:
        """Refuse to write when the file is not the one that was opened: deleted, moved away or replaced. Costs a stat.

        LOST when it has another path by now: a new connection is refused (`one_path`), and says why.
        """
        if self._place is None:
            return
        look = self._look_at_file
        if look() != self._place:
            raise Fault(FaultKind.DAMAGED, f"{self.file} was deleted, moved or replaced while it was open", _GONE)
        if look.is_mount_point or (look.links > 1 and not self.links_ignored):
            raise Fault(FaultKind.LOST, f"{self.file} has another path by now")

    def _flush(self, writes: Writes) -> None:
        many = self._cursor.executemany
        if writes.streams:
            many(_PUT_STREAM, [_stream_row(new) for new in writes.streams])
        if writes.heads:
            many(_MOVE_HEAD, [(*move.after, move.stream, move.before[0]) for move in writes.heads])
        if writes.blobs:
            many(_PUT_BLOB, writes.blobs)
        if writes.events:
            many(_PUT_EVENT, writes.events)
        for table, rows in writes.deletes.items():
            many(_delete(table), rows)
        for table, rows in writes.puts.items():
            many(_put(table), rows)
        if writes.empties:
            self._empty(writes.empties)

    def _empty(self, events: Sequence[tuple[int, int]]) -> None:
        self.raw.execute(_PRUNE, (json.dumps([stream for stream, _ in events]),))
        for text in _EMPTY:
            self.raw.executemany(text, events)
        for stream in {stream for stream, _ in events}:
            self.raw.execute(_EMPTY_CALLS, (stream, json.dumps([seq for of, seq in events if of == stream])))
        self.raw.execute("DELETE FROM pruning")

    def backlog(self) -> int:
        """How many pages of the WAL are not in the database yet."""
        try:
            frames, moved = self.raw.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_NOOP)
        except apsw.Error as error:
            raise fault_of(error, self.file) from error
        return max(frames - moved, 0)

    def share_blobs(self, tenant: int) -> None:
        """Nothing to do: whoever writes has the file to itself."""

    def claim_blobs(self, tenant: int) -> None:
        """Nothing to do, as above."""

    def drop_blobs(self, tenant: int, addresses: Sequence[bytes]) -> None:
        """Delete blob rows."""
        try:
            self.raw.executemany(_DROP_BLOB, [(tenant, address) for address in addresses])
        except apsw.Error as error:
            raise self._fault(error) from error

    def rollback(self) -> None:
        """Forget what was not committed."""
        try:
            if self.raw.in_transaction:
                self._cursor.execute("ROLLBACK")
        except apsw.Error:
            self.close()

    def sever(self) -> bool:
        """Close it without a checkpoint: what it knows of the file is out of date. False while a thread is using it."""
        try:
            self.raw.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
            self.raw.close(True)  # noqa: FBT003 - apsw takes it by position
        except apsw.ThreadingViolationError:
            return False
        except apsw.Error:
            pass  # it was closed before
        held_files.leave(self, self._place)
        return True

    def close(self) -> None:
        """Let the connection go. It leaves first: the last one removes the WAL, and the next one finds another."""
        held_files.leave(self, self._place)
        with suppress(apsw.Error):
            if self._wal is not None and self._look_at_wal() != self._wal:
                self.raw.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)  # as in `sever`
            self.raw.close(True)  # noqa: FBT003 - apsw takes it by position


def _stream_row(new: NewStream) -> tuple[Any, ...]:
    stream, (seq, digest) = new
    return (stream.id, stream.uid, stream.tenant, stream.kind, stream.name, stream.parent, stream.fork_seq, seq, digest)


class SqliteEngine(WithoutLines, WithoutRoles):
    """One SQLite file, or one database in memory. Statements of a lost connection cannot happen later: it is closed."""

    dialect = "sqlite"
    exact_heads = True
    blobs_inside_max_bytes = BLOB_IN_DATABASE_MAX_BYTES
    plain_text_blobs = False
    is_server = False
    joins_transactions = False

    def __init__(
        self,
        url: str,
        path: Path | None,
        timeout_seconds: float = 30.0,
        *,
        read_only: bool = False,
        links_ignored: bool = False,
    ) -> None:
        self.url = url
        self.path = path
        self.read_only = read_only
        self.links_ignored = links_ignored
        self.busy_wait_ms = min(BUSY_WAIT_MS, max(1, int(timeout_seconds * 1000)))
        self.one_connection = path is None
        self.quick_reads = path is not None  # nobody who writes to a WAL keeps its readers waiting
        self._memory: SqliteConnection | None = None
        self._spare: list[SqliteConnection] = []  # at most one; a list, because threads may ask at the same time

    def connect(self) -> SqliteConnection:
        """A connection that may write. A file that is missing is not made here: `scripts` makes whole stores."""
        if self.path is None:
            self._memory = self._memory or SqliteConnection(configured(apsw.Connection(":memory:")))
            return self._memory
        return self._open(self.path)

    def reader(self) -> SqliteConnection:
        """A connection for reading."""
        with suppress(IndexError):
            return self._spare.pop()
        return self._new_reader()

    def quick_reader(self) -> SqliteConnection:
        """A connection for reading that waits for no lock."""
        connection = self._new_reader()
        connection.raw.set_busy_timeout(0)
        return connection

    def _new_reader(self) -> SqliteConnection:
        return self.connect()

    def spare(self, reader: SqliteConnection) -> None:
        """Keep a reader that is in no transaction for who asks next: a new one has to parse the whole schema."""
        if self.one_connection:
            return
        if self._spare:
            reader.close()
        else:
            self._spare.append(reader)

    def keep(self, looked: SqliteConnection) -> None:
        """Make the connection that looked at the file, and found it ours, the first reader. One that is not as a reader would be
        (nothing can be written, or the file is not in WAL mode yet) is closed.
        """
        try:
            if self.read_only or looked.join():
                self.spare(looked)
            else:
                looked.close()
        except (apsw.Error, Fault):  # the next reader opens another, and its caller is told what is wrong
            looked.close()

    def _open(self, path: Path) -> SqliteConnection:
        self.check_path(path)
        if self.read_only:
            return opened_to_read(path, self.busy_wait_ms)
        connection = _opened(path, apsw.SQLITE_OPEN_READWRITE, self.busy_wait_ms, wal=True)
        connection.links_ignored = self.links_ignored
        return connection

    def check_path(self, path: Path) -> None:
        """Refuse a file that has another path, before anything is opened. Raises Fault."""
        one_path.check(path, links_ignored=self.links_ignored)

    def close(self) -> None:
        """Let the database in memory go, and the reader that nobody asked for."""
        while self._spare:
            self._spare.pop().close()
        if self._memory is not None:
            self._memory.close()


def opened_to_read(
    path: Path, busy_wait_ms: int = BUSY_WAIT_MS, made: type[SqliteConnection] = SqliteConnection
) -> SqliteConnection:
    """A connection that changes nothing, also where nothing can be written (a read-only medium or folder).

    There SQLite cannot make the files that it shares a WAL by. If there is nothing to share, the file is read as
    one that does not change; whoever may write it after all must not do so meanwhile. If there is something to
    share that cannot be read so, the fault is READ_ONLY and says the way out.
    """
    return _opened(path, apsw.SQLITE_OPEN_READONLY, busy_wait_ms, immutable=_is_still(path), made=made)


def opened_untouched(path: Path) -> SqliteConnection:
    """A connection to somebody else's file that leaves nothing beside it: where no WAL is being written, none is begun."""
    still = not _has_bytes(path, "-wal") and not _has_bytes(path, "-journal")
    return _opened(path, apsw.SQLITE_OPEN_READONLY, immutable=still)


def opened_to_write(
    path: Path, busy_wait_ms: int, made: Callable[[apsw.Connection], SqliteConnection]
) -> SqliteConnection:
    """A connection that may write, as `made` makes it of the bare one."""
    flags = apsw.SQLITE_OPEN_READWRITE
    return _opened(path, flags, busy_wait_ms, wal=True, made=lambda raw, _still: made(raw))


def opened_to_look(path: Path, busy_wait_ms: int) -> SqliteConnection:
    """A connection that rolls back what a crash left behind, and changes nothing else: it may be somebody else's file. Once the
    file is known to be ours it can become one like the others (`SqliteEngine.keep`).
    """
    return _opened(path, apsw.SQLITE_OPEN_READWRITE, busy_wait_ms, made=_without_checkpoint)


def _without_checkpoint(raw: apsw.Connection, still: Path | None) -> SqliteConnection:
    raw.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    return SqliteConnection(raw, still)


def _is_still(path: Path) -> bool:
    """Whether nobody can have the file open for writing, as far as one can see from a folder that is read-only."""
    if _is_writable(path.parent) or _has_bytes(path, "-wal") or _has_bytes(path, "-journal"):
        return False
    return not all(path.with_name(path.name + suffix).exists() for suffix in ("-wal", "-shm"))


def _is_writable(folder: Path) -> bool:
    return os.access(folder, os.W_OK | os.X_OK)


def _look_of(path: Path) -> tuple[object, ...]:
    found = path.stat()
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, _has_bytes(path, "-wal")


def _has_bytes(path: Path, suffix: str) -> bool:
    beside = path.with_name(path.name + suffix)
    return beside.exists() and beside.stat().st_size > 0


def _opened(
    path: Path, flags: int, busy_wait_ms: int = BUSY_WAIT_MS, *, immutable: bool = False, wal: bool = False,
    made: Callable[[apsw.Connection, Path | None], SqliteConnection] = SqliteConnection,
) -> SqliteConnection:  # fmt: skip
    """A connection. If it finds out that the WAL was taken from the others, those are closed by now, and the next is well."""
    try:
        return _opened_once(path, flags, busy_wait_ms, immutable=immutable, wal=wal, made=made)
    except Fault as fault:
        if fault.kind is not FaultKind.LOST:
            raise
    return _opened_once(path, flags, busy_wait_ms, immutable=immutable, wal=wal, made=made)


def _opened_once(
    path: Path, flags: int, busy_wait_ms: int, *, immutable: bool, wal: bool,
    made: Callable[[apsw.Connection, Path | None], SqliteConnection],
) -> SqliteConnection:  # fmt: skip
    name = f"file:{quote(str(path.absolute()))}?immutable=1" if immutable else str(path)
    connection: SqliteConnection | None = None
    held_files.check(str(path))
    try:
        raw = apsw.Connection(name, flags=flags | (apsw.SQLITE_OPEN_URI if immutable else 0))
        connection = made(raw, path if immutable else None)
        configured(raw, wal=wal, busy_wait_ms=busy_wait_ms)
        raw.pragma("schema_version")  # now, not at the first query, it shows whether the file can be read
    except apsw.Error as error:
        if connection is not None:
            connection.close()
        raise _fault_of_opening(error, path, flags) from error
    connection.enter(wal=wal)
    return connection


def _fault_of_opening(error: apsw.Error, path: Path, flags: int) -> Fault:
    if isinstance(error, (apsw.CantOpenError, apsw.ReadOnlyError)) and path.exists() and not _is_writable(path.parent):
        hint = _WITH_ITS_WAL if flags & apsw.SQLITE_OPEN_READONLY else ""
        return Fault(FaultKind.READ_ONLY, f"{path}: {error}", hint)
    return fault_of(error, str(path))


def configured(raw: apsw.Connection, *, wal: bool = True, busy_wait_ms: int = BUSY_WAIT_MS) -> apsw.Connection:
    """The connection with the settings that durability and safety rest on."""
    raw.set_busy_timeout(busy_wait_ms)
    raw.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
    raw.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
    raw.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)  # else, after ANALYZE, every other value means a new plan
    for pragma in ("synchronous = FULL", "foreign_keys = ON", "cell_size_check = ON", "recursive_triggers = ON",
                   "fullfsync = ON", "checkpoint_fullfsync = ON",  # where there is F_FULLFSYNC: macOS
                   f"wal_autocheckpoint = {WAL_PAGES}", "journal_size_limit = 16777216", "temp_store = MEMORY"):  # fmt: skip
        raw.pragma(*_split(pragma))
    if wal:
        _switch_to_wal(raw, busy_wait_ms)
    reach("sqlite.opened")
    return raw


def _split(pragma: str) -> tuple[str, str]:
    name, _, value = pragma.partition(" = ")
    return name, value


def _switch_to_wal(raw: apsw.Connection, busy_wait_ms: int) -> None:
    """Many processes may try this at the first open: the switch itself does not wait for locks, so we do."""
    deadline = time.monotonic() + busy_wait_ms / 1000
    while True:
        try:
            raw.execute("PRAGMA journal_mode = WAL").get  # noqa: B018 - the row must be read for the pragma to run
            return
        except apsw.BusyError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)
