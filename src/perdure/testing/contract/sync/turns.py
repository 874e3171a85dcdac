# Generated from testing/contract/aio/turns.py by tools/unasync.py: edit that one.
"""The contract of turns, calls, summaries and transcripts, on a session and on its forks."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.errors import Conflict, Invalid, KeyReused, NotFound, ReadOnly, TooLarge
from perdure.model.records.conversation import Call, PendingKind, Speaker
from perdure.testing.openers import Opener


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
            others: list[tuple[Speaker, Any, list[Call]]] = [
                ("assistant", {"b": 1}, [call]),
                ("user", {"b": 1, "a": 2}, []),
                ("assistant", {"b": 1, "a": 2}, [Call("c1", "grep", {"q": 2})]),
            ]
            for role, content, calls in others:
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

    def test_a_page_says_whether_there_is_more_either_way(self, opener: Opener) -> None:
        with opener() as store:
            session = store.session("a")
            seqs = [(session.say("user", number)).seq for number in range(5)]
            assert (session.turns()).next is None
            assert (session.turns(last=5)).next is None
            newest = session.turns(last=2)
            middle = session.turns(before=newest.next, limit=2)
            oldest = session.turns(before=middle.next, limit=2)
            assert [turn.seq for turn in [*oldest, *middle, *newest]] == seqs
            first = session.turns(after=0, limit=3)
            rest = session.turns(after=first.next, limit=3)
            assert [turn.seq for turn in [*first, *rest]] == seqs
            assert (oldest.next, rest.next) == (None, None)

    def test_so_do_pages_of_events_and_checkpoints_also_of_a_fork(self, opener: Opener) -> None:
        with opener() as store:
            main = store.session("main")
            for number in range(3):
                main.emit("app.happened", number)
                main.checkpoint(number)
            fork = main.fork(name="fork")
            fork.emit("app.happened", 3)
            fork.checkpoint(3)
            events = fork.events(kind="app.*", limit=3)
            later = fork.events(kind="app.*", after=events.next or 0, limit=3)
            assert [each.data for each in [*events, *later]] == [0, 1, 2, 3]
            newest = fork.checkpoints(limit=1)
            older = fork.checkpoints(before=newest.next, limit=3)
            assert [fork.restore(each.seq) for each in [*newest, *older]] == [3, 2, 1, 0]
            assert (later.next, older.next) == (None, None)
            assert (fork.checkpoints(limit=4)).next is None

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
                session.transcript("xml")  # type: ignore[arg-type] - wrong on purpose
            assert caught.value.path == "format"

    def test_a_cut_goes_back_to_the_call_of_a_late_result(self, opener: Opener) -> None:
        with opener() as store:
            session = store.session("s")
            session.say("user", "old")
            session.say("assistant", calls=[Call("c0", "t")])
            session.say("assistant", calls=[Call("c1", "t")])
            session.result("c0", "zero")
            session.say("user", "by the way")
            session.result("c1", "one")
            shown = session.transcript(format="openai", last=2)
            assert [message["content"] for message in shown] == [None, "zero", None, "one", "by the way"]
            fork = session.fork(name="f")
            assert fork.transcript(format="openai", last=2) == shown

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

    def test_keys_and_calls_hold_in_a_fork_that_is_just_made(self, opener: Opener) -> None:
        with opener() as store:
            session = store.session("s")
            first = session.say("user", "x", key="k")
            session.say("assistant", calls=[Call("c", "t")])

            def verb(tx: Any) -> list[int]:
                fork = tx.session("s").fork(name="f")
                again = fork.say("user", "x", key="k")
                answer = fork.result("c", 1)
                child = fork.fork(name="g")
                return [again.seq, answer.seq - child.result("c", 1).seq]

            assert store.atomic(verb) == [first.seq, 0]

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
