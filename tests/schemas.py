"""PostgreSQL stores that are handed out again: making a schema and dropping it takes many times longer than emptying it.

A store lies in a database of its own, a copy of one that was made once. Before each test its rows are put back to an image:
those of a new store, or those that a store had after something was written into it. What a test did to the schema itself
(a table, a trigger, a right) is noted by the database: then it goes, and another copy is made. Nobody may still be
connected when it is handed out again: a process that a test killed could have left its backend something to do.
"""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import perdure
from perdure.model.ids import new_uid
from perdure.stores.url import parse
from perdure_testing.postgres import PostgresAddress

if TYPE_CHECKING:
    from kept import Kept

SCHEMA = "perdure"
USES_MAX = 50  # what was deleted stays in the way until somebody vacuums
PATIENCE_SECONDS = 60  # a backend that waited for a lock when its client was killed finds out after that
PAUSE_SECONDS = 0.002
RELATIONS = "SELECT relname FROM pg_class WHERE relkind = %s AND relnamespace = %s::regnamespace ORDER BY relname"
NOTE_CHANGES = """
CREATE SCHEMA upkeep;
CREATE TABLE upkeep.changes (command text);
CREATE FUNCTION upkeep.note() RETURNS event_trigger LANGUAGE plpgsql SECURITY DEFINER
  AS 'BEGIN INSERT INTO upkeep.changes VALUES (tg_tag); END';
CREATE EVENT TRIGGER note ON ddl_command_end EXECUTE FUNCTION upkeep.note();
ALTER EVENT TRIGGER note ENABLE ALWAYS
"""
OTHERS = "SELECT 1 FROM pg_stat_activity WHERE datname = %s AND pid <> ALL (%s)"


class Image(NamedTuple):
    """The rows of a store, as binary copies by table, and where its sequences stand."""

    rows: dict[str, bytes]
    sequences: dict[str, tuple[int, bool]]


