"""Replay: loading streams of one store into another, verbatim, with the rows and derived rows that their
events give.

The chain stays the same chain: uids, sequence numbers, hashes and bodies are carried over; ids, positions and
tenants are the target's own. Every event is checked against its hash as it comes in. Parents come before
their forks. A replay that was cut off continues where it stopped. Blobs are not carried: who replays says where
they are. Callers: time travel, moves, bundles. Keeps P5, P6, P10. Costs one fold of what is
replayed; memory holds one page.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

import msgspec

from perdure.errors import Damaged, Invalid
from perdure.log.change import Stream
from perdure.log.event import GENESIS, Body, Event, commit_to, decode_body, hash_event
from perdure.log.table import Table
from perdure.log.upcast import upcast
from perdure.stores.batch import EVENTS
from perdure.stores.core import Core
from perdure.stores.store import Head, Reads, event_of
from perdure.stores.tx import LOG, Tx

PAGE_EVENTS = 500

Seen = Callable[[Table | None, int, Body], Body]  # the meaning of an event in the target, if it is not what it says


_meanings: list[Callable[[Reads, Stream], Seen | None]] = []


def register_meaning(seen_of: Callable[[Reads, Stream], Seen | None]) -> None:
    """Say what the events of some streams mean here, wherever a store makes its rows anew (`planes.execution.imported`)."""
    _meanings.append(seen_of)


def meaning_of(reads: Reads, stream: Stream) -> Seen:
    """The meaning of the events of a stream here; mostly what they say."""
    return next((seen for seen_of in _meanings if (seen := seen_of(reads, stream))), verbatim)


class Slice(msgspec.Struct, frozen=True):
    """The part of one stream to replay, as the source numbers it: its events up to `upto`."""

    stream: Stream
    upto: int


def verbatim(_table: Table | None, _seq: int, body: Body) -> Body:
    """An event means what it says."""
    return body


def replay(
    source: Reads,
    slices: Iterable[Slice],
    target: Core,
    tenant: int,
    tables: Mapping[str, Table],
    seen_of: Callable[[Stream], Seen | None] = lambda _: None,
) -> list[Stream]:
    """Load these slices, parents first; returns the streams as the target numbers them.

    Each page is one commit. Repeating it adds nothing. Raises Damaged when an event is not what its hash
    says. seen_of: see `Seen`; asked once for each stream, as the source numbers it.
    """
    placed: dict[int, Stream] = {}
    for part in slices:
        parent = _parent(part.stream, placed)
        seen = seen_of(part.stream) or verbatim
        found, after = target.read(find, part.stream, tenant=tenant)
        pruned = _pruned_before(source, part.stream, after)
        for page in pages(source, part, after):
            found = target.write(_adopt, part.stream, parent, page, pruned, tables, seen, actor="", tenant=tenant)
            pruned |= pruned_in(page)
        if found is None:
            raise Invalid("there is nothing to replay", path=part.stream.name)
        placed[part.stream.id] = found
    return list(placed.values())


def _parent(stream: Stream, placed: Mapping[int, Stream]) -> Stream | None:
    if stream.parent is not None and stream.parent not in placed:
        raise Invalid("a fork is replayed after its parent", path=stream.name)
    return placed.get(stream.parent or 0)


def find(reads: Reads, stream: Stream) -> tuple[Stream | None, int]:
    """The stream as the target has it already, and how far."""
    rows = reads.query(LOG.stream_by_uid, uid=stream.uid, tenant=reads.tenant)
    if not rows:
        return None, stream.fork_seq
    found = Stream(*rows[0])
    return found, reads.query(LOG.stream_head, stream=found.id)[0][0]


def pages(source: Reads, part: Slice, after: int) -> Iterator[list[Event]]:
    """The events of a slice after one, page by page. Damaged when some are missing."""
    stream = part.stream.id
    while after < part.upto:
        rows = source.query(
            LOG.events_page,
            touches=[(EVENTS, stream)],
            stream=stream,
            after=after,
            upto=part.upto,
            limit=PAGE_EVENTS,
        )
        if not rows:
            raise Damaged(f"events are missing after {after}", path=f"{part.stream.name} seq {after + 1}")
        page = [event_of(row) for row in rows]
        after = page[-1].seq
        yield page


def _pruned_before(source: Reads, stream: Stream, after: int) -> frozenset[str]:
    """The tables that have lost bodies in what was replayed before."""
    if after <= stream.fork_seq:
        return frozenset()
    return frozenset(table for (table,) in source.query(LOG.pruned_tables, stream=stream.id, upto=after))


def pruned_in(page: Iterable[Event]) -> frozenset[str]:
    """The tables that have lost bodies in these events."""
    return frozenset(event.table for event in page if event.body is None)


def _adopt(
    tx: Tx,
    template: Stream,
    parent: Stream | None,
    page: list[Event],
    before: frozenset[str],
    tables: Mapping[str, Table],
    seen: Seen,
) -> Stream:
    """One page into the target, as one commit."""
    stream = place(tx, template, parent)
    adopt(tx, stream, page, before, tables, seen)
    return stream


def place(tx: Tx, template: Stream, parent: Stream | None) -> Stream:
    """The stream as the target has it; a new one is begun, under the template's name. `parent`: as the target has that."""
    found, _ = find(tx, template)
    return found or tx.new_stream(template.kind, template.name, parent, _start(tx, template, parent), uid=template.uid)


