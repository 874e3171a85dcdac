"""The contract of turns, calls, summaries and transcripts, on a session and on its forks."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.errors import Conflict, Invalid, KeyReused, NotFound, ReadOnly, TooLarge
from perdure.model.limits import VALUE_MAX_BYTES
from perdure.model.records.conversation import Call, PendingKind, Speaker
from perdure_testing.openers import AsyncOpener


class AsyncTurnContract:
    """Saying, keys, calls and results, reading, what is pending."""

    async def test_a_summary_loses_no_identifier(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("s")
            texts = ["getUserName fails in src/auth.py", "since v1.2.3, see #42", "so it is"]
            turns = [await session.say("user", text) for text in texts]
            cover = await session.summarise(turns[1].seq, "src/auth.py was looked at")
            assert set(cover.keys) == {"getUserName", "v1.2.3", "#42"}
            assert (await session.covers()) == [cover]
            assert await session.lacking(cover) == []
            assert "getUserName" in str(await session.transcript())
            everything = await session.summarise(turns[2].seq, "all of it, as of v1.2.3")
            assert set(everything.keys) == {"getUserName", "src/auth.py", "#42"}
            bare = await session.summarise(turns[2].seq, "all of it", keys=[])
            assert set(await session.lacking(bare)) == {"getUserName", "src/auth.py", "v1.2.3", "#42"}
            assert [turn.content for turn in await session.turns(last=3)] == texts
            with pytest.raises(Invalid) as raised:
                await session.summarise(turns[2].seq, "x", keys="abc")
            assert raised.value.path == "keys"
            assert (await store.verify()).ok

    async def test_a_turn_comes_back_as_it_was_said(self, opener: AsyncOpener) -> None:
        contents: list[Any] = [
            "hi", "", "é" * 20_000, [{"type": "text", "text": "x"}], {"a": [1, 2.5, None]}, 7, False, b"\xff",
        ]  # fmt: skip
        async with await opener(actor="ann") as store:
            session = await store.session("a")
            turns = [await session.say("user", content, about=["customer:7"]) for content in contents]
            assert await session.turns() == turns
            assert [turn.content for turn in turns] == contents
            assert {turn.actor for turn in turns} == {"ann"}
            assert [turn.seq for turn in turns] == list(range(2, 2 + len(contents)))

    async def test_the_same_key_gives_the_same_turn(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("a")
            call = Call("c1", "grep", {"q": 1})
            turn = await session.say("assistant", {"b": 1, "a": 2}, key="m1", calls=[call])
            assert await session.say("assistant", {"a": 2, "b": 1}, key="m1", calls=[call]) == turn
            others: list[tuple[Speaker, Any, list[Call]]] = [
                ("assistant", {"b": 1}, [call]),
                ("user", {"b": 1, "a": 2}, []),
                ("assistant", {"b": 1, "a": 2}, [Call("c1", "grep", {"q": 2})]),
            ]
            for role, content, calls in others:
                with pytest.raises(KeyReused) as caught:
                    await session.say(role, content, key="m1", calls=calls)
                assert caught.value.facts["stored"] != caught.value.facts["given"]
                assert caught.value.facts["seq"] == turn.seq
            assert await session.turns() == [turn]

    async def test_a_key_holds_over_two_opens(self, opener: AsyncOpener) -> None:
        if not opener.shared:
            pytest.skip("needs a second open")
        async with await opener() as a, await opener() as b:
            one, two = await a.session("s"), await b.session("s")
            turns = [await opened.say("user", "x", key=f"k{n}") for n in range(5) for opened in (one, two)]
            assert len({turn.seq for turn in turns}) == 5
            assert len(await one.turns()) == 5

    async def test_one_of_two_results_wins(self, opener: AsyncOpener) -> None:
        if not opener.shared:
            pytest.skip("needs a second open")
        async with await opener() as a, await opener() as b:
            one, two = await a.session("s"), await b.session("s")
            await one.say("assistant", calls=[Call("c", "t")])
            with pytest.raises(Conflict):
                await two.say("assistant", calls=[Call("c", "t")])
            await one.result("c", 1)
            with pytest.raises(KeyReused):
                await two.result("c", 2)

    async def test_results_belong_to_calls(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("a")
            with pytest.raises(NotFound) as unknown:
                await session.result("c1", 1)
            assert unknown.value.path == "call_id"
            await session.say("assistant", "look", calls=[Call("c1", "grep"), Call("c2", "ls", [1])])
            turn = await session.result("c1", {"hits": 3}, error=True)
            assert (turn.role, turn.call, turn.error, turn.content) == ("tool", "c1", True, {"hits": 3})
            assert await session.result("c1", {"hits": 3}, error=True) == turn
            for value, error in (({"hits": 4}, True), ({"hits": 3}, False)):
                with pytest.raises(KeyReused):
                    await session.result("c1", value, error=error)
            assert (await session.turns())[-1] == turn
            assert (await session.turns())[0].calls == (Call("c1", "grep", {}), Call("c2", "ls", [1]))

    async def test_a_result_that_no_store_takes_is_kept_as_text(self, opener: AsyncOpener) -> None:
        """The call was made: its result must not be lost because it holds a NUL."""
        async with await opener() as store:
            session = await store.session("a")
            await session.say("assistant", calls=[Call("c1", "t"), Call("c2", "t"), Call("c3", "t")])
            turn = await session.result("c1", "a\0b")
            assert turn.content == {"unstorable": "str", "text": "a\\x00b"}
            assert await session.result("c1", "a\0b") == turn
            with pytest.raises(KeyReused):
                await session.result("c1", "a\0c")
            result = await session.result("c2", {"out": "x\ud800", "code": 1, "parts": [1, float("nan")]})
            assert result.content == {
                "out": {"unstorable": "str", "text": "x\\ud800"}, "code": 1, "parts": [1, {"unstorable": "float", "text": "nan"}],
            }  # fmt: skip
            assert [turn.content for turn in await session.turns(last=2)] == [turn.content, result.content]
            with pytest.raises(TooLarge):
                await session.result("c3", "x" * (VALUE_MAX_BYTES + 1))
            with pytest.raises(Invalid, match="NUL"):
                await session.result("c\0", "x")

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
    async def test_bad_turns_are_refused_with_their_path(
        self, opener: AsyncOpener, args: Any, options: dict[str, Any], error: type[Exception], path: str
    ) -> None:
        async with await opener() as store:
            session = await store.session("a")
            with pytest.raises(error) as caught:
                await session.say(*args, **options)
            assert getattr(caught.value, "path", None) == path
            assert await session.turns() == []

    async def test_turns_are_read_in_order_from_anywhere(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("a")
            turns = [await session.say("user", number) for number in range(10)]
            seqs = [turn.seq for turn in turns]
            assert [turn.seq for turn in await session.turns(last=3)] == seqs[-3:]
            assert [turn.seq for turn in await session.turns(3)] == seqs[-3:]
            assert [turn.seq for turn in await session.turns(after=seqs[3], limit=2)] == seqs[4:6]
            assert [turn.seq for turn in await session.turns(before=seqs[3], limit=2)] == seqs[1:3]
            assert [turn.seq for turn in await session.turns(after=seqs[3], before=seqs[7])] == seqs[4:7]
            assert [turn.seq for turn in await session.turns(after=0)] == seqs
            assert await session.turns(after=seqs[-1]) == []
            bad: list[tuple[dict[str, Any], str]] = [
                ({"last": 0}, "last"),
                ({"last": 2, "after": 1}, "last"),
                ({"after": "x"}, "after"),
            ]
            for options, path in bad:
                with pytest.raises(Invalid) as caught:
                    await session.turns(**options)
                assert caught.value.path == path

    async def test_a_page_says_whether_there_is_more_either_way(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("a")
            seqs = [(await session.say("user", number)).seq for number in range(5)]
            assert (await session.turns()).next is None
            assert (await session.turns(last=5)).next is None
            newest = await session.turns(last=2)
            middle = await session.turns(before=newest.next, limit=2)
            oldest = await session.turns(before=middle.next, limit=2)
            assert [turn.seq for turn in [*oldest, *middle, *newest]] == seqs
            first = await session.turns(after=0, limit=3)
            rest = await session.turns(after=first.next, limit=3)
            assert [turn.seq for turn in [*first, *rest]] == seqs
            assert (oldest.next, rest.next) == (None, None)

    async def test_so_do_pages_of_events_and_checkpoints_also_of_a_fork(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            main = await store.session("main")
            for number in range(3):
                await main.emit("app.happened", number)
                await main.checkpoint(number)
            fork = await main.fork(name="fork")
            await fork.emit("app.happened", 3)
            await fork.checkpoint(3)
            events = await fork.events(kind="app.*", limit=3)
            later = await fork.events(kind="app.*", after=events.next or 0, limit=3)
            assert [row.data for row in [*events, *later]] == [0, 1, 2, 3]
            newest = await fork.checkpoints(limit=1)
            older = await fork.checkpoints(before=newest.next, limit=3)
            assert [await fork.restore(row.seq) for row in [*newest, *older]] == [3, 2, 1, 0]
            assert (later.next, older.next) == (None, None)
            assert (await fork.checkpoints(limit=4)).next is None

    async def test_what_is_pending(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("a")
            await session.say("system", "Be kind")
            assert await session.pending() is None
            user = await session.say("user", "hi")
            await session.say("system", "Be quick")
            waits = await session.pending()
            assert waits is not None
            assert (waits.kind, waits.turn) == (PendingKind.ANSWER, user)
            calls = [Call("c1", "a"), Call("c2", "b")]
            turn = await session.say("assistant", calls=calls)
            await session.result("c2", 1)
            waits = await session.pending()
            assert waits is not None
            assert (waits.kind, waits.turn, waits.calls) == (PendingKind.RESULTS, turn, (calls[0],))
            await session.say("user", "still there?")
            waits = await session.pending()
            assert waits is not None
            assert waits.calls == (calls[0],)
            await session.result("c1", 1)
            waits = await session.pending()
            assert waits is not None
            assert (waits.kind, waits.turn.content) == (PendingKind.ANSWER, "still there?")
            await session.say("assistant", "yes")
            assert await session.pending() is None

    async def test_many_results_do_not_hide_their_call(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("a")
            calls = [Call(f"c{number}", "t") for number in range(130)]
            await session.say("assistant", calls=calls)
            for call in calls[1:]:
                await session.result(call.id, 1)
            waits = await session.pending()
            assert waits is not None
            assert waits.calls == (calls[0],)

    async def test_atomic_sees_its_own_turns(self, opener: AsyncOpener) -> None:
        def both(tx: Any) -> Any:
            session = tx.session("a", title="T")
            session.say("assistant", "x", key="k", calls=[Call("c", "t")])
            session.say("assistant", "x", key="k", calls=[Call("c", "t")])
            session.result("c", 1)
            session.goal = "done"
            return session.turns(), session.pending(), session.info(), session.transcript()

        async with await opener() as store:
            turns, pending, info, messages = await store.atomic(both)
            assert [turn.role for turn in turns] == ["assistant", "tool"]
            assert pending.kind == PendingKind.ANSWER
            assert (info.goal, info.title) == ("done", "T")
            assert len(messages) == 2
            assert await (await store.session("a")).turns() == turns


class AsyncCoverContract:
    """Summaries and the transcript over them."""

    async def test_a_summary_stands_for_its_turns_which_stay(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("a")
            rules = await session.say("system", "Never push to main")
            turns = [await session.say("user" if n % 2 else "assistant", f"t{n}") for n in range(1, 7)]
            cover = await session.summarise(upto=turns[3].seq, text="they talked")
            assert (cover.first_seq, cover.last_seq) == (rules.seq, turns[3].seq)
            assert await session.covers() == [cover]
            assert len(await session.turns()) == 7
            texts = [message["content"] for message in await session.transcript("openai")]
            assert texts[0] == "Never push to main"
            assert "they talked" in texts[1]
            assert texts[2:] == ["t5", "t6"]
            assert len(await session.transcript(full=True)) == 7
            last = await session.transcript(last=1)
            assert [message["content"] for message in last][::2] == ["Never push to main", "t6"]
            said_to = await session.transcript("anthropic")
            assert said_to.system == "Never push to main"
            assert [message["role"] for message in said_to] == ["user", "assistant"]

    async def test_covers_nest_and_never_cross(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("a")
            seqs = [(await session.say("user", number)).seq for number in range(10)]
            one = await session.summarise(seqs[2], "one", from_=seqs[1])
            two = await session.summarise(seqs[5], "two", from_=seqs[4])
            assert await session.covers() == [one, two]
            for upto, start in ((seqs[4], seqs[3]), (seqs[1], None), (seqs[6], seqs[5]), (seqs[2], seqs[2])):
                with pytest.raises(Conflict) as caught:
                    await session.summarise(upto, "bad", from_=start)
                assert caught.value.path == "upto"
            again = await session.summarise(seqs[2], "one again", from_=seqs[1])
            assert await session.covers() == [again, two]
            everything = await session.summarise(seqs[7], "whole")
            assert await session.covers() == [everything]
            assert await session.covers(nested=True) == [one, two, again, everything]

    async def test_a_summary_never_parts_a_call_from_its_result(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("a")
            user = await session.say("user", "hi")
            turn = await session.say("assistant", calls=[Call("c1", "t")])
            with pytest.raises(Conflict):
                await session.summarise(turn.seq, "x")
            answer = await session.result("c1", 1)
            for upto, start in ((turn.seq, None), (answer.seq, answer.seq)):
                with pytest.raises(Conflict):
                    await session.summarise(upto, "x", from_=start)
            assert (await session.summarise(user.seq, "x")).last_seq == user.seq
            assert (await session.summarise(answer.seq, "x")).last_seq == answer.seq

    async def test_bad_ranges_are_refused(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("a")
            with pytest.raises(NotFound):
                await session.summarise(1, "x")
            turn = await session.say("user", "hi")
            bad: list[tuple[Any, Any, type[Invalid], str]] = [
                (turn.seq + 1, "x", NotFound, "upto"),
                (0, "x", NotFound, "upto"),
                (turn.seq, " ", Invalid, "text"),
                (turn.seq, 7, Invalid, "text"),
                ("x", "x", Invalid, "upto"),
            ]
            for upto, text, error, path in bad:
                with pytest.raises(error) as caught:
                    await session.summarise(upto, text)
                assert caught.value.path == path
            with pytest.raises(Invalid) as caught:
                await session.transcript("xml")  # type: ignore[arg-type] - wrong on purpose
            assert caught.value.path == "format"

    async def test_a_cut_goes_back_to_the_call_of_a_late_result(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("s")
            await session.say("user", "old")
            await session.say("assistant", calls=[Call("c0", "t")])
            await session.say("assistant", calls=[Call("c1", "t")])
            await session.result("c0", "zero")
            await session.say("user", "by the way")
            await session.result("c1", "one")
            messages = await session.transcript(format="openai", last=2)
            assert [message["content"] for message in messages] == [None, "zero", None, "one", "by the way"]
            fork = await session.fork(name="f")
            assert await fork.transcript(format="openai", last=2) == messages

    async def test_a_cut_keeps_a_call_and_its_results_together(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("a")
            await session.say("user", "hi")
            await session.say("assistant", calls=[Call("c1", "t"), Call("c2", "t")])
            await session.result("c1", 1)
            await session.result("c2", 2)
            messages = await session.transcript(last=1)
            assert [message["role"] for message in messages] == ["assistant", "tool", "tool"]


class AsyncForkedConversationContract:
    """A fork reads on from what it was forked from, and both go their own ways."""

    async def test_turns_are_shared_up_to_the_fork(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            main = await store.session("main", goal="ship", labels=["x"], pins={"model": "m"})
            turns = [await main.say("user", number, key=f"k{number}") for number in range(6)]
            fork = await main.fork(at=turns[3].seq, name="try")
            await main.say("user", "only main", key="k9")
            own = await fork.say("user", "only fork", key="k9")
            seqs = [turn.seq for turn in turns[:4]]
            assert [turn.seq for turn in await fork.turns()] == [*seqs, own.seq]
            assert [turn.seq for turn in await fork.turns(last=3)] == [*seqs[2:], own.seq]
            assert [turn.seq for turn in await fork.turns(after=seqs[1], limit=2)] == seqs[2:4]
            assert [turn.seq for turn in await fork.turns(before=own.seq, limit=2)] == seqs[2:4]
            assert (await fork.say("user", 2, key="k2")).seq == turns[2].seq
            assert (await fork.say("user", 5, key="k5")).seq > own.seq
            with pytest.raises(KeyReused):
                await fork.say("user", "other", key="k2")
            record = await fork.info()
            assert (record.goal, record.labels, record.status) == ("ship", ("x",), "active")
            assert record.pins == await main.pins()

    async def test_keys_and_calls_hold_in_a_fork_that_is_just_made(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("s")
            first = await session.say("user", "x", key="k")
            await session.say("assistant", calls=[Call("c", "t")])

            def verb(tx: Any) -> list[int]:
                fork = tx.session("s").fork(name="f")
                again = fork.say("user", "x", key="k")
                answer = fork.result("c", 1)
                child = fork.fork(name="g")
                return [again.seq, answer.seq - child.result("c", 1).seq]

            assert await store.atomic(verb) == [first.seq, 0]

    async def test_calls_are_answered_on_either_side(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            main = await store.session("main")
            turn = await main.say("assistant", calls=[Call("c1", "t"), Call("c2", "t")])
            await main.result("c1", "before")
            fork = await main.fork(name="try")
            waits = await fork.pending()
            assert waits is not None
            assert (waits.turn.seq, [call.id for call in waits.calls]) == (turn.seq, ["c2"])
            with pytest.raises(Conflict):
                await fork.say("assistant", calls=[Call("c2", "t")])
            with pytest.raises(KeyReused):
                await fork.result("c1", "other")
            await fork.result("c2", "in the fork")
            await main.result("c2", "in main")
            contents = [message["content"] for message in await fork.transcript()]
            assert contents == [None, "before", "in the fork"]
            assert [message["content"] for message in await main.transcript()][-1] == "in main"

    async def test_summaries_are_shared_and_swallowed(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            main = await store.session("main")
            seqs = [(await main.say("user", number)).seq for number in range(4)]
            first = await main.summarise(seqs[1], "first two")
            fork = await main.fork(name="try")
            assert [cover.seq for cover in await fork.covers()] == [first.seq]
            with pytest.raises(Conflict):
                await fork.summarise(seqs[2], "crossing", from_=seqs[1])
            later = await fork.say("user", "later")
            everything = await fork.summarise(later.seq, "everything")
            assert [cover.seq for cover in await fork.covers()] == [everything.seq]
            assert [cover.seq for cover in await main.covers()] == [first.seq]
            assert len(await fork.transcript()) == 1
            assert len(await main.transcript()) == 3

    async def test_the_past_reads_as_it_was(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("a", goal="one")
            turn = await session.say("user", "hi")
            await session.set_goal("two")
            await session.say("assistant", "ho")
            await session.close()
            past = await session.at(turn.seq)
            assert [turn.content for turn in await past.turns()] == ["hi"]
            assert (await past.get_goal(), await past.get_status()) == ("one", "active")
            waits = await past.pending()
            assert waits is not None
            assert waits.turn.content == "hi"
            with pytest.raises(ReadOnly):
                await past.say("user", "too late")
