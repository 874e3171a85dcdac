"""The promises of every store about runs that suppose: another result at a place, and no external call unasked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from perdure.effects.tool import Tool, tool
from perdure.errors import Conflict, Failed, Invalid, NotFound, Parked, Waiting
from perdure.handles.aio.run import AsyncRun
from perdure.model.records.runs import RunStatus
from perdure.runtime.agent import Agent, agent
from perdure_testing.openers import AsyncOpener


class SendingWorld:
    """The acts that really happened."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.undone: list[str] = []

    def sending(self) -> Tool:
        """A tool that cannot be called twice unnoticed."""

        def unsend(title: str) -> None:
            self.undone.append(title)

        def send(title: str) -> dict[str, Any]:
            self.done.append(title)
            return {"number": len(self.done)}

        return tool(name="send", undo=tool(kind="idempotent", name="unsend")(unsend))(send)


def reviewing(send: Tool) -> Agent:
    """Sends, has it reviewed, and sends again if that was bad."""

    async def review(run: AsyncRun) -> Any:
        await run.step(lambda: "plan")
        token = str(run.uuid())
        sent = await run.act(send, f"first {token[:4]}")
        verdict = await run.step(judged, sent)
        if verdict != "good":
            sent = await run.act(send, "second")
        return [verdict, sent]

    return agent(name="supposed review")(review)


def judged(sent: dict[str, Any]) -> str:
    """A review that likes everything."""
    return "good" if sent else ""


