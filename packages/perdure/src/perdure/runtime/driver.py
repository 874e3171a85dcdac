"""One drive of a run, from its claim to its rest: the program is called from the start, and what became of it is recorded.

    drive_run ─▶ load_run ─▶ call_program ─┬─ it returned ─▶ end_run: completed
                                           └─ it did not  ─▶ record_end ─▶ fail_run, park_run, rest_run or give_run_back

Generators over the `RunEngine` of the run, written once for sync and async (docs/decisions/0166). They give the run's end, or
leave it waiting, parked or to its present holder. Callers: the shells, for `store.drive`, `recover` and the worker. Keeps P2, P7,
P13.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from contextlib import suppress
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from perdure.effects.commands import CallProgram, Read, Steps, Work, write
from perdure.effects.ending import end_run
from perdure.effects.ledger import error_of
from perdure.errors import Cancelled, Changed, Damaged, Error, Failed, Imported, Parked, Stale
from perdure.log.change import Stream
from perdure.model.crash_points import reach
from perdure.model.display import whence
from perdure.model.instants import SECOND_US, duration_us, instant_us
from perdure.model.lazily import lazily
from perdure.model.records.effects import EffectError
from perdure.model.records.runs import RunRecord, RunStatus
from perdure.model.values import decode, encode
from perdure.planes.execution import parked_runs, runs, waits
from perdure.planes.execution.leases import Lease
from perdure.planes.reading.durations import Duration, store_now
from perdure.planes.recovery import checkpoints
from perdure.runtime.journal import load_journal
from perdure.runtime.run_engine import RunEngine
from perdure.runtime.run_state import is_cancellation, stops_process
from perdure.runtime.stopping import TROUBLES, Suspended, blamed_in, found_in, is_end
from perdure.stores.store import Reads
from perdure.stores.tx import Tx

if TYPE_CHECKING:
    from perdure.runtime import workspace
else:
    (workspace,) = lazily("perdure.runtime", "workspace")

log = logging.getLogger("perdure.run")

PATIENCE_US = 60 * SECOND_US  # for how long a sleep is waited for in place, if nobody says otherwise
DECIDED = (Parked, Imported)  # a person decides about these: the run is parked


class Drive(NamedTuple):
    """The result of one drive of a run: its status, and why, as a short code. status None: another driver has the run now."""

    status: RunStatus | None = None
    why: str = ""
    result: Any = None  # of one that was completed
    # The exception of its program: the store keeps what that says, and not where it was.
    cause: BaseException | None = None


def drive_run(engine: RunEngine) -> Steps[Drive]:
    """Drive a run that was just claimed until it is over, waits, is parked, or is somebody else's."""
    engine.end_without_program = partial(record_end, engine)
    engine.heartbeat.hold(engine.stream.uid)
    try:
        try:
            yield from load_run(engine)
            reach("run.drive.before")
            # Parked when the workspace is not as the last checkpoint left it.
            if engine.agent.workspace is not None and engine.record.cuts:
                known = yield Read(workspace.last_known, (engine.stream,))
                yield Work(workspace.check, (engine.agent.workspace, known))
            result = yield from call_program(engine)
            yield write(end_run, engine.core.epoch, RunStatus.COMPLETED, result)
            drive = Drive(RunStatus.COMPLETED, result=decode(encode(result)))  # as a reader gets it
        except GeneratorExit:  # nobody steps it any more: it leaves what a killed process leaves
            raise
        except BaseException as error:  # noqa: BLE001 - whatever ends an agent is recorded as its end
            drive = yield from record_end(engine, error)
        reach("run.drive.after")
        return drive
    except Stale:
        return Drive()  # somebody else has it: what was recorded under this lease stands, nothing else was written
    finally:
        engine.heartbeat.release(engine.stream.uid)


