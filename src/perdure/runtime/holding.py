"""Holding back what may have been done already: a new verb, while a record of another branch was not reached (P4, P13).

A program that was regrouped comes to a recorded call in another branch, at a place without a record. So whatever does something
in the outside world, or is paid for, waits there until the records that may be that very call were reached, or were forgotten
because the program cancelled their branch (`Journal.holding`, docs/decisions/0140). Callers: the verbs of runs.
"""

from __future__ import annotations

import logging
from time import monotonic
from typing import NamedTuple

from perdure.effects.commands import StandBy, Steps, StopProgram, write
from perdure.errors import Changed
from perdure.planes.execution import runs
from perdure.runtime.driving import LOOK_SECONDS, Driving
from perdure.runtime.journal import JournalEntry
from perdure.runtime.places import Branch, is_named

log = logging.getLogger("perdure.run")

SWIFT_LOOKS, STILL_LOOKS = 8, 10  # looks without a pause, and those that must see nothing move
LOOK_SECONDS_MAX = 0.05  # between looks that only wait to be released
TOLD_SECONDS = 10.0  # after which a verb that is held is logged and noted


class HeldVerb(NamedTuple):
    """A new verb that its program has come to."""

    branch: Branch
    place: str
    verb: JournalEntry


def hold_back(driving: Driving, branch: Branch, place: str, what: str, name: str, mark: str) -> Steps[None]:
    """Wait until no record holds a new verb any more; mostly none does. Parks the run as changed when no branch can move by
    itself, or when the agent's `hold=` has passed in which its program waited for something of its own.
    """
    held = HeldVerb(branch, place, JournalEntry(what, name, mark, None))
    holding = driving.replay.holding(*held)
    if holding is None:
        return
    activity, changed = driving.activity, driving.replay.journal.left_out(holding, held.verb, place)
    activity.held += 1
    try:
        yield from _until_released(driving, held, holding)
    except Changed:
        raise
    except BaseException as error:  # the program may end by this, or continue: a deadline of its own
        driving.replay.held[holding] = changed
        driving.note_interrupted(error, place, what, name, mark)
        raise
    finally:
        activity.held -= 1
        activity.judge = "" if activity.judge == place else activity.judge
    driving.hold.check_going()


def _until_released(driving: Driving, held: HeldVerb, holding: str) -> Steps[None]:
    replay, activity = driving.replay, driving.activity
    began = idle_since = monotonic()
    looks = still = 0
    told, begun, progress = False, activity.begun, replay.progress
    while True:
        driving.hold.check_going()
        activity.judge = activity.judge or held.place  # one looks for all whether anything can move
        judges = activity.judge == held.place
        is_quiet = activity.busy == activity.takers == 0
        stands = yield StandBy(_pause_before(looks, judges=judges), judges=judges and is_quiet)
        if judges:
            replay.catch_up()
        looks, moved, worked = looks + 1, replay.progress != progress, activity.begun != begun
        progress, begun = replay.progress, activity.begun
        if moved:
            released = replay.journal.holding(*held)
            if released is None:
                return
            holding = released
        if moved or not is_quiet:
            idle_since = monotonic()
        still = still + 1 if stands and looks > SWIFT_LOOKS and not (moved or worked) else 0
        is_over = still >= STILL_LOOKS if driving.agent.is_async else stands and not is_named(holding)
        if is_over or monotonic() - idle_since >= driving.agent.hold_seconds:
            stopped = driving.hold.stop(replay.journal.left_out(holding, held.verb, held.place))
            yield StopProgram()
            raise stopped
        if not told and monotonic() - began >= TOLD_SECONDS:
            told = True
            yield from _tell(driving, held, holding)


def _pause_before(looks: int, *, judges: bool) -> float:
    """The pause before a look. Of many that are held one looks often, and the others less and less."""
    if looks < SWIFT_LOOKS:
        return 0
    return LOOK_SECONDS if judges else min(LOOK_SECONDS_MAX, LOOK_SECONDS * (looks - SWIFT_LOOKS + 1))


def _tell(driving: Driving, held: HeldVerb, holding: str) -> Steps[None]:
    """Say that a verb is held, in the log and in the run's own events."""
    about = driving.about | {"place": held.place}
    log.warning("holds %s, because what is recorded at %s was not reached", held.verb, holding, extra=about)
    yield write(runs.note_held, str(held.verb), held.place, holding)
