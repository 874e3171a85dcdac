"""Migrations on a real database: who looks first, who locks, and the copy that is kept on SQLite before a
schema changes.

Callers: `core.open_core`, backup and restore, and `perdure migrate`. Looking never changes a byte; migrating
is one transaction, so a process that dies at any point of it leaves the database as it was, or done. Keeps
P1.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import apsw

from perdure.errors import Invalid, NotFound, Refused
from perdure.model.crash_points import reach
from perdure.model.ids import new_uid
from perdure.model.instants import system_clock, to_datetime
from perdure.stores import expected_schema, migrate
from perdure.stores.atomic_files import (
    copy_database,
    disk_errors,
    new_file,
    publish,
    refuse_remains,
    sweep_partials,
    unfinished,
)
from perdure.stores.migrate import Migration, Q
from perdure.stores.sqlite import (
    SqliteConnection,
    SqliteEngine,
    configured,
    fault_of,
    foreign,
    opened_to_look,
    opened_to_read,
)
from perdure.stores.statements import Statement
from perdure.stores.store import Engine, Fault, FaultKind, History, Writes, check_sees_all
from perdure.stores.tx import LOG
from perdure.stores.url import NOT_YET, no_folder, without_password

_MAKING_SECONDS = 30.0  # how long somebody else may take to make the same store
_UNBOUND = {"foreign_keys": False, "legacy_alter_table": True}  # while a schema changes
_SMALLEST_BYTES = 512  # no SQLite database is smaller than one page of this size

if TYPE_CHECKING:
    from perdure.stores.postgres import PostgresConnection, PostgresEngine


class SqliteScript:
    """A SQLite database inside one transaction."""

    dialect = "sqlite"

    def __init__(self, connection: SqliteConnection) -> None:
        self.connection = connection
        self.is_kept = False  # whether the engine reads on with this connection

    def run(self, text: str) -> None:
        """Run a migration."""
        try:
            for _ in self.connection.raw.execute(text):
                pass
        except apsw.Error as error:
            raise fault_of(error, self.connection.file) from error

    def query(self, statement: Statement, **params: Any) -> list[tuple[Any, ...]]:
        """Run one named statement."""
        return self.connection.query(statement, params)


class PostgresScript:
    """A PostgreSQL schema inside one transaction."""

    dialect = "postgres"

    def __init__(self, connection: PostgresConnection) -> None:
        self.connection = connection

    def run(self, text: str) -> None:
        """Run a migration: without parameters, several statements go out as one."""
        with _postgres_faults():
            self.connection.raw.execute(text)  # type: ignore[arg-type] - our own file, not a literal

    def query(self, statement: Statement, **params: Any) -> list[tuple[Any, ...]]:
        """Run one named statement."""
        with _postgres_faults():
            ran = self.connection.raw.execute(statement.text("postgres", params), params)  # type: ignore[arg-type] - as above
            return ran.fetchall() if ran.description else []


def script_on(connection: Any) -> SqliteScript | PostgresScript:
    """The database that a connection leads to, which is in a transaction or takes each statement by itself."""
    return PostgresScript(connection) if connection.is_server else SqliteScript(connection)


@contextmanager
def _postgres_faults() -> Iterator[None]:
    import psycopg  # noqa: PLC0415 - only where PostgreSQL is used

    from perdure.stores.postgres_faults import fault_of as postgres_fault_of  # noqa: PLC0415 - as above

    try:
        yield
    except psycopg.Error as error:
        raise postgres_fault_of(error) from error


# -- looking ---------------------------------------------------------------------------------------


@contextmanager
def looking_at(engine: Engine) -> Iterator[SqliteScript | PostgresScript | None]:
    """The database as it is, to be read: nothing is made or switched. None when there is nothing yet."""
    if engine.is_server:
        with _using(engine) as script:
            yield script
        return
    assert isinstance(engine, SqliteEngine)
    if engine.path is None:
        yield SqliteScript(engine.connect())
    elif not _has_content(engine.path):
        yield None
    else:
        engine.check_path(engine.path)
        connection = _opened_to_look(engine.path, engine.busy_wait_ms, read_only=engine.read_only)
        script = SqliteScript(connection)
        try:
            with _transaction(connection, "BEGIN"):
                yield script
        except BaseException:
            connection.close()
            raise
        if script.is_kept:
            engine.keep(connection)
        else:
            connection.close()


@contextmanager
def reading(engine: Any) -> Iterator[Any]:
    """A reader; if nothing went wrong on it, the next one who reads gets it."""
    connection = engine.reader()
    try:
        yield connection
    except BaseException:
        connection.close()
        raise
    engine.spare(connection)


def _has_content(path: Path) -> bool:
    """An empty file is a database that somebody is about to make."""
    if path.is_dir():
        raise Invalid(f"{path} is a folder", path="store", hint="name a file in it: sqlite:///FOLDER/agent.db")
    if not path.parent.is_dir():
        raise NotFound(f"there is no folder {path.parent}", path="store", hint=no_folder("sqlite", path))
    try:
        size = path.stat().st_size
    except FileNotFoundError:
        return False
    except OSError as error:
        raise Refused(f"cannot look at the database file: {error}", path="store") from error
    if 0 < size < _SMALLEST_BYTES:  # SQLite would take it for empty and write over it
        raise foreign(str(path))
    return size > 0


def _opened_to_look(path: Path, busy_wait_ms: int, *, read_only: bool) -> SqliteConnection:
    """Not as a store is opened: switching somebody else's database to WAL would change it."""
    if not read_only:
        try:
            return opened_to_look(path, busy_wait_ms)
        except Fault as fault:
            if fault.kind is not FaultKind.READ_ONLY:
                raise
    return opened_to_read(path, busy_wait_ms)