def load_run(engine: RunEngine) -> Steps[None]:
    """Read what the run did since its last cut, and the state that it left there.

    Parked when that cannot be read: nobody can continue it, and nothing is known to have failed.
    """
    record, hold, stream = engine.record, engine.hold, engine.stream
    if record.timeout_at is not None:
        hold.ahead_us = engine.core.clocks.now() - (yield Read(store_now))
        hold.overdue = hold.is_time_over
    if hold.lease.first:
        return
    try:
        journal = yield Read(load_journal, (stream, record.cut_seq))
        restored, cut_at_us = None, instant_us(record.created_at, 0)
        if record.cuts:
            restored = yield Read(checkpoints.restore, (stream,))
            cut_at_us = yield Read(last_cut_us, (stream,))
    except Damaged as error:
        hint = f"`perdure verify`, restore what is damaged, then `perdure resume {stream.name}`"
        raise Parked(str(error), path=error.path, hint=hint, reason="damaged") from error
    engine.replay.load(journal, restored, cut_at_us)


def last_cut_us(reads: Reads, stream: Stream) -> int:
    """The time, in microseconds, at which the last checkpoint of a run was saved; 0 if there is none."""
    saved = checkpoints.listing(reads, stream, name="default", limit=1).whole()
    return max((instant_us(checkpoint.at, 0) for checkpoint in saved), default=0)


def call_program(engine: RunEngine) -> Steps[Any]:
    """The result of the agent's function. Before it ends by itself, sagas that it left behind are undone."""
    result: Any = None
    error: BaseException | None = None
    try:
        came = yield CallProgram()
        result, error = came.result, came.error
        yield from engine.stop_branches()
        engine.trunk.note_ends()
        engine.trunk.tasks.clear()
        if error is None:
            engine.check_returned()
    except BaseException as end:  # noqa: BLE001 - what keeps a program from being over ends it, too
        error = end
    if error is not None and not ends_run(engine, error):
        raise error
    if error is not None:
        engine.check_raised()
    yield from engine.undo_left_sagas(error)
    yield from engine.settle_open_effects(completes=error is None)
    if error is not None:
        raise error
    return result


# -- a program that did not return -----------------------------------------------------------------------------------------------


def ends_run(engine: RunEngine, error: BaseException) -> bool:
    """Whether the run is over because its program raised this: it neither waits nor is parked, and continues nowhere else."""
    if engine.hold.stopped is not None or found_in(error, (Suspended, *DECIDED)) is not None:
        return False
    return isinstance(error, Exception) or _raised_by_agent(engine, error)


def _raised_by_agent(engine: RunEngine, error: BaseException) -> bool:
    """Whether the agent itself raised this, which is no Exception, and not something that stops the process.

    An agent may end a process that drives it in place, and never the process of a worker.
    """
    if stops_process(error):
        return False
    if is_end(error):
        return True
    lease = engine.hold.lease
    if engine.agent.is_async and is_cancellation(error):
        return not (lease.leaving or engine.hold.stopped is not None)
    return lease.driven_by_worker


def record_end(engine: RunEngine, error: BaseException) -> Steps[Drive]:
    """Record why the agent's function did not return. An exception of the program itself ends the run, whatever its class."""
    hold = engine.hold
    if isinstance(hold.stopped, TROUBLES):  # the agent has not come to its end
        yield from give_run_back(engine, hold.stopped)
    stopped = hold.stopped or error
    if stopped is hold.stopped and is_cancellation(stopped):  # nor has it here, whatever it raised
        hold.forget_unrecorded_steps()
        yield write(runs.release)
        raise stopped
    paused = found_in(error, (Suspended,)) or found_in(stopped, (Suspended,))
    if paused is not None:
        return (yield from rest_run(engine, paused))
    hold.forget_unrecorded_steps()
    parked = found_in(stopped, DECIDED) or found_in(error, DECIDED)
    if parked is not None:
        return (yield from park_run(engine, parked))
    if isinstance(error, Exception) or _raised_by_agent(engine, error):
        return (yield from fail_run(engine, error))
    yield write(runs.release)  # the process is being stopped: another one continues
    raise error