def adopt(
    tx: Tx,
    stream: Stream,
    page: Iterable[Event],
    before: frozenset[str],
    tables: Mapping[str, Table],
    seen: Seen = verbatim,
) -> None:
    """Events of a stream, each checked against the one before it. `before`: the tables that have lost bodies before them."""
    head, pruned = tx.head(stream), set(before)
    for event in page:
        if event.body is None:
            pruned.add(event.table)
        head = adopt_event(tx, stream, event, head, tables, seen, pruned=event.table in pruned)


def adopt_chosen(
    tx: Tx, template: Stream, events: Iterable[Event], tables: Mapping[str, Table], seen: Seen = verbatim
) -> Stream:
    """Some events of a stream, in order, without those between them: for a view of a part of it.

    A change of a row whose beginning was left out is left out, too. Damaged when an event does not say what it committed to;
    whether all are there, only the whole chain can tell.
    """
    stream = place(tx, template, None)
    for event in events:
        if not _is_kept(event):
            raise Damaged("the event is not the one that was recorded", path=f"seq {event.seq}")
        _apply(tx, stream, event, _table(event, tables), seen, pruned=True)
    return stream


def adopt_event(
    tx: Tx,
    stream: Stream,
    event: Event,
    head: Head,
    tables: Mapping[str, Table],
    seen: Seen = verbatim,
    *,
    pruned: bool,
) -> Head:
    """One event into a stream whose head this is, with its rows; returns the head after it. Damaged when it does not follow."""
    after = follow(stream.uid, event, head)
    _apply(tx, stream, event, _table(event, tables), seen, pruned=pruned)
    return after


def _apply(tx: Tx, stream: Stream, event: Event, table: Table | None, seen: Seen, *, pruned: bool) -> None:
    """An event and its rows. Damaged when the chain holds but what the event says cannot be applied."""
    try:
        body = _body(event)
        tx.adopt(stream, event, table, body and seen(table, event.seq, body), pruned=pruned)
    except (TypeError, ValueError, KeyError) as error:
        raise Damaged(f"its content cannot be applied: {error}", path=f"seq {event.seq}") from None


def _start(tx: Tx, template: Stream, parent: Stream | None) -> Head:
    """A stream begins at nothing, a fork after its parent's event."""
    if parent is None:
        return 0, GENESIS
    touches = [(EVENTS, parent.id)]
    rows = tx.query(LOG.event_by_seq, touches=touches, stream=parent.id, seq=template.fork_seq)
    if not rows:
        raise Damaged(f"the parent has no event {template.fork_seq}", path=template.name)
    return template.fork_seq, event_of(rows[0]).hash


def follow(uid: bytes, event: Event, head: Head) -> Head:
    """The head after an event that follows `head`; Damaged when it does not."""
    seq, previous = head
    if event.seq != seq + 1 or not _is_kept(event) or hash_event(uid, event, previous) != event.hash:
        raise Damaged("the event is not the one that was recorded", path=f"seq {event.seq}")
    return event.seq, event.hash


def _is_kept(event: Event) -> bool:
    """Whether the body of an event is what it committed to, or was emptied."""
    return event.body is None or (event.salt is not None and commit_to(event.salt, event.body) == event.commitment)


def _body(event: Event) -> Body | None:
    return None if event.body is None else upcast(event, decode_body(event.body, f"seq {event.seq}"))


def _table(event: Event, tables: Mapping[str, Table]) -> Table | None:
    if event.table and event.table not in tables:
        raise Damaged(f"no table {event.table[:60]!r} is known", path=f"seq {event.seq}")
    return tables.get(event.table)
