"""Verbs that a program cancelled in an earlier drive: each waits until its program cancels it again (docs/decisions/0023, 0142).

A verb that has waited for longer than its program can need is overdue. If nothing else of the run moves, the run is parked, and
`retry` takes back what its branches wait for. Generators, as in `placing`. Callers: `placing`, `outward`. Keeps P13.
"""

from __future__ import annotations

import logging

from perdure.effects.commands import AwaitCancellation, Read, Steps, StopProgram
from perdure.errors import Changed
from perdure.model.instants import SECOND_US
from perdure.planes.execution import leases
from perdure.runtime import run_replay
from perdure.runtime.driving import Driving

log = logging.getLogger("perdure.run")

OVERDUE_US = 60 * SECOND_US  # at least; else twice the time in which its program cancelled it
LOOK_SECONDS = 0.25
STILL_LOOKS = 3  # in a row must see nothing move


def stay_interrupted(driving: Driving, place: str, what: str, name: str, mark: str) -> Steps[None]:
    """Wait until the program cancels this verb, if it did so in an earlier drive. Any other verb passes at once.

    Parks the run when that is overdue, and nothing else of it moves.
    """
    if not driving.agent.is_async:
        return
    try:
        record = driving.replay.journal.interruption(place, what, name, mark)
    except Changed as changed:
        driving.hold.stop(changed)
        raise
    if record is None:
        return
    log.info("waits until its program stops %s again", name, extra=driving.about | {"place": place})
    awaiting = driving.activity.awaiting
    awaiting[place] = f"{what} {name}".rstrip()
    try:
        yield from _until_cancelled(driving, place, record.seq)
    finally:
        del awaiting[place]


def _until_cancelled(driving: Driving, place: str, seq: int) -> Steps[None]:
    now, activity = driving.core.clocks.now, driving.activity
    began_us = now()
    lasted_us = yield Read(leases.lasted_us, (driving.stream, seq))
    overdue_us = began_us + max(OVERDUE_US, 2 * lasted_us)
    still, before, moved_us = 0, -1, began_us
    while True:
        stands = yield AwaitCancellation(LOOK_SECONDS)
        driving.hold.check_going()
        if now() < overdue_us:
            continue
        if activity.busy or activity.begun != before:
            if before < 0:
                log.warning("its program does not stop it again", extra=driving.about | {"place": place})
            still, before, moved_us = 0, activity.begun, now()
        still = still + 1 if stands else 0
        if still >= STILL_LOOKS or now() - moved_us >= driving.agent.hold_seconds * SECOND_US:
            parked = run_replay.waits_to_be_stopped(driving.stream.name, place, activity.awaiting)
            driving.hold.stop(parked)
            yield StopProgram()
            raise driving.hold.stopped or parked
