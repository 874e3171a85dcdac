"""The state of one driven run, which all its branches share: its lease, its replay, what they do, and what may be undone.

    RunState ─┬─ hold      the lease, the steps that are not recorded yet, and whether the program may continue
              ├─ replay    the journal since the last cut, and counts of what was done since
              ├─ activity  the operations under way; a run rests only when there are none
              └─ sagas     effects that may have to be undone, and their tools

Callers: the engine of runs, its waits for other branches, the driver and the shells. Keeps P7, P13.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from perdure.effects.commands import Ending
from perdure.effects.effect_engine import EffectEngine
from perdure.effects.step_functions import StepFunction, as_step_function, with_limits
from perdure.effects.tool import Tool
from perdure.errors import Changed, Error, Parked
from perdure.model.instants import instant_us
from perdure.model.records.effects import EffectRecord
from perdure.model.records.runs import CALLED_OFF, RunRecord
from perdure.planes.execution import steps
from perdure.planes.execution.leases import Lease
from perdure.planes.reading.durations import Duration
from perdure.runtime import journal
from perdure.runtime.agent import Agent
from perdure.runtime.heartbeat import Heartbeat
from perdure.runtime.journal import AFTERWARDS, Branch, BranchSpan, Journal, LeftSaga
from perdure.runtime.stopping import TIMED_OUT, TROUBLES, Leaving, found_in, is_end, origins
from perdure.stores.core import Core
from perdure.stores.tool_limits import Slots

FUNCTIONS_MAX = 256
BEGIN_FROM_STATE = (
    'begin the agent with `state = run.restored or {"done": 0}`, before it does anything, and skip what `state` says '
    "is done"
)


class Activity:
    """The activity of the branches of a run: it rests only when none of them does anything."""

    __slots__ = (
        "awaited", "awaiting_cancellation", "begun", "busy", "held", "interrupted", "judge", "released", "stopping_branches",
        "takers", "turns",
    )  # fmt: skip

    def __init__(self) -> None:
        self.busy = self.begun = 0  # operations under way, and so many were begun
        # Of each new verb that waits for records to be reached: the lines of work that stop for it.
        self.held: list[frozenset[str]] = []
        self.released = 0  # so many of them continued, or were given up
        self.judge = ""  # the place of the one that looks whether all stand still
        self.takers = 0  # waits for which a signal has come, and that have not taken it yet
        self.turns = Slots()  # one wait after the other
        self.stopping_branches = 0  # while it is, branches are being stopped here, and not by the program
        self.interrupted = False  # whether something was stopped in the middle in this drive
        # Verbs, by place, that wait until their program cancels them, as in an earlier drive.
        self.awaiting_cancellation: dict[str, str] = {}
        self.awaited: set[int] = set()  # waits, by number, that the program was at in this drive, not over then

    def begin(self) -> None:
        """Count an operation that begins. Its caller counts `busy` down at its end."""
        self.busy += 1
        self.begun += 1


class Hold:
    """A driver's hold on a run: its lease, the steps that are not recorded yet, and whether the program may continue."""

    __slots__ = (
        "_now", "_stopped", "_timeout_us", "activity", "ahead_us", "cancellation", "ending", "lease", "overdue", "refusals",
        "see_out", "shielded", "unrecorded_steps",
    )  # fmt: skip

    def __init__(self, lease: Lease, record: RunRecord, activity: Activity, now: Callable[[], int]) -> None:
        self.lease = lease
        self.activity = activity
        self._stopped: BaseException | None = None
        # Of an async drive that is cancelled from outside: the CancelledError that its program gets from then on.
        self.cancellation: Callable[[], BaseException | None] | None = None
        self.see_out: Callable[[], None] = lambda: None  # called when the program is stopped, or is to end
        self.ending: Ending | None = None  # the word to the program: it is cancelled, or its time is over
        self.refusals = 0  # so often
        self.shielded = 0  # while it is, cancelling waits
        self.ahead_us = 0  # of this process's clock, where one is needed: the store's decides
        self.overdue = False  # whether its time was over before this drive began
        self.unrecorded_steps: list[dict[str, Any]] = []  # steps that failed: recorded with what the program does next
        self._timeout_us = None if record.timeout_at is None else instant_us(record.timeout_at, 0)
        self._now = now

    @property
    def is_time_over(self) -> bool:
        """Whether the time of the run is over."""
        return self._timeout_us is not None and self._now() - self.ahead_us >= self._timeout_us

    def check_may_continue(self) -> None:
        """Raise what must end the program now: the run is suspended or cancelled, or its time is over."""
        if self._stopped is not None or (self.cancellation is not None and self.stopped is not None):
            self._refuse()
        if self.lease.leaving:
            raise Leaving
        if self.shielded:
            return
        if self.lease.cancelling:
            self.ending = Ending(f"run {self.lease.stream.name} was cancelled", CALLED_OFF)
        elif self._timeout_us is not None and self.is_time_over:
            self.ending = Ending(f"run {self.lease.stream.name} took too long", TIMED_OUT)
        if self.ending is not None:
            self.refusals += 1
            self.see_out()
            raise self.ending

    def _refuse(self) -> None:
        stopped = self.stopped
        assert stopped is not None
        self.refusals += 1
        if not isinstance(stopped, Exception):
            raise stopped
        raise Ending(f"run {self.lease.stream.name} has stopped", type(stopped).__name__) from stopped

    def check_not_leaving(self) -> None:
        """Raise Leaving when the process is about to end: the run continues elsewhere."""
        if self.lease.leaving:
            raise Leaving

    @property
    def stopped(self) -> BaseException | None:
        """The reason why the program can do nothing more in this drive. One is that the drive is cancelled from outside: its run
        is given back, whatever its program makes of that.
        """
        if self._stopped is None and self.cancellation is not None:
            self._stopped = self.cancellation()
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

    def stop_for_trouble(self, trouble: Error) -> Error:
        """Stop the program because the store is away, or the lease is lost. Gives the error to raise."""
        self.stop(trouble)
        return trouble

    def forget_unrecorded_steps(self) -> None:
        """Drop the failed steps that are not recorded: the run ends by them, and tries them again when it is tried again."""
        self.unrecorded_steps.clear()

    # -- what a shell does around each write under the lease -----------------------------------------------------------------

    def begin_write(
        self, verb: Callable[..., Any], args: tuple[Any, ...]
    ) -> tuple[Callable[..., Any], tuple[Any, ...], list[dict[str, Any]]]:
        """The verb and its arguments as they are run: after the failed steps that are not recorded yet, which are given too.

        The run counts as busy until `end_write` or `fail_write`: other branches may wait for this write.
        """
        activity = self.activity
        activity.busy += 1
        activity.begun += 1
        failed_steps = self.unrecorded_steps
        if failed_steps:
            self.unrecorded_steps = []
            return steps.noting, (failed_steps, verb, *args), failed_steps
        return verb, args, failed_steps

    def end_write(self, seq: int) -> None:
        """The write is committed. seq: the head after it; 0 if the lease was given up."""
        self.activity.busy -= 1
        self.lease.seq = max(self.lease.seq, seq) if seq else 0

    def fail_write(self, failed_steps: list[dict[str, Any]], error: BaseException) -> None:
        """The write failed, or its outcome is not known. Steps that were to be recorded with it are recorded with the next."""
        self.activity.busy -= 1
        if failed_steps:
            self.unrecorded_steps = failed_steps + self.unrecorded_steps
        if isinstance(error, TROUBLES):
            self.stop_for_trouble(error)


