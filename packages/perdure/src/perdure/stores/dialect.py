"""The differences between the databases, in one place: types, table options, and statements made from declarations.

Callers: the stores and the migrations. Only identifiers from our own declarations ever enter a text here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING

from perdure.errors import Invalid
from perdure.log.table import Table, TableClass
from perdure.stores.statements import NAMED, Statement

if TYPE_CHECKING:
    from perdure.stores.store import Connection

_ONLY = re.compile(r"\s*-- @(\w+)$")
_POSTGRES_WORDS = (
    (re.compile(r"\bINTEGER\b"), "BIGINT"),
    (re.compile(r"\bBLOB\b"), "BYTEA"),
    (re.compile(r"\)\s*STRICT(, WITHOUT ROWID)?;"), ");"),
)
# The words in which the views of migrations are written, since schema 5.
_WORDS = {
    "sqlite": (
        NAMED,
        (r"\biso\((\w+\.\w+)\)",
         r"strftime('%Y-%m-%dT%H:%M:%S', \1 / 1000000, 'unixepoch') || printf('.%06dZ', \1 % 1000000)"),
        (r"\bbody\((\w)\)", r"CAST(\1.body AS TEXT)"),
        (r"\bhexed\((\w+\.\w+)\)", r"lower(hex(\1))"),
        (r" AND shown\(n\.name\)", ""),
    ),
    "postgres": (
        NAMED,
        (r"\biso\((\w+\.\w+)\)",
         r"""to_char(TIMESTAMP 'epoch' + \1 * INTERVAL '1 microsecond', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')"""),
        (r"\bbody\((\w)\)", r"whole_of(\1.tenant, \1.body)"),
        (r"\bhexed\((\w+\.\w+)\)", r"encode(\1, 'hex')"),
        (r"\bjson\((\w+\.\w+)\)", r"(\1)::jsonb"),
        # With the rights of who reads: a wall around the tables holds for their views (docs/decisions/0032).
        (r"\bCREATE VIEW (\w+) AS\b", r"CREATE VIEW \1 WITH (security_invoker = true) AS"),
        (r"\bshown\(n\.name\)", r"n.name = coalesce(nullif(current_setting('perdure.tenant', true), ''), n.name)"),
    ),
}  # fmt: skip

EVENT_COLUMNS = (
    "tenant", "stream", "seq", "kind", "tbl", "actor", "at", "codec", "tx", "commitment", "hash", "salt", "body",
)  # fmt: skip
STREAM_COLUMNS = ("id", "uid", "tenant", "kind", "name", "parent", "fork_seq", "seq", "hash")
BLOB_COLUMNS = ("tenant", "address", "size", "codec", "data")


@cache
def migration_for(dialect: str, text: str) -> str:
    """A migration as this database reads it. Kept: a process may make many stores, and there are few migrations."""
    lines = []
    for line in text.splitlines():
        only = _ONLY.search(line)
        if only is None or only[1] == dialect:
            lines.append(_ONLY.sub("", line))
    script = "\n".join(lines)
    for pattern, word in _WORDS[dialect]:
        script = re.sub(pattern, word, script)
    if dialect == "postgres":
        for pattern, word in _POSTGRES_WORDS:
            script = pattern.sub(word, script)
    return script


def conflict_key(table: Table) -> tuple[str, ...]:
    """The columns of the primary key."""
    owner = ("stream",) if table.streamed else ("tenant",) if table.tenant else ()
    return owner + table.key


def upsert_tail(table: Table) -> str:
    """The end of a put, for a row that exists: columns that may have changed are set anew. A fixed row never exists before."""
    if table.fixed and table.table_class is TableClass.RECORDED:
        return ""
    key = conflict_key(table)
    rest = [column for column in table.columns if column not in table.once]
    sets = ", ".join(f"{column} = excluded.{column}" for column in rest)
    return f" ON CONFLICT ({', '.join(key)}) DO " + (f"UPDATE SET {sets}" if sets else "NOTHING")


def listed(columns: Iterable[str]) -> str:
    """Columns with commas."""
    return ", ".join(columns)


@cache
def rows_page(table: Table, *, first: bool) -> Statement:
    """The rows of one stream in the order of their key; all but the first page begin after a key."""
    key, marks = listed(table.key), listed(f":after_{column}" for column in table.key)
    beyond = "" if first else f" AND ({key}) > ({marks})"
    order = f" ORDER BY {key}" if key else ""
    columns, name = listed(table.all_columns), table.name
    text = f"SELECT {columns} FROM {name} WHERE stream = :stream{beyond}{order} LIMIT :limit"  # noqa: S608
    return Statement(f"{table.name}_page", "generated", text)


_IDENTIFIER = re.compile(r"[a-z_][a-z0-9_]{0,62}")


def copy_out(table: str, columns: Iterable[str]) -> str:
    """Everything in a table, as PostgreSQL's binary copy."""
    return f"COPY {_checked(table)} ({listed(map(_checked, columns))}) TO STDOUT (FORMAT binary)"


def copy_in(table: str, columns: Iterable[str]) -> str:
    """The statement that copies rows back."""
    return f"COPY {_checked(table)} ({listed(map(_checked, columns))}) FROM STDIN (FORMAT binary)"


def _checked(identifier: str) -> str:
    if not _IDENTIFIER.fullmatch(identifier):
        raise Invalid("not the name of a table or column", path=identifier[:80])
    return identifier


_INDEX = re.compile(r"^CREATE (?:UNIQUE )?INDEX (\w+) ON [^;]+;|^DROP INDEX (\w+);", re.MULTILINE)


def indexes_of(connection: Connection, migrations: Iterable[str]) -> dict[str, str]:
    """The indexes that migrations lead to in this database: name -> the statement that makes it."""
    made: dict[str, str] = {}
    for text in migrations:
        for found in _INDEX.finditer(migration_for(connection.dialect, text)):
            name, dropped = found.groups()
            if dropped:
                made.pop(dropped, None)
            else:
                made[name] = " ".join(found[0].removesuffix(";").split())
    return made


_GUARDS = {"sqlite": ("events_fixed", "events_keep"), "postgres": ("events_guard", "events_keep")}
_GUARD_AS_WRITTEN = {"sqlite": "{};", "postgres": "$$ {} $$"}  # how a guard's text stands in a migration


def guards_of(connection: Connection) -> tuple[str, ...]:
    """The triggers that make this database refuse to change events."""
    return _GUARDS[connection.dialect]


def is_written(connection: Connection, guard: str, migrations: Iterable[str]) -> bool:
    """Whether the text of a guard, as this database has it, stands in the migrations."""
    sought = _GUARD_AS_WRITTEN[connection.dialect].format(_evened(guard))
    return sought in _all_for(connection.dialect, tuple(migrations))


@cache
def _all_for(dialect: str, migrations: tuple[str, ...]) -> str:
    return _evened("\n".join(migration_for(dialect, text) for text in migrations))


def _evened(text: str) -> str:
    """The text with its white space evened out."""
    return " ".join(text.split())


def is_unique(index: str) -> bool:
    """Whether the statement makes an index that keeps something from being there twice."""
    return index.startswith("CREATE UNIQUE ")
