"""The feed: every event of a tenant, in an order in which nothing is skipped, and named subscriptions that
keep their place.

A page ends at most at the *end* that was read before it: on PostgreSQL the oldest transaction in flight, so
that what commits later comes later. Delivery is at least once: a batch that is not acknowledged within its
lease is delivered again. One batch of a name is under way at a time, whoever reads. Positions are ephemeral
state: they are neither moved nor verified. Callers: the handles. Keeps P7 (a stale acknowledgement moves
nothing), P11, P15.
"""

from __future__ import annotations

import msgspec

from perdure.errors import Invalid, NotFound, Stale
from perdure.log.feed import Position, decode_cursor, encode_cursor, stale
from perdure.log.table import Row
from perdure.model.instants import duration_us
from perdure.model.limits import PAGE_MAX_ROWS, check_name, check_page
from perdure.model.records.happenings import EventRecord
from perdure.planes.happenings import Names
from perdure.planes.paging import Page
from perdure.planes.spans import Duration
from perdure.planes.tables import SUBSCRIPTIONS
from perdure.stores.migrate import number_in, uid_in
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
    facts = {name: value for name in ("uid", "epoch") for (value,) in reads.query(LOG.meta_get, name=name)}
    return uid_in(facts, "uid"), number_in(facts, "epoch")


def _end(reads: Reads) -> Position:
    return Position(*reads.query(LOG.feed_end)[0])


def _after(
    reads: Reads, start: Position, limit: int, end: Position | None = None
) -> tuple[list[EventRecord], Position]:
    """The next events and where they end. A page that is not full ends at the end of the feed (or at `end`):
    others' events are passed by.
    """
    end = end or _end(reads)
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
        _put(tx, name, {"token": 0, "acked": 0}, position)


def reset(tx: Tx, name: str, start: str) -> None:
    """Put a subscription at the beginning or at the end, in the store's epoch. A batch under way can no
    longer be acknowledged.
    """
    position = _start(tx, start)
    row = _known(tx, name)
    _put(tx, name, row | {"token": row["token"] + 1}, position)


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


def take(tx: Tx, name: str, limit: int = 100, lease: Duration = "30s", taker: str | None = None) -> Delivery:
    """Take the next batch for the time of a lease; empty when there is none, or while another one is under
    way.

    taker: who asks. The same one again gets the same batch while it is under way: positions are no events, so
    a COMMIT whose reply was lost cannot be asked for, and the verb is run again.
    """
    limit, lease_us = check_page(limit), duration_us(lease, "lease")
    row, now = _current(tx, name), tx.store_now()
    start = Position(row["xid"], row["pos"])
    if row["expires_at"] is not None and row["expires_at"] > now:
        return _again(tx, row, start) if taker is not None and row["taker"] == taker else Delivery()
    events, end = _after(tx, start, limit)
    if not events:
        if end > start:
            _put(tx, name, row, end)
        return Delivery()
    token = row["token"] + 1
    _put(tx, name, row | {"token": token}, start, batch=end, expires_at=now + lease_us, taker=taker)
    return Delivery(tuple(events), token)


def _again(tx: Tx, row: Row, start: Position) -> Delivery:
    events, _ = _after(tx, start, PAGE_MAX_ROWS, Position(row["batch_xid"], row["batch_pos"]))
    return Delivery(tuple(events), row["token"])


def acknowledge(tx: Tx, name: str, token: int) -> None:
    """Move on past a batch. Nothing is left to do when this was the last one that was acknowledged. Stale,
    and nothing moves, when it is no longer under way.
    """
    row = _current(tx, name)
    if row["acked"] == token:
        return
    if row["token"] != token or row["batch_pos"] is None:
        raise Stale(
            "this batch is no longer under way: it was delivered again, or reset",
            path="token",
            hint="take the next batch",
            token=row["token"],
        )
    _put(tx, name, row | {"acked": token}, Position(row["batch_xid"], row["batch_pos"]))


def _start(reads: Reads, start: str) -> Position:
    if start == "beginning":
        return BEGINNING
    if start == "end":
        return _end(reads)
    raise Invalid(f"expected 'beginning' or 'end', got {start!r}"[:200], path="start")


def _row(tx: Tx, name: str) -> Row | None:
    tx.query(Q.subscription_lock, tenant=tx.tenant, name=name)
    return tx.own_row(SUBSCRIPTIONS, name)


def _known(tx: Tx, name: str) -> Row:
    row = _row(tx, check_name(name, "name"))
    if row is None:
        raise _unknown(name)
    return row


def _current(tx: Tx, name: str) -> Row:
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
    row: Row,
    at: Position,
    *,
    batch: Position | None = None,
    expires_at: int | None = None,
    taker: str | None = None,
) -> None:
    batch_xid, batch_pos = batch or (None, None)
    tx.touch(
        SUBSCRIPTIONS,
        {"name": name},
        {
            "epoch": _store(tx)[1],
            "xid": at.xid,
            "pos": at.pos,
            "token": row["token"],
            "acked": row["acked"],
            "taker": taker,
            "batch_xid": batch_xid,
            "batch_pos": batch_pos,
            "expires_at": expires_at,
        },
    )
