"""Writing on the user's own psycopg connection, inside its open transaction: both commit or neither (docs/decisions/0010).

Called by `store.atomic(fn, on=connection)`. The heads of the streams are locked when they are first looked at, and stay so until
the user's transaction ends: nobody else writes there meanwhile, and nobody saw what a rollback takes back. The function runs
behind a savepoint, so that one that raises leaves nothing (decision 0116). Nothing is acknowledged here: the user's COMMIT
makes it durable. Keeps P1, P3, P5, P7.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

from perdure.errors import Conflict, Error, Refused
from perdure.model.ids import Entropy, new_uid
from perdure.stores.batch import Batch
from perdure.stores.core import Core
from perdure.stores.postgres import NewConnection, PostgresConnection, PostgresEngine
from perdure.stores.statements import Statements
from perdure.stores.store import Fault, FaultKind, Head, History, Writes
from perdure.stores.tx import LOG, Tx

Q = Statements("perdure.stores", "user_transaction.sql")
T = TypeVar("T")

_OPEN = "with psycopg.connect(…) as connection: store.atomic(fn, on=connection)"
_AFTER = "commit and roll back after store.atomic, or around it with connection.transaction(), not inside its function"
_SAVEPOINT = "SAVEPOINT perdure_joined"
_UNDO = "ROLLBACK TO SAVEPOINT perdure_joined"
_RELEASE = "RELEASE SAVEPOINT perdure_joined"
_ANEW = "roll back and run your whole transaction again; ask the store before you write rows of your own"


class _Cursors:
    """The user's connection as ours are used: rows are tuples and parameters go to the server, whatever the user has set."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection
        self.info = connection.info

    def execute(self, text: Any, params: Any = None, **how: Any) -> Any:
        """Run one statement."""
        return psycopg.Cursor(self._connection, row_factory=tuple_row).execute(text, params, **how)


class JoinedConnection(PostgresConnection):
    """The user's own connection. Each call of ours sees our schema and leaves the user's settings as they were."""

    def __init__(self, connection: psycopg.Connection[Any], schema: str, timeout_ms: int) -> None:
        raw: Any = _Cursors(connection)  # it offers what is used of a connection
        super().__init__(NewConnection(raw, "", History(None, None)))
        # Unless it is named, the schema of the user's temporary tables stands before every other.
        self._ours = {"search_path": f"{schema}, pg_temp", "lock_timeout": f"{timeout_ms}ms"}
        self._inside = False
        self._mark = ""
        self._before = ""

    def begin_function(self) -> None:
        """From here on `undo_function` takes everything back that is written on the connection, by the user too."""
        self.raw.execute(_SAVEPOINT)
        self._before = self.mark(new_uid().hex())

    def end_function(self) -> None:
        """Keep what the function wrote, for the user's COMMIT. A function of ours around it finds its own mark again."""
        self.mark(self._before)
        self.raw.execute(_RELEASE)

    def undo_function(self) -> None:
        """Take back what the function wrote. A transaction without the savepoint is another one: it is spoiled by this."""
        if self.raw.info.transaction_status in (TransactionStatus.IDLE, TransactionStatus.INERROR):
            return
        with suppress(psycopg.Error):
            self.raw.execute(_UNDO)
            self.raw.execute(_RELEASE)

    def mark(self, mark: str) -> str:
        """Know what was written so far again: a rollback takes its mark back, also one to a savepoint. Gives the mark before."""
        ((before, *_),) = super()._fetch(Q.transaction_mark.text("postgres", {}), {"mark": mark})
        self._check(before)
        self._mark = mark
        return before or ""

    def _check(self, found: str | None) -> None:
        """If the user ends the transaction inside `fn`, or undoes a part of it, the rest is not written all the same."""
        if self._mark and found != self._mark:
            raise Refused(
                "the transaction, or a part of it, ended before the function did: nothing of it is recorded",
                path="on",
                hint=_AFTER,
            )

    @contextmanager
    def _our_settings(self) -> Iterator[None]:
        """A failure inside has spoiled the whole transaction, and its settings go with it."""
        if self._inside:
            yield
            return
        path, timeout = self._put(self._ours)
        self._inside = True
        try:
            yield
        finally:
            self._inside = False
        self._put({"search_path": path, "lock_timeout": timeout})

    def _put(self, settings: dict[str, str]) -> tuple[str, str]:
        ((path, timeout, mark, *_),) = super()._fetch(Q.settings_put.text("postgres", settings), settings)
        self._check(mark)
        return path, timeout

    def _fetch(self, text: str, params: Any, *, prepare: bool | None = None) -> list[tuple[Any, ...]]:
        with self._our_settings():
            return super()._fetch(text, params, prepare=prepare)

    def _begin_now(self, then: str = "") -> None:
        """The transaction is there. A lock of ours is named after our schema: under another name it would keep nobody away."""
        if then:
            with self._our_settings():
                super()._begin_now(then)

    def heads(self, streams: Sequence[int], *, lock: bool) -> dict[int, Head]:  # noqa: ARG002 - nobody verifies them later
        """The heads of these streams, locked until the user's transaction ends."""
        return super().heads(streams, lock=True)

    def write(self, writes: Writes, *, commit: bool) -> None:
        """Flush. The commit is the user's. A part that is undone later takes this with it, and its mark."""
        assert not commit
        with self._our_settings():
            super().write(writes, commit=False)
            if not writes.is_empty():
                self.mark(new_uid().hex())

    def rollback(self) -> None:
        """The user's to do."""

    def close(self) -> None:
        """The user's to do."""


