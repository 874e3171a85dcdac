# Generated from handles/aio/emitted.py by tools/unasync.py: edit that one.
"""Handles for emitted events, folds and the feed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from typing import Any, TypeVar

from perdure.errors import ReadOnly
from perdure.handles.filtered import filtered
from perdure.handles.later import emitted as own_events
from perdure.handles.later import feed, subscriptions
from perdure.handles.later import history as times
from perdure.handles.sync.base import StoreHandle, StreamHandle
from perdure.handles.sync.feed import Subscription
from perdure.model.filters import EventFilters
from perdure.model.records.emitted import EventRecord
from perdure.planes.reading.durations import Duration
from perdure.planes.reading.paging import Page

S = TypeVar("S")


class Emitted(StreamHandle):
    """The verbs of a session for emitted events and folds."""

    __slots__ = ()

    def emit(
        self,
        kind: str,
        data: Any = None,
        *,
        expect: int | None = None,
        about: Iterable[str] = (),
        refs: Iterable[object] = (),
    ) -> EventRecord:
        """Append an event of your own, such as `deploy.finished`. It changes nothing but is kept, chained and
        fed like all others.

        Atomic; not idempotent: with `expect=` the last sequence number that you have seen, a repetition
        raises Conflict, which carries the current `seq`. about: whom it concerns. refs: turns, decisions …
        that it refers to. Raises Invalid.
        """
        return self._write(own_events.emit, kind, data, expect=expect, about=about, refs=refs)

    def events(
        self,
        after: int | str = 0,
        kind: str | None = None,
        *,
        emitted: bool | None = None,
        about: str | None = None,
        limit: int = 100,
    ) -> Page[EventRecord]:
        """The events of this session after a sequence number, in order, at most `limit`; of a fork also those
        before it. `.next`, for `after=`, is None when that was all; what follows a full page may be empty.

        kind: one kind, or all below a word: `deploy.*`. emitted=True: only your own. about: those about a subject.
        Raises Invalid.
        """
        return self._read(own_events.events, after=after, kind=kind, emitted=emitted, about=about, limit=limit)

    def fold(
        self,
        reducer: Callable[[Any, EventRecord], S],
        initial: Any = None,
        at: times.Moment | None = None,
        name: str | None = None,
    ) -> S:
        """The state that your emitted events add up to: `state = reducer(state, event)`, from `initial`, up
        to `at` (or now).

        With `name=` a snapshot is kept now and then, and the next fold of that name goes on from it: give a
        changed reducer another name. The state must then be storable (Invalid if it is not). Reads only,
        otherwise. Raises what `reducer` raises.
        """
        upto = self._read(times.seq_of, at)
        result = self._read(own_events.fold, reducer, initial, upto=upto, name=name)
        if name is not None and result.folded > own_events.SNAPSHOT_AFTER_EVENTS:
            with suppress(ReadOnly):  # it is only there to save time
                self._write(own_events.keep_snapshot, name, result)
        return result.state


class EmittedAcross(StoreHandle):
    """Asking across the store: events and the feed."""

    __slots__ = ()

    @filtered(EventFilters)
    def events(self, asked: EventFilters) -> Page[EventRecord]:
        """A page of events of all sessions and runs, newest first; pass its `next` as `after=` for the following one.

        kind: one kind, or all below a word: `deploy.*`. since, until: instants or ages ("7d"). session, run: of that one
        alone. emitted=True: only what `session.emit` made. Raises Invalid.
        """
        return self._caller.read(own_events.events_across, asked)

    def feed(self, after: str | None = None, limit: int = 100, wait: Duration | None = None) -> Page[EventRecord]:
        """Every event of the tenant after a cursor (None: from the beginning), oldest first; `next` is the
        cursor to go on with.

        Nothing is ever skipped: what is not yet committed comes later. The position is yours to keep;
        `subscribe` keeps it for you. `wait` asks again for so long when there is nothing. Raises Invalid;
        Stale for a cursor of before a restore.
        """
        patience = self._caller.patience(wait)
        page = self._caller.read(feed.read, after, limit)
        while not page and patience.lasts():
            page = self._caller.read(feed.read, page.next, limit)
        return page

    def feed_end(self) -> str:
        """The cursor at the end of the feed: `feed(after=…)` then gives only what comes from now on."""
        return self._caller.read(feed.end)

    def feed_held_by(self) -> str | None:
        """The transaction that holds back the feed on PostgreSQL, in words (process, application, age); None if nothing does."""
        return self._caller.read(feed.held_by)

    def subscribe(
        self,
        name: str,
        start: str = "beginning",
        *,
        kinds: Collection[str] | None = None,
        stream: str | None = None,
        consumers: int | None = None,
    ) -> Subscription:
        """A reader of the feed that keeps its position under a name: one that exists continues where it was.

        start: "beginning" or "end", for a new one. kinds: only these, such as `["turn.*", "deploy.finished"]`. stream:
        only those of a session, or of a run as `run:ID`. consumers: how many batches may be under way at once; with 1,
        the default, events come in order. Idempotent. Raises Invalid, NotFound (the stream), and Conflict when the
        subscription exists with other kinds or another stream.
        """
        wanted = {"kinds": kinds, "stream": stream, "consumers": consumers}
        self._caller.write(subscriptions.subscribe, name, start, **wanted)
        return Subscription(self._caller, name)
