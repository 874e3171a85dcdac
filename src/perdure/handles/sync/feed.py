# Generated from handles/aio/feed.py by tools/unasync.py: edit that one.
"""Handles for the feed: a named reader that keeps its place, and the batches that it gets."""

from __future__ import annotations

from collections.abc import Iterator

from perdure.handles.callers import Caller
from perdure.model.ids import new_uid
from perdure.model.records.happenings import EventRecord
from perdure.planes import feed
from perdure.planes.spans import Duration, pauses


class Batch:
    """Events of the feed, oldest first, until they are acknowledged. Empty (and false) when there was nothing
    to take.
    """

    __slots__ = ("_caller", "_name", "_token", "events")

    def __init__(self, caller: Caller, name: str, delivery: feed.Delivery) -> None:
        self._caller = caller
        self._name = name
        self._token = delivery.token
        self.events = delivery.events

    def ack(self) -> None:
        """Say that these events are done with: the next batch begins after them. An empty batch needs no
        acknowledgement.

        Atomic; a second time it does nothing. Raises Stale, and moves nothing, when it came too late (the batch
        was delivered again) or after a reset. After a crash before it: the batch is delivered again when its
        lease has passed.
        """
        if self.events:
            self._caller.write(feed.acknowledge, self._name, self._token)

    def __iter__(self) -> Iterator[EventRecord]:
        return iter(self.events)

    def __len__(self) -> int:
        return len(self.events)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self.events)} event{'' if len(self.events) == 1 else 's'})"


class Subscription:
    """A reader of the feed under a name. Any number of processes may share the name: each batch goes to one
    of them.
    """

    __slots__ = ("_caller", "name")

    def __init__(self, caller: Caller, name: str) -> None:
        self._caller = caller
        self.name = name

    def next(self, limit: int = 100, wait: Duration | None = None, lease: Duration = "30s") -> Batch:
        """The next batch, oldest first; empty if there is nothing, or while another batch of this name is
        under way.

        Atomic. At least once: what is not acknowledged within `lease` is delivered again, to whoever asks.
        `wait` asks again for so long, with growing pauses. Raises Stale after a restore of the store (see
        `reset`), NotFound, Invalid.
        """
        batch = self._take(limit, lease)
        for pause in pauses(wait):
            if batch:
                break
            self._caller.pause(pause)
            if self._caller.read(feed.waiting, self.name):
                batch = self._take(limit, lease)
        return batch

    def _take(self, limit: int, lease: Duration) -> Batch:
        taker = new_uid().hex()  # a lost reply must not leave the batch with nobody
        delivery = self._caller.write(feed.take, self.name, limit, lease, taker)
        return Batch(self._caller, self.name, delivery)

    def reset(self, start: str) -> None:
        """Go to the "beginning" or the "end". Atomic; a batch under way can no longer be acknowledged."""
        self._caller.write(feed.reset, self.name, start)

    def cancel(self) -> None:
        """Forget this subscription and its position. Calling it again does nothing."""
        self._caller.write(feed.unsubscribe, self.name)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"
