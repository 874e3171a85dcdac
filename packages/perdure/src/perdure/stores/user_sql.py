"""The user's own SQL inside a transaction of ours, on SQLite: the user's rows and ours stand or fall together
(docs/decisions/0010).

SQLite itself judges every statement (its authorizer, set for the one call), not a parser of ours: only tables, indexes, views and
triggers of the user's own in the main database. Called by `tx.sql` of `store.atomic`. Keeps P5 (one way to write ours), P11.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import apsw

from perdure.errors import Invalid, Refused
from perdure.stores.expected_schema import own_names
from perdure.stores.sqlite import fault_of
from perdure.stores.store import Fault, FaultKind, Rows
from perdure.stores.tx import Tx

_HIS_FAULT = frozenset({FaultKind.BROKEN, FaultKind.TAKEN})  # of the statement: the transaction stands

# The permitted actions, and where in the authorizer's arguments their tables, views, indexes and triggers are.
_ALLOWED: dict[int, tuple[int, ...]] = {
    apsw.SQLITE_SELECT: (), apsw.SQLITE_RECURSIVE: (), apsw.SQLITE_FUNCTION: (), apsw.SQLITE_READ: (0,),
    apsw.SQLITE_INSERT: (0,), apsw.SQLITE_UPDATE: (0,), apsw.SQLITE_DELETE: (0,), apsw.SQLITE_ALTER_TABLE: (1,),
    apsw.SQLITE_CREATE_TABLE: (0,), apsw.SQLITE_CREATE_VIEW: (0,), apsw.SQLITE_CREATE_INDEX: (0, 1),
    apsw.SQLITE_CREATE_TRIGGER: (0, 1), apsw.SQLITE_DROP_TABLE: (0,), apsw.SQLITE_DROP_VIEW: (0,),
    apsw.SQLITE_DROP_INDEX: (0, 1), apsw.SQLITE_DROP_TRIGGER: (0, 1), apsw.SQLITE_REINDEX: (0,),
}  # fmt: skip
# Written by making tables, and by nothing else.
_SCHEMA = frozenset({"sqlite_master", "sqlite_schema", "sqlite_sequence"})
_INDEX = "sqlite_autoindex_"  # made for UNIQUE
_DATABASES = (None, "main")  # a temporary table would stand before one of ours that has its name
_OWN_TABLES = "make tables of your own with tx.sql, under other names"


def run_sql(tx: Tx, statement: str, params: Sequence[Any] | Mapping[str, Any] = ()) -> Rows:
    """Run a statement of the user's on the user's own tables, at once, inside this transaction. Gives its rows.

    Refused for our tables, for other databases, pragmas and transaction control, and where there is no SQLite file.
    Invalid or Conflict when the database refuses it: then only this statement is undone.
    """
    connection = tx.lend()
    if connection.is_server or not connection.file or connection.is_cache:
        hint = "on PostgreSQL: store.atomic(fn, on=connection), with your own psycopg connection"
        raise Refused("tx.sql needs a store in an SQLite file", path="sql", hint=hint)
    if not isinstance(statement, str):
        raise Invalid(f"expected a statement, got {type(statement).__name__}", path="sql")
    return _judged(connection, statement, params)


def _judged(connection: Any, statement: str, params: Any) -> Rows:
    judge = _Judge()
    raw = connection.raw
    raw.authorizer = judge  # which also makes SQLite judge anew what it prepared before
    try:
        return list(raw.execute(statement, params, can_cache=False))
    except apsw.AuthError as error:
        raise Refused(judge.said or str(error), path="sql", hint=_OWN_TABLES) from None
    except apsw.Error as error:
        fault = fault_of(error, connection.file)
        raise (fault.as_error("sql") if fault.kind in _HIS_FAULT else fault) from error
    except TypeError as error:
        raise Invalid(str(error), path="params") from None
    finally:
        raw.authorizer = None
        if not raw.in_transaction:  # ON CONFLICT ROLLBACK, or a trigger that says so
            raise Fault(FaultKind.BROKEN, "the statement rolled the whole transaction back")


class _Judge:
    """SQLite's question about each thing that a statement is about to do. Remembers what it refused."""

    def __init__(self) -> None:
        self.said = ""

    def __call__(self, what: int, first: str | None, second: str | None, database: str | None, _: str | None) -> int:
        places = _ALLOWED.get(what)
        if places is None or (database not in _DATABASES and what != apsw.SQLITE_FUNCTION):
            return self._refuse(apsw.mapping_authorizer_function.get(what, str(what)), first)
        names = [name.lower() for place in places if (name := (first, second)[place])]
        ours = next((name for name in names if name in own_names() or is_hidden(name)), None)
        return apsw.SQLITE_OK if ours is None else self._refuse("a table of the store or of SQLite", ours)

    def _refuse(self, what: Any, name: str | None) -> int:
        self.said = self.said or f"not in tx.sql: {str(what).removeprefix('SQLITE_')}" + (f" ({name})" if name else "")
        return apsw.SQLITE_DENY


def is_hidden(name: str) -> bool:
    """SQLite's own tables: some show the pages of everything, and statistics would be of our tables too."""
    return (name.startswith("sqlite_") and name not in _SCHEMA and not name.startswith(_INDEX)) or name == "dbstat"
