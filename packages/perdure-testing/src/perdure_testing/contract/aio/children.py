"""The contract of runs that start others: begun once, heard of once, and cancelled with who started them (P13)."""

from __future__ import annotations

import pytest

from perdure.errors import Cancelled, Failed, Waiting
from perdure.handles.aio.run import AsyncRun
from perdure.runtime.agent import agent
from perdure_testing.contract.aio.effects import CountingWorld
from perdure_testing.contract.aio.runs import claimed, driven, program
from perdure_testing.openers import AsyncOpener


class AsyncChildrenContract:
    """A run hears of the end of each run that it started, and takes them with it when it is cancelled."""

    async def test_a_child_is_started_once_and_its_parent_hears_of_its_end(self, opener: AsyncOpener) -> None:
        outside = CountingWorld()

        async def work(run: AsyncRun, how: str) -> str:
            await run.step(outside.seen, how)
            if how == "fails":
                raise ValueError("no")
            if how == "asks":
                return await run.ask("Child?")
            return how

        child = agent(name="child")(work)

        async def lead(run: AsyncRun) -> list[str]:
            said = [await run.call(child, "works")]
            try:
                await run.call(child, "fails")
            except Failed as failed:
                said.append(failed.code)
            asked = await run.start(child, "asks")
            return [*said, await asked.result()]

        made = program(lead)
        async with await opener() as store:
            with pytest.raises(Waiting) as waiting:
                await store.drive(made, key="k")
            assert type(await driven(store, made)) is Waiting
            (ask,) = await store.asks()
            assert (waiting.value.facts["asks"], ask.question) == ([ask.id], "Child?")
            await store.answer(ask.id, "answered")
            assert await store.drive(made, key="k") == ["works", "ValueError", "answered"]
            assert outside.calls == ["works", "fails", "asks"]
            (parent,) = await store.runs(agent="a")
            assert len(await store.runs(parent=parent.id)) == 3
            assert (await store.verify()).ok

    async def test_a_run_that_ended_by_its_child_is_tried_again_with_it(self, opener: AsyncOpener) -> None:
        outside = CountingWorld()

        async def flaky() -> str:
            if outside.seen("tried") and len(outside.calls) < 3:
                raise ValueError("not yet")
            return "done"

        async def work(run: AsyncRun) -> str:
            return await run.step(flaky)

        child = agent(name="child")(work)

        async def lead(run: AsyncRun) -> str:
            return await run.call(child)

        made = program(lead)
        async with await opener() as store:
            for _ in range(2):
                with pytest.raises(Failed, match="not yet"):
                    await store.drive(made, key="k")
                (parent,) = await store.runs(agent="a")
                await parent.retry()
            assert await store.drive(made, key="k") == "done"
            assert outside.calls == ["tried"] * 3
            assert len(await store.runs(agent="child")) == 1
            assert (await store.verify()).ok

    async def test_a_child_that_is_cancelled_fails_for_its_parent(self, opener: AsyncOpener) -> None:
        async def wait(run: AsyncRun) -> None:
            await run.ask("?")

        child = agent(name="child")(wait)

        async def lead(run: AsyncRun) -> str:
            try:
                await run.call(child)
            except Failed as failed:
                return failed.code
            return "?"

        made = program(lead)
        async with await opener() as store:
            await driven(store, made)
            (handle,) = await store.runs(agent="child")
            await handle.cancel("enough")
            assert await store.drive(made, key="k") == "Cancelled"

    async def test_the_children_of_a_cancelled_run_are_cancelled_with_it(self, opener: AsyncOpener) -> None:
        outside = CountingWorld()

        async def ask(run: AsyncRun, what: str) -> str:
            return await run.ask(what) if what else await run.step(outside.seen, "done")

        youngest = agent(name="youngest")(ask)

        async def middle(run: AsyncRun) -> str:
            return await run.call(youngest, "Deep?")

        child = agent(name="middle")(middle)

        async def lead(run: AsyncRun) -> list[str]:
            done = await run.call(youngest, "")
            started = [await run.start(youngest, "Asked?"), await run.start(child)]
            return [done, *[await each.result() for each in started]]

        made = program(lead)
        async with await opener() as store:
            assert type(await driven(store, made)) is Waiting
            (handle,) = await store.runs(agent="a")
            for each in await store.runs(agent="middle"):
                with pytest.raises(Waiting):
                    await store._driven(each, {"middle": child, "youngest": youngest})
            bystander = await store.start(youngest, "Asked?")
            await handle.cancel("enough")
            stand = {str(each.record.args): each.status.value for each in await store.runs(parent=handle.id)}
            assert stand == {"['']": "completed", "['Asked?']": "cancelled", "[]": "cancelled"}
            (below,) = await store.runs(agent="youngest", parent=(await store.runs(agent="middle"))[0].id)
            assert below.status == "cancelled"
            with pytest.raises(Cancelled, match="which started it, was cancelled"):
                await below.result()
            assert (await bystander.refresh()).status == "ready"
            assert await store.asks() == []
            assert (await store.verify()).ok

    async def test_a_child_that_somebody_has_is_told_and_one_that_failed_leaves_its_own(
        self, opener: AsyncOpener
    ) -> None:
        async def wait(run: AsyncRun) -> None:
            await run.ask("?")

        child = agent(name="child")(wait)

        async def lead(run: AsyncRun, *, fails: bool) -> None:
            await run.start(child)
            if fails:
                raise ValueError("no")
            await run.ask("!")

        made = program(lead)
        async with await opener() as store:
            await driven(store, made, key="told", fails=False)
            (running,) = await store.runs(agent="child")
            await running.resume()
            assert await claimed(store, running) is not None
            (parent,) = await store.runs(agent="a")
            await parent.cancel()
            told = (await running.refresh()).record
            assert (told.status, told.cancelling) == ("running", True)
            assert type(await driven(store, made, key="failed", fails=True)) is Failed
            (left,) = await store.runs(agent="child", status="ready")
            assert not left.record.cancelling

    async def test_what_was_cancelled_with_a_run_is_tried_again_with_it(self, opener: AsyncOpener) -> None:
        async def ask(run: AsyncRun, what: str) -> str:
            return await run.ask(what)

        child = agent(name="child")(ask)

        async def lead(run: AsyncRun) -> list[str]:
            said: list[str] = []
            for what in ("one", "two"):
                try:
                    said.append(await run.call(child, what))
                except Failed as failed:
                    said.append(failed.code)
            return said

        made = program(lead)
        async with await opener() as store:
            await driven(store, made)
            (first,) = await store.runs(agent="child")
            await first.cancel("this one alone")
            await driven(store, made)
            (parent,) = await store.runs(agent="a")
            assert (await parent.cancel()).status == "cancelled"
            await parent.retry()
            assert (await first.refresh()).status == "cancelled"
            assert type(await driven(store, made)) is Waiting
            (ask_again,) = await store.asks()
            await store.answer(ask_again.id, "yes")
            assert await store.drive(made, key="k") == ["Cancelled", "yes"]
            assert len(await store.runs(agent="child")) == 2
            assert (await store.verify()).ok

    async def test_what_a_failed_run_waited_for_is_waited_for_anew(self, opener: AsyncOpener) -> None:
        outside = CountingWorld()

        async def work(run: AsyncRun) -> str:
            return await run.step(outside.seen, "child")

        child = agent(name="child")(work)

        async def lead(run: AsyncRun) -> str:
            started = await run.start(child)
            if outside.seen("lead") and outside.count == 1:
                raise ValueError("too early")
            return await started.result()

        made = program(lead)
        async with await opener() as store:
            assert type(await driven(store, made)) is Failed
            assert await store.drive(child, key="other") == "child"
            for each in await store.runs(agent="child", status="ready"):
                assert await store._driven(each, {"child": child}) == "child"
            (handle,) = await store.runs(agent="a")
            await handle.retry()
            assert await store.drive(made, key="k") == "child"
            assert len(await store.runs(agent="child")) == 2
