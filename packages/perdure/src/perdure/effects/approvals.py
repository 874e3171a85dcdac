"""Approvals: an effect that a person must approve of is planned together with the question, and dispatched only with a yes.

Verbs, each one commit, so that a caller that finds the effect also finds the question. Callers: the engine and the handles.
Keeps P2, P15.
"""

from __future__ import annotations

from perdure.effects import ledger
from perdure.effects.composed import answering, for_call
from perdure.effects.ledger import Intent, Sender
from perdure.effects.operator_verbs import ask_approval, is_approved
from perdure.effects.settling import UNAPPROVED, is_unapproved
from perdure.effects.tool import Refuse
from perdure.errors import Waiting
from perdure.log.change import Stream
from perdure.model.records.effects import EffectError, EffectRecord, EffectState
from perdure.model.records.runs import WaitRecord, WaitState
from perdure.planes.execution import waits
from perdure.planes.reading.durations import Duration
from perdure.stores.tx import Tx


def plan(
    tx: Tx, stream: Stream, intent: Intent, epoch: int, asked: Refuse | str | None, within: Duration | None = None
) -> EffectRecord:
    """Plan an effect, and record what must come before it is sent (see `ask`)."""
    return ask(tx, stream, for_call(ledger.plan)(tx, stream, intent, epoch), epoch, asked, within)


def ask(
    tx: Tx, stream: Stream, record: EffectRecord, epoch: int, asked: Refuse | str | None, within: Duration | None = None
) -> EffectRecord:
    """Record what must come before a planned effect is sent: a question asks a person for an approval, a refusal withdraws the
    effect. within: no answer by then is a no.
    """
    if asked is None or record.state is not EffectState.PLANNED:
        return record
    if isinstance(asked, Refuse):
        if record.epoch != epoch:  # it may have been sent by what a restore forgot
            return record
        return answering(ledger.withdraw)(tx, stream, record.seq, EffectError("Refused", asked.reason), "a guard")
    ask_approval(tx, stream, record, asked, within)
    return record


def dispatch_meant(tx: Tx, stream: Stream, intent: Intent, sender: Sender) -> tuple[EffectRecord, bool]:
    """`ledger.dispatch`, for an effect that needs no approval now. If a person was asked about it before, that answer is waited
    for.
    """
    found = ledger.standing(tx, stream, intent)
    if found is None:
        return ledger.dispatch_new(tx, stream, intent, sender), True
    return dispatch_planned(tx, stream, found.seq, sender)


def dispatch_planned(tx: Tx, stream: Stream, seq: int, sender: Sender) -> tuple[EffectRecord, bool]:
    """Dispatch a planned effect as `dispatch` does. Gives the effect, and whether this call dispatched it: one that another
    caller has dispatched is given as it stands.
    """
    record = permitted(tx, stream, seq, sender.epoch)
    if record.state is not EffectState.PLANNED or record.epoch != sender.epoch:
        return record, False
    return ledger.dispatch_planned(tx, stream, seq, sender), True


def dispatch(tx: Tx, stream: Stream, seq: int, sender: Sender) -> EffectRecord:
    """Dispatch a planned effect, if the person who was asked has approved of it; if not, see `refuse`. Raises Waiting while there
    is no answer.
    """
    record = permitted(tx, stream, seq, sender.epoch)
    refused = record.state is EffectState.WITHDRAWN or is_unapproved(record)
    return record if refused else ledger.dispatch_planned(tx, stream, seq, sender)


def permitted(tx: Tx, stream: Stream, seq: int, epoch: int) -> EffectRecord:
    """The effect as it stands. A planned one needs the yes of the person who was asked, whatever became of the store since.

    A no is treated as `refuse` says. Raises Waiting while there is no answer.
    """
    record = ledger.effect(tx, stream, seq)
    return _approved(tx, stream, record, epoch) if record.state is EffectState.PLANNED else record


def dispatch_again(tx: Tx, stream: Stream, seq: int, attempt: int, sender: Sender) -> tuple[EffectRecord, bool]:
    """Dispatch the next attempt of an effect in doubt, as `ledger.dispatch_again` does. Gives the effect, and whether it was
    dispatched: not if a person was asked about it and has not approved, because a restore puts that in doubt, too.
    """
    record = ledger.effect(tx, stream, seq)
    if record.state is EffectState.IN_DOUBT:
        record = _approved(tx, stream, record, sender.epoch)
    if is_unapproved(record):
        return record, False
    return ledger.dispatch_again(tx, stream, seq, attempt, sender), True


def _approved(tx: Tx, stream: Stream, record: EffectRecord, epoch: int) -> EffectRecord:
    asked = waits.for_effect(tx, stream, record.seq)
    approval = None if asked is None else waits.expire_if_over(tx, stream, asked.seq)
    if approval is not None and approval.state is WaitState.OPEN:
        raise waiting_for(record, approval)
    if approval is not None and not is_approved(approval, record):
        return refuse(tx, stream, record, approval, epoch)
    return record


def refuse(tx: Tx, stream: Stream, record: EffectRecord, approval: WaitRecord, epoch: int) -> EffectRecord:
    """Withdraw what a person did not approve of, or not in time. An effect that was planned before a restore is in doubt: in what
    was lost somebody may have approved of it. Its sender of then is taken to be gone.
    """
    late = approval.state is WaitState.EXPIRED
    why = "nobody approved in time" if late else f"{approval.met_by} did not approve"
    if record.epoch != epoch or record.state is EffectState.IN_DOUBT:
        return hold_back(tx, stream, record, why, epoch)
    error = EffectError("Refused", why)
    return answering(ledger.withdraw)(tx, stream, record.seq, error, approval.met_by or "")


def hold_back(tx: Tx, stream: Stream, record: EffectRecord, why: str, epoch: int) -> EffectRecord:
    """An effect that was planned before a restore shall not be sent; whether it was, nobody here knows."""
    said = EffectError(UNAPPROVED, f"{why}, but the store was restored since it was planned: it may have been sent")
    return ledger.doubt(tx, stream, record.seq, record.attempt, said, quiet=True, epoch=epoch)


def waiting_for(record: EffectRecord, approval: WaitRecord) -> Waiting:
    """The error that says which approval an effect waits for, and how to give it."""
    return Waiting(
        f"{approval.question} ({record.tool})", path=approval.id, hint=waits.answer_with(approval),
        asks=[approval.id], doubts=[],
    )  # fmt: skip
