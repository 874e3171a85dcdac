"""The records of the verbs for events: events as people read them, and batches of the feed."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import cached_property
from typing import Any, ClassVar

import msgspec

from perdure.errors import Damaged
from perdure.model.instants import to_datetime
from perdure.model.kinds import is_reserved
from perdure.model.refs import Ref


class EventContent(msgspec.Struct, frozen=True):
    """The content of an event, apart from its header."""

    data: Any
    about: tuple[str, ...]
    refs: tuple[Ref, ...]
    body: dict[str, Any]


class EventRecord(msgspec.Struct, frozen=True, eq=False, dict=True):
    """One event of the log. Emitted ones (`session.emit`) have no `table`; the others record a change of a row.

    session, uid: the name and identity of its stream.
    stream_kind: whether that is a session, a run or a scope.
    data: the emitted data, or the document of the change.
    about: its subjects.
    refs: the things that it refers to.
    body: all of its content, as plain JSON.
    ref: the reference by which others name it.
    emptied: its body was pruned or erased; the header stays.

    Listings mostly need headers only, so the content of an event is read when it is first asked for.
    """

    SHOWN: ClassVar = ("seq", "kind", "table", "actor", "at", "data", "about", "refs", "session", "stream_kind", "uid",
                       "ref", "body", "emptied")  # fmt: skip

    seq: int
    kind: str
    table: str
    actor: str
    _at_us: int
    session: str
    uid: str
    emptied: bool
    _stored: Any  # the source of `_read`
    _read: Callable[[EventRecord], EventContent]
    stream_kind: str = "session"

    @property
    def at(self) -> datetime:
        """When it was recorded, by the writer's clock."""
        try:
            return to_datetime(self._at_us)
        except OverflowError:
            raise Damaged("the stored instant cannot be read", path=f"{self.session} seq {self.seq}") from None

    @property
    def ref(self) -> Ref:
        """The reference by which others name it."""
        return Ref(self.uid, self.seq)

    @cached_property
    def said(self) -> EventContent:
        """All of its content; read once (or, by several threads at once, to the same)."""
        return self._read(self)

    @property
    def data(self) -> Any:
        """The emitted data, or the document of the change."""
        return self.said.data

    @property
    def about(self) -> tuple[str, ...]:
        """Its subjects: the persons or things that it is about."""
        return self.said.about

    @property
    def refs(self) -> tuple[Ref, ...]:
        """The things that it refers to."""
        return self.said.refs

    @property
    def body(self) -> dict[str, Any]:
        """All of its content, as plain JSON."""
        return self.said.body

    @property
    def emitted(self) -> bool:
        """Whether `session.emit` made it."""
        return not self.table and not is_reserved(self.kind)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, EventRecord):
            return NotImplemented
        return self._header == other._header and self.said == other.said

    def __hash__(self) -> int:
        return hash((self.uid, self.seq))

    @property
    def _header(self) -> tuple[Any, ...]:
        return (self.seq, self.kind, self.table, self.actor, self._at_us, self.session, self.uid, self.emptied)

    @property
    def stream(self) -> str:
        """The stream that holds it, as commands take it: the name of a session, `run:` and the id of a run."""
        return self.session if self.stream_kind == "session" else f"{self.stream_kind}:{self.session}"

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies and other processes get what it says along: reading it later is for this process alone."""
        return _with_said, (self._header, self.said, self.stream_kind)

    def __repr__(self) -> str:
        try:
            at = str(self.at)
        except Damaged:
            at = "?"
        return f"EventRecord({self.session!r}, seq={self.seq}, kind={self.kind!r}, actor={self.actor!r}, at={at})"


def _with_said(header: tuple[Any, ...], content: EventContent, stream_kind: str) -> EventRecord:
    return EventRecord(*header, _stored=content, _read=stored_content, stream_kind=stream_kind)


def stored_content(event: EventRecord) -> EventContent:
    """For events that were made with what they say: nothing is left to read."""
    return event._stored


class FoldState(msgspec.Struct, frozen=True):
    """Where a fold has come to: its state, the last event that it holds, and how many were folded to get
    there.
    """

    state: Any
    seq: int
    folded: int
