"""Records of memories and of search results, as the verbs of `planes.memory` return them."""

from __future__ import annotations

import enum
from datetime import datetime, timedelta
from typing import Any

import msgspec

from perdure.model.refs import Ref


class MemoryKind(enum.StrEnum):
    """The kind of a memory. A boot always shows every `rule`; a `correction` is the reason of a rule."""

    FACT = "fact"
    PREFERENCE = "preference"
    WORKFLOW = "workflow"
    SNIPPET = "snippet"
    LESSON = "lesson"
    FAILED_APPROACH = "failed_approach"
    RULE = "rule"
    CORRECTION = "correction"
    VOCABULARY = "vocabulary"
    MAP = "map"
    DOCUMENT = "document"


class MemoryStatus(enum.StrEnum):
    """A memory is live until it is superseded by another one, or forgotten."""

    LIVE = "live"
    SUPERSEDED = "superseded"
    FORGOTTEN = "forgotten"


class Validity(enum.StrEnum):
    """Whether a memory still holds, as far as its checks say; unknown without checks."""

    HOLDS = "holds"
    STALE = "stale"
    UNKNOWN = "unknown"


class SearchKind(enum.StrEnum):
    """The kinds of things that can be searched. A result is the answer of a call, or the outcome of an effect, step or run."""

    TURN = "turn"
    SUMMARY = "summary"
    DECISION = "decision"
    TASK = "task"
    EFFECT = "effect"
    EVENT = "event"
    RESULT = "result"
    MEMORY = "memory"


class ByVectors(enum.StrEnum):
    """How far a search went by vectors, besides words."""

    OFF = "off"  # the store has no embedding: words alone
    SOME = "some"  # not every text has its vector yet: `perdure index` makes them
    ALL = "all"
    UNREAD = "unread"  # the embedding does not know the language of the query: words alone
    FAILED = "failed"  # the embedding failed, or gave the query no vector: words alone


class MemoryRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A memory: its text, its sources, and the time for which it holds.

    scope, scope_kind: the name of the session or scope that holds it, and which of the two it is.
    sources: texts such as `file:Makefile`.
    refs: turns, decisions and events.
    note: why it was last confirmed, superseded or forgotten.
    """

    seq: int
    scope: str
    scope_kind: str
    kind: MemoryKind
    text: str
    status: MemoryStatus
    key: str | None
    tags: tuple[str, ...]
    about: tuple[str, ...]
    sources: tuple[str, ...]
    confidence: float | None
    valid_from: datetime | None
    valid_to: datetime | None
    actor: str
    at: datetime
    confirmed_at: datetime | None
    supersedes: int | None
    superseded_by: int | None
    refs: tuple[Ref, ...]
    ref: Ref
    note: str | None = None
    uses: int = 0
    used_at: datetime | None = None
    checks: tuple[Any, ...] = ()


class Why(msgspec.Struct, frozen=True):
    """Why something was found.

    words: the words that it shares with the query (as stems).
    lent: the words that the turns around it share with the query.
    age, source: how old it is, and where it came from.
    vector: how near it is in meaning (a cosine), if that was asked.
    user_said: it counts for more, because a user said it.
    """

    words: tuple[str, ...]
    lent: tuple[str, ...]
    age: timedelta
    source: str
    vector: float | None = None
    user_said: bool = False

    def __str__(self) -> str:
        """One line for people."""
        own = f"words: {', '.join(self.words)}" if self.words else ""
        around = f"words around it: {', '.join(self.lent)}" if self.lent else ""
        near = f"near in meaning: {self.vector:.2f}" if self.vector is not None else ""
        person = "said by the user" if self.user_said else ""
        return "; ".join(filter(None, (own, around, near, person, f"{_age_text(self.age)} old", self.source)))


def _age_text(age: timedelta) -> str:
    for unit, seconds in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if age.total_seconds() >= seconds:
            return f"{int(age.total_seconds() // seconds)} {unit}"
    return f"{int(age.total_seconds())} s"


class Indexed(msgspec.Struct, frozen=True):
    """The state of an index: the number of texts, how many of them have vectors, and the embedding (None: there is none)."""

    texts: int
    vectors: int
    embedding: str | None


class Found(msgspec.Struct, frozen=True):
    """One search result. `seq` is its number in its stream, `text` the part of it that was found."""

    kind: SearchKind
    stream_kind: str
    stream: str
    seq: int
    text: str
    actor: str
    at: datetime
    score: float
    why: Why
    ref: Ref
