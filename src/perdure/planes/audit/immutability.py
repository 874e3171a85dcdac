"""The guards of the events: triggers that make the database refuse to change them, compared with what the
migrations say (P6).

Called by `planes.audit.verify`. A trigger of the right name that does something else is no guard.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from perdure.stores.core import Reader
from perdure.stores.dialect import migration_for
from perdure.stores.migrate import migrations
from perdure.stores.statements import Statements

Q = Statements("perdure.planes.audit", "verify.sql")

GUARDS = {"sqlite": ("events_fixed", "events_keep"), "postgres": ("events_guard", "events_keep")}
_AS_WRITTEN = {"sqlite": "{};", "postgres": "$$ {} $$"}  # how a guard's text stands in a migration


def faults(reader: Reader) -> Iterator[tuple[str, str]]:
    """The faults of the guards: the table, and what it is."""
    dialect = reader.connection.dialect
    standing = dict(reader.query(Q.guards))
    for name in GUARDS[dialect]:
        if name not in standing:
            yield "events", f"the trigger {name} is missing or off: events could be changed"
        elif _AS_WRITTEN[dialect].format(_words(standing[name])) not in _script(dialect):
            yield "events", f"the trigger {name} is not the one that was made: events could be changed"
    if reader.query(Q.pruning_standing):
        yield "pruning", "a prune seems to be under way for ever: bodies could be emptied"


@cache
def _script(dialect: str) -> str:
    return _words("\n".join(migration_for(dialect, step.text) for step in migrations()))


def _words(text: str) -> str:
    """The text with its white space evened out."""
    return " ".join(text.split())
