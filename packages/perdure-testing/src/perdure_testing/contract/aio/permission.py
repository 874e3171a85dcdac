"""The contract of permission: guards of a store and of a tool, asked before anything is sent, however it is begun (P2, P15)."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.effects.ledger import Intent
from perdure.effects.tool import Refuse, RequireApproval, Tool, tool
from perdure.errors import Conflict, Failed, InDoubt, Invalid, Waiting
from perdure.handles.aio.run import AsyncRun
from perdure.model.records.conversation import Call
from perdure.model.records.effects import Absent, Happened
from perdure.runtime.agent import Agent
from perdure.runtime.callers import caller_of
from perdure_testing.contract.aio.effects import CountingWorld
from perdure_testing.contract.aio.restored import put_back
from perdure_testing.contract.aio.runs import driven, program
from perdure_testing.openers import AsyncOpener


def wary(intent: Intent, actor: str) -> Any:
    """Small sums pass, middling ones need a person, large ones are refused."""
    n = intent.args.get("n", 0)
    return Refuse(f"too much for {actor}") if n > 9 else RequireApproval("Really?") if n > 5 else None


def payment(outside: CountingWorld) -> Tool:
    """A tool that the other side knows by its key: doubt about it is settled by sending it again."""

    @tool(kind="keyed")
    async def pay(n: int, *, key: str) -> int:  # noqa: ARG001 - what is keyed takes one
        return outside.seen(n)

    return pay


def payer(pay: Tool, *, batched: bool) -> Agent:
    """An agent that pays 6: itself, or because its model asked for it."""

    async def paying(run: AsyncRun) -> Any:
        if not batched:
            return await run.act(pay, 6)
        calls = [{"id": "c", "tool": "pay", "args": {"n": 6}}]
        return (await run.respond(lambda: {"calls": calls}, tools=[pay])).answers[0].result

    return program(paying)


class AsyncPermissionContract:
    """Effects that must be allowed first."""

    async def test_guards_of_a_store_are_asked_about_every_effect(self, opener: AsyncOpener) -> None:
        outside = CountingWorld()

        @tool
        async def pay(n: int) -> int:
            return outside.seen(n)

        async def paying(run: AsyncRun) -> Any:
            return await run.act(pay, 10)

        async with await opener(guards=[wary], actor="ann") as store:
            session = await store.session("s")
            with pytest.raises(Failed, match="too much for ann"):
                await session.act(pay, 10, key="k")
            refused = await driven(store, program(paying))
            assert isinstance(refused, Failed)
            assert refused.code == "Refused"
            assert await session.act(pay, 1, key="small") == 1
            assert outside.calls == [1]
        async with await opener() as store:  # the control: without the guard it is sent
            assert await (await store.session("s")).act(pay, 10, key="other") == 10

    @pytest.mark.parametrize("guards", [5, [5], "ab", [None]])
    async def test_guards_are_functions(self, opener: AsyncOpener, guards: Any) -> None:
        with pytest.raises(Invalid) as refused:
            await opener(guards=guards)
        assert refused.value.path == "guards"

    @pytest.mark.parametrize("of_tool", [True, False])
    async def test_what_is_begun_by_hand_is_asked_about_too(self, opener: AsyncOpener, of_tool: bool) -> None:
        @tool(guards=[wary] if of_tool else [])
        async def pay(n: int) -> None: ...

        async with await opener(guards=[] if of_tool else [wary], actor="ann") as store:
            session = await store.session("s")
            passed = await session.begin(pay, {"n": 1}, key="a")
            assert (await passed.dispatch()).state == "dispatched"
            refused = await session.begin(pay, {"n": 10}, key="b")
            assert (refused.state, refused.settled) == ("withdrawn", True)
            with pytest.raises(Failed, match="too much for ann") as no:
                await refused.dispatch()
            assert no.value.code == "Refused"
            verdicts = [event.data["guards"] for event in await session.events() if "guards" in (event.data or {})]
            assert verdicts == [
                [{"guard": "wary", "said": "pass"}],
                [{"guard": "wary", "said": "refuse", "why": "too much for ann"}],
            ]
            assert (await store.verify()).ok

    async def test_what_is_begun_by_hand_waits_for_its_approval(self, opener: AsyncOpener) -> None:
        async with await opener(guards=[wary]) as store:
            session = await store.session("s")
            effects = [await session.begin("pay", {"n": n}, key=str(n)) for n in (6, 7)]
            asks = sorted(await store.asks(), key=lambda wait: wait.seq)
            for effect, ask in zip(effects, asks, strict=True):
                with pytest.raises(Waiting) as waiting:
                    await effect.dispatch()
                assert waiting.value.facts["asks"] == [ask.id]
                assert (await effect.refresh()).state == "planned"
            await store.answer(asks[0].id, "approve", by="ann")
            await store.answer(asks[1].id, "refuse", by="ann")
            again = await session.begin("pay", {"n": 6}, key="6")
            assert (await again.dispatch()).state == "dispatched"
            with pytest.raises(Conflict):
                await effects[0].dispatch()
            for _ in range(2):
                with pytest.raises(Failed, match="ann did not approve"):
                    await effects[1].dispatch()
            assert [effect.state for effect in await session.effects()] == ["dispatched", "withdrawn"]
            assert len(await store.asks(state=None)) == 2

    async def test_who_has_only_the_effect_does_not_get_around_its_approval(self, opener: AsyncOpener) -> None:
        async with await opener(guards=[wary]) as store:
            begun = await (await store.session("s")).begin("pay", {"n": 6}, key="k")
            caller_of(store).core.guards = ()  # another process, with no guard
            with pytest.raises(Waiting):
                await (await store.effect(begun.id)).dispatch()

    @pytest.mark.parametrize("question", ["", " \n", True, False, 5])
    async def test_what_is_no_question_lets_nothing_pass(self, opener: AsyncOpener, question: Any) -> None:
        outside = CountingWorld()

        @tool
        async def pay() -> Any:
            return outside.seen("paid")

        async def paying(run: AsyncRun) -> Any:
            return await run.act(pay, approve=question)

        async def asking(run: AsyncRun) -> Any:
            return await run.ask(question)

        async with await opener() as store:
            with pytest.raises(Invalid) as refused:
                await (await store.session("s")).act(pay, key="k", approve=question)
            assert refused.value.path == "approve"
            for agent, path in ((paying, "approve: "), (asking, "question: ")):
                failed = await driven(store, program(agent), key=path)
                assert (failed.code, failed.message.startswith(path)) == ("Invalid", True)
            assert (outside.calls, await store.asks(state=None)) == ([], [])

    @pytest.mark.parametrize("by_guard", [True, False])
    async def test_an_approval_that_nobody_could_find_again_is_not_asked_for(
        self, opener: AsyncOpener, by_guard: bool
    ) -> None:
        outside = CountingWorld()

        @tool
        async def pay(n: int) -> int:
            return outside.seen(n)

        approve: Any = {} if by_guard else {"approve": "Really?"}
        async with await opener(guards=[wary] if by_guard else []) as store:
            session = await store.session("s")
            with pytest.raises(Invalid) as refused:
                await session.act(pay, 6, **approve)
            assert (refused.value.path, await store.asks(), await session.effects()) == ("key", [], [])
            await session.say("assistant", "", calls=[Call("c", "pay")])
            for identity in ({"key": "k"}, {"call": Call("c", "pay")}):  # the control: with either the answer finds it
                with pytest.raises(Waiting):
                    await session.act(pay, 6, **identity, **approve)
            assert (len(await store.asks()), outside.count) == (2, 0)

    @pytest.mark.parametrize("batched", [False, True])
    async def test_what_nobody_has_approved_of_is_not_sent_after_a_restore_either(
        self, opener: AsyncOpener, batched: bool
    ) -> None:
        """Its rule would send it again, because it may have been sent after the backup: but nobody may ever have said yes."""
        outside = CountingWorld()
        pay = payment(outside)
        async with await opener(guards=[wary]) as store:
            session = await store.session("s")
            with pytest.raises(Waiting):
                await session.act(pay, 7, key="k")
            asking = payer(pay, batched=batched)
            handle = await store.start(asking, key="r")
            await store.recover(agents=[asking])
            put_back(store)
            for _ in range(2):
                with pytest.raises(Waiting):
                    await session.act(pay, 7, key="k")
                await handle.resume()
                await store.recover(agents=[asking])
            assert outside.calls == []
            for ask in await store.asks():
                await store.answer(ask.id, "approve", by="ann")
            assert await session.act(pay, 7, key="k") == 7
            await store.recover(agents=[asking])
            assert await handle.result() == 6
            assert sorted(outside.calls) == [6, 7]

    @pytest.mark.parametrize("batched", [False, True])
    async def test_who_refuses_after_a_restore_does_not_say_that_it_was_never_sent(
        self, opener: AsyncOpener, batched: bool
    ) -> None:
        """Another may have approved of it after the backup, and it was sent: a person who refuses it now says only that it
        shall not be sent.
        """
        outside = CountingWorld()
        pay = payment(outside)
        async with await opener(guards=[wary]) as store:
            session, asking = await store.session("s"), payer(pay, batched=batched)
            with pytest.raises(Waiting):
                await session.act(pay, 7, key="k")
            by_hand = await session.begin("pay", {"n": 8}, key="by hand")
            handle = await store.start(asking, key="r")
            await store.recover(agents=[asking])
            put_back(store)
            for ask in await store.asks():
                await store.answer(ask.id, "refuse", by="ann")
            for _ in range(2):
                with pytest.raises(InDoubt, match="ann did not approve"):
                    await session.act(pay, 7, key="k")
                with pytest.raises(InDoubt, match="ann did not approve"):
                    await by_hand.dispatch()
                await store.recover(agents=[asking], tools=[pay])
            doubts = {effect.record.args["n"]: effect for effect in await store.effects(state="in_doubt")}
            assert (sorted(doubts), outside.calls) == ([6, 7, 8], [])
            await doubts[6].settle(Happened(6), by="bob")
            await doubts[7].settle(Absent(), by="bob")
            await store.recover(agents=[asking])
            assert await handle.result() == 6
            with pytest.raises(Failed, match="ann did not approve"):  # now it is known, and the word of ann stands
                await session.act(pay, 7, key="k")
            assert [effect.record.args["n"] for effect in await store.effects(state="withdrawn")] == [7]
            assert outside.calls == []
            assert (await store.verify()).ok

    @pytest.mark.parametrize("happened", [False, True])
    async def test_whether_what_is_refused_after_a_restore_was_sent_is_asked_of_the_other_side(
        self, opener: AsyncOpener, happened: bool
    ) -> None:
        outside = CountingWorld()

        async def was_paid(n: int) -> Any:
            return Happened(n) if happened else Absent()

        @tool(probe=was_paid)
        async def pay(n: int) -> int:
            return outside.seen(n)

        async with await opener(guards=[wary]) as store:
            session = await store.session("s")
            with pytest.raises(Waiting):
                await session.act(pay, 7, key="k")
            put_back(store)
            (ask,) = await store.asks()
            await store.answer(ask.id, "refuse", by="ann")
            if not happened:
                with pytest.raises(InDoubt, match="may still arrive"):
                    await session.act(pay, 7, key="k")
                opener.clock.advance("2m")
            for _ in range(2):
                if happened:
                    assert await session.act(pay, 7, key="k") == 7
                else:
                    with pytest.raises(Failed, match="ann did not approve"):
                        await session.act(pay, 7, key="k")
            assert outside.calls == []
            assert [effect.state for effect in await session.effects()] == ["committed" if happened else "failed"]

    @pytest.mark.parametrize("denied", [False, True])
    async def test_what_a_restore_put_in_doubt_is_not_sent_before_the_answer_that_it_waits_for(
        self, opener: AsyncOpener, denied: bool
    ) -> None:
        """Its rule would send it again, and so would who finds it planned, once somebody says that it did not happen."""
        outside = CountingWorld()
        pay = payment(outside)
        async with await opener(guards=[wary]) as store:
            session = await store.session("s")
            for n in (7, 8):
                with pytest.raises(Waiting):
                    await session.act(pay, n, key=str(n))
            put_back(store)
            begun = [await session.begin(pay, {"n": n}, key=str(n)) for n in (7, 8)]
            assert [effect.state for effect in begun] == ["in_doubt", "in_doubt"]
            for effect in begun if denied else []:
                await effect.settle(Absent(), by="bob")
            for n in (7, 8):
                with pytest.raises(Waiting):
                    await session.act(pay, n, key=str(n))
            await store.recover(tools=[pay])
            assert outside.calls == []
            for ask in await store.asks():
                await store.answer(ask.id, "approve" if ask.effect == begun[0]._record.seq else "refuse", by="ann")
            assert await session.act(pay, 7, key="7") == 7
            with pytest.raises(Failed if denied else InDoubt, match="ann did not approve"):
                await session.act(pay, 8, key="8")
            assert outside.calls == [7]

    async def test_what_is_no_verdict_puts_nothing_in_doubt(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            planned = await (await store.session("s")).begin("pay", {"n": 7}, key="k")
            put_back(store)
            with pytest.raises(Invalid, match="expected Happened"):
                await planned.settle("it did")  # type: ignore[arg-type] - no verdict
            assert [effect.state for effect in await store.effects()] == ["planned"]
