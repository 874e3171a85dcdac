"""Migrations on a real database: one exclusive transaction on each kind, and the backup that comes first on SQLite."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw

from perdure.model.instants import system_clock, to_datetime
from perdure.stores import migrate
from perdure.stores.sqlite import SqliteConnection, SqliteEngine, fault_of
from perdure.stores.store import Engine

_LOCK = "SELECT pg_advisory_xact_lock(hashtext('perdure.migrate'))"


class _SqliteScript:
    dialect = "sqlite"

    def __init__(self, raw: apsw.Connection) -> None:
        self._raw = raw

    def run(self, text: str) -> None:
        """Run a script."""
        for _ in self._raw.execute(text):
            pass

    def ask(self, text: str) -> list[tuple[Any, ...]]:
        """Run one read."""
        try:
            return list(self._raw.execute(text))
        except apsw.SQLError:
            return []

    def has_tables(self) -> bool:
        """Whether the file holds anything."""
        return bool(self._raw.execute("SELECT count(*) FROM sqlite_schema").get)


class _PostgresScript:
    dialect = "postgres"

    def __init__(self, raw: Any, schema: str) -> None:
        self._raw = raw
        self._schema = schema

    def run(self, text: str) -> None:
        """Run a script: without parameters, several statements go out as one."""
        self._raw.execute(text)

    def ask(self, text: str) -> list[tuple[Any, ...]]:
        """Run one read."""
        return self._raw.execute(text).fetchall()

    def has_tables(self) -> bool:
        """Whether our schema holds our tables."""
        found = self._raw.execute("SELECT to_regclass(%s)", (f"{self._schema}.meta",)).fetchone()
        return found is not None and found[0] is not None


@contextmanager
def script_on(engine: Engine, *, write: bool) -> Iterator[migrate.Script]:
    """The database inside one transaction; with `write`, nobody else migrates meanwhile, and all is kept at the end."""
    connection = engine.connect()
    try:
        if isinstance(connection, SqliteConnection):
            with _sqlite_transaction(connection, write=write) as script:
                yield script
        else:
            with _postgres_transaction(connection, engine, write=write) as script:
                yield script
    finally:
        if not engine.one_connection:
            connection.close()


@contextmanager
def _sqlite_transaction(connection: SqliteConnection, *, write: bool) -> Iterator[migrate.Script]:
    try:
        connection.raw.execute("BEGIN IMMEDIATE" if write else "BEGIN")
        yield _SqliteScript(connection.raw)
        connection.raw.execute("COMMIT")
    except apsw.Error as error:
        raise fault_of(error) from error
    finally:
        connection.rollback()


@contextmanager
def _postgres_transaction(connection: Any, engine: Any, *, write: bool) -> Iterator[migrate.Script]:
    import psycopg  # noqa: PLC0415 - only where PostgreSQL is used

    from perdure.stores.postgres import fault_of as postgres_fault_of  # noqa: PLC0415

    try:
        connection.raw.execute("BEGIN")
        if write:
            connection.raw.execute(_LOCK)
            connection.raw.execute(f"CREATE SCHEMA IF NOT EXISTS {engine.schema}")
        yield _PostgresScript(connection.raw, engine.schema)
        connection.raw.execute("COMMIT")
    except psycopg.Error as error:
        raise postgres_fault_of(error) from error
    finally:
        connection.rollback()


def bring_up_to_date(engine: Engine) -> list[migrate.Migration]:
    """Migrate if needed. Many processes may do this at once for the first time; one does it, the others find it done."""
    with script_on(engine, write=False) as script:
        found = migrate.current(script)
        migrate.check(found)
    if found == migrate.LATEST:
        return []
    if found and isinstance(engine, SqliteEngine) and engine.path is not None:
        back_up_file(engine, engine.path.with_name(f"{engine.path.name}.schema{found}.{_stamp()}.bak"))
    with script_on(engine, write=True) as script:
        return migrate.apply(script, migrate.current(script))


def _stamp() -> str:
    return to_datetime(system_clock()).strftime("%Y%m%dT%H%M%S")


def back_up_file(engine: SqliteEngine, target: Path) -> None:
    """A consistent copy of the whole file, while others write."""
    source = engine.reader()
    try:
        source.raw.execute("VACUUM INTO ?", (str(target),))
        target.chmod(0o600)
    except apsw.Error as error:
        raise fault_of(error) from error
    finally:
        source.close()
