"""A verb that dispatches an effect, and remembers which dispatch it made: a call that is stopped may not have heard of it.

A caller that is cancelled while its job lies on the lane does not know whether it was carried out. Its word that nothing was sent
comes to the same lane later, and finds here what the verb did. Callers: the engine of effects. Keeps P4.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from perdure.effects import ledger
from perdure.effects.ledger import Outcome
from perdure.log.change import Stream
from perdure.model.records.effects import EffectRecord, EffectState
from perdure.stores.tx import Tx

T = TypeVar("T")


class Dispatching(Generic[T]):
    """The verb of one call. tells: the effect that it has dispatched, out of what it gives.

    made: that effect, as the verb gave it when it was last run; None if it dispatched none for this call.
    """

    __slots__ = ("_tells", "_verb", "made")

    def __init__(self, verb: Callable[..., T], tells: Callable[[T], EffectRecord | None]) -> None:
        self._verb = verb
        self._tells = tells
        self.made: EffectRecord | None = None

    def __call__(self, tx: Tx, stream: Stream, *args: Any, **kwargs: Any) -> T:
        """Run the verb."""
        self.made = None
        found = self._verb(tx, stream, *args, **kwargs)
        self.made = self._tells(found)
        return found

    def take_back(self, tx: Tx, stream: Stream, outcome: Outcome) -> EffectRecord | None:
        """Say that it was not sent. Nothing if it was not dispatched, or if the dispatch that stands is another's."""
        made = self.made
        if made is None or not ledger.stands(tx, stream, made):
            return None
        return ledger.unsent(tx, stream, made.seq, made.attempt, outcome)


def told_mine(found: tuple[EffectRecord, bool]) -> EffectRecord | None:
    """The effect that a verb has dispatched which says whether it did."""
    record, mine = found
    return record if mine else None


def told_next(found: tuple[EffectRecord, EffectRecord]) -> EffectRecord:
    """The effect that was dispatched in the commit that ended another."""
    return found[1]


def if_dispatched(found: EffectRecord) -> EffectRecord | None:
    """The effect, if it is being sent now."""
    return found if found.state is EffectState.DISPATCHED else None
