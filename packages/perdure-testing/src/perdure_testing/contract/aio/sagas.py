"""The contract of undoing: what a saga holds is decided by its place, what was undone is not acted upon again (P3, P4, P13)."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from perdure.effects.tool import Tool, tool
from perdure.errors import Cancelled, Changed, Conflict, Failed, Parked, Waiting
from perdure.handles.aio.run import AsyncRun
from perdure.model.records.effects import Absent, Happened
from perdure.runtime.agent import Agent
from perdure_testing.contract.aio.doubt import quiet, until
from perdure_testing.contract.aio.effects import CountingWorld
from perdure_testing.contract.aio.runs import driven, program
from perdure_testing.openers import AsyncOpener


def creating(outside: CountingWorld, **declared: Any) -> Tool:
    """A tool that makes something, with one that takes it away again."""

    async def delete(name: str) -> None:
        outside.seen(f"-{name}")

    @tool(undo=delete, **declared)
    async def create(name: str) -> str:
        return outside.seen(f"+{name}")

    return create


def trip(outside: CountingWorld, *, how: str = "refused", **declared: Any) -> Agent:
    """An agent with a saga that does not come to its end."""
    create = creating(outside)

    @tool
    async def pay() -> None:
        if outside.seen("pay") and outside.calls.count("pay") == 1:
            raise Failed("declined")

    async def fails() -> None:
        raise OSError("down")

    async def booked(run: AsyncRun) -> str:
        async with run.saga():
            await run.act(create, "hotel")
            if how == "refused":
                await run.act(pay)
            elif how == "step":
                await run.step(fails)
            elif how == "program":
                raise ValueError("no flight")
            await run.ask("?")
            await run.act(pay)
        return "enjoy"

    return program(booked, **declared)


def waiting_in_a_saga(outside: CountingWorld) -> Agent:
    """An agent that does something it can undo and then asks. Something else that is seen outside changes what it does."""
    create = creating(outside)

    async def booked(run: AsyncRun) -> None:
        async with run.saga():
            await run.act(create, "hotel")
            await run.step(str, outside.count)
            await run.ask("?")

    return program(booked)


class AsyncSagasContract:
    """Effects are undone in reverse, durably."""

    async def test_what_was_done_is_undone_in_reverse(self, opener: AsyncOpener) -> None:
        outside = CountingWorld()

        async def delete(name: str, result: str) -> None:
            outside.seen(f"deleted {name} {result}")

        @tool(undo=delete)
        async def create(name: str) -> str:
            return outside.seen(f"created {name}").upper()

        @tool
        async def refuse() -> None:
            raise Failed("no", code="No")

        async def trip(run: AsyncRun) -> str:
            await run.act(create, "kept")
            try:
                async with run.saga():
                    await run.act(create, "a")
                    await run.act(create, "b")
                    await run.act(refuse)
            except Failed as failed:
                await run.ask("?")
                return failed.code
            return "?"

        agent = program(trip)
        async with await opener() as store:
            await driven(store, agent)
            (handle,) = await store.runs()
            for _ in range(2):
                await handle.resume()
                await driven(store, agent)
            await store.answer((await store.asks())[0].id, "x")
            assert await store.drive(agent, key="k") == "No"
            assert outside.calls == [
                "created kept", "created a", "created b", "deleted b CREATED B", "deleted a CREATED A",
            ]  # fmt: skip
            states = {
                effect.record.args.get("name"): effect.state
                for effect in await handle.effects()
                if effect.tool == "create"
            }
            assert states == {"kept": "committed", "a": "undone", "b": "undone"}
            assert (await store.verify()).ok

    @pytest.mark.parametrize("verb", ["retry", "unpark", "resume"])
    async def test_a_failed_undo_parks_and_can_be_tried_again(self, opener: AsyncOpener, verb: str) -> None:
        outside = CountingWorld()

        @tool(kind="idempotent", fails=[PermissionError])
        async def delete(name: str) -> None:
            if outside.seen(f"delete {name}") and outside.calls.count(f"delete {name}") == 1:
                raise PermissionError("locked")

        @tool(undo=delete)
        async def create(name: str) -> str:
            return outside.seen(name)

        async def trip(run: AsyncRun) -> None:
            try:
                async with run.saga():
                    await run.act(create, "a")
                    await run.step(int, "no number")
            except Exception:  # noqa: BLE001 - what a careless agent does: a parked run stays parked
                await run.act(create, "after")

        agent = program(trip)
        async with await opener() as store:
            with pytest.raises(Parked, match="create could not be undone: locked"):
                await store.drive(agent, key="k")
            (handle,) = await store.runs(status="parked")
            assert [effect.state for effect in await handle.effects()] == ["undoing", "failed"]
            assert outside.calls == ["a", "delete a"]
            await getattr(handle, verb)()
            await store.drive(agent, key="k")
            assert outside.calls == ["a", "delete a", "delete a", "after"]
            assert [effect.state for effect in await handle.effects()] == ["undone", "committed", "committed"]

    async def test_doubt_inside_a_saga_waits_visibly(self, opener: AsyncOpener) -> None:
        outside = CountingWorld()

        async def delete() -> None:
            outside.seen("deleted")

        @tool(undo=delete)
        async def create() -> None:
            outside.seen("created")
            raise OSError("reset")

        async def trip(run: AsyncRun) -> None:
            async with run.saga():
                await run.act(create)
                raise ValueError("no")

        agent = program(trip)
        async with await opener() as store:
            for verdict, expected in ((Happened(1), ["created", "deleted"]), (Absent(), ["created", "created"])):
                outside.calls.clear()
                key = type(verdict).__name__
                with pytest.raises(Waiting) as waiting:
                    await store.drive(agent, key=key)
                (doubt,) = waiting.value.facts["doubts"]
                assert f"perdure settle {doubt}" in waiting.value.hint
                assert outside.calls == ["created"]
                await (await store.effect(doubt)).settle(verdict, by="ann")
                refused = await driven(store, agent, key=key)
                if type(verdict) is Happened:
                    assert refused.code == "ValueError"
                else:
                    assert type(refused) is Waiting  # it was tried again, and is in doubt again
                assert outside.calls == expected

    async def test_a_cancelled_run_undoes_what_it_did(self, opener: AsyncOpener) -> None:
        outside = CountingWorld()

        async def delete() -> None:
            outside.seen("deleted")

        @tool(undo=delete)
        async def create() -> None:
            outside.seen("created")

        async def trip(run: AsyncRun) -> None:
            async with run.saga():
                await run.act(create)
                await run.ask("?")

        agent = program(trip, timeout="1h")
        async with await opener() as store:
            for end in ("cancel", "timeout"):
                outside.calls.clear()
                await driven(store, agent, key=end)
                (handle,) = await store.runs(status="waiting")
                if end == "cancel":
                    assert (await handle.cancel("enough")).record.cancelling
                else:
                    opener.clock.advance("1h")
                refused = await driven(store, agent, key=end)
                assert type(refused) is (Cancelled if end == "cancel" else Failed)
                assert outside.calls == ["created", "deleted"]
                assert [effect.state for effect in await handle.effects()] == ["undone", "committed"]

    async def test_what_an_idempotent_tool_may_have_done_is_undone_too(self, opener: AsyncOpener) -> None:
        outside = CountingWorld()

        async def delete() -> None:
            outside.seen("deleted")

        @tool(kind="idempotent", undo=delete)
        async def create() -> None:
            outside.seen("created")
            raise OSError("reset")

        async def trip(run: AsyncRun) -> None:
            async with run.saga():
                await run.act(create)

        agent = program(trip)
        async with await opener() as store:
            assert type(await driven(store, agent)) is Waiting  # the call may still arrive
            assert outside.calls == ["created"]
            opener.clock.advance("60s")
            assert (await driven(store, agent)).code == "OSError"
            assert outside.calls == ["created", "deleted"]


class AsyncUndoingContract:
    """Undoing: which effects, when, and what may follow."""

    # -- trying again ------------------------------------------------------------------------------------------------

    @pytest.mark.parametrize("how", ["refused", "step", "program", "cancelled", "too late"])
    async def test_a_run_that_was_undone_is_not_tried_again(self, opener: AsyncOpener, how: str) -> None:
        outside = CountingWorld()
        agent = trip(outside, how=how, timeout="1h" if how == "too late" else None)
        async with await opener() as store:
            await driven(store, agent)
            (handle,) = await store.runs()
            if how == "cancelled":
                await handle.cancel()
            elif how == "too late":
                opener.clock.advance("1h")
            ended = await driven(store, agent)
            assert type(ended) is (Cancelled if how == "cancelled" else Failed)
            before = [*outside.calls]
            assert before[-1] == "-hotel"
            with pytest.raises(Conflict, match="undone") as refused:
                await handle.retry()
            assert "another key" in refused.value.hint
            assert type(await driven(store, agent)) is type(ended)
            assert outside.calls == before

    async def test_what_failed_after_an_undone_saga_is_tried_again(self, opener: AsyncOpener) -> None:
        outside = CountingWorld()
        create = creating(outside)

        @tool
        async def tell() -> str:
            if outside.seen("tell") and outside.calls.count("tell") == 1:
                raise Failed("no")
            return "told"

        def shaky() -> str:
            if outside.seen("look") and outside.calls.count("look") == 1:
                raise OSError("down")
            return "looked"

        async def careful(run: AsyncRun) -> list[str]:
            try:
                async with run.saga():
                    await run.act(create, "hotel")
                    raise ValueError("no")  # noqa: TRY301 - it is what the saga is for
            except ValueError:
                looked = await run.step(shaky)
            return [looked, await run.act(tell)]

        agent = program(careful)
        async with await opener() as store:
            for code in ("OSError", "Failed"):
                assert (await driven(store, agent)).code == code
                await (await store.runs())[0].retry()
            assert await store.drive(agent, key="k") == ["looked", "told"]
            assert outside.calls == ["+hotel", "-hotel", "look", "look", "tell", "tell"]

    # -- what a saga holds ---------------------------------------------------------------------------------------------

    async def test_a_saga_is_not_cut(self, opener: AsyncOpener) -> None:
        outside = CountingWorld()
        create = creating(outside)

        async def cutting(run: AsyncRun) -> None:
            assert run.restored is None
            async with run.saga():
                await run.act(create, "hotel")
                await run.checkpoint({"hotel": 1})

        async def later(run: AsyncRun) -> str:
            assert run.restored is None
            async with run.saga():
                await run.act(create, "car")
            return str(await run.checkpoint({"car": 1}))

        async with await opener() as store:
            refused = await driven(store, program(cutting))
            assert type(refused) is Failed
            assert (refused.code, "saga" in refused.message) == ("Refused", True)
            assert outside.calls == ["+hotel", "-hotel"]
            assert await store.drive(program(later), key="later") == "True"

    async def test_a_line_of_work_that_was_begun_before_is_not_in_it(self, opener: AsyncOpener) -> None:
        outside = CountingWorld()
        create = creating(outside)

        async def lines(run: AsyncRun, asks: bool) -> None:
            before = run.branch("before")
            await run.act(create, "kept")
            async with run.saga():
                await before.act(create, "side")
                within = run.branch("within")
                await within.act(create, "inside")
                await run.act(create, "own")
                if asks:
                    await run.ask("?")
                raise ValueError("no")

        agent = program(lines)
        async with await opener() as store:
            for asks in (False, True):
                outside.calls.clear()
                key = str(asks)
                refused = await driven(store, agent, asks, key=key)
                if asks:
                    await store.answer((await store.asks())[0].id, "go on")
                    refused = await driven(store, agent, asks, key=key)
                assert refused.code == "ValueError"
                assert outside.calls == ["+kept", "+side", "+inside", "+own", "-own", "-inside"]

    # async-only
    @pytest.mark.parametrize("asks", [False, True])
    async def test_what_was_begun_before_stays_whatever_finishes_first(self, opener: AsyncOpener, asks: bool) -> None:
        import asyncio  # noqa: PLC0415 - only here

        outside, done = CountingWorld(), asyncio.Event()
        create = creating(outside)

        async def look() -> None:
            await done.wait()

        async def side(run: AsyncRun) -> None:
            await run.act(create, "side")
            done.set()

        async def both(run: AsyncRun) -> None:
            task = asyncio.create_task(side(run))
            await run.step(look)
            async with run.saga():
                await asyncio.gather(run.act(create, "inside"))
                if asks:
                    await run.ask("?")
                raise ValueError("no")
            await task

        agent = program(both)
        async with await opener() as store:
            refused = await driven(store, agent)
            if asks:
                assert type(refused) is Waiting
                await store.answer((await store.asks())[0].id, "go on")
                refused = await driven(store, agent)
            assert refused.code == "ValueError"
            assert outside.calls == ["+side", "+inside", "-inside"]

    async def test_a_task_that_was_stopped_is_undone_at_every_replay(self, opener: AsyncOpener) -> None:
        import asyncio  # noqa: PLC0415 - only here

        outside, done = CountingWorld(), asyncio.Event()
        create = creating(outside)

        async def fails() -> None:
            await done.wait()
            raise ValueError("no")

        async def side(run: AsyncRun) -> None:
            await asyncio.sleep(0.01)
            await run.act(create, "x")
            done.set()
            await run.step(asyncio.sleep, 60)

        async def both(run: AsyncRun) -> Any:
            try:
                async with run.saga():
                    await asyncio.gather(run.step(fails), side(run))
            except Failed:
                await run.act(create, "after")
            return await run.ask("?")

        agent = program(both)
        async with await opener() as store:
            assert type(await driven(store, agent)) is Waiting
            for _ in range(2):
                await (await store.runs())[0].resume()
                assert type(await driven(store, agent)) is Waiting
            assert outside.calls == ["+x", "-x", "+after"]
            await store.answer((await store.asks())[0].id, "yes")
            assert await store.drive(agent, key="k") == "yes"

    async def test_a_saga_lets_what_was_begun_before_it_go_on(self, opener: AsyncOpener) -> None:
        import asyncio  # noqa: PLC0415 - only here

        outside, over = CountingWorld(), asyncio.Event()
        create = creating(outside)

        async def look() -> str:
            await over.wait()
            return "seen"

        async def both(run: AsyncRun) -> str:
            task = asyncio.create_task(run.step(look))
            try:
                async with run.saga():
                    await run.act(create, "inside")
                    raise ValueError("no")  # noqa: TRY301 - it is what the saga is for
            except ValueError:
                over.set()
            return await task

        async with await opener() as store:
            assert await store.drive(program(both), key="k") == "seen"
            assert outside.calls == ["+inside", "-inside"]

    # end

    # -- when ----------------------------------------------------------------------------------------------------------

    async def test_what_was_given_up_is_undone_only_when_it_can_no_longer_arrive(self, opener: AsyncOpener) -> None:
        go, outside = threading.Event(), CountingWorld()

        async def delete() -> None:
            outside.seen("-")

        @tool(kind="idempotent", timeout=0.02, lands_within="30s", undo=delete)
        def create() -> None:
            go.wait(60)
            outside.seen("+")

        async def booked(run: AsyncRun) -> None:
            async with run.saga():
                await run.act(create)

        agent = program(booked)
        async with await opener() as store:
            assert type(await driven(store, agent)) is Waiting  # its thread may still send
            (handle,) = await store.runs()
            assert (handle.record.reason, handle.record.wake_at is None, outside.calls) == ("landing", False, [])
            go.set()
            await until(store, lambda: outside.calls)
            (effect,) = await handle.effects()
            await quiet(store, effect.id)
            assert (await effect.refresh()).state == "failed"
            assert type(await driven(store, agent)) is Waiting  # its call may still arrive
            assert outside.calls == ["+"]
            opener.clock.advance("30s")
            assert (await driven(store, agent)).code == "Overdue"
            assert outside.calls == ["+", "-"]
            assert [effect.state for effect in await handle.effects()] == ["undone", "committed"]
            assert (await store.verify()).ok

    # -- cancelling ----------------------------------------------------------------------------------------------------

    async def test_a_parked_run_that_is_cancelled_undoes_what_it_did(self, opener: AsyncOpener) -> None:
        outside = CountingWorld()
        agent = waiting_in_a_saga(outside)
        async with await opener() as store:
            await driven(store, agent)
            (handle,) = await store.runs()
            await handle.resume()
            outside.seen("changed")
            assert type(await driven(store, agent)) is Changed
            outside.calls.pop()  # the program that began it is back
            assert ((await handle.cancel("enough")).status, handle.record.cancelling) == ("ready", True)
            assert type(await driven(store, agent)) is Cancelled
            assert outside.calls == ["+hotel", "-hotel"]

    async def test_one_that_cannot_undo_is_over_when_it_is_cancelled_again(self, opener: AsyncOpener) -> None:
        outside = CountingWorld()
        agent = waiting_in_a_saga(outside)
        async with await opener() as store:
            await driven(store, agent)
            (handle,) = await store.runs()
            await handle.resume()
            outside.seen("changed")
            for _ in range(2):
                assert type(await driven(store, agent)) is Changed
                await handle.cancel("enough")
            assert (handle.status, outside.calls) == ("cancelled", ["+hotel", "changed"])
            assert [effect.state for effect in await handle.effects()] == ["committed"]