def schema_of(engine: Engine, steps: Sequence[Migration] | None = None, *, keep: bool = False) -> int:
    """The number of the schema that the database has now; 0 when there is none yet. Refused when it is not
    ours. keep: the connection that found the newest one becomes the engine's reader, which the caller closes."""
    steps = steps or migrate.migrations()
    with looking_at(engine) as script:
        if script is None:
            return 0
        if isinstance(script, PostgresScript):
            _check_visible(script, _as_postgres(engine).schema)
            return migrate.current(script)
        found = expected_schema.checked(script, steps)
        script.is_kept = keep and found == migrate.latest(steps)
        return found


def _check_visible(script: SqliteScript | PostgresScript, schema: str) -> None:
    """To a role that may not use it, a schema looks as if it were not there."""
    if script.query(Q.schema_hidden, schema=schema) == [(True,)]:
        from perdure.stores.postgres_faults import RIGHTS  # noqa: PLC0415 - only where PostgreSQL is used

        raise Refused(f"this role may not use the schema {schema!r}", path="store", hint=RIGHTS)


class Identity(NamedTuple):
    """The identity of a store. `partition` is where its blobs lie in a place: a restored copy has one of its own. `facts`: all it
    says.
    """

    uid: str
    epoch: int
    partition: str
    facts: dict[str, str]
    history: History | None


def identity_of(engine: Engine) -> Identity:
    """The identity of the store, which must be up to date. Damaged when it does not say; Refused when it is to be written to in a
    cluster that its events do not come from.
    """
    with _using(engine) as script:
        facts, history = migrate.facts_of(script), engine.history_of(script.connection)
        if engine.is_server and not _as_postgres(engine).read_only:
            _check_cluster(script)
    uid, epoch = migrate.uid_in(facts, "uid"), migrate.number_in(facts, "epoch")
    return Identity(uid, epoch, migrate.uid_in(facts, "partition") if "partition" in facts else uid, facts, history)


@contextmanager
def _using(engine: Engine) -> Iterator[SqliteScript | PostgresScript]:
    """The database, read as users of the store do: on a reader, which is kept for them. On SQLite it is known to be ours."""
    with reading(engine) as connection:
        if not engine.is_server:
            yield SqliteScript(connection)
        else:
            with _transaction(connection, "BEGIN READ ONLY"):
                yield PostgresScript(connection)


