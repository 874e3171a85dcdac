"""A ledger verb and, in the same commit, what else must land with it: the result turn of a call, a checkpoint.

Callers: the handles. Keeps P14: a call that was answered by an effect has its result in the conversation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from perdure.log.change import Stream
from perdure.model.records.effects import EffectRecord, EffectState
from perdure.planes import checkpoints, turns
from perdure.stores.tx import Tx


def answering(tx: Tx, stream: Stream, verb: Callable[..., EffectRecord], *args: Any) -> EffectRecord:
    """A verb that ends an effect; the call that the effect was made for gets its result turn in this commit."""
    record = verb(tx, stream, *args)
    if record.call is not None and record.settled:
        failed = record.state is not EffectState.COMMITTED
        said = f"{record.error.code}: {record.error.message}" if record.error else record.state.value
        turns.result(tx, stream, record.call, said if failed else record.result, error=failed)
    return record


def checkpointing(
    tx: Tx, stream: Stream, prepared: checkpoints.Prepared, verb: Callable[..., EffectRecord], *args: Any
) -> EffectRecord:
    """The same with a checkpoint: what was done, and the state after it, stand or fall together."""
    record = answering(tx, stream, verb, *args)
    checkpoints.save(tx, stream, prepared)
    return record
