"""An open store without its handles: the engine, the lane, the readers, the blobs, and who this store is.

Callers: the handles (and through them everything else). There is one way in for writing, the lane, and one for reading,
`read`. Keeps P1, P9, P15.
"""

from __future__ import annotations

import itertools
import logging
import os
import threading
import time
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from perdure.artifacts.place import Place, ReadOnlyPlace
from perdure.errors import Damaged, Error, NotFound, ReadOnly, Refused, TimedOut
from perdure.log.change import Stream
from perdure.log.table import Row, Table
from perdure.model import threads
from perdure.model.ids import new_uid
from perdure.model.instants import SECOND_US, Clock, system_clock
from perdure.model.limits import KEEP_SECONDS, LEASE_TTL_SECONDS
from perdure.stores import artifact_places, migrate, moved_away, one_path, schema_upgrade, url
from perdure.stores.blobs import BlobRow, Blobs
from perdure.stores.clocks import Clocks
from perdure.stores.continuity import Continuity
from perdure.stores.entry_points import files_kind, kind_of
from perdure.stores.glances import Glances
from perdure.stores.in_flight import InFlight
from perdure.stores.job import Job
from perdure.stores.lane import Lane, pause
from perdure.stores.liveness import Liveness, folder_for, marks_folder
from perdure.stores.mounts import network_kind
from perdure.stores.rollback_guard import RollbackGuard
from perdure.stores.sqlite import SqliteEngine
from perdure.stores.statements import Statement
from perdure.stores.store import (
    NO_TENANT,
    RETRYABLE,
    WHOLE_STORE,
    Connection,
    Engine,
    Fault,
    FaultKind,
    Rows,
    check_sees_all,
)
from perdure.stores.tool_limits import Slots
from perdure.stores.tx import LOG, Tx, blob_rows, known_blobs

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor
    from pathlib import Path

T = TypeVar("T")
log = logging.getLogger("perdure.store")

READERS_MAX = 8  # connections that read: more would not read quicker, and a server has only so many
READER_IDLE_SECONDS = 10.0  # after which one is let go
READ_THREADS = 4


