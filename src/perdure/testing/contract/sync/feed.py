# Generated from testing/contract/aio/feed.py by tools/unasync.py: edit that one.
"""The contract of the feed and of named subscriptions. Races are in the tests of our own stores."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.errors import Invalid, NotFound, Stale
from perdure.handles.sync.store import Store
from perdure.model.records.happenings import EventRecord
from perdure.testing.openers import Opener

PATIENCE = "60s"


def emit_some(store: Store, count: int, session: str = "a") -> list[EventRecord]:
    """So many events."""
    handle = store.session(session)
    made = [handle.emit("n.added", {"n": n}) for n in range(count)]
    seen_by_all(store, made[-1])
    return made


def seen_by_all(store: Store, last: EventRecord) -> None:
    """Wait until the feed shows an event: other work on the same server may hold it back for a while."""
    page = store.feed(wait=PATIENCE)
    while last not in page:
        page = store.feed(page.next, wait=PATIENCE)
        assert page, "the feed never shows the event"


class FeedContract:
    """Reading everything in order, and keeping one's place."""

    def test_the_feed_has_every_event_once_in_order(self, opener: Opener) -> None:
        with opener() as store:
            emit_some(store, 5)
            emit_some(store, 3, "b")
            page = store.feed(limit=4)
            found = list(page)
            while page:
                page = store.feed(page.next, limit=4)
                found += page
            assert [(e.session, e.seq) for e in found] == [("a", n) for n in range(1, 7)] + [
                ("b", n) for n in range(1, 5)
            ]
            assert page.next is not None
            assert store.feed(page.next) == []
            (more,) = emit_some(store, 1)
            assert store.feed(page.next) == [more]

    def test_a_cursor_that_is_none_is_refused(self, opener: Opener) -> None:
        with opener() as store:
            cursor = (store.feed()).next or ""
            for bad in ("x", "", cursor[:-2], cursor[:10] + "BBBB" + cursor[14:], 7, "ü" * 9, "A" * 42):
                with pytest.raises(Invalid) as refused:
                    store.feed(bad)  # type: ignore[arg-type]
                assert refused.value.path == "after"

    def test_waiting_ends_when_nothing_comes(self, opener: Opener) -> None:
        with opener() as store:
            page = store.feed()
            assert store.feed(page.next, wait="20ms") == []
            subscription = store.subscribe("s")
            assert not subscription.next(wait="20ms")
            with pytest.raises(Invalid, match="wait"):
                store.feed(wait="soon")

    def test_a_subscription_keeps_its_place(self, opener: Opener) -> None:
        with opener() as store:
            made = emit_some(store, 5)
            subscription = store.subscribe("indexer")
            seen: list[EventRecord] = []
            while batch := subscription.next(limit=2):
                seen += batch
                batch.ack()
                subscription = store.subscribe("indexer", start="end")  # it exists: `start` says nothing
            assert [e for e in seen if e.emitted] == made
            assert len(seen) == 6

    def test_a_subscription_may_start_at_the_end(self, opener: Opener) -> None:
        with opener() as store:
            emit_some(store, 2)
            subscription = store.subscribe("new", start="end")
            assert not subscription.next()
            made = emit_some(store, 1)
            assert list(subscription.next()) == made

    def test_one_batch_is_under_way_and_comes_again_after_its_lease(self, opener: Opener) -> None:
        with opener() as store:
            emit_some(store, 3)
            subscription = store.subscribe("s")
            first = subscription.next(limit=2, lease="30s")
            other = store.subscribe("s")
            assert not other.next()
            opener.clock.advance("31s")
            again = other.next(limit=2)
            assert list(again) == list(first)
            with pytest.raises(Stale):
                first.ack()
            assert not subscription.next()
            again.ack()
            again.ack()  # as after a reply that was lost: nothing moves
            after = subscription.next()
            assert [e.seq for e in after] == [3, 4]
            again.ack()
            after.ack()
            with pytest.raises(Stale):
                again.ack()
            assert not subscription.next()

    def test_a_late_acknowledgement_counts_while_nobody_took_over(self, opener: Opener) -> None:
        with opener() as store:
            emit_some(store, 1)
            subscription = store.subscribe("s")
            batch = subscription.next(lease="1s")
            opener.clock.advance("1h")
            batch.ack()
            assert not subscription.next()

    def test_names_do_not_share_a_place(self, opener: Opener) -> None:
        with opener() as store:
            emit_some(store, 1)
            one, two = store.subscribe("'one' -- %"), store.subscribe("two")
            batch = one.next()
            batch.ack()
            assert list(two.next()) == list(batch)

    def test_reset_goes_to_either_end(self, opener: Opener) -> None:
        with opener() as store:
            emit_some(store, 1)
            subscription = store.subscribe("s")
            batch = subscription.next()
            subscription.reset("beginning")
            with pytest.raises(Stale):
                batch.ack()
            assert list(subscription.next()) == list(batch)
            subscription.reset("end")
            assert not subscription.next()

    def test_a_cancelled_subscription_is_gone(self, opener: Opener) -> None:
        with opener() as store:
            subscription = store.subscribe("s")
            subscription.cancel()
            subscription.cancel()
            with pytest.raises(NotFound) as refused:
                subscription.next()
            assert refused.value.path == "name"

    def test_bad_input_is_refused_with_its_path(self, opener: Opener) -> None:
        with opener() as store:
            subscription = store.subscribe("s")
            bad: list[tuple[Any, dict[str, Any], str]] = [
                (store.subscribe, {"name": ""}, "name"),
                (store.subscribe, {"name": "x", "start": "middle"}, "start"),
                (subscription.reset, {"start": 7}, "start"),
                (subscription.next, {"limit": 0}, "limit"),
                (subscription.next, {"lease": "never"}, "lease"),
                (subscription.next, {"wait": -1}, "wait"),
            ]
            for verb, arguments, path in bad:
                with pytest.raises(Invalid) as refused:
                    verb(**arguments)
                assert refused.value.path == path

    def test_another_tenant_has_a_feed_of_its_own(self, opener: Opener) -> None:
        if not opener.shared:
            pytest.skip("needs a second open of the same store")
        with opener() as store, opener(tenant="other") as other:
            mine, theirs = store.subscribe("s"), other.subscribe("s")
            emit_some(store, 2)
            assert other.feed() == []
            assert not theirs.next()
            made = emit_some(other, 1)
            assert [e for e in theirs.next() if e.emitted] == made
            assert len(mine.next()) == 3
