"""Claude Code's sessions: `~/.claude/projects/…/*.jsonl`, one record a line.

A record of a user or of the assistant is one turn (an answer of several blocks is several records there, and here);
sub-agents (`isSidechain`) become sessions of their own, named below theirs. The tree of `parentUuid` is
kept in the origins. The format is not documented by its makers: record kinds that are not known here are kept whole, as
emitted events.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from perdure_agents.importers.items import (
    ImportedEvent,
    ImportedFrom,
    ImportedSession,
    ImportedValue,
    Item,
    LeftOut,
    PassedOver,
    Remark,
    kind_of,
)
from perdure_agents.importers.messages import Spot, message_items
from perdure_agents.importers.names import Calls, Occurrences, name_of, word
from perdure_agents.importers.sources import FileHead, Record, Source, each_record

NAME = "claude-code"
SPOKEN = frozenset({"user", "assistant"})
BOOKKEEPING = frozenset({
    "file-history-snapshot", "queue-operation", "progress", "last-prompt", "permission-mode", "mode", "agent-name",
    "agent-color", "agent-setting", "attribution-snapshot", "content-replacement", "worktree-state", "tag", "bridge-session",
    "api-request", "api-request-blob", "api-request-shape", "atis-latch", "tools-used",
})  # fmt: skip
TITLES = {"summary": "summary", "custom-title": "customTitle", "ai-title": "aiTitle"}
FACTS = {"cwd": "cwd", "git_branch": "gitBranch", "version": "version"}


def looks_right(record: dict[str, Any]) -> bool:
    """Whether an object can be one of its records."""
    kind = kind_of(record)
    if kind in SPOKEN:
        return isinstance(record.get("message"), dict) and "uuid" in record
    return (
        kind in BOOKKEEPING
        or (kind in ("system", "attachment") and "uuid" in record)
        or (kind in TITLES and len(record) > 1)
    )


def recognises(head: FileHead) -> bool:
    """Whether a file is one: one of its first records is spoken, or they are all its own bookkeeping."""
    spoken = any(kind_of(record) in SPOKEN and looks_right(record) for record in head.records)
    is_own = any("leafUuid" in record or "sessionId" in record or "messageId" in record for record in head.records)
    return spoken or (is_own and all(map(looks_right, head.records)))


def read(source: Source) -> Iterator[Item | Remark]:
    """Everything in the file, in its order."""
    return _Reading(source).items()


class _Reading:
    """One pass over a file."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._calls: dict[str, Calls] = {}
        self._placed: set[str] = set()  # sessions whose origin was found
        self._seen = Occurrences()
        self._title = ""
        self._own = source.path.stem  # of records that do not name their session

    def items(self) -> Iterator[Item | Remark]:
        return each_record(self._source, looks_right, self._of)

    def _of(self, record: Record) -> Iterator[Item | Remark]:
        data, kind = record.data, kind_of(record.data)
        if kind in BOOKKEEPING:
            yield PassedOver(f"{NAME} {kind}")
        elif kind in TITLES and not self._calls:
            self._title = str(data.get(TITLES[kind]) or "")
        elif kind in SPOKEN and isinstance(data.get("message"), dict):
            yield from self._spoken(record)
        elif kind:
            yield from self._noted(record, kind)
        else:
            yield LeftOut(record.place, "a record without a type")

    def _session(self, record: Record) -> Iterator[Item]:
        """The beginning of a session, where its first record stands; its origin, where a record first has it."""
        name = self._name(record.data)
        if name not in self._calls:
            self._calls[name] = Calls()
            yield ImportedSession(name, NAME, record.place, "" if _agent(record.data) else self._title)
        if name not in self._placed and record.data.get("cwd"):
            self._placed.add(name)
            facts = {ours: record.data[theirs] for ours, theirs in FACTS.items() if record.data.get(theirs)}
            yield ImportedValue("origin", facts, record.place, session=name)

    def _name(self, data: dict[str, Any]) -> str:
        return name_of(NAME, data.get("sessionId") or self._own, _agent(data))

    def _spoken(self, record: Record) -> Iterator[Item]:
        yield from self._session(record)
        data = record.data
        session = self._name(data)
        key = str(data.get("uuid") or self._seen.key(data["message"]))
        message = {"role": data["type"], **data["message"]}
        yield from message_items(
            message, Spot(session, name_of(key), _origin(data), record.place, self._calls[session])
        )

    def _noted(self, record: Record, kind: str) -> Iterator[Item]:
        """A record of any other kind, as it is."""
        yield from self._session(record)
        key = name_of(str(record.data.get("uuid") or self._seen.key(record.data)))
        what = f"{NAME}.{word(record.data.get('subtype') or kind)}"
        yield ImportedEvent(self._name(record.data), key, what, record.data, _origin(record.data), record.place)


def _agent(data: dict[str, Any]) -> str:
    """The sub-agent that a record is of, or "". Records that are no part of the tree do not say isSidechain."""
    if data.get("isSidechain", bool(data.get("agentId"))) is not True:
        return ""
    return f"agent-{data.get('agentId') or 'unnamed'}"


def _origin(data: dict[str, Any]) -> ImportedFrom:
    message = data["message"] if isinstance(data.get("message"), dict) else {}
    more = {
        "parent": data.get("parentUuid"), "message": message.get("id"), "model": message.get("model"),
        "usage": message.get("usage"), "meta": data.get("isMeta") or data.get("isCompactSummary"),
    }  # fmt: skip
    return ImportedFrom(NAME, str(data.get("uuid") or ""), str(data.get("timestamp") or ""), more)
