"""Codex sessions: `~/.codex/sessions/…/rollout-*.jsonl`, one record a line.

`response_item` records are the conversation, in the Responses shape; `event_msg` records tell the same once more for the
screen and are passed over; `compacted`, and kinds that are not known here, are kept whole as emitted events. Files of the first
versions, whose lines are bare items behind a line about the session, are read too. A fork's file may begin where the fork was
made: its first record, and so the value `origin`, names the session that has the turns before it. Records have no ids: a
record's identity is what it says, and the how-manieth this is in its file that says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from perdure_agents.importers.items import (
    ImportedEvent,
    ImportedFrom,
    Item,
    LeftOut,
    PassedOver,
    Remark,
    kind_of,
)
from perdure_agents.importers.messages import OneSession, Spot, is_message, response_items
from perdure_agents.importers.names import word
from perdure_agents.importers.sources import FileHead, Record, Source, each_record

NAME = "codex"
WRAPPED = frozenset({"session_meta", "response_item", "event_msg", "turn_context", "compacted"})
BARE = frozenset({
    "message", "function_call", "function_call_output", "reasoning", "local_shell_call", "custom_tool_call",
    "custom_tool_call_output", "web_search_call",
})  # fmt: skip
RETOLD = "event_msg"
FACTS = (
    "cwd", "originator", "cli_version", "git", "model_provider", "source", "instructions", "base_instructions",
    "forked_from_id", "history_base",
)  # fmt: skip


def looks_right(record: dict[str, Any]) -> bool:
    """Whether an object can be one of its records."""
    if isinstance(record.get("payload"), dict) and kind_of(record) in WRAPPED:
        return True
    return kind_of(record) in BARE or record.get("record_type") == "state" or _is_old_start(record)


def _is_old_start(record: dict[str, Any]) -> bool:
    return "type" not in record and {"id", "timestamp"} <= set(record) and ("instructions" in record or "git" in record)


def recognises(head: FileHead) -> bool:
    """Whether a file is one: it has a wrapped record, or begins as the first versions did."""
    wrapped = any(kind_of(record) in WRAPPED and looks_right(record) for record in head.records)
    return wrapped or (bool(head.records) and _is_old_start(head.records[0]))


def read(source: Source) -> Iterator[Item | Remark]:
    """Everything in the file, in its order."""
    return _Reading(source).items()


class _Reading(OneSession):
    """One pass over a file. A session's id stands in its first record."""

    def __init__(self, source: Source) -> None:
        super().__init__(source, NAME)
        self._model: Any = None

    def items(self) -> Iterator[Item | Remark]:
        return each_record(self._source, looks_right, self._of)

    def _of(self, record: Record) -> Iterator[Item | Remark]:
        data, kind = record.data, kind_of(record.data)
        payload = data.get("payload") if isinstance(data.get("payload"), dict) else None
        if kind == "session_meta" and payload is not None:
            yield from self._begin(payload, record)
        elif _is_old_start(data):
            yield from self._begin(data, record)
        elif kind == RETOLD:
            yield PassedOver(f"{NAME} {kind}")
        elif kind == "turn_context" and payload is not None:
            self._model = payload.get("model", self._model)
            yield PassedOver(f"{NAME} {kind}")
        elif data.get("record_type") == "state":
            yield PassedOver(f"{NAME} state")
        else:
            yield from self._item(record, payload if kind == "response_item" else None, kind)

    def _begin(self, about: dict[str, Any], record: Record) -> Iterator[Item]:
        """The session begins. A second line of this kind is that of the session from which this one was forked."""
        if self._begun:
            yield self._noted(record, "session_meta")
            return
        facts = {name: about[name] for name in FACTS if about.get(name)}
        yield from self._open(record.place, about.get("id"), facts)

    def _item(self, record: Record, payload: dict[str, Any] | None, kind: str) -> Iterator[Item | Remark]:
        item = payload if payload is not None else record.data
        if payload is None and kind not in BARE and not is_message(item):
            if not kind:
                yield LeftOut(record.place, "a record without a type")
                return
            yield from self._open(record.place)
            yield self._noted(record, kind)
            return
        yield from self._open(record.place)
        spot = Spot(self._session, self._seen.key(item), self._origin(record, item), record.place, self._calls)
        yield from response_items(item, spot)

    def _noted(self, record: Record, kind: str) -> ImportedEvent:
        key = self._seen.key(record.data)
        return ImportedEvent(
            self._session, key, f"{NAME}.{word(kind)}", record.data, self._origin(record, {}), record.place
        )

    def _origin(self, record: Record, item: dict[str, Any]) -> ImportedFrom:
        at = str(record.data.get("timestamp") or "")
        return ImportedFrom(NAME, str(item.get("id") or ""), at, {"line": record.line, "model": self._model})
