"""The contract after a restore: nothing that may have been done is done again, until somebody knows better (P3, P4)."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.effects.tool import tool
from perdure.handles.aio.run import AsyncRun
from perdure.handles.aio.store import AsyncStore
from perdure.model.records.conversation import Call
from perdure.model.records.effects import Absent, Happened
from perdure.runtime.agent import agent
from perdure.runtime.callers import caller_of
from perdure_testing.contract.aio.effects import CountingWorld
from perdure_testing.contract.aio.runs import driven, program
from perdure_testing.openers import AsyncOpener


def put_back(store: AsyncStore) -> None:
    """Let a store be one that was restored from a backup: what it has planned and sent is of another epoch."""
    caller_of(store).core.epoch += 1


class AsyncRestoredContract:
    """A run of a store that was restored."""

    async def test_a_probe_is_asked_before_something_new_is_sent(self, opener: AsyncOpener) -> None:
        outside, world = CountingWorld(), {"a"}

        async def look(to: str) -> Any:
            outside.seen(f"looked for {to}")
            return Happened("found") if to in world else Absent()

        @tool(probe=look, lands_within=0)
        async def send(to: str) -> str:
            return outside.seen(f"sent {to}")

        async def outer(run: AsyncRun) -> list[Any]:
            assert run.restored is None
            await run.ask("?")
            results = [await run.act(send, "a"), await run.act(send, "b")]
            await run.checkpoint(results)
            return [*results, await run.act(send, "c")]

        agent = program(outer)
        async with await opener() as store:
            await driven(store, agent)
            put_back(store)  # it sent `a` after the backup
            await (await store.runs())[0].resume()
            await driven(store, agent)  # being taken once is not enough
            await store.answer((await store.asks())[0].id, "go on")
            assert await store.drive(agent, key="k") == ["found", "sent b", "sent c"]
            assert outside.calls == ["looked for a", "looked for b", "sent b", "looked for c", "sent c"]

    @pytest.mark.parametrize("batch", [False, True])
    @pytest.mark.parametrize("kind", ["keyed", "probed"])
    async def test_what_follows_from_something_found_out_anew_is_asked_about(
        self, opener: AsyncOpener, kind: str, batch: bool
    ) -> None:
        """It may have been done with other arguments: neither a key nor a probe finds that out."""
        outside = CountingWorld()

        async def look(to: str) -> Any:
            raise AssertionError(f"it may be known by another name than {to}")

        async def send(to: str, *, key: str = "") -> str:
            assert key or kind == "probed"
            return outside.seen(f"sent {to}")

        declared: dict[str, Any] = {"kind": "keyed"} if kind == "keyed" else {"probe": look}
        sender = tool(name="send", **declared)(send)

        async def think() -> dict[str, Any]:
            return {"calls": [Call(to, "send", {"to": to}) for to in "ab"]}

        async def outer(run: AsyncRun) -> list[Any]:
            await run.ask("?")
            if batch:
                return [answer.result for answer in (await run.respond(think, tools=[sender])).answers]
            await run.step(think)
            return [await run.act(sender, "a"), await run.act(sender, "b")]

        agent = program(outer)
        async with await opener() as store:
            await driven(store, agent)
            put_back(store)  # a model may have said something else since
            await store.answer((await store.asks())[0].id, "go on")
            await driven(store, agent)
            assert outside.calls == []
            await (await store.effects(state="in_doubt"))[0].settle(Happened("sent c"), by="ann")
            await driven(store, agent)
            assert outside.calls == []
            await (await store.effects(state="in_doubt"))[0].settle(Absent(), by="ann")
            assert await store.drive(agent, key="k") == ["sent c", "sent b"]

    @pytest.mark.parametrize("batch", [False, True])
    @pytest.mark.parametrize("verdict", [Happened("sent before"), Absent()])
    async def test_a_person_is_asked_before_something_unsafe_is_sent(
        self, opener: AsyncOpener, verdict: Any, batch: bool
    ) -> None:
        """It may have been sent after the backup, and nothing but a person can find out."""
        outside = CountingWorld()

        @tool
        async def send() -> str:
            return outside.seen("sent now")

        async def think() -> dict[str, Any]:
            return {"calls": [Call("c", "send", {})]}

        async def outer(run: AsyncRun) -> list[Any]:
            result = run.restored
            if result is None:
                await run.ask("?")
                result = (await run.respond(think, tools=[send])).answers[0].result if batch else await run.act(send)
                await run.checkpoint(result)
            return [result, await run.act(send)]

        agent = program(outer)
        async with await opener() as store:
            await driven(store, agent)
            put_back(store)  # it may have sent it after the backup
            await store.answer((await store.asks())[0].id, "go on")
            await driven(store, agent)
            await driven(store, agent)
            (doubt,) = await store.effects(state="in_doubt")
            assert outside.calls == []
            await doubt.settle(verdict, by="ann")
            sent = "sent before" if isinstance(verdict, Happened) else "sent now"
            await driven(store, agent)  # a checkpoint does not make it known what came after the backup
            assert outside.count == (0 if isinstance(verdict, Happened) else 1)
            (doubt,) = await store.effects(state="in_doubt")
            await doubt.settle(Happened("this too"), by="ann")
            assert await store.drive(agent, key="k") == [sent, "this too"]
            assert outside.count == (0 if isinstance(verdict, Happened) else 1)

    async def test_a_run_that_somebody_vouches_for_does_what_it_means_to_do(self, opener: AsyncOpener) -> None:
        outside = CountingWorld()

        @tool
        async def send() -> str:
            return outside.seen("sent")

        async def outer(run: AsyncRun) -> list[Any]:
            await run.ask("?")
            return [await run.act(send), await run.act(send)]

        agent = program(outer)
        async with await opener() as store:
            await driven(store, agent)
            put_back(store)
            await (await store.runs())[0].resume(vouch=True)
            await store.answer((await store.asks())[0].id, "go on")
            assert await store.drive(agent, key="k") == ["sent", "sent"]

    async def test_a_drive_that_began_before_the_loss_records_nothing_more(self, opener: AsyncOpener) -> None:
        """Its work may be missing, and so may its lease: the run is driven anew, from what there is (P7)."""
        looked: list[int] = []

        async with await opener() as store:

            async def look() -> int:
                looked.append(1)
                if len(looked) == 1:
                    put_back(store)
                return len(looked)

            async def outer(run: AsyncRun) -> int:
                return await run.step(look)

            assert await store.drive(program(outer), key="k") == 2
            assert len(looked) == 2

    async def test_a_child_is_as_wary_as_its_parent(self, opener: AsyncOpener) -> None:
        """Its parent may have called it after the backup."""
        outside = CountingWorld()

        @tool
        async def send() -> str:
            return outside.seen("sent")

        @agent(name="wary-child")
        async def inner(run: AsyncRun) -> str:
            return await run.act(send)

        async def outer(run: AsyncRun) -> Any:
            await run.ask("?")
            return await run.call(inner)

        own_agent = program(outer)
        async with await opener() as store:
            await driven(store, own_agent)
            put_back(store)
            await store.answer((await store.asks())[0].id, "go on")
            await driven(store, own_agent)
            await store.recover([inner])
            (doubt,) = await store.effects(state="in_doubt")
            await doubt.settle(Happened("sent before"), by="ann")
            await store.recover([inner])
            assert await store.drive(own_agent, key="k") == "sent before"
            assert outside.calls == []
