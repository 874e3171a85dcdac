"""The epoch of a store: it rises when the store was restored, or may have lost what was acknowledged (`stores.continuity`).

An effect that was planned or dispatched in another epoch may have been done since. An open store believes in the epoch that it
heard of last; another process may have raised it. Callers: whoever decides by an epoch. Keeps P3, P4.
"""

from __future__ import annotations

from perdure.errors import Stale
from perdure.stores.migrate import number_in
from perdure.stores.store import Reads
from perdure.stores.tx import LOG, Tx

LOST_SINCE = "the database was restored, or lost what was acknowledged, since this was begun"


def look_up(reads: Reads) -> int:
    """The epoch as the store says it now. This open store believes it from here on."""
    rows = reads.query(LOG.meta_get, name="epoch")
    epoch = number_in({"epoch": rows[0][0]} if rows else {}, "epoch")
    if reads.clocks.epochs is not None:
        reads.clocks.epochs.heard(epoch)
    return epoch


def is_of_another(reads: Reads, epoch: int | None) -> bool:
    """Whether something of this epoch is of before a loss, as far as this open store has heard."""
    epochs = reads.clocks.epochs
    return epochs is not None and epoch not in (None, epochs.epoch)


def check(tx: Tx, epoch: int | None) -> None:
    """Stale for whoever began in another epoch: what it knows may be of before."""
    epochs = tx.clocks.epochs  # as `is_of_another` looks, without a call: every write of a run asks
    if epochs is not None and epoch is not None and epoch != epochs.epoch:
        raise Stale(LOST_SINCE, path="store", hint="look at what the store has now, and begin again")
