"""The contract of runs that are to end, because they were called off or their time is over: nothing new is sent (P13, P15)."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from perdure.effects.commands import Consult, Steps
from perdure.effects.effect_engine import EffectEngine
from perdure.effects.tool import tool
from perdure.errors import Cancelled, Conflict, Failed, Invalid, Unavailable, Waiting
from perdure.handles.aio.run import AsyncRun
from perdure.model.records.conversation import Call
from perdure.model.records.effects import Absent, Happened, Unknown
from perdure.model.records.runs import RunStatus
from perdure.runtime.callers import caller_of
from perdure_testing.contract.aio.doubt import probing
from perdure_testing.contract.aio.effects import CountingWorld
from perdure_testing.contract.aio.going_on import when
from perdure_testing.contract.aio.runs import driven, program
from perdure_testing.openers import AsyncOpener


class AsyncEndingsContract:
    """A run that is to end does so, and what was only meant then is not sent any more."""

    @pytest.mark.parametrize("end", ["cancel", "timeout", "neither"])
    @pytest.mark.parametrize("meant", ["approved", "absent"])
    async def test_what_is_planned_is_not_sent_when_the_run_is_to_end(
        self, opener: AsyncOpener, meant: str, end: str
    ) -> None:
        outside = CountingWorld()
        make = tool(undo=tool(kind="idempotent")(lambda: outside.seen("unmade")))(lambda: outside.seen("made"))

        @tool
        async def pay() -> str:
            if outside.seen("paid") and meant == "absent" and outside.calls.count("paid") == 1:
                raise OSError("reset")
            return "done"

        async def buy(run: AsyncRun) -> Any:
            await run.act(make)
            return await run.act(pay, approve="Pay?" if meant == "approved" else None)

        agent = program(buy, timeout="1h")
        async with await opener() as store:
            assert type(await driven(store, agent)) is Waiting
            if meant == "approved":
                await store.answer((await store.asks())[0].id, "approve")
            else:
                await (await store.effects(state="in_doubt"))[0].settle(Absent())
            before = outside.calls.count("paid")
            if end == "cancel":  # it may have something to undo: whoever takes it next tells it
                assert (await (await store.runs())[0].cancel()).status == "ready"
            elif end == "timeout":
                opener.clock.advance("1h")
            ended = await driven(store, agent)
            assert type(ended) is {"cancel": Cancelled, "timeout": Failed}.get(end, str)
            assert outside.calls.count("paid") == before + (end == "neither")
            assert (await store.verify()).ok

    @pytest.mark.parametrize("end", ["cancel", "timeout"])
    @pytest.mark.parametrize("catches", [Failed, Exception, BaseException])
    async def test_whatever_catches_failures_does_not_catch_the_end(
        self, opener: AsyncOpener, end: str, catches: type[BaseException]
    ) -> None:
        """A loop that tries again what failed ends when its run is called off; and who catches that has not completed it."""
        outside = CountingWorld()
        make = tool(undo=tool(kind="idempotent")(lambda: outside.seen("unmade")))(lambda: outside.seen("made"))

        async with await opener() as store:

            async def look(number: int) -> None:
                if outside.seen(number) == 2 and end == "cancel":
                    await (await store.runs())[0].cancel("enough")
                elif number == 2:
                    opener.clock.advance("1h")

            async def again(run: AsyncRun) -> str:
                async with run.saga():
                    await run.act(make)
                    for number in range(50):
                        try:
                            await run.step(look, number)
                        except catches:
                            if catches is BaseException:
                                raise ValueError("it makes something else of it") from None
                return "never told"

            ended = await driven(store, program(again, timeout="1h"))
            assert (type(ended), ended.code) == ((Cancelled, "Cancelled") if end == "cancel" else (Failed, "TimedOut"))
            assert outside.calls == ["made", 0, 1, 2, "unmade"]
            assert (await store.verify()).ok

    @pytest.mark.parametrize("restored", [False, True])
    async def test_who_cancels_after_a_restore_does_not_say_that_what_was_planned_was_never_sent(
        self, opener: AsyncOpener, restored: bool
    ) -> None:
        """Somebody may have approved of it after the backup, and it was sent: that it was called off only says that it shall
        not be sent.
        """
        outside = CountingWorld()
        pay = tool(kind="idempotent", name="pay")(lambda: outside.seen("paid"))

        async def buy(run: AsyncRun) -> Any:
            return await run.act(pay, approve="Pay?")

        async with await opener() as store:
            assert type(await driven(store, program(buy))) is Waiting
            caller_of(store).core.epoch += int(restored)  # as a store that was restored
            assert (await (await store.runs())[0].cancel()).status == "cancelled"
            (effect,) = await store.effects()
            assert (effect.state, outside.calls) == ("in_doubt" if restored else "withdrawn", [])
            if restored:
                assert (await effect.settle(Happened(7), by="ann")).state == "committed"
            assert (await store.verify()).ok

    @pytest.mark.parametrize("end", ["cancel", "timeout"])
    async def test_a_run_that_is_to_end_tries_nothing_once_more(self, opener: AsyncOpener, end: str) -> None:
        outside = CountingWorld()
        async with await opener() as store:

            @tool(retries=5, backoff="1ms")
            async def away() -> None:
                if outside.seen("tried") and outside.count == 2:
                    if end == "cancel":
                        await (await store.runs())[0].cancel("enough")
                    else:
                        opener.clock.advance("1h")
                raise Unavailable("not now")

            async def outer(run: AsyncRun) -> None:
                await run.act(away)

            ended = await driven(store, program(outer, timeout="1h"))
            assert (type(ended), ended.code) == ((Cancelled, "Cancelled") if end == "cancel" else (Failed, "TimedOut"))
            assert outside.count == 2
            (effect,) = await store.effects()
            assert effect.state == ("withdrawn" if end == "cancel" else "planned")
            assert (await store.verify()).ok

    @pytest.mark.parametrize("sends", ["an effect", "a batch"])
    async def test_a_cancel_that_is_first_seen_by_the_commit_of_a_dispatch_lets_nothing_be_sent(
        self, opener: AsyncOpener, sends: str
    ) -> None:
        outside = CountingWorld()
        make = tool(undo=tool(kind="idempotent")(lambda: outside.seen("unmade")))(lambda: outside.seen("made"))
        pay = tool(limit=1, name="pay")(lambda n: outside.seen(f"paid {n}"))
        async with await opener() as store:

            async def think() -> dict[str, Any]:
                await (await store.runs())[0].cancel("enough")
                return {"calls": [Call("a", "pay", {"n": 1}), Call("b", "pay", {"n": 2})]}

            async def buy(run: AsyncRun) -> None:
                async with run.saga():
                    await run.act(make)
                    if sends == "a batch":
                        await run.respond(think, tools=[pay])
                    else:
                        await think()
                        await run.act(pay, 1)

            assert type(await driven(store, program(buy))) is Cancelled
            assert outside.calls == ["made", "unmade"]
            (handle,) = await store.runs()
            # The answer of a model is paid for: it is kept, with what it meant.
            planned = ["withdrawn", "withdrawn"] if sends == "a batch" else []
            assert [effect.state for effect in await handle.effects()] == ["undone", *planned, "committed"]
            assert len(await handle.steps()) == (sends == "a batch")
            assert await (await store.session("s")).act(pay, 3) is not None  # its slot is free again
            assert (await store.verify()).ok

    async def test_nor_does_one_that_is_first_seen_by_the_commit_of_another_attempt(self, opener: AsyncOpener) -> None:
        outside = CountingWorld()

        @tool(retries=5, backoff="1ms")
        async def away() -> None:
            outside.seen("tried")
            raise Unavailable("not now")

        async def outer(run: AsyncRun) -> None:
            await run.act(away)

        async with await opener() as store:

            async def enough() -> None:
                await (await store.runs())[0].cancel("enough")

            def slot(*_: Any) -> Steps[None]:  # taken right before a dispatch
                if outside.count == 2:
                    yield Consult(enough, {}, is_async=True)

            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(EffectEngine, "_take_slot", slot)
                assert type(await driven(store, program(outer))) is Cancelled
            assert outside.count == 2
            assert [effect.state for effect in await store.effects()] == ["withdrawn"]

    async def test_a_run_whose_time_is_over_rests_while_it_is_in_doubt(self, opener: AsyncOpener) -> None:
        @tool
        async def send() -> None:
            raise OSError("reset")

        async def outer(run: AsyncRun) -> None:
            await run.act(send)
            await run.step(str)

        agent = program(outer, timeout="1h")
        async with await opener() as store:
            assert type(await driven(store, agent)) is Waiting
            (handle,) = await store.runs()
            assert handle.record.wake_at == handle.record.timeout_at
            opener.clock.advance("1h")
            assert len((await store.recover([agent])).runs) == 1  # it is looked at when its time is over
            assert ((await handle.refresh()).status, handle.record.reason) == ("waiting", "doubt")
            assert handle.record.wake_at is None  # and then no more: else whoever looks takes it again and again
            assert (await store.recover([agent])).runs == ()
            await (await store.effects(state="in_doubt"))[0].settle(Happened())
            assert (await driven(store, agent)).code == "TimedOut"

    async def test_doubt_that_time_may_settle_is_looked_at_again_after_that(self, opener: AsyncOpener) -> None:
        outside = CountingWorld()
        send = probing(outside, [Unknown("no idea")])

        async def outer(run: AsyncRun) -> None:
            await run.act(send, "a")

        agent = program(outer, timeout="1s")
        async with await opener() as store:
            assert type(await driven(store, agent)) is Waiting
            opener.clock.advance("10s")
            assert type(await driven(store, agent)) is Waiting
            (handle,) = await store.runs()
            assert when(handle.record.wake_at) - opener.clock.now_us == 10_000_000

    async def test_a_run_that_nobody_has_is_cancelled_at_once(self, opener: AsyncOpener) -> None:
        @tool
        async def send() -> None: ...

        async def wait(run: AsyncRun, approve: str | None) -> None:
            await run.act(send, approve=approve)
            await run.ask("?")

        agent = program(wait)
        async with await opener() as store:
            for approve in (None, "Really?"):
                await driven(store, agent, approve, key=str(approve))
                (ask,) = await store.asks()
                handle = (await store.runs(status="waiting"))[0]
                assert (await handle.cancel("enough")).status is RunStatus.CANCELLED
                with pytest.raises(Cancelled, match="enough"):
                    await handle.result()
                assert await store.asks() == []
                for late in (partial(store.answer, ask.id, "x"), partial(store.signal, handle.id, "s")):
                    with pytest.raises((Conflict, Invalid)):
                        await late()
                assert await handle.effects(open=True) == []
                assert (await handle.cancel()).status == "cancelled"
            assert (await store.verify()).ok

    async def test_a_run_that_runs_is_told_at_its_next_step(self, opener: AsyncOpener) -> None:
        outside = CountingWorld()
        async with await opener() as store:

            async def cancelled_in_the_middle() -> None:
                await (await store.runs())[0].cancel("enough")

            async def work(run: AsyncRun) -> None:
                await run.step(cancelled_in_the_middle)
                await run.step(outside.seen)

            refused = await driven(store, program(work))
            assert (type(refused), outside.count) == (Cancelled, 0)
