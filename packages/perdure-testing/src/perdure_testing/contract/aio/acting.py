"""The contract of acting: what a tool says decides what becomes of its effect (P2-P4, P14, P15)."""

from __future__ import annotations

from functools import partial

import pytest

from perdure.effects.tool import Refuse, tool
from perdure.errors import Conflict, Failed, InDoubt, Invalid, KeyReused, NotFound, Refused, Unavailable
from perdure.model.records.conversation import Call
from perdure.model.records.effects import (
    Absent,
    Declined,
    EffectError,
    Happened,
    Unknown,
)
from perdure_testing.contract.aio.effects import CountingWorld, effect_in
from perdure_testing.openers import AsyncOpener
from perdure_testing.races import AsyncRace


class AsyncActingContract:
    """Acting in a session: once, whatever the key, the call and the tool say."""

    async def test_the_same_key_gives_the_stored_result_without_a_call(self, opener: AsyncOpener) -> None:
        outside = CountingWorld()

        @tool
        async def send(to: str) -> dict[str, str]:
            return outside.seen({"to": to})

        async with await opener() as store:
            session = await store.session("s")
            for _ in range(3):
                assert await session.act(send, "ann", key="m1") == {"to": "ann"}
            assert outside.count == 1
            with pytest.raises(KeyReused) as refused:
                await session.act(send, "bob", key="m1")
            facts = refused.value.facts
            assert (refused.value.path, facts["seq"]) == ("key", 2)
            assert facts["stored"] != facts["given"]
            (effect,) = await session.effects()
            assert facts["stored"] == effect.record.digest
            await session.act(send, "ann")  # without a key every call is a new action
            await session.act(send, "ann")
            await (await store.session("other")).act(send, "ann", key="m1")  # a key is of its session
            assert outside.count == 4
            assert (await store.verify()).ok

    async def test_an_answer_of_a_model_is_kept_and_an_outage_spends_no_key(self, opener: AsyncOpener) -> None:
        outside = CountingWorld()
        troubles: list[BaseException] = [ConnectionError("529"), ConnectionError("529")]

        async def ask(question: str) -> str:
            outside.seen(question)
            if troubles:
                raise troubles.pop()
            return f"about {question}"

        async with await opener() as store:
            session = await store.session("s")
            for _ in range(2):
                with pytest.raises(ConnectionError):  # the model's own error, each time from a new attempt
                    await session.ask_model(ask, "x", key="q")
            for _ in range(2):
                assert await session.ask_model(ask, "x", key="q") == "about x"
            assert outside.count == 3
            (effect,) = await session.effects()
            assert (effect.tool, effect.state.value) == ("model", "committed")
            with pytest.raises(KeyReused):
                await session.ask_model(ask, "y", key="q")
            assert (await store.verify()).ok

    async def test_a_refused_question_to_a_model_stays_refused(self, opener: AsyncOpener) -> None:
        outside = CountingWorld()

        async def ask() -> str:
            return outside.seen("asked")

        async with await opener(guards=[lambda *_: Refuse("not now")]) as store:
            session = await store.session("s")
            for _ in range(2):
                with pytest.raises(Failed, match="not now"):
                    await session.ask_model(ask, key="q")
            assert outside.count == 0

    async def test_a_tool_gets_a_key_of_this_effect_alone(self, opener: AsyncOpener) -> None:
        outside = CountingWorld()

        @tool(kind="keyed")
        async def pay(*, key: str) -> None:
            outside.seen(key)

        async with await opener() as store:
            for name in ("a", "b"):
                session = await store.session(name)
                await session.act(pay, key="k")
                assert (await session.effects())[0].sent_key == outside.calls[-1]
            assert len(set(outside.calls)) == 2

    async def test_the_result_of_a_call_lands_in_the_same_commit(self, opener: AsyncOpener) -> None:
        @tool(fails=[ValueError])
        async def look(q: str) -> str:
            if q == "bad":
                raise ValueError("no such thing")
            return f"found {q}"

        async with await opener() as store:
            session = await store.session("s")
            await session.say("user", "go")
            calls = [Call("c1", "look", {"q": "x"}), Call("c2", "look", {"q": "bad"})]
            await session.say("assistant", "let me look", calls=calls)
            assert await session.act(look, "x", call=calls[0]) == "found x"
            with pytest.raises(Failed) as refused:
                await session.act(look, "bad", call=calls[1])
            assert refused.value.code == "ValueError"
            answered = {turn.call: turn for turn in await session.turns(last=5) if turn.call}
            assert (answered["c1"].content, answered["c1"].error) == ("found x", False)
            assert (answered["c2"].content, answered["c2"].error) == ("ValueError: no such thing", True)
            first, second = await session.events(kind="effect.committed"), await session.events(kind="call.answered")
            assert first[0].ref.seq + 1 == second[0].ref.seq
            assert not getattr(await session.pending(), "calls", ())
            assert [message["role"] for message in await session.transcript(format="openai")][-2:] == ["tool", "tool"]
            assert await session.act(look, "x", call=calls[0]) == "found x"
            assert (await store.verify()).ok

    async def test_a_call_that_nobody_made_is_refused_before_anything_is_sent(self, opener: AsyncOpener) -> None:
        outside = CountingWorld()

        @tool
        async def send() -> None:
            outside.seen()

        async with await opener() as store:
            session = await store.session("s")
            for verb in (session.act, session.begin):
                with pytest.raises(NotFound) as refused:
                    await verb(send, call=Call("c9", "send", {}))
                assert refused.value.path == "call"
            with pytest.raises(Invalid):
                await session.act(send, call="c9")  # type: ignore[arg-type] - wrong on purpose
            assert (outside.count, await session.effects()) == (0, [])

    async def test_a_call_that_was_answered_by_hand_keeps_that_answer(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("s")

            @tool
            async def look() -> str:
                await session.result("c1", "by hand")
                return "by tool"

            await session.say("user", "go")
            await session.say("assistant", calls=[Call("c1", "look", {})])
            assert await session.act(look, call=Call("c1", "look", {})) == "by tool"
            assert [turn.content for turn in await session.turns(last=1)] == ["by hand"]
            assert [effect.state for effect in await session.effects()] == ["committed"]

    # -- what a tool says ------------------------------------------------------------------------------------------

    async def test_a_clear_no_is_a_failure_and_is_not_tried_again(self, opener: AsyncOpener) -> None:
        outside = CountingWorld()

        @tool(kind="idempotent", retries=5, fails=[KeyError])
        async def ask(how: str) -> None:
            outside.seen()
            raise KeyError(how) if how == "declared" else Failed("no", code="No")

        async with await opener() as store:
            session = await store.session("s")
            for how, code in (("declared", "KeyError"), ("said", "No")):
                for _ in range(2):
                    with pytest.raises(Failed) as refused:
                        await session.act(ask, how, key=how)
                    assert refused.value.code == code
            assert outside.count == 2
            assert [effect.state for effect in await session.effects()] == ["failed", "failed"]
            assert len(await store.effects(errors=True)) == 2

    async def test_an_exception_is_doubt_and_an_unsafe_tool_is_never_called_again(self, opener: AsyncOpener) -> None:
        outside = CountingWorld()

        async def send() -> None:
            outside.seen()
            raise RuntimeError("connection reset")

        async with await opener() as store:
            session = await store.session("s")
            with pytest.raises(InDoubt) as doubt:
                await session.act(send, key="k")
            for _ in range(2):
                with pytest.raises(InDoubt):
                    await session.act(send, key="k")
            assert outside.count == 1
            (effect,) = await session.effects(open=True)
            assert doubt.value.path == effect.id
            for way in ("perdure settle", 'kind="idempotent"', 'kind="keyed"', "probe="):
                assert way in doubt.value.hint
            assert "RuntimeError: connection reset" in doubt.value.message
            await effect.settle(Happened("sent"), by="ann")
            assert await session.act(send, key="k") == "sent"
            assert (await effect.refresh()).record.settled_by == "ann"
            with pytest.raises(Conflict, match="not in doubt: settled by ann"):
                await effect.settle(Absent(), by="bob")
            assert outside.count == 1

    async def test_what_may_be_called_again_is_until_its_retries_are_used_up(self, opener: AsyncOpener) -> None:
        outside = CountingWorld()

        async def flaky(good_at: int) -> int:
            outside.seen()
            if outside.count < good_at:
                raise OSError("reset")
            return outside.count

        again = tool(kind="idempotent", retries=2, backoff="1ms")(flaky)
        async with await opener() as store:
            session = await store.session("s")
            assert await session.act(again, 3) == 3
            outside.calls.clear()
            with pytest.raises(Failed) as given_up:
                await session.act(again, 9, key="k")
            assert (outside.count, given_up.value.code) == (3, "OSError")
            effects = await session.effects()
            assert [(effect.state, effect.record.attempt) for effect in effects] == [("committed", 3), ("failed", 3)]

    async def test_a_keyed_tool_is_called_with_the_same_key_and_then_a_person_is_asked(
        self, opener: AsyncOpener
    ) -> None:
        outside = CountingWorld()

        @tool(kind="keyed", retries=2, backoff="1ms")
        async def pay(*, key: str) -> None:
            outside.seen(key)
            raise OSError("reset")

        async with await opener() as store:
            session = await store.session("s")
            with pytest.raises(InDoubt):
                await session.act(pay, key="k")
            assert outside.count == 3
            assert len(set(outside.calls)) == 1
            (effect,) = await session.effects()
            await effect.settle(Declined("give it up"), by="ann")
            with pytest.raises(Failed, match="give it up"):
                await session.act(pay, key="k")

    async def test_unavailable_says_that_nothing_was_sent(self, opener: AsyncOpener) -> None:
        outside = CountingWorld()

        @tool(retries=2, backoff="1ms")
        async def send(good_at: int) -> int:
            outside.seen()
            if outside.count < good_at:
                raise Unavailable("no route")
            return outside.count

        async with await opener() as store:
            session = await store.session("s")
            assert await session.act(send, 3) == 3
            outside.calls.clear()
            with pytest.raises(Failed) as refused:
                await session.act(send, 9)
            assert (outside.count, refused.value.code) == (3, "Unavailable")

    async def test_a_result_that_cannot_be_kept_happened_all_the_same(self, opener: AsyncOpener) -> None:
        outside = CountingWorld()

        @tool
        async def send() -> object:
            outside.seen()
            return {"a": [object()]}

        async with await opener() as store:
            session = await store.session("s")
            for _ in range(2):  # the same, however often it is asked for
                with pytest.raises(Invalid) as refused:
                    await session.act(send, key="k")
                assert refused.value.path == "result.a[0]"
            assert outside.count == 1
            assert (await session.effects())[0].result["a"][0]["unstorable"] == "object"

    async def test_arguments_that_do_not_fit_are_refused_before_anything_is_written(self, opener: AsyncOpener) -> None:
        @tool(kind="keyed")
        async def pay(amount: int, *, key: str) -> None: ...

        @tool(kind="read")
        async def look() -> None: ...

        async with await opener() as store:
            session = await store.session("s")
            for args, path in (((), "args"), ((1, 2), "args"), ((object(),), "args.amount")):
                with pytest.raises(Invalid) as refused:
                    await session.act(pay, *args)
                assert refused.value.path.startswith(path)
            with pytest.raises(Refused):
                await session.act(look)
            for kind, args, path in (("wrong", {}, "kind"), (None, [1], "args")):
                with pytest.raises(Invalid) as wrong:
                    await session.begin("t", args, kind=kind)  # type: ignore[arg-type]
                assert wrong.value.path == path
            with pytest.raises(Refused):
                await session.begin("t", kind="read")
            assert await session.effects() == []

    # -- one's own loop --------------------------------------------------------------------------------------------

    async def test_a_loop_of_ones_own(self, opener: AsyncOpener) -> None:
        async with await opener(actor="ann") as store:
            session = await store.session("s")
            effect = await session.begin("open_pr", {"repo": "a"}, kind="keyed", key="pr")
            assert (effect.state, effect.settled, effect.tool, effect.key) == ("planned", False, "open_pr", "pr")
            with pytest.raises(Conflict) as early:  # an effect that was never sent cannot have happened (P2)
                await effect.commit({"number": 7})
            assert early.value.facts["state"] == "planned"
            await effect.dispatch()
            with pytest.raises(Conflict):
                await (await session.begin("open_pr", {"repo": "a"}, kind="keyed", key="pr")).dispatch()
            await effect.commit({"number": 7}, checkpoint={"cursor": 8})
            assert (effect.state, effect.result) == ("committed", {"number": 7})
            assert await session.restore() == {"cursor": 8}
            again = await session.begin("open_pr", {"repo": "a"}, kind="keyed", key="pr")
            assert (again.settled, again.result, again.record.actor) == (True, {"number": 7}, "ann")
            await again.commit({"number": 7})
            assert not await session.events(kind="effect.late")
            await again.fail("no")
            assert (again.state, len(await session.events(kind="effect.late"))) == ("committed", 1)
            failed = await (await session.begin("t")).dispatch()
            assert (await failed.fail(ValueError("x"))).record.error == EffectError("ValueError", "x")
            assert [effect.id for effect in await session.effects(open=True)] == []
            assert (await store.verify()).ok

    async def test_a_checkpoint_stands_or_falls_with_its_effect(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("s")
            effect = await session.begin("t")
            with pytest.raises(Conflict):
                await effect.commit(1, checkpoint={"n": 1})
            assert await session.restore() is None

    async def test_of_two_who_settle_one_does(self, opener: AsyncOpener) -> None:
        async with await opener() as x, await opener() if opener.shared else x as y:
            one, other = await x.session("s"), await y.session("s")
            for number in range(4):
                effect = await effect_in(one, "in_doubt")
                theirs = await y.effect(effect.id)
                outcomes = await AsyncRace.between(
                    partial(effect.settle, Happened(number), by="ann"), partial(theirs.settle, Declined("no"), by="bob")
                )
                assert len(outcomes.won) == 1
                assert type(outcomes.refused[0]) is Conflict
                assert outcomes.refused[0].facts["settled_by"] == outcomes.won[0].record.settled_by
            assert len(await other.effects()) == 4

    async def test_of_two_who_act_under_one_key_one_sends(self, opener: AsyncOpener) -> None:
        outside = CountingWorld()

        @tool
        async def send() -> int:
            return outside.seen(1)

        async with await opener() as x, await opener() if opener.shared else x as y:
            one, other = await x.session("s"), await y.session("s")
            for number in range(4):
                key = f"k{number}"
                outcomes = await AsyncRace.between(partial(one.act, send, key=key), partial(other.act, send, key=key))
                assert outside.count == number + 1
                assert set(outcomes.won) == {1}
                assert {type(refusal) for refusal in outcomes.refused} <= {Conflict}

    async def test_a_verdict_is_no_boolean_and_unknown_settles_nothing(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("s")
            effect = await effect_in(session, "in_doubt")
            for wrong in (Unknown("?"), True, None, "happened"):
                with pytest.raises(Invalid) as refused:
                    await effect.settle(wrong)  # type: ignore[arg-type] - wrong on purpose
                assert refused.value.path == "verdict"
            with pytest.raises(Invalid, match="not true or false"):
                bool(Happened(1))
            with pytest.raises(Invalid) as unkept:
                await effect.settle(Happened({"a": object()}))
            assert unkept.value.path == "result.a"
            assert (await effect.refresh()).state == "in_doubt"
            assert (await effect.settle(Absent())).state == "planned"

    async def test_effects_are_found_across_the_store(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            for name in ("a", "b"):
                session = await store.session(name)
                for state in ("committed", "in_doubt", "failed"):
                    await effect_in(session, state)
            assert len(await store.effects()) == 6
            assert {effect.state for effect in await store.effects(state="in_doubt")} == {"in_doubt"}
            assert len(await store.effects(errors=True)) == 4
            assert await store.effects(tool="other") == []
            page = await store.effects(limit=4)
            rest = await store.effects(limit=4, after=page.next)
            assert (len(page), len(rest), rest.next) == (4, 2, None)
            assert len({row.id for row in [*page, *rest]}) == 6
            with pytest.raises(Invalid):
                await store.effects(state="lost")  # type: ignore[arg-type]
            for wrong in ("x", "run:1", "session:a/x", "session:nobody/1"):
                with pytest.raises(Invalid):
                    await store.effect(wrong)

    async def test_a_page_of_a_sessions_effects_says_whether_there_is_more(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("s")
            for key in "abc":
                await session.begin("send", key=key)
            first = await session.effects(limit=2)
            rest = await session.effects(after=first.next or 0, limit=2)
            assert [row.record.key for row in (*first, *rest)] == ["a", "b", "c"]
            assert (rest.next, (await session.effects(limit=3)).next) == (None, None)

    async def test_a_fork_leaves_what_is_open_to_its_parent(self, opener: AsyncOpener) -> None:
        outside = CountingWorld()

        @tool
        async def send() -> int:
            outside.seen()
            raise OSError("reset")

        async with await opener() as store:
            session = await store.session("s")
            for state in ("planned", "dispatched", "in_doubt", "committed"):
                await effect_in(session, state)
            with pytest.raises(InDoubt):
                await session.act(send, key="k")
            fork = await session.fork(name="f")
            assert await fork.effects(open=True) == []
            states = [effect.state for effect in await fork.effects()]
            assert states == ["withdrawn"] * 3 + ["committed", "withdrawn"]
            with pytest.raises(Failed):
                await fork.act(send, key="k")
            assert outside.count == 1
            assert len(await session.effects(open=True)) == 4
            assert (await store.verify()).ok
