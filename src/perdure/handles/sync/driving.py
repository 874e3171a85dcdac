# Generated from handles/aio/driving.py by tools/unasync.py: edit that one.
"""Driving a run here: calls the agent's function from the start, lets recorded things return what they gave, records the rest.

One `Driving` is one lease on one run: what all branches of it share. `drive` gives the run's end, or leaves it waiting,
parked or to whoever has it now. Callers: `drive`, `recover` and the worker. Keeps P2, P7, P13.
"""

from __future__ import annotations

import logging
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
from perdure.handles.callers import Caller
from perdure.handles.shells import Shell
from perdure.handles.sync.run import Run
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
from perdure.runtime import course, workspace
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


class Driving:
    """What the branches of one driven run share: the lease, the journal, the counters, and the fenced way to write."""

    __slots__ = (
        "_errors", "_functions", "_restored", "acting", "afterwards", "agent", "ahead_us", "awaited", "begun", "busy",
        "caller", "cut", "cut_at_us", "cut_seq", "effects", "ending", "interrupted", "journal", "lease", "left", "overdue",
        "patches", "pruning", "reached", "read_late", "record", "refusals", "sagas", "shell", "shielded", "steps", "stopped",
        "takers", "tools", "trunk", "turns", "undone", "unread",
    )  # fmt: skip

    def __init__(self, caller: Caller, agent: Agent, lease: Lease, record: RunRecord) -> None:
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
        self.shell = Shell(
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
        self._errors: list[dict[str, Any]] = []
        self._functions: dict[Any, Known] = {}

    @property
    def stream(self) -> Stream:
        """The run's stream."""
        return self.lease.stream

    def load(self) -> None:
        """Read what the run did since its last cut, and the state that it left there."""
        if self.record.timeout_at is not None:
            self.ahead_us = self.caller.core.clocks.now() - self.read(store_now)
            self.overdue = self._is_over
        if self.lease.first:
            return
        self.journal = self.read(course.journal_of, self.stream, self.record.cut_seq)
        self.cut_at_us = instant_us(self.record.created_at, 0)
        if self.record.cuts:
            self._restored = self.read(checkpoints.restore, self.stream)
            self.cut_at_us = self.read(course.last_cut_us, self.stream)

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

    def noted(self) -> dict[str, Any] | None:
        """What a checkpoint notes besides the state: what the agent's workspace holds."""
        if self.agent.workspace is None:
            return None
        return {"workspace": msgspec.to_builtins(self.caller.work(workspace.look, self.agent.workspace))}

    def check_workspace(self) -> None:
        """Parked when the workspace is not as the last checkpoint left it."""
        if self.agent.workspace is not None and self.record.cuts:
            known = self.read(workspace.last_known, self.stream)
            self.caller.work(workspace.check, self.agent.workspace, known)

    # -- writing -------------------------------------------------------------------------------------------------------------

    def write(self, verb: Callable[Concatenate[Tx, Stream, P], R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Run a verb on the run's stream under its lease; steps that failed before it land in the same commit."""
        return self._written(self.caller.write, verb, args, kwargs)

    def keep(self, verb: Callable[Concatenate[Tx, Stream, P], R], *args: P.args, **kwargs: P.kwargs) -> R:
        """`write` for what this process alone knows, what a call gave: a store that is away is waited for."""

        def write(*about: Any, **named: Any) -> Any:
            once = partial(self.caller.write, *about, **named)
            return self.caller.keep_trying(once, f"run {self.stream.name}", self.check_staying)

        return self._written(write, verb, args, kwargs)

    def _written(
        self, write: Callable[..., Any], verb: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        errors, self._errors = self._errors, []
        if errors:
            args = (errors, verb, *args)
            verb = steps.noting
        self.begin()  # a run does not rest while a branch of it is writing: it may be what the others wait for
        try:
            result, seq = write(leasing.fenced, self.lease, verb, *args, **kwargs)
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

    def check_lease(self) -> None:
        """Stale when the lease was lost: asked right before something is sent outside."""
        if not self.read(leasing.holds, self.lease):
            raise self.troubled(Stale(f"run {self.stream.name} is no longer this worker's", path="run"))

    def read(self, verb: Callable[Concatenate[Reader, P], R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Run a read verb for the run."""
        self.begin()
        try:
            return self.caller.read(verb, *args, **kwargs)
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

    def hold_up(self) -> None:
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
                _ended_by(self, self.stopped)
            self.caller.heartbeat.release(self.stream.uid)
        self.caller.pause(HELD_SECONDS)

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

    def end_branches(self, since: Mark = Mark()) -> None:  # noqa: B008 - a tuple
        """Stop the branches that left since a mark: what they were doing is in the ledger."""

    @property
    def has_branches(self) -> bool:
        """Whether something else of the run goes on beside its trunk."""
        return self.busy > 0 or any(not task.done() for task in self.trunk.tasks_since(Mark()))

    def take_signal(self, seq: int, name: str) -> WaitRecord | None:
        """Let an open wait of a branch take the oldest signal of its name; None if there is none.

        One wait after the other: a branch that is stopped because another one got its signal (it lost a race) takes none with it.
        """
        if not self.read(waits.has_signal, self.stream, name):
            return None
        return self.write(waits.take_signal, seq, name)


def drive_claimed(caller: Caller, agent: Agent, lease: Lease, record: RunRecord | None = None) -> Drive:
    """Drive a run that was just claimed until it is over, waits, is parked, or is somebody else's.

    record: how it stood right before, if that is known.
    """
    if record is None or not lease.first:
        record = caller.read(runs.run, lease.stream)
    driving = Driving(caller, agent, lease, record)
    caller.heartbeat.hold(lease.stream.uid)
    try:
        return _drive(driving)
    except Stale:
        return Drive()  # somebody else has it: what was recorded under this lease stands, nothing else was written
    finally:
        caller.heartbeat.release(lease.stream.uid)


def _drive(driving: Driving) -> Drive:
    try:
        _load(driving)
        reach("run.drive.before")
        driving.check_workspace()
        result = _call(driving)
        driving.write(end_run, driving.caller.core.epoch, RunStatus.COMPLETED, result)
        drive = Drive(RunStatus.COMPLETED, result=decode(encode(result)))  # as whoever reads it gets it
    except BaseException as error:  # noqa: BLE001 - whatever ends an agent is recorded as its end
        drive = _ended_by(driving, error)
    reach("run.drive.after")
    return drive


def _load(driving: Driving) -> None:
    """Parked when what the run did cannot be read: nobody can go on with it, and nothing is known to have failed."""
    try:
        driving.load()
    except Damaged as error:
        hint = f"`perdure verify`, restore what is damaged, then `perdure resume {driving.stream.name}`"
        raise Parked(str(error), path=error.path, hint=hint, reason="damaged") from error


def _call(driving: Driving) -> Any:
    """What the agent's function gives. Before it ends by itself, sagas that it left behind are undone."""
    run = Run(driving, driving.trunk)
    with standing_in(driving.trunk):
        try:
            result = _called(driving, run)
            driving.check_returned()
        except BaseException as error:
            if driving.ends_by(error):
                run._undo_left()
                run._settle_open(completes=False)
            raise
        run._undo_left()
        run._settle_open(completes=True)
    return result


def _called(driving: Driving, run: Run) -> Any:
    try:
        return driving.agent.fn(run, *driving.record.args, **driving.record.kwargs)
    finally:
        driving.end_branches()
        driving.trunk.tasks.clear()


def _ended_by(driving: Driving, error: BaseException) -> Drive:
    """Record why the agent's function did not return. What a program raises itself is its end, whatever its class."""
    if isinstance(driving.stopped, TROUBLES):  # the agent has not come to its end
        _give_back(driving, driving.stopped)
    stopped = driving.stopped or error
    paused = found_in(error, (Suspended,)) or found_in(stopped, (Suspended,))
    if paused is not None:
        return _rest(driving, paused)
    driving.forget_errors()
    parked = found_in(stopped, (Parked,)) or found_in(error, (Parked,))
    if parked is not None:
        return _park(driving, parked)
    if isinstance(error, Exception) or driving.raised(error):
        return _fail(driving, error)
    driving.write(runs.release)  # the process is being stopped: another one goes on
    raise error


def _fail(driving: Driving, error: BaseException) -> Drive:
    """The run ends by an error: of its own, or because it was cancelled."""
    cancelled = driving.lease.cancelling or isinstance(error, Cancelled)
    status = RunStatus.CANCELLED if cancelled else RunStatus.FAILED
    blamed = driving.undone_for(error) or blamed_in(error, driving.stream.name)
    end = driving.ending  # whatever its program made of that
    why = error_of(error) if end is None else EffectError(end.code, str(end))
    driving.write(end_run, driving.caller.core.epoch, status, None, why, blamed)
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


def _give_back(driving: Driving, trouble: BaseException) -> NoReturn:
    """The store was away, or the lease is lost: the run goes on from what is recorded, here or elsewhere. Raises the trouble."""
    if not isinstance(trouble, Stale):
        driving.forget_errors()
        with suppress(Error):  # it is still away: whoever has the run knows, and takes it up again
            driving.write(runs.release)
    raise trouble


def _park(driving: Driving, error: Parked) -> Drive:
    facts: dict[str, Any] = {name: str(value) for name, value in error.facts.items()}
    changed = isinstance(error, Changed)
    said = facts.pop("reason", runs.UNDO_FAILED)
    reason = course.CHANGED if changed else said
    facts.pop("step", None)
    blamed = blamed_in(error, driving.stream.name)
    if blamed is not None:
        facts |= runs.blame(blamed)
    about = facts | {"hint": error.hint}
    driving.write(runs.park, reason, error.message, about, driving.lease.before if changed else None)
    return Drive(RunStatus.PARKED, reason)


def _rest(driving: Driving, paused: Suspended) -> Drive:
    """The run waits. What came in the meantime makes it ready at once: the verb looks under the stream's lock.

    One that waits though its time was over already (for doubt, or for what was sent to arrive) is not woken for that again.
    """
    timeout_at = None if driving.overdue else driving.record.timeout_at
    limit_us = None if timeout_at is None else instant_us(timeout_at, 0)
    driving.write(course.go_to_rest, driving.lease, paused.reason, paused.wake_us, limit_us, driving.awaited)
    return Drive(RunStatus.WAITING, paused.reason)
