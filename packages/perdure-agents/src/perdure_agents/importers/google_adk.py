"""Google ADK's session databases in SQLite: of its SqliteSessionService, and of its DatabaseSessionService in both schemas.

An event is a turn, its function calls are calls, its function responses results. State becomes values: a session's own in the
session, a user's and an app's in scopes. The first schema keeps an event's actions pickled: they are never read (P10), what the
event says is. Order is that of writing, which in ADK is the order of time.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

from perdure.errors import Invalid
from perdure.stores.statements import Statements
from perdure_agents.importers.foreign_sqlite import ForeignFile
from perdure_agents.importers.items import (
    ImportedEvent,
    ImportedFrom,
    ImportedSession,
    ImportedValue,
    Item,
    LeftOut,
    PassedOver,
    Remark,
)
from perdure_agents.importers.messages import Given, ImportedCall, Spot, answer, content_of, turn
from perdure_agents.importers.names import Calls, name_of
from perdure_agents.importers.rows import Tables, as_json, as_text, instant_of
from perdure_agents.importers.sources import Source

NAME = "google-adk"
Q = Statements("perdure_agents.importers", "google_adk.sql")
_KEPT = ("error_code", "error_message", "branch", "interrupted", "partial", "turn_complete")


class Owner(NamedTuple):
    """Whose session it is, and its id."""

    app: str
    user: str
    session: str


def has_tables(tables: dict[str, frozenset[str]]) -> bool:
    """Whether a database is one."""
    events = tables.get("events", frozenset())
    has_events = {"app_name", "user_id", "session_id", "invocation_id"} <= events and bool(
        {"event_data", "content"} & events
    )
    return has_events and {"app_name", "user_id", "state"} <= tables.get("sessions", frozenset())


def read(source: Source) -> Iterator[Item | Remark]:
    """All sessions, then what users and apps share."""
    with ForeignFile(source.path) as foreign:
        tables = Tables(foreign, source)
        first = {"app": "", "user": "", "session": ""}
        yield from tables.items_of(
            Q.sessions_page, first, lambda row: _session(tables, Owner(*map(as_text, row[:3])), row[3])
        )
        if "app_states" in foreign.tables:
            yield from tables.items_of(Q.app_states_page, {"app": ""}, partial(_shared, tables, "app"))
        if "user_states" in foreign.tables:
            yield from tables.items_of(Q.user_states_page, {"app": "", "user": ""}, partial(_shared, tables, "user"))


def _shared(tables: Tables, whose: str, row: tuple[Any, ...]) -> Iterator[Item | Remark]:
    owner = [as_text(part) for part in row[:-1]]
    yield from _state(row[-1], tables.place(f"{whose}_states", "/".join(owner)), scope=name_of(NAME, whose, *owner))


def _state(data: object, place: str, *, session: str = "", scope: str = "") -> Iterator[Item | Remark]:
    try:
        state = as_json(data) if data is not None else {}
    except Invalid as error:
        yield LeftOut(place, error.message)
        return
    for name, value in state.items() if isinstance(state, dict) else ():
        yield ImportedValue(name_of(name), value, place, session=session, scope=scope)


def _session(tables: Tables, owner: Owner, state: object) -> Iterator[Item | Remark]:
    name = name_of(NAME, *owner)
    place = tables.place("sessions", "/".join(owner))
    yield ImportedSession(name, NAME, place)
    yield from _state(state, place, session=name)
    statement = Q.events_page if "event_data" in tables.foreign.tables["events"] else Q.old_events_page
    yield from tables.items_of(statement, {"after": 0}, partial(_event, tables, name, Calls()), **owner._asdict())


def _event(tables: Tables, session: str, calls: Calls, row: tuple[Any, ...]) -> Iterator[Item | Remark]:
    number, id_, invocation, at, *rest = row
    place = tables.place("events", number)
    try:
        event = _event_of(rest)
    except Invalid as error:
        yield LeftOut(place, error.message)
        return
    if not isinstance(event, dict):
        yield LeftOut(place, "no JSON object")
        return
    more = {name: event[name] for name in _KEPT if event.get(name)}
    more |= {"invocation": as_text(invocation), "author": event.get("author"), "usage": event.get("usage_metadata")}
    when = instant_of(event.get("timestamp") or at)
    spot = Spot(session, name_of(as_text(id_)), ImportedFrom(NAME, as_text(id_), when, more), place, calls)
    yield from _message_items(event, spot)


def _event_of(rest: list[Any]) -> Any:
    if len(rest) == 1:
        return as_json(rest[0])
    author, content = rest
    return {"author": as_text(author), "content": None if content is None else as_json(content)}


def _message_items(event: dict[str, Any], spot: Spot) -> Iterator[Item | Remark]:
    content = event.get("content")
    parts = content.get("parts") if isinstance(content, dict) else None
    parts = [part for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []
    results = [part["function_response"] for part in parts if isinstance(part.get("function_response"), dict)]
    yield from (answer(_response(response), spot) for response in results)
    calls = [_call(part["function_call"]) for part in parts if isinstance(part.get("function_call"), dict)]
    spoken = [_part(part) for part in parts if "function_call" not in part and "function_response" not in part]
    if spoken or calls:
        role = "user" if event.get("author") == "user" else "assistant"
        yield turn(role, content_of(spoken), calls, spot)
    elif not results:
        yield from _silent(event, spot)


def _silent(event: dict[str, Any], spot: Spot) -> Iterator[Item | Remark]:
    """An event that says nothing: what it did is kept as an emitted event, if it did something."""
    actions = event["actions"] if isinstance(event.get("actions"), dict) else {}
    did = {name: value for name, value in actions.items() if value}
    if did or any(event.get(name) for name in _KEPT):
        yield ImportedEvent(spot.session, spot.key, f"{NAME}.event", event, spot.origin, spot.place)
    else:
        yield PassedOver(f"{NAME} event without content")


def _call(call: dict[str, Any]) -> ImportedCall:
    return ImportedCall(
        str(call.get("id") or call.get("name") or ""), str(call.get("name") or ""), call.get("args") or {}
    )


def _response(response: dict[str, Any]) -> Given:
    value = response.get("response")
    failed = isinstance(value, dict) and set(value) == {"error"}
    return Given(str(response.get("id") or response.get("name") or ""), value, failed)


def _part(part: dict[str, Any]) -> dict[str, Any]:
    """A part in the providers' shape; one that they do not have, as it is."""
    if isinstance(part.get("text"), str):
        return (
            {"type": "thinking", "thinking": part["text"]}
            if part.get("thought")
            else {"type": "text", "text": part["text"]}
        )
    inline = part.get("inline_data")
    if isinstance(inline, dict) and str(inline.get("mime_type", "")).startswith("image/"):
        source = {"type": "base64", "media_type": inline.get("mime_type"), "data": inline.get("data")}
        return {"type": "image", "source": source}
    return part
