"""LangGraph's SQLite checkpoints: every message that any checkpoint of a thread holds, in order, each once.

A checkpoint repeats the whole state, so a thread is read from its oldest one on and what is new is taken: also what was removed
later was said. Messages are known by their id. The line of the newest checkpoint is the session; a branch that was left (time
travel) is a session of its own, whole. Other channels of the newest checkpoint become values; what tasks wrote after it (an
interrupt, an error, a half-done step) becomes emitted events. Nothing is imported or called to read it, see `packed`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

from perdure.errors import Error
from perdure.stores.statements import Statements
from perdure_agents.importers.foreign_sqlite import ForeignFile
from perdure_agents.importers.items import (
    ImportedEvent,
    ImportedFrom,
    ImportedSession,
    ImportedValue,
    Item,
    LeftOut,
    Remark,
)
from perdure_agents.importers.messages import Spot, message_items
from perdure_agents.importers.names import Calls, Occurrences, name_of
from perdure_agents.importers.packed import CLASS, PackedObject, plain, unpack
from perdure_agents.importers.rows import Tables, as_text
from perdure_agents.importers.sources import Source

NAME = "langgraph"
Q = Statements("perdure_agents.importers", "langgraph.sql")
OWN = ("__", "branch:")  # channels that are LangGraph's bookkeeping begin so
KINDS = {"__interrupt__": "interrupt", "__error__": "error"}
ROLES = {"human": "user", "ai": "assistant", "system": "system", "tool": "tool", "function": "tool", "chat": "user"}
_START = "__start__"
_MESSAGES = "langchain_core.messages"


def has_tables(tables: dict[str, frozenset[str]]) -> bool:
    """Whether a database is one."""
    return {"thread_id", "checkpoint_ns", "checkpoint", "type"} <= tables.get(
        "checkpoints", frozenset()
    ) and "writes" in tables


def read(source: Source) -> Iterator[Item | Remark]:
    """All threads, one after the other."""
    with ForeignFile(source.path) as foreign:
        tables = Tables(foreign, source)
        for row in foreign.query(Q.first_thread):
            yield from _thread(tables, row)
        yield from tables.items_of(Q.threads_page, {"thread": "", "ns": ""}, partial(_thread, tables))


def _thread(tables: Tables, row: tuple[Any, ...]) -> Iterator[Item | Remark]:
    return _Thread(tables, as_text(row[0]), as_text(row[1])).items()


class _Branch:
    """One line of a thread as it is read: what was taken from it, and its calls."""

    def __init__(self, session: str) -> None:
        self.session = session
        self.seen: set[str] = set()
        self.calls = Calls()
        self.begun = False


class _Checkpoint(NamedTuple):
    """One checkpoint, unpacked."""

    id: str
    at: str
    channels: dict[str, Any]
    versions: dict[str, Any]


class _Thread:
    """One pass over a thread (in one namespace)."""

    def __init__(self, tables: Tables, thread: str, ns: str) -> None:
        self._tables = tables
        self._names = {"thread": thread, "ns": ns}
        self._name = name_of(NAME, thread, ns)
        self._branches: dict[str, _Branch] = {}

    def items(self) -> Iterator[Item | Remark]:
        parents: dict[str, str] = {}
        for row in self._tables.pages(Q.line_page, {"after": ""}, **self._names):
            if isinstance(row, LeftOut):
                yield row
            else:
                parents[as_text(row[0])] = as_text(row[1])
        sessions = _sessions_of(parents, self._name)
        newest = next(reversed(parents), "")
        for checkpoint, parent in parents.items():
            branch = self._branches.setdefault(sessions[checkpoint], _Branch(sessions[checkpoint]))
            yield from self._checkpoint(checkpoint, parent, branch, newest=checkpoint == newest)
        if newest:
            begin, read_row = {"task": "", "idx": -1_000_000}, partial(self._write, newest)
            yield from self._tables.items_of(Q.writes_page, begin, read_row, checkpoint=newest, **self._names)

    def _checkpoint(self, id_: str, parent: str, branch: _Branch, *, newest: bool) -> Iterator[Item | Remark]:
        place = self._tables.place("checkpoints", f"{self._names['thread']}/{id_}")
        try:
            checkpoint = self._unpacked(id_)
        except Error as error:
            yield LeftOut(place, error.message)
            return
        if not branch.begun:
            branch.begun = True
            yield ImportedSession(branch.session, NAME, place)
        for channel, value in checkpoint.channels.items():
            if not channel.startswith(OWN) and _are_messages(value):
                yield from _new_messages(value, checkpoint, branch, place)
        yield from self._deltas(checkpoint, parent, branch)
        if newest:
            yield from self._state(checkpoint, branch, place)

    def _unpacked(self, id_: str) -> _Checkpoint:
        rows = self._tables.foreign.query(Q.checkpoint_get, checkpoint=id_, **self._names)
        document = unpack(as_text(rows[0][0]), rows[0][1]) if rows else None
        fields = document if isinstance(document, dict) else {}
        channels, versions = fields.get("channel_values"), fields.get("channel_versions")
        return _Checkpoint(
            id_, as_text(fields.get("ts")), _by_name(channels), _by_name(versions),
        )  # fmt: skip

    def _state(self, checkpoint: _Checkpoint, branch: _Branch, place: str) -> Iterator[Item | Remark]:
        """The rest of the newest checkpoint."""
        for channel, value in checkpoint.channels.items():
            if not channel.startswith(OWN) and not _are_messages(value):
                yield ImportedValue(name_of(channel), plain(value), place, session=branch.session)
        if _START in checkpoint.channels:  # given, and not taken in by any step yet
            data = {"channel": _START, "value": plain(checkpoint.channels[_START])}
            yield ImportedEvent(
                branch.session,
                name_of(checkpoint.id, _START),
                f"{NAME}.pending",
                data,
                ImportedFrom(NAME, checkpoint.id, checkpoint.at),
                place,
            )

    def _deltas(self, checkpoint: _Checkpoint, parent: str, branch: _Branch) -> Iterator[Item | Remark]:
        """Messages of channels that are kept as deltas: not in the checkpoint, but in what the step before it wrote."""
        if "task_path" not in self._tables.foreign.tables["writes"]:
            return  # written before there were such channels
        begin = {"path": "", "task": "", "idx": -1_000_000}
        for channel in checkpoint.versions:
            if channel in checkpoint.channels or channel.startswith(OWN):
                continue
            read_row = partial(self._delta, checkpoint, branch)
            yield from self._tables.items_of(
                Q.deltas_page, begin, read_row, checkpoint=parent, channel=channel, **self._names
            )

    def _delta(self, checkpoint: _Checkpoint, branch: _Branch, row: tuple[Any, ...]) -> Iterator[Item | Remark]:
        _, task, idx, kind, data = row
        place = self._tables.place("writes", f"{self._names['thread']}/{checkpoint.id}/{task}/{idx}")
        try:
            value = unpack(as_text(kind), data)
        except Error as error:
            yield LeftOut(place, error.message)
            return
        messages = [value] if _is_message(value) else value
        if _are_messages(messages):
            yield from _new_messages(messages, checkpoint, branch, place)

    def _write(self, newest: str, row: tuple[Any, ...]) -> Iterator[Item | Remark]:
        task, idx, channel, kind, data = row
        place = self._tables.place("writes", f"{self._names['thread']}/{newest}/{task}/{idx}")
        try:
            value = plain(unpack(as_text(kind), data))
        except Error as error:
            yield LeftOut(place, error.message)
            return
        if value is not None or not str(channel).startswith(OWN):
            what, origin = f"{NAME}.{KINDS.get(channel, 'pending')}", ImportedFrom(NAME, f"{newest}/{task}/{idx}")
            fields = {"channel": channel, "value": value}
            yield ImportedEvent(self._name, name_of(newest, task, idx), what, fields, origin, place)


def _sessions_of(parents: dict[str, str], name: str) -> dict[str, str]:
    """The session of each checkpoint: the thread's own on the line of the newest one, else one named after the branch's last."""
    main: set[str] = set()
    at = next(reversed(parents), "")
    while at in parents and at not in main:  # a cycle ends it: such a file lies
        main.add(at)
        at = parents[at]
    last: dict[str, str] = {}
    for checkpoint in reversed(parents):
        last.setdefault(checkpoint, checkpoint)
        last.setdefault(parents[checkpoint], last[checkpoint])
    return {
        checkpoint: name if checkpoint in main else name_of(name, f"branch-{last[checkpoint]}")
        for checkpoint in parents
    }


def _is_message(value: Any) -> bool:
    return isinstance(value, PackedObject) and (
        value.module.startswith(_MESSAGES) or value.module.startswith("langchain.schema")
    )


def _by_name(value: Any) -> dict[str, Any]:
    """Fields by name. A value under anything else is no channel: msgpack knows keys of every kind."""
    return {name: item for name, item in value.items() if isinstance(name, str)} if isinstance(value, dict) else {}


def _are_messages(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(map(_is_message, value))


def _new_messages(
    messages: list[PackedObject], checkpoint: _Checkpoint, branch: _Branch, place: str
) -> Iterator[Item | Remark]:
    counted = Occurrences()
    for message in messages:
        fields = plain(message.made_of)
        if not isinstance(fields, dict):
            continue
        id_ = str(fields.get("id") or "")
        key = name_of(id_ or counted.key([message.name, fields]))
        if key in branch.seen or fields.get("type") == "remove":
            continue
        branch.seen.add(key)
        more = {
            "checkpoint": checkpoint.id,
            CLASS: message.name,
            "name": fields.get("name"),
            "usage": fields.get("usage_metadata"),
        }
        spot = Spot(branch.session, key, ImportedFrom(NAME, id_, checkpoint.at, more), place, branch.calls)
        yield from message_items(_as_message(fields), spot)


def _as_message(fields: dict[str, Any]) -> dict[str, Any]:
    """A LangChain message in the providers' shape. Calls stand in `tool_calls`; parts that repeat them go."""
    role = ROLES.get(str(fields.get("type")).removesuffix("MessageChunk").lower(), str(fields.get("role") or "user"))
    content = fields.get("content")
    calls = [*_listed(fields.get("tool_calls")), *_listed(fields.get("invalid_tool_calls"))]
    if isinstance(content, list) and calls:
        content = [
            part for part in content if not (isinstance(part, dict) and part.get("type") in ("tool_use", "tool_call"))
        ]
    return {**fields, "role": role, "content": content, "tool_calls": calls}


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
