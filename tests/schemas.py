"""PostgreSQL schemas that are handed out again: making one and dropping it takes many times longer than emptying it.

A schema holds a store; before each test its rows are put back to an image: those of a new store, or those that
a store had after something was written into it. What a test did to the schema itself (a table, a trigger, a
right) shows in the catalogue: then the schema goes, and another is made.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import perdure
from perdure.model.ids import new_uid
from perdure.testing.postgres import PostgresAddress

USES_MAX = 50  # what was deleted stays in the way until somebody vacuums
RELATIONS = "SELECT relname FROM pg_class WHERE relkind = %s AND relnamespace = %s::regnamespace ORDER BY relname"
CATALOGUE = """
SELECT string_agg(concat_ws(' ', kind, oid, number, xmin), ',' ORDER BY kind, oid, number) FROM (
  SELECT 'schema' AS kind, oid, 0 AS number, xmin FROM pg_namespace WHERE oid = %(schema)s::regnamespace
  UNION ALL SELECT 'relation', oid, 0, xmin FROM pg_class WHERE relnamespace = %(schema)s::regnamespace
  UNION ALL SELECT 'constraint', oid, 0, xmin FROM pg_constraint WHERE connamespace = %(schema)s::regnamespace
  UNION ALL SELECT 'function', oid, 0, xmin FROM pg_proc WHERE pronamespace = %(schema)s::regnamespace
  UNION ALL SELECT 'column', attrelid, attnum, a.xmin FROM pg_attribute a JOIN pg_class c ON c.oid = attrelid
    WHERE relnamespace = %(schema)s::regnamespace
  UNION ALL SELECT 'trigger', t.oid, 0, t.xmin FROM pg_trigger t JOIN pg_class c ON c.oid = tgrelid
    WHERE relnamespace = %(schema)s::regnamespace
) AS everything"""


class Image(NamedTuple):
    """The rows of a store, as binary copies by table, and where its sequences stand."""

    rows: dict[str, bytes]
    sequences: dict[str, tuple[int, bool]]


class Schemas:
    """The schemas of one test process, and its connection to look after them."""

    def __init__(self, address: PostgresAddress, connection: Any) -> None:
        self._address = address
        self._connection = connection
        self._free: list[Schema] = []

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
        schema = self._free.pop() if self._free else Schema(self._address, self._connection)
        try:
            yield schema
        finally:
            if schema.is_worn():
                schema.drop()
            else:
                self._free.append(schema)


class Schema:
    """A schema with a store in it."""

    def __init__(self, address: PostgresAddress, connection: Any) -> None:
        self.name = fresh_name()
        self.url = address.url(schema=self.name)
        self._db = connection
        self._uses = 0
        perdure.open(self.url).close()
        self._tables = self._names("r")
        self._sequences = self._names("S")
        self._new = self.image()
        self._made = self._catalogue()

    def _names(self, kind: str) -> list[str]:
        return [name for (name,) in self._db.execute(RELATIONS, (kind, self.name))]

    def _catalogue(self) -> str:
        return self._db.execute(CATALOGUE, {"schema": self.name}).fetchone()[0]

    def is_worn(self) -> bool:
        """Whether it is to be handed out no more: it was used often, or is no longer as it was made."""
        return self._uses >= USES_MAX or self._catalogue() != self._made

    def drop(self) -> None:
        drop_schema(self._db, self.name)

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
        """Put its rows back to this image, or to those of a new store, which has an identity of its own.

        A connection that a test left inside a transaction shows as a lock timeout here.
        """
        self._uses += 1
        with self._db.transaction():
            self._empty()
            self._fill(image or self._new)
            if image is None:
                self._db.execute(f"UPDATE {self._of('meta')} SET value = %s WHERE name = 'uid'", (new_uid().hex(),))

    def _empty(self) -> None:
        tables = [self._of(name) for name in self._tables]
        self._db.execute(f"SET LOCAL session_replication_role = replica; LOCK TABLE {', '.join(tables)};"
                         + "".join(f"DELETE FROM {table};" for table in tables))  # fmt: skip

    def _fill(self, image: Image) -> None:
        for name, rows in image.rows.items():
            if rows:
                with self._db.cursor().copy(f"COPY {self._of(name)} FROM STDIN (FORMAT binary)") as copy:
                    copy.write(rows)
        for name, (last, called) in image.sequences.items():
            self._db.execute("SELECT setval(%s::regclass, %s, %s)", (self._of(name), last, called))

    def _of(self, name: str) -> str:
        return f'"{self.name}".{name}'


def fresh_name() -> str:
    return f"t_{secrets.token_hex(8)}"


def drop_schema(connection: Any, name: str) -> None:
    """Drop it; a connection that a test left inside a transaction shows as a lock timeout here."""
    connection.execute(f'DROP SCHEMA IF EXISTS "{name}" CASCADE')


@contextlib.contextmanager
def upkeep(address: PostgresAddress) -> Iterator[Any]:
    """A connection to make and drop schemas on, which does not wait for ever."""
    import psycopg

    with psycopg.connect(address.url(), autocommit=True, options="-c lock_timeout=20s") as connection:
        yield connection
