"""The replay of a run: its journal since the last cut, its cuts and rests, and the results of recorded steps and effects.

Callers: the engine of runs. Keeps P8, P13.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from math import inf
from typing import Any, NamedTuple

from perdure.effects import ledger
from perdure.effects.outcomes import outcome_of
from perdure.effects.storable import storable
from perdure.effects.tool import Tool
from perdure.errors import Cancelled, Changed, Damaged, Failed, Invalid, NewerSchema, Parked, Refused, TooLarge
from perdure.log.change import Stream
from perdure.model.instants import SECOND_US, duration_us, instant_us
from perdure.model.records.effects import EffectError, EffectRecord, EffectState, ToolKind, text_of
from perdure.model.records.runs import RunRecord, RunStatus, StepRecord, WaitKind
from perdure.model.values import digest
from perdure.planes.execution import parked_runs, runs, steps, waits
from perdure.planes.execution.leases import Lease
from perdure.planes.reading.durations import Duration
from perdure.planes.recovery import checkpoints
from perdure.runtime.journal import Journal
from perdure.runtime.places import AFTERWARDS, Branch, BranchSpan
from perdure.runtime.wait_for_branches import Wraps
from perdure.stores.store import Reads
from perdure.stores.tx import Tx

CHANGED = parked_runs.CHANGED
PATIENCE_US = 60 * SECOND_US  # for how long a sleep is waited for in place, if nobody says otherwise
UNSTORABLE = "Unstorable"  # the code of a step whose value could not be kept
UNKEPT = "unkept"  # the mark of such a step's error
BEGIN_FROM_STATE = (
    'begin the agent with `state = run.restored or {"done": 0}`, before it does anything, and skip what `state` says '
    "is done"
)


class Drive(NamedTuple):
    """The result of one drive of a run: its status, and why, as a short code. status None: another driver has the run now."""

    status: RunStatus | None = None
    why: str = ""
    result: Any = None  # of one that was completed
    cause: BaseException | None = (
        None  # the exception of its program: the store keeps what that says, and not where it was
    )


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
        if record.numbering == runs.BY_PYTHON:
            trunk.wraps = Wraps(self._began)

    def load(self, journal: Journal, restored: Any, cut_at_us: int) -> None:
        """Take in the work of the run since its last cut, the state that it saved there, and the time of the cut."""
        self.journal, self._restored, self.cut_at_us = journal, restored, cut_at_us

    @property
    def restored(self) -> Any:
        """The state of the last checkpoint, for the program. From now on the program counts as having read it."""
        self.unread = False
        return self._restored

    @property
    def replaying(self) -> bool:
        """Whether things that were recorded are still ahead."""
        self.catch_up()
        return self.journal.replaying

    def _began(self, place: str, path: str) -> tuple[float, float]:
        return self.journal.began(place, path)

    def catch_up(self) -> None:
        """Forget what is recorded in branches that the program has cancelled."""
        self._trunk.note_ends()
        going = {path for task, path in self._trunk.tasks.items() if not task.done()}
        self.journal.forget_in({*self._trunk.unfinished - going, AFTERWARDS})

    @property
    def progress(self) -> tuple[int, int]:
        """The numbers of records that are ahead, and of branches that were begun."""
        return len(self.journal.left), len(self._trunk.begun)

    def check_used_up(self) -> None:
        """Changed when the program ended without doing what is recorded."""
        self.journal.forget_in({*self._trunk.unfinished, AFTERWARDS})
        self.journal.check_used_up()

    def check_given_up(self) -> None:
        """Changed when the program gave up on a verb that was held, and ended without doing what held it."""
        self.journal.forget_in({*self._trunk.unfinished, AFTERWARDS})
        for place, changed in self.given_up.items():
            if place in self.journal.left:
                raise changed

    def begin_cut(self, number: int, seq: int, now_us: int) -> None:
        """The journal begins anew: places are counted from the start."""
        self.cut, self.cut_seq, self.cut_at_us = number, seq, now_us
        self.journal = Journal()
        self.steps = self.effects = 0
        self.given_up.clear()
        self._trunk.restart()


def journal_of(reads: Reads, stream: Stream, after: int) -> Journal:
    """The journal of a run after an event. Raises Parked when a newer Perdure recorded some of it, which this one cannot read."""
    try:
        done = ledger.all_effects(reads, stream, after=after)
        awaited = waits.waits(reads, stream, after)
        ends = waits.ends(reads, stream, after) if awaited else {}
        found, retried = steps.steps_and_retried(reads, stream, after)
        return Journal(found, done, awaited, ends, retried)
    except NewerSchema as error:
        hint = f"upgrade the workers, then `perdure resume {stream.name}`"
        raise Parked(error.message, path=error.path, hint=hint, reason="newer") from error


def cut(
    tx: Tx, stream: Stream, prepared: checkpoints.Prepared, since: int, noted: dict[str, Any] | None,
    about: tuple[str, ...] = (),
) -> tuple[int, int]:  # fmt: skip
    """Save a state and begin the journal anew: the number of the cut, and its event. Refused while anything is open.

    Only between branches: an ask, a sleep or a signal that is still open was waited for in one that was stopped (it lost a
    race), and is withdrawn in the same commit.
    """
    if in_the_way := left_open(tx, stream, since):
        hint = (
            "settle and await it first; or give the agent a policy (checkpoint=…), which then waits for a better moment"
        )
        raise Refused(f"a checkpoint would lose sight of {in_the_way}", path="checkpoint", hint=hint)
    for each in waits.waiting(tx, stream):
        waits.withdraw(tx, stream, each.seq, "a checkpoint")
    checkpoints.save(tx, stream, prepared, about=about)
    return runs.cut(tx, stream, noted), tx.seq(stream)


def left_open(reads: Reads, stream: Stream, since: int) -> str:
    """The obstacle to cutting a run, for people; empty if there is none. Another drive may differ: a child ends at any time."""
    if ledger.effects(reads, stream, after=since, open_only=True, limit=1).whole():
        return "effects that are not settled"
    kept = (WaitKind.CHILD, WaitKind.APPROVAL)
    return "an open wait of the run" if any(each.kind in kept for each in waits.waiting(reads, stream)) else ""


def patience_us(wait: Duration | bool | None) -> float:
    """The longest sleep, in microseconds, that a drive waits for in place. True: any; False: none; None: a minute."""
    if isinstance(wait, bool):
        return inf if wait else 0
    return PATIENCE_US if wait is None else duration_us(wait, "wait")


def last_cut_us(reads: Reads, stream: Stream) -> int:
    """The time, in microseconds, at which the last checkpoint of a run was saved; 0 if there is none."""
    return max(
        (instant_us(each.at, 0) for each in checkpoints.listing(reads, stream, name="default", limit=1).whole()),
        default=0,
    )


def go_to_rest(
    tx: Tx,
    stream: Stream,
    lease: Lease,
    reason: str,
    wake_us: int | None,
    limit_us: int | None,
    awaited: Collection[int],
) -> None:
    """Let a run wait until something comes, or the first of these times is reached. awaited: waits that its program was at, by
    number.
    """
    if lease.disturbed:  # an answer, a signal or a settlement came since it was taken: somebody must look at it
        runs.release(tx, stream)
        return
    times = [at for at in (wake_us, limit_us, waits.next_expiry(tx, stream, awaited)) if at is not None]
    runs.wait(tx, stream, reason, min(times, default=None))


def step_result(step: StepRecord) -> Any:
    """The result of a recorded step: its value, or Failed with what it raised; Invalid again if its value could not be kept."""
    if step.error is None:
        return step.value
    if step.error.code == UNSTORABLE:
        raise unkept(step.notes.get(UNKEPT) or {"message": step.error.message, "path": f"step {step.name}"}, step.place)
    raise failed_step(step.place, step.name, step.error)


def unkept_notes(error: Invalid, value: Any, *, brief: bool) -> dict[str, Any]:
    """The record of a value that could not be kept: the error that its program gets, and the value with each part that no store
    takes as text, unless only its digest was to be kept (brief).
    """
    said = {"message": text_of(error.message), "path": text_of(error.path), "hint": text_of(error.hint)}
    return {UNKEPT: {"too_large": isinstance(error, TooLarge), **said, **({} if brief else {"kept": storable(value)})}}


def unkept(noted: dict[str, Any], place: str) -> Invalid:
    """The error of a step whose value could not be kept, now and at every replay."""
    kind = TooLarge if noted.get("too_large") else Invalid
    kept = {"kept": noted["kept"]} if "kept" in noted else {}
    return kind(noted["message"], path=noted["path"], hint=noted.get("hint", ""), step=place, **kept)


def failed_step(place: str, name: str, said: EffectError) -> Failed:
    """The error that a program gets of a step that failed, now and at every replay; its place is what `retry` does anew."""
    return Failed(said.message, code=said.code, path=f"step {name}", step=place)


def child_result(child: str, said: Any, place: str | None) -> Any:
    """The result of a child for the run that started it. Raises Failed with the error by which the child failed.

    place: where it was started, which is what `retry` does anew.
    """
    match said:
        case {"error": [str(code), str(message)]}:
            raise Failed(message, code=code, path=f"run {child}", step=place)
        case {"result": result}:
            return result
    raise Damaged("the stored data is no end of a run", path=f"run {child}")


def read_again(step: StepRecord, value: Any) -> Any:
    """The result of a step of which only the digest is kept. Parked when it is not what it gave before: replay must not
    differ.
    """
    now = digest(value, "result").hex()
    if now != step.gave:
        raise reads_otherwise(step, now)
    return value


def reads_otherwise(step: StepRecord, now: str) -> Parked:
    """The error of a reading that cannot be repeated, with what it gave before and now."""
    return Parked(
        f"{step.name} gave {step.gave} and now gives {now}: the run cannot continue as it began", path=f"step {step.name}",
        hint="put back what it read and `perdure resume` the run, or `perdure retry` it with what is read now",
        reason="reread", step=step.place, expected=step.gave, found=now,
    )  # fmt: skip


def saves_unread(first: str) -> Refused:
    """The error of a checkpoint in a program that does not begin from it. first: what it did before it looked."""
    late = f"reads run.restored only after {first}" if first else "never reads run.restored"
    return Refused(
        f"this agent saves a state, but {late}: after a crash it would repeat what it did before the checkpoint",
        path="checkpoint", hint=f"{BEGIN_FROM_STATE}, then run.checkpoint(state) again and again",
    )  # fmt: skip


def acts_unread(run: str, what: str) -> Parked:
    """The error of a resumed program that acts before it knows what it did before its checkpoint."""
    return Parked(
        f"it has a checkpoint and comes to {what} before it reads run.restored: it may repeat what it did before that",
        path=f"run {run}", hint=f"{BEGIN_FROM_STATE}; deploy it, then `perdure resume {run}`", reason="unread",
    )  # fmt: skip


def waits_to_be_stopped(run: str, place: str, awaiting: Mapping[str, str]) -> Parked:
    """The error of a program that cancelled a verb in an earlier drive, and does not do so again. awaiting: all such verbs, by
    place: `retry` takes their interruptions back.
    """
    return Parked(
        f"its program cancelled {awaiting[place]} at {place} in an earlier drive, and does not again: nothing of it moves",
        path=f"run {run}", reason=parked_runs.INTERRUPTED, interrupted=[*awaiting],
        hint=f"`perdure retry {run}` does that anew: right if that drive was itself cancelled from outside (Ctrl-C, a deadline "
        f"around `drive`); `perdure resume {run}` waits once more",
    )  # fmt: skip


def does_not_end(run: str, told: str) -> Parked:
    """The error of a program that catches every signal to end, and continues."""
    return Parked(
        f"{told}, and its program does not end: it catches that and tries again", path=f"run {run}", reason="does not end",
        hint="let it catch Exception at most (no bare `except:`, no `except BaseException`), deploy it, then `perdure resume` "
        "the run: it undoes what there is to undo; or `perdure cancel` it once more, which ends it as it is",
    )  # fmt: skip


def continues_interrupted(place: str) -> Refused:
    """The error of a program that continues in a branch in which an effect was stopped: the effect may happen all the same."""
    return Refused(
        f"its work at {place} was cancelled in the middle (by asyncio.timeout?), and may happen all the same", path=place,
        hint="a deadline belongs to the tool (timeout=) or to the wait; what may be stopped belongs in a task of its own",
    )  # fmt: skip


def effect_result(record: EffectRecord) -> Any:
    """The result of an effect for its program. Raises Failed for one that did not happen. One that was undone later did happen:
    at a replay the program goes the same way.
    """
    if record.state in (EffectState.UNDOING, EffectState.UNDONE) and record.error is None:
        return record.result
    return outcome_of(record)


def may_have_happened(record: EffectRecord) -> bool:
    """Whether an effect may have to be undone. One of an idempotent tool that was given up may have happened all the same."""
    if record.state is EffectState.FAILED:
        said_no = record.error is not None and record.error.code == "Declined"  # by a person, who is believed
        return record.kind is ToolKind.IDEMPOTENT and record.doubtful and not said_no
    return record.state in (EffectState.COMMITTED, EffectState.UNDOING, EffectState.UNDONE)


def done_in(
    effects: list[EffectRecord], spans: list[BranchSpan], begun: set[int], reached: set[int]
) -> list[EffectRecord]:
    """The effects in spans, newest first; before them those that an earlier drive undid, in its order.

    By place: a task that was stopped may not have come as far in this drive as in the one before. begun: effects by number
    that are undone in any case. reached: those that the program came to in this drive.
    """

    def did(effect: EffectRecord, span: BranchSpan) -> bool:
        place = effect.place
        return bool(place) and span.holds(place) and (effect.seq in reached or span.ends(place))

    undos = {each.undoes: each.seq for each in effects if each.undoes is not None}
    done = [each for each in effects if each.undoes is None]
    found = [each for each in done if each.seq in begun or any(did(each, span) for span in spans)]
    return sorted(found, key=lambda each: (each.seq not in undos, undos.get(each.seq, -each.seq)))


def undo_args(tool: Tool, record: EffectRecord) -> dict[str, Any]:
    """The arguments of the undo of an effect: those of its arguments, and its result, that the undo has parameters for."""
    known = tool.signature.parameters
    given = dict(record.args) | {"result": record.result}
    return {name: value for name, value in given.items() if name in known}


def run_result(record: RunRecord, cause: BaseException | None = None) -> Any:
    """The result of a completed run. Raises Failed (from its cause), Cancelled or Parked if it ended that way."""
    if record.status is RunStatus.COMPLETED:
        return record.result
    code, said = (
        (record.error.code, record.error.message) if record.error else (record.status.value, record.status.value)
    )
    where = f"run {record.id}"
    if record.status is RunStatus.PARKED:
        parked = Changed if record.reason == CHANGED else Parked
        hint = parked_runs.ways_on(record.id, record.reason, record.hint)
        raise parked(said, path=where, hint=hint, reason=record.reason)
    kind = Cancelled if record.status is RunStatus.CANCELLED else Failed
    raise kind(said, code=code, path=where) from cause
