# Generated from testing/contract/aio/conversation.py by tools/unasync.py: edit that one.
"""The contract of the conversation plane: sessions, presence, turns, summaries, transcripts."""

from __future__ import annotations

import hashlib
from datetime import timedelta
from typing import Any

import pytest

from perdure.errors import Conflict, Invalid, KeyReused, NotFound, ReadOnly, TooLarge
from perdure.model.records.conversation import Call, PendingKind, Status
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
                session.close("crashed")
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
    def test_a_filter_that_makes_no_sense_is_refused(
        self, opener: Opener, filters: dict[str, Any], path: str
    ) -> None:
        with opener() as store:
            with pytest.raises(Invalid) as caught:
                store.sessions(**filters)
            assert caught.value.path == path

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
                session.say("nobody", "hi")
            with pytest.raises(ZeroDivisionError):
                store.atomic(lambda tx: (tx.session("a").say("user", "x"), 1 // 0))
            opener.clock.advance("2m")
            assert session.get_status() == "active"

    def test_an_atomic_write_attends(self, opener: Opener) -> None:
        with opener() as store:
            store.atomic(lambda tx: tx.session("a").say("user", "x"))
            opener.clock.advance("2m")
            assert (store.session("a")).get_status() == "crashed"


class TurnContract:
    """Saying, keys, calls and results, reading, what is pending."""

    def test_a_turn_comes_back_as_it_was_said(self, opener: Opener) -> None:
        contents: list[Any] = [
            "hi", "", "é" * 20_000, [{"type": "text", "text": "x"}], {"a": [1, 2.5, None]}, 7, False, b"\xff",
        ]  # fmt: skip
        with opener(actor="ann") as store:
            session = store.session("a")
            said = [session.say("user", content, about=["customer:7"]) for content in contents]
            assert session.turns() == said
            assert [turn.content for turn in said] == contents
            assert {turn.actor for turn in said} == {"ann"}
            assert [turn.seq for turn in said] == list(range(2, 2 + len(contents)))

    def test_the_same_key_gives_the_same_turn(self, opener: Opener) -> None:
        with opener() as store:
            session = store.session("a")
            call = Call("c1", "grep", {"q": 1})
            turn = session.say("assistant", {"b": 1, "a": 2}, key="m1", calls=[call])
            assert session.say("assistant", {"a": 2, "b": 1}, key="m1", calls=[call]) == turn
            for role, content, calls in (
                ("assistant", {"b": 1}, [call]),
                ("user", {"b": 1, "a": 2}, []),
                ("assistant", {"b": 1, "a": 2}, [Call("c1", "grep", {"q": 2})]),
            ):
                with pytest.raises(KeyReused) as caught:
                    session.say(role, content, key="m1", calls=calls)
                assert caught.value.facts["stored"] != caught.value.facts["given"]
                assert caught.value.facts["seq"] == turn.seq
            assert session.turns() == [turn]

    def test_a_key_holds_over_two_opens(self, opener: Opener) -> None:
        if not opener.shared:
            pytest.skip("needs a second open")
        with opener() as a, opener() as b:
            one, two = a.session("s"), b.session("s")
            said = [each.say("user", "x", key=f"k{n}") for n in range(5) for each in (one, two)]
            assert len({turn.seq for turn in said}) == 5
            assert len(one.turns()) == 5

    def test_one_of_two_results_wins(self, opener: Opener) -> None:
        if not opener.shared:
            pytest.skip("needs a second open")
        with opener() as a, opener() as b:
            one, two = a.session("s"), b.session("s")
            one.say("assistant", calls=[Call("c", "t")])
            one.result("c", 1)
            with pytest.raises(KeyReused):
                two.result("c", 2)
            with pytest.raises(Conflict):
                two.say("assistant", calls=[Call("c", "t")])

    def test_results_belong_to_calls(self, opener: Opener) -> None:
        with opener() as store:
            session = store.session("a")
            with pytest.raises(NotFound) as unknown:
                session.result("c1", 1)
            assert unknown.value.path == "call_id"
            session.say("assistant", "look", calls=[Call("c1", "grep"), Call("c2", "ls", [1])])
            turn = session.result("c1", {"hits": 3}, error=True)
            assert (turn.role, turn.call, turn.error, turn.content) == ("tool", "c1", True, {"hits": 3})
            assert session.result("c1", {"hits": 3}, error=True) == turn
            for value, error in (({"hits": 4}, True), ({"hits": 3}, False)):
                with pytest.raises(KeyReused):
                    session.result("c1", value, error=error)
            assert (session.turns())[-1] == turn
            assert (session.turns())[0].calls == (Call("c1", "grep", {}), Call("c2", "ls", [1]))

    @pytest.mark.parametrize(
        ("args", "options", "error", "path"),
        [
            (("tool", "x"), {}, Invalid, "role"),
            (("robot", "x"), {}, Invalid, "role"),
            ((None, "x"), {}, Invalid, "role"),
            (("user",), {}, Invalid, "content"),
            (("user", float("nan")), {}, Invalid, "content"),
            (("user", {"a": [1, {2}]}), {}, Invalid, "content.a[1]"),
            (("user", "\ud800"), {}, Invalid, "content"),
            (("user", "a\0"), {}, Invalid, "content"),
            (("user", "x"), {"key": ""}, Invalid, "key"),
            (("user", "x"), {"key": "k" * 201}, TooLarge, "key"),
            (("user", "x"), {"calls": [Call("c", "t")]}, Invalid, "calls"),
            (("assistant", "x"), {"calls": [{"id": "c"}]}, Invalid, "calls[0]"),
            (("assistant", "x"), {"calls": [Call("", "t")]}, Invalid, "calls[0].id"),
            (("assistant", "x"), {"calls": [Call("c", "t", {"a": {1}})]}, Invalid, "calls[0].args.a"),
            (("assistant", "x"), {"calls": [Call("c", "t"), Call("c", "u")]}, Conflict, "calls[1].id"),
            (("user", "x"), {"about": "ann"}, Invalid, "about"),
            (("user", "x"), {"about": ["ann", ""]}, Invalid, "about[1]"),
        ],
    )
    def test_bad_turns_are_refused_with_their_path(
        self, opener: Opener, args: Any, options: dict[str, Any], error: type[Exception], path: str
    ) -> None:
        with opener() as store:
            session = store.session("a")
            with pytest.raises(error) as caught:
                session.say(*args, **options)
            assert getattr(caught.value, "path", None) == path
            assert session.turns() == []

    def test_turns_are_read_in_order_from_anywhere(self, opener: Opener) -> None:
        with opener() as store:
            session = store.session("a")
            said = [session.say("user", number) for number in range(10)]
            seqs = [turn.seq for turn in said]
            assert [turn.seq for turn in session.turns(last=3)] == seqs[-3:]
            assert [turn.seq for turn in session.turns(3)] == seqs[-3:]
            assert [turn.seq for turn in session.turns(after=seqs[3], limit=2)] == seqs[4:6]
            assert [turn.seq for turn in session.turns(before=seqs[3], limit=2)] == seqs[1:3]
            assert [turn.seq for turn in session.turns(after=seqs[3], before=seqs[7])] == seqs[4:7]
            assert [turn.seq for turn in session.turns(after=0)] == seqs
            assert session.turns(after=seqs[-1]) == []
            bad: list[tuple[dict[str, Any], str]] = [
                ({"last": 0}, "last"),
                ({"last": 2, "after": 1}, "last"),
                ({"after": "x"}, "after"),
            ]
            for options, path in bad:
                with pytest.raises(Invalid) as caught:
                    session.turns(**options)
                assert caught.value.path == path

    def test_what_is_pending(self, opener: Opener) -> None:
        with opener() as store:
            session = store.session("a")
            session.say("system", "Be kind")
            assert session.pending() is None
            user = session.say("user", "hi")
            session.say("system", "Be quick")
            waits = session.pending()
            assert waits is not None
            assert (waits.kind, waits.turn) == (PendingKind.ANSWER, user)
            calls = [Call("c1", "a"), Call("c2", "b")]
            asked = session.say("assistant", calls=calls)
            session.result("c2", 1)
            waits = session.pending()
            assert waits is not None
            assert (waits.kind, waits.turn, waits.calls) == (PendingKind.RESULTS, asked, (calls[0],))
            session.say("user", "still there?")
            waits = session.pending()
            assert waits is not None
            assert waits.calls == (calls[0],)
            session.result("c1", 1)
            waits = session.pending()
            assert waits is not None
            assert (waits.kind, waits.turn.content) == (PendingKind.ANSWER, "still there?")
            session.say("assistant", "yes")
            assert session.pending() is None

    def test_many_results_do_not_hide_their_call(self, opener: Opener) -> None:
        with opener() as store:
            session = store.session("a")
            calls = [Call(f"c{number}", "t") for number in range(130)]
            session.say("assistant", calls=calls)
            for call in calls[1:]:
                session.result(call.id, 1)
            waits = session.pending()
            assert waits is not None
            assert waits.calls == (calls[0],)

    def test_atomic_sees_its_own_turns(self, opener: Opener) -> None:
        def both(tx: Any) -> Any:
            session = tx.session("a", title="T")
            session.say("assistant", "x", key="k", calls=[Call("c", "t")])
            session.say("assistant", "x", key="k", calls=[Call("c", "t")])
            session.result("c", 1)
            session.goal = "done"
            return session.turns(), session.pending(), session.info(), session.transcript()

        with opener() as store:
            turns, pending, info, messages = store.atomic(both)
            assert [turn.role for turn in turns] == ["assistant", "tool"]
            assert pending.kind == PendingKind.ANSWER
            assert (info.goal, info.title) == ("done", "T")
            assert len(messages) == 2
            assert (store.session("a")).turns() == turns


class CoverContract:
    """Summaries and the transcript over them."""

    def test_a_summary_stands_for_its_turns_which_stay(self, opener: Opener) -> None:
        with opener() as store:
            session = store.session("a")
            rules = session.say("system", "Never push to main")
            said = [session.say("user" if n % 2 else "assistant", f"t{n}") for n in range(1, 7)]
            cover = session.summarise(upto=said[3].seq, text="they talked")
            assert (cover.first_seq, cover.last_seq) == (rules.seq, said[3].seq)
            assert session.covers() == [cover]
            assert len(session.turns()) == 7
            texts = [message["content"] for message in session.transcript("openai")]
            assert texts[0] == "Never push to main"
            assert "they talked" in texts[1]
            assert texts[2:] == ["t5", "t6"]
            assert len(session.transcript(full=True)) == 7
            last = session.transcript(last=1)
            assert [message["content"] for message in last][::2] == ["Never push to main", "t6"]
            said_to = session.transcript("anthropic")
            assert said_to.system == "Never push to main"
            assert [message["role"] for message in said_to] == ["user", "assistant"]

    def test_covers_nest_and_never_cross(self, opener: Opener) -> None:
        with opener() as store:
            session = store.session("a")
            seqs = [(session.say("user", number)).seq for number in range(10)]
            one = session.summarise(seqs[2], "one", from_=seqs[1])
            two = session.summarise(seqs[5], "two", from_=seqs[4])
            assert session.covers() == [one, two]
            for upto, start in ((seqs[4], seqs[3]), (seqs[1], None), (seqs[6], seqs[5]), (seqs[2], seqs[2])):
                with pytest.raises(Conflict) as caught:
                    session.summarise(upto, "bad", from_=start)
                assert caught.value.path == "upto"
            again = session.summarise(seqs[2], "one again", from_=seqs[1])
            assert session.covers() == [again, two]
            whole = session.summarise(seqs[7], "whole")
            assert session.covers() == [whole]
            assert session.covers(nested=True) == [one, two, again, whole]

    def test_a_summary_never_parts_a_call_from_its_result(self, opener: Opener) -> None:
        with opener() as store:
            session = store.session("a")
            user = session.say("user", "hi")
            asked = session.say("assistant", calls=[Call("c1", "t")])
            with pytest.raises(Conflict):
                session.summarise(asked.seq, "x")
            answer = session.result("c1", 1)
            for upto, start in ((asked.seq, None), (answer.seq, answer.seq)):
                with pytest.raises(Conflict):
                    session.summarise(upto, "x", from_=start)
            assert (session.summarise(user.seq, "x")).last_seq == user.seq
            assert (session.summarise(answer.seq, "x")).last_seq == answer.seq

    def test_bad_ranges_are_refused(self, opener: Opener) -> None:
        with opener() as store:
            session = store.session("a")
            with pytest.raises(NotFound):
                session.summarise(1, "x")
            turn = session.say("user", "hi")
            bad: list[tuple[Any, Any, type[Invalid], str]] = [
                (turn.seq + 1, "x", NotFound, "upto"),
                (0, "x", NotFound, "upto"),
                (turn.seq, " ", Invalid, "text"),
                (turn.seq, 7, Invalid, "text"),
                ("x", "x", Invalid, "upto"),
            ]
            for upto, text, error, path in bad:
                with pytest.raises(error) as caught:
                    session.summarise(upto, text)
                assert caught.value.path == path
            with pytest.raises(Invalid) as caught:
                session.transcript("xml")
            assert caught.value.path == "format"

    def test_a_cut_keeps_a_call_and_its_results_together(self, opener: Opener) -> None:
        with opener() as store:
            session = store.session("a")
            session.say("user", "hi")
            session.say("assistant", calls=[Call("c1", "t"), Call("c2", "t")])
            session.result("c1", 1)
            session.result("c2", 2)
            messages = session.transcript(last=1)
            assert [message["role"] for message in messages] == ["assistant", "tool", "tool"]


class ForkedConversationContract:
    """A fork reads on from what it was forked from, and both go their own ways."""

    def test_turns_are_shared_up_to_the_fork(self, opener: Opener) -> None:
        with opener() as store:
            main = store.session("main", goal="ship", labels=["x"], pins={"model": "m"})
            said = [main.say("user", number, key=f"k{number}") for number in range(6)]
            fork = main.fork(at=said[3].seq, name="try")
            main.say("user", "only main", key="k9")
            own = fork.say("user", "only fork", key="k9")
            seqs = [turn.seq for turn in said[:4]]
            assert [turn.seq for turn in fork.turns()] == [*seqs, own.seq]
            assert [turn.seq for turn in fork.turns(last=3)] == [*seqs[2:], own.seq]
            assert [turn.seq for turn in fork.turns(after=seqs[1], limit=2)] == seqs[2:4]
            assert [turn.seq for turn in fork.turns(before=own.seq, limit=2)] == seqs[2:4]
            assert (fork.say("user", 2, key="k2")).seq == said[2].seq
            assert (fork.say("user", 5, key="k5")).seq > own.seq
            with pytest.raises(KeyReused):
                fork.say("user", "other", key="k2")
            record = fork.info()
            assert (record.goal, record.labels, record.status) == ("ship", ("x",), "active")
            assert record.pins == main.pins()

    def test_calls_are_answered_on_either_side(self, opener: Opener) -> None:
        with opener() as store:
            main = store.session("main")
            asked = main.say("assistant", calls=[Call("c1", "t"), Call("c2", "t")])
            main.result("c1", "before")
            fork = main.fork(name="try")
            waits = fork.pending()
            assert waits is not None
            assert (waits.turn.seq, [call.id for call in waits.calls]) == (asked.seq, ["c2"])
            with pytest.raises(Conflict):
                fork.say("assistant", calls=[Call("c1", "t")])
            with pytest.raises(KeyReused):
                fork.result("c1", "other")
            fork.result("c2", "in the fork")
            main.result("c2", "in main")
            contents = [message["content"] for message in fork.transcript()]
            assert contents == [None, "before", "in the fork"]
            assert [message["content"] for message in main.transcript()][-1] == "in main"

    def test_summaries_are_shared_and_swallowed(self, opener: Opener) -> None:
        with opener() as store:
            main = store.session("main")
            seqs = [(main.say("user", number)).seq for number in range(4)]
            first = main.summarise(seqs[1], "first two")
            fork = main.fork(name="try")
            assert [cover.seq for cover in fork.covers()] == [first.seq]
            with pytest.raises(Conflict):
                fork.summarise(seqs[2], "crossing", from_=seqs[1])
            later = fork.say("user", "later")
            whole = fork.summarise(later.seq, "everything")
            assert [cover.seq for cover in fork.covers()] == [whole.seq]
            assert [cover.seq for cover in main.covers()] == [first.seq]
            assert len(fork.transcript()) == 1
            assert len(main.transcript()) == 3

    def test_the_past_reads_as_it_was(self, opener: Opener) -> None:
        with opener() as store:
            session = store.session("a", goal="one")
            turn = session.say("user", "hi")
            session.set_goal("two")
            session.say("assistant", "ho")
            session.close()
            past = session.at(turn.seq)
            assert [found.content for found in past.turns()] == ["hi"]
            assert (past.get_goal(), past.get_status()) == ("one", "active")
            waits = past.pending()
            assert waits is not None
            assert waits.turn.content == "hi"
            with pytest.raises(ReadOnly):
                past.say("user", "too late")
