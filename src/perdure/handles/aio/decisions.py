"""Handles for decisions and references: the verbs of sessions and stores, and the decision itself."""

from __future__ import annotations

from collections.abc import Iterable

from perdure.handles.aio.base import AsyncStoreHandle, AsyncStreamHandle
from perdure.handles.facts import DecisionFacts
from perdure.handles.filtered import filtered
from perdure.handles.later import checking, decisions
from perdure.log.change import Stream
from perdure.model.filters import DecisionFilters, SessionDecisionFilters
from perdure.model.records.decisions import DecisionRecord, Reference
from perdure.planes.reading.paging import Page
from perdure.runtime.callers import AsyncCaller


class AsyncDecision(DecisionFacts, AsyncStreamHandle):
    """One decision. Shows what was last known of it; each verb and `refresh` bring that up to date."""

    __slots__ = ("_record",)

    def __init__(self, caller: AsyncCaller, stream: Stream, pin: str, record: DecisionRecord) -> None:
        super().__init__(caller, stream, pin)
        self._record = record

    async def refresh(self) -> AsyncDecision:
        """Look again; returns itself."""
        self._record = await self._read(decisions.decision, self.seq)
        return self

    async def close(self, outcome: str, note: str | None = None, *, about: Iterable[str] = ()) -> AsyncDecision:
        """Say what came of it; returns itself. Atomic; the same outcome and note again change nothing.

        about: whom the outcome is about besides those of the decision. Raises Conflict if it was closed with another outcome, or
        superseded.
        """
        self._record = await self._write(decisions.close, self.seq, outcome, note=note, about=about)
        return self

    async def supersede(
        self,
        text: str,
        *,
        because: str,
        then: str | None = None,
        refs: Iterable[object] = (),
        tags: Iterable[str] | None = None,
        checks: Iterable[object] = (),
        about: Iterable[str] = (),
    ) -> AsyncDecision:
        """Replace it by a new decision, which is returned; each names the other. Atomic.

        Without `tags` the new one has those of the old. It is about whom the old one is, and `about`. Raises Conflict if it was
        superseded already (its `facts` say by which): so repeating it after a crash is refused rather than done twice.
        """
        self._record, new = await self._write(
            decisions.supersede, self.seq, text, because=because, then=then, refs=refs, tags=tags, about=about,
            checks=await self._caller.work(checking.observed, checks) if checks else (),
        )  # fmt: skip
        return AsyncDecision(self._caller, self._stream, self._pin, new)

    async def referred_by(self, *, limit: int = 100, after: str | None = None) -> Page[Reference]:
        """The things that refer to it, in all sessions of this tenant."""
        return await self._read(decisions.referring, self.ref, limit=limit, after=after)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.session!r}, {self.seq}, {self.text[:60]!r}, {self.status.value})"


class AsyncDecisions(AsyncStreamHandle):
    """The decisions of a session, and who refers to what."""

    __slots__ = ()

    async def decide(
        self,
        text: str,
        *,
        because: str,
        then: str | None = None,
        refs: Iterable[object] = (),
        tags: Iterable[str] = (),
        checks: Iterable[object] = (),
        about: Iterable[str] = (),
    ) -> AsyncDecision:
        """Write a decision down before anything is done about it. Atomic; two calls make two decisions.

        then: what is to follow. refs: turns, decisions, tasks, artifacts (anything with a `ref`) or Refs; one
        to another session is kept as it is, for it may be in another store. checks: what must be so for it to hold
        (`perdure.FileHash` …), looked at when the session is booted and by `store.checked`. about: whom it is about; it is
        also about whom its refs are. Raises Invalid, TooLarge, or
        NotFound (a ref to what this session has not) with the path of what is wrong; nothing is written then.
        """
        seen = await self._caller.work(checking.observed, checks) if checks else ()
        record = await self._write(
            decisions.decide, text, because=because, then=then, refs=refs, tags=tags, checks=seen, about=about
        )
        return AsyncDecision(self._caller, self._stream, self._pin, record)

    async def decision(self, seq: int) -> AsyncDecision:
        """The decision with this number. Raises NotFound."""
        record = await self._read(decisions.decision, seq)
        return AsyncDecision(self._caller, self._stream, self._pin, record)

    @filtered(SessionDecisionFilters)
    async def decisions(self, asked: SessionDecisionFilters) -> Page[AsyncDecision]:
        """The decisions of this session, newest first; open=True: those left open, False: the others. about: those about a
        subject.
        """
        found = await self._read(decisions.decisions, asked)
        return found.each(lambda record: AsyncDecision(self._caller, self._stream, self._pin, record))

    async def referring(self, thing: object, *, limit: int = 100, after: str | None = None) -> Page[Reference]:
        """The things that refer to a turn, decision, task, artifact or Ref, in all sessions of this tenant."""
        return await self._read(decisions.referring, thing, limit=limit, after=after)


class AsyncDecisionsAcross(AsyncStoreHandle):
    """Asking across the store: decisions."""

    __slots__ = ()

    @filtered(DecisionFilters)
    async def decisions(self, asked: DecisionFilters) -> Page[AsyncDecision]:
        """The decisions of all sessions of this tenant, newest first.

        since, until: instants ("2026-01-31", a datetime) or ages ("7d"). The page's `next` goes into `after`.
        """
        found = await self._caller.read(decisions.decisions_of_store, asked)
        return found.each(lambda each: AsyncDecision(self._caller, each[0], "", each[1]))
