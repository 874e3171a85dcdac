"""The shared state of the branches of one driven run: four small objects with one duty each, and the engine of effects.

`Hold` is the lease and whether the program may continue. `Activity` is what its branches are at. `Replay` (in `run_replay`) is
the journal and where it stands. `Sagas` is what may have to be undone. The verbs of a run (`placing`, `waiting`, `outward`,
`undoing`, `cutting`) and its driving (`driver`) are generators over them, and yield commands (`effects.commands`). Keeps P7, P13.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from perdure.effects.acting import Acting
from perdure.effects.commands import Await, Ending, StandBy, Steps
from perdure.effects.consulting import StepFunction, as_step_function
from perdure.effects.tool import Tool
from perdure.errors import Error, Parked
from perdure.model.instants import instant_us
from perdure.model.records.effects import EffectRecord
from perdure.model.records.runs import CALLED_OFF, RunRecord
from perdure.planes.execution import steps
from perdure.planes.execution.leases import Lease
from perdure.runtime import run_replay
from perdure.runtime.agent import Agent
from perdure.runtime.heartbeat import Heartbeat
from perdure.runtime.places import AFTERWARDS, Branch, BranchSpan, LeftSaga
from perdure.runtime.run_replay import Replay
from perdure.runtime.stopping import TIMED_OUT, TROUBLES, Leaving, found_in, is_end, origins
from perdure.stores.core import Core
from perdure.stores.tool_limits import Slots

LOOK_SECONDS = 0.002
QUIET_LOOKS = 3
FUNCTIONS_MAX = 256
TURN = "turn"


class Activity:
    """The activity of the branches of a run: it rests only when none of them does anything."""

    __slots__ = (
        "awaited", "awaiting", "begun", "busy", "held", "interrupted", "judge", "pruning", "released", "takers", "turns",
    )  # fmt: skip

    def __init__(self) -> None:
        self.busy = self.begun = 0  # operations under way, and so many were begun
        # Of each new verb that waits for records to be reached: the lines of work that stop for it.
        self.held: list[frozenset[str]] = []
        self.released = 0  # so many of them continued, or were given up
        self.judge = ""  # the place of the one that looks whether all stand still
        self.takers = 0  # waits for which a signal has come, and that have not taken it yet
        self.turns = Slots()  # one wait after the other
        self.pruning = 0  # while it is, branches are being stopped here, and not by the program
        self.interrupted = False  # whether something was stopped in the middle in this drive
        # Verbs, by place, that wait until their program cancels them, as in an earlier drive.
        self.awaiting: dict[str, str] = {}
        self.awaited: set[int] = set()  # waits, by number, that the program was at in this drive, not over then

    def begin(self) -> None:
        """Count an operation that begins. Its caller counts `busy` down at its end."""
        self.busy += 1
        self.begun += 1


class Hold:
    """A driver's hold on a run: its lease, the steps that are not recorded yet, and whether the program may continue."""

    __slots__ = (
        "_now", "_stopped", "_timeout_us", "activity", "ahead_us", "cancellation", "ending", "lease", "overdue", "refusals",
        "see_out", "shielded", "unsaid",
    )  # fmt: skip

    def __init__(self, lease: Lease, record: RunRecord, activity: Activity, now: Callable[[], int]) -> None:
        self.lease = lease
        self.activity = activity
        self._stopped: BaseException | None = None
        # Of an async drive that is cancelled from outside: the CancelledError that its program gets from then on.
        self.cancellation: Callable[[], BaseException | None] = lambda: None
        self.see_out: Callable[[], None] = lambda: None  # called when the program is stopped, or is to end
        self.ending: Ending | None = None  # the word to the program: it is cancelled, or its time is over
        self.refusals = 0  # so often
        self.shielded = 0  # while it is, cancelling waits
        self.ahead_us = 0  # of this process's clock, where one is needed: the store's decides
        self.overdue = False  # whether its time was over before this drive began
        self.unsaid: list[dict[str, Any]] = []  # steps that failed: recorded with what the program does next
        self._timeout_us = None if record.timeout_at is None else instant_us(record.timeout_at, 0)
        self._now = now

    @property
    def is_over(self) -> bool:
        """Whether the time of the run is over."""
        return self._timeout_us is not None and self._now() - self.ahead_us >= self._timeout_us

    def check_going(self) -> None:
        """Raise what must end the program now: the run is suspended or cancelled, or its time is over."""
        if self.stopped is not None:
            self.refusals += 1
            if not isinstance(self.stopped, Exception):
                raise self.stopped
            raise Ending(f"run {self.lease.stream.name} has stopped", type(self.stopped).__name__) from self.stopped
        self.check_staying()
        if self.shielded:
            return
        if self.lease.cancelling:
            self.ending = Ending(f"run {self.lease.stream.name} was cancelled", CALLED_OFF)
        elif self.is_over:
            self.ending = Ending(f"run {self.lease.stream.name} took too long", TIMED_OUT)
        if self.ending is not None:
            self.refusals += 1
            self.see_out()
            raise self.ending

    def check_staying(self) -> None:
        """Raise Leaving when the process is about to end: the run continues elsewhere."""
        if self.lease.leaving:
            raise Leaving

    @property
    def stopped(self) -> BaseException | None:
        """The reason why the program can do nothing more in this drive. One is that the drive is cancelled from outside: its run
        is given back, whatever its program makes of that.
        """
        self._stopped = self._stopped or self.cancellation()
        return self._stopped

    def stop(self, why: BaseException) -> BaseException:
        """Let the program do nothing more in this drive, even if it catches this. Gives what stopped it first."""
        self._stopped = self.stopped or why
        self.see_out()
        return self._stopped

    def park(self, why: Parked) -> None:
        """Let the program do nothing more in this drive for this reason, whatever else has stopped it."""
        self._stopped = why
        self.see_out()

    def troubled(self, trouble: Error) -> Error:
        """Stop the program because the store is away, or the lease is lost. Gives the error to raise."""
        self.stop(trouble)
        return trouble

    def forget_unsaid(self) -> None:
        """Drop the failed steps that are not recorded: the run ends by them, and tries them again when it is tried again."""
        self.unsaid.clear()

    # -- what a shell does around each write under the lease -----------------------------------------------------------------

    def begin_write(
        self, verb: Callable[..., Any], args: tuple[Any, ...]
    ) -> tuple[Callable[..., Any], tuple[Any, ...], list[dict[str, Any]]]:
        """The verb and its arguments as they are run: after the failed steps that are not recorded yet, which are given too.

        The run counts as busy until `wrote` or `not_written`: other branches may wait for this write.
        """
        self.activity.begin()
        said = self.unsaid
        if said:
            self.unsaid = []
            return steps.noting, (said, verb, *args), said
        return verb, args, said

    def wrote(self, seq: int) -> None:
        """The write is committed. seq: the head after it; 0 if the lease was given up."""
        self.activity.busy -= 1
        self.lease.seq = max(self.lease.seq, seq) if seq else 0

    def not_written(self, said: list[dict[str, Any]], error: BaseException) -> None:
        """The write failed, or its outcome is not known. Steps that were to be recorded with it are recorded with the next."""
        self.activity.busy -= 1
        if said:
            self.unsaid = said + self.unsaid
        if isinstance(error, TROUBLES):
            self.troubled(error)


