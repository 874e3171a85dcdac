# Generated from testing/contract/aio/conversation.py by tools/unasync.py: edit that one.
"""The contract of sessions: opening, status, goal, labels, pins, listing, and who attends them."""

from __future__ import annotations

import hashlib
from datetime import timedelta
from typing import Any

import pytest

from perdure.errors import Conflict, Invalid, TooLarge
from perdure.model.records.conversation import Status
from perdure.testing.openers import Opener

HOSTILE = (
    "../../etc/passwd",
    "'; DROP TABLE turns; --",
    "<script>alert(1)</script>",
    "%_?:x",
    "名前 🚀",
    "a" * 200,
)


class SessionContract:
    """Opening, status, goal, labels, pins and listing."""

    def test_opening_twice_gives_one_session_and_writes_once(self, opener: Opener) -> None:
        with opener(actor="ann") as store:
            first = store.session("a", title="Fix", labels=["prod", "auth"], goal="it works", ttl="1h")
            before = first.info()
            again = store.as_("bob").session("a", title="Other", labels=["x"], goal="no", pins={"model": "m"})
            assert again.uid == first.uid
            assert again.info() == before
            assert (before.name, before.title, before.creator) == ("a", "Fix", "ann")
            assert before.labels == ("auth", "prod")
            assert before.goal == "it works"
            assert before.pins is None
            assert before.status == Status.ACTIVE == "active"
            assert before.ended_at is None
            assert before.expires_at == before.created_at + timedelta(hours=1)
            assert before.last_at == before.created_at

    def test_hostile_names_are_only_data(self, opener: Opener) -> None:
        with opener() as store:
            for name in HOSTILE:
                session = store.session(name, title=name, labels=[name])
                turn = session.say("user", name, key=name, about=[name])
                assert (session.turns())[0].content == name
                assert (session.say("user", name, key=name)).seq == turn.seq
                assert [found.name for found in store.sessions(label=name)] == [name]
            assert {found.name for found in store.sessions()} == set(HOSTILE)

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
    def test_bad_input_creates_nothing(
        self, opener: Opener, name: Any, options: dict[str, Any], error: type[Exception], path: str
    ) -> None:
        with opener() as store:
            with pytest.raises(error) as caught:
                store.session(name, **options)
            assert getattr(caught.value, "path", None) == path
            assert store.sessions() == []

    def test_two_who_open_it_at_once_get_one_session(self, opener: Opener) -> None:
        if not opener.shared:
            pytest.skip("a second open of a memory store is another store")
        with opener() as a, opener() as b:
            one, two = a.session("x", title="a"), b.session("x", title="b")
            assert one.uid == two.uid
            assert len(a.sessions()) == 1

    def test_the_status_moves_as_drawn(self, opener: Opener) -> None:
        with opener() as store:
            session = store.session("a")
            session.mark_waiting()
            assert session.get_status() == "waiting"
            session.mark_waiting()
            session.mark_active()
            assert session.get_status() == "active"
            opener.clock.advance("1m")
            session.close()
            done = session.info()
            assert done.status == "completed"
            assert done.ended_at == done.created_at + timedelta(minutes=1)
            session.close("completed")
            assert (session.info()).last_seq == done.last_seq
            session.reopen()
            assert (session.info()).ended_at is None
            session.reopen()
            session.close("failed")
            assert session.get_status() == "failed"

    def test_illegal_moves_change_nothing(self, opener: Opener) -> None:
        with opener() as store:
            session = store.session("a")
            with pytest.raises(Invalid) as wrong:
                session.close("crashed")  # type: ignore[arg-type] - wrong on purpose
            assert wrong.value.path == "status"
            session.close("completed")
            before = session.info()
            for move in (session.mark_waiting, session.mark_active, lambda: session.close("failed")):
                with pytest.raises(Conflict) as caught:
                    move()
                assert caught.value.facts["status"] == "completed"
            assert session.info() == before

    def test_goal_and_labels_are_written_once(self, opener: Opener) -> None:
        with opener() as store:
            session = store.session("a")
            assert session.get_goal() is None
            session.set_goal("x" * 20_000)
            assert session.get_goal() == "x" * 20_000
            assert session.label("b", "a") == ("a", "b")
            seq = (session.info()).last_seq
            session.set_goal("x" * 20_000)
            assert session.label("a") == ("a", "b")
            assert session.unlabel("c") == ("a", "b")
            assert (session.info()).last_seq == seq
            assert session.unlabel("b") == ("a",)
            assert store.sessions(label="b") == []
            session.set_goal(None)
            assert (session.info()).goal is None

    def test_pins_merge_and_are_carried(self, opener: Opener) -> None:
        with opener() as store:
            session = store.session("a", pins={"model": "m-1"})
            first = session.pins()
            assert first is not None
            assert (first.model, first.commit) == ("m-1", None)
            pins = session.pin(prompt="Be kind", tools={"grep": "2"}, commit="abc")
            assert pins == session.pins()
            assert pins.model == "m-1"
            assert pins.prompt == hashlib.sha256(b"Be kind").hexdigest()
            assert pins.digest != first.digest
            assert session._pin == pins.digest
            assert (store.session("a"))._pin == pins.digest
            seq = (session.info()).last_seq
            assert session.pin(commit="abc") == pins
            assert (session.info()).last_seq == seq

    def test_listing_filters_and_pages(self, opener: Opener) -> None:
        with opener() as store:
            for number in range(7):
                who = "ann" if number % 2 else "bob"
                store.as_(who).session(f"s{number}", labels=["odd"] if number % 2 else [])
                opener.clock.advance("1h")
            (store.session("s3")).close("failed")
            names = [found.name for found in store.sessions()]
            assert names == [f"s{number}" for number in reversed(range(7))]
            assert [found.name for found in store.sessions(status="failed")] == ["s3"]
            assert len(store.sessions(status="active")) == 6
            assert [found.name for found in store.sessions(creator="ann", label="odd", limit=2)] == [
                "s5",
                "s3",
            ]
            assert [found.name for found in store.sessions(since="2h")] == ["s6", "s5"]
            assert [found.name for found in store.sessions(until="6h")] == ["s0"]
            paged, after = [], None
            while True:
                page = store.sessions(limit=3, after=after)
                paged += [found.name for found in page]
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
    def test_a_filter_that_makes_no_sense_is_refused(self, opener: Opener, filters: dict[str, Any], path: str) -> None:
        with opener() as store:
            with pytest.raises(Invalid) as caught:
                store.sessions(**filters)
            assert caught.value.path == path

    def test_labels_page_in_order_with_every_other_filter(self, opener: Opener) -> None:
        with opener() as store:
            for number in range(7):
                session = store.session(f"s{number}", labels=["all", "even" if number % 2 == 0 else "odd"])
                task = session.task("t", labels=["all"])
                session.task("u", labels=["all"])
                session.decide("d", because="b", tags=["all"])
                session.decide("e", because="b", tags=["all"])
                if number == 2:
                    task.done()
                opener.clock.advance("1h")
            first = store.sessions(label="even", limit=2)
            assert [each.name for each in first] == ["s6", "s4"]
            assert [each.name for each in store.sessions(label="even", after=first.next)] == ["s2", "s0"]
            found = store.sessions(label="odd", since="5h30m", until="1h30m")
            assert [each.name for each in found] == ["s5", "s3"]
            (store.session("s3")).unlabel("odd")
            assert [each.name for each in store.sessions(label="odd")] == ["s5", "s1"]
            assert [each.session for each in store.tasks(label="all", status="done")] == ["s2"]
            tasks = [(each.session, each.id) for each in store.tasks(label="all")]
            assert tasks == [(each.session, each.id) for each in store.tasks()]
            page = store.tasks(label="all", limit=5)
            rest = store.tasks(label="all", after=page.next)
            assert [(each.session, each.id) for each in [*page, *rest]] == tasks
            decisions = [(each.session, each.seq) for each in store.decisions()]
            page = store.decisions(tag="all", limit=3)
            rest = store.decisions(tag="all", after=page.next)
            assert [(each.session, each.seq) for each in [*page, *rest]] == decisions
            one = store.session("s1")
            own = one.tasks(label="all", limit=1)
            assert [each.title for each in own] == ["u"]
            assert [each.title for each in one.tasks(label="all", after=own.next)] == ["t"]

    def test_an_expired_session_is_hidden_not_gone(self, opener: Opener) -> None:
        with opener() as store:
            store.session("short", ttl="1m")
            store.session("long")
            opener.clock.advance("61s")
            assert [found.name for found in store.sessions()] == ["long"]
            assert len(store.sessions(expired=True)) == 2
            session = store.session("short")
            assert (session.info()).name == "short"

    def test_tenants_do_not_see_each_other(self, opener: Opener) -> None:
        if not opener.shared:
            pytest.skip("a second open of a memory store is another store")
        with opener(tenant="one") as one, opener(tenant="two") as two:
            mine, yours = one.session("a"), two.session("a")
            assert mine.uid != yours.uid
            mine.say("user", "secret")
            assert yours.turns() == []
            assert len(two.sessions()) == 1