class Reader:
    """Reads outside a transaction: what a read verb gets. See `Reads`."""

    __slots__ = ("_connection", "_steady", "blobs", "clocks", "tenant")

    def __init__(
        self, connection: Connection, clocks: Clocks, tenant: int, blobs: Blobs, *, steady: bool = False
    ) -> None:
        self._connection = connection
        self.clocks = clocks
        self._steady = steady  # everything that it reads is of one state already
        self.tenant = tenant
        self.blobs = blobs

    def query(self, statement: Statement, *, touches: Iterable[tuple[Table, int]] = (), **params: Any) -> Rows:  # noqa: ARG002
        """Run a named statement."""
        if statement.uses_now:
            params["now"] = self.clocks.store()
        return self._connection.query(statement, params)

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Everything read inside sees one state of the store; inside another one, that one's. Keep it short on SQLite: it
        holds the WAL.
        """
        if self._steady:
            yield
            return
        self._connection.begin_reading()
        self._steady = True
        try:
            yield
        finally:
            self._steady = False
            self._connection.rollback()

    @property
    def connection(self) -> Connection:
        """The connection that is read from: only for upkeep of the whole store."""
        return self._connection

    def of_tenant(self, tenant: int) -> Reader:
        """This reader for the blobs of another tenant: only for upkeep of the whole store."""
        return Reader(self._connection, self.clocks, tenant, self.blobs, steady=self._steady)

    def row(self, table: Table, stream: Stream, *key: Any) -> Row | None:
        """One row by its key."""
        found = self._connection.select_row(table, stream.id, stream.tenant, key)
        return dict(zip(table.all_columns, found, strict=True)) if found else None

    def blob(self, address: str) -> bytes:
        """The bytes of a blob of this tenant, verified."""
        return self.blobs.read(self.tenant, bytes.fromhex(address), self._blob_row(address))

    def open_blob(self, address: str) -> Iterator[bytes]:
        """Read a blob piece by piece."""
        return self.blobs.open(self.tenant, bytes.fromhex(address), self._blob_row(address))

    def known(self, addresses: Collection[bytes]) -> set[bytes]:
        """Which of these blobs are stored now: a hint, nothing keeps them."""
        return known_blobs(self, addresses)

    def fetch(self, addresses: Collection[bytes]) -> dict[bytes, bytes]:
        """The bytes of these blobs, verified."""
        return {address: self.blobs.read(self.tenant, address, row) for address, row in blob_rows(self, addresses)}

    def pack(self, data: bytes) -> BlobRow:
        """The row that keeps these bytes."""
        return self.blobs.row_for(self.tenant, data)[1]

    def _blob_row(self, address: str) -> tuple[Any, ...] | None:
        rows = self.query(LOG.blob_get, tenant=self.tenant, address=bytes.fromhex(address))
        return rows[0] if rows else None


class Core:
    """One open store. Threads and event loops may share it; a fork may not. acts: effects can be sent from here."""

    acts = True

    def __init__(
        self,
        engine: Engine,
        place: Place | None,
        clock: Clock | None,
        timeout_seconds: float,
        lease_seconds: float = LEASE_TTL_SECONDS,
        *,
        keeps: bool = False,
    ) -> None:
        """keeps: what is found out about the database's history is kept in it."""
        self.engine = engine
        identity = schema_upgrade.identity_of(engine)
        self.uid, self.facts = identity.uid, identity.facts
        self.holder = new_uid().hex()
        self.liveness = Liveness(
            folder_for(getattr(engine, "path", None), self.uid, remote=engine.is_server), self.holder
        )
        marks = marks_folder(self.uid) if engine.is_server else self.liveness.folder
        self.rollback_guard = RollbackGuard(marks if keeps else None, self.uid, self.holder)
        self.continuity = Continuity(engine, identity.epoch, identity.history, self.rollback_guard, keeps=keeps)
        self.continuity.begin(identity.facts)
        database_clock = clock is None and engine.is_server
        self.lease_seconds = lease_seconds  # how long others take this store for alive after its last heartbeat
        self.clocks = Clocks(
            clock or system_clock,
            (lambda: None) if database_clock else (clock or system_clock),
            round(lease_seconds * SECOND_US),
            self.liveness.is_dead,
            self.continuity,
        )
        # Effects that it sends: (stream, number, attempt); runs that it drives: (stream, 0).
        self.in_flight = InFlight()
        self.slots = Slots()  # of tools that may be called so many times at once
        self.guards: tuple[Callable[..., Any], ...] = ()  # asked about every effect before it is sent
        self.embed: Any = None  # makes vectors of texts (`planes.memory.embedder`); None: the extra's, False: nothing
        self.blobs = Blobs(place, identity.partition, engine.blobs_inside_max_bytes, plain_text=engine.plain_text_blobs)
        self.timeout_seconds = timeout_seconds
        self.keep_seconds = KEEP_SECONDS if clock is None else 0.0  # how long a result is kept that cannot be recorded
        self.kept_since: list[float] = []  # of each that is kept now (`stores.kept_results`), on the monotonic clock
        self.lane = Lane(engine, self.blobs, self.clocks, timeout_seconds, self.continuity)
        self.on_close: Callable[[], None] | None = None  # called when everything is committed, and can still be read
        # Called when what was emptied must leave what lies beside the store.
        self.on_purge: Callable[[], None] | None = None
        self._idle: list[tuple[Connection, float]] = []  # readers, each with the time of its last use, the oldest first
        self._readers_out = 0
        self._closer: threading.Thread | None = None  # closes readers of a server that nobody uses, while there are any
        self._stop_closing = threading.Event()
        self._glances = Glances(engine, self._reader, time.monotonic)
        self._mutex = threading.Condition(threading.Lock())
        self._threads: ThreadPoolExecutor | None = None
        self._closed = False
        self._pid = os.getpid()

    def __reduce__(self) -> NoReturn:
        """Asked by whoever pickles a store or a handle, to hand it to another process."""
        hint = "open it there by its URL, and find the session or run by its name"
        raise Refused("an open store belongs to its process and cannot be pickled", path="store", hint=hint)

    @property
    def epoch(self) -> int:
        """How often the store was restored, or lost what was acknowledged, as far as this process has heard."""
        return self.continuity.epoch

    @epoch.setter
    def epoch(self, epoch: int) -> None:
        self.continuity.epoch = epoch

    @property
    def clock_moves(self) -> bool:
        """Whether waiting helps, and a heartbeat beats by itself: a clock that was passed in stands still meanwhile."""
        return self.clocks.now is system_clock

    # -- writing -------------------------------------------------------------------------------------------------------------

    def write(self, verb: Callable[..., T], *args: Any, actor: str, tenant: int, pin: str = "", **kwargs: Any) -> T:
        """Run a verb in a transaction; returns after its commit. For who has no caller (`runtime.callers`)."""
        return self.lane.run(Job(verb, args, kwargs, actor, tenant, pin))

    # -- reading -------------------------------------------------------------------------------------------------------------

    def listen(self, _run: str | None) -> None:
        """Nobody tells of news here: a store on this machine is looked at again (`runtime.patience`)."""

    def read(self, verb: Callable[..., T], *args: Any, tenant: int, **kwargs: Any) -> T:
        """Run a read verb on a connection of its own; tried again, within the store's timeout, if the database is away.

        tenant: WHOLE_STORE is Refused for a role that does not see all of it.
        """
        if self.engine.one_connection:
            return self.lane.borrow(lambda connection: verb(self._reader(connection, tenant), *args, **kwargs))
        deadline = 0.0
        for attempt in itertools.count():
            try:
                return self._read_once(verb, tenant, args, kwargs)
            except Fault as fault:
                deadline = deadline or time.monotonic() + self.timeout_seconds
                if fault.kind not in RETRYABLE or time.monotonic() > deadline:
                    raise fault.as_error("store") from fault
                if fault.kind is FaultKind.LOST:
                    self.close_idle(0)  # a fault that lost one connection has mostly lost them all
            pause(attempt)
        raise AssertionError

    def _read_once(self, verb: Callable[..., T], tenant: int, args: Sequence[Any], kwargs: Mapping[str, Any]) -> T:
        connection = self._take()
        connection.tenants = (tenant,)
        reader = self._reader(connection, tenant)
        try:
            if tenant == WHOLE_STORE:
                check_sees_all(connection)
            try:
                result = verb(reader, *args, **kwargs)
            except Damaged:  # unless others pruned and collected what it was about to read: that is no damage
                result = _in_snapshot(reader, verb, *args, **kwargs)
        except BaseException:
            connection.close()
            self._give_back(None)
            raise
        self._give_back(connection)
        return result

    def snapshot(self, verb: Callable[..., T], *args: Any, tenant: int, **kwargs: Any) -> T:
        """Run a read verb that sees one state of the store from its first query to its last."""
        return self.read(_in_snapshot, verb, *args, tenant=tenant, **kwargs)

    async def aread(self, verb: Callable[..., T], *args: Any, tenant: int, **kwargs: Any) -> T:
        """Read for async callers, on a thread of the store."""
        return await self.awork(lambda: self.read(verb, *args, tenant=tenant, **kwargs))

    async def aborrow(self, verb: Callable[..., T], *args: Any, tenant: int) -> T:
        """Read something quick where a server's lane is idle: on its connection, so that an idle process has no other."""
        if not self.engine.is_server:
            return await self.aread(verb, *args, tenant=tenant)
        read = lambda connection: verb(self._reader(connection, tenant), *args)  # noqa: E731
        return await self.lane.submit(Job(read, (), {}, "", tenant, reads=True))

    async def aglance(self, verb: Callable[..., T], *args: Any, tenant: int) -> T:
        """Read something small by its key, for async callers: where it was read a moment ago and the engine reads quickly, on
        the thread of the event loop, else on a thread of the store.
        """
        if not self.engine.quick_reads:
            return await self.aread(verb, *args, tenant=tenant)
        found = self.glance(verb, *args, tenant=tenant)
        return await self.awork(self._read_and_keep_at_hand, verb, args, tenant) if found is None else found

    def glance(self, verb: Callable[..., T], *args: Any, tenant: int) -> T | None:
        """The part of `aglance` that waits for nobody. None: it found nothing, or a thread must be asked."""
        self.lane.check_process()
        return self._glances.find(verb, args, tenant)

    def _read_and_keep_at_hand(self, verb: Callable[..., T], args: tuple[Any, ...], tenant: int) -> T:
        found = self.read(verb, *args, tenant=tenant)
        if found is not None:
            with suppress(Fault):  # it is only quicker
                self._glances.saw(verb, args, tenant)
        return found

    def work(self, task: Callable[..., T], *args: Any) -> T:
        """Do blocking work, here."""
        return task(*args)

    async def awork(self, task: Callable[..., T], *args: Any) -> T:
        """Do blocking work on a thread of the store."""
        from asyncio import get_running_loop  # noqa: PLC0415 - only async callers pay for asyncio

        return await get_running_loop().run_in_executor(self._executor(), task, *args)

    def _executor(self) -> ThreadPoolExecutor:
        from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 - as above

        self.lane.check_process()
        with self._mutex:
            if self._closed:
                raise Refused("the store is closed", path="store")
            if self._threads is None:
                self._threads = ThreadPoolExecutor(READ_THREADS, "perdure-read")
            return self._threads

    def _reader(self, connection: Connection, tenant: int) -> Reader:
        """The argument of a read verb. A borrowed lane is a transaction already."""
        return Reader(connection, self.clocks, tenant, self.blobs, steady=self.engine.one_connection)

    def _take(self) -> Connection:
        self.lane.check_process()
        with self._mutex:
            if not self._mutex.wait_for(lambda: self._readers_out < READERS_MAX or self._closed, self.timeout_seconds):
                hint = "try again later, or open the store with a longer timeout"
                raise TimedOut(f"{READERS_MAX} reads took {self.timeout_seconds:g} s", path="store", hint=hint)
            if self._closed:
                raise Refused("the store is closed", path="store")
            self._readers_out += 1
            if self._idle:
                return self._idle.pop()[0]
        connection = None
        try:
            connection = self.engine.reader()
            self.continuity.met(connection)
        except BaseException:
            if connection is not None:
                connection.close()
            self._give_back(None)
            raise
        return connection

    def close_idle(self, for_seconds: float) -> None:
        """Close the readers that nobody has used for so long."""
        oldest = time.monotonic() - for_seconds
        with self._mutex:
            idle = [connection for connection, used in self._idle if used <= oldest]
            del self._idle[: len(idle)]
        for connection in idle:
            connection.close()

    def keep_closing(self) -> bool:
        """Close the readers that nobody uses any more; whether some are left. The thread that asks ends with the first no."""
        self.close_idle(READER_IDLE_SECONDS)
        with self._mutex:
            if not self._idle:
                self._closer = None
            return bool(self._idle)

    def _give_back(self, connection: Connection | None) -> None:
        """Let another caller read. None: the reader was closed."""
        with self._mutex:
            self._readers_out -= 1
            self._mutex.notify()
            if connection is not None and not self._closed:
                self._idle.append((connection, time.monotonic()))
                connection = None
                if self._closer is None and self.engine.is_server:
                    self._closer = threads.begin(
                        _keep_closing, "perdure-readers", (weakref.ref(self), self._stop_closing)
                    )
        if connection is not None:
            connection.close()

    # -- opening and closing ---------------------------------------------------------------------------------------------------

    def tenant_id(self, name: str) -> int:
        """The number of a tenant in this store; the tenant is made if it is new."""
        found = self.read(_find_tenant, name, tenant=NO_TENANT)
        if found is not None:
            return found
        try:
            return self.lane.run(Job(_make_tenant, (name,), {}, "", NO_TENANT))
        except ReadOnly:
            hint = "check the name; opening the store for writing with this tenant creates it"
            raise NotFound(f"this store has no tenant {name!r}", path="tenant", hint=hint) from None

    def close(self) -> None:
        """Finish what is queued, then let everything go. Calling it again does nothing, nor does calling it after a fork."""
        if self._pid != os.getpid():
            return  # the connections are the parent's: closing one here would end its session there
        self.lane.close()
        on_close, self.on_close = self.on_close, None
        if on_close is not None:
            on_close()
        with self._mutex:
            self._closed = True
        self._stop_closing.set()
        self.close_idle(0)
        self._glances.close()
        if self._threads is not None:
            self._threads.shutdown(wait=False)
        self.engine.close()
        self.rollback_guard.close()
        self.liveness.end()


