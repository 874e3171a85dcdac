"""What the dead left: effects that were sent by somebody who is gone, and at which nobody has looked since (P4).

Doubt that is not recorded yet: whoever acts with its key, recovers or settles it records it. Reads only. Callers: the handles.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple

from perdure.effects import ledger
from perdure.effects.ledger import Sender
from perdure.errors import Invalid
from perdure.log.change import Stream
from perdure.model.instants import instant_us
from perdure.model.limits import PAGE_MAX_ROWS
from perdure.model.records.effects import EffectRecord, EffectState
from perdure.planes import presence
from perdure.planes.paging import Page, encode_cursor
from perdure.stores.core import Core
from perdure.stores.store import Reads

Found = tuple[Stream, EffectRecord]


class Here(NamedTuple):
    """Who asks: the open store, and how it proves that the process of another is gone."""

    me: Sender
    is_dead: Callable[[str], bool]


def here(core: Core) -> Here:
    """An open store as who asks."""
    return Here(Sender(core.holder, core.epoch), core.living.is_dead)


def is_left(reads: Reads, record: EffectRecord, here: Here) -> bool:
    """Whether an effect was sent by somebody who is gone, and nobody has looked since."""
    if record.state is not EffectState.DISPATCHED or (record.holder, record.epoch) == here.me:
        return False
    holder = record.holder or ""
    return record.epoch != here.me.epoch or here.is_dead(holder) or not presence.is_alive(reads, holder)


def effects_of_store(
    reads: Reads, here: Here, *, in_doubt: bool, errors: bool, state: str | None, limit: int, after: str | None, **asked: Any
) -> Page[Found]:  # fmt: skip
    """`ledger.effects_of_store`. in_doubt: those of which nobody knows whether they happened; errors: those with which something
    went wrong. With either, what the dead left is among them.
    """
    if in_doubt and state is not None:
        raise Invalid("in_doubt is a state of its own", path="state", hint="leave one of them out")
    with_left = (in_doubt or errors) and state is None
    wanted = EffectState.IN_DOUBT.value if in_doubt else state
    found = ledger.effects_of_store(reads, state=wanted, errors=errors, limit=limit, after=after, **asked)
    return _merged(found, _left(reads, here, limit, after, asked), limit) if with_left else found


def _left(reads: Reads, here: Here, limit: int, after: str | None, asked: dict[str, Any]) -> list[Found]:
    """The first of them, one more than a page has."""
    once = here._replace(is_dead=cache(here.is_dead))
    left: list[Found] = []
    for each in _sent(reads, after, asked):
        if is_left(reads, each[1], once):
            left.append(each)
            if len(left) > limit:
                break
    return left


def _sent(reads: Reads, after: str | None, asked: dict[str, Any]) -> Iterator[Found]:
    """All that is being sent, as far as is recorded; newest first."""
    while True:
        page = ledger.effects_of_store(
            reads, state=EffectState.DISPATCHED.value, limit=PAGE_MAX_ROWS, after=after, **asked
        )
        yield from page
        after = page.next
        if after is None:
            return


def _merged(found: Page[Found], left: list[Found], limit: int) -> Page[Found]:
    """Both in the order of the one, each once."""
    both = sorted({_order(each): each for each in (*found, *left)}.items(), reverse=True)
    more = found.next is not None or len(both) > limit
    following = encode_cursor(*both[limit - 1][0]) if more else None
    return Page([each for _, each in both[:limit]], following, found.damaged)


def _order(found: Found) -> tuple[int, int, int]:
    stream, record = found
    return instant_us(record.at, 0), stream.id, record.seq
