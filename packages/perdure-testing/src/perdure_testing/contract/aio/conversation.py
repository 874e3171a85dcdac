"""The contract of sessions: opening, status, goal, labels, pins, listing, and who attends them."""

from __future__ import annotations

import hashlib
from datetime import timedelta
from typing import Any

import pytest

from perdure.errors import Conflict, Invalid, NotFound, TooLarge
from perdure.model.records.conversation import Status
from perdure_testing.openers import AsyncOpener

HOSTILE = (
    "../../etc/passwd",
    "'; DROP TABLE turns; --",
    "<script>alert(1)</script>",
    "%_?:x",
    "名前 🚀",
    "a" * 200,
)


class AsyncSessionContract:
    """Opening, status, goal, labels, pins and listing."""

    async def test_opening_twice_gives_one_session_and_writes_once(self, opener: AsyncOpener) -> None:
        async with await opener(actor="ann") as store:
            first = await store.session("a", title="Fix", labels=["prod", "auth"], goal="it works", ttl="1h")
            before = await first.info()
            again = await store.as_("bob").session("a", title="Other", labels=["x"], goal="no", pins={"model": "m"})
            assert again.uid == first.uid
            assert await again.info() == before
            assert (before.name, before.title, before.creator) == ("a", "Fix", "ann")
            assert before.labels == ("auth", "prod")
            assert before.goal == "it works"
            assert before.pins is None
            assert before.status == Status.ACTIVE == "active"
            assert before.ended_at is None
            assert before.expires_at == before.created_at + timedelta(hours=1)
            assert before.last_at == before.created_at

    async def test_hostile_names_are_only_data(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            for name in HOSTILE:
                session = await store.session(name, title=name, labels=[name])
                turn = await session.say("user", name, key=name, about=[name])
                assert (await session.turns())[0].content == name
                assert (await session.say("user", name, key=name)).seq == turn.seq
                assert [session.name for session in await store.sessions(label=name)] == [name]
            assert {session.name for session in await store.sessions()} == set(HOSTILE)

    @pytest.mark.parametrize(
        ("name", "options", "error", "path"),
        [
            ("", {}, Invalid, "name"),
            ("a\0b", {}, Invalid, "name"),
            ("a\nb", {}, Invalid, "name"),
            ("\ud800", {}, Invalid, "name"),
            (7, {}, Invalid, "name"),
            ("x" * 201, {}, TooLarge, "name"),
            ("a", {"title": 1}, Invalid, "title"),
            ("a", {"labels": "prod"}, Invalid, "labels"),
            ("a", {"labels": ["ok", ""]}, Invalid, "labels[1]"),
            ("a", {"goal": b"x"}, Invalid, "goal"),
            ("a", {"ttl": "soon"}, Invalid, "ttl"),
            ("a", {"ttl": -1}, Invalid, "ttl"),
            ("a", {"pins": {"modle": "x"}}, Invalid, "pins.modle"),
            ("a", {"pins": ["model"]}, Invalid, "pins"),
            ("a", {"pins": {"tools": {"grep": 1}}}, Invalid, "pins.tools.grep"),
        ],
    )
    async def test_bad_input_creates_nothing(
        self, opener: AsyncOpener, name: Any, options: dict[str, Any], error: type[Exception], path: str
    ) -> None:
        async with await opener() as store:
            with pytest.raises(error) as caught:
                await store.session(name, **options)
            assert getattr(caught.value, "path", None) == path
            assert await store.sessions() == []

    async def test_two_who_open_it_at_once_get_one_session(self, opener: AsyncOpener) -> None:
        if not opener.shared:
            pytest.skip("a second open of a memory store is another store")
        async with await opener() as a, await opener() as b:
            one, two = await a.session("x", title="a"), await b.session("x", title="b")
            assert one.uid == two.uid
            assert len(await a.sessions()) == 1

    async def test_the_status_moves_as_drawn(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("a")
            await session.mark_waiting()
            assert await session.get_status() == "waiting"
            await session.mark_waiting()
            await session.mark_active()
            assert await session.get_status() == "active"
            opener.clock.advance("1m")
            await session.close()
            done = await session.info()
            assert done.status == "completed"
            assert done.ended_at == done.created_at + timedelta(minutes=1)
            await session.close("completed")
            assert (await session.info()).last_seq == done.last_seq
            await session.reopen()
            assert (await session.info()).ended_at is None
            await session.reopen()
            await session.close("failed")
            assert await session.get_status() == "failed"

    async def test_illegal_moves_change_nothing(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("a")
            with pytest.raises(Invalid) as wrong:
                await session.close("crashed")  # type: ignore[arg-type] - wrong on purpose
            assert wrong.value.path == "status"
            await session.close("completed")
            before = await session.info()
            for move in (session.mark_waiting, session.mark_active, lambda: session.close("failed")):
                with pytest.raises(Conflict) as caught:
                    await move()
                assert caught.value.facts["status"] == "completed"
            assert await session.info() == before

    async def test_a_title_is_changed(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("a", title="Fix logn")
            await session.set_title("Fix login")
            last = (await session.info()).last_seq
            await session.set_title("Fix login")
            assert ((await session.info()).title, (await session.info()).last_seq) == ("Fix login", last)
            with pytest.raises(Invalid) as wrong:
                await session.set_title(7)  # type: ignore[arg-type] - wrong on purpose
            assert wrong.value.path == "title"

    async def test_goal_and_labels_are_written_once(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("a")
            assert await session.get_goal() is None
            await session.set_goal("x" * 20_000)
            assert await session.get_goal() == "x" * 20_000
            assert await session.label("b", "a") == ("a", "b")
            seq = (await session.info()).last_seq
            await session.set_goal("x" * 20_000)
            assert await session.label("a") == ("a", "b")
            assert await session.unlabel("c") == ("a", "b")
            assert (await session.info()).last_seq == seq
            assert await session.unlabel("b") == ("a",)
            assert await store.sessions(label="b") == []
            await session.set_goal(None)
            assert (await session.info()).goal is None

    async def test_pins_merge_and_are_carried(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("a", pins={"model": "m-1"})
            first = await session.pins()
            assert first is not None
            assert (first.model, first.commit) == ("m-1", None)
            pins = await session.pin(prompt="Be kind", tools={"grep": "2"}, commit="abc")
            assert pins == await session.pins()
            assert pins.model == "m-1"
            assert pins.prompt == hashlib.sha256(b"Be kind").hexdigest()
            assert pins.digest != first.digest
            assert session._pin == pins.digest
            assert (await store.session("a"))._pin == pins.digest
            seq = (await session.info()).last_seq
            assert await session.pin(commit="abc") == pins
            assert (await session.info()).last_seq == seq

    async def test_listing_filters_and_pages(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            for number in range(7):
                who = "ann" if number % 2 else "bob"
                await store.as_(who).session(f"s{number}", labels=["odd"] if number % 2 else [])
                opener.clock.advance("1h")
            await (await store.session("s3")).close("failed")
            names = [session.name for session in await store.sessions()]
            assert names == [f"s{number}" for number in reversed(range(7))]
            assert [session.name for session in await store.sessions(status="failed")] == ["s3"]
            assert len(await store.sessions(status="active")) == 6
            assert [session.name for session in await store.sessions(creator="ann", label="odd", limit=2)] == [
                "s5",
                "s3",
            ]
            assert [session.name for session in await store.sessions(since="2h")] == ["s6", "s5"]
            assert [session.name for session in await store.sessions(until="6h")] == ["s0"]
            paged, after = [], None
            while True:
                page = await store.sessions(limit=3, after=after)
                paged += [row.name for row in page]
                after = page.next
                if after is None:
                    break
            assert paged == names

    @pytest.mark.parametrize(
        ("filters", "path"),
        [
            ({"status": "dead"}, "status"),
            ({"limit": 0}, "limit"),
            ({"after": "zzz"}, "after"),
            ({"after": "MQ"}, "after"),
            ({"since": "yesterday"}, "since"),
        ],
    )
    async def test_a_filter_that_makes_no_sense_is_refused(
        self, opener: AsyncOpener, filters: dict[str, Any], path: str
    ) -> None:
        async with await opener() as store:
            with pytest.raises(Invalid) as caught:
                await store.sessions(**filters)
            assert caught.value.path == path

    async def test_labels_page_in_order_with_every_other_filter(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            for number in range(7):
                session = await store.session(f"s{number}", labels=["all", "even" if number % 2 == 0 else "odd"])
                task = await session.task("t", labels=["all"])
                await session.task("u", labels=["all"])
                await session.decide("d", because="b", tags=["all"])
                await session.decide("e", because="b", tags=["all"])
                if number == 2:
                    await task.done()
                opener.clock.advance("1h")
            first = await store.sessions(label="even", limit=2)
            assert [row.name for row in first] == ["s6", "s4"]
            assert [session.name for session in await store.sessions(label="even", after=first.next)] == ["s2", "s0"]
            sessions = await store.sessions(label="odd", since="5h30m", until="1h30m")
            assert [session.name for session in sessions] == ["s5", "s3"]
            await (await store.session("s3")).unlabel("odd")
            assert [session.name for session in await store.sessions(label="odd")] == ["s5", "s1"]
            assert [task.session for task in await store.tasks(label="all", status="done")] == ["s2"]
            tasks = [(task.session, task.id) for task in await store.tasks(label="all")]
            assert tasks == [(task.session, task.id) for task in await store.tasks()]
            page = await store.tasks(label="all", limit=5)
            rest = await store.tasks(label="all", after=page.next)
            assert [(row.session, row.id) for row in [*page, *rest]] == tasks
            decisions = [(decision.session, decision.seq) for decision in await store.decisions()]
            page = await store.decisions(tag="all", limit=3)
            rest = await store.decisions(tag="all", after=page.next)
            assert [(row.session, row.seq) for row in [*page, *rest]] == decisions
            one = await store.session("s1")
            own = await one.tasks(label="all", limit=1)
            assert [memory.title for memory in own] == ["u"]
            assert [task.title for task in await one.tasks(label="all", after=own.next)] == ["t"]

    async def test_an_expired_session_is_hidden_not_gone(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            await store.session("short", ttl="1m")
            await store.session("long")
            opener.clock.advance("61s")
            assert [session.name for session in await store.sessions()] == ["long"]
            assert len(await store.sessions(expired=True)) == 2
            session = await store.session("short")
            assert (await session.info()).name == "short"

    async def test_tenants_do_not_see_each_other(self, opener: AsyncOpener) -> None:
        if not opener.shared:
            pytest.skip("a second open of a memory store is another store")
        async with await opener(tenant="one") as one, await opener(tenant="two") as two:
            mine, yours = await one.session("a"), await two.session("a")
            assert mine.uid != yours.uid
            await mine.say("user", "secret")
            assert await yours.turns() == []
            assert len(await two.sessions()) == 1


class AsyncPresenceContract:
    """Attendance of a session, and how a crash shows."""

    async def test_a_lapsed_heartbeat_reads_as_crashed(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("a")
            await session.say("user", "hi")
            opener.clock.advance("59s")
            assert await session.get_status() == "active"
            opener.clock.advance("1s")
            assert await session.get_status() == "crashed"
            assert [session.name for session in await store.sessions(status="crashed")] == ["a"]
            assert await store.sessions(status="active") == []
            await store.beat()
            assert await session.get_status() == "active"
            assert await store.sessions(status="crashed") == []

    async def test_a_waiting_session_crashes_and_a_closed_one_does_not(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            waiting, closed = await store.session("w"), await store.session("c")
            await waiting.mark_waiting()
            await closed.say("user", "hi")
            await closed.close()
            opener.clock.advance("2m")
            assert await waiting.get_status() == "crashed"
            assert await closed.get_status() == "completed"
            await store.beat()
            await closed.reopen()
            assert await closed.get_status() == "active"
            opener.clock.advance("2m")
            assert await closed.get_status() == "crashed"

    async def test_a_session_that_nobody_has_written_in_is_not_crashed(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("a")
            opener.clock.advance("1d")
            assert await session.get_status() == "active"

    async def test_a_clean_leave_is_not_a_crash(self, opener: AsyncOpener) -> None:
        if not opener.shared:
            pytest.skip("a memory store ends with its only open")
        async with await opener() as store:
            await (await store.session("a")).say("user", "hi")
        opener.clock.advance("1d")
        async with await opener() as store:
            assert await (await store.session("a")).get_status() == "active"

    async def test_who_goes_on_takes_over_from_the_dead(self, opener: AsyncOpener) -> None:
        if not opener.shared:
            pytest.skip("needs a second open")
        async with await opener() as dead:
            await (await dead.session("a")).say("user", "hi")
            opener.clock.advance("2m")
            async with await opener() as store:
                session = await store.session("a")
                assert await session.get_status() == "crashed"
                await session.say("assistant", "back")
                assert await session.get_status() == "active"
            assert await (await dead.session("a")).get_status() == "active"
            await dead.beat()  # not dead after all: it attends again, and may crash again
            opener.clock.advance("2m")
            assert await (await dead.session("a")).get_status() == "crashed"

    async def test_one_living_attendant_is_enough(self, opener: AsyncOpener) -> None:
        if not opener.shared:
            pytest.skip("needs a second open")
        async with await opener() as a, await opener() as b:
            one, two = await a.session("s"), await b.session("s")
            await one.say("user", "hi")
            await two.say("user", "ho")
            opener.clock.advance("50s")
            await b.beat()
            opener.clock.advance("50s")
            assert await one.get_status() == "active"
            opener.clock.advance("50s")
            assert await one.get_status() == "crashed"

    async def test_a_refused_write_attends_nothing(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("a")
            with pytest.raises(Invalid):
                await session.say("nobody", "hi")  # type: ignore[arg-type] - wrong on purpose
            with pytest.raises(ZeroDivisionError):
                await store.atomic(lambda tx: (tx.session("a").say("user", "x"), 1 // 0))
            opener.clock.advance("2m")
            assert await session.get_status() == "active"

    async def test_a_turn_in_a_closed_session_opens_it_again(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("a")
            await session.say("user", "one")
            await session.close()
            await session.archive()
            await session.label("done")
            assert (await session.info()).status == "completed"
            await session.say("user", "two")
            info = await session.info()
            assert (info.status, info.ended_at, info.archived_at) == ("active", None, None)
            kinds = [event.kind for event in await session.events()]
            assert kinds[-2:] == ["session.reopened", "turn.said"]
            await session.say("user", "three")
            assert [event.kind for event in await session.events()][-1] == "turn.said"
            assert (await store.verify()).ok

    async def test_an_archived_session_is_left_out_unless_asked_for(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("a")
            await store.session("b")
            with pytest.raises(Conflict, match="not over"):
                await session.archive()
            await session.close()
            await session.archive()
            await session.archive()
            assert [session.name for session in await store.sessions()] == ["b"]
            assert [session.name for session in await store.sessions(status="completed")] == []
            sessions = await store.sessions(archived=True)
            assert [(session.name, session.archived_at is None) for session in sessions] == [("b", True), ("a", False)]
            await session.unarchive()
            assert [session.name for session in await store.sessions()] == ["b", "a"]
            assert (await store.verify()).ok

    async def test_a_session_is_deleted_by_the_rules_of_retention_and_only_when_it_is_over(
        self, opener: AsyncOpener
    ) -> None:
        async with await opener() as store:
            session, other = await store.session("a"), await store.session("b")
            for opened in (session, other):
                await opened.say("user", "secret")
                await opened.set("v", 1)
                await opened.set("v", 2)
                await opened.emit("deploy.seen", {"n": 1})
            with pytest.raises(Conflict, match="not over"):
                await store.delete("a")
            with pytest.raises(NotFound):
                await store.delete("nobody")
            await session.close()
            planned = await store.delete("a")
            assert [stream.name for stream in planned.streams] == ["a"]
            assert (planned.turns, planned.values, planned.events) == (1, 1, 1)
            assert len(await session.turns()) == 1
            report = await store.delete("a", dry_run=False)
            assert report.streams == planned.streams
            assert (await session.turns(), await session.get("v")) == ([], 2)
            assert [session.name for session in await store.sessions()] == ["b"]
            assert len(await other.turns()) == 1
            assert (await store.verify()).ok

    async def test_an_atomic_write_attends(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            await store.atomic(lambda tx: tx.session("a").say("user", "x"))
            opener.clock.advance("2m")
            assert await (await store.session("a")).get_status() == "crashed"
