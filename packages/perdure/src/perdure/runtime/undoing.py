"""Undoing: the effects of a failed saga are undone, newest first, and interrupted ones are settled before their run ends (P4).

Generators over the `Driving` of a run, as in `placing`. Each undo is an effect of its own. Callers: `Run`, `cutting`, `driver`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from perdure.effects import ledger
from perdure.effects.commands import Read, Steps, StopBranches
from perdure.effects.tool import DECLARED, Tool
from perdure.errors import Failed, Parked
from perdure.model.records.effects import EffectRecord, EffectState
from perdure.runtime import run_replay
from perdure.runtime.driving import Driving
from perdure.runtime.outward import LANDING, act, conclude
from perdure.runtime.places import AFTERWARDS, Branch, BranchPoint, BranchSpan, LeftSaga
from perdure.runtime.stopping import is_end
from perdure.runtime.waiting import suspend

UNDER_WAY = (EffectState.DISPATCHED, EffectState.IN_DOUBT)


def stop_branches(driving: Driving, since: BranchPoint = BranchPoint()) -> Steps[None]:  # noqa: B008 - a tuple
    """Stop the branches that began since a mark. The ledger has all that they were doing."""
    driving.activity.pruning += 1
    try:
        yield StopBranches(driving.trunk.tasks_since(since))
    finally:
        driving.activity.pruning -= 1


def leave_saga(driving: Driving, branch: Branch, mark: BranchPoint, error: BaseException | None) -> Steps[None]:
    """Leave a saga. Its effects are undone if it did not come to its end: now, or before the run ends if it was stopped."""
    driving.sagas.open -= 1
    if error is None or driving.hold.stopped is not None:  # the run has not come to its end here
        return
    if isinstance(error, Exception) or is_end(error):
        yield from undo_since(driving, branch, mark, error)
    else:  # by a sister's failure, or because all stops: that is known when the run ends
        driving.sagas.left.append(LeftSaga(branch, mark, branch.mark(driving.replay.cut)))


def undo_since(driving: Driving, branch: Branch, mark: BranchPoint, why: BaseException | None) -> Steps[list[str]]:
    """Undo the effects of a branch since a mark, and of the branches that left it, newest first. Gives the ids of those that were
    undone. why: the error that they are undone for.
    """
    span = BranchSpan(mark, branch.mark(driving.replay.cut))
    driving.hold.shielded += 1
    try:
        yield from stop_branches(driving, mark)
        return (yield from _undo_in(driving, branch, [span], why))
    finally:
        driving.hold.shielded -= 1


def undo_left(driving: Driving, why: BaseException | None = None) -> Steps[None]:
    """Undo the sagas that were left behind when their branches were stopped; the run itself is about to end, or to be cut.

    In a branch of its own, so that places do not depend on how far each had come; what an earlier drive began to undo
    there is undone to its end.
    """
    spans = [each.span(driving.replay.cut) for each in driving.sagas.left]
    begun = driving.replay.journal.undoes_in(AFTERWARDS)
    if not spans and not begun:
        return
    driving.hold.shielded += 1
    try:
        yield from _undo_in(driving, driving.afterwards, spans, why, begun)
    finally:
        driving.hold.shielded -= 1
    driving.sagas.left.clear()


def settle_open(driving: Driving, *, completes: bool) -> Steps[None]:
    """Settle interrupted effects that were sent, by the rules of their tools, before the run ends: nobody would look at them
    again.

    The run waits if only a person, or a later time, can settle one. Planned effects are withdrawn if the run completes.
    """
    if not (driving.activity.interrupted or driving.replay.journal.unsettled):
        return
    driving.hold.shielded += 1
    try:
        for record in (yield from _effects(driving, open_only=True)):
            if record.state in UNDER_WAY:
                yield from conclude(driving, driving.trunk, _tool_of(driving, record), record)
            elif completes and record.state is EffectState.PLANNED and record.epoch == driving.core.epoch:
                yield from driving.acting.withdraw(record, "the run ended before it was sent", "the run")
    finally:
        driving.hold.shielded -= 1


def _effects(driving: Driving, *, open_only: bool = False) -> Steps[list[EffectRecord]]:
    """The effects of the run since its last cut."""
    asked = {"after": driving.replay.cut_seq, "open_only": open_only}
    return (yield Read(ledger.all_effects, (driving.stream,), asked))


def _tool_of(driving: Driving, record: EffectRecord) -> Tool | None:
    """The tool of an effect, which may not have been reached in this drive."""
    return driving.sagas.tools.get(record.tool) or DECLARED.get(record.tool)


def _undo_in(
    driving: Driving, branch: Branch, spans: list[BranchSpan], why: BaseException | None, begun: Iterable[int] = ()
) -> Steps[list[str]]:
    undone: list[str] = []
    yield from _settle_left(driving, branch, spans)
    effects = yield from _effects(driving)
    for record in driving.sagas.done_in(effects, spans, {*begun}):
        if record.rule.undo and run_replay.may_have_happened(record):
            yield from _undo(driving, branch, record)
            driving.sagas.undone[record.seq] = why
            undone.append(record.id)
    return undone


def _settle_left(driving: Driving, branch: Branch, spans: list[BranchSpan]) -> Steps[None]:
    """Settle interrupted effects in spans before anything is undone: a sent call may have happened."""
    for record in (yield from _effects(driving, open_only=True)):
        place = record.place if record.undoes is None else None
        mine = place is not None and any(span.holds(place) for span in spans)
        if mine and record.state in UNDER_WAY:
            tool = _tool_of(driving, record)
            if tool is not None:
                yield from conclude(driving, branch, tool, record)
            elif record.rule.undo:
                raise _parked(driving, record, "its tool is not known here", "import it, then `perdure resume`")


def _undo(driving: Driving, branch: Branch, record: EffectRecord) -> Steps[None]:
    """Undo one effect. The run waits while its call may be under way: one that arrives after its undo would stay."""
    tool = _tool_of(driving, record)
    if tool is None or tool.undo is None:
        why = f"its undo, {record.rule.undo}, is not known here"
        raise _parked(driving, record, why, "import it, then `perdure resume`")
    if record.state not in (EffectState.UNDOING, EffectState.UNDONE):
        under_way = yield from driving.acting.landed(record)
        if under_way is not None:
            yield from suspend(driving, LANDING, under_way.until_us)
    try:
        undo = yield from act(driving, branch, tool.undo, run_replay.undo_args(tool.undo, record), undoes=record)
        run_replay.effect_result(undo)
    except Failed as error:
        hint = "mend what failed, then `perdure unpark` the run, which tries the undo again; or undo it by hand and `perdure "
        hint += "cancel` the run, twice if it is parked once more: that ends it as it is"
        raise _parked(driving, record, error.message, hint, **error.facts) from error


def _parked(driving: Driving, record: EffectRecord, why: str, hint: str, **facts: Any) -> Parked:
    parked = Parked(f"{record.tool} could not be undone: {why}", path=record.id, hint=hint, **facts)
    driving.hold.park(parked)
    return parked