class AsyncSupposingContract:
    """`handle.fork`."""

    async def test_what_was_done_is_not_done_again_and_what_is_new_is_asked_about(self, opener: AsyncOpener) -> None:
        outside = SendingWorld()
        review = reviewing(outside.sending())
        async with await opener() as store:
            handle = await store.start(review, key="r")
            assert (await store.drive(review, key="r"))[0] == "good"
            before = (await handle.refresh()).record, await handle.timeline(last=1000)
            place = (await handle.steps())[-1].place
            forked = await handle.fork(place, "bad")
            assert (forked.record.what_if and forked.record.what_if.run, forked.record.key) == (handle.id, None)
            await store.recover(agents=[review])
            assert len(outside.done) == 1
            with pytest.raises(Waiting):
                await forked.result()
            (ask,) = await forked.waits()
            assert handle.id in ask.question
            await store.answer(ask.id, "approve", by="alice")
            await store.recover(agents=[review])
            assert await forked.result() == ["bad", {"number": 2}]
            assert outside.done[1:] == ["second"]
            assert ((await handle.refresh()).record, await handle.timeline(last=1000)) == before
            assert [step.value for step in await forked.steps()] == ["plan", "bad"]
            assert (await store.verify()).ok

    async def test_what_was_copied_is_not_listed_as_done(self, opener: AsyncOpener) -> None:
        outside = SendingWorld()
        review = reviewing(outside.sending())
        async with await opener() as store:
            handle = await store.start(review, key="r")
            await store.drive(review, key="r")
            (real,) = await store.effects()
            acting = await handle.fork((await handle.steps())[-1].seq, "bad", allow_effects=True)
            assert [effect.id for effect in await store.effects()] == [real.id]
            await store.recover(agents=[review])
            assert await acting.result() == ["bad", {"number": 2}]
            assert (await store.effects())[0].record.args["title"] == "second"
            every = await store.effects(what_if=True)
            assert (
                [effect.record.what_if for effect in every].count(True) == len(every) - len(await store.effects()) == 1
            )
            (copied,) = (effect for effect in every if effect.record.what_if)
            assert copied.sent_key == real.sent_key  # the other side saw the key of the run that did it
            query = "SELECT stream, seq, sent_key, what_if FROM v_all_effects ORDER BY at_us, what_if"
            rows = await store.query(query)
            assert [row["what_if"] for row in rows].count(1) == 1
            assert {row["sent_key"] for row in rows} == {effect.sent_key for effect in every}
            assert len(await store.query("SELECT seq FROM v_effects")) == len(outside.done) == 2

    async def test_refused_it_fails_and_allowed_it_acts(self, opener: AsyncOpener) -> None:
        outside = SendingWorld()
        review = reviewing(outside.sending())
        async with await opener() as store:
            handle = await store.start(review, key="r")
            await store.drive(review, key="r")
            seq = (await handle.steps())[-1].seq
            refused = await handle.fork(seq, "bad")
            await store.recover(agents=[review])
            await store.answer((await refused.waits())[0].id, "refuse", by="alice")
            await store.recover(agents=[review])
            with pytest.raises(Failed, match="did not approve"):
                await refused.result()
            assert len(outside.done) == 1
            acting = await handle.fork(seq, "bad", allow_effects=True)
            await store.recover(agents=[review])
            assert await acting.result() == ["bad", {"number": 2}]

    async def test_a_supposition_on_top_of_another(self, opener: AsyncOpener) -> None:
        outside = SendingWorld()
        review = reviewing(outside.sending())
        async with await opener() as store:
            handle = await store.start(review, key="r")
            await store.drive(review, key="r")
            place = (await handle.steps())[-1].place
            first = await handle.fork(place, "bad")
            await store.recover(agents=[review])
            second = await first.fork(place, "good")
            await store.recover(agents=[review])
            assert await second.result() == ["good", {"number": 1}]
            assert len(outside.done) == 1

    async def test_the_result_of_an_effect_an_answer_and_a_signal(self, opener: AsyncOpener) -> None:
        outside = SendingWorld()
        send = outside.sending()

        @agent(name="supposed asks")
        async def asks(run: AsyncRun) -> Any:
            sent = await run.act(send, "it")
            reply = await run.ask("Merge?", choices=["merge", "hold"])
            return [sent, reply, await run.wait("go")]

        async with await opener() as store:
            handle = await store.start(asks, key="a")
            await store.recover(agents=[asks])
            waiting = (await handle.waits())[0]
            with pytest.raises(Conflict, match="no result yet"):
                await handle.fork(waiting.seq, "hold")
            await store.answer(waiting.id, "merge", by="alice")
            await handle.signal("go", 1)
            assert await store.drive(asks, key="a") == [{"number": 1}, "merge", 1]
            supposed = []
            for place, value in (("0//1", {"number": 70}), ("0//2", "hold"), ("0//3", 2)):
                forked = await handle.fork(place, value)
                await store.recover(agents=[asks])
                supposed.append(forked)
            # A person is asked anew, as the program does.
            assert [len(await run.waits()) for run in supposed] == [
                1,
                1,
                0,
            ]
            assert await supposed[2].result() == [{"number": 1}, "merge", 2]
            assert (await supposed[0].effects())[0].record.result == {"number": 70}
            assert outside.done == ["it"]

    async def test_the_result_of_a_run_that_it_started(self, opener: AsyncOpener) -> None:
        @agent(name="supposed adder")
        async def adder(run: AsyncRun, number: int) -> int:
            return await run.step(lambda: number + 1)

        @agent(name="supposed caller")
        async def caller(run: AsyncRun) -> Any:
            return ["got", await run.call(adder, 1)]

        async with await opener() as store:
            handle = await store.start(caller, key="c")
            assert await store.drive(caller, key="c") == ["got", 2]
            forked = await handle.fork("0//1", 70)
            await store.recover(agents=[caller])
            assert await forked.result() == ["got", 70]
            again = await forked.fork("0//1", {"result": 71})
            await store.recover(agents=[caller])
            assert await again.result() == ["got", {"result": 71}]

    async def test_what_the_other_run_started_is_not_tried_again(self, opener: AsyncOpener) -> None:
        outside = SendingWorld()
        send = outside.sending()

        @agent(name="supposed failing")
        async def failing(run: AsyncRun) -> Any:
            await run.step(lambda: 1)
            raise ValueError("bad")

        @agent(name="supposed parent")
        async def parent(run: AsyncRun) -> Any:
            child = await run.start(failing)
            try:
                return await child.result()
            except Failed:
                await run.act(send, "regrets")
                return await child.result()

        async with await opener() as store:
            handle = await store.start(parent, key="p")
            with pytest.raises(Failed):
                await store.drive(parent, key="p")
            forked = await handle.fork("0//2", {"number": 9})
            await store.recover(agents=[parent, failing])
            assert (await forked.refresh()).status is RunStatus.FAILED
            with pytest.raises(Conflict, match="is not its own"):
                await forked.retry()
            (child,) = await store.runs(agent="supposed failing")
            assert (child.status, (await forked.refresh()).status) == (RunStatus.FAILED, RunStatus.FAILED)
            assert outside.done == ["regrets"]

    async def test_before_a_cut(self, opener: AsyncOpener) -> None:
        @agent(name="supposed cuts")
        async def cuts(run: AsyncRun) -> Any:
            n = run.restored or 0
            while n < 3:
                n += await run.step(lambda: 1)
                await run.checkpoint(n)
            return n

        async with await opener() as store:
            handle = await store.start(cuts, key="c")
            assert await store.drive(cuts, key="c") == 3
            forked = await handle.fork("1//1", 10)
            await store.recover(agents=[cuts])
            assert await forked.result() == 11
            assert (await store.verify()).ok

    async def test_what_cannot_be_asked_about_parks(self, opener: AsyncOpener) -> None:
        outside = SendingWorld()
        send = outside.sending()

        @agent(name="supposed child")
        async def child(run: AsyncRun) -> str:
            return await run.step(lambda: "child")

        async def starts(run: AsyncRun) -> Any:
            return await run.call(child)

        async def writes(run: AsyncRun) -> Any:
            return await run.atomic(lambda tx: tx.session("real").say("user", "x").seq)

        async def undoes(run: AsyncRun) -> Any:
            return await run.undo()

        ways: dict[str, Callable[[AsyncRun], Any]] = {"starts": starts, "writes": writes, "undoes": undoes}

        @agent(name="supposed turns")
        async def turns(run: AsyncRun) -> Any:
            await run.act(send, "it")
            way = await run.step(lambda: "nowhere")
            return await ways[way](run) if way in ways else way

        async with await opener() as store:
            handle = await store.start(turns, key="t")
            await store.drive(turns, key="t")
            for way in ways:
                forked = await handle.fork("0//2", way)
                await store.recover(agents=[turns, child])
                with pytest.raises(Parked, match="only supposes"):
                    await forked.result()
                assert (await forked.refresh()).record.reason == "what-if"
            assert (outside.done, outside.undone) == (["it"], [])
            assert len(await store.runs(agent="supposed child")) == 0
            assert len(await store.sessions()) == 0

    async def test_a_models_batch_waits_for_a_person(self, opener: AsyncOpener) -> None:
        outside = SendingWorld()
        send = outside.sending()

        @agent(name="supposed responds")
        async def responds(run: AsyncRun) -> Any:
            titles = await run.step(list)
            calls = [{"id": f"c{i}", "tool": "send", "args": {"title": title}} for i, title in enumerate(titles)]
            reply = await run.respond(lambda: {"calls": calls}, tools=[send])
            return [answer.result for answer in reply.answers]

        async with await opener() as store:
            handle = await store.start(responds, key="m")
            assert await store.drive(responds, key="m") == []
            forked = await handle.fork("0//1", ["a", "b"])
            for title in ("a", "b"):
                await store.recover(agents=[responds])
                assert title not in outside.done
                (ask,) = await forked.waits()
                await store.answer(ask.id, "approve", by="alice")
            await store.recover(agents=[responds])
            assert await forked.result() == [{"number": 1}, {"number": 2}]
            assert outside.done == ["a", "b"]

    async def test_no_such_place(self, opener: AsyncOpener) -> None:
        review = reviewing(SendingWorld().sending())
        async with await opener() as store:
            handle = await store.start(review, key="r")
            await store.drive(review, key="r")
            for at in ("9//9", 999, "", 1):
                with pytest.raises(NotFound) as refused:
                    await handle.fork(at, 1)
                assert refused.value.path == "at"
            with pytest.raises(Invalid):
                await handle.fork((await handle.steps())[-1].place, object())
            assert len(await store.runs()) == 1
            assert (await handle.refresh()).status is RunStatus.COMPLETED
