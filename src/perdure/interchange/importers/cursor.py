"""Cursor's transcripts: `~/.cursor/projects/…/agent-transcripts/ID/ID.jsonl`, one message a line.

A line has a role and a message with the parts of Anthropic's shape. It has neither id nor time: a message's identity is what it
says, and the how-manieth this is in its file that says so. The name of the file is the id of the conversation. Other lines are
kept whole, as emitted events. The format is not documented by its makers, and the program could not be run here: this follows
what others published about it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from perdure.interchange.importers.items import (
    ImportedEvent,
    ImportedFrom,
    Item,
    LeftOut,
    PassedOver,
    Remark,
    kind_of,
)
from perdure.interchange.importers.messages import OneSession, Spot, message_items
from perdure.interchange.importers.naming import word
from perdure.interchange.importers.reading import FileHead, Record, Source, each_record

NAME = "cursor"
SPOKEN = ("user", "assistant")
BOOKKEEPING = frozenset({"turn_ended"})


def _is_spoken(record: dict[str, Any]) -> bool:
    message = record.get("message")
    return record.get("role") in SPOKEN and isinstance(message, dict) and "content" in message


def looks_right(record: dict[str, Any]) -> bool:
    """Whether an object can be one of its records."""
    return _is_spoken(record) or kind_of(record) in BOOKKEEPING


def recognises(head: FileHead) -> bool:
    """Whether a file is one: it begins with a message inside a record that says only who speaks."""
    return bool(head.records) and _is_spoken(head.records[0]) and "uuid" not in head.records[0]


def read(source: Source) -> Iterator[Item | Remark]:
    """Everything in the file, in its order."""
    return _Reading(source, NAME).items()


class _Reading(OneSession):
    """One pass over a file."""

    def items(self) -> Iterator[Item | Remark]:
        return each_record(self._source, looks_right, self._of)

    def _of(self, record: Record) -> Iterator[Item | Remark]:
        kind = kind_of(record.data)
        origin = ImportedFrom(NAME, more={"line": record.line})
        if kind in BOOKKEEPING:
            yield PassedOver(f"{NAME} {kind}")
        elif _is_spoken(record.data):
            yield from self._open(record.place)
            message = {**record.data["message"], "role": record.data["role"]}
            key = self._seen.key(message)
            yield from message_items(message, Spot(self._session, key, origin, record.place, self._calls))
        elif kind or record.data.get("role"):
            yield from self._open(record.place)
            what = f"{NAME}.{word(kind or record.data['role'])}"
            yield ImportedEvent(self._session, self._seen.key(record.data), what, record.data, origin, record.place)
        else:
            yield LeftOut(record.place, "a record without a role or a type")