class Sagas:
    """The sagas of a run: effects that may have to be undone, and their tools."""

    __slots__ = ("left", "open", "reached", "tools", "undone")

    def __init__(self) -> None:
        self.open = 0
        self.left: list[LeftSaga] = []  # sagas that did not come to their end, and are undone before the run does
        self.reached: set[int] = set()  # effects by number
        self.undone: dict[int, BaseException | None] = {}  # effects by number, with what they were undone for
        self.tools: dict[str, Tool] = {}

    def restart(self) -> None:
        """The journal begins anew: what came before is not undone any more."""
        self.left.clear()
        self.reached.clear()
        self.undone.clear()

    def done_in(self, effects: list[EffectRecord], spans: list[BranchSpan], begun: set[int]) -> list[EffectRecord]:
        """The effects to undo, in order: see `run_replay.done_in`."""
        return run_replay.done_in([each for each in effects if each.seq not in self.undone], spans, begun, self.reached)

    def undone_for(self, error: BaseException) -> int | None:
        """An effect, by number, that was undone for the error that ends the run now, so that the run cannot be tried again; None
        if there is none. A run that was cancelled or took too long ends by that, even if its program raised something else.
        """
        ends = {*map(id, origins(error))}
        return next((seq for seq, why in self.undone.items() if id(why) in ends or is_end(why)), None)


