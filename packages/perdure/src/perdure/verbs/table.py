"""All declared verbs. A test or a door that imports this alone has all of them: the modules that declare are imported here."""

from __future__ import annotations

from perdure.verbs import conversation, decisions, memory, runs, session, store, things, values, work
from perdure.verbs.declaring import Verb, declared

_MODULES = (conversation, decisions, memory, runs, session, store, things, values, work)

VERBS: tuple[Verb, ...] = declared()
# The verbs by their rows in the matrix of verbs and doors.
ROWS: dict[str, Verb] = {row: verb for verb in VERBS for row in verb.rows}
