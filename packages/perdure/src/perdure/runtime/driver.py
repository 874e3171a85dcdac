"""Driving a run: calls the agent's function from the start, lets recorded things give what they gave, records the rest.

One generator without colour, which yields commands (docs/decisions/0031). It gives the run's end, or leaves it waiting, parked
or to its present holder. Callers: the shells, for `store.drive`, `recover` and the worker. Keeps P2, P7, P13.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perdure.effects.commands import CallProgram, Read, Steps, Work, write
from perdure.effects.ending import end_run
from perdure.errors import Damaged, Parked, Stale
from perdure.model.crash_points import reach
from perdure.model.instants import instant_us
from perdure.model.lazily import lazily
from perdure.model.records.runs import RunStatus
from perdure.model.values import decode, encode
from perdure.planes.reading.durations import store_now
from perdure.planes.recovery import checkpoints
from perdure.runtime import resting, run_replay
from perdure.runtime.driving import Driving
from perdure.runtime.run_replay import Drive
from perdure.runtime.undoing import settle_open, stop_branches, undo_left

if TYPE_CHECKING:
    from perdure.runtime import workspace
else:
    (workspace,) = lazily("perdure.runtime", "workspace")


def drive(driving: Driving) -> Steps[Drive]:
    """Drive a run that was just claimed until it is over, waits, is parked, or is somebody else's."""
    driving.heartbeat.hold(driving.stream.uid)
    try:
        try:
            yield from _load(driving)
            reach("run.drive.before")
            # Parked when the workspace is not as the last checkpoint left it.
            if driving.agent.workspace is not None and driving.record.cuts:
                known = yield Read(workspace.last_known, (driving.stream,))
                yield Work(workspace.check, (driving.agent.workspace, known))
            result = yield from _call(driving)
            yield write(end_run, driving.core.epoch, RunStatus.COMPLETED, result)
            drive = Drive(RunStatus.COMPLETED, result=decode(encode(result)))  # as a reader gets it
        except GeneratorExit:  # nobody steps it any more: it leaves what a killed process leaves
            raise
        except BaseException as error:  # noqa: BLE001 - whatever ends an agent is recorded as its end
            drive = yield from resting.ended_by(driving, error)
        reach("run.drive.after")
        return drive
    except Stale:
        return Drive()  # somebody else has it: what was recorded under this lease stands, nothing else was written
    finally:
        driving.heartbeat.release(driving.stream.uid)


def _load(driving: Driving) -> Steps[None]:
    """Read what the run did since its last cut, and the state that it left there.

    Parked when that cannot be read: nobody can continue it, and nothing is known to have failed.
    """
    record, hold, stream = driving.record, driving.hold, driving.stream
    if record.timeout_at is not None:
        hold.ahead_us = driving.core.clocks.now() - (yield Read(store_now))
        hold.overdue = hold.is_over
    if hold.lease.first:
        return
    try:
        journal = yield Read(run_replay.journal_of, (stream, record.cut_seq))
        restored, cut_at_us = None, instant_us(record.created_at, 0)
        if record.cuts:
            restored = yield Read(checkpoints.restore, (stream,))
            cut_at_us = yield Read(run_replay.last_cut_us, (stream,))
    except Damaged as error:
        hint = f"`perdure verify`, restore what is damaged, then `perdure resume {stream.name}`"
        raise Parked(str(error), path=error.path, hint=hint, reason="damaged") from error
    driving.replay.load(journal, restored, cut_at_us)


def _call(driving: Driving) -> Steps[Any]:
    """The result of the agent's function. Before it ends by itself, sagas that it left behind are undone."""
    result: Any = None
    error: BaseException | None = None
    try:
        came = yield CallProgram()
        result, error = came.result, came.error
        yield from stop_branches(driving)
        driving.trunk.note_ends()
        driving.trunk.tasks.clear()
        if error is None:
            driving.check_returned()
    except BaseException as told:  # noqa: BLE001 - what keeps a program from being over ends it, too
        error = told
    if error is not None and not resting.ends_by(driving, error):
        raise error
    if error is not None:
        driving.check_raised()
    yield from undo_left(driving, error)
    yield from settle_open(driving, completes=error is None)
    if error is not None:
        raise error
    return result