class Driving:
    """One lease on one run, and all that its branches share."""

    __slots__ = (
        "_functions", "acting", "activity", "afterwards", "agent", "core", "heartbeat", "hold", "record", "replay", "sagas",
        "stream", "trunk",
    )  # fmt: skip

    def __init__(
        self, core: Core, heartbeat: Heartbeat, actor: str, tenant: int, agent: Agent, lease: Lease, record: RunRecord
    ) -> None:
        self.core = core
        self.heartbeat = heartbeat
        self.agent = agent
        self.record = record
        self.stream = lease.stream
        self.trunk = Branch(hired=lease.hired)
        self.afterwards = Branch(AFTERWARDS, self.trunk)
        self.activity = Activity()
        self.hold = Hold(lease, record, self.activity, core.clocks.now)
        self.replay = Replay(record, self.trunk, core.clocks.now())
        self.sagas = Sagas()
        going = self.hold.check_going
        self.acting = Acting(core, lease.stream, actor, tenant, in_run=True, token=lease.token, going=going)
        self._functions: dict[Any, StepFunction] = {}

    @property
    def about(self) -> dict[str, str]:
        """The fields that logs add to whatever they say of it."""
        return {"run": self.stream.name, "agent": self.agent.name}

    def step_function(self, fn: Callable[..., Any]) -> StepFunction:
        """A function as a step calls it; looked at once."""
        found = self._functions.get(fn)
        if found is None:
            if len(self._functions) > FUNCTIONS_MAX:  # functions that are made anew for each step
                self._functions.clear()
            found = self._functions[fn] = as_step_function(fn)
        return found if found.fn is fn else found._replace(fn=fn)  # an equal one, such as the same method once more

    def observed(self) -> AbstractContextManager[None]:
        """The context in which the program is called: telemetry's, if there is any."""
        observer = self.core.lane.observer
        return nullcontext() if observer is None else observer.inside(self.stream)

    def begin_cut(self, number: int, seq: int) -> None:
        """The journal begins anew: places are counted from the start."""
        self.replay.begin_cut(number, seq, self.core.clocks.now())
        self.sagas.restart()
        self.activity.interrupted = False

    def check_unread(self, what: str) -> None:
        """Note that a program acts before it has read `run.restored`. Raises Parked if there is a checkpoint: the program may
        repeat what came before it.
        """
        self.replay.read_late = self.replay.read_late or what
        if self.record.cuts and not self.hold.shielded:
            raise self.hold.stop(run_replay.acts_unread(self.stream.name, what))

    def check_returned(self) -> None:
        """Check a program that returned. Raises what was to end it and was caught, or Changed if it left recorded work out."""
        told = self.hold.stopped or self.hold.ending  # in spite of what the program made of it
        if told is not None:
            raise told
        self.replay.check_used_up()

    def check_raised(self) -> None:
        """Check a program that ends by an error. Raises Changed if it gave up on a held verb and left out what held it."""
        if self.hold.ending is None:
            self.replay.check_given_up()

    @property
    def has_branches(self) -> bool:
        """Whether another branch of the run is at work beside its trunk."""
        return self.activity.busy > 0 or any(not task.done() for task in self.trunk.tasks)

    def note_interrupted(self, error: BaseException, place: str, what: str, name: str, mark: str) -> None:
        """Note that a verb was stopped in the middle. If its program did that (a deadline, a task that it cancelled) and
        continues, it is recorded with the next write: at a replay the verb must not come to its end either. The end of a
        drive is not the program's: nothing would stop the verb again.
        """
        self.activity.interrupted = True
        hold = self.hold
        by_program = hold.stopped is None and not (hold.lease.leaving or hold.shielded or self.activity.pruning)
        if by_program and is_cancellation(error):
            hold.unsaid.append(steps.document(place, steps.INTERRUPTED, mark, [what, name], None, {}))

    # -- its branches, which are tasks of one event loop ---------------------------------------------------------------------

    def idle(self) -> Steps[None]:
        """Wait until no branch of the run does anything any more, or is about to once a record is reached."""
        activity = self.activity
        return self._still(
            lambda begun: activity.busy == activity.takers == len(activity.held) == 0 and activity.begun == begun
        )

    def in_turn(self, replaying: Callable[[], bool], then: Steps[Any] | None = None) -> Steps[Any]:
        """Wait until the replay has passed, one branch after the other, then do `then`. A branch that the program stops on the
        way takes no signal.
        """
        activity = self.activity
        activity.takers += 1
        turn = activity.turns.take(TURN, 1)
        try:
            try:
                yield Await(turn)
                yield from self._still(
                    lambda begun: not replaying() or (activity.busy == 0 and activity.begun == begun)
                )
                return (yield from then) if then is not None else None
            finally:
                activity.turns.leave(TURN, turn)
        finally:
            activity.takers -= 1

    def _still(self, is_still: Callable[[int], bool]) -> Steps[None]:
        """Wait until several looks in a row find the run still, or it is stopped. is_still: gets the count of operations at the
        look before.
        """
        quiet = 0
        while quiet < QUIET_LOOKS and self.hold.stopped is None:
            before = self.activity.begun
            yield StandBy(LOOK_SECONDS)
            quiet = quiet + 1 if is_still(before) else 0


def is_cancellation(error: BaseException | None) -> bool:
    """Whether a task was cancelled. Programs without tasks do not pay for asyncio."""
    asyncio = sys.modules.get("asyncio")
    return asyncio is not None and isinstance(error, asyncio.CancelledError)


def stops_process(error: BaseException) -> bool:
    """Whether this error stops a process, or gives a run back: no agent raises it."""
    return found_in(error, (KeyboardInterrupt, GeneratorExit, Leaving)) is not None
