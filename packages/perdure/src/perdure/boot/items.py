"""The parts of a pack: items, each one thing that is stored, quoted as data in one block.

    ~~~ decision issue-42/17 by alice, 3 d old
    Use approach A
    ~~~

A block opens with a row of tildes and its heading, and ends with the same row alone. The row is longer than any row of tildes in
the text, so no text can end its own block or begin another one. `blocks` reads a pack back. Pure.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator
from typing import NamedTuple

from perdure.boot.checking import Carrier
from perdure.errors import Invalid
from perdure.model.display import visible
from perdure.model.instants import SECOND_US, to_datetime

LONG_CHARS, SHORT_CHARS = 2_000, 240  # of a text that is shown as it is; of one for which there is little room
FOUND_CHARS = 4_000  # of one that was found because it answers the task
MORE = " more characters]"  # how a shortened text ends
ROW = 3  # tildes, at least
_ROWS = re.compile(r"~+")
OPENED = re.compile(r"(~{3,}) (\S.*)")
_PLAIN = re.compile(r"[\w.@-]{1,64}")


class Section(enum.StrEnum):
    """The classes of what a pack holds, in its order."""

    RULES = "rules"
    PLAN = "plan"
    LOOPS = "loops"
    DECISIONS = "decisions"
    LESSONS = "lessons"
    WORKSPACE = "workspace"
    TAIL = "tail"
    RECALLED = "recalled"
    WORDS = "words"


class Item(NamedTuple):
    """One thing. id: how it is named on this store. at: when it was written. said: what else the heading says, in our words.

    whole: it is never shortened. rests: what must be so for it to hold. changed: when it was last changed, if not `at`. found: it
    answers the task. brief: its text where there is little room.
    """

    section: Section
    kind: str
    id: str
    text: str
    by: str
    at: int
    said: str = ""
    whole: bool = False
    rests: Carrier | None = None
    changed: int = 0
    found: bool = False
    brief: str = ""


class Block(NamedTuple):
    """A block of a pack, read back."""

    heading: str
    text: str


def forms(item: Item, now_us: int) -> list[str]:
    """The block of an item, and where that is long, shorter ones."""
    first_limits = [FOUND_CHARS] if item.section is Section.RECALLED else []
    limits = [0] if item.whole else [*first_limits, LONG_CHARS, SHORT_CHARS]
    clipped = [_clipped(item.text, limit) for limit in limits]
    texts = dict.fromkeys([*clipped, item.brief] if item.brief else clipped)
    return [block(_heading(item, now_us), text) for text in texts]


def block(heading: str, text: str) -> str:
    """A text as quoted data."""
    row = "~" * max(ROW, 1 + max(map(len, _ROWS.findall(text)), default=0))
    return f"{row} {heading}\n{text}\n{row}\n"


def blocks(text: str) -> Iterator[Block]:
    """The blocks of a pack. Invalid if one does not end."""
    lines = iter(text.split("\n"))
    for line in lines:
        if opened := OPENED.fullmatch(line):
            inside: list[str] = []
            for inner_line in lines:
                if inner_line == opened[1]:
                    break
                inside.append(inner_line)
            else:
                raise Invalid("a block of the pack does not end", path="pack")
            yield Block(opened[2], "\n".join(inside))


def quoted(name: str) -> str:
    """A name that somebody gave, on one line, in quotes."""
    return '"' + visible(name).replace("\\", "\\\\").replace('"', '\\"') + '"'


def author(name: str) -> str:
    """The author of something: in quotes, unless it is a plain word."""
    return name if _PLAIN.fullmatch(name) else quoted(name)


def age(since_us: int, now_us: int) -> str:
    """How old something is, coarsely: so that a pack that is made again is the same."""
    seconds = max(0, now_us - since_us) // SECOND_US
    for unit, size in (("d", 86_400), ("h", 3_600)):
        if seconds >= size:
            return f"{seconds // size} {unit} old"
    return "new"


def moment(at_us: int) -> str:
    """An instant, to the minute."""
    return f"{to_datetime(at_us):%Y-%m-%dT%H:%MZ}"


def _heading(item: Item, now_us: int) -> str:
    status_text = f"; {item.said}" if item.said else ""
    return visible(f"{item.kind} {item.id} by {author(item.by)}, {age(item.at, now_us)}{status_text}")


def _clipped(text: str, limit: int) -> str:
    if not limit or len(text) <= limit:
        return text
    return f"{text[:limit].rstrip()} […{len(text) - limit}{MORE}"
