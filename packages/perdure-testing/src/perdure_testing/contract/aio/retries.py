"""The contract of trying again: what uses up a retry, what does not, and how long the other side is believed (P4, P15)."""

from __future__ import annotations

from threading import Event
from typing import Any

import pytest

from perdure.effects import ledger, settling
from perdure.effects.effect_engine import intend
from perdure.effects.tool import Tool, tool
from perdure.errors import Failed, InDoubt, Unavailable, Waiting
from perdure.handles.aio.run import AsyncRun
from perdure.handles.aio.session import AsyncSession
from perdure.model.records.conversation import Call
from perdure_testing.contract.aio.effects import SENDER, CountingWorld
from perdure_testing.contract.aio.runs import driven, program
from perdure_testing.openers import AsyncOpener


class Stopped(BaseException):
    """An exception that stops a process, as far as a tool can be seen to raise it."""


async def died_with(session: AsyncSession, own_tool: Tool, key: str) -> None:
    """Somebody dispatched this effect and gave no sign of life since."""
    await session._write(ledger.dispatch, intend(own_tool.name, own_tool.kind, {}, own_tool.rule, key, None), SENDER)


class AsyncRetriesContract:
    """The attempts of an effect: which errors are tried again, and how often."""

    @pytest.mark.parametrize("error", [OSError("reset"), Unavailable("not now")])
    @pytest.mark.parametrize("retries", [1, 0])
    async def test_a_death_uses_up_no_retry(self, opener: AsyncOpener, retries: int, error: Exception) -> None:
        outside = CountingWorld()

        @tool(kind="idempotent", retries=retries, backoff="1ms")
        async def flaky() -> str:
            outside.seen()
            if outside.count == 1:
                raise error
            return "done"

        async with await opener() as store:
            session = await store.session("s")
            await died_with(session, flaky, "k")
            if retries:
                assert await session.act(flaky, key="k") == "done"
            else:  # the control: its own failure does
                with pytest.raises(Failed):
                    await session.act(flaky, key="k")
            (effect,) = await session.effects()
            assert (effect.record.attempt, effect.record.mishaps) == (2 + retries, 1)
            assert (outside.count, (await store.verify()).ok) == (1 + retries, True)

    @pytest.mark.parametrize("kind", ["idempotent", "keyed"])
    async def test_a_tool_that_ends_its_process_each_time_comes_to_an_end(self, opener: AsyncOpener, kind: Any) -> None:
        outside = CountingWorld()

        @tool(kind=kind, retries=1_000)
        async def fatal(*, key: str = "") -> None:
            outside.seen(key)
            raise Stopped

        async with await opener() as store:
            session = await store.session("s")
            for _ in range(settling.MISHAPS_MAX):
                with pytest.raises(Stopped):
                    await session.act(fatal, key="k")
            for _ in range(2):
                with pytest.raises(InDoubt, match="its sender died or was stopped 5 times") as doubt:
                    await session.act(fatal, key="k")
                assert doubt.value.facts["action"] == "ask a person"
            assert outside.count == settling.MISHAPS_MAX == 5

    @pytest.mark.parametrize("late", [False, True])
    async def test_keys_are_kept_from_the_first_dispatch_on(self, opener: AsyncOpener, late: bool) -> None:
        outside = CountingWorld()

        @tool(kind="keyed", keeps_keys="24h", retries=9, backoff="1ms")
        async def pay(*, key: str) -> Any:
            outside.seen(key)
            if outside.count == 1:
                raise Stopped
            return "paid"

        async with await opener() as store:
            session = await store.session("s")
            with pytest.raises(Waiting):
                await session.act(pay, key="k", approve="Really?")
            opener.clock.advance("25h")  # the approval took longer than the other side keeps keys
            (ask,) = await store.asks()
            await store.answer(ask.id, "approve", by="ann")
            with pytest.raises(Stopped):
                await session.act(pay, key="k", approve="Really?")
            opener.clock.advance("24h" if late else "23h")
            if late:  # the control: now it may have forgotten it
                with pytest.raises(InDoubt, match="the other side may have forgotten its key"):
                    await session.act(pay, key="k", approve="Really?")
            else:
                assert await session.act(pay, key="k", approve="Really?") == "paid"
            assert outside.count == (1 if late else 2)

    async def test_a_later_attempt_makes_no_key_younger(self, opener: AsyncOpener) -> None:
        """The other side counts from the first call that it saw."""
        outside = CountingWorld()

        @tool(kind="keyed", keeps_keys="24h", retries=9, backoff="1ms")
        async def pay(*, key: str) -> Any:
            outside.seen(key)
            raise Stopped

        async with await opener() as store:
            session = await store.session("s")
            for waited in ("1h", "23h"):
                opener.clock.advance(waited)
                with pytest.raises(Stopped):
                    await session.act(pay, key="k")
            opener.clock.advance("1h")
            with pytest.raises(InDoubt, match="the other side may have forgotten its key"):
                await session.act(pay, key="k")
            assert outside.count == 2

    @pytest.mark.parametrize("verb", ["step", "model", "respond", "a batch", "a session"])
    async def test_what_reads_is_tried_again_within_its_time(self, opener: AsyncOpener, verb: str) -> None:
        """The declaration of a `read` tool holds wherever it is called. Only its last attempt is recorded."""
        outside, end = CountingWorld(), Event()

        def look() -> dict[str, Any]:
            if outside.seen("looked") and outside.count == 1:
                end.wait(60)  # it is left behind, and what it gives is dropped
            if outside.count == 2:
                raise OSError("not yet")
            return {"calls": [], "found": 7}

        reads = tool(kind="read", name="look", timeout="300ms", retries=2, backoff="1ms")(look)

        async def outer(run: AsyncRun) -> Any:
            if verb == "a batch":
                reply = await run.respond(lambda: {"calls": [Call("a", "look", {})]}, tools=[reads])
                return reply.answers[0].result
            if verb == "respond":
                return (await run.respond(reads, tools=[])).value
            return await (run.model(reads) if verb == "model" else run.step(reads))

        async with await opener() as store:
            try:
                if verb == "a session":
                    (answer,) = await (await store.session("s")).respond(calls=[Call("a", "look", {})], tools=[reads])
                    result = answer.result
                else:
                    result = await store.drive(program(outer), key="k")
                    assert len(await (await store.runs())[0].steps()) == (2 if verb == "a batch" else 1)
            finally:
                end.set()
            assert (result["found"], outside.count) == (7, 3)
            assert (await store.verify()).ok

    async def test_a_step_that_is_overdue_fails_now_and_at_every_replay(self, opener: AsyncOpener) -> None:
        outside, end = CountingWorld(), Event()

        def slow() -> None:
            outside.seen("looked")
            end.wait(60)

        def no() -> None:
            outside.seen("asked")
            raise Failed("a clear no", code="No")

        async def outer(run: AsyncRun) -> list[Any]:
            codes = []
            for fn in (slow, no):
                try:
                    await run.step(fn, timeout="20ms" if fn is slow else "1m", retries=int(fn is no))
                except Failed as failed:
                    codes.append(failed.code)
            return [*codes, await run.ask("?")]

        agent = program(outer)
        async with await opener() as store:
            try:
                assert type(await driven(store, agent)) is Waiting
                await store.answer((await store.asks())[0].id, "seen")
                assert await store.drive(agent, key="k") == ["Overdue", "No", "seen"]
            finally:
                end.set()
            assert outside.calls == ["looked", "asked"]

    @pytest.mark.parametrize("verb", ["step", "model", "respond"])
    async def test_nobody_has_to_guess_whose_deadline_it_is(self, opener: AsyncOpener, verb: str) -> None:
        def fetch(url: str, timeout: float = 1.0) -> str:
            raise AssertionError(f"{url} is not fetched within {timeout}")

        async def outer(run: AsyncRun, given: dict[str, Any]) -> None:
            tools = {"tools": []} if verb == "respond" else {}
            await getattr(run, verb)(fetch, "x", **tools, **given)

        async with await opener() as store:
            for given, path in (
                ({"timeout": 5}, "timeout"),
                ({"timeout": "soon"}, "timeout"),
                ({"retries": -1}, "retries"),
            ):
                with pytest.raises(Failed, match=path) as refused:
                    await store.drive(program(outer), given)
                assert refused.value.code == "Invalid"