def fail_run(engine: RunEngine, error: BaseException) -> Steps[Drive]:
    """The run ends by an error: of its own, or because it was cancelled."""
    cancelled = engine.hold.lease.cancelling or isinstance(error, Cancelled)
    status = RunStatus.CANCELLED if cancelled else RunStatus.FAILED
    blamed = engine.sagas.undone_for(error) or blamed_in(error, engine.stream.name)
    end = engine.hold.ending  # in spite of what its program made of that
    why = error_of(error) if end is None else EffectError(end.code, str(end))
    yield write(end_run, engine.core.epoch, status, None, why, blamed)
    if cancelled:
        return Drive(status, why.code)
    trace = whence(error, log, engine.stream.name)
    log.warning("its program raised", extra=engine.about | {"why": why.code, "trace": trace})
    return Drive(status, why.code, cause=error)


def give_run_back(engine: RunEngine, trouble: BaseException) -> Steps[NoReturn]:
    """The store was away, or the lease is lost: the run continues from its records, here or elsewhere. Raises the trouble."""
    if not isinstance(trouble, Stale):
        engine.hold.forget_unrecorded_steps()
        with suppress(Error):  # it is still away: the next holder of the run takes it up again
            yield write(runs.release)
    raise trouble


def park_run(engine: RunEngine, error: Parked | Imported) -> Steps[Drive]:
    """The run is parked: a person decides how it continues."""
    facts: dict[str, Any] = {
        name: value if isinstance(value, list) else str(value) for name, value in error.facts.items()
    }
    changed = isinstance(error, Changed)
    reason = facts.pop("reason", parked_runs.MEETS_COPY if isinstance(error, Imported) else runs.UNDO_FAILED)
    reason = parked_runs.CHANGED if changed else reason
    facts.pop("step", None)
    blamed = blamed_in(error, engine.stream.name)
    if blamed is not None:
        facts |= runs.blame(blamed)
    about = facts | {"hint": error.hint}
    yield write(runs.park, reason, error.message, about, engine.hold.lease.before if changed else None)
    return Drive(RunStatus.PARKED, reason)


def rest_run(engine: RunEngine, paused: Suspended) -> Steps[Drive]:
    """The run waits. An answer that came in the meantime makes it ready at once: the verb looks under the stream's lock.

    One that waits though its time was over already (for doubt, or for what was sent to arrive) is not woken for that again.
    """
    hold = engine.hold
    timeout_at = None if hold.overdue else engine.record.timeout_at
    limit_us = None if timeout_at is None else instant_us(timeout_at, 0)
    awaited = engine.activity.awaited
    yield write(go_to_rest, hold.lease, paused.reason, paused.wake_us, limit_us, awaited)
    return Drive(RunStatus.WAITING, paused.reason)


def go_to_rest(
    tx: Tx, stream: Stream, lease: Lease, reason: str, wake_us: int | None, limit_us: int | None, awaited: Collection[int],
) -> None:  # fmt: skip
    """Let a run wait until something comes, or the first of these times is reached. awaited: waits that its program was at, by
    number.
    """
    if lease.disturbed:  # an answer, a signal or a settlement came since it was taken: somebody must look at it
        runs.release(tx, stream)
        return
    times = [at for at in (wake_us, limit_us, waits.next_expiry(tx, stream, awaited)) if at is not None]
    runs.wait(tx, stream, reason, min(times, default=None))


# -- for callers that wait for a run ---------------------------------------------------------------------------------------------


def run_result(record: RunRecord, cause: BaseException | None = None) -> Any:
    """The result of a completed run. Raises Failed (from its cause), Cancelled or Parked if it ended that way."""
    if record.status is RunStatus.COMPLETED:
        return record.result
    code, message = (
        (record.error.code, record.error.message) if record.error else (record.status.value, record.status.value)
    )
    where = f"run {record.id}"
    if record.status is RunStatus.PARKED:
        parked = Changed if record.reason == parked_runs.CHANGED else Parked
        hint = parked_runs.ways_on(record.id, record.reason, record.hint)
        raise parked(message, path=where, hint=hint, reason=record.reason)
    kind = Cancelled if record.status is RunStatus.CANCELLED else Failed
    raise kind(message, code=code, path=where) from cause


def patience_us(wait: Duration | bool | None) -> float:
    """The longest sleep, in microseconds, that a drive waits for in place. True: any; False: none; None: a minute."""
    if isinstance(wait, bool):
        return inf if wait else 0
    return PATIENCE_US if wait is None else duration_us(wait, "wait")
