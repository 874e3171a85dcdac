"""The chain, checked: every event follows the one before it, none is missing, none was moved, every body is
the one meant.

Pure. Called by verify (and later by imports), event by event, so that a stream of any length needs little
memory. Keeps P6. Fields outside the header cannot be checked here: the position in the feed, the transaction id, names, tenants.
"""

from __future__ import annotations

import enum
import struct
from collections import deque
from collections.abc import Iterable, Iterator

import msgspec

from perdure.log.event import Event, commit_to, hash_event

AHEAD_EVENTS = 64  # how far to look for an event that was moved


class BreakKind(enum.StrEnum):
    """How a chain can be broken, as seen at one sequence number."""

    ALTERED = "event-altered"  # a field of the header, or the hash, is not what was written
    BODY_ALTERED = "body-altered"  # the body or its salt is not the one that the header commits to
    MISSING = "event-missing"
    MOVED = "event-moved"  # another event of this stream stands here
    HEAD = "head-wrong"  # the head of the stream is not its last event


class Break(msgspec.Struct, frozen=True):
    """One place where the chain does not hold."""

    kind: BreakKind
    seq: int
    message: str


class Chain:
    """Checks one stream. `follow` passes its events on, in order; `breaks` and `emptied` grow meanwhile."""

    def __init__(self, uid: bytes, first_seq: int, previous: bytes) -> None:
        """Begin before the event `first_seq`, which must follow the hash `previous`."""
        self._uid = uid
        self._seq = first_seq - 1
        self._previous: tuple[bytes, ...] = (previous,)  # hashes that the next event may follow; none: any
        self._ahead: deque[Event] = deque()
        self._displaced: list[Event] = []
        self.breaks: list[Break] = []
        self.emptied: list[int] = []  # events without a body: whether that was recorded is for the caller to say

    def follow(self, events: Iterable[Event]) -> Iterator[Event]:
        """Every event again, checked."""
        coming = iter(events)
        while self._fill(coming):
            event = self._ahead.popleft()
            self._check(event)
            yield event

    def end(self, seq: int, digest: bytes) -> None:
        """Say where the stream's head stands: it must be the last event."""
        if seq > self._seq:
            self._missing(self._seq + 1, seq)
        elif seq < self._seq:
            self._break(BreakKind.HEAD, self._seq, f"the head stands at {seq}, before the last event")
        elif self._previous and digest not in self._previous:
            self._break(BreakKind.HEAD, seq, "the head does not carry the hash of the last event")

    def _fill(self, coming: Iterator[Event]) -> bool:
        while len(self._ahead) < AHEAD_EVENTS and (event := next(coming, None)) is not None:
            self._ahead.append(event)
        return bool(self._ahead)

    def _check(self, event: Event) -> None:
        if event.seq <= self._seq:
            self._break(BreakKind.ALTERED, event.seq, "this sequence number occurs twice")
            return
        if event.seq > self._seq + 1:
            self._missing(self._seq + 1, event.seq - 1)
            self._previous = ()
        self._seq = event.seq
        self._check_link(event)
        self._check_body(event)

    def _check_link(self, event: Event) -> None:
        if not self._previous or self._follows(event):
            self._previous = (event.hash,)
            return
        owner = self._whose_place(event)
        if owner is not None:
            self._break(BreakKind.MOVED, event.seq, f"the event that belongs here stands at {owner.seq}")
            self._displaced.append(event)
            self._previous = (owner.hash,)
        else:
            self._break(BreakKind.ALTERED, event.seq, "the header or the hash is not the one that was written")
            # The next event follows the hash as it was: the stored one if the header was edited, else the
            # computed one.
            computed = [self._digest(event, previous) for previous in self._previous]
            self._previous = (event.hash, *computed)

    def _follows(self, event: Event) -> bool:
        return any(self._digest(event, previous) == event.hash for previous in self._previous)

    def _digest(self, event: Event, previous: bytes) -> bytes:
        try:
            return hash_event(self._uid, event, previous)
        except struct.error:
            return b""  # a field that no header can hold: altered

    def _whose_place(self, event: Event) -> Event | None:
        """The event that was written at this place, if it stands somewhere near."""
        for other in (*self._displaced, *self._ahead):
            if self._follows(msgspec.structs.replace(other, seq=event.seq)):
                return other
        return None

    def _check_body(self, event: Event) -> None:
        if event.body is None:
            self.emptied.append(event.seq)
        elif event.salt is None or commit_to(event.salt, event.body) != event.commitment:
            self._break(
                BreakKind.BODY_ALTERED,
                event.seq,
                "the body or its salt is not the one that the header commits to",
            )

    def _missing(self, first: int, last: int) -> None:
        what = "the event is missing" if first == last else f"the events from {first} to {last} are missing"
        self._break(BreakKind.MISSING, first, what)

    def _break(self, kind: BreakKind, seq: int, message: str) -> None:
        self.breaks.append(Break(kind, seq, message))
