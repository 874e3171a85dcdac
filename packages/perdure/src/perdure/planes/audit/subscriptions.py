"""Named readers of the feed that keep their place, and the batches that they hand out.

A batch is leased to one consumer: what is not acknowledged within its lease, or is given back, is delivered again, with
a count. So delivery is at least once. A subscription has as many batches under way as it has consumers; with one, the
default, events come in the order of the feed. Its filter (kinds, stream) belongs to its name, not to a consumer: else one would
acknowledge what another waits for. Positions are ephemeral state: they are neither moved nor verified.
Callers: the handles. Keeps P7 (a stale acknowledgement moves nothing), P11, P15.
"""

from __future__ import annotations

import json
from collections.abc import Collection

import msgspec

from perdure.errors import Conflict, Damaged, Invalid, NotFound, Stale
from perdure.log.feed import Position, stale
from perdure.log.table import Row
from perdure.model.instants import duration_us
from perdure.model.limits import PAGE_MAX_ROWS, check_name, check_page
from perdure.model.records.emitted import EventRecord
from perdure.planes.conversation.emitted import check_kind
from perdure.planes.conversation.feed import BEGINNING, Sieve, end_of, events_after, store_of
from perdure.planes.conversation.feed import Q as FEED
from perdure.planes.reading.durations import Duration
from perdure.planes.tables import SUBSCRIPTIONS
from perdure.stores.statements import Statements
from perdure.stores.store import Reads
from perdure.stores.tx import Tx

Q = Statements("perdure.planes.audit", "subscriptions.sql")

# The subscription of the process that tells the spans of a tenant. It is stored: its name is from before the packages.
TELEMETRY = "perdure.telemetry"
MAX_CONSUMERS = 100
MAX_KINDS = 100
SIFTED_AT_ONCE = 20_000  # events that one transaction passes over when few of them are wanted
NOBODYS = 0  # the token of a batch that nobody has: of an empty answer, and of what waits to be delivered again
_RUN = "run:"


class Underway(msgspec.Struct, frozen=True, array_like=True):
    """A batch that was handed out: after which event it begins, with which it ends, and how often it was delivered."""

    token: int
    after: Position
    upto: Position
    until: int  # 0: it was given back
    taker: str | None
    deliveries: int


class SubscriptionState(msgspec.Struct, frozen=True, omit_defaults=True):
    """The filter of a subscription, what is under way, and the last tokens that were acknowledged."""

    kinds: tuple[str, ...] = ()
    stream: int | None = None
    consumers: int = 1
    batches: tuple[Underway, ...] = ()
    acked: tuple[int, ...] = ()

    @property
    def sieve(self) -> Sieve:
        """The filter for the feed."""
        return Sieve(json.dumps(self.kinds) if self.kinds else None, self.stream)

    def is_full(self, now: int) -> bool:
        """Whether as many batches are under way as there are consumers."""
        return sum(batch.until > now for batch in self.batches) >= self.consumers

    def lapsed(self, now: int) -> list[Underway]:
        """Batches to deliver again, the oldest events first."""
        return sorted((batch for batch in self.batches if batch.until <= now), key=lambda batch: batch.after)

    def changed(self, old: Underway | None, *new: Underway) -> SubscriptionState:
        """Other batches are under way."""
        others = [batch for batch in self.batches if batch is not old]
        return msgspec.structs.replace(self, batches=(*others, *new))


class Delivery(msgspec.Struct, frozen=True):
    """A batch under way: its events, the token that acknowledges it, and how often it was delivered. When it is empty,
    `more` says that asking again may bring some.
    """

    events: tuple[EventRecord, ...] = ()
    token: int = NOBODYS
    deliveries: int = 0
    more: bool = False


class Stretch(msgspec.Struct, frozen=True):
    """A batch under way as the positions between which its events lie, for a reader that reads them itself."""

    after: Position
    upto: Position
    token: int
    deliveries: int


_decode = msgspec.json.Decoder(SubscriptionState).decode


# --- beginning and ending ---------------------------------------------------------------------------


def subscribe(
    tx: Tx,
    name: str,
    start: str = "beginning",
    *,
    kinds: Collection[str] | None = None,
    stream: str | None = None,
    consumers: int | None = None,
) -> None:
    """Begin a subscription, or find it: one that exists keeps its position, whatever `start` says. Conflict if it wants
    other events.
    """
    position = _start(tx, start)
    filters = _checked_kinds(kinds), None if stream is None else _stream(tx, stream)
    count = _checked_consumers(consumers)
    row = _row(tx, check_name(name, "name"))
    if row is None:
        _put(tx, name, 0, position, SubscriptionState(*filters, consumers=count or 1))
        return
    state = _state(row)
    stored_filters = [stored for stored, option in ((state.kinds, kinds), (state.stream, stream)) if option is not None]
    if stored_filters != [want for want, option in zip(filters, (kinds, stream), strict=True) if option is not None]:
        hint = "use another name, or cancel() it first: it then begins anew"
        raise Conflict(f"the subscription {name!r} wants other events", path="kinds", hint=hint)
    if count is not None and count != state.consumers:
        _put(tx, name, row["token"], _place(row), msgspec.structs.replace(state, consumers=count))


