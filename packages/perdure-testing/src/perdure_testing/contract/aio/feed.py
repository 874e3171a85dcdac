"""The contract of the feed and of named subscriptions. Races are in the tests of our own stores."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.errors import Conflict, Invalid, NotFound, Stale
from perdure.handles.aio.store import AsyncStore
from perdure.model.records.emitted import EventRecord
from perdure_testing.openers import AsyncOpener

PATIENCE = "60s"


async def emit_some(store: AsyncStore, count: int, session: str = "a") -> list[EventRecord]:
    """So many events."""
    handle = await store.session(session)
    events = [await handle.emit("n.added", {"n": n}) for n in range(count)]
    await seen_by_all(store, events[-1])
    return events


async def seen_by_all(store: AsyncStore, last: EventRecord) -> None:
    """Wait until the feed shows an event: other work on the same server may hold it back for a while."""
    page = await store.feed(wait=PATIENCE)
    while last not in page:
        page = await store.feed(page.next, wait=PATIENCE)
        assert page, "the feed never shows the event"


class AsyncFeedContract:
    """Reading everything in order, and keeping one's place."""

    async def test_the_feed_has_every_event_once_in_order(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            await emit_some(store, 5)
            await emit_some(store, 3, "b")
            page = await store.feed(limit=4)
            events = list(page)
            while page:
                page = await store.feed(page.next, limit=4)
                events += page
            assert [(e.session, e.seq) for e in events] == [("a", n) for n in range(1, 7)] + [
                ("b", n) for n in range(1, 5)
            ]
            assert page.next is not None
            assert await store.feed(page.next) == []
            (more,) = await emit_some(store, 1)
            assert await store.feed(page.next) == [more]

    async def test_a_cursor_that_is_none_is_refused(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            cursor = (await store.feed()).next or ""
            for bad in ("x", "", cursor[:-2], cursor[:10] + "BBBB" + cursor[14:], 7, "ü" * 9, "A" * 42):
                with pytest.raises(Invalid) as refused:
                    await store.feed(bad)  # type: ignore[arg-type]
                assert refused.value.path == "after"

    async def test_waiting_ends_when_nothing_comes(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            page = await store.feed()
            assert await store.feed(page.next, wait="20ms") == []
            subscription = await store.subscribe("s")
            assert not await subscription.next(wait="20ms")
            with pytest.raises(Invalid, match="wait"):
                await store.feed(wait="soon")

    async def test_a_subscription_keeps_its_place(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            events = await emit_some(store, 5)
            subscription = await store.subscribe("indexer")
            received: list[EventRecord] = []
            while batch := await subscription.next(limit=2):
                received += batch
                await batch.ack()
                subscription = await store.subscribe("indexer", start="end")  # it exists: `start` says nothing
            assert [e for e in received if e.emitted] == events
            assert len(received) == 6

    async def test_a_subscription_may_start_at_the_end(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            await emit_some(store, 2)
            subscription = await store.subscribe("new", start="end")
            assert not await subscription.next()
            events = await emit_some(store, 1)
            assert list(await subscription.next()) == events

    async def test_one_batch_is_under_way_and_comes_again_after_its_lease(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            await emit_some(store, 3)
            subscription = await store.subscribe("s")
            first = await subscription.next(limit=2, lease="30s")
            other = await store.subscribe("s")
            assert not await other.next()
            opener.clock.advance("31s")
            again = await other.next(limit=2)
            assert list(again) == list(first)
            with pytest.raises(Stale):
                await first.ack()
            assert not await subscription.next()
            await again.ack()
            await again.ack()  # as after a reply that was lost: nothing moves
            after = await subscription.next()
            assert [e.seq for e in after] == [3, 4]
            await again.ack()
            await after.ack()
            with pytest.raises(Stale):
                await again.ack()
            assert not await subscription.next()

    async def test_a_late_acknowledgement_counts_while_nobody_took_over(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            await emit_some(store, 1)
            subscription = await store.subscribe("s")
            batch = await subscription.next(lease="1s")
            opener.clock.advance("1h")
            await batch.ack()
            assert not await subscription.next()

    async def test_only_the_kinds_and_the_stream_that_are_wanted_come(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            await emit_some(store, 2)
            session = await store.session("b")
            turn = await session.say("user", "hello")
            deployed = [await session.emit(f"deploy.{word}") for word in ("begun", "finished")]
            await session.emit("deployed.not")
            await seen_by_all(store, deployed[-1])
            turns = await store.subscribe("turns", kinds=["turn.*"])
            assert [(event.session, event.seq) for event in await turns.next()] == [("b", turn.seq)]
            some = await store.subscribe("some", kinds=["deploy.*", "n.added"])
            assert [event.kind for event in await some.next()] == [
                "n.added",
                "n.added",
                "deploy.begun",
                "deploy.finished",
            ]
            one = await store.subscribe("one", kinds=["deploy.*"], stream="b")
            assert [event.seq for event in await one.next(limit=1)] == [deployed[0].seq]
            of_a = await store.subscribe("of a", stream="a")
            assert {event.session for event in await of_a.next()} == {"a"}
            none = await store.subscribe("none", kinds=["never.*"])
            assert not await none.next()
            unwanted = await session.emit("never.say")
            await seen_by_all(store, unwanted)
            assert list(await (await store.subscribe("none")).next()) == [unwanted]  # found with what it wants

    async def test_a_subscription_that_wants_something_else_is_refused(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            await store.session("a")
            await store.subscribe("s", kinds=["turn.*", "task.*"], stream="a")
            await store.subscribe("s", kinds=["task.*", "turn.*"])
            for kinds in (["turn.*"], ["turn.*", "task.*", "n.*"]):
                with pytest.raises(Conflict, match="wants other events"):
                    await store.subscribe("s", kinds=kinds)
            with pytest.raises(NotFound) as unknown:
                await store.subscribe("new", stream="run:nobody")
            assert unknown.value.path == "stream"
            bad: list[tuple[dict[str, Any], str]] = [
                ({"kinds": "turn.*"}, "kinds"), ({"kinds": []}, "kinds"), ({"kinds": ["*"]}, "kinds[0]"),
                ({"kinds": ["a", 7]}, "kinds[1]"), ({"consumers": 0}, "consumers"), ({"consumers": True}, "consumers"),
                ({"stream": ""}, "stream"),
            ]  # fmt: skip
            for filters, path in bad:
                with pytest.raises(Invalid) as refused:
                    await store.subscribe("new", **filters)
                assert refused.value.path == path

    async def test_several_consumers_each_have_a_batch(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            await emit_some(store, 5)
            one, two = await store.subscribe("s", consumers=2), await store.subscribe("s")
            first, second = await one.next(limit=2), await two.next(limit=2)
            assert [[event.seq for event in batch] for batch in (first, second)] == [[1, 2], [3, 4]]
            assert not await one.next()  # as many are under way as there are consumers
            await second.ack()
            third = await two.next(limit=2)
            assert [event.seq for event in third] == [5, 6]
            opener.clock.advance("31s")  # the first consumer died
            again = await two.next(limit=2)
            assert ([event.seq for event in again], again.deliveries) == ([1, 2], 2)
            with pytest.raises(Stale):
                await first.ack()
            for batch in (again, third, again, third):
                await batch.ack()
            assert not await one.next()

    async def test_what_is_given_back_comes_again_with_a_count(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            await emit_some(store, 3)
            subscription = await store.subscribe("s")
            batch = await subscription.next()
            assert batch.deliveries == 1
            await batch.nack()
            await batch.nack()
            with pytest.raises(Stale):
                await batch.ack()
            alone = await subscription.next(limit=1)
            assert ([event.seq for event in alone], alone.deliveries) == ([1], 2)
            assert not await subscription.next()  # in order: the rest waits for it
            await alone.ack()
            rest = await subscription.next()
            assert ([event.seq for event in rest], rest.deliveries) == ([2, 3, 4], 2)
            await rest.ack()
            await rest.nack()
            assert not await subscription.next()

    async def test_events_can_be_followed(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            events = await emit_some(store, 3)
            subscription = await store.subscribe("s", kinds=["n.*"])
            received = [event async for event in subscription.follow(wait="1ms")]
            assert received == events
            await subscription.reset("beginning")
            async for event in subscription:
                if event == events[1]:
                    break  # not acknowledged: it comes again
            opener.clock.advance("31s")
            assert [event async for event in subscription.follow(limit=10, wait="1ms")] == events[1:]

    async def test_names_do_not_share_a_place(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            await emit_some(store, 1)
            one, two = await store.subscribe("'one' -- %"), await store.subscribe("two")
            batch = await one.next()
            await batch.ack()
            assert list(await two.next()) == list(batch)

    async def test_reset_goes_to_either_end(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            await emit_some(store, 1)
            subscription = await store.subscribe("s")
            batch = await subscription.next()
            await subscription.reset("beginning")
            with pytest.raises(Stale):
                await batch.ack()
            assert list(await subscription.next()) == list(batch)
            await subscription.reset("end")
            assert not await subscription.next()

    async def test_a_cancelled_subscription_is_gone(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            subscription = await store.subscribe("s")
            await subscription.cancel()
            await subscription.cancel()
            with pytest.raises(NotFound) as refused:
                await subscription.next()
            assert refused.value.path == "name"

    async def test_bad_input_is_refused_with_its_path(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            subscription = await store.subscribe("s")
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
                    await verb(**arguments)
                assert refused.value.path == path

    async def test_another_tenant_has_a_feed_of_its_own(self, opener: AsyncOpener) -> None:
        if not opener.shared:
            pytest.skip("needs a second open of the same store")
        async with await opener() as store, await opener(tenant="other") as other:
            mine, theirs = await store.subscribe("s"), await other.subscribe("s")
            await emit_some(store, 2)
            assert await other.feed() == []
            assert not await theirs.next()
            events = await emit_some(other, 1)
            assert [e for e in await theirs.next() if e.emitted] == events
            assert len(await mine.next()) == 3
