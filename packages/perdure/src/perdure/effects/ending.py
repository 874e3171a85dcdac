"""The end of runs: finishing and cancelling them, with their waits, plans and children. Verbs, each one commit.

    cancel ─┬─ nobody has it, and there is nothing to undo ──▶ end_run
            └─ else it is told (`runs.call_off`), undoes ────▶ end_run ──▶ cancel each run that it started and waits for

Callers: the driver of runs (`end_run`), and the handles (`cancel`). Keeps P13.
"""

from __future__ import annotations

from typing import Any

from perdure.effects import commits, ledger
from perdure.log.change import Stream
from perdure.model.records.effects import EffectError, EffectState
from perdure.model.records.runs import CALLED_OFF, RunRecord, RunStatus, WaitKind
from perdure.planes.execution import runs, waits
from perdure.stores.tx import Tx

UNDOABLE = (EffectState.COMMITTED, EffectState.IN_DOUBT, EffectState.FAILED, EffectState.UNDOING)


def end_run(tx: Tx, stream: Stream, epoch: int, status: RunStatus, *said: Any) -> None:
    """End a run, with its waits (`waits.end_run`). epoch: of the store.

    A cancelled run withdraws its planned effects (one that was planned before a restore is in doubt instead) and cancels the
    runs that it started, in the same commit. A failed run leaves the runs that it started: it may be tried again, and finds what
    they did.
    """
    children: list[Stream] = []
    if status is RunStatus.CANCELLED:
        _withdraw_plans(tx, stream, epoch)
        children = _open_children(tx, stream)
    waits.end_run(tx, stream, status, *said)
    for child in children:
        cancel(tx, child, f"run {stream.name}, which started it, was cancelled", epoch)


def _open_children(tx: Tx, stream: Stream) -> list[Stream]:
    """The runs that a run started and that are not over: it waits for each, whether or not it asked for the result.

    Those that were handed over are elsewhere.
    """
    found = [runs.find(tx, each.name) for each in waits.waiting(tx, stream, kind=WaitKind.CHILD)]
    return [child for child in found if not runs.was_moved(tx, child)]


def _withdraw_plans(tx: Tx, stream: Stream, epoch: int) -> None:
    why = "its run was cancelled"
    for meant in ledger.all_effects(tx, stream, after=runs.run(tx, stream).cut_seq, open_only=True):
        if meant.state is EffectState.PLANNED and meant.epoch == epoch:
            ledger.withdraw(tx, stream, meant.seq, EffectError(CALLED_OFF, why))
        elif meant.state is EffectState.PLANNED:
            commits.doubt_unwanted(tx, stream, meant, why, epoch)


def cancel(tx: Tx, stream: Stream, why: str, epoch: int) -> None:
    """The verb behind `cancel`. A run that is being driven, or has something to undo, is told to end; any other is over now.

    A run that was told before and was parked again is over, too: it cannot undo what it did. Raises Conflict for a run that was
    handed over.
    """
    record = runs.run(tx, stream)
    if record.ended:
        return
    runs.check_here(tx, stream)
    in_vain = record.status is RunStatus.PARKED and record.cancelling
    if record.status is RunStatus.RUNNING or (not in_vain and _can_undo(tx, stream, record)):
        runs.call_off(tx, stream)
        return
    end_run(tx, stream, epoch, RunStatus.CANCELLED, None, EffectError(CALLED_OFF, why or f"cancelled by {tx.actor}"))


def _can_undo(tx: Tx, stream: Stream, record: RunRecord) -> bool:
    done = ledger.all_effects(tx, stream, after=record.cut_seq)
    return any(each.rule.undo and each.state in UNDOABLE for each in done)