def _check_cluster(script: Any) -> None:
    """The feed is in the order of transaction ids, and waits for those that this cluster has not given out yet."""
    script.query(LOG.every_tenant)
    if script.connection.is_from_another_cluster():
        raise Refused(
            "the events carry transaction ids of another cluster, so the feed would stay silent: was it moved by pg_dump?",
            path="store",
            hint="open it with read_only=True, back it up, and restore that backup into a new schema",
        )


def plan(engine: Engine, steps: Sequence[Migration] | None = None) -> list[Migration]:
    """The migrations that `bring_up_to_date` would apply: the dry run. Changes and makes nothing. Refused as it would be."""
    steps = steps or migrate.migrations()
    return migrate.pending(schema_of(engine, steps), steps)


def check_readable(engine: Engine, steps: Sequence[Migration] | None = None) -> None:
    """Accept a database that is to be read only: of exactly this schema, because reading must not migrate."""
    steps = steps or migrate.migrations()
    known = migrate.latest(steps)
    found = schema_of(engine, steps, keep=True)
    migrate.check(found, known)
    if found == 0:
        where = without_password(engine.url)
        raise NotFound(f"there is no store yet at {where}", path="store", hint=NOT_YET)
    if found < known:
        message = f"the database has schema {found}; this Perdure reads {known}"
        raise Refused(message, path="meta.schema", hint="open it once for writing, or run: perdure migrate")


# -- changing --------------------------------------------------------------------------------------


@contextmanager
def changing(engine: Engine) -> Iterator[SqliteScript | PostgresScript]:
    """The database inside one transaction that nobody else can migrate in; all is kept at the end, or
    nothing."""
    with _closing(engine) as connection:
        if not connection.is_server:
            with _unbound(connection), _batch(connection):
                yield SqliteScript(connection)
        else:
            with _transaction(connection, "BEGIN"):
                yield _prepared(PostgresScript(connection), engine)


def raise_epoch(engine: Engine, least: int) -> int:
    """Be in an epoch above this one: whatever was under way is in doubt from then on. Returns it. Of many, one raises it."""
    with changing(engine) as script:
        epoch = migrate.number_in(migrate.facts_of(script), "epoch")
        return epoch if epoch > least else migrate.next_epoch(script, least)


def _prepared(script: PostgresScript, engine: Engine) -> PostgresScript:
    schema = _as_postgres(engine).schema
    script.query(Q.migration_lock, schema=schema)
    script.query(Q.unhurried)
    script.query(Q.schema_name, schema=schema)
    script.query(Q.schema_make)
    _check_schema(script, schema)
    return script


def _check_schema(script: PostgresScript, schema: str) -> None:
    """No table is made in another schema than the one that was asked for."""
    found = script.query(Q.schema_current)[0][0]
    if found != schema:
        from perdure.stores.postgres_session import POOLER  # noqa: PLC0415 - only where PostgreSQL is used

        raise Refused(f"the schema in force is {found!r}, not {schema!r}", path="store.schema", hint=POOLER)


def _as_postgres(engine: Any) -> PostgresEngine:
    """Its class is loaded only where PostgreSQL is used, so it cannot be asked for."""
    return engine


@contextmanager
def _closing(engine: Engine) -> Iterator[Any]:
    connection = engine.connect()
    try:
        yield connection
    finally:
        if not engine.one_connection:
            connection.close()


@contextmanager
def _unbound(connection: SqliteConnection) -> Iterator[None]:
    """A table that others refer to can be made anew: SQLite would follow the old one, and refuse where a user's own view names
    it. Neither can be said inside a transaction, so it holds for a connection that does nothing else."""
    for pragma, value in _UNBOUND.items():
        connection.raw.pragma(pragma, value)
    try:
        yield
    finally:
        with suppress(apsw.Error):  # it was closed meanwhile
            for pragma, value in _UNBOUND.items():
                connection.raw.pragma(pragma, not value)


@contextmanager
def _batch(connection: SqliteConnection) -> Iterator[None]:
    """As the lane does it: a store that keeps a log of its own (files) has it there too."""
    try:
        connection.begin()
        yield
        connection.write(Writes(), commit=True)
    finally:
        connection.rollback()


@contextmanager
def _transaction(connection: Any, begin: str) -> Iterator[None]:
    try:
        _say(connection, begin)
        yield
        _say(connection, "COMMIT")
    finally:
        connection.rollback()


