"""The waits of one branch for the others: for their records to be reached, for its turn, for its program to cancel it again.

    hold_back              a new verb waits until no record may be that very verb (docs/decisions/0140)
    wait_for_cancellation  a verb that its program cancelled in an earlier drive waits until it does so again (0023, 0142)
    wait_for_turn          one branch after the other takes a signal, when the replay has passed
    wait_until_idle        a run is suspended when no branch does anything

A program that was regrouped comes to a recorded call in another branch, at a place without a record; so a verb that does
something in the outside world, or is paid for, is held back (`Journal.place_that_holds`). A verb that waits longer than its
program can need parks the run, if nothing else of it moves. Generators over the state of a run. Callers: the engine of runs.
Keeps P4, P13.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from time import monotonic
from typing import Any, NamedTuple

from perdure.effects.commands import Await, AwaitCancellation, Pause, Read, StandBy, Steps, StopProgram, write
from perdure.errors import Changed, Parked
from perdure.model.instants import SECOND_US
from perdure.planes.execution import leases, parked_runs, runs
from perdure.runtime.current_branch import lines_here
from perdure.runtime.journal import AFTERWARDS, Branch, JournalEntry, is_named
from perdure.runtime.run_state import RunState

log = logging.getLogger("perdure.run")

LOOK_SECONDS = 0.002
QUIET_LOOKS = 3
TURN = "turn"
SWIFT_LOOKS, STILL_LOOKS = 8, 10  # looks without a pause, and those that must see nothing move
LOOK_SECONDS_MAX = 0.05  # between looks that only wait to be released
TOLD_SECONDS = 10.0  # after which a verb that is held is logged and noted
# Of a wait to be cancelled, at least; else twice the time in which its program cancelled it.
OVERDUE_US = 60 * SECOND_US
CANCELLATION_LOOK_SECONDS = 0.25
CANCELLATION_STILL_LOOKS = 3  # in a row must see nothing move


class NewVerb(NamedTuple):
    """A verb at a place without a record. lines: the lines of work that stop while it waits."""

    branch: Branch
    place: str
    verb: JournalEntry
    lines: frozenset[str]


# -- a new verb ------------------------------------------------------------------------------------------------------------------


def hold_back(state: RunState, branch: Branch, place: str, kind: str, name: str, digest: str) -> Steps[None]:
    """Wait until no record holds a new verb any more; mostly none does. Parks the run as changed when no branch can move by
    itself, or when the agent's `hold=` has passed in which its program waited for something of its own.
    """
    if not state.replay.journal.unreached or branch.path == AFTERWARDS:
        return
    new = _new_verb(branch, place, kind, name, digest)
    try:
        holding = _held_by(state, new)
        if holding is None:
            yield from _let_others_replay(state)
            holding = _held_by(state, new)
        if holding is not None:
            yield from _hold(state, new, holding)
    except BaseException as error:  # the program may continue: a deadline of its own
        state.note_interrupted(error, place, kind, name, digest)
        raise
    state.hold.check_may_continue()


def is_held(state: RunState, branch: Branch, place: str, kind: str, name: str, digest: str) -> bool:
    """Whether a new verb would be held now."""
    ahead = state.replay.journal.unreached
    return bool(ahead) and _held_by(state, _new_verb(branch, place, kind, name, digest)) is not None


def _new_verb(branch: Branch, place: str, kind: str, name: str, digest: str) -> NewVerb:
    return NewVerb(branch, place, JournalEntry(kind, name, digest, None), lines_here(branch))


def _let_others_replay(state: RunState) -> Steps[None]:
    """Let the branches beside come as far as their records lead them at once, so that whatever differs there is seen first."""
    replay = state.replay
    looks, progress = 0, replay.progress
    while state.agent.is_async and replay.journal.unreached and looks < SWIFT_LOOKS:
        yield Pause(0)
        looks, progress = (looks + 1 if replay.progress == progress else 0), replay.progress


def _held_by(state: RunState, new: NewVerb) -> str | None:
    state.replay.catch_up()
    return state.replay.journal.place_that_holds(*new, frozenset().union(*state.activity.held))


def _hold(state: RunState, new: NewVerb, holding: str) -> Steps[None]:
    activity, replay = state.activity, state.replay
    activity.held.append(new.lines)
    try:
        yield from _until_released(state, new, holding)
    except BaseException:  # its program may end by this
        replay.given_up[holding] = replay.journal.left_out(holding, new.verb, new.place)
        raise
    finally:
        activity.held.remove(new.lines)
        activity.released += 1
        activity.judge = "" if activity.judge == new.place else activity.judge


def _until_released(state: RunState, new: NewVerb, holding: str) -> Steps[None]:
    replay, activity = state.replay, state.activity
    began = idle_since = monotonic()
    looks = still = 0
    told, begun, progress = False, activity.begun, _progress(state)
    while True:
        state.hold.check_may_continue()
        activity.judge = activity.judge or new.place  # one looks for all whether anything can move
        judges = activity.judge == new.place
        is_quiet = activity.busy == activity.takers == 0
        stands = yield StandBy(_pause_before(looks, judges=judges), judges=judges and is_quiet)
        if judges:
            replay.catch_up()
        looks, moved, worked = looks + 1, _progress(state) != progress, activity.begun != begun
        progress, begun = _progress(state), activity.begun
        if moved:
            still_holding = _held_by(state, new)
            if still_holding is None:
                return
            holding = still_holding
        if moved or not is_quiet:
            idle_since = monotonic()
        still = still + 1 if stands and looks > SWIFT_LOOKS and not (moved or worked) else 0
        is_over = still >= STILL_LOOKS if state.agent.is_async else stands and not is_named(holding)
        if is_over or monotonic() - idle_since >= state.agent.hold_seconds:
            stopped = state.hold.stop(replay.journal.left_out(holding, new.verb, new.place))
            yield StopProgram()
            raise stopped
        if not told and monotonic() - began >= TOLD_SECONDS:
            told = True
            yield from _tell(state, new, holding)


def _progress(state: RunState) -> tuple[int, int, int]:
    """Numbers that change with whatever may release a verb."""
    return (*state.replay.progress, state.activity.released)


def _pause_before(looks: int, *, judges: bool) -> float:
    """The pause before a look. Of many that are held one looks often, and the others less and less."""
    if looks < SWIFT_LOOKS:
        return 0
    return LOOK_SECONDS if judges else min(LOOK_SECONDS_MAX, LOOK_SECONDS * (looks - SWIFT_LOOKS + 1))


def _tell(state: RunState, new: NewVerb, holding: str) -> Steps[None]:
    """Say that a verb is held, in the log and in the run's own events."""
    about = state.about | {"place": new.place}
    log.warning("holds %s, because what is recorded at %s was not reached", new.verb, holding, extra=about)
    yield write(runs.note_held, str(new.verb), new.place, holding)