class PresenceContract:
    """Who attends a session, and how a crash shows."""

    def test_a_lapsed_heartbeat_reads_as_crashed(self, opener: Opener) -> None:
        with opener() as store:
            session = store.session("a")
            session.say("user", "hi")
            opener.clock.advance("59s")
            assert session.get_status() == "active"
            opener.clock.advance("1s")
            assert session.get_status() == "crashed"
            assert [found.name for found in store.sessions(status="crashed")] == ["a"]
            assert store.sessions(status="active") == []
            store.beat()
            assert session.get_status() == "active"
            assert store.sessions(status="crashed") == []

    def test_a_waiting_session_crashes_and_a_closed_one_does_not(self, opener: Opener) -> None:
        with opener() as store:
            waiting, closed = store.session("w"), store.session("c")
            waiting.mark_waiting()
            closed.say("user", "hi")
            closed.close()
            opener.clock.advance("2m")
            assert waiting.get_status() == "crashed"
            assert closed.get_status() == "completed"
            store.beat()
            closed.reopen()
            assert closed.get_status() == "active"
            opener.clock.advance("2m")
            assert closed.get_status() == "crashed"

    def test_a_session_that_nobody_has_written_in_is_not_crashed(self, opener: Opener) -> None:
        with opener() as store:
            session = store.session("a")
            opener.clock.advance("1d")
            assert session.get_status() == "active"

    def test_a_clean_leave_is_not_a_crash(self, opener: Opener) -> None:
        if not opener.shared:
            pytest.skip("a memory store ends with its only open")
        with opener() as store:
            (store.session("a")).say("user", "hi")
        opener.clock.advance("1d")
        with opener() as store:
            assert (store.session("a")).get_status() == "active"

    def test_who_goes_on_takes_over_from_the_dead(self, opener: Opener) -> None:
        if not opener.shared:
            pytest.skip("needs a second open")
        with opener() as dead:
            (dead.session("a")).say("user", "hi")
            opener.clock.advance("2m")
            with opener() as store:
                session = store.session("a")
                assert session.get_status() == "crashed"
                session.say("assistant", "back")
                assert session.get_status() == "active"
            assert (dead.session("a")).get_status() == "active"
            dead.beat()  # not dead after all: it attends again, and may crash again
            opener.clock.advance("2m")
            assert (dead.session("a")).get_status() == "crashed"

    def test_one_living_attendant_is_enough(self, opener: Opener) -> None:
        if not opener.shared:
            pytest.skip("needs a second open")
        with opener() as a, opener() as b:
            one, two = a.session("s"), b.session("s")
            one.say("user", "hi")
            two.say("user", "ho")
            opener.clock.advance("50s")
            b.beat()
            opener.clock.advance("50s")
            assert one.get_status() == "active"
            opener.clock.advance("50s")
            assert one.get_status() == "crashed"

    def test_a_refused_write_attends_nothing(self, opener: Opener) -> None:
        with opener() as store:
            session = store.session("a")
            with pytest.raises(Invalid):
                session.say("nobody", "hi")  # type: ignore[arg-type] - wrong on purpose
            with pytest.raises(ZeroDivisionError):
                store.atomic(lambda tx: (tx.session("a").say("user", "x"), 1 // 0))
            opener.clock.advance("2m")
            assert session.get_status() == "active"

    def test_an_atomic_write_attends(self, opener: Opener) -> None:
        with opener() as store:
            store.atomic(lambda tx: tx.session("a").say("user", "x"))
            opener.clock.advance("2m")
            assert (store.session("a")).get_status() == "crashed"
