"""The commits of an effect: each transaction that the engine of effects writes, as one verb. Keeps P2-P4, P14, P15.

    intent   plan_for_call, plan_with_precondition, plan_batch, keep_step_and_plan_batch, respond_and_plan_batch
    sending  dispatch_for_call (session), dispatch_under_lease (run), dispatch_if_approved, dispatch_again, dispatch_by_user
             take_back_dispatch: its caller was stopped before it heard of the commit
    outcome  commit_and_answer_call, fail_and_answer_call, end_and_dispatch_next, end_with_checkpoint, settle_and_answer_call
             plan_next_attempt, doubt_attempt, record_late_outcome, settle_and_wake, doubt_and_wake

Each reads from top to bottom: the arrows of `ledger` that it follows, and what must land with them: the result turn of a call, a
question to a person, the next dispatch, a checkpoint. Callers: the engine, and the handles.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeAlias

import msgspec

from perdure.effects import ledger
from perdure.effects.batch import BatchCall
from perdure.effects.ledger import Intent, LateAnswer, Outcome, Sender
from perdure.effects.settling import UNAPPROVED, is_unapproved
from perdure.effects.tool import Refuse
from perdure.errors import Conflict, KeyReused, NotFound, Waiting
from perdure.log.change import Stream
from perdure.model.records.conversation import Call
from perdure.model.records.effects import Answer, EffectError, EffectRecord, EffectState, key_of_call
from perdure.model.records.runs import WaitKind, WaitRecord, WaitState
from perdure.planes.conversation import calls, turns
from perdure.planes.execution import runs, steps, waits
from perdure.planes.reading.durations import Duration
from perdure.planes.recovery import checkpoints
from perdure.stores.tx import Tx

# Before an effect is sent its guards may put a question to a person, or a refusal; None: nothing.
Precondition: TypeAlias = Refuse | str | None
Planned: TypeAlias = list[tuple[EffectRecord, bool]]  # each effect, and whether it was dispatched by this very commit


class Dispatcher:
    """A caller that dispatches one effect: its open store, and the check that ends it.

    dispatched: what its transaction dispatched when it last ran. A caller that is stopped before it hears of that has it taken
    back (as in `stores.revocable`).
    """

    __slots__ = ("check_may_continue", "dispatched", "sender")

    def __init__(self, sender: Sender, check_may_continue: Callable[[], None] = lambda: None) -> None:
        self.sender = sender
        self.check_may_continue = check_may_continue
        self.dispatched: EffectRecord | None = None

    @property
    def may_begin(self) -> bool:
        """Whether something new may be begun, as far as is known now."""
        try:
            self.check_may_continue()
        except BaseException:  # noqa: BLE001 - the function that begins the work raises it
            return False
        return True


# -- the intent ------------------------------------------------------------------------------------------------------------------


def plan_for_call(tx: Tx, stream: Stream, intent: Intent, epoch: int) -> EffectRecord:
    """Plan an effect, or give the one that stands under its key. NotFound if no turn made the call that it is for."""
    return ledger.plan(tx, stream, intent_for_call(tx, stream, intent), epoch)


def plan_with_precondition(
    tx: Tx, stream: Stream, intent: Intent, epoch: int, precondition: Precondition, within: Duration | None = None
) -> EffectRecord:
    """Plan an effect, and record what must come before it is sent, so that a caller that finds the effect also finds the
    question. within: no answer by then is a no.
    """
    record = plan_for_call(tx, stream, intent, epoch)
    return record_precondition(tx, stream, record, epoch, precondition, within)


def record_precondition(
    tx: Tx, stream: Stream, record: EffectRecord, epoch: int, precondition: Precondition, within: Duration | None = None
) -> EffectRecord:
    """Record what must come before a planned effect is sent: a question asks a person for an approval, a refusal withdraws the
    effect.
    """
    if precondition is None or record.state is not EffectState.PLANNED:
        return record
    if isinstance(precondition, Refuse):
        if record.epoch != epoch:  # it may have been sent by what a restore forgot
            return record
        return withdraw_and_answer_call(tx, stream, record.seq, EffectError("Refused", precondition.reason), "a guard")
    ask_approval(tx, stream, record, precondition, within)
    return record


def withdraw_and_answer_call(tx: Tx, stream: Stream, seq: int, error: EffectError, by: str) -> EffectRecord:
    """Withdraw a planned effect: a guard, a person or the end of its run said no before it was sent."""
    record = ledger.withdraw(tx, stream, seq, error, by)
    answer_call(tx, stream, record)
    return record


def intent_for_call(tx: Tx, stream: Stream, intent: Intent) -> Intent:
    """The intent of an effect that answers a call, if a turn made that call; NotFound, before anything is sent, if none did."""
    if intent.call is not None and calls.maker_of(tx, stream, intent.call) is None:
        raise NotFound(f"no turn of this session made the call {intent.call!r}", path="call")
    return _with_own_key(tx, stream, intent)


def _with_own_key(tx: Tx, stream: Stream, intent: Intent) -> Intent:
    """The intent, under a key of its own if the id of its call was used before in this session."""
    if intent.call is None or intent.key != key_of_call(intent.call) or not calls.is_repeated(tx, stream, intent.call):
        return intent
    return msgspec.structs.replace(intent, key=f"{intent.key}@{calls.maker_of(tx, stream, intent.call)}")


# -- the intents of a model's batch ----------------------------------------------------------------------------------------------


def plan_batch(tx: Tx, stream: Stream, batch: Sequence[BatchCall], dispatcher: Dispatcher, *, first: bool) -> Planned:
    """Plan the effects of a batch, in its order. first: whether the first of them is dispatched too, unless the run is to end.

    An effect whose key stands already is given as it stands.
    """
    dispatcher.dispatched = None
    intents = [_with_own_key(tx, stream, call.intent) for call in batch if call.intent is not None]
    planned: Planned = []
    if first and intents and dispatcher.may_begin:  # asked in the transaction: it has seen whether the run is cancelled
        record, must_send = ledger.dispatch(tx, stream, intents.pop(0), dispatcher.sender)
        dispatcher.dispatched = record if must_send else None
        planned.append((record, must_send))
    return planned + [(ledger.plan(tx, stream, intent, dispatcher.sender.epoch), False) for intent in intents]


def keep_step_and_plan_batch(
    tx: Tx, stream: Stream, step: tuple[Any, ...], batch: Sequence[BatchCall], dispatcher: Dispatcher, *, first: bool
) -> tuple[Planned, dict[str, Answer]]:
    """Record the step in which a model answered (what `steps.done` takes), and plan its calls."""
    steps.done(tx, stream, *step)
    return plan_batch(tx, stream, batch, dispatcher, first=first), {}


def respond_and_plan_batch(
    tx: Tx, stream: Stream, content: Any, key: str | None, about: tuple[str, ...], batch: Sequence[BatchCall],
    dispatcher: Dispatcher, *, first: bool,
) -> tuple[Planned, dict[str, Answer]]:  # fmt: skip
    """Record a model's answer as a turn, plan its calls, and answer those that match no tool. Gives the effects, and the answers
    that the conversation has already, by the ids of their calls.
    """
    turns.answered(tx, stream, content, key, [call.call for call in batch], about)
    known: dict[str, Answer] = {}
    for call in (call for call in batch if call.intent is None):
        answer = _answer_of(tx, stream, call.call)
        if answer is not None:
            known[call.call.id] = answer
        elif call.answer is not None and call.answer.error is not None:
            turns.result(tx, stream, call.call.id, str(call.answer.error), error=True)
    return plan_batch(tx, stream, batch, dispatcher, first=first), known


def _answer_of(tx: Tx, stream: Stream, call: Call) -> Answer | None:
    """The answer that the conversation has for a call; None if there is none yet."""
    turn = turns.result_of(tx, stream, call.id)
    if turn is None:
        return None
    if not turn.error:
        return Answer(call.id, call.tool, turn.content)
    code, _, message = str(turn.content).partition(": ")
    return Answer(call.id, call.tool, None, EffectError(code, message))


# -- sending ---------------------------------------------------------------------------------------------------------------------


def dispatch_for_call(
    tx: Tx, stream: Stream, intent: Intent, dispatcher: Dispatcher
) -> tuple[EffectRecord, bool]:  # fmt: skip
    """Dispatch an effect of a session that needs no approval now. Gives the effect, and whether this caller must send it.

    One that stands under its key, and is not planned, is given as it stands. If a person was asked before, that answer is waited
    for.
    """
    dispatcher.dispatched = None
    intent = intent_for_call(tx, stream, intent)
    standing = ledger.standing(tx, stream, intent)
    if standing is not None:
        return dispatch_if_approved(tx, stream, standing.seq, dispatcher)
    dispatcher.dispatched = ledger.begin_first_attempt(tx, stream, intent, dispatcher.sender)
    return dispatcher.dispatched, True


def dispatch_under_lease(
    tx: Tx, stream: Stream, intent: Intent, dispatcher: Dispatcher
) -> tuple[EffectRecord, bool]:  # fmt: skip
    """Dispatch an effect of a run that is known to be new, so that this caller must send it. A run learns in the transaction that
    it was cancelled: nothing new is dispatched then.
    """
    dispatcher.dispatched = None
    dispatcher.check_may_continue()
    dispatcher.dispatched = ledger.begin_first_attempt(tx, stream, intent, dispatcher.sender)
    return dispatcher.dispatched, True


def dispatch_if_approved(tx: Tx, stream: Stream, seq: int, dispatcher: Dispatcher) -> tuple[EffectRecord, bool]:
    """Dispatch a planned effect, if the person who was asked has approved of it. Gives the effect, and whether this caller must
    send it: one that another caller has dispatched is given as it stands. Raises Waiting while there is no answer.
    """
    dispatcher.dispatched = None
    dispatcher.check_may_continue()
    record = check_approval(tx, stream, seq, dispatcher.sender.epoch)
    if record.state is not EffectState.PLANNED or record.epoch != dispatcher.sender.epoch:
        return record, False
    dispatcher.dispatched = ledger.begin_next_attempt(tx, stream, seq, dispatcher.sender)
    return dispatcher.dispatched, True


def dispatch_again(
    tx: Tx, stream: Stream, seq: int, attempt: int, dispatcher: Dispatcher
) -> tuple[EffectRecord, bool]:  # fmt: skip
    """Dispatch the next attempt of an effect in doubt. Gives the effect, and whether this caller must send it.

    It must not if a person was asked about it and has not approved, because a restore puts that in doubt, too.
    """
    dispatcher.dispatched = None
    record = ledger.effect(tx, stream, seq)
    if record.state is EffectState.IN_DOUBT:
        record = _approved(tx, stream, record, dispatcher.sender.epoch)
    if is_unapproved(record):
        return record, False
    dispatcher.dispatched = ledger.begin_attempt_again(tx, stream, seq, attempt, dispatcher.sender)
    return dispatcher.dispatched, True


def dispatch_by_user(tx: Tx, stream: Stream, seq: int, dispatcher: Dispatcher) -> EffectRecord:
    """Dispatch a planned effect that its user sends, if the person who was asked has approved of it; if not, see `refuse`. Raises
    Waiting while there is no answer, and Conflict if another caller has dispatched it.
    """
    dispatcher.dispatched = None
    record = check_approval(tx, stream, seq, dispatcher.sender.epoch)
    if record.state is EffectState.WITHDRAWN or is_unapproved(record):
        return record
    dispatcher.dispatched = ledger.begin_next_attempt(tx, stream, seq, dispatcher.sender)
    return dispatcher.dispatched


def take_back_dispatch(tx: Tx, stream: Stream, dispatcher: Dispatcher, outcome: Outcome) -> None:
    """Record that what was dispatched for a caller was not sent, if it stands as it was dispatched. Nothing if that was rolled
    back, or if more than doubt was recorded.
    """
    if dispatcher.dispatched is not None:
        ledger.take_back(tx, stream, dispatcher.dispatched, outcome)


# -- approvals -------------------------------------------------------------------------------------------------------------------


def ask_approval(
    tx: Tx, stream: Stream, record: EffectRecord, question: str, timeout: Duration | None = None
) -> WaitRecord:
    """Ask a person whether an effect may happen: bound to this very call. Asked once for an effect."""
    wait = waits.for_effect(tx, stream, record.seq)
    if wait is not None:
        return waits.expire_if_over(tx, stream, wait.seq)
    doc = waits.ask_document(question, [waits.YES, waits.NO], waits.NO, {"tool": record.tool, "args": record.args})
    return waits.open_wait(
        tx, stream, WaitKind.APPROVAL, place=None, doc=doc, effect=record.seq, mark=record.digest, timeout=timeout
    )


def is_approved(approval: WaitRecord, record: EffectRecord) -> bool:
    """Whether a person said yes, in time, to this very tool with these very arguments."""
    said_yes = approval.state is WaitState.MET and approval.answer == waits.YES
    return said_yes and approval.digest == record.digest


def check_approval(tx: Tx, stream: Stream, seq: int, epoch: int) -> EffectRecord:
    """The effect as it stands. A planned one needs the yes of the person who was asked, whatever became of the store since.

    A no is treated as `refuse` says. Raises Waiting while there is no answer.
    """
    record = ledger.effect(tx, stream, seq)
    return _approved(tx, stream, record, epoch) if record.state is EffectState.PLANNED else record


def _approved(tx: Tx, stream: Stream, record: EffectRecord, epoch: int) -> EffectRecord:
    wait = waits.for_effect(tx, stream, record.seq)
    approval = None if wait is None else waits.expire_if_over(tx, stream, wait.seq)
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
        return doubt_unwanted(tx, stream, record, why, epoch)
    return withdraw_and_answer_call(tx, stream, record.seq, EffectError("Refused", why), approval.met_by or "")


def doubt_unwanted(tx: Tx, stream: Stream, record: EffectRecord, why: str, epoch: int) -> EffectRecord:
    """An effect that was planned before a restore shall not be sent; whether it was, nobody here knows."""
    error = EffectError(UNAPPROVED, f"{why}, but the store was restored since it was planned: it may have been sent")
    return ledger.doubt(tx, stream, record.seq, record.attempt, error, quiet=True, epoch=epoch)


def waiting_for(record: EffectRecord, approval: WaitRecord) -> Waiting:
    """The error that says which approval an effect waits for, and how to give it."""
    return Waiting(
        f"{approval.question} ({record.tool})", path=approval.id, hint=waits.answer_with(approval),
        asks=[approval.id], doubts=[],
    )  # fmt: skip


# -- the outcome -----------------------------------------------------------------------------------------------------------------


def answer_call(tx: Tx, stream: Stream, record: EffectRecord) -> None:
    """Give the call that a settled effect was made for its result turn, in the commit that settles the effect."""
    if record.call is None or not record.settled or not calls.is_newest(tx, stream, record.call, record.seq):
        return
    failed = record.state is not EffectState.COMMITTED
    why = f"{record.error.code}: {record.error.message}" if record.error else record.state.value
    with suppress(KeyReused):  # a person answered the call by hand meanwhile: that stands, and so does what happened
        turns.result(tx, stream, record.call, why if failed else record.result, error=failed)


def commit_and_answer_call(tx: Tx, stream: Stream, made: EffectRecord, outcome: Outcome) -> EffectRecord:
    """Record that an attempt of this process happened. Stale if the database has lost the effect since."""
    record = ledger.commit_own(tx, stream, made, outcome)
    if record.call is not None:
        answer_call(tx, stream, record)
    return record


def fail_and_answer_call(tx: Tx, stream: Stream, made: EffectRecord, outcome: Outcome, *, quiet: bool) -> EffectRecord:
    """Record that an attempt of this process did not happen, and is not tried again. quiet: its sender, which came back, is noted
    as unable to send any more, because an attempt before it may have to be undone. Stale as for `commit_and_answer_call`.
    """
    ledger.check_kept(tx, stream, made)
    fail = ledger.fail_quiet if quiet else ledger.fail
    record = fail(tx, stream, made.seq, made.attempt, outcome)
    answer_call(tx, stream, record)
    return record


def end_and_dispatch_next(
    tx: Tx, stream: Stream, made: EffectRecord, outcome: Outcome, following: int, dispatcher: Dispatcher
) -> tuple[EffectRecord, EffectRecord]:
    """End an attempt by its outcome, and dispatch the effect of its batch that is planned next: gives both.

    Conflict, and neither, if that has moved on, or if nothing more may be begun: a cancelled run, as this transaction sees it.
    """
    dispatcher.dispatched = None
    if outcome.error is None:
        ended = commit_and_answer_call(tx, stream, made, outcome)
    else:
        ended = fail_and_answer_call(tx, stream, made, outcome, quiet=made.doubtful)
    if not dispatcher.may_begin:
        raise Conflict("nothing more is begun", path="run")
    dispatcher.dispatched = ledger.begin_next_attempt(tx, stream, following, dispatcher.sender)
    return ended, dispatcher.dispatched


def end_with_checkpoint(
    tx: Tx, stream: Stream, known: EffectRecord, outcome: Outcome, prepared: checkpoints.Prepared | None = None
) -> EffectRecord:
    """End an effect by the word of the user who began it: a result, or an error. prepared: a checkpoint to save with it; both are
    kept, or neither.
    """
    ledger.check_kept(tx, stream, known)
    end = ledger.commit if outcome.error is None else ledger.fail
    record = end(tx, stream, known.seq, known.attempt, outcome)
    answer_call(tx, stream, record)
    if prepared is not None:
        checkpoints.save(tx, stream, prepared)
    return record


def settle_and_answer_call(tx: Tx, stream: Stream, seq: int, attempt: int, outcome: Outcome) -> EffectRecord:
    """Record that an effect in doubt happened, or that it did not and is not tried again: by a probe, or by its rule."""
    end = ledger.commit if outcome.error is None else ledger.fail
    record = end(tx, stream, seq, attempt, outcome)
    answer_call(tx, stream, record)
    return record


def plan_next_attempt(tx: Tx, stream: Stream, made: EffectRecord, outcome: Outcome) -> EffectRecord:
    """Record that an attempt of this process was not sent, by the word of its tool, and plan the next one."""
    ledger.check_kept(tx, stream, made)
    return ledger.absent(tx, stream, made.seq, made.attempt, outcome)


def doubt_attempt(
    tx: Tx, stream: Stream, known: EffectRecord, error: EffectError, *, quiet: bool, epoch: int | None = None
) -> EffectRecord:
    """Record that nobody knows whether an attempt happened. quiet: its sender can send no more. Stale if the database has lost
    the effect since.
    """
    ledger.check_kept(tx, stream, known)
    return ledger.doubt(tx, stream, known.seq, known.attempt, error, quiet=quiet, epoch=epoch)


# -- the outcome, without a lease ------------------------------------------------------------------------------------------------


def record_late_outcome(tx: Tx, stream: Stream, made: EffectRecord, late: LateAnswer) -> EffectRecord:
    """Record the outcome of a call for which nobody waits any more, or whose caller has lost its lease. It is a fact all the
    same: it settles the doubt about its own attempt, and wakes the run that waits.
    """
    ledger.check_kept(tx, stream, made)
    outcome, about = late.outcome, (tx, stream, made.seq, made.attempt)
    match late.arrow:
        case "commit":
            record = ledger.commit(*about, outcome)
        case "fail":
            record = ledger.fail_quiet(*about, outcome)
        case "unsent":
            record = ledger.unsent(*about, outcome)
        case _:
            assert outcome.error is not None
            record = ledger.doubt(*about, outcome.error, quiet=late.quiet, by=outcome.by)
    answer_call(tx, stream, record)
    _wake_run(tx, stream)
    return record


def settle_and_wake(
    tx: Tx, stream: Stream, seq: int, attempt: int, outcome: Outcome, *, absent: bool = False
) -> EffectRecord:
    """Settle doubt by the word of a person: it happened, it did not, or it is absent and may be tried again."""
    end = ledger.absent if absent else ledger.commit if outcome.error is None else ledger.fail
    record = end(tx, stream, seq, attempt, outcome)
    answer_call(tx, stream, record)
    _wake_run(tx, stream)
    return record


def doubt_and_wake(tx: Tx, stream: Stream, seq: int, attempt: int, error: EffectError, by: str) -> EffectRecord:
    """Put an effect in doubt by the word of a person who knows that its sender can send no more."""
    record = ledger.doubt(tx, stream, seq, attempt, error, quiet=True, by=by)
    answer_call(tx, stream, record)
    _wake_run(tx, stream)
    return record


def _wake_run(tx: Tx, stream: Stream) -> None:
    if stream.kind == "run":
        runs.wake(tx, stream)