def reset(tx: Tx, name: str, start: str) -> None:
    """Put a subscription at the beginning or at the end, in the store's epoch. Batches under way can no longer be
    acknowledged.
    """
    position = _start(tx, start)
    row = _existing_row(tx, name)
    _put(tx, name, row["token"], position, msgspec.structs.replace(_state(row), batches=(), acked=()))


def unsubscribe(tx: Tx, name: str) -> None:
    """Forget a subscription and its position. Forgetting one that is not there does nothing."""
    if _row(tx, check_name(name, "name")) is not None:
        tx.touch(SUBSCRIPTIONS, {"name": name}, None)


def _checked_kinds(kinds: object) -> tuple[str, ...]:
    if kinds is None:
        return ()
    if not isinstance(kinds, (list, tuple, set, frozenset)):
        raise Invalid("expected a list of kinds", path="kinds", hint='kinds=["turn.*", "deploy.finished"]')
    names = sorted({check_kind(kind, f"kinds[{i}]") for i, kind in enumerate(kinds)})
    if not 1 <= len(names) <= MAX_KINDS:
        raise Invalid(f"expected 1 to {MAX_KINDS} kinds, got {len(names)}", path="kinds", hint="leave it out for all")
    return tuple(names)


def _checked_consumers(consumers: object) -> int | None:
    if consumers is not None and (type(consumers) is not int or not 1 <= consumers <= MAX_CONSUMERS):
        raise Invalid(f"expected a number from 1 to {MAX_CONSUMERS}, got {consumers!r}"[:200], path="consumers")
    return consumers


def _stream(tx: Tx, stream: object) -> int:
    text = check_name(stream, "stream")
    kind, name = ("run", text.removeprefix(_RUN)) if text.startswith(_RUN) else ("session", text)
    target = tx.find_stream(kind, name)
    if target is None:
        raise NotFound(f"there is no {kind} {name!r}", path="stream", hint="the name of a session, or run:ID")
    return target.id


def _start(reads: Reads, start: str) -> Position:
    if start == "beginning":
        return BEGINNING
    if start == "end":
        return end_of(reads)
    raise Invalid(f"expected 'beginning' or 'end', got {start!r}"[:200], path="start")


# --- handing out ------------------------------------------------------------------------------------


def waiting(reads: Reads, name: str) -> bool:
    """Whether a batch could be taken now: a read, so that polling writes nothing."""
    rows = reads.query(Q.subscription_get, touches=[(SUBSCRIPTIONS, reads.tenant)], tenant=reads.tenant, name=name)
    if not rows:
        raise _unknown(name)
    epoch, xid, pos, column, now = rows[0]
    if epoch != store_of(reads)[1]:
        return True  # taking says so
    state = _decoded(column)
    return not state.is_full(now) and (bool(state.lapsed(now)) or end_of(reads) > (xid, pos))


def take(tx: Tx, name: str, limit: int = 100, lease: Duration = "30s", taker: str | None = None) -> Delivery:
    """Take the next batch for the time of a lease: one to be delivered again, else new events. Empty when there are
    none, or while as many are under way as there are consumers.

    taker: who asks. The same one again gets the same batch while it is under way: positions are no events, so
    a COMMIT whose reply was lost cannot be asked for, and the verb is run again.
    """
    limit, lease_us = check_page(limit), duration_us(lease, "lease")
    row, now = _current(tx, name), tx.store_now()
    state = _state(row)
    for batch in state.batches:
        if taker is not None and batch.taker == taker:
            events, _ = events_after(tx, batch.after, PAGE_MAX_ROWS, batch.upto, state.sieve)
            return Delivery(tuple(events), batch.token, batch.deliveries)
    if state.is_full(now):
        return Delivery()
    lapsed = next(iter(state.lapsed(now)), None)
    start, end = (lapsed.after, lapsed.upto) if lapsed else (_place(row), _bound(tx, _place(row), state.sieve))
    events, upto = events_after(tx, start, limit, end, state.sieve)
    place = _place(row) if lapsed else upto
    if not events:
        if lapsed or upto > start:
            _put(tx, name, row["token"], place, state.changed(lapsed))
        return Delivery(more=lapsed is not None or end_of(tx) > place)
    token, deliveries = row["token"] + 1, lapsed.deliveries if lapsed else 0
    underway = Underway(token, start, upto, now + lease_us, taker, deliveries + 1)
    rest = [Underway(NOBODYS, upto, end, 0, None, deliveries)] if lapsed and upto < end else []
    _put(tx, name, token, place, state.changed(lapsed, underway, *rest))
    return Delivery(tuple(events), token, underway.deliveries)