class Replay:
    """Where a run stands: its journal since the last cut, the state that it saved there, and counts of what it did since."""

    __slots__ = (
        "_restored", "_trunk", "cut", "cut_at_us", "cut_seq", "effects", "given_up", "journal", "patches", "read_late", "steps",
        "unread",
    )  # fmt: skip

    def __init__(self, record: RunRecord, trunk: Branch, now_us: int) -> None:
        self.journal = Journal()
        self.cut, self.cut_seq, self.cut_at_us = record.cuts, record.cut_seq, now_us
        self.steps = self.effects = 0  # since the last cut
        self.patches: dict[str, bool] = {}  # which way the program goes, by place: one answer in one drive
        self.unread = True  # the program has not looked at `run.restored` in this drive
        self.read_late = ""  # the first thing that it did before it looked there
        # The error of a held verb that its program gave up on, by the place that held it.
        self.given_up: dict[str, Changed] = {}
        self._restored: Any = None
        self._trunk = trunk

    def load(self, journal: Journal, restored: Any, cut_at_us: int) -> None:
        """Take in the work of the run since its last cut, the state that it saved there, and the time of the cut."""
        self.journal, self._restored, self.cut_at_us = journal, restored, cut_at_us

    @property
    def restored(self) -> Any:
        """The state of the last checkpoint, for the program. From now on the program counts as having read it."""
        self.unread = False
        return self._restored

    @property
    def is_replaying(self) -> bool:
        """Whether things that were recorded are still ahead."""
        self.catch_up()
        return self.journal.is_replaying

    def first_records(self, place: str, path: str) -> tuple[float, float]:
        """`Journal.first_records`, of the journal as it stands."""
        return self.journal.first_records(place, path)

    def catch_up(self) -> None:
        """Forget what is recorded in branches that the program has cancelled."""
        self._trunk.note_ends()
        going = {path for task, path in self._trunk.tasks.items() if not task.done()}
        self.journal.forget_branches({*self._trunk.unfinished - going, AFTERWARDS})

    @property
    def progress(self) -> tuple[int, int]:
        """The numbers of records that are ahead, and of branches that were begun."""
        return len(self.journal.unreached), len(self._trunk.begun)

    def check_used_up(self) -> None:
        """Changed when the program ended without doing what is recorded."""
        self.journal.forget_branches({*self._trunk.unfinished, AFTERWARDS})
        self.journal.check_used_up()

    def check_given_up(self) -> None:
        """Changed when the program gave up on a verb that was held, and ended without doing what held it."""
        self.journal.forget_branches({*self._trunk.unfinished, AFTERWARDS})
        for place, changed in self.given_up.items():
            if place in self.journal.unreached:
                raise changed

    def begin_cut(self, number: int, seq: int, now_us: int) -> None:
        """The journal begins anew: places are counted from the start."""
        self.cut, self.cut_seq, self.cut_at_us = number, seq, now_us
        self.journal = Journal()
        self.steps = self.effects = 0
        self.given_up.clear()
        self._trunk.restart()


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

    def effects_to_undo(
        self, effects: list[EffectRecord], spans: list[BranchSpan], begun: set[int]
    ) -> list[EffectRecord]:  # fmt: skip
        """The effects to undo, in order: see `journal.effects_to_undo`."""
        candidates = [effect for effect in effects if effect.seq not in self.undone]
        return journal.effects_to_undo(candidates, spans, begun, self.reached)

    def undone_for(self, error: BaseException) -> int | None:
        """An effect, by number, that was undone for the error that ends the run now, so that the run cannot be tried again; None
        if there is none. A run that was cancelled or took too long ends by that, even if its program raised something else.
        """
        ends = {*map(id, origins(error))}
        return next((seq for seq, why in self.undone.items() if id(why) in ends or is_end(why)), None)


