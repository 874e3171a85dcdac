"""The schema that a SQLite store must have: everything that the migrations make, made once in memory.

A file may be foreign. A trigger or a view that somebody planted in it would act inside our own transactions, so a file is
compared when it is opened, before anything else is read from it. Tables, views and triggers that users made for themselves
(`tx.sql`) may be there, under names of their own and on tables of their own. Callers: `scripts`, `guests`, `asking`. Keeps
P6, P10.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any, NamedTuple

import apsw

from perdure.stores.dialect import migration_for
from perdure.stores.migrate import Migration, Q, Script, current, migrations, somebody_elses
from perdure.stores.sqlite import SqliteConnection, configured
from perdure.stores.statements import Statements
from perdure.stores.store import Fault, FaultKind

SEALING = Statements("perdure.stores", "moved_away.sql")

_HINT = "nothing was run: restore a backup, or look with the sqlite3 program and drop what was added"
_HEAD = re.compile(r"^CREATE VIEW \w+ AS\s+")
# The digest of what all migrations make. It only saves making that in memory, 5 ms at each start: a test says when it is stale.
NEWEST = "403042995d23d5a336ffc310c66c1ab6"
_COMPARED = ("table", "view", "trigger")  # an index can be missed or wanted, and does nothing by itself


class SchemaPart(NamedTuple):
    """One thing that a schema declares, with the table that it is on."""

    type: str
    name: str
    table: str
    sql: str | None


@cache
def blueprint(steps: tuple[Migration, ...]) -> dict[str, SchemaPart]:
    """The objects that these migrations make, by name in small letters."""
    connection = SqliteConnection(configured(apsw.Connection(":memory:"), wal=False))
    try:
        for step in steps:
            connection.raw.execute(migration_for("sqlite", step.text))
        return {row[1].lower(): SchemaPart(*row) for row in connection.query(Q.schema_objects, {})}
    finally:
        connection.close()


def own_names() -> frozenset[str]:
    """The name of everything in our schema."""
    return frozenset(blueprint(migrations()))


def own_views() -> dict[str, str]:
    """Our views, by name: what each selects, in the order in which they are made."""
    parts = [part for part in blueprint(migrations()).values() if part.type == "view"]
    return {part.name: _HEAD.sub("", part.sql or "") for part in parts}


def checked(script: Script, steps: Sequence[Migration]) -> int:
    """The number of the schema that a SQLite database has, which is compared. DAMAGED when something was changed or planted."""
    found = script.query(Q.schema_objects)
    if any(name.lower() == "meta" and kind != "table" for kind, name, _, _ in found):
        raise somebody_elses()  # not even looked into: a view may have no end
    number = current(script)
    known = tuple(step for step in steps if step.number <= number)
    if known and number == known[-1].number and digest_of(found) != NEWEST:
        _compare([SchemaPart(*row) for row in found], blueprint(known))
    return number


def digest_of(parts: Iterable[tuple[Any, ...]]) -> str:
    """One number for all that is compared. Of plain tuples: those with names take longer to write down."""
    said = sorted(tuple(part) for part in parts if part[0] in _COMPARED)
    return hashlib.sha256(repr(said).encode()).hexdigest()[:32]


def _compare(found: Sequence[SchemaPart], expected: dict[str, SchemaPart]) -> None:
    ours = {name: part for name, part in expected.items() if part.type in _COMPARED}
    there = {part.name.lower(): part for part in found if part.type in _COMPARED}
    for name, part in ours.items():
        if name not in there and part.type != "table":
            continue  # nothing acts that is not there: doctor says that a guard is missing
        if there.get(name) != part:
            raise _changed(f"the {part.type} {part.name} is not the one that belongs there")
    for name, part in there.items():
        if name not in ours and part.type == "trigger" and part.table.lower() in expected and not _seals(part):
            raise _changed(f"the trigger {part.name} on {part.table} is not ours")


def _seals(part: SchemaPart) -> bool:
    """Whether it is the trigger of a store that was moved away."""
    return part.sql == SEALING.seal.text("sqlite", {}).replace("IF NOT EXISTS ", "")


def _changed(what: str) -> Fault:
    return Fault(FaultKind.DAMAGED, f"the schema is not that of a store: {what}", _HINT)
