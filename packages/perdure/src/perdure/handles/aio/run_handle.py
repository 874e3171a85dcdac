"""The handle of one run: its record, its result, and the verbs with which people steer it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Concatenate, Generic

from perdure.effects import ending, ledger, operator_verbs
from perdure.errors import Invalid
from perdure.handles.aio.base import AsyncStoreHandle
from perdure.handles.aio.effects import AsyncEffect
from perdure.handles.aio.envelope import AsyncEnveloping
from perdure.handles.aio.made import gives, reads
from perdure.handles.later import adopting, history, timeline, what_if
from perdure.handles.run_facts import KnownRunFacts
from perdure.log.change import Stream
from perdure.model.functions import P, R_co
from perdure.model.records.differences import RunDiff
from perdure.model.records.runs import RunRecord, RunStatus, StepRecord
from perdure.planes import subjects as adding
from perdure.planes.execution import runs, steps
from perdure.planes.reading.durations import Duration
from perdure.planes.reading.origins import check_seq
from perdure.runtime import driver, untaken
from perdure.runtime.callers import AsyncFrozenCaller
from perdure.stores.tx import Tx
from perdure.verbs import runs as verbs


class AsyncRunHandle(KnownRunFacts, AsyncEnveloping, Generic[R_co]):
    """One run, as it was last read, for code outside its agent. `refresh` reads it again."""

    __slots__ = ("_record",)

    def __init__(self, caller: Any, stream: Stream, record: RunRecord) -> None:
        super().__init__(caller, stream)
        self._record = record

    async def refresh(self) -> AsyncRunHandle[R_co]:
        """Read the run again; returns itself."""
        self._record = await self._read(runs.run)
        return self

    async def at(self, moment: history.Moment) -> AsyncRunHandle[R_co]:
        """Return this run as it was after an event, at an instant, or some time ago ("2h"): for reading only.

        It shows steps, effects, waits and timeline as they stood. Costs a fold of its history up to that point, into memory.
        Writing raises ReadOnly; Invalid when there was nothing then, and for a moment in the future.
        """
        return await self._in(await self._read(history.view, moment, self._caller.core))

    async def _in(self, view: history.PastView) -> AsyncRunHandle[R_co]:
        """This run in a view of the past."""
        frozen = AsyncFrozenCaller(view.core, self._caller.actor, view.tenant)
        return AsyncRunHandle(frozen, view.stream, await frozen.read(runs.run, view.stream))

    async def fork(self, at: int | str, replace: Any, *, allow_effects: bool = False) -> AsyncRunHandle[R_co]:
        """Create a what-if run that continues from a place of this one, as if that place had returned `replace`. This run stays
        as it is.

        Recorded work returns what it returned before and is not done again; an effect under way stays this run's. The new run
        asks a person before any external call, and is parked before it undoes, starts runs or writes to sessions. Atomic; not
        idempotent.
        at: the place of a step, an effect or an answer, or its number.
        allow_effects: let the new run act without asking.

        Raises NotFound for no such place, Conflict while the place has no result, Invalid for a value that cannot be kept.
        """
        made = await self._supposed(at, replace, allow_effects=allow_effects)
        here = AsyncStoreHandle(self._caller)
        stream = await here._write(adopting.adopt, made.envelope, made.luggage, self._caller.core.epoch)
        return AsyncRunHandle(self._caller, stream, await self._caller.read(runs.run, stream))

    async def _supposed(self, at: int | str, replace: Any, *, allow_effects: bool = False) -> what_if.Supposed:
        """The run that `fork` would make of these arguments, before it is made. Reads alone."""
        acts, witness = bool(allow_effects), await self._witness()
        return await self._read(what_if.supposed, at, replace, witness, acts=acts)

    async def diff(self, other: AsyncRunHandle) -> RunDiff:
        """Compare this run with another one: `run.at("2h").diff(run)`, or a run and its fork.

        The result has the status, and steps, effects and waits by their place. Only reads; each side is one state. Costs what
        both did.
        """
        if not isinstance(other, AsyncRunHandle):
            raise Invalid(f"expected a run, got {type(other).__name__}", path="other")
        return await self._read(timeline.between, self._beside(other))

    async def result(self, timeout: Duration | None = None) -> R_co:
        """Return the result, from any process. Waits for the end of the run if `timeout` is given, and raises TimedOut after
        it.

        Raises Failed, Cancelled or Parked if the run ended so, and Waiting if it waits and no timeout is given.
        """
        patience = self._caller.patience(timeout, "timeout", run=self.id)
        await self.refresh()
        while not self._has_stopped and await patience.lasts():
            await self.refresh()
        return await self._outcome(waited=timeout is not None)

    async def _outcome(self, *, waited: bool) -> Any:
        if self._has_stopped:
            return driver.run_result(self._record)
        if self._record.status is RunStatus.WAITING and not waited:
            raise await self._read(untaken.waiting_for, self._record)
        raise untaken.not_over(self._record)

    waits = reads(verbs.waits_of_run)

    async def effects(self, *, open: bool = False) -> list[AsyncEffect]:  # noqa: A002 - the word of the other lists
        """Return its effects, oldest first. open: only those that are not settled."""
        after = self._record.cut_seq if open else 0  # a cut leaves nothing open behind it
        found = await self._read(ledger.all_effects, after=after, open_only=open)
        return [AsyncEffect(self._caller, self._stream, "", record) for record in found]

    async def steps(self, *, after: int | None = None) -> list[StepRecord]:
        """Return its steps since its last checkpoint, oldest first. after: since that event; 0: all."""
        since = self._record.cut_seq if after is None else after
        return await self._read(steps.left, check_seq(since, "after") if since else 0)

    async def input_of(self, step: int) -> dict[str, Any]:
        """Return the input of the model in a step (the number of its event): `args` and `kwargs`. NotFound if there is none."""
        return await self._read(steps.input_of, step)

    signal = gives(verbs.signal)

    async def add_subjects(self, *subjects: str) -> tuple[str, ...]:
        """Say that the whole run, everything in it and the runs that it started are about these persons or things.

        Returns all of its subjects. Idempotent.
        """
        return await self._write(adding.add_to_run, subjects)

    async def cancel(self, why: str = "") -> AsyncRunHandle[R_co]:
        """Ask it to end. Returns itself.

        A run that no process holds ends at once, unless it did something that can be undone: then the next process that takes
        it lets it undo that. If it is parked again instead, a second cancel ends it as it is. A running one is told at its next
        step. Raises Conflict for a run that was handed over.
        """
        await self._write(ending.cancel, why, self._caller.core.epoch)
        return await self.refresh()

    async def resume(self, *, vouch: bool = False) -> AsyncRunHandle[R_co]:
        """Re-check a waiting or parked run: after a deploy, or when the thing that it waits for has come.

        An undo that failed is tried again. A run that was parked for other versions may continue under them from now on.
        vouch: after a restore, you state that everything that it did in the outside world is recorded here: no person is asked
            any more before it does something unsafe.

        Raises Conflict for a run that was handed over: see `unpark`.
        """
        return await self._told(operator_verbs.resume, self._caller.core.epoch if vouch else None)

    async def retry(self) -> AsyncRunHandle[R_co]:
        """Try it again where it failed: recorded work is kept, the last failure is done anew, and a timeout that is over begins
        anew. So is what an interrupted run waits to cancel again.

        Raises Conflict if it did not fail, was handed over, or undid its work when it failed.
        """
        return await self._told(operator_verbs.retry)

    async def unpark(self) -> AsyncRunHandle[R_co]:
        """Let a parked run continue. An undo that failed is tried again. Conflict if it is not parked.

        Unpark a run that was handed over only if no store has adopted it; the runs that were handed over with it come back too.
        A copy that is over stays as it is, and its record answers here from now on: see `Imported`.
        """
        return await self._told(operator_verbs.unpark)

    async def pin(self, program: str | None) -> AsyncRunHandle[R_co]:
        """Let only workers with this very program take the run; None: any. Conflict if it is completed.

        A run that failed or was cancelled may be pinned before `retry`.
        """
        return await self._told(runs.pin, program)

    async def _told(
        self, verb: Callable[Concatenate[Tx, Stream, P], Any], *args: P.args, **kwargs: P.kwargs
    ) -> AsyncRunHandle[R_co]:
        await self._write(verb, *args, **kwargs)
        return await self.refresh()