def take_stretch(tx: Tx, name: str, lease: Duration = "30s") -> Stretch | None:
    """Take everything that is new, up to a bound, as `take` does, but without reading it: one short transaction for thousands of
    events. None when there is nothing, or while as many batches are under way as there are consumers.
    """
    lease_us = duration_us(lease, "lease")
    row, now = _current(tx, name), tx.store_now()
    state = _state(row)
    if state.is_full(now):
        return None
    lapsed = next(iter(state.lapsed(now)), None)
    start = lapsed.after if lapsed else _place(row)
    end = lapsed.upto if lapsed else min(end_of(tx), _ahead(tx, start) or end_of(tx))
    if end <= start:
        return None
    token, deliveries = row["token"] + 1, lapsed.deliveries + 1 if lapsed else 1
    underway = Underway(token, start, end, now + lease_us, None, deliveries)
    _put(tx, name, token, _place(row) if lapsed else end, state.changed(lapsed, underway))
    return Stretch(start, end, token, deliveries)


def is_known(reads: Reads, name: str) -> bool:
    """Whether there is a subscription of this name."""
    return bool(
        reads.query(Q.subscription_get, touches=[(SUBSCRIPTIONS, reads.tenant)], tenant=reads.tenant, name=name)
    )


def _bound(reads: Reads, start: Position, sieve: Sieve) -> Position:
    """The end of what is looked at: that of the feed, or nearer when most of it may be passed over."""
    end = end_of(reads)
    ahead = None if sieve == Sieve() else _ahead(reads, start)
    return end if ahead is None else min(end, ahead)


def _ahead(reads: Reads, start: Position) -> Position | None:
    """The position so many events further on as one transaction passes over; None if there are not so many."""
    bound = reads.query(FEED.feed_bound, xid=start.xid, pos=start.pos, steps=SIFTED_AT_ONCE)
    return Position(*bound[0]) if bound else None


def acknowledge(tx: Tx, name: str, token: int) -> None:
    """A batch is done with. Nothing is left to do when it was acknowledged lately, or was empty (NOBODYS). Stale, and nothing
    moves, when it is no longer under way.
    """
    row = _current(tx, name)
    state = _state(row)
    if token == NOBODYS or token in state.acked:
        return
    batch = _held(state, token)
    if batch is None:
        raise Stale(
            "this batch is no longer under way: it was delivered again, given back, or reset",
            path="token",
            hint="take the next batch",
            token=row["token"],
        )
    acked = (*state.acked, token)[-state.consumers :]
    _put(tx, name, row["token"], _place(row), msgspec.structs.replace(state.changed(batch), acked=acked))


def give_back(tx: Tx, name: str, token: int) -> None:
    """Let a batch be delivered again at once. A batch that is no longer under way has nothing to give back."""
    row = _current(tx, name)
    state = _state(row)
    batch = _held(state, token)
    if batch is not None:
        free = msgspec.structs.replace(batch, token=NOBODYS, until=0, taker=None)
        _put(tx, name, row["token"], _place(row), state.changed(batch, free))


def _held(state: SubscriptionState, token: int) -> Underway | None:
    return next((batch for batch in state.batches if batch.token == token != NOBODYS), None)


# --- the row ----------------------------------------------------------------------------------------


def _row(tx: Tx, name: str) -> Row | None:
    tx.query(Q.subscription_lock, tenant=tx.tenant, name=name)
    return tx.own_row(SUBSCRIPTIONS, name)


def _existing_row(tx: Tx, name: str) -> Row:
    row = _row(tx, check_name(name, "name"))
    if row is None:
        raise _unknown(name)
    return row


def _current(tx: Tx, name: str) -> Row:
    row = _existing_row(tx, name)
    epoch = store_of(tx)[1]
    if row["epoch"] != epoch:
        raise stale(row["epoch"], epoch, "subscription")
    return row


def _unknown(name: str) -> NotFound:
    return NotFound(f"there is no subscription {name!r}", path="name", hint="store.subscribe makes it")


def _place(row: Row) -> Position:
    return Position(row["xid"], row["pos"])


def _state(row: Row) -> SubscriptionState:
    return _decoded(row["about"])


def _decoded(column: str) -> SubscriptionState:
    try:
        return _decode(column)
    except (msgspec.DecodeError, TypeError, UnicodeError) as error:
        hint = "cancel() the subscription and begin it anew"
        raise Damaged(f"the stored data is no state of a subscription: {error}", path="about", hint=hint) from None


def _put(tx: Tx, name: str, token: int, at: Position, state: SubscriptionState) -> None:
    text = msgspec.json.encode(state).decode()
    values = {"epoch": store_of(tx)[1], "xid": at.xid, "pos": at.pos, "token": token, "about": text}
    tx.touch(SUBSCRIPTIONS, {"name": name}, values)
