"""Sessions of the OpenAI Agents SDK: the SQLite file of its `SQLiteSession`, one item of the Responses shape a row."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from perdure.interchange.importers.items import Item, LeftOut, Opened, Origin, Remark
from perdure.interchange.importers.messages import Spot, response_items
from perdure.interchange.importers.naming import Calls, named
from perdure.interchange.importers.reading import Source
from perdure.interchange.importers.rows import NotJson, Tables, json_of, text_of
from perdure.stores.foreign import Foreign
from perdure.stores.statements import Statements

NAME = "openai-agents"
Q = Statements("perdure.interchange.importers", "openai_agents.sql")


def has_tables(tables: dict[str, frozenset[str]]) -> bool:
    """Whether a database is one."""
    return {"session_id", "message_data"} <= tables.get("agent_messages", frozenset()) and "agent_sessions" in tables


def read(source: Source) -> Iterator[Item | Remark]:
    """All sessions, one after the other."""
    with Foreign(source.path) as foreign:
        tables = Tables(foreign, source)
        for statement in (Q.sessions_page, Q.strays_page):
            for row in tables.pages(statement, {"after": ""}):
                if isinstance(row, LeftOut):
                    yield row
                else:
                    yield from _session(tables, text_of(row[0]))


def _session(tables: Tables, session: str) -> Iterator[Item | Remark]:
    name, calls = named(NAME, session), Calls()
    yield Opened(name, NAME, tables.place("agent_sessions", session))
    for row in tables.pages(Q.messages_page, {"after": 0}, session=session):
        if isinstance(row, LeftOut):
            yield row
        else:
            yield from _message(tables, name, row, calls)


def _message(tables: Tables, session: str, row: tuple[Any, ...], calls: Calls) -> Iterator[Item | Remark]:
    number, data, at = row
    place = tables.place("agent_messages", number)
    try:
        item = json_of(data)
    except NotJson as error:
        yield LeftOut(place, error.message)
        return
    if not isinstance(item, dict):
        yield LeftOut(place, "no JSON object")
        return
    origin = Origin(NAME, str(item.get("id") or number), text_of(at))
    yield from response_items(item, Spot(session, f"row-{number}", origin, place, calls))
