"""Handles for decisions and references: the verbs of sessions and stores, and the decision itself."""

from __future__ import annotations

from perdure.handles.aio.base import AsyncStoreHandle, AsyncStreamHandle
from perdure.handles.aio.made import changes, finds, lists, lists_all, makes, replaces
from perdure.handles.facts import DecisionFacts
from perdure.handles.later import decisions
from perdure.log.change import Stream
from perdure.model.filters import DecisionFilters, SessionDecisionFilters
from perdure.model.records.decisions import DecisionRecord, Reference
from perdure.planes.reading.paging import Page
from perdure.runtime.callers import AsyncCaller
from perdure.verbs import decisions as verbs


class AsyncDecision(DecisionFacts, AsyncStreamHandle):
    """One decision, as it was last read. Each verb and `refresh` bring it up to date."""

    __slots__ = ("_record",)

    def __init__(self, caller: AsyncCaller, stream: Stream, pin: str, record: DecisionRecord) -> None:
        super().__init__(caller, stream, pin)
        self._record = record

    async def refresh(self) -> AsyncDecision:
        """Read the decision again; returns itself."""
        self._record = await self._read(decisions.decision, self.seq)
        return self

    close = changes(verbs.close)

    supersede = replaces(verbs.supersede)

    async def referred_by(self, *, limit: int = 100, after: str | None = None) -> Page[Reference]:
        """Return everything that refers to it, in all sessions of this tenant."""
        return await self._read(decisions.referring, self.ref, limit=limit, after=after)


class AsyncDecisions(AsyncStreamHandle):
    """Verbs of a session for decisions and references."""

    __slots__ = ()

    decide = makes(verbs.decide, lambda: AsyncDecision)

    decision = finds(verbs.decision, lambda: AsyncDecision)

    decisions = lists(verbs.own_decisions, SessionDecisionFilters, lambda: AsyncDecision)

    async def referring(self, thing: object, *, limit: int = 100, after: str | None = None) -> Page[Reference]:
        """Return everything that refers to a turn, decision, task, artifact or Ref, in all sessions of this tenant."""
        return await self._read(decisions.referring, thing, limit=limit, after=after)


class AsyncDecisionsAcross(AsyncStoreHandle):
    """Verbs of a store that ask across all decisions."""

    __slots__ = ()

    decisions = lists_all(verbs.all_decisions, DecisionFilters, lambda: AsyncDecision)
