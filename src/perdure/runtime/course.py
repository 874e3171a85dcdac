"""The course of a run, as far as it has no colour: its journal, its cuts, its rests, and what recorded things give.

Callers: the handles that drive runs, and `Run`. Keeps P8, P13.
"""

from __future__ import annotations

from typing import Any

from perdure.effects import ledger
from perdure.effects.judging import outcome_of
from perdure.effects.tool import Tool
from perdure.errors import Cancelled, Failed, Parked, Refused
from perdure.log.change import Stream
from perdure.model.records.effects import EffectError, EffectRecord, EffectState, ToolKind
from perdure.model.records.runs import RunRecord, RunStatus
from perdure.planes import checkpoints, runs, waits
from perdure.planes.runs import Lease
from perdure.runtime.journal import Journal
from perdure.stores.store import Reads
from perdure.stores.tx import Tx


def journal_of(reads: Reads, stream: Stream, after: int) -> Journal:
    """What a run did after an event."""
    done = ledger.all_effects(reads, stream, after=after)
    return Journal(runs.steps(reads, stream, after), done, waits.waits(reads, stream, after))


def cut(
    tx: Tx, stream: Stream, prepared: checkpoints.Prepared, since: int, noted: dict[str, Any] | None
) -> tuple[int, int]:
    """Save a state and begin the journal anew: the number of the cut, and its event. Refused while anything is open."""
    if ledger.effects(tx, stream, after=since, open_only=True, limit=1):
        raise Refused("a checkpoint would lose sight of effects that are not settled", path="checkpoint")
    if waits.waiting(tx, stream):
        raise Refused("a checkpoint would lose sight of what the run waits for", path="checkpoint")
    checkpoints.save(tx, stream, prepared)
    return runs.cut(tx, stream, noted), tx.seq(stream)


def go_to_rest(tx: Tx, stream: Stream, lease: Lease, reason: str, wake_us: int | None, limit_us: int | None) -> None:
    """Let a run wait until something comes or the first of these times is reached."""
    if lease.disturbed:  # an answer, a signal or a settlement came since it was taken: somebody must look at it
        runs.release(tx, stream)
        return
    times = [at for at in (wake_us, limit_us, waits.next_expiry(tx, stream)) if at is not None]
    runs.wait(tx, stream, reason, min(times, default=None))


def replayed(name: str, value: Any, error: EffectError | None) -> Any:
    """What a recorded step gives: its value, or Failed with what it raised."""
    if error is None:
        return value
    raise Failed(error.message, code=error.code, path=f"step {name}")


def usage_of(value: Any) -> Any:
    """What a model's answer says it used, if it says so."""
    return value.get("usage") if isinstance(value, dict) else None


def given(record: EffectRecord) -> Any:
    """What an effect gave its program. One that was undone later did happen: on replay the program goes the same way."""
    if record.state in (EffectState.UNDOING, EffectState.UNDONE) and record.error is None:
        return record.result
    return outcome_of(record)


def may_have_happened(record: EffectRecord) -> bool:
    """Whether there is something to undo: also after an idempotent tool was given up, of which nobody knows."""
    if record.state is EffectState.FAILED:
        return record.kind is ToolKind.IDEMPOTENT and record.settled_by is not None
    return record.state in (EffectState.COMMITTED, EffectState.UNDOING, EffectState.UNDONE)


def undo_args(tool: Tool, record: EffectRecord) -> dict[str, Any]:
    """What the undo of an effect is called with: of its arguments and its result, what it has parameters for."""
    known = tool.signature.parameters
    given = dict(record.args) | {"result": record.result}
    return {name: value for name, value in given.items() if name in known}


def ended_as(record: RunRecord) -> Any:
    """The result of a run that is over. Raises Failed, Cancelled or Parked if that is how it stands."""
    if record.status is RunStatus.COMPLETED:
        return record.result
    code, said = (
        (record.error.code, record.error.message) if record.error else (record.status.value, record.status.value)
    )
    where = f"run {record.id}"
    if record.status is RunStatus.PARKED:
        hint = f"`perdure show {record.id}`, then `perdure resume|retry|cancel|pin {record.id}`"
        raise Parked(said, path=where, hint=hint, reason=record.reason)
    kind = Cancelled if record.status is RunStatus.CANCELLED else Failed
    raise kind(said, code=code, path=where)
