"""Orphaned effects: their sender is gone, and nobody has looked at them since (P4).

Such an effect is in doubt, though no event says so yet: the next caller that acts with its key, recovers or settles it records
that. Reads only. Callers: the handles.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import NamedTuple

from msgspec.structs import replace

from perdure.effects import ledger
from perdure.effects.ledger import Sender
from perdure.errors import Invalid
from perdure.log.change import Stream
from perdure.model.filters import EffectFilters
from perdure.model.instants import instant_us
from perdure.model.limits import PAGE_MAX_ROWS
from perdure.model.records.effects import EffectRecord, EffectState
from perdure.planes.reading.body_reading import inline_body
from perdure.planes.reading.durations import between
from perdure.planes.reading.paging import DamagedRow, Page, decode_cursor, encode_cursor
from perdure.planes.recovery import presence
from perdure.stores.batch import EVENTS
from perdure.stores.core import Core
from perdure.stores.store import Reads

Found = tuple[Stream, EffectRecord]
Place = tuple[int, int, int]  # in a listing: instant, stream and number


class AskingStore(NamedTuple):
    """The store that asks: its holder, and how it proves that another process is gone."""

    me: Sender
    is_dead: Callable[[str], bool]


def here(core: Core) -> AskingStore:
    """The asking side of an open store."""
    return AskingStore(Sender(core.holder, core.epoch), core.liveness.is_dead)


def is_left(reads: Reads, record: EffectRecord, here: AskingStore) -> bool:
    """Whether the sender of an effect is gone, and no event says so yet."""
    return _is_left(record, here, partial(presence.is_alive, reads))


def _is_left(record: EffectRecord, here: AskingStore, is_alive: Callable[[str], bool]) -> bool:
    holder = record.holder or ""
    if record.state is not EffectState.DISPATCHED or (presence.server_of(holder), record.epoch) == here.me:
        return False
    return record.epoch != here.me.epoch or here.is_dead(holder) or not is_alive(holder)


def effects_of_store(reads: Reads, here: AskingStore, asked: EffectFilters) -> Page[Found]:
    """`ledger.effects_of_store`. in_doubt: those of which nobody knows whether they happened; errors: those with which something
    went wrong. With either, what the dead left is among them.
    """
    if asked.in_doubt and asked.state is not None:
        raise Invalid("in_doubt is a state of its own", path="state", hint="leave one of them out")
    narrowed = replace(asked, state=EffectState.IN_DOUBT) if asked.in_doubt else asked
    if asked.errors:
        found = ledger.effects_gone_wrong(reads, narrowed)
        return _merged(found, _gone_wrong(reads, here, asked), asked.limit, _wrong_at) if asked.state is None else found
    found = ledger.effects_of_store(reads, narrowed)
    return _merged(found, _left(reads, here, asked.limit, asked), asked.limit, _at) if asked.in_doubt else found


def _left(reads: Reads, here: AskingStore, limit: int, asked: EffectFilters) -> Page[Found]:
    """The first orphaned effects, one more than a page has. Each holder is looked up once.

    damaged: the dispatched effects that cannot be read, as far as was looked: their sender may be gone.
    """
    once = here._replace(is_dead=cache(here.is_dead))
    is_alive = cache(partial(presence.is_alive, reads))
    left: list[Found] = []
    damaged: list[DamagedRow] = []
    for each in _sent(reads, replace(asked, state=EffectState.DISPATCHED, limit=PAGE_MAX_ROWS), damaged):
        if _is_left(each[1], once, is_alive):
            left.append(each)
            if len(left) > limit:
                break
    return Page(left, damaged=tuple(damaged))


def _sent(reads: Reads, asked: EffectFilters, damaged: list[DamagedRow]) -> Iterator[Found]:
    """All effects that are recorded as dispatched, newest first."""
    while True:
        page = ledger.effects_of_store(reads, asked)
        damaged += page.damaged
        yield from page
        if page.next is None:
            return
        asked = replace(asked, after=page.next)


def _gone_wrong(reads: Reads, here: AskingStore, asked: EffectFilters) -> Page[Found]:
    """The orphaned effects that went wrong in a span. A sender that died during a call died after the dispatch.

    Those that cannot be read have no place in the span: the first page names them.
    """
    since, until = between(reads, asked.since, asked.until)
    last = None if asked.after is None else decode_cursor(asked.after, 3)
    everything = replace(asked, since=None, until=None, after=None)
    left = _left(reads, here, sys.maxsize, everything)
    places = {_wrong_at(each): each for each in left}
    within = [
        each for place, each in places.items()
        if (since is None or place[0] >= since) and (until is None or place[0] < until) and (last is None or place < last)
    ]  # fmt: skip
    return Page(within, damaged=left.damaged if last is None else ())


def _merged(found: Page[Found], left: Page[Found], limit: int, order: Callable[[Found], Place]) -> Page[Found]:
    """Two pages as one, in the order of the first, each effect once."""
    both = sorted({order(each): each for each in (*found, *left)}.items(), reverse=True)
    more = found.next is not None or len(both) > limit
    following = encode_cursor(*both[limit - 1][0]) if more else None
    damaged = dict.fromkeys((*found.damaged, *left.damaged))
    return Page([each for _, each in both[:limit]], following, tuple(damaged))


def _at(found: Found) -> Place:
    stream, record = found
    return instant_us(record.at, 0), stream.id, record.seq


def _wrong_at(found: Found) -> Place:
    stream, record = found
    sent_at = record.dispatched_at if record.state is EffectState.DISPATCHED else None
    return instant_us(sent_at or record.outcome_at or record.at, 0), stream.id, record.seq


def was_dispatched_after(reads: Reads, found: EffectRecord, stream: Stream, after: int) -> bool:
    """Whether the attempt at which an effect is was dispatched after an event of its run, such as a claim."""
    rows = reads.query(ledger.Q.dispatches_after, touches=[(EVENTS, stream.id)], stream=stream.id, after=after)
    # An event names the effect that it dispatched, unless it made it.
    return any(inline_body(body, found.id).key.get("seq", seq) == found.seq for seq, body in rows)
