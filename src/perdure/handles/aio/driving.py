"""Driving a run here: calls the agent's function from the start, lets recorded things return what they gave, records the rest.

One `AsyncDriving` is one lease on one run: what all branches of it share. `drive` gives the run's end, or leaves it waiting,
parked or to whoever has it now. Callers: `drive`, `recover` and the worker. Keeps P2, P7, P13.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Concatenate, NoReturn

import msgspec

from perdure.effects.acting import Acting
from perdure.effects.ending import end_run
from perdure.effects.ledger import error_of
from perdure.effects.tool import Tool
from perdure.errors import Cancelled, Changed, Damaged, Error, Parked, Stale, Unavailable
from perdure.handles.aio.run import AsyncRun
from perdure.handles.callers import AsyncCaller
from perdure.handles.shells import AsyncShell
from perdure.log.change import Stream
from perdure.model.display import whence
from perdure.model.functions import P, R
from perdure.model.instants import instant_us
from perdure.model.points import reach
from perdure.model.records.effects import EffectError, EffectRecord
from perdure.model.records.runs import CALLED_OFF, RunRecord, RunStatus, WaitRecord
from perdure.model.values import decode, encode
from perdure.planes import checkpoints, leasing, runs, steps, waits
from perdure.planes.leasing import Lease
from perdure.planes.spans import store_now
from perdure.runtime import course, places, workspace
from perdure.runtime.agent import Agent
from perdure.runtime.course import Drive
from perdure.runtime.journal import Journal, Known, known_of
from perdure.runtime.pausing import (
    TIMED_OUT,
    TROUBLES,
    Ending,
    Leaving,
    Suspended,
    blamed_in,
    found_in,
    is_end,
    origins,
)
from perdure.runtime.places import AFTERWARDS, Branch, Left, Mark, Span, standing_in
from perdure.stores.core import Reader
from perdure.stores.tx import Tx

log = logging.getLogger("perdure.run")

LOOK_SECONDS = 0.002
QUIET_LOOKS = 3
FUNCTIONS_MAX = 256
REFUSALS_MAX = 1000  # verbs that a program tries after it was told to end; a thousand branches are told one by one
HELD_SECONDS = 1.0  # what each further verb of such a program takes


class AsyncDriving:
    """What the branches of one driven run share: the lease, the journal, the counters, and the fenced way to write."""

    __slots__ = (
        "_errors", "_functions", "_restored", "acting", "afterwards", "agent", "ahead_us", "awaited", "begun", "busy",
        "caller", "cut", "cut_at_us", "cut_seq", "effects", "ending", "interrupted", "journal", "lease", "left", "overdue",
        "patches", "pruning", "reached", "read_late", "record", "refusals", "sagas", "shell", "shielded", "steps", "stopped",
        "takers", "tools", "trunk", "turns", "undone", "unread",
    )  # fmt: skip

    def __init__(self, caller: AsyncCaller, agent: Agent, lease: Lease, record: RunRecord) -> None:
        self.caller = caller
        self.agent = agent
        self.lease = lease
        self.record = record
        self.journal = Journal()
        self.trunk = Branch(hired=lease.hired)
        self.afterwards = Branch(AFTERWARDS, self.trunk)
        self.left: list[Left] = []  # sagas that did not come to their end, and are undone before the run does
        self.cut, self.cut_seq = record.cuts, record.cut_seq
        self._restored: Any = None
        self.unread = True  # the program has not looked at `run.restored` in this drive
        self.read_late = ""  # the first thing that it did before it looked there
        self.acting = Acting(
            caller.core,
            lease.stream,
            caller.actor,
            caller.tenant,
            in_run=True,
            token=lease.token,
            going=self.check_going,
        )
        self.shell = AsyncShell(
            caller, lease.stream, self.write, keep=self.keep, check=self.check_lease, staying=self.check_staying
        )
        self.interrupted = False  # whether something was stopped in the middle in this drive
        self.busy = self.begun = 0  # operations under way, and so many were begun
        self.pruning = 0  # while it is, branches are being stopped here, and not by the program
        self.shielded = 0  # while it is, cancelling waits
        self.reached: set[int] = set()  # effects by number
        self.sagas = 0  # that are open
        self.undone: dict[int, BaseException | None] = {}  # effects by number, with what they were undone for
        self.tools: dict[str, Tool] = {}
        self.patches: dict[str, bool] = {}  # which way the program goes, by place: one answer in one drive
        self.steps = self.effects = 0  # since the last cut
        self.cut_at_us = caller.core.clocks.now()
        self.ahead_us = 0  # of this process's clock, where one is needed: the store's decides
        self.awaited: set[int] = set()  # waits, by number, that the program was at in this drive, not over then
        self.takers = 0  # waits for which a signal has come, and that have not taken it yet
        self.overdue = False  # whether its time was over before this drive began
        self.stopped: BaseException | None = None
        self.ending: Ending | None = None  # what the program was told: it is cancelled, or its time is over
        self.refusals = 0  # so often
        # async-only
        from asyncio import Lock  # noqa: PLC0415 - only async agents pay for asyncio

        self.turns = Lock()
        # end
        self._errors: list[dict[str, Any]] = []
        self._functions: dict[Any, Known] = {}

    @property
    def stream(self) -> Stream:
        """The run's stream."""
        return self.lease.stream

    async def load(self) -> None:
        """Read what the run did since its last cut, and the state that it left there."""
        if self.record.timeout_at is not None:
            self.ahead_us = self.caller.core.clocks.now() - await self.read(store_now)
            self.overdue = self._is_over
        if self.lease.first:
            return
        self.journal = await self.read(course.journal_of, self.stream, self.record.cut_seq)
        self.cut_at_us = instant_us(self.record.created_at, 0)
        if self.record.cuts:
            self._restored = await self.read(checkpoints.restore, self.stream)
            self.cut_at_us = await self.read(course.last_cut_us, self.stream)

    @property
    def restored(self) -> Any:
        """The state of the last checkpoint, for the program: it knows now what it need not do again."""
        self.unread = False
        return self._restored

    def check_unread(self, what: str) -> None:
        """A program acts before it has read `run.restored`. Parked if there is a checkpoint: it may repeat what came before."""
        self.read_late = self.read_late or what
        if self.record.cuts and not self.shielded:
            self.stopped = self.stopped or course.acts_unread(self.stream.name, what)
            raise self.stopped

    async def noted(self) -> dict[str, Any] | None:
        """What a checkpoint notes besides the state: what the agent's workspace holds."""
        if self.agent.workspace is None:
            return None
        return {"workspace": msgspec.to_builtins(await self.caller.work(workspace.look, self.agent.workspace))}

    async def check_workspace(self) -> None:
        """Parked when the workspace is not as the last checkpoint left it."""
        if self.agent.workspace is not None and self.record.cuts:
            known = await self.read(workspace.last_known, self.stream)
            await self.caller.work(workspace.check, self.agent.workspace, known)

    # -- writing -------------------------------------------------------------------------------------------------------------

    async def write(self, verb: Callable[Concatenate[Tx, Stream, P], R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Run a verb on the run's stream under its lease; steps that failed before it land in the same commit."""
        return await self._written(self.caller.write, verb, args, kwargs)

    async def keep(self, verb: Callable[Concatenate[Tx, Stream, P], R], *args: P.args, **kwargs: P.kwargs) -> R:
        """`write` for what this process alone knows, what a call gave: a store that is away is waited for."""

        async def write(*about: Any, **named: Any) -> Any:
            once = partial(self.caller.write, *about, **named)
            return await self.caller.keep_trying(once, f"run {self.stream.name}", self.check_staying)

        return await self._written(write, verb, args, kwargs)

    async def _written(
        self, write: Callable[..., Any], verb: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        errors, self._errors = self._errors, []
        if errors:
            args = (errors, verb, *args)
            verb = steps.noting
        self.begin()  # a run does not rest while a branch of it is writing: it may be what the others wait for
        try:
            result, seq = await write(leasing.fenced, self.lease, verb, *args, **kwargs)
        except TROUBLES as trouble:
            self._errors = errors + self._errors
            raise self.troubled(trouble) from None
        except BaseException:
            self._errors = errors + self._errors
            raise
        finally:
            self.busy -= 1
        self.lease.seq = max(self.lease.seq, seq) if seq else 0
        return result

    def keep_error(self, doc: dict[str, Any]) -> None:
        """A step failed. It is recorded only if the program goes on, so that a run that ends by it can try it again."""
        self._errors.append(doc)

    async def check_lease(self) -> None:
        """Stale when the lease was lost: asked right before something is sent outside."""
        if not await self.read(leasing.holds, self.lease):
            raise self.troubled(Stale(f"run {self.stream.name} is no longer this worker's", path="run"))

    async def read(self, verb: Callable[Concatenate[Reader, P], R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Run a read verb for the run."""
        self.begin()
        try:
            return await self.caller.read(verb, *args, **kwargs)
        except Unavailable as trouble:
            raise self.troubled(trouble) from None
        finally:
            self.busy -= 1

    def troubled(self, trouble: Error) -> Error:
        """The store is away, or the lease is lost: the program may catch what is raised for it, and yet can do nothing more."""
        self.stopped = self.stopped or trouble
        return trouble

    def known(self, fn: Callable[..., Any]) -> Known:
        """What is known of a function that a step calls; looked up once."""
        found = self._functions.get(fn)
        if found is None:
            if len(self._functions) > FUNCTIONS_MAX:  # functions that are made anew for each step
                self._functions.clear()
            found = self._functions[fn] = known_of(fn)
        return found

    def begin(self) -> None:
        """An operation begins; whoever begins it counts `busy` down."""
        self.busy += 1
        self.begun += 1

    # async-only
    def note_interrupted(self, place: str, what: str, name: str, mark: str) -> None:
        """A verb was stopped in the middle. If its program did that (a deadline, a task that it cancelled) and goes on, it is
        recorded with what comes next: at a replay it must not come to its end either.
        """
        from asyncio import CancelledError  # noqa: PLC0415 - as below

        by_program = self.stopped is None and not (self.lease.leaving or self.shielded or self.pruning)
        if by_program and isinstance(sys.exception(), CancelledError):
            self.keep_error(steps.document(place, steps.INTERRUPTED, mark, [what, name], None, {}))

    async def stay_interrupted(self, place: str, what: str, name: str, mark: str) -> None:
        """Nothing, unless the program cancelled this verb in an earlier drive: then it waits until that happens again."""
        from asyncio import Event  # noqa: PLC0415 - as below

        try:
            if not self.journal.was_interrupted(place, what, name, mark):
                return
        except Changed as changed:
            self.stopped = self.stopped or changed
            raise
        about = {"run": self.stream.name, "agent": self.agent.name, "place": place}
        log.info("waits until its program stops %s again", name, extra=about)
        await Event().wait()

    # end

    def forget_errors(self) -> None:
        """The run ends by them: they are not recorded, so that they are tried again with it."""
        self._errors.clear()

    def begin_cut(self, number: int, seq: int) -> None:
        """The journal begins anew: places are counted from the start."""
        self.cut, self.cut_seq = number, seq
        self.journal = Journal()
        self.trunk.restart()
        self.undone.clear()
        self.left.clear()
        self.reached.clear()
        self.interrupted = False
        self.steps = self.effects = 0
        self.cut_at_us = self.caller.core.clocks.now()

    # -- going on ------------------------------------------------------------------------------------------------------------

    def check_going(self) -> None:
        """Raise what must end the program now: it is suspended, cancelled, or its time is over."""
        if self.stopped is not None:
            self.refusals += 1
            if not isinstance(self.stopped, Exception):
                raise self.stopped
            raise Ending(f"run {self.stream.name} has stopped", type(self.stopped).__name__) from self.stopped
        self.check_staying()
        if self.shielded:
            return
        if self.lease.cancelling:
            self.ending = Ending(f"run {self.stream.name} was cancelled", CALLED_OFF)
        elif self._is_over:
            self.ending = Ending(f"run {self.stream.name} took too long", TIMED_OUT)
        if self.ending is not None:
            self.refusals += 1
            raise self.ending

    async def hold_up(self) -> None:
        """Nothing, for a program that ends when it is told to. The run of one that catches this too and tries again, more than
        a thousand times, comes to its rest without it; from then on it gets no further than a verb a second.
        """
        if self.refusals <= REFUSALS_MAX:
            return
        if not self.lease.forsaken:
            self.lease.forsaken = True
            self.stopped = self.stopped or course.does_not_end(self.stream.name, str(self.ending))
            about = {"run": self.stream.name, "agent": self.agent.name}
            log.warning("its program does not end though it was told to, %d times", self.refusals, extra=about)
            with suppress(Error):
                await _ended_by(self, self.stopped)
            self.caller.heartbeat.release(self.stream.uid)
        await self.caller.pause(HELD_SECONDS)

    def check_staying(self) -> None:
        """Raise Leaving when the process is about to end: the run goes on elsewhere, whatever it was at."""
        if self.lease.leaving:
            raise Leaving

    @property
    def _is_over(self) -> bool:
        """Whether its time is."""
        timeout_at = self.record.timeout_at
        return timeout_at is not None and self.caller.core.clocks.now() - self.ahead_us >= instant_us(timeout_at, 0)

    def check_returned(self) -> None:
        """Raise what keeps a program that returned from being over: it caught what it must not, or left something out."""
        told = self.stopped or self.ending  # whatever it made of it
        if told is not None:
            raise told
        self.journal.forget_in({*self.trunk.unfinished, AFTERWARDS})
        self.journal.check_used_up()

    def ends_by(self, error: BaseException) -> bool:
        """Whether the run is over because its program raised this: it does not wait, is not parked, and goes on nowhere else."""
        if self.stopped is not None or found_in(error, (Suspended, Parked)) is not None:
            return False
        return isinstance(error, Exception) or self.raised(error)

    @property
    def replaying(self) -> bool:
        """Whether things that were recorded are still ahead."""
        going = {path for task, path in self.trunk.tasks.items() if not task.done()}
        self.journal.forget_in({*self.trunk.unfinished - going, AFTERWARDS})
        return self.journal.replaying

    def raised(self, error: BaseException) -> bool:
        """Whether the agent raised this itself, though it is no Exception: what stops a process comes from elsewhere.

        A worker's process is not the agent's to end; one that drives it in place may be.
        """
        if found_in(error, (KeyboardInterrupt, GeneratorExit, Leaving)) is not None:
            return False
        if is_end(error):
            return True
        # async-only
        from asyncio import CancelledError, current_task  # noqa: PLC0415 - as below

        if isinstance(error, CancelledError):
            task = current_task()
            return not (self.lease.leaving or (task is not None and task.cancelling() > 0))
        # end
        return self.lease.hired

    def done_in(self, effects: list[EffectRecord], spans: list[Span], begun: set[int]) -> list[EffectRecord]:
        """What is to be undone, in its order: see `course.done_in`."""
        return course.done_in([each for each in effects if each.seq not in self.undone], spans, begun, self.reached)

    def undone_for(self, error: BaseException) -> int | None:
        """An effect that was undone because of what ends the run now: it cannot be tried again on top of that.

        A cancelled run, and one that took too long, ends by that, whatever its program made of it.
        """
        ends = {*map(id, origins(error))}
        return next((seq for seq, why in self.undone.items() if id(why) in ends or is_end(why)), None)

    async def end_branches(self, since: Mark = Mark()) -> None:  # noqa: B008 - a tuple
        """Stop the branches that left since a mark: what they were doing is in the ledger."""
        # async-only
        from asyncio import current_task, gather  # noqa: PLC0415 - as below

        left = [task for task in self.trunk.tasks_since(since) if task is not current_task()]
        for task in left:
            task.cancel()
        self.pruning += 1
        try:
            await gather(*left, return_exceptions=True)
        finally:
            self.pruning -= 1
        # end

    @property
    def has_branches(self) -> bool:
        """Whether something else of the run goes on beside its trunk."""
        return self.busy > 0 or any(not task.done() for task in self.trunk.tasks_since(Mark()))

    # async-only
    async def idle(self) -> None:
        """Until no branch of the run does anything any more: what waits must not stop what still works."""
        await self._still(lambda begun: self.busy == self.takers == 0 and self.begun == begun)

    async def in_order(self, found: WaitRecord, branch: Branch) -> None:
        """What came for a branch after the run had gone on past it is told when the run has come as far again.

        By then the program has stopped what lost a race, as it did before.
        """
        if not self.journal.went_on_before(found, branch):
            return
        self.takers += 1
        try:
            async with self.turns:
                await self.its_turn(lambda: self.replaying and self.journal.went_on_before(found, branch))
        finally:
            self.takers -= 1

    async def its_turn(self, replaying: Callable[[], bool]) -> None:
        """Until the program has come as far as it was, and has done what follows: what it stops on the way takes nothing."""
        await self._still(lambda begun: not replaying() or (self.busy == 0 and self.begun == begun))

    async def _still(self, is_still: Callable[[int], bool]) -> None:
        """Until several looks in a row found it still, each given what had been begun at the one before; or it is stopped."""
        from asyncio import sleep  # noqa: PLC0415 - as below

        quiet = 0
        while quiet < QUIET_LOOKS and self.stopped is None:
            before = self.begun
            await sleep(LOOK_SECONDS)
            quiet = quiet + 1 if is_still(before) else 0

    # end

    async def take_signal(self, seq: int, name: str) -> WaitRecord | None:
        """Let an open wait of a branch take the oldest signal of its name; None if there is none.

        One wait after the other: a branch that is stopped because another one got its signal (it lost a race) takes none with it.
        """
        if not await self.read(waits.has_signal, self.stream, name):
            return None
        # async-only
        self.takers += 1
        try:
            async with self.turns:
                await self.its_turn(lambda: self.replaying)
                if self.stopped is not None:
                    raise self.stopped
                return await self.write(waits.take_signal, seq, name)
        finally:
            self.takers -= 1
        # end
        # sync: return self.write(waits.take_signal, seq, name)


async def drive_claimed(caller: AsyncCaller, agent: Agent, lease: Lease, record: RunRecord | None = None) -> Drive:
    """Drive a run that was just claimed until it is over, waits, is parked, or is somebody else's.

    record: how it stood right before, if that is known.
    """
    if record is None or not lease.first:
        record = await caller.read(runs.run, lease.stream)
    driving = AsyncDriving(caller, agent, lease, record)
    caller.heartbeat.hold(lease.stream.uid)
    try:
        return await _drive(driving)
    except Stale:
        return Drive()  # somebody else has it: what was recorded under this lease stands, nothing else was written
    finally:
        caller.heartbeat.release(lease.stream.uid)


async def _drive(driving: AsyncDriving) -> Drive:
    # async-only
    from asyncio import get_running_loop  # noqa: PLC0415 - only async agents pay for asyncio

    places.number_branches(get_running_loop())
    # end
    try:
        await _load(driving)
        reach("run.drive.before")
        await driving.check_workspace()
        result = await _call(driving)
        await driving.write(end_run, driving.caller.core.epoch, RunStatus.COMPLETED, result)
        drive = Drive(RunStatus.COMPLETED, result=decode(encode(result)))  # as whoever reads it gets it
    except BaseException as error:  # noqa: BLE001 - whatever ends an agent is recorded as its end
        drive = await _ended_by(driving, error)
    reach("run.drive.after")
    return drive


async def _load(driving: AsyncDriving) -> None:
    """Parked when what the run did cannot be read: nobody can go on with it, and nothing is known to have failed."""
    try:
        await driving.load()
    except Damaged as error:
        hint = f"`perdure verify`, restore what is damaged, then `perdure resume {driving.stream.name}`"
        raise Parked(str(error), path=error.path, hint=hint, reason="damaged") from error


async def _call(driving: AsyncDriving) -> Any:
    """What the agent's function gives. Before it ends by itself, sagas that it left behind are undone."""
    run = AsyncRun(driving, driving.trunk)
    with standing_in(driving.trunk):
        try:
            result = await _called(driving, run)
            driving.check_returned()
        except BaseException as error:
            if driving.ends_by(error):
                await run._undo_left()
                await run._settle_open(completes=False)
            raise
        await run._undo_left()
        await run._settle_open(completes=True)
    return result


async def _called(driving: AsyncDriving, run: AsyncRun) -> Any:
    try:
        return await driving.agent.fn(run, *driving.record.args, **driving.record.kwargs)
    finally:
        await driving.end_branches()
        driving.trunk.tasks.clear()


async def _ended_by(driving: AsyncDriving, error: BaseException) -> Drive:
    """Record why the agent's function did not return. What a program raises itself is its end, whatever its class."""
    if isinstance(driving.stopped, TROUBLES):  # the agent has not come to its end
        await _give_back(driving, driving.stopped)
    stopped = driving.stopped or error
    paused = found_in(error, (Suspended,)) or found_in(stopped, (Suspended,))
    if paused is not None:
        return await _rest(driving, paused)
    driving.forget_errors()
    parked = found_in(stopped, (Parked,)) or found_in(error, (Parked,))
    if parked is not None:
        return await _park(driving, parked)
    if isinstance(error, Exception) or driving.raised(error):
        return await _fail(driving, error)
    await driving.write(runs.release)  # the process is being stopped: another one goes on
    raise error


async def _fail(driving: AsyncDriving, error: BaseException) -> Drive:
    """The run ends by an error: of its own, or because it was cancelled."""
    cancelled = driving.lease.cancelling or isinstance(error, Cancelled)
    status = RunStatus.CANCELLED if cancelled else RunStatus.FAILED
    blamed = driving.undone_for(error) or blamed_in(error, driving.stream.name)
    end = driving.ending  # whatever its program made of that
    why = error_of(error) if end is None else EffectError(end.code, str(end))
    await driving.write(end_run, driving.caller.core.epoch, status, None, why, blamed)
    if cancelled:
        return Drive(status, why.code)
    about = {
        "run": driving.stream.name,
        "agent": driving.agent.name,
        "why": why.code,
        "trace": whence(error, log, driving.stream.name),
    }
    log.warning("its program raised", extra=about)
    return Drive(status, why.code, cause=error)


async def _give_back(driving: AsyncDriving, trouble: BaseException) -> NoReturn:
    """The store was away, or the lease is lost: the run goes on from what is recorded, here or elsewhere. Raises the trouble."""
    if not isinstance(trouble, Stale):
        driving.forget_errors()
        with suppress(Error):  # it is still away: whoever has the run knows, and takes it up again
            await driving.write(runs.release)
    raise trouble


async def _park(driving: AsyncDriving, error: Parked) -> Drive:
    facts: dict[str, Any] = {name: str(value) for name, value in error.facts.items()}
    changed = isinstance(error, Changed)
    said = facts.pop("reason", runs.UNDO_FAILED)
    reason = course.CHANGED if changed else said
    facts.pop("step", None)
    blamed = blamed_in(error, driving.stream.name)
    if blamed is not None:
        facts |= runs.blame(blamed)
    about = facts | {"hint": error.hint}
    await driving.write(runs.park, reason, error.message, about, driving.lease.before if changed else None)
    return Drive(RunStatus.PARKED, reason)


async def _rest(driving: AsyncDriving, paused: Suspended) -> Drive:
    """The run waits. What came in the meantime makes it ready at once: the verb looks under the stream's lock.

    One that waits though its time was over already (for doubt, or for what was sent to arrive) is not woken for that again.
    """
    timeout_at = None if driving.overdue else driving.record.timeout_at
    limit_us = None if timeout_at is None else instant_us(timeout_at, 0)
    await driving.write(course.go_to_rest, driving.lease, paused.reason, paused.wake_us, limit_us, driving.awaited)
    return Drive(RunStatus.WAITING, paused.reason)
