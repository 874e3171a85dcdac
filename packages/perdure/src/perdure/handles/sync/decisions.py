# Generated from handles/aio/decisions.py by tools/unasync.py: edit that one.
"""Handles for decisions and references: the verbs of sessions and stores, and the decision itself."""

from __future__ import annotations

from collections.abc import Iterable

from perdure.handles.facts import DecisionFacts
from perdure.handles.filtered import filtered
from perdure.handles.later import checking, decisions
from perdure.handles.sync.base import StoreHandle, StreamHandle
from perdure.log.change import Stream
from perdure.model.filters import DecisionFilters, SessionDecisionFilters
from perdure.model.records.decisions import DecisionRecord, Reference
from perdure.planes.reading.paging import Page
from perdure.runtime.callers import Caller


class Decision(DecisionFacts, StreamHandle):
    """One decision, as it was last read. Each verb and `refresh` bring it up to date."""

    __slots__ = ("_record",)

    def __init__(self, caller: Caller, stream: Stream, pin: str, record: DecisionRecord) -> None:
        super().__init__(caller, stream, pin)
        self._record = record

    def refresh(self) -> Decision:
        """Read the decision again; returns itself."""
        self._record = self._read(decisions.decision, self.seq)
        return self

    def close(self, outcome: str, note: str | None = None, *, about: Iterable[str] = ()) -> Decision:
        """Record the outcome; returns itself. Atomic; the same outcome and note again change nothing.

        about: subjects of the outcome, besides those of the decision. Raises Conflict if it was closed with another outcome, or
            superseded.
        """
        self._record = self._write(decisions.close, self.seq, outcome, note=note, about=about)
        return self

    def supersede(
        self,
        text: str,
        *,
        because: str,
        then: str | None = None,
        refs: Iterable[object] = (),
        tags: Iterable[str] | None = None,
        checks: Iterable[object] = (),
        about: Iterable[str] = (),
    ) -> Decision:
        """Replace it by a new decision, which is returned. Each names the other. Atomic.

        The new decision has the tags of the old one unless `tags` is given, and the subjects of the old one besides `about`.
        Raises Conflict if it was superseded already (`facts` says by which), so a repetition after a crash is refused rather
        than done twice.
        """
        self._record, new = self._write(
            decisions.supersede, self.seq, text, because=because, then=then, refs=refs, tags=tags, about=about,
            checks=self._caller.work(checking.observed, checks) if checks else (),
        )  # fmt: skip
        return Decision(self._caller, self._stream, self._pin, new)

    def referred_by(self, *, limit: int = 100, after: str | None = None) -> Page[Reference]:
        """Return everything that refers to it, in all sessions of this tenant."""
        return self._read(decisions.referring, self.ref, limit=limit, after=after)


class Decisions(StreamHandle):
    """Verbs of a session for decisions and references."""

    __slots__ = ()

    def decide(
        self,
        text: str,
        *,
        because: str,
        then: str | None = None,
        refs: Iterable[object] = (),
        tags: Iterable[str] = (),
        checks: Iterable[object] = (),
        about: Iterable[str] = (),
    ) -> Decision:
        """Record a decision, before anything is done about it. Atomic; two calls make two decisions.

        because: the reason.
        then: the step that is to follow.
        refs: turns, decisions, tasks, artifacts (anything with a `ref`) or Refs. A ref to another session is kept unchecked,
            because that session may be in another store.
        checks: conditions under which the decision holds (`perdure.FileHash` …), looked at when the session is booted and by
            `store.checked`.
        about: its subjects, besides those of its refs.

        Raises Invalid, TooLarge, or NotFound (a ref to something that this session does not have) with the path; nothing is
        written then.
        """
        seen = self._caller.work(checking.observed, checks) if checks else ()
        record = self._write(
            decisions.decide, text, because=because, then=then, refs=refs, tags=tags, checks=seen, about=about
        )
        return Decision(self._caller, self._stream, self._pin, record)

    def decision(self, seq: int) -> Decision:
        """Return the decision with this number. Raises NotFound."""
        record = self._read(decisions.decision, seq)
        return Decision(self._caller, self._stream, self._pin, record)

    @filtered(SessionDecisionFilters)
    def decisions(self, asked: SessionDecisionFilters) -> Page[Decision]:
        """Return the decisions of this session, newest first. open: True for open ones, False for the others. about: of a
        subject.
        """
        found = self._read(decisions.decisions, asked)
        return found.each(lambda record: Decision(self._caller, self._stream, self._pin, record))

    def referring(self, thing: object, *, limit: int = 100, after: str | None = None) -> Page[Reference]:
        """Return everything that refers to a turn, decision, task, artifact or Ref, in all sessions of this tenant."""
        return self._read(decisions.referring, thing, limit=limit, after=after)


class DecisionsAcross(StoreHandle):
    """Verbs of a store that ask across all decisions."""

    __slots__ = ()

    @filtered(DecisionFilters)
    def decisions(self, asked: DecisionFilters) -> Page[Decision]:
        """Return the decisions of all sessions of this tenant, newest first. The next page is `after=page.next`.

        since, until: instants ("2026-01-31", a datetime) or ages ("7d").
        """
        found = self._caller.read(decisions.decisions_of_store, asked)
        return found.each(lambda each: Decision(self._caller, each[0], "", each[1]))
