"""The feed: every event of a tenant, in an order in which nothing is skipped, and named subscriptions that
keep their place.

A page ends at most at the *end* that was read before it: on PostgreSQL the oldest transaction in flight, so
that what commits later comes later. Delivery is at least once: a batch that is not acknowledged within its
lease is delivered again. One batch of a name is under way at a time, whoever reads. Positions are ephemeral
state: they are neither moved nor verified. Callers: the handles. Keeps P7 (a stale acknowledgement moves
nothing), P11, P15.
"""

from __future__ import annotations

from typing import Any

import msgspec

from perdure.errors import Invalid, NotFound, Stale
from perdure.log.feed import Position, decode_cursor, encode_cursor, stale
from perdure.model.instants import duration_us
from perdure.model.limits import check_name, check_page
from perdure.model.records.happenings import EventRecord
from perdure.planes.happenings import Names
from perdure.planes.paging import Page
from perdure.planes.spans import Duration
from perdure.planes.tables import SUBSCRIPTIONS
from perdure.stores.statements import Statements
from perdure.stores.store import Reads, event_of
from perdure.stores.tx import LOG, Tx

Q = Statements("perdure.planes", "feed.sql")

BEGINNING = Position()


class Delivery(msgspec.Struct, frozen=True):
    """A batch under way: its events, and the token that acknowledges it."""

    events: tuple[EventRecord, ...] = ()
    token: int = 0


def read(reads: Reads, after: str | None = None, limit: int = 100) -> Page[EventRecord]:
    """Events after a cursor (None: from the beginning), oldest first; `next` is always a cursor."""
    uid, epoch = _store(reads)
    limit = check_page(limit)
    start = BEGINNING if after is None else decode_cursor(after, uid, epoch)
    events, end = _after(reads, start, limit)
    return Page(events, encode_cursor(uid, epoch, end))


def end(reads: Reads) -> str:
    """The cursor after everything that is committed now: for who wants only what comes."""
    uid, epoch = _store(reads)
    return encode_cursor(uid, epoch, _end(reads))


def _store(reads: Reads) -> tuple[str, int]:
    facts = {name: reads.query(LOG.meta_get, name=name)[0][0] for name in ("uid", "epoch")}
    return facts["uid"], int(facts["epoch"])


def _end(reads: Reads) -> Position:
    return Position(*reads.query(LOG.feed_end)[0])


def _after(reads: Reads, start: Position, limit: int) -> tuple[list[EventRecord], Position]:
    """The next events and where they end. A page that is not full ends at the end of the feed: others' events
    are passed by.
    """
    end = _end(reads)
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
    )
    names = Names(reads)
    events = [names.record(event_of(row[:-1])) for row in rows]
    return events, end if len(rows) < limit else Position(rows[-1][-1], rows[-1][-3])


# --- named readers --------------------------------------------------------------------------------


def subscribe(tx: Tx, name: str, start: str = "beginning") -> None:
    """Begin a subscription, or find it: one that exists keeps its position, whatever `start` says."""
    position = _start(tx, start)
    if _row(tx, check_name(name, "name")) is None:
        _put(tx, name, position, 0)


def reset(tx: Tx, name: str, start: str) -> None:
    """Put a subscription at the beginning or at the end, in the store's epoch. A batch under way can no
    longer be acknowledged.
    """
    position = _start(tx, start)
    _put(tx, name, position, _known(tx, name)["token"] + 1)


def unsubscribe(tx: Tx, name: str) -> None:
    """Forget a subscription and its position. Forgetting one that is not there does nothing."""
    if _row(tx, check_name(name, "name")) is not None:
        tx.touch(SUBSCRIPTIONS, {"name": name}, None)


def waiting(reads: Reads, name: str) -> bool:
    """Whether a batch could be taken now: a read, so that polling writes nothing."""
    rows = reads.query(Q.subscription_get, touches=[(SUBSCRIPTIONS, reads.tenant)], tenant=reads.tenant, name=name)
    if not rows:
        raise _unknown(name)
    epoch, xid, pos, *_, held = rows[0]
    return epoch != _store(reads)[1] or (not held and _end(reads) > (xid, pos))


def take(tx: Tx, name: str, limit: int = 100, lease: Duration = "30s") -> Delivery:
    """Take the next batch for the time of a lease; empty when there is none, or while another one is under
    way.
    """
    limit, lease_us = check_page(limit), duration_us(lease, "lease")
    row, now = _current(tx, name), tx.store_now()
    if row["expires_at"] is not None and row["expires_at"] > now:
        return Delivery()
    start = Position(row["xid"], row["pos"])
    events, end = _after(tx, start, limit)
    if not events:
        if end > start:
            _put(tx, name, end, row["token"])
        return Delivery()
    token = row["token"] + 1
    _put(tx, name, start, token, batch=end, expires_at=now + lease_us)
    return Delivery(tuple(events), token)


def acknowledge(tx: Tx, name: str, token: int) -> None:
    """Move on past a batch. Stale, and nothing moves, when it is no longer under way."""
    row = _current(tx, name)
    if row["token"] != token or row["batch_pos"] is None:
        raise Stale(
            "this batch is no longer under way: it was acknowledged, delivered again, or reset",
            path="token",
            hint="take the next batch",
            token=row["token"],
        )
    _put(tx, name, Position(row["batch_xid"], row["batch_pos"]), token)


def _start(reads: Reads, start: str) -> Position:
    if start == "beginning":
        return BEGINNING
    if start == "end":
        return _end(reads)
    raise Invalid(f"expected 'beginning' or 'end', got {start!r}"[:200], path="start")


def _row(tx: Tx, name: str) -> dict[str, Any] | None:
    tx.query(Q.subscription_lock, tenant=tx.tenant, name=name)
    return tx.own_row(SUBSCRIPTIONS, name)


def _known(tx: Tx, name: str) -> dict[str, Any]:
    row = _row(tx, check_name(name, "name"))
    if row is None:
        raise _unknown(name)
    return row


def _current(tx: Tx, name: str) -> dict[str, Any]:
    row = _known(tx, name)
    epoch = _store(tx)[1]
    if row["epoch"] != epoch:
        raise stale(row["epoch"], epoch, "subscription")
    return row


def _unknown(name: str) -> NotFound:
    return NotFound(f"there is no subscription {name!r}", path="name", hint="store.subscribe makes it")


def _put(
    tx: Tx,
    name: str,
    at: Position,
    token: int,
    *,
    batch: Position | None = None,
    expires_at: int | None = None,
) -> None:
    batch_xid, batch_pos = batch or (None, None)
    tx.touch(
        SUBSCRIPTIONS,
        {"name": name},
        {
            "epoch": _store(tx)[1],
            "xid": at.xid,
            "pos": at.pos,
            "token": token,
            "batch_xid": batch_xid,
            "batch_pos": batch_pos,
            "expires_at": expires_at,
        },
    )
