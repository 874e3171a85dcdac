"""Handles for time travel and forks."""

from __future__ import annotations

from typing import Self

from perdure.errors import Invalid
from perdure.handles.aio.base import AsyncStreamHandle
from perdure.handles.aio.made import reads
from perdure.handles.later import diff, history
from perdure.log.change import Stream
from perdure.model.records.differences import SessionDiff
from perdure.runtime.callers import AsyncCaller, AsyncFrozenCaller
from perdure.verbs import conversation as verbs


class AsyncPast(AsyncStreamHandle):
    """Time travel in a session or a scope."""

    __slots__ = ("_moment",)

    def __init__(
        self, caller: AsyncCaller, stream: Stream, pin: str = "", *, moment: history.Moment | None = None
    ) -> None:
        super().__init__(caller, stream, pin)
        self._moment = moment  # the argument of `at`, if this is the past

    async def at(self, moment: history.Moment) -> Self:
        """Return this session or scope as it was, for reading only.

            session.at(12)      after event 12
            session.at("2h")    two hours ago
            session.at(datetime(2026, 1, 31, tzinfo=UTC))

        Every reading verb works on it. Its clock stands still: values that had not expired then are there, and locks and claims
        are held as they were. Costs a fold of the history up to that point, into memory. Inside `atomic` it is valid until the
        function returns. Writing raises ReadOnly. Raises Invalid when there was nothing then, and for a moment in the future.
        """
        view = await self._read(history.view, moment, self._caller.core)
        frozen = AsyncFrozenCaller(view.core, self._caller.actor, view.tenant)
        return type(self)(frozen, view.stream, view.pin, moment=moment)

    def __repr__(self) -> str:
        at = "" if self._moment is None else f", at={self._moment!r}"
        return f"{type(self).__name__}({self.name!r}{at})"


class AsyncTime(AsyncPast):
    """Verbs of a session for forks."""

    __slots__ = ()

    async def fork(self, at: history.Moment | None = None, *, name: str) -> Self:
        """Create another session that continues from a point of this one (None: from now). This session stays as it is.

        Turns, summaries, checkpoints, artifacts and events up to there are shared, not copied; values, tasks and decisions are
        restated; locks and claims stay behind. Atomic; not idempotent: a name that is taken raises Conflict. Raises Invalid
        when there is no such point. Costs what the session has in values, tasks and decisions.
        """
        plan = await self._read(history.plan_fork, at)
        stream, pin = await self._caller.run(self._caller.fenced(history.fork), (plan, name), {}, self._pin)
        return type(self)(self._caller, stream, pin)

    origin = reads(verbs.origin)

    async def diff(self, other: Self) -> SessionDiff:
        """Compare this session with another one: `session.at("2h").diff(session)`, or a session and its fork.

        The result has goal, values, plan, decisions, checkpoints, artifacts, and the turns since they parted. Only reads; each
        side is one state. Costs what both have in values, tasks and decisions, and what was said since.
        """
        if not isinstance(other, AsyncTime):
            raise Invalid(f"expected a session, got {type(other).__name__}", path="other")
        return await self._read(diff.between, self._beside(other))