def _keep_closing(core: weakref.ref[Core], stop: threading.Event) -> None:
    while not stop.wait(READER_IDLE_SECONDS):
        alive = core()
        if alive is None or not alive.keep_closing():
            return
        del alive


def _in_snapshot(reader: Reader, verb: Callable[..., T], *args: Any, **kwargs: Any) -> T:
    with reader.snapshot():
        return verb(reader, *args, **kwargs)


def _find_tenant(reader: Reader, name: str) -> int | None:
    rows = reader.query(LOG.tenant_by_name, name=name)
    return rows[0][0] if rows else None


def _make_tenant(tx: Any, name: str) -> int:
    rows = tx.query(LOG.tenant_by_name, name=name)
    return rows[0][0] if rows else tx.new_tenant(name)


def open_core(
    store_url: str,
    *,
    clock: Clock | None = None,
    timeout_seconds: float = 30.0,
    read_only: bool = False,
    artifacts: str | None = None,
    lease_seconds: float = LEASE_TTL_SECONDS,
    moving: bool = False,
) -> Core:
    """Open a store by its URL: made if it is new, brought up to date if it is older, refused if it is newer.

    moving: also one that was moved away, or is not all there yet; only for who moves it.
    """
    address = url.parse(store_url)
    place = artifact_places.place_for(address, artifacts)
    if read_only and place is not None:
        place = ReadOnlyPlace(place)
    engine = engine_for(address, timeout_seconds, read_only=read_only)
    try:
        engine.prepare()
        if read_only and not engine.one_connection:
            schema_upgrade.check_readable(engine)
        else:
            schema_upgrade.bring_up_to_date(engine, keep=True)
        core = Core(engine, place, clock, timeout_seconds, lease_seconds, keeps=not (read_only or moving))
        if not moving:
            moved_away.check_open(core.facts, read_only=read_only)
        given, write = artifacts or address.artifacts, not (read_only or moving)
        artifact_places.look_up(core.lane, core.facts, address, given, core.blobs, write=write)
        if address.links_ignored and write and one_path.FACT not in core.facts:
            core.write(_remember_links, actor="", tenant=NO_TENANT)
        _tell_of_network(core.liveness.folder)
        return core
    except Fault as fault:
        engine.close()
        raise _naming(fault, address).as_error("store") from fault
    except Error:
        engine.close()
        raise


