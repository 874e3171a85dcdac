"""Sessions of the OpenAI Agents SDK: the SQLite file of its `SQLiteSession`, one item of the Responses shape a row."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from perdure.errors import Invalid
from perdure.stores.statements import Statements
from perdure_agents.importers.foreign_sqlite import ForeignFile
from perdure_agents.importers.items import ImportedFrom, ImportedSession, Item, LeftOut, Remark
from perdure_agents.importers.messages import Spot, response_items
from perdure_agents.importers.names import Calls, name_of
from perdure_agents.importers.rows import Tables, as_json, as_text
from perdure_agents.importers.sources import Source

NAME = "openai-agents"
Q = Statements("perdure_agents.importers", "openai_agents.sql")


def has_tables(tables: dict[str, frozenset[str]]) -> bool:
    """Whether a database is one."""
    return {"session_id", "message_data"} <= tables.get("agent_messages", frozenset()) and "agent_sessions" in tables


def read(source: Source) -> Iterator[Item | Remark]:
    """All sessions, one after the other."""
    with ForeignFile(source.path) as foreign:
        tables = Tables(foreign, source)
        for statement in (Q.sessions_page, Q.strays_page):
            yield from tables.items_of(statement, {"after": ""}, partial(_session, tables))


def _session(tables: Tables, row: tuple[Any, ...]) -> Iterator[Item | Remark]:
    session = as_text(row[0])
    name = name_of(NAME, session)
    yield ImportedSession(name, NAME, tables.place("agent_sessions", session))
    read_row = partial(_message, tables, name, Calls())
    yield from tables.items_of(Q.messages_page, {"after": 0}, read_row, session=session)


def _message(tables: Tables, session: str, calls: Calls, row: tuple[Any, ...]) -> Iterator[Item | Remark]:
    number, data, at = row
    place = tables.place("agent_messages", number)
    try:
        item = as_json(data)
    except Invalid as error:
        yield LeftOut(place, error.message)
        return
    if not isinstance(item, dict):
        yield LeftOut(place, "no JSON object")
        return
    origin = ImportedFrom(NAME, str(item.get("id") or number), as_text(at))
    yield from response_items(item, Spot(session, f"row-{number}", origin, place, calls))
