"""Holding back what may have been done already: a new verb, while a record of another branch was not reached (P4, P13).

A program that was regrouped comes to a recorded call in another branch, at a place without a record. So a verb that does
something in the outside world, or is paid for, waits there until the records that may be that very verb were reached, or were
forgotten because the program cancelled their branch (`Journal.holding`, docs/decisions/0140). Callers: the verbs of runs.
"""

from __future__ import annotations

import logging
from time import monotonic
from typing import NamedTuple

from perdure.effects.commands import Pause, StandBy, Steps, StopProgram, write
from perdure.planes.execution import runs
from perdure.runtime.driving import LOOK_SECONDS, Driving
from perdure.runtime.journal import JournalEntry
from perdure.runtime.places import AFTERWARDS, Branch, is_named, lines_here

log = logging.getLogger("perdure.run")

SWIFT_LOOKS, STILL_LOOKS = 8, 10  # looks without a pause, and those that must see nothing move
LOOK_SECONDS_MAX = 0.05  # between looks that only wait to be released
TOLD_SECONDS = 10.0  # after which a verb that is held is logged and noted


class NewVerb(NamedTuple):
    """A verb at a place without a record. lines: the lines of work that stop while it waits."""

    branch: Branch
    place: str
    verb: JournalEntry
    lines: frozenset[str]


def hold_back(driving: Driving, branch: Branch, place: str, what: str, name: str, mark: str) -> Steps[None]:
    """Wait until no record holds a new verb any more; mostly none does. Parks the run as changed when no branch can move by
    itself, or when the agent's `hold=` has passed in which its program waited for something of its own.
    """
    if not driving.replay.journal.left or branch.path == AFTERWARDS:
        return
    new = _new_verb(branch, place, what, name, mark)
    try:
        holding = _held_by(driving, new)
        if holding is None:
            yield from _let_others_replay(driving)
            holding = _held_by(driving, new)
        if holding is not None:
            yield from _hold(driving, new, holding)
    except BaseException as error:  # the program may continue: a deadline of its own
        driving.note_interrupted(error, place, what, name, mark)
        raise
    driving.hold.check_going()


def is_held(driving: Driving, branch: Branch, place: str, what: str, name: str, mark: str) -> bool:
    """Whether a new verb would be held now."""
    ahead = driving.replay.journal.left
    return bool(ahead) and _held_by(driving, _new_verb(branch, place, what, name, mark)) is not None


def _new_verb(branch: Branch, place: str, what: str, name: str, mark: str) -> NewVerb:
    return NewVerb(branch, place, JournalEntry(what, name, mark, None), lines_here(branch))


def _let_others_replay(driving: Driving) -> Steps[None]:
    """Let the branches beside come as far as their records lead them at once, so that whatever differs there is seen first."""
    replay = driving.replay
    looks, progress = 0, replay.progress
    while driving.agent.is_async and replay.journal.left and looks < SWIFT_LOOKS:
        yield Pause(0)
        looks, progress = (looks + 1 if replay.progress == progress else 0), replay.progress


def _held_by(driving: Driving, new: NewVerb) -> str | None:
    driving.replay.catch_up()
    return driving.replay.journal.holding(*new, frozenset().union(*driving.activity.held))


def _hold(driving: Driving, new: NewVerb, holding: str) -> Steps[None]:
    activity, replay = driving.activity, driving.replay
    activity.held.append(new.lines)
    try:
        yield from _until_released(driving, new, holding)
    except BaseException:  # its program may end by this
        replay.given_up[holding] = replay.journal.left_out(holding, new.verb, new.place)
        raise
    finally:
        activity.held.remove(new.lines)
        activity.released += 1
        activity.judge = "" if activity.judge == new.place else activity.judge


def _until_released(driving: Driving, new: NewVerb, holding: str) -> Steps[None]:
    replay, activity = driving.replay, driving.activity
    began = idle_since = monotonic()
    looks = still = 0
    told, begun, progress = False, activity.begun, _progress(driving)
    while True:
        driving.hold.check_going()
        activity.judge = activity.judge or new.place  # one looks for all whether anything can move
        judges = activity.judge == new.place
        is_quiet = activity.busy == activity.takers == 0
        stands = yield StandBy(_pause_before(looks, judges=judges), judges=judges and is_quiet)
        if judges:
            replay.catch_up()
        looks, moved, worked = looks + 1, _progress(driving) != progress, activity.begun != begun
        progress, begun = _progress(driving), activity.begun
        if moved:
            still_holding = _held_by(driving, new)
            if still_holding is None:
                return
            holding = still_holding
        if moved or not is_quiet:
            idle_since = monotonic()
        still = still + 1 if stands and looks > SWIFT_LOOKS and not (moved or worked) else 0
        is_over = still >= STILL_LOOKS if driving.agent.is_async else stands and not is_named(holding)
        if is_over or monotonic() - idle_since >= driving.agent.hold_seconds:
            stopped = driving.hold.stop(replay.journal.left_out(holding, new.verb, new.place))
            yield StopProgram()
            raise stopped
        if not told and monotonic() - began >= TOLD_SECONDS:
            told = True
            yield from _tell(driving, new, holding)


def _progress(driving: Driving) -> tuple[int, int, int]:
    """Numbers that change with whatever may release a verb."""
    return (*driving.replay.progress, driving.activity.released)


def _pause_before(looks: int, *, judges: bool) -> float:
    """The pause before a look. Of many that are held one looks often, and the others less and less."""
    if looks < SWIFT_LOOKS:
        return 0
    return LOOK_SECONDS if judges else min(LOOK_SECONDS_MAX, LOOK_SECONDS * (looks - SWIFT_LOOKS + 1))


def _tell(driving: Driving, new: NewVerb, holding: str) -> Steps[None]:
    """Say that a verb is held, in the log and in the run's own events."""
    about = driving.about | {"place": new.place}
    log.warning("holds %s, because what is recorded at %s was not reached", new.verb, holding, extra=about)
    yield write(runs.note_held, str(new.verb), new.place, holding)
