# Generated from handles/aio/feed.py by tools/unasync.py: edit that one.
"""Handles for the feed: a named reader that keeps its position, and its batches."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import suppress

from perdure.errors import Error
from perdure.handles.facts import BatchFacts
from perdure.handles.later import feed, subscriptions
from perdure.model.ids import new_uid
from perdure.model.records.emitted import EventRecord
from perdure.planes.reading.durations import Duration
from perdure.runtime.callers import Caller
from perdure.stores.revocable import RevocableVerb

log = logging.getLogger("perdure.feed")
FOLLOW_WAIT = "30s"


class Batch(BatchFacts):
    """Events of the feed, oldest first, until they are acknowledged. Empty (and false) when there was nothing to take.

    `deliveries` counts how often these events were delivered, this time included. In an empty batch, `held_by` names the
    transaction that holds back the feed (PostgreSQL).
    """

    __slots__ = ("_caller", "_name", "_token", "deliveries", "events", "held_by")

    def __init__(self, caller: Caller, name: str, delivery: subscriptions.Delivery, held_by: str | None = None) -> None:
        self._caller = caller
        self._name = name
        self._token = delivery.token
        self.events = delivery.events
        self.deliveries = delivery.deliveries
        self.held_by = held_by

    def ack(self) -> None:
        """Mark these events as handled: the next batch begins after them. An empty batch needs no acknowledgement.

        Atomic; a second time it does nothing. Raises Stale, and moves nothing, when it came too late (the batch was delivered
        again) or after a reset. After a crash before it, the batch is delivered again when its lease has passed.
        """
        if self.events:
            self._caller.write(subscriptions.acknowledge, self._name, self._token)

    def nack(self) -> None:
        """Give these events back: they are delivered again at once, to any consumer, with `deliveries` one higher.

        Atomic; it does nothing for a batch that is no longer under way. To find an event that cannot be handled, use a smaller
        `limit`.
        """
        if self.events:
            self._caller.write(subscriptions.give_back, self._name, self._token)


class Subscription:
    """A reader of the feed under a name. Any number of processes may share the name: each batch goes to one of them."""

    __slots__ = ("_caller", "name")

    def __init__(self, caller: Caller, name: str) -> None:
        self._caller = caller
        self.name = name

    def next(self, limit: int = 100, wait: Duration | None = None, lease: Duration = "30s") -> Batch:
        """Return the next batch, oldest first. It is empty if there is nothing, or if as many batches are under way as there
        are consumers.

        Atomic. Delivery is at least once: events that are not acknowledged within `lease` are delivered again, to any consumer
        that asks.
        wait: when there is nothing, ask again for so long, with growing pauses. If another transaction then holds back the
            feed, the log and `batch.held_by` name it.

        Raises Stale after a restore of the store (see `reset`), NotFound, Invalid.
        """
        patience = self._caller.patience(wait)
        delivery = self._take(limit, lease)
        while not delivery.events and patience.lasts():
            if self._caller.read(subscriptions.waiting, self.name):
                delivery = self._take(limit, lease)
        held_by = None if delivery.events else self._caller.read(feed.held_by)
        if held_by and wait is not None:
            log.warning("the feed is held back for subscription %s: %s", self.name, held_by)
        return Batch(self._caller, self.name, delivery, held_by)

    def _take(self, limit: int, lease: Duration) -> subscriptions.Delivery:
        """Take a batch. If this caller is stopped before it hears of it, the batch is given back."""
        taker = new_uid().hex()  # a lost reply must not leave the batch with nobody
        taking = RevocableVerb(subscriptions.take, subscriptions.give_back, lambda delivery: delivery.token or None)
        verb: Callable[..., subscriptions.Delivery] = taking if self._caller.core.acts else subscriptions.take
        try:
            while True:
                delivery = self._caller.write(verb, self.name, limit, lease, taker)
                if delivery.events or not delivery.more:
                    return delivery
        except Exception:
            raise
        except BaseException:
            with suppress(Error):  # the store is away: it is delivered again when its lease has passed
                self._caller.write(taking.take_back, self.name)
            raise

    def follow(self, limit: int = 1, lease: Duration = "30s", wait: Duration | None = None) -> Iterator[EventRecord]:
        """Iterate over events as they come, without end: `for event in subscription.follow()`, or `for event in
        subscription`.

        Asking for the next event acknowledges the one before. An event whose handling fails or dies is delivered again when
        `lease` has passed, and so is the event at which a loop is left.
        limit: how many are taken and acknowledged at once. More is faster, and repeats up to so many after a crash.
        wait: end when nothing came for so long.

        Raises what `next` and `ack` raise: Stale when handling took longer than `lease` and another consumer has the event.
        """
        while True:
            batch = self.next(limit, FOLLOW_WAIT if wait is None else wait, lease)
            if not batch and wait is not None:
                return
            yield from batch
            batch.ack()

    def __iter__(self) -> Iterator[EventRecord]:
        return self.follow()

    def reset(self, start: str) -> None:
        """Move to the "beginning" or the "end". Atomic; batches under way can no longer be acknowledged."""
        self._caller.write(subscriptions.reset, self.name, start)

    def cancel(self) -> None:
        """Forget this subscription and its position. Calling it again does nothing."""
        self._caller.write(subscriptions.unsubscribe, self.name)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"
