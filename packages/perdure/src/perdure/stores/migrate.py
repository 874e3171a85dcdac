"""Migrations: numbered `.sql` files, forward only, applied in one transaction under a lock. Pure but for the
script it runs on.

Callers: `scripts` (which knows the databases). A newer schema is refused, and so is a database that is
somebody else's. Keeps P5 and P10: nothing is changed before it is known whose database this is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple, Protocol

from perdure.errors import Damaged, NewerSchema, Refused
from perdure.model.crash_points import reach
from perdure.model.ids import new_uid
from perdure.stores.dialect import migration_for
from perdure.stores.statements import Statement, Statements, file_of
from perdure.stores.store import Fault, FaultKind

Q = Statements("perdure.stores", "migrate.sql")

SERVER = "server"  # the fact that says of which history the store is, as it was last seen by somebody who may write
_FACTS = {"schema", "uid", "epoch"}
_NUMBER = re.compile(r"[1-9][0-9]{0,8}")
_UID = re.compile(r"[0-9a-f]{32}")


class Migration(NamedTuple):
    """One step of the schema."""

    number: int
    name: str
    text: str


class Script(Protocol):
    """The database that a migration runs on, inside one exclusive transaction."""

    dialect: str

    def run(self, text: str) -> None:
        """Run a migration: several statements."""
        ...

    def query(self, statement: Statement, **params: Any) -> list[tuple[Any, ...]]:
        """Run one named statement."""
        ...


@cache
def migrations() -> tuple[Migration, ...]:
    """Every step, in order."""
    steps = []
    for file in file_of("perdure.stores", "migrations").iterdir():
        match = re.fullmatch(r"(\d{4})_(\w+)\.sql", file.name)
        if match:
            steps.append(Migration(int(match[1]), match[2], file.read_text(encoding="utf-8")))
    return tuple(sorted(steps))


def latest(steps: Sequence[Migration]) -> int:
    """The number of the schema that these steps lead to."""
    return max((step.number for step in steps), default=0)


def current(script: Script) -> int:
    """The number of the schema that the database has; 0 when it is empty. Refused when it is not ours."""
    names = {name for (name,) in script.query(Q.relations)}
    if not names:
        return 0
    facts = facts_of(script) if "meta" in names else {}
    if not facts.keys() >= _FACTS:
        raise somebody_elses()
    return number_in(facts, "schema")


def somebody_elses() -> Refused:
    """The error about a database that is not ours."""
    return Refused(
        "this database holds other tables: it is not a Perdure store",
        path="store",
        hint="choose a file, or on PostgreSQL a schema, of its own",
    )


def number_in(facts: Mapping[str, str], name: str) -> int:
    """The schema or the epoch that a store says it has. Damaged when that is none."""
    if not _NUMBER.fullmatch(facts.get(name, "")):
        raise Damaged(f"the database does not say which {name} it has", path=f"meta.{name}")
    return int(facts[name])


def next_epoch(script: Script, least: int = 0) -> int:
    """Raise the epoch of a store, above `least` too; returns the new one."""
    epoch = max(number_in(facts_of(script), "epoch"), least) + 1
    script.query(Q.meta_put, name="epoch", value=str(epoch))
    return epoch


def uid_in(facts: Mapping[str, str], name: str) -> str:
    """The identity or the partition that a store says it has. Damaged when that is none: it becomes part of paths."""
    if not _UID.fullmatch(facts.get(name, "")):
        raise Damaged(f"the database does not say which {name} it has", path=f"meta.{name}")
    return facts[name]


def facts_of(script: Script) -> dict[str, str]:
    """The store's facts about itself; nothing if its `meta` is not like ours."""
    try:
        return {str(name): str(value) for name, value in script.query(Q.meta_facts)}
    except Fault as fault:
        if fault.kind is FaultKind.BROKEN:
            return {}
        raise


def check(found: int, known: int) -> None:
    """Refuse a database that a newer Perdure wrote."""
    if found > known:
        raise NewerSchema(
            f"the database has schema {found}; this Perdure knows {known}",
            path="meta.schema",
            hint="upgrade perdure, and start this program again",
        )


def pending(found: int, steps: Sequence[Migration]) -> list[Migration]:
    """The migrations that would be applied."""
    check(found, latest(steps))
    return [step for step in steps if step.number > found]


def apply(script: Script, found: int, steps: Sequence[Migration]) -> list[Migration]:
    """Bring the schema up to date inside the script's transaction: all of it or nothing."""
    todo = pending(found, steps)
    for step in todo:
        script.run(migration_for(script.dialect, step.text))
        if found == 0 and step is todo[0]:
            begin_meta(script)
        script.query(Q.meta_put, name="schema", value=str(step.number))
        reach("migrate.step")
    return todo


def begin_meta(script: Script) -> None:
    """Give a new store its identity."""
    script.query(Q.meta_put, name="uid", value=new_uid().hex())
    script.query(Q.meta_put, name="epoch", value="1")
