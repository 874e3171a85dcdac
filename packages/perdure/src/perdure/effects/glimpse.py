"""A run as it was after one of its events, as far as a page shows it: the run, its open waits, its newest effects and events.

`history.view` folds the whole log up to there. Here the events of older effects, of waits that were over and of older steps are
left out, so that one more step of a scrubber costs what is shown and the run's own events, not its age. Folding is the store's
own (`log.fold`), and all that is shown is what the whole fold gives. Caller: the console. Keeps P5.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from perdure.log.change import Stream
from perdure.log.event import Event
from perdure.planes.audit import history
from perdure.planes.reading.lineage import MAX_SEQ
from perdure.planes.reading.snapshots import one_state
from perdure.planes.tables import EFFECTS, RUNS, WAITS
from perdure.stores.batch import EVENTS
from perdure.stores.core import Core
from perdure.stores.replay import PAGE_EVENTS
from perdure.stores.statements import Statements
from perdure.stores.store import Reads, event_of
from perdure.stores.tx import LOG

Q = Statements("perdure.effects", "glimpse.sql")

_FOLDED = {table.name for table in (RUNS, EFFECTS, WAITS)}


class NewestEffects(NamedTuple):
    """Where the newest effects of a run begin (`after` an event), and how many there are in total."""

    after: int
    total: int


class Glimpse(NamedTuple):
    """A run in a private store, with its newest effects; older ones may be missing there."""

    past: history.PastView
    effects: NewestEffects


def newest_effects(reads: Reads, stream: Stream, most: int, upto: int = MAX_SEQ) -> NewestEffects:
    """The newest effects of a run, so many at most. An effect is never deleted, so the table knows those of any moment."""
    touches = [(EFFECTS, stream.id)]
    count = reads.query(Q.effects_counted, touches=touches, stream=stream.id, upto=upto)[0][0]
    found = reads.query(Q.effect_from_end, touches=touches, stream=stream.id, upto=upto, skipped=most - 1)
    return NewestEffects(found[0][0] - 1 if found else 0, count)


@one_state
def view(reads: Reads, stream: Stream, seq: int, core: Core, effects: int, events: int) -> Glimpse:
    """The run after an event: itself, its open waits, so many of its newest effects, and so many of its newest events.

    A run that shares the beginning of another one, or has lost what said how it stood, is folded whole.
    """
    then = history.point(reads, stream, seq)
    lost = {table for (table,) in reads.query(LOG.pruned_tables, stream=stream.id, upto=then.seq)}
    if stream.parent is not None or lost & _FOLDED:
        past = history.view(reads, stream, seq, core)
        return Glimpse(past, past.core.read(newest_effects, past.stream, effects, tenant=past.tenant))
    newest = newest_effects(reads, stream, effects, then.seq)
    chosen = shown_events(reads, stream, then.seq, newest.after, then.seq - events)
    return Glimpse(history.view_of(reads, stream, then, chosen, core), newest)


def shown_events(reads: Reads, stream: Stream, upto: int, effects_after: int, newest_after: int) -> Iterator[Event]:
    """The events from which a glimpse is folded, in order."""
    touches = [(WAITS, stream.id), (EVENTS, stream.id)]
    first_open = reads.query(Q.wait_first_open, touches=touches, stream=stream.id, upto=upto)[0][0]
    asked = {
        "stream": stream.id, "upto": upto, "effects": effects_after + 1, "newest": newest_after,
        "waits": MAX_SEQ if first_open is None else first_open, "limit": PAGE_EVENTS,
    }  # fmt: skip
    after, rows = 0, [()] * PAGE_EVENTS
    while len(rows) == PAGE_EVENTS:
        rows = reads.query(Q.events_shown, touches=touches, after=after, **asked)
        yield from map(event_of, rows)
        after = rows[-1][0] if rows else after
