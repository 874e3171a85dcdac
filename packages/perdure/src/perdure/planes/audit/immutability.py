"""The guards of the events: triggers that make the database refuse to change them, compared with what the
migrations say (P6).

Called by `planes.audit.verify`. A trigger of the right name that does something else is no guard.
"""

from __future__ import annotations

from collections.abc import Iterator

from perdure.stores.core import Reader
from perdure.stores.dialect import guards_of, is_written
from perdure.stores.migrate import migrations
from perdure.stores.statements import Statements

Q = Statements("perdure.planes.audit", "verify.sql")


def faults(reader: Reader) -> Iterator[tuple[str, str]]:
    """The faults of the guards: the table, and what it is."""
    triggers = dict(reader.query(Q.guards))
    written = [step.text for step in migrations()]
    for name in guards_of(reader.connection):
        if name not in triggers:
            yield "events", f"the trigger {name} is missing or off: events could be changed"
        elif not is_written(reader.connection, triggers[name], written):
            yield "events", f"the trigger {name} is not the one that was made: events could be changed"
    if reader.query(Q.pruning_standing):
        yield "pruning", "a prune seems to be under way for ever: bodies could be emptied"