def run_joined(core: Core, connection: Any, verb: Callable[..., T], *args: Any, actor: str, tenant: int) -> T:
    """Run a verb on the user's connection, inside its transaction, and flush what it wrote. It is durable with the user's COMMIT.

    The verb gets `mark`, a function that it calls whenever it has written something. If it raises, nothing of it stays.
    Refused for what is no open transaction in the database of this store. Conflict when somebody else was first: the user's
    transaction is spoiled then, and must be run again as a whole.
    """
    joined = _joined(core, connection)
    batch = Batch(joined, core.blobs, Entropy(), actors=core.lane.actors)
    tx = Tx(batch, actor, tenant, core.clocks)
    try:
        result = verb(tx, *args, mark=lambda: joined.mark(new_uid().hex()))
        batch.absorb(tx)
        batch.flush(commit=False)
        joined.end_function()
    except BaseException as error:
        joined.undo_function()
        if isinstance(error, Fault):
            raise _error_of(error) from error
        raise
    finally:
        tx.end()
    return result


def _joined(core: Core, connection: Any) -> JoinedConnection:
    engine = core.engine
    assert isinstance(engine, PostgresEngine)
    if not isinstance(connection, psycopg.Connection):
        raise Refused(f"expected a psycopg.Connection, got {type(connection).__name__}", path="on", hint=_OPEN)
    _check_open(connection)
    joined = JoinedConnection(connection, engine.schema, round(core.timeout_seconds * 1000))
    try:
        _check_store(joined, core.uid, engine.schema)
        joined.begin_function()
    except Fault as fault:
        raise _error_of(fault) from fault
    return joined


def _check_open(connection: psycopg.Connection[Any]) -> None:
    if connection.closed:
        raise Refused("the connection is closed", path="on", hint=_OPEN)
    if connection.info.encoding != "utf-8":
        message = f"the connection speaks {connection.info.encoding}, which cannot say every name"
        raise Refused(message, path="on", hint='psycopg.connect(…, client_encoding="UTF8")')
    if connection.info.pipeline_status:
        with connection.pipeline():  # waits for what is still on its way, and for its outcome
            pass
    status = connection.info.transaction_status
    if status is TransactionStatus.IDLE and connection.autocommit:
        hint = "with connection.transaction(): store.atomic(fn, on=connection)"
        raise Refused("the connection commits each statement by itself", path="on", hint=hint)
    if status not in (TransactionStatus.IDLE, TransactionStatus.INTRANS):
        raise Refused("the connection has no transaction that can still be committed", path="on", hint="roll it back")


def _check_store(joined: JoinedConnection, uid: str, schema: str) -> None:
    """Check that this is the store itself, not only one of its name: what is written there must be what is read here."""
    if joined.query(Q.store_known, {"schema": schema}) == [(True,)] and joined.query(LOG.meta_get, {"name": "uid"}) == [
        (uid,)
    ]:
        return
    raise Refused("the connection leads to another database than the store's", path="on")


def _error_of(fault: Fault) -> Error:
    if fault.kind is not FaultKind.RACED:
        return fault.as_error("on")
    return Conflict("the stream grew while your transaction was open", path="on", hint=_ANEW)
