"""A ledger verb and, in the same commit, what else must land with it: the result turn of a call, a checkpoint.

Callers: the handles. Keeps P14: a call that was answered by an effect has its result in the conversation.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from perdure.effects import ledger
from perdure.effects.ledger import Intent, Sender
from perdure.errors import Conflict, KeyReused, NotFound
from perdure.log.change import Stream
from perdure.model.records.effects import EffectRecord, EffectState
from perdure.planes import checkpoints, runs, turns
from perdure.stores.tx import Tx

T = TypeVar("T")


def answering(tx: Tx, stream: Stream, verb: Callable[..., EffectRecord], *args: Any) -> EffectRecord:
    """A verb that ends an effect; the call that the effect was made for gets its result turn in this commit."""
    record = verb(tx, stream, *args)
    if record.call is not None and record.settled:
        failed = record.state is not EffectState.COMMITTED
        said = f"{record.error.code}: {record.error.message}" if record.error else record.state.value
        # Somebody answered the call by hand meanwhile: that stands, and so does what happened.
        with suppress(KeyReused):
            turns.result(tx, stream, record.call, said if failed else record.result, error=failed)
    return record


def followed_by(
    tx: Tx,
    stream: Stream,
    after: int,
    sender: Sender,
    going: Callable[[], Any],
    verb: Callable[..., EffectRecord],
    *args: Any,
) -> tuple[EffectRecord, EffectRecord]:
    """A verb that ends an effect and, in the same commit, the dispatch of the one that is planned next.

    Conflict, and neither, if that has moved on, or if nothing more may be begun: a cancelled run, as this transaction sees it.
    """
    ended = answering(tx, stream, verb, *args)
    if not going():
        raise Conflict("nothing more is begun", path="run")
    return ended, ledger.dispatch_planned(tx, stream, after, sender)


def beginning(tx: Tx, stream: Stream, check: Callable[[], None], verb: Callable[..., T], *args: Any) -> T:
    """A verb that dispatches what was not sent yet. Raises what `check` does, and nothing is written, if nothing more is to
    be begun: a run that is cancelled, as this transaction sees it.
    """
    check()
    return verb(tx, stream, *args)


def for_call(tx: Tx, stream: Stream, verb: Callable[..., T], intent: Intent, *args: Any) -> T:
    """A verb that begins an effect. NotFound, before anything is sent, if the call that it is for was never made."""
    if intent.call is not None and turns.maker_of(tx, stream, intent.call) is None:
        raise NotFound(f"no turn of this session made the call {intent.call!r}", path="call")
    return verb(tx, stream, intent, *args)


def arriving(tx: Tx, stream: Stream, verb: Callable[..., EffectRecord], *args: Any) -> EffectRecord:
    """An answer that comes without a lease: late, or from somebody who lost his. A run that waits for it goes on."""
    record = answering(tx, stream, verb, *args)
    if stream.kind == "run":
        runs.wake(tx, stream)
    return record


def checkpointing(
    tx: Tx, stream: Stream, prepared: checkpoints.Prepared, verb: Callable[..., EffectRecord], *args: Any
) -> EffectRecord:
    """The same with a checkpoint: what was done, and the state after it, stand or fall together."""
    record = answering(tx, stream, verb, *args)
    checkpoints.save(tx, stream, prepared)
    return record