class RunState:
    """One lease on one run, and all that its branches share."""

    __slots__ = (
        "_functions", "activity", "afterwards", "agent", "core", "effects", "heartbeat", "hold", "record", "replay", "sagas",
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
        self.trunk = Branch(driven_by_worker=lease.driven_by_worker)
        self.afterwards = Branch(AFTERWARDS, self.trunk)
        self.activity = Activity()
        self.hold = Hold(lease, record, self.activity, core.clocks.now)
        self.replay = Replay(record, self.trunk, core.clocks.now())
        self.sagas = Sagas()
        self.effects = EffectEngine(
            core, lease.stream, actor, tenant, in_run=True, token=lease.token,
            check_may_continue=self.hold.check_may_continue,
        )  # fmt: skip
        self._functions: dict[Any, StepFunction] = {}

    @property
    def about(self) -> dict[str, str]:
        """The fields that logs add to whatever they say of it."""
        return {"run": self.stream.name, "agent": self.agent.name}

    def step_function(
        self, fn: Callable[..., Any], timeout: Duration | None = None, retries: int | None = None
    ) -> StepFunction:
        """A function as a step calls it, looked at once, with the deadline and the retries that its caller chose, if any."""
        function = self._functions.get(fn)
        if function is None:
            if len(self._functions) > FUNCTIONS_MAX:  # functions that are made anew for each step
                self._functions.clear()
            function = self._functions[fn] = as_step_function(fn)
        if function.fn is not fn:  # an equal one, such as the same method once more
            function = function._replace(fn=fn)
        return function if timeout is None and retries is None else with_limits(function, timeout, retries)

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
            run = self.stream.name
            raise self.hold.stop(
                Parked(
                    f"it has a checkpoint and comes to {what} before it reads run.restored: it may repeat what it did before "
                    "that",
                    path=f"run {run}", hint=f"{BEGIN_FROM_STATE}; deploy it, then `perdure resume {run}`", reason="unread",
                )
            )  # fmt: skip

    def check_real(self, what: str) -> None:
        """Raise Parked in a what-if run that may not act: a person cannot be asked about such a thing one by one. The run stops,
        even if its program catches that.
        """
        what_if = self.record.what_if
        if what_if is not None and not what_if.acts:
            raise self.hold.stop(
                Parked(
                    f"it only supposes another result in run {what_if.run}, and would {what}",
                    path=f"run {self.stream.name}",
                    hint="fork it anew and let that one act (--allow-effects), or leave it", reason="what-if",
                )
            )  # fmt: skip

    def check_returned(self) -> None:
        """Check a program that returned. Raises what was to end it and was caught, or Changed if it left recorded work out."""
        end = self.hold.stopped or self.hold.ending  # in spite of what the program made of it
        if end is not None:
            raise end
        self.replay.check_used_up()

    def check_raised(self) -> None:
        """Check a program that ends by an error. Raises Changed if it gave up on a held verb and left out what held it."""
        if self.hold.ending is None:
            self.replay.check_given_up()

    @property
    def has_branches(self) -> bool:
        """Whether another branch of the run is at work beside its trunk."""
        return self.activity.busy > 0 or any(not task.done() for task in self.trunk.tasks)

    def note_interrupted(self, error: BaseException, place: str, kind: str, name: str, digest: str) -> None:
        """Note that a verb was stopped in the middle. If its program did that (a deadline, a task that it cancelled) and
        continues, it is recorded with the next write: at a replay the verb must not come to its end either. The end of a
        drive is not the program's: nothing would stop the verb again.
        """
        self.activity.interrupted = True
        hold = self.hold
        from_outside = hold.lease.leaving or hold.shielded or self.activity.stopping_branches
        if hold.stopped is None and not from_outside and is_cancellation(error):
            hold.unrecorded_steps.append(steps.document(place, steps.INTERRUPTED, digest, [kind, name], None, {}))


def is_cancellation(error: BaseException | None) -> bool:
    """Whether a task was cancelled. Programs without tasks do not pay for asyncio."""
    asyncio = sys.modules.get("asyncio")
    return asyncio is not None and isinstance(error, asyncio.CancelledError)


def stops_process(error: BaseException) -> bool:
    """Whether this error stops a process, or gives a run back: no agent raises it."""
    return found_in(error, (KeyboardInterrupt, GeneratorExit, Leaving)) is not None