# -- a verb that was cancelled in an earlier drive -------------------------------------------------------------------------------


def wait_for_cancellation(state: RunState, place: str, kind: str, name: str, digest: str) -> Steps[None]:
    """Wait until the program cancels this verb, if it did so in an earlier drive. Any other verb passes at once.

    Parks the run when that is overdue, and nothing else of it moves.
    """
    if not state.agent.is_async:
        return
    try:
        record = state.replay.journal.interruption(place, kind, name, digest)
    except Changed as changed:
        state.hold.stop(changed)
        raise
    if record is None:
        return
    log.info("waits until its program stops %s again", name, extra=state.about | {"place": place})
    awaiting = state.activity.awaiting_cancellation
    awaiting[place] = f"{kind} {name}".rstrip()
    try:
        yield from _until_cancelled(state, place, record.seq)
    finally:
        del awaiting[place]


def _until_cancelled(state: RunState, place: str, seq: int) -> Steps[None]:
    now, activity = state.core.clocks.now, state.activity
    began_us = now()
    lasted_us = yield Read(leases.lasted_us, (state.stream, seq))
    overdue_us = began_us + max(OVERDUE_US, 2 * lasted_us)
    still, before, moved_us = 0, -1, began_us
    while True:
        stands = yield AwaitCancellation(CANCELLATION_LOOK_SECONDS)
        state.hold.check_may_continue()
        if now() < overdue_us:
            continue
        if activity.busy or activity.begun != before:
            if before < 0:
                log.warning("its program does not stop it again", extra=state.about | {"place": place})
            still, before, moved_us = 0, activity.begun, now()
        still = still + 1 if stands else 0
        if still >= CANCELLATION_STILL_LOOKS or now() - moved_us >= state.agent.hold_seconds * SECOND_US:
            parked = _waits_to_be_stopped(state, place)
            state.hold.stop(parked)
            yield StopProgram()
            raise state.hold.stopped or parked


def _waits_to_be_stopped(state: RunState, place: str) -> Parked:
    """The error of a program that cancelled a verb in an earlier drive, and does not do so again. It names all such verbs, by
    place: `retry` takes their interruptions back.
    """
    run, awaiting = state.stream.name, state.activity.awaiting_cancellation
    return Parked(
        f"its program cancelled {awaiting[place]} at {place} in an earlier drive, and does not again: nothing of it moves",
        path=f"run {run}", reason=parked_runs.INTERRUPTED, interrupted=[*awaiting],
        hint=f"`perdure retry {run}` does that anew: right if that drive was itself cancelled from outside (Ctrl-C, a deadline "
        f"around `drive`); `perdure resume {run}` waits once more",
    )  # fmt: skip


# -- turns, and rest -------------------------------------------------------------------------------------------------------------


def wait_for_turn(
    state: RunState, is_replaying: Callable[[], bool], then: Steps[Any] | None = None
) -> Steps[Any]:  # fmt: skip
    """Wait until the replay has passed, one branch after the other, then do `then`. A branch that the program stops on the way
    takes no signal.
    """
    activity = state.activity
    activity.takers += 1
    turn = activity.turns.take(TURN, 1)
    try:
        try:
            yield Await(turn)
            yield from _until_still(
                state, lambda begun: not is_replaying() or (activity.busy == 0 and activity.begun == begun)
            )
            return (yield from then) if then is not None else None
        finally:
            activity.turns.leave(TURN, turn)
    finally:
        activity.takers -= 1


def wait_until_idle(state: RunState) -> Steps[None]:
    """Wait until no branch of the run does anything any more, or is about to once a record is reached."""
    activity = state.activity
    return _until_still(
        state, lambda begun: activity.busy == activity.takers == len(activity.held) == 0 and activity.begun == begun
    )


def _until_still(state: RunState, is_still: Callable[[int], bool]) -> Steps[None]:
    """Wait until several looks in a row find the run still, or it is stopped. is_still: gets the count of operations at the look
    before.
    """
    quiet = 0
    while quiet < QUIET_LOOKS and state.hold.stopped is None:
        before = state.activity.begun
        yield StandBy(LOOK_SECONDS)
        quiet = quiet + 1 if is_still(before) else 0
