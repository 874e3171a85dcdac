"""The content of a page: things with fields, all as text. Pure; callers: the other modules of this package.

A field is a WORD (a number, a state, an instant), TEXT (whatever people write), or JSON. One that is not there is not in the
dict: an empty text is something else. Numbers of things are those of their events, so that a thing is the same on every page.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from perdure.errors import Invalid

FORMAT = 1


class Holds(enum.Enum):
    """How a field is written."""

    WORD = "word"
    TEXT = "text"
    JSON = "json"


class PageSection(NamedTuple):
    """One kind of thing: what one is called, the field that names it, and its fields in order."""

    one: str
    id: str
    fields: dict[str, Holds]


W, T, J = Holds.WORD, Holds.TEXT, Holds.JSON
ABOUT: dict[str, Holds] = {"title": T, "status": W, "labels": J, "goal": T}
SECTIONS: dict[str, PageSection] = {
    "decisions": PageSection(
        "decision",
        "id",
        {"id": W, "status": W, "text": T, "because": T, "then": T, "outcome": T, "note": T, "tags": J, "actor": T}
        | {"at": W},
    ),
    "tasks": PageSection(
        "task",
        "id",
        {"id": W, "status": W, "title": T, "priority": W, "parent": W, "needs": J, "labels": J, "note": T, "by": T},
    ),
    "values": PageSection("value", "name", {"name": T, "version": W, "value": J, "bytes": W}),
    "events": PageSection("event", "seq", {"seq": W, "at": W, "actor": T, "kind": W, "says": T}),
}


class PageHead(msgspec.Struct, frozen=True):
    """Of which session a page is, and as of which event: its number, and the beginning of its hash."""

    session: str
    uid: str
    seq: int
    hash: str


class PageThing(msgspec.Struct, frozen=True):
    """One thing on a page. line: where it stands in the file, if it was read from one."""

    fields: dict[str, str]
    line: int = 0

    def get(self, name: str) -> str | None:
        """A field, or None."""
        return self.fields.get(name)


class SessionPage(msgspec.Struct, frozen=True):
    """A session as a page."""

    head: PageHead
    about: dict[str, str]
    things: dict[str, list[PageThing]]

    def same_as(self, other: SessionPage) -> bool:
        """Whether both say the same, wherever it stands."""
        return (self.head, self.about, self.plain()) == (other.head, other.about, other.plain())

    def plain(self) -> dict[str, list[dict[str, str]]]:
        """All things without their lines."""
        return {name: [thing.fields for thing in self.things.get(name, [])] for name in SECTIONS}


def ordered(fields: dict[str, str], order: Iterable[str]) -> list[tuple[str, str]]:
    """The fields that are there, in the order of the section."""
    return [(name, fields[name]) for name in order if name in fields]


def wrong(line: int, message: str, hint: str = "") -> Invalid:
    """The error for a part that cannot be read, and where; the caller that knows the name of the file puts it before the line."""
    return Invalid(message, path=f"line {line}", hint=hint)
