"""Migrations: numbered `.sql` files, forward only, applied in place under a lock, with a backup first on SQLite.

Callers: `core.open_core` (a new database, or one that may be brought up to date) and `perdure migrate`. A newer schema is refused.
"""

from __future__ import annotations

import re
from importlib import resources
from typing import Any, NamedTuple, Protocol

from perdure.errors import Damaged, NewerSchema
from perdure.model.ids import new_uid
from perdure.model.points import reach
from perdure.stores.dialect import migration_for


class Migration(NamedTuple):
    """One step of the schema."""

    number: int
    name: str
    text: str


class Script(Protocol):
    """What a migration runs on: a database inside one exclusive transaction."""

    dialect: str

    def run(self, text: str) -> None:
        """Run a script of several statements."""
        ...

    def ask(self, text: str) -> list[tuple[Any, ...]]:
        """Run one read."""
        ...

    def has_tables(self) -> bool:
        """Whether anything of ours, or of anybody else's, is there."""
        ...


def migrations() -> list[Migration]:
    """Every step, in order."""
    steps = []
    for file in resources.files("perdure.stores").joinpath("migrations").iterdir():
        match = re.fullmatch(r"(\d{4})_(\w+)\.sql", file.name)
        if match:
            steps.append(Migration(int(match[1]), match[2], file.read_text(encoding="utf-8")))
    return sorted(steps)


LATEST = 1


def current(script: Script) -> int:
    """The number of the schema that the database has; 0 when it is empty."""
    if not script.has_tables():
        return 0
    try:
        rows = script.ask("SELECT value FROM meta WHERE name = 'schema'")
        return int(rows[0][0])
    except (IndexError, ValueError):
        raise Damaged("the database does not say which schema it has", path="meta.schema") from None


def check(found: int, latest: int = LATEST) -> None:
    """Refuse a database that a newer Perdure wrote."""
    if found > latest:
        raise NewerSchema(
            f"the database has schema {found}; this Perdure knows {latest}", path="meta.schema", hint="upgrade perdure"
        )


def pending(found: int) -> list[Migration]:
    """What would be applied."""
    check(found)
    return [step for step in migrations() if step.number > found]


def apply(script: Script, found: int) -> list[Migration]:
    """Bring the schema up to date inside the script's transaction; all of it or nothing."""
    steps = pending(found)
    for step in steps:
        script.run(migration_for(script.dialect, step.text))
        reach("migrate.step")
    if found == 0:
        script.run(
            f"INSERT INTO meta (name, value) VALUES ('schema', '0'), ('epoch', '1'), ('uid', '{new_uid().hex()}');"  # noqa: S608
        )
    if steps:
        script.run(f"UPDATE meta SET value = '{steps[-1].number}' WHERE name = 'schema';")  # noqa: S608
    return steps
