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
            answers = [await run.call(child, "works")]
            try:
                await run.call(child, "fails")
            except Failed as failed:
                answers.append(failed.code)
            second = await run.start(child, "asks")
            return [*answers, await second.result()]

        own_agent = program(lead)
        async with await opener() as store:
            with pytest.raises(Waiting) as waiting:
                await store.drive(own_agent, key="k")
            assert type(await driven(store, own_agent)) is Waiting
            (ask,) = await store.asks()
            assert (waiting.value.facts["asks"], ask.question) == ([ask.id], "Child?")
            await store.answer(ask.id, "answered")
            assert await store.drive(own_agent, key="k") == ["works", "ValueError", "answered"]
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

        own_agent = program(lead)
        async with await opener() as store:
            for _ in range(2):
                with pytest.raises(Failed, match="not yet"):
                    await store.drive(own_agent, key="k")
                (parent,) = await store.runs(agent="a")
                await parent.retry()
            assert await store.drive(own_agent, key="k") == "done"
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

        own_agent = program(lead)
        async with await opener() as store:
            await driven(store, own_agent)
            (handle,) = await store.runs(agent="child")
            await handle.cancel("enough")
            assert await store.drive(own_agent, key="k") == "Cancelled"

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
            return [done, *[await child.result() for child in started]]

        own_agent = program(lead)
        async with await opener() as store:
            assert type(await driven(store, own_agent)) is Waiting
            (handle,) = await store.runs(agent="a")
            for started_run in await store.runs(agent="middle"):
                with pytest.raises(Waiting):
                    await store._driven(started_run, {"middle": child, "youngest": youngest})
            bystander = await store.start(youngest, "Asked?")
            await handle.cancel("enough")
            stand = {str(run.record.args): run.status.value for run in await store.runs(parent=handle.id)}
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

        own_agent = program(lead)
        async with await opener() as store:
            await driven(store, own_agent, key="told", fails=False)
            (running,) = await store.runs(agent="child")
            await running.resume()
            assert await claimed(store, running) is not None
            (parent,) = await store.runs(agent="a")
            await parent.cancel()
            record = (await running.refresh()).record
            assert (record.status, record.cancelling) == ("running", True)
            assert type(await driven(store, own_agent, key="failed", fails=True)) is Failed
            (ready,) = await store.runs(agent="child", status="ready")
            assert not ready.record.cancelling

    async def test_what_was_cancelled_with_a_run_is_tried_again_with_it(self, opener: AsyncOpener) -> None:
        async def ask(run: AsyncRun, what: str) -> str:
            return await run.ask(what)

        child = agent(name="child")(ask)

        async def lead(run: AsyncRun) -> list[str]:
            lines: list[str] = []
            for what in ("one", "two"):
                try:
                    lines.append(await run.call(child, what))
                except Failed as failed:
                    lines.append(failed.code)
            return lines

        own_agent = program(lead)
        async with await opener() as store:
            await driven(store, own_agent)
            (first,) = await store.runs(agent="child")
            await first.cancel("this one alone")
            await driven(store, own_agent)
            (parent,) = await store.runs(agent="a")
            assert (await parent.cancel()).status == "cancelled"
            await parent.retry()
            assert (await first.refresh()).status == "cancelled"
            assert type(await driven(store, own_agent)) is Waiting
            (ask_again,) = await store.asks()
            await store.answer(ask_again.id, "yes")
            assert await store.drive(own_agent, key="k") == ["Cancelled", "yes"]
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

        own_agent = program(lead)
        async with await opener() as store:
            assert type(await driven(store, own_agent)) is Failed
            assert await store.drive(child, key="other") == "child"
            for ready in await store.runs(agent="child", status="ready"):
                assert await store._driven(ready, {"child": child}) == "child"
            (handle,) = await store.runs(agent="a")
            await handle.retry()
            assert await store.drive(own_agent, key="k") == "child"
            assert len(await store.runs(agent="child")) == 2
