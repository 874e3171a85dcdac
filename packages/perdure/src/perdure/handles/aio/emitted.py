"""Handles for emitted events, folds and the feed."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Any, TypeVar

from perdure.errors import ReadOnly
from perdure.handles.aio.base import AsyncStoreHandle, AsyncStreamHandle
from perdure.handles.aio.feed import AsyncSubscription
from perdure.handles.aio.made import gives, pages_all
from perdure.handles.later import emitted as own_events
from perdure.handles.later import feed, subscriptions
from perdure.handles.later import history as times
from perdure.model.filters import EventFilters
from perdure.model.records.emitted import EventRecord
from perdure.planes.reading.durations import Duration
from perdure.planes.reading.paging import Page
from perdure.verbs import work as verbs

S = TypeVar("S")


class AsyncEmitted(AsyncStreamHandle):
    """Verbs of a session for events of your own."""

    __slots__ = ()

    emit = gives(verbs.emit)

    async def events(
        self,
        after: int | str = 0,
        kind: str | None = None,
        *,
        emitted: bool | None = None,
        about: str | None = None,
        limit: int = 100,
    ) -> Page[EventRecord]:
        """Return the events of this session after a sequence number, in order, at most `limit`; for a fork also those before
        it.

        The next page is `after=page.next`; None when there are no more. The page after a full one may be empty.
        kind: one kind, or all below a word: `deploy.*`.
        emitted: True for events of your own only.
        about: only events about a subject.

        Raises Invalid.
        """
        return await self._read(own_events.events, after=after, kind=kind, emitted=emitted, about=about, limit=limit)

    async def fold(
        self,
        reducer: Callable[[Any, EventRecord], S],
        initial: Any = None,
        at: times.Moment | None = None,
        name: str | None = None,
    ) -> S:
        """Compute a state from your emitted events: `state = reducer(state, event)`, from `initial`, up to `at` (or now).

        name: keep a snapshot now and then, from which the next fold of this name continues. Give a changed reducer another
            name. The state must then be storable (Invalid if it is not).

        Otherwise it only reads. Raises what `reducer` raises.
        """
        upto = await self._read(times.seq_of, at)
        result = await self._read(own_events.fold, reducer, initial, upto=upto, name=name)
        if name is not None and result.folded > own_events.SNAPSHOT_AFTER_EVENTS:
            with suppress(ReadOnly):  # it is only there to save time
                await self._write(own_events.keep_snapshot, name, result)
        return result.state


class AsyncEmittedAcross(AsyncStoreHandle):
    """Verbs of a store for events and the feed."""

    __slots__ = ()

    events = pages_all(verbs.all_events, EventFilters)

    async def feed(self, after: str | None = None, limit: int = 100, wait: Duration | None = None) -> Page[EventRecord]:
        """Return every event of the tenant after a cursor (None: from the beginning), oldest first. Continue with
        `after=page.next`.

        Nothing is ever skipped: an event that is not yet committed comes later. You keep the cursor; `subscribe` keeps it for
        you.
        wait: when there is nothing, ask again for so long.

        Raises Invalid; Stale for a cursor from before a restore.
        """
        patience = self._caller.patience(wait)
        page = await self._caller.read(feed.read, after, limit)
        while not page and await patience.lasts():
            page = await self._caller.read(feed.read, page.next, limit)
        return page

    async def feed_end(self) -> str:
        """Return the cursor at the end of the feed: `feed(after=…)` then gives only newer events."""
        return await self._caller.read(feed.end)

    async def feed_held_by(self) -> str | None:
        """Describe the transaction that holds back the feed on PostgreSQL (process, application, age); None if nothing does."""
        return await self._caller.read(feed.held_by)

    async def subscribe(
        self,
        name: str,
        start: str = "beginning",
        *,
        kinds: Collection[str] | None = None,
        stream: str | None = None,
        consumers: int | None = None,
    ) -> AsyncSubscription:
        """Return a reader of the feed that keeps its position under a name. An existing one continues where it was. Idempotent.

        start: "beginning" or "end", for a new one.
        kinds: only these, such as `["turn.*", "deploy.finished"]`.
        stream: only events of a session, or of a run as `run:ID`.
        consumers: how many batches may be under way at once. With 1, the default, events come in order.

        Raises Invalid, NotFound (the stream), and Conflict when the subscription exists with other kinds or another stream.
        """
        wanted = {"kinds": kinds, "stream": stream, "consumers": consumers}
        await self._caller.write(subscriptions.subscribe, name, start, **wanted)
        return AsyncSubscription(self._caller, name)