def _say(connection: Any, text: str) -> None:
    if connection.is_server:
        connection.begin_with(text) if text.startswith("BEGIN") else connection.commit()
    else:
        script_on(connection).run(text)


def bring_up_to_date(
    engine: Engine, steps: Sequence[Migration] | None = None, *, keep_copy: bool = True, keep: bool = False
) -> list[Migration]:
    """Migrate if needed; returns what was applied. Atomic: after a crash the database is as before, or done. keep: as of
    `schema_of`.

    Many processes may do this at once: one does it, the others find it done. Raises NewerSchema, Refused or
    Damaged, and then not a byte was changed. On SQLite a copy of the old database is kept beside it.
    """
    steps = steps or migrate.migrations()
    found = schema_of(engine, steps, keep=keep)
    if not migrate.pending(found, steps):
        return []
    if isinstance(engine, SqliteEngine) and not found:
        made = _fill(engine, tuple(steps)) if engine.path is None else _make(engine.path.absolute(), steps)
        if made:
            return made
    with changing(engine) as script:
        # A step that changes rows would change none of those that the role does not see.
        if found:
            check_sees_all(script.connection)
        reach("migrate.locked")
        found = migrate.current(script)
        if keep_copy and 0 < found < migrate.latest(steps):
            _keep_copy(engine, found)
        reach("migrate.copied")
        done = migrate.apply(script, found, steps)
        history = engine.history_of(script.connection)
        if not found and history is not None and history.name:
            script.query(Q.meta_put, name=migrate.SERVER, value=history.name)
        reach("migrate.applied")
    reach("migrate.committed")
    return done


def _make(path: Path, steps: Sequence[Migration]) -> list[Migration]:
    """A new file appears as a whole store or not at all: a full disk leaves nothing behind. Nothing is done when
    somebody else has just made it."""
    with disk_errors(path, "store"), unfinished(path, wait_seconds=_MAKING_SECONDS) as folder:
        if path.exists():
            return []
        refuse_remains(path)
        partial = folder / path.name
        new_file(partial)
        blank, uid = _blank(tuple(steps))
        partial.write_bytes(blank.replace(uid, new_uid().hex().encode(), 1))
        publish(partial, path)
    return list(steps)


def _fill(engine: SqliteEngine, steps: tuple[Migration, ...]) -> list[Migration]:
    """An empty database in memory becomes a store. Copied, because a deserialized one cannot outgrow a gigabyte."""
    memory = engine.connect()
    with closing(apsw.Connection(":memory:")) as blank:
        blank.deserialize("main", _blank(steps)[0])
        with memory.raw.backup("main", blank, "main") as copying:
            copying.step()
    migrate.begin_meta(SqliteScript(memory))
    return list(steps)


@cache
def _blank(steps: tuple[Migration, ...]) -> tuple[bytes, bytes]:
    """The store that these migrations make, and its uid: made once, because each store that a process makes begins with it."""
    with closing(configured(apsw.Connection(":memory:"))) as raw:
        script = SqliteScript(SqliteConnection(raw))
        migrate.apply(script, 0, steps)
        blank, uid = raw.serialize("main"), migrate.facts_of(script)["uid"].encode()
    assert blank.count(uid) == 1, "the uid stands in `meta` alone"
    return blank, uid


def _keep_copy(engine: Engine, found: int) -> None:
    """Under the migration's lock: so one copy is made, of exactly what is migrated, and leftovers are
    nobody's."""
    if not isinstance(engine, SqliteEngine) or engine.path is None:
        return
    sweep_partials(engine.path, f".schema{found}.")
    stamp = to_datetime(system_clock()).strftime("%Y%m%dT%H%M%S.%f")
    source = engine.reader()
    try:
        copy_database(source.raw, engine.path.with_name(f"{engine.path.name}.schema{found}.{stamp}.bak"))
    finally:
        source.close()


@contextmanager
def told(path: str = "store") -> Iterator[None]:
    """Faults of a database as errors of the tree."""
    try:
        yield
    except Fault as fault:
        raise fault.as_error(path) from fault