class Schemas:
    """The schemas of one test process, and its connection to look after them."""

    def __init__(self, address: PostgresAddress, connection: Any, kept: Kept) -> None:
        self._address = address
        self._connection = connection
        self._kept = kept
        self._free: list[Schema] = []

    @classmethod
    @contextlib.contextmanager
    def on(cls, address: PostgresAddress) -> Iterator[Self]:
        """Those on this server; dropped at the end."""
        from kept import keeping

        with keeping() as kept, upkeep(address) as connection:
            schemas = cls(address, connection, kept)
            try:
                yield schemas
            finally:
                while schemas._free:
                    schemas._drop(schemas._free.pop())

    @contextlib.contextmanager
    def store(self, image: Image | None = None) -> Iterator[str]:
        """The URL of a store with the rows of this image; without one, of a new store."""
        with self._lent() as schema:
            schema.load(image)
            yield schema.url

    def image(self, write: Callable[[str], object]) -> Image:
        """What `write`, which gets the URL, makes of a new store."""
        with self._lent() as schema:
            schema.load(None)
            write(schema.url)
            return schema.image()

    @contextlib.contextmanager
    def _lent(self) -> Iterator[Schema]:
        schema = self._free.pop() if self._free else self._copy()
        try:
            yield schema
        finally:
            if self._is_left_alone(schema) and not schema.is_worn():
                self._free.append(schema)
            else:
                self._drop(schema)

    @cached_property
    def _blank(self) -> str:
        """The database that others begin as copies of."""
        name = fresh_name()
        self._connection.execute(f"CREATE DATABASE {name}")
        perdure.open(self._address.url(name, schema=SCHEMA)).close()
        with upkeep(self._address, name) as connection:
            connection.execute(NOTE_CHANGES)
        return name

    def _copy(self) -> Schema:
        name = fresh_name()
        self._connection.execute(f"CREATE DATABASE {name} TEMPLATE {self._blank} STRATEGY file_copy")
        return Schema(self._address, name, self._kept)

    def _drop(self, schema: Schema) -> None:
        """Drop it. A connection that a test left open shows as an error here."""
        schema.close()
        self._connection.execute(f"DROP DATABASE {schema.name}")

    def _is_left_alone(self, schema: Schema) -> bool:
        """Whether all who used it went, or go soon: a backend outlives its client for a moment."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while self._connection.execute(OTHERS, (schema.name, schema.pids())).rowcount:
            if time.monotonic() > deadline:
                return False
            time.sleep(PAUSE_SECONDS)
        return True


class Schema:
    """A schema with a store in it, in a database of its own."""

    def __init__(self, address: PostgresAddress, name: str, kept: Kept) -> None:
        self.name = name
        self.url = address.url(name, schema=SCHEMA)
        self._conninfo = parse(self.url).conninfo
        self._ours = contextlib.ExitStack()
        self._db = self._ours.enter_context(upkeep(address, name))
        self._kept = kept
        self._ours.enter_context(kept.of(self._conninfo))
        self._uses = 0
        self._tables = self._names("r")
        self._sequences = self._names("S")
        self._new = self.image()

    def close(self) -> None:
        """Let its connections go."""
        self._ours.close()

    def pids(self) -> list[int]:
        """Which processes of the server are ours."""
        return [self._db.info.backend_pid, *self._kept.pids(self._conninfo)]

    def _names(self, kind: str) -> list[str]:
        return [name for (name,) in self._db.execute(RELATIONS, (kind, SCHEMA))]

    def is_worn(self) -> bool:
        """Whether it is to be handed out no more: it was used often, or is no longer as it was made."""
        return self._uses >= USES_MAX or self._db.execute("SELECT 1 FROM upkeep.changes LIMIT 1").rowcount > 0

    def image(self) -> Image:
        """The rows that it has now."""
        stands = {name: self._db.execute(f"SELECT last_value, is_called FROM {self._of(name)}").fetchone()
                  for name in self._sequences}  # fmt: skip
        return Image({name: self._copy_out(name) for name in self._tables}, stands)

    def _copy_out(self, table: str) -> bytes:
        if not self._db.execute(f"SELECT 1 FROM {self._of(table)} LIMIT 1").fetchone():
            return b""
        with self._db.cursor().copy(f"COPY {self._of(table)} TO STDOUT (FORMAT binary)") as copy:
            return b"".join(bytes(block) for block in copy)

    def load(self, image: Image | None) -> None:
        """Put its rows back to this image, or to those of a new store, which has an identity of its own."""
        self._uses += 1
        with self._db.transaction():
            self._empty()
            self._fill(image or self._new)
            if image is None:
                self._db.execute(f"UPDATE {self._of('meta')} SET value = %s WHERE name = 'uid'", (new_uid().hex(),))

    def _empty(self) -> None:
        tables = [self._of(name) for name in self._tables]
        self._db.execute(
            "SET LOCAL session_replication_role = replica;" + "".join(f"DELETE FROM {it};" for it in tables)
        )

    def _fill(self, image: Image) -> None:
        for name, rows in image.rows.items():
            if rows:
                with self._db.cursor().copy(f"COPY {self._of(name)} FROM STDIN (FORMAT binary)") as copy:
                    copy.write(rows)
        for name, (last, called) in image.sequences.items():
            self._db.execute("SELECT setval(%s::regclass, %s, %s)", (self._of(name), last, called))

    def _of(self, name: str) -> str:
        return f"{SCHEMA}.{name}"


def fresh_name() -> str:
    return f"t_{secrets.token_hex(8)}"


@contextlib.contextmanager
def upkeep(address: PostgresAddress, database: str = "postgres") -> Iterator[Any]:
    """A connection to look after tests' stores with, which does not wait for ever."""
    import psycopg

    with psycopg.connect(address.url(database), autocommit=True, options="-c lock_timeout=60s") as connection:
        yield connection
