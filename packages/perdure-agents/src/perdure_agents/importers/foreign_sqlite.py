"""Somebody else's SQLite file, for reading alone: nothing in it is changed, run or trusted, and nothing is left beside it.

SQLite itself judges every statement (its authorizer): SELECT of tables, and only the functions that our own statements use.
A file with hostile views, triggers or virtual tables is just data. Callers: the importers, which bring named statements.
Keeps P10, P15.
"""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Any, Self

import apsw

from perdure.model.limits import VALUE_MAX_BYTES
from perdure.stores.schema_upgrade import told
from perdure.stores.sqlite import fault_of, opened_untouched
from perdure.stores.statements import Statement, Statements
from perdure.stores.store import Rows

Q = Statements("perdure_agents.importers", "foreign_sqlite.sql")
MAGIC = b"SQLite format 3\0"
# The functions that our statements use, and the clocks that other people's tables have as defaults: SQLite judges those too.
_FUNCTIONS = frozenset(
    {"length", "current_timestamp", "current_date", "current_time", "datetime", "strftime", "unixepoch"}
)


def is_sqlite(head: bytes) -> bool:
    """Whether a file that begins with these bytes is an SQLite database."""
    return head.startswith(MAGIC)


class ForeignFile:
    """An open file. Not for two threads at once. Raises Damaged or Unavailable with the file's path when it cannot be read."""

    def __init__(self, path: Path) -> None:
        self._path = str(path)
        with told(self._path):
            self._connection = opened_untouched(path)
            try:
                self._connection.raw.limit(apsw.SQLITE_LIMIT_LENGTH, 2 * VALUE_MAX_BYTES)
                self.tables = self._tables()
                self._connection.raw.authorizer = _judge
            except BaseException:
                self.close()
                raise

    def close(self) -> None:
        """Let the file go."""
        self._connection.close()

    def _tables(self) -> dict[str, frozenset[str]]:
        tables: dict[str, set[str]] = {}
        for table, column in self._connection.query(Q.tables_of, {}):
            tables.setdefault(table, set()).add(column)
        return {table: frozenset(columns) for table, columns in tables.items()}

    def query(self, statement: Statement, **params: Any) -> Rows:
        """The rows of a named statement, all at once: statements have a limit of their own."""
        with told(self._path):
            return self._connection.query(statement, params)

    def readable(self, statement: Statement, **params: Any) -> tuple[Rows, int]:
        """The rows but for those with a text that is none; and how many those are."""
        rows, broken = [], 0
        with told(self._path):
            try:
                cursor = self._connection.raw.execute(statement.text("sqlite", params), params)
                while True:
                    try:
                        row = cursor.fetchone()
                    except UnicodeDecodeError:
                        broken += 1
                        continue
                    if row is None:
                        return rows, broken
                    rows.append(row)
            except apsw.Error as error:
                raise fault_of(error, self._path) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _judge(operation: int, _first: str | None, second: str | None, *_: str | None) -> int:
    if operation in (apsw.SQLITE_SELECT, apsw.SQLITE_READ):
        return apsw.SQLITE_OK
    if operation == apsw.SQLITE_FUNCTION and (second or "").lower() in _FUNCTIONS:
        return apsw.SQLITE_OK
    return apsw.SQLITE_DENY
