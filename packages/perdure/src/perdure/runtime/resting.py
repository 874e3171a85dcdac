"""The end of a drive whose program did not return: the run ends, waits, is parked, or is given back.

Generators over the `Driving` of a run, as in `placing`. Callers: `driver`, and `placing` for a program that does not end.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import Any, NoReturn

from perdure.effects.commands import Steps, write
from perdure.effects.ending import end_run
from perdure.effects.ledger import error_of
from perdure.errors import Cancelled, Changed, Error, Imported, Parked, Stale
from perdure.model.display import whence
from perdure.model.instants import instant_us
from perdure.model.records.effects import EffectError
from perdure.model.records.runs import RunStatus
from perdure.planes.execution import parked_runs, runs
from perdure.runtime import run_replay
from perdure.runtime.driving import Driving, is_cancellation, stops_process
from perdure.runtime.run_replay import Drive
from perdure.runtime.stopping import TROUBLES, Suspended, blamed_in, found_in, is_end

log = logging.getLogger("perdure.run")

DECIDED = (Parked, Imported)  # a person decides about these: the run is parked


def ends_by(driving: Driving, error: BaseException) -> bool:
    """Whether the run is over because its program raised this: it neither waits nor is parked, and continues nowhere else."""
    if driving.hold.stopped is not None or found_in(error, (Suspended, *DECIDED)) is not None:
        return False
    return isinstance(error, Exception) or _raised(driving, error)


def _raised(driving: Driving, error: BaseException) -> bool:
    """Whether the agent itself raised this, which is no Exception, and not something that stops the process.

    An agent may end a process that drives it in place, and never the process of a worker.
    """
    if stops_process(error):
        return False
    if is_end(error):
        return True
    lease = driving.hold.lease
    if driving.agent.is_async and is_cancellation(error):
        return not (lease.leaving or driving.hold.stopped is not None)
    return lease.hired


def ended_by(driving: Driving, error: BaseException) -> Steps[Drive]:
    """Record why the agent's function did not return. An exception of the program itself ends the run, whatever its class."""
    hold = driving.hold
    if isinstance(hold.stopped, TROUBLES):  # the agent has not come to its end
        yield from _give_back(driving, hold.stopped)
    stopped = hold.stopped or error
    if stopped is hold.stopped and is_cancellation(stopped):  # nor has it here, whatever it raised
        hold.forget_unsaid()
        yield write(runs.release)
        raise stopped
    paused = found_in(error, (Suspended,)) or found_in(stopped, (Suspended,))
    if paused is not None:
        return (yield from _rest(driving, paused))
    hold.forget_unsaid()
    parked = found_in(stopped, DECIDED) or found_in(error, DECIDED)
    if parked is not None:
        return (yield from _park(driving, parked))
    if isinstance(error, Exception) or _raised(driving, error):
        return (yield from _fail(driving, error))
    yield write(runs.release)  # the process is being stopped: another one continues
    raise error


def _fail(driving: Driving, error: BaseException) -> Steps[Drive]:
    """The run ends by an error: of its own, or because it was cancelled."""
    cancelled = driving.hold.lease.cancelling or isinstance(error, Cancelled)
    status = RunStatus.CANCELLED if cancelled else RunStatus.FAILED
    blamed = driving.sagas.undone_for(error) or blamed_in(error, driving.stream.name)
    end = driving.hold.ending  # in spite of what its program made of that
    why = error_of(error) if end is None else EffectError(end.code, str(end))
    yield write(end_run, driving.core.epoch, status, None, why, blamed)
    if cancelled:
        return Drive(status, why.code)
    trace = whence(error, log, driving.stream.name)
    log.warning("its program raised", extra=driving.about | {"why": why.code, "trace": trace})
    return Drive(status, why.code, cause=error)


def _give_back(driving: Driving, trouble: BaseException) -> Steps[NoReturn]:
    """The store was away, or the lease is lost: the run continues from its records, here or elsewhere. Raises the trouble."""
    if not isinstance(trouble, Stale):
        driving.hold.forget_unsaid()
        with suppress(Error):  # it is still away: the next holder of the run takes it up again
            yield write(runs.release)
    raise trouble


def _park(driving: Driving, error: Parked | Imported) -> Steps[Drive]:
    facts: dict[str, Any] = {
        name: value if isinstance(value, list) else str(value) for name, value in error.facts.items()
    }
    changed = isinstance(error, Changed)
    said = facts.pop("reason", parked_runs.MEETS_COPY if isinstance(error, Imported) else runs.UNDO_FAILED)
    reason = run_replay.CHANGED if changed else said
    facts.pop("step", None)
    blamed = blamed_in(error, driving.stream.name)
    if blamed is not None:
        facts |= runs.blame(blamed)
    about = facts | {"hint": error.hint}
    yield write(runs.park, reason, error.message, about, driving.hold.lease.before if changed else None)
    return Drive(RunStatus.PARKED, reason)


def _rest(driving: Driving, paused: Suspended) -> Steps[Drive]:
    """The run waits. An answer that came in the meantime makes it ready at once: the verb looks under the stream's lock.

    One that waits though its time was over already (for doubt, or for what was sent to arrive) is not woken for that again.
    """
    hold = driving.hold
    timeout_at = None if hold.overdue else driving.record.timeout_at
    limit_us = None if timeout_at is None else instant_us(timeout_at, 0)
    awaited = driving.activity.awaited
    yield write(run_replay.go_to_rest, hold.lease, paused.reason, paused.wake_us, limit_us, awaited)
    return Drive(RunStatus.WAITING, paused.reason)
