"""A ledger verb together with what must land in the same commit: the result turn of a call, the next dispatch, a checkpoint.

Each function takes a verb and gives one with the same arguments. Callers: the engine and the handles. Keeps P14: a call that was
answered by an effect has its result in the conversation.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Concatenate, ParamSpec, TypeVar

import msgspec

from perdure.effects import ledger
from perdure.effects.intents import key_of_call
from perdure.effects.ledger import Intent, Outcome, Sender
from perdure.errors import Conflict, KeyReused, NotFound
from perdure.log.change import Stream
from perdure.model.records.effects import EffectRecord, EffectState
from perdure.planes.conversation import calls, turns
from perdure.planes.execution import runs
from perdure.planes.recovery import checkpoints
from perdure.stores.tx import Tx

T = TypeVar("T")
P = ParamSpec("P")
EndingVerb = Callable[Concatenate[Tx, Stream, P], EffectRecord]


def answering(verb: EndingVerb[P]) -> EndingVerb[P]:
    """A verb that ends an effect and, in the same commit, gives the call that the effect was made for its result turn."""

    def answer(tx: Tx, stream: Stream, *args: P.args, **kwargs: P.kwargs) -> EffectRecord:
        record = verb(tx, stream, *args, **kwargs)
        if record.call is not None and record.settled and calls.is_newest(tx, stream, record.call, record.seq):
            failed = record.state is not EffectState.COMMITTED
            said = f"{record.error.code}: {record.error.message}" if record.error else record.state.value
            # A person answered the call by hand meanwhile: that stands, and so does what happened.
            with suppress(KeyReused):
                turns.result(tx, stream, record.call, said if failed else record.result, error=failed)
        return record

    return answer


def about_attempt(
    made: EffectRecord, verb: Callable[Concatenate[Tx, Stream, int, int, P], EffectRecord]
) -> EndingVerb[P]:
    """A verb about an attempt that this process made. Stale if the database has lost it since."""

    def kept(tx: Tx, stream: Stream, *args: P.args, **kwargs: P.kwargs) -> EffectRecord:
        ledger.check_kept(tx, stream, made)
        return verb(tx, stream, made.seq, made.attempt, *args, **kwargs)

    return kept


def followed_by(
    after: int, sender: Sender, may_begin: Callable[[], bool], verb: EndingVerb[P]
) -> Callable[Concatenate[Tx, Stream, P], tuple[EffectRecord, EffectRecord]]:
    """A verb that ends an effect and, in the same commit, the dispatch of the one that is planned next.

    Conflict, and neither, if that has moved on, or if nothing more may be begun: a cancelled run, as this transaction sees it.
    """

    def end_and_dispatch(
        tx: Tx, stream: Stream, *args: P.args, **kwargs: P.kwargs
    ) -> tuple[EffectRecord, EffectRecord]:
        ended = answering(verb)(tx, stream, *args, **kwargs)
        if not may_begin():
            raise Conflict("nothing more is begun", path="run")
        return ended, ledger.dispatch_planned(tx, stream, after, sender)

    return end_and_dispatch


def unless_stopped(
    check: Callable[[], None], verb: Callable[Concatenate[Tx, Stream, P], T]
) -> Callable[Concatenate[Tx, Stream, P], T]:
    """A verb that is run only if `check` raises nothing. Asked inside the transaction, because that is where a run learns that it
    was cancelled: nothing new is dispatched then.
    """

    def begin(tx: Tx, stream: Stream, *args: P.args, **kwargs: P.kwargs) -> T:
        check()
        return verb(tx, stream, *args, **kwargs)

    return begin


def for_call(
    verb: Callable[Concatenate[Tx, Stream, Intent, P], T],
) -> Callable[Concatenate[Tx, Stream, Intent, P], T]:
    """A verb that begins an effect. Raises NotFound, before anything is sent, if no turn made the call that it is for."""

    def begin(tx: Tx, stream: Stream, intent: Intent, *args: P.args, **kwargs: P.kwargs) -> T:
        if intent.call is not None and calls.maker_of(tx, stream, intent.call) is None:
            raise NotFound(f"no turn of this session made the call {intent.call!r}", path="call")
        return verb(tx, stream, made_anew(tx, stream, intent), *args, **kwargs)

    return begin


def made_anew(tx: Tx, stream: Stream, intent: Intent) -> Intent:
    """The intent, under a key of its own if the id of its call was used before in this session."""
    if intent.call is None or intent.key != key_of_call(intent.call) or not calls.is_repeated(tx, stream, intent.call):
        return intent
    return msgspec.structs.replace(intent, key=f"{intent.key}@{calls.maker_of(tx, stream, intent.call)}")


def arriving(verb: EndingVerb[P]) -> EndingVerb[P]:
    """A verb for an outcome that comes without a lease: late, or from a caller that lost it. It wakes the run that waits."""

    def arrive(tx: Tx, stream: Stream, *args: P.args, **kwargs: P.kwargs) -> EffectRecord:
        record = answering(verb)(tx, stream, *args, **kwargs)
        if stream.kind == "run":
            runs.wake(tx, stream)
        return record

    return arrive


def end_begun(
    tx: Tx, stream: Stream, known: EffectRecord, outcome: Outcome, prepared: checkpoints.Prepared | None = None
) -> EffectRecord:
    """End an effect by the word of the caller that began it: a result, or an error. prepared: a checkpoint to save with it."""
    ending = about_attempt(known, ledger.commit if outcome.error is None else ledger.fail)
    ending = answering(ending) if prepared is None else checkpointing(prepared, ending)
    return ending(tx, stream, outcome)


def checkpointing(prepared: checkpoints.Prepared, verb: EndingVerb[P]) -> EndingVerb[P]:
    """A verb that ends an effect and saves a checkpoint in the same commit: both are kept, or neither."""

    def end_and_save(tx: Tx, stream: Stream, *args: P.args, **kwargs: P.kwargs) -> EffectRecord:
        record = answering(verb)(tx, stream, *args, **kwargs)
        checkpoints.save(tx, stream, prepared)
        return record

    return end_and_save
