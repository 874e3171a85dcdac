"""opencode's sessions: the SQLite file `~/.local/share/opencode/opencode.db`, with a row for each part of a message.

A part is the smallest thing that does not change once it is done: each text, thought and call is a turn of its own. A text that
is still being written, and the result of a call that still runs, are left for the next time. Parts that are no words (steps,
snapshots, patches) are passed over; kinds that are not known here are kept whole, as emitted events. Sessions of sub-agents stand
below theirs.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from perdure.errors import Invalid
from perdure.interchange.foreign_sqlite import ForeignFile
from perdure.interchange.importers.items import (
    ImportedEvent,
    ImportedFrom,
    ImportedResult,
    ImportedSession,
    ImportedValue,
    Item,
    LeftOut,
    PassedOver,
    Remark,
    kind_of,
)
from perdure.interchange.importers.messages import ImportedCall, Spot, turn
from perdure.interchange.importers.naming import Calls, named, word
from perdure.interchange.importers.reading import Source
from perdure.interchange.importers.rows import Tables, as_json, as_text, instant_of
from perdure.stores.statements import Statements

NAME = "opencode"
Q = Statements("perdure.interchange.importers", "opencode.sql")
ROLES = ("user", "assistant")
BOOKKEEPING = frozenset({"step-start", "step-finish", "snapshot", "patch"})
BEGUN = ("running", "completed", "error")  # states of a call whose arguments are whole


def has_tables(tables: dict[str, frozenset[str]]) -> bool:
    """Whether a database is one."""
    parts = {"id", "message_id", "session_id", "data", "time_created", "time_updated"} <= tables.get(
        "part", frozenset()
    )
    sessions = {"id", "title", "directory", "parent_id", "version"} <= tables.get("session", frozenset())
    return parts and sessions and {"id", "data"} <= tables.get("message", frozenset())


def read(source: Source) -> Iterator[Item | Remark]:
    """All sessions, one after the other."""
    return read_since(source, 0)


def read_since(source: Source, since_ms: int, within: Path | None = None) -> Iterator[Item | Remark]:
    """The parts that were changed at or after an instant, by the host's clock. within: only sessions that work in this folder."""
    with ForeignFile(source.path) as foreign:
        tables = Tables(foreign, source)
        yield from tables.each(Q.sessions_page, {"after": ""}, partial(_session, tables, since_ms, within))


def _session(tables: Tables, since_ms: int, within: Path | None, row: tuple[Any, ...]) -> Iterator[Item | Remark]:
    session, title, folder, parent, version = map(as_text, row)
    if within is not None and not (folder and Path(folder).resolve().is_relative_to(within)):
        return
    name = named(NAME, parent, session)
    found = tables.each(
        Q.parts_page, {"message": "", "part": ""}, partial(_part, tables, name), session=session, since=since_ms
    )
    begun = False
    for item in found:  # a session without anything new is not told
        if not begun:
            begun = True
            place = tables.place("session", session)
            yield ImportedSession(name, NAME, place, title)
            facts = {"cwd": folder, "version": version, "parent": parent}
            yield ImportedValue("origin", {name: value for name, value in facts.items() if value}, place, session=name)
        yield item


class _Part(NamedTuple):
    """A part of a message, and where it stands."""

    id: str
    data: dict[str, Any]
    message: dict[str, Any]
    spot: Spot


def _part(tables: Tables, session: str, row: tuple[Any, ...]) -> Iterator[Item | Remark]:
    message_id, part_id, data, message, made_at, updated = row
    place = tables.place("part", as_text(part_id))
    try:
        part, about = as_json(data), as_json(message)
    except Invalid as error:
        yield LeftOut(place, error.message)
        return
    if not isinstance(part, dict) or not isinstance(about, dict) or about.get("role") not in ROLES:
        yield LeftOut(place, "no part of a message of the user or the assistant")
        return
    model = about.get("modelID")
    more = {
        "message": as_text(message_id), "model": model if isinstance(model, str) else None,
        "meta": bool(part.get("synthetic") or about.get("summary") is True) or None,
        "updated": updated if isinstance(updated, int) else None,
    }  # fmt: skip
    at = instant_of(made_at / 1_000) if isinstance(made_at, int) else as_text(made_at)
    key = named(as_text(part_id))
    spot = Spot(session, key, ImportedFrom(NAME, as_text(part_id), at, more), place, Calls())
    yield from _items(_Part(key, part, about, spot))


def _items(part: _Part) -> Iterator[Item | Remark]:
    role, kind = str(part.message["role"]), kind_of(part.data)
    if kind in BOOKKEEPING:
        yield PassedOver(f"{NAME} {kind}")
    elif kind == "tool":
        yield from _called(part)
    elif kind in ("text", "reasoning"):
        text = part.data.get("text")
        if not text or _is_being_written(part.data):
            yield PassedOver(f"{NAME} {kind} that is not written yet")
        else:
            said = text if kind == "text" else [{"type": "thinking", "thinking": text}]
            yield turn(role, said, [], part.spot)
    else:
        origin, place = part.spot.origin, part.spot.place
        yield ImportedEvent(part.spot.session, part.id, f"{NAME}.{word(kind)}", part.data, origin, place)


def _is_being_written(data: dict[str, Any]) -> bool:
    time = data.get("time")
    return isinstance(time, dict) and "start" in time and time.get("end") is None


def _called(part: _Part) -> Iterator[Item | Remark]:
    """A call, named after its part (the ids of models repeat), and its result once there is one."""
    state = part.data.get("state")
    if not isinstance(state, dict) or state.get("status") not in BEGUN:
        yield PassedOver(f"{NAME} tool that was not called yet")
        return
    wanted = ImportedCall(part.id, str(part.data.get("tool") or ""), state.get("input"))
    made = turn("assistant", None, [wanted], part.spot)
    yield made
    if state["status"] == "running":
        return
    failed = state["status"] == "error"
    content = state.get("error") if failed else state.get("output")
    yield ImportedResult(part.spot.session, made.calls[0].id, content, part.spot.origin, part.spot.place, failed)
