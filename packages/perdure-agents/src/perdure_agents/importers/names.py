"""Names and keys for what comes from elsewhere: always ones that a store accepts, and the same ones every time.

Callers: the formats. Idempotence rests on this: a name depends on what is in the source, never on when or where it is read.
"""

from __future__ import annotations

import hashlib
from collections import Counter, deque
from typing import Any

from perdure.errors import Error
from perdure.model.limits import NAME_MAX_CHARS
from perdure.model.values import digest

MARK_CHARS = 12
NAME_CHARS = NAME_MAX_CHARS - 40  # the import's own names put a word in front of these


def name_of(*parts: object) -> str:
    """A name of these parts: `a/b`. One that is too long or unprintable is cut or escaped, and marked so that it stays unique."""
    text = "/".join(str(part) for part in parts if str(part))
    name = "".join(char if char.isprintable() else "_" for char in text)
    if name == text and 0 < len(name) <= NAME_CHARS:
        return name
    mark = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:MARK_CHARS]
    return f"{name[: NAME_CHARS - MARK_CHARS - 1]}~{mark}"


def word(text: object) -> str:
    """A text as a word of a kind of emitted events: letters, digits, _ and -."""
    letters = "".join(char if char.isascii() and (char.isalnum() or char in "_-") else "_" for char in str(text)[:60])
    return letters or "unknown"


class Occurrences:
    """Keys for things that have no id: what they say, and the how-manieth this is that says so."""

    def __init__(self) -> None:
        self._seen: Counter[str] = Counter()

    def key(self, content: Any) -> str:
        """The key of the next thing with this content."""
        try:
            mark = digest(content).hex()[:32]
        except Error:  # it will be refused with its reason when it is written
            mark = hashlib.sha256(repr(content).encode("utf-8", "surrogatepass")).hexdigest()[:32]
        self._seen[mark] += 1
        return f"{mark}.{self._seen[mark]}"


class Calls:
    """The ids of a session's calls, each made unique: sources use the same id again, or none."""

    def __init__(self) -> None:
        self._uses: Counter[str] = Counter()
        self._made: dict[tuple[str, int], str] = {}
        self._open: dict[str, deque[str]] = {}
        self._last: dict[str, str] = {}

    def id_of(self, call: str, maker: str, ordinal: int) -> str:
        """The id of the call that the maker makes at this place among its calls; the same again for the same."""
        earlier = self._made.get((maker, ordinal))
        if earlier is not None:
            return earlier
        source = call or "call"
        self._uses[source] += 1
        uses = self._uses[source]
        name = name_of(source if uses == 1 else f"{source}#{uses}")
        self._made[maker, ordinal] = self._last[source] = name
        self._open.setdefault(source, deque()).append(name)
        return name

    def answered(self, call: str) -> str:
        """The id of the call that a result with this id belongs to: the oldest one without a result, else the last one."""
        source = call or "call"
        waiting = self._open.get(source)
        return waiting.popleft() if waiting else self._last.get(source, name_of(source))