def _remember_links(tx: Tx) -> None:
    tx.query(migrate.Q.meta_put, name=one_path.FACT, value=one_path.ignored_since())


def _tell_of_network(locks: Path | None) -> None:
    kind = network_kind(locks) if locks else ""
    if kind:
        log.warning("the locks that prove which processes live (%s) lie on a network file system: %s", locks, kind)


def _naming(fault: Fault, address: url.Address) -> Fault:
    """The fault with the file that it is about."""
    file = "" if address.path is None else str(address.path)
    return fault if file in str(fault) else Fault(fault.kind, f"{file}: {fault}", fault.hint)


def engine_for(address: url.Address, timeout_seconds: float = 30.0, *, read_only: bool = False) -> Engine:
    """The engine that a URL names."""
    if address.scheme == "postgresql":
        try:
            from perdure.stores.postgres import PostgresEngine  # noqa: PLC0415 - an extra, loaded where it is used
        except ImportError:
            raise Refused("PostgreSQL needs an extra", path="store", hint="pip install 'perdure[postgres]'") from None
        return PostgresEngine(address.url, address.conninfo, address.schema, timeout_seconds, read_only=read_only)
    if address.scheme == "files":
        return files_kind().engine(address, timeout_seconds, read_only=read_only)
    if address.scheme in ("sqlite", "memory"):
        links_ignored = address.links_ignored
        return SqliteEngine(
            address.url, address.path, timeout_seconds, read_only=read_only, links_ignored=links_ignored
        )
    kind = kind_of(address.scheme)
    assert kind is not None, "its URL was read by it"
    return kind.engine(address, timeout_seconds, read_only=read_only)
