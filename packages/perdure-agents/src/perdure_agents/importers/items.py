"""The neutral form between a foreign format and a store: what was said, answered, kept, planned, decided, and what happened.

Formats give these in order, the writer records them. `key` is an item's identity in its source: the same key again is the same
item, so that importing again adds nothing. `place` is where it was read, for people: `path:line`, `path:table:row`.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

from perdure.model.records.conversation import Call


class ImportedFrom(msgspec.Struct, frozen=True):
    """Where something was before: kept with it as data. Instants are as they were written there."""

    format: str
    id: str = ""
    at: str = ""
    more: dict[str, Any] = {}

    def as_document(self) -> dict[str, Any]:
        """The recorded form: nothing that is empty."""
        fields = {"format": self.format, "id": self.id, "at": self.at, **self.more}
        return {name: value for name, value in fields.items() if value not in ("", None)}


class ImportedSession(msgspec.Struct, frozen=True):
    """A session begins, or continues; the title is for its creation."""

    session: str
    format: str
    place: str
    title: str = ""


class ImportedTurn(msgspec.Struct, frozen=True):
    """A turn of the system, the user or the assistant."""

    session: str
    key: str
    role: str
    content: Any
    origin: ImportedFrom
    place: str
    calls: tuple[Call, ...] = ()


class ImportedResult(msgspec.Struct, frozen=True):
    """The result of a call."""

    session: str
    call: str
    content: Any
    origin: ImportedFrom
    place: str
    error: bool = False


class ImportedValue(msgspec.Struct, frozen=True):
    """A value under a name, of a session or (session "") of a scope. `source` is set by the writer: which file says so."""

    name: str
    value: Any
    place: str
    session: str = ""
    scope: str = ""
    source: str = ""


class Planned(msgspec.Struct, frozen=True):
    """A task. needs: the keys of others, which come before it."""

    session: str
    key: str
    title: str
    origin: ImportedFrom
    place: str
    status: str = "todo"
    detail: Any = None
    priority: int = 0
    labels: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()


class Decided(msgspec.Struct, frozen=True):
    """A decision, and its outcome if that is known."""

    session: str
    key: str
    text: str
    because: str
    origin: ImportedFrom
    place: str
    then: str | None = None
    outcome: str | None = None
    tags: tuple[str, ...] = ()


class ImportedEvent(msgspec.Struct, frozen=True):
    """An emitted event: anything else that was written down, as it was."""

    session: str
    key: str
    kind: str
    data: Any
    origin: ImportedFrom
    place: str


class LeftOut(msgspec.Struct, frozen=True):
    """Something that was not taken, and why."""

    place: str
    why: str


class ImportedRepair(msgspec.Struct, frozen=True):
    """Something that was taken, but not as it was."""

    place: str
    what: str


class PassedOver(msgspec.Struct, frozen=True):
    """A record that is left out on purpose: it says nothing that another does not, or is the program's own bookkeeping."""

    what: str


Item: TypeAlias = ImportedSession | ImportedTurn | ImportedResult | ImportedValue | Planned | Decided | ImportedEvent
Remark: TypeAlias = LeftOut | ImportedRepair | PassedOver


def kind_of(record: object) -> str:
    """The `type` of a foreign record: a text, whatever stands there."""
    kind = record.get("type") if isinstance(record, dict) else None
    return kind if isinstance(kind, str) else ""
