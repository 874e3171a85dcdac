"""The feed: every event of a tenant, in an order in which nothing is skipped.

A page ends at most at the *end* that was read before it: on PostgreSQL the oldest transaction in flight, so
that what commits later comes later. Callers: the handles, `subscriptions`. Keeps P11, P15.
"""

from __future__ import annotations

from typing import NamedTuple

from perdure.log.event import Event
from perdure.log.feed import Position, decode_cursor, encode_cursor
from perdure.model.limits import check_page
from perdure.model.records.emitted import EventRecord
from perdure.planes.conversation.emitted import Names
from perdure.planes.reading.paging import Page
from perdure.stores.migrate import number_in, uid_in
from perdure.stores.statements import Statements
from perdure.stores.store import Reads, Rows, event_of
from perdure.stores.tx import LOG

Q = Statements("perdure.planes.conversation", "feed.sql")

BEGINNING = Position()


class Sieve(NamedTuple):
    """Which events are wanted: those of these kinds (a JSON list) and of this stream; None for all."""

    kinds: str | None = None
    stream: int | None = None


EVERYTHING = Sieve()


def read(reads: Reads, after: str | None = None, limit: int = 100) -> Page[EventRecord]:
    """Events after a cursor (None: from the beginning), oldest first; `next` is always a cursor."""
    uid, epoch = store_of(reads)
    limit = check_page(limit)
    start = BEGINNING if after is None else decode_cursor(after, uid, epoch)
    events, end = events_after(reads, start, limit)
    return Page(events, encode_cursor(uid, epoch, end))


def end(reads: Reads) -> str:
    """The cursor after everything that is committed now: for who wants only what comes."""
    uid, epoch = store_of(reads)
    return encode_cursor(uid, epoch, end_of(reads))


def store_of(reads: Reads) -> tuple[str, int]:
    """The identity of the store, and its epoch: positions of another one mean nothing."""
    facts = {name: value for name in ("uid", "epoch") for (value,) in reads.query(LOG.meta_get, name=name)}
    return uid_in(facts, "uid"), number_in(facts, "epoch")


def end_of(reads: Reads) -> Position:
    """The position after everything that is committed now."""
    return Position(*reads.query(LOG.feed_end)[0])


def events_after(
    reads: Reads, start: Position, limit: int, end: Position | None = None, sieve: Sieve = EVERYTHING
) -> tuple[list[EventRecord], Position]:
    """The next events and where they end. A page that is not full ends at the end of the feed (or at `end`):
    others' events are passed by.
    """
    events, until = events_between(reads, start, end or end_of(reads), limit, sieve)
    names = Names(reads)
    return [names.record(event) for event in events], until


def events_between(
    reads: Reads, start: Position, end: Position, limit: int, sieve: Sieve = EVERYTHING
) -> tuple[list[Event], Position]:
    """The next events of this tenant as they are stored, and where they end: at `end`, unless there are more."""
    placed, until = placed_between(reads, start, end, limit, sieve)
    return [event for event, _ in placed], until


def placed_between(
    reads: Reads, start: Position, end: Position, limit: int, sieve: Sieve = EVERYTHING
) -> tuple[list[tuple[Event, Position]], Position]:
    """The next events, each with its own position, and where they end, as `events_between` says it."""
    if end <= start:
        return [], start
    rows = reads.query(
        Q.feed_after,
        tenant=reads.tenant,
        xid=start.xid,
        pos=start.pos,
        end_xid=end.xid,
        end_pos=end.pos,
        limit=limit,
        **sieve._asdict(),
    )
    placed = [(event_of(row[:-1]), Position(row[-1], row[-3])) for row in rows]
    return placed, end if len(rows) < limit else placed[-1][1]


def epoch_of(reads: Reads) -> int:
    """How often the store was restored: positions of another epoch mean nothing."""
    return store_of(reads)[1]


def held_by(reads: Reads) -> str | None:
    """The transaction that holds back the feed, in words; None when everything that is committed can be read.

    Only PostgreSQL has such: any transaction of the same server that wrote and has not ended.
    """
    holder = holding(reads.query(LOG.feed_held))
    return None if holder is None else str(holder)


class FeedHolder(NamedTuple):
    """The oldest transaction in flight, while what others committed after it waits; pid 0 is a prepared one."""

    pid: int
    application: str
    state: str
    age_seconds: int

    def __str__(self) -> str:
        who = f"process {self.pid}" if self.pid else "a prepared transaction"
        about = f"{self.application or 'no application name'}, {self.state}"
        return f"{who} ({about}) has a transaction open for {self.age_seconds} s"


def holding(rows: Rows) -> FeedHolder | None:
    """From the rows of `feed_held`."""
    return FeedHolder(*rows[0]) if rows else None
