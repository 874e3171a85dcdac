"""The contract of continuing: trying again, looking again, recovering what others left, handing over (P3, P4, P13)."""

from __future__ import annotations

import threading
from datetime import datetime
from functools import partial
from typing import Any

import pytest

from perdure.effects.tool import tool
from perdure.errors import Cancelled, Changed, Conflict, Failed, InDoubt, Parked, Refused, Waiting
from perdure.handles.aio.run import AsyncRun
from perdure.model.instants import instant_us
from perdure.model.records.effects import Absent, Happened, Unknown
from perdure.planes.execution import leases, runs, steps
from perdure.runtime.agent import DECLARED, agent
from perdure.runtime.callers import caller_of, stream_of
from perdure_testing.contract.aio.doubt import probing, until
from perdure_testing.contract.aio.effects import CountingWorld
from perdure_testing.contract.aio.runs import driven, program
from perdure_testing.openers import AsyncOpener


def when(instant: datetime | None) -> int:
    """An instant that there is, in microseconds."""
    assert instant is not None
    return instant_us(instant, 0)


class AsyncRetryingContract:
    """`retry` does anew what ended a run, and only that."""

    async def test_the_effect_of_another_stream_is_not_blamed(self, opener: AsyncOpener) -> None:
        outside = CountingWorld()

        @tool
        async def refuse() -> str:
            if outside.seen("asked") and outside.count == 1:
                raise Failed("no")
            return "yes"

        async with await opener() as store:

            async def elsewhere() -> Any:
                return await (await store.session("s")).act(refuse)

            async def outer(run: AsyncRun) -> Any:
                return await run.step(elsewhere)

            agent = program(outer)
            assert (await driven(store, agent)).code == "Failed"
            await (await store.runs())[0].retry()
            assert await store.drive(agent, key="k") == "yes"

    @pytest.mark.parametrize("named", ["shipping", "run:nobody/3", f"run:nobody/{'9' * 5000}", "/", 7])
    async def test_what_a_program_calls_an_effect_is_no_blame(self, opener: AsyncOpener, named: Any) -> None:
        async def outer(_run: AsyncRun) -> None:
            raise Failed("order failed", effect=named)

        agent = program(outer)
        async with await opener() as store:
            assert (await driven(store, agent)).message == "order failed"
            (handle,) = await store.runs()
            assert handle.status == "failed"
            assert (await handle.retry()).status == "ready"

    async def test_a_step_is_done_anew_whatever_its_program_made_of_its_failure(self, opener: AsyncOpener) -> None:
        outside = CountingWorld()

        def shaky() -> str:
            if outside.seen("tried") and outside.count == 1:
                raise OSError("down")
            return "up"

        async def outer(run: AsyncRun) -> str:
            try:
                return await run.step(shaky)
            except Failed:
                raise ValueError("sorry") from None

        agent = program(outer)
        async with await opener() as store:
            assert (await driven(store, agent)).code == "ValueError"
            await (await store.runs())[0].retry()
            assert await store.drive(agent, key="k") == "up"

    async def test_a_failed_step_is_done_anew_though_more_was_recorded_since(self, opener: AsyncOpener) -> None:
        outside = CountingWorld()

        def shaky(name: str) -> str:
            if outside.seen(name) and outside.calls.count(name) == 1:
                raise OSError(name)
            return name

        async def later(run: AsyncRun) -> list[str]:
            codes: list[str] = []
            try:
                await run.step(shaky, "caught")
            except Failed as failed:
                codes.append(failed.code)
            try:
                return [*codes, await run.step(shaky, "raised")]
            except Failed:
                await run.step(str, "written after it")
                raise

        agent = program(later)
        async with await opener() as store:
            assert (await driven(store, agent)).code == "OSError"
            (handle,) = await store.runs()
            await handle.retry()
            refused = await driven(store, agent)  # it is another way now: the program did not write after it
            assert outside.calls == ["caught", "raised", "raised"]
            assert type(refused) is Changed

    # async-only
    async def test_a_failed_step_is_done_anew_though_another_branch_wrote_since(self, opener: AsyncOpener) -> None:
        import asyncio  # noqa: PLC0415 - only here

        outside, failed = CountingWorld(), asyncio.Event()

        async def shaky() -> str:
            if outside.seen("tried") and outside.count == 1:
                failed.set()
                raise OSError("down")
            return "up"

        async def look(n: int) -> int:
            await failed.wait()
            return n

        async def both(run: AsyncRun) -> str:
            async def other() -> None:
                for n in range(3):
                    await run.step(look, n)

            results = await asyncio.gather(run.step(shaky), other(), return_exceptions=True)
            if isinstance(results[0], Exception):
                raise results[0]
            return str(results[0])

        agent = program(both)
        async with await opener() as store:
            assert (await driven(store, agent)).code == "OSError"
            await (await store.runs())[0].retry()
            assert await store.drive(agent, key="k") == "up"
            assert outside.count == 2
            assert (await store.verify()).ok

    # end

    @pytest.mark.parametrize("end", ["cancel", "timeout"])
    async def test_what_was_to_be_approved_is_asked_anew(self, opener: AsyncOpener, end: str) -> None:
        outside = CountingWorld()

        @tool
        async def pay() -> str:
            return outside.seen("paid")

        async def buy(run: AsyncRun) -> str:
            return await run.act(pay, approve="Really?")

        agent = program(buy, timeout="1h")
        async with await opener() as store:
            await driven(store, agent)
            (handle,) = await store.runs()
            if end == "cancel":
                assert (await handle.cancel()).status == "cancelled"
            else:
                opener.clock.advance("1h")
            assert type(await driven(store, agent)) is (Cancelled if end == "cancel" else Failed)
            await handle.retry()
            assert type(await driven(store, agent)) is Waiting
            (ask,) = await store.asks()
            await store.answer(ask.id, "approve")
            assert await store.drive(agent, key="k") == "paid"
            assert outside.count == 1

    async def test_a_run_that_took_too_long_has_its_time_anew(self, opener: AsyncOpener) -> None:
        async def slow(run: AsyncRun) -> Any:
            return await run.ask("?")

        agent = program(slow, timeout="1h")
        async with await opener() as store:
            for _ in range(3):
                assert type(await driven(store, agent)) is Waiting
                (handle,) = await store.runs()
                remaining = when(handle.record.timeout_at) - opener.clock.now_us
                assert remaining == 3_600_000_000
                opener.clock.advance("2h")
                assert (await driven(store, agent)).code == "TimedOut"
                await handle.retry()
            await driven(store, agent)
            await store.answer((await store.asks())[0].id, "done")
            assert await store.drive(agent, key="k") == "done"

    # -- handed over -------------------------------------------------------------------------------------------------

    async def test_a_run_that_was_handed_over_goes_on_here_only_when_it_is_unparked(self, opener: AsyncOpener) -> None:
        outside = CountingWorld()
        create = tool(undo=lambda: outside.seen("undone"))(lambda: outside.seen("done"))

        async def buy(run: AsyncRun) -> None:
            async with run.saga():
                await run.act(create)
                await run.ask("?")

        agent = program(buy)
        async with await opener() as store:
            await driven(store, agent)
            (handle,) = await store.runs()
            await handle.hand_over()
            parked = await driven(store, agent)
            assert type(parked) is Parked
            assert ("unpark" in parked.hint, "resume" in parked.hint) == (True, False)
            for verb in (handle.resume, handle.retry, handle.cancel):
                with pytest.raises(Conflict, match="handed over") as refused:
                    await verb()
                assert "never adopted" in refused.value.hint
            assert ((await handle.refresh()).status, handle.record.reason) == ("parked", "moved")
            assert outside.calls == ["done"]
            assert (await handle.unpark()).status == "ready"
            assert type(await driven(store, agent)) is Waiting

    async def test_what_is_said_about_a_run_that_was_handed_over_is_refused_here(self, opener: AsyncOpener) -> None:
        async def lost() -> None:
            raise OSError("cut off")

        async def asking(run: AsyncRun) -> Any:
            return await run.ask("?")

        async def doubting(run: AsyncRun) -> Any:
            return await run.act(tool(lost))

        async with await opener() as store:
            for function in (asking, doubting):
                await driven(store, program(function), key=function.__name__)
            (ask,) = await store.asks()
            (doubt,) = await store.effects(state="in_doubt")
            for handle in await store.runs():
                await handle.hand_over()
            for say in (
                partial(store.answer, ask.id, "yes"),
                partial(store.signal, ask.stream, "go"),
                partial(doubt.settle, Happened(1)),
            ):
                with pytest.raises(Conflict, match="was handed over") as refused:
                    await say()
                assert "never adopted" in refused.value.hint
            assert await store.asks() == await store.asks(state=None) == []  # nobody is asked without an answer to give
            for handle in await store.runs():
                await handle.unpark()  # the control: here again, they hear of it
            assert [ask.id for ask in await store.asks()] == [ask.id]
            await store.answer(ask.id, "yes")
            await doubt.settle(Happened(1))
            assert await store.drive(program(asking), key="asking") == "yes"
            assert await store.drive(program(doubting), key="doubting") == 1

    async def test_an_effect_of_a_run_is_settled_and_not_ended_past_its_run(self, opener: AsyncOpener) -> None:
        async def lost() -> None:
            raise OSError("cut off")

        async def doubting(run: AsyncRun) -> Any:
            return await run.act(tool(lost))

        agent = program(doubting)
        async with await opener() as store:
            assert type(await driven(store, agent)) is Waiting
            (doubt,) = await store.effects(state="in_doubt")
            for say in (doubt.dispatch, doubt.commit, doubt.fail, partial(doubt.commit, checkpoint={})):
                with pytest.raises(Refused, match="carried out by its run") as refused:
                    await say()
                assert "`settle`" in refused.value.hint
            assert (await doubt.refresh()).state == "in_doubt"  # else nobody would wake the run
            await doubt.settle(Happened(1))
            assert await store.drive(agent, key="k") == 1


class AsyncLookingAgainContract:
    """Doubt that a machine can settle later is looked at again by itself, at growing intervals."""

    async def test_a_probe_that_cannot_tell_now_is_asked_again(self, opener: AsyncOpener) -> None:
        outside = CountingWorld()
        send = probing(outside, [Unknown("network is down"), Unknown("still"), Happened("found")])

        async def outer(run: AsyncRun) -> str:
            return await run.act(send, "a")

        agent = program(outer)
        async with await opener() as store:
            waiting = await driven(store, agent)
            assert type(waiting) is Waiting
            for seconds in (1, 1):
                (handle,) = await store.runs()
                assert when(handle.record.wake_at) - opener.clock.now_us == seconds * 1_000_000
                looked = outside.calls.count("looked for a")
                assert type(await driven(store, agent)) is Waiting  # not before its time
                assert (await store.recover([agent])).runs == ()
                assert outside.calls.count("looked for a") == looked
                opener.clock.advance(f"{seconds}s")
                assert len((await store.recover([agent])).runs) == 1
            assert await handle.result() == "found"
            assert outside.calls == ["sent a", *["looked for a"] * 3]

    async def test_it_is_asked_less_and_less_often_and_never_given_up(self, opener: AsyncOpener) -> None:
        outside = CountingWorld()
        send = probing(outside, [Unknown("no idea")])

        async def outer(run: AsyncRun) -> str:
            return await run.act(send, "a")

        agent, steps = program(outer), []
        async with await opener() as store:
            await driven(store, agent)
            (handle,) = await store.runs()
            for _ in range(14):
                wake_us = when((await handle.refresh()).record.wake_at)
                steps.append((wake_us - opener.clock.now_us) // 1_000_000)
                opener.clock.now_us = wake_us
                await driven(store, agent)
            assert steps == [1, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 600, 600, 600]
            (pending,) = (await handle.envelope()).pending
            assert (pending.action, pending.until) == ("probe", opener.clock.now_us + 600_000_000)
            assert "asked again at" in pending.reason
            assert (await handle.envelope()).verdict.standing == "in doubt"
            effect = await store.effect(pending.id)
            await handle.resume()  # a person may come sooner
            waiting = await driven(store, agent)
            assert "next check is at" in waiting.hint
            await effect.settle(Happened("said ann"), by="ann")
            assert await store.drive(agent, key="k") == "said ann"

    async def test_who_may_still_send_is_looked_at_again(self, opener: AsyncOpener) -> None:
        go, outside = threading.Event(), CountingWorld()

        def slow() -> str:
            outside.seen("sent")
            go.wait(60)
            raise OSError("reset")

        send = tool(timeout=0.02, lands_within=0, retries=5, probe=lambda: outside.seen(Absent()))(slow)

        async def outer(run: AsyncRun) -> str:
            return await run.act(send)

        agent = program(outer)
        async with await opener() as store:
            assert type(await driven(store, agent)) is Waiting
            (handle,) = await store.runs()
            assert (handle.record.reason, handle.record.wake_at is None) == ("doubt", False)
            go.set()
            await until(store, lambda: not [t for t in threading.enumerate() if t.name == "perdure-call"])
            assert outside.calls.count("sent") == 1

    async def test_in_a_session_it_says_when_and_stays_visible(self, opener: AsyncOpener) -> None:
        outside = CountingWorld()
        send = probing(outside, [Unknown("network is down")])
        async with await opener() as store:
            session = await store.session("s")
            with pytest.raises(InDoubt, match="network is down") as doubt:
                await session.act(send, "a", key="k")
            assert doubt.value.facts["action"] == "probe"
            assert doubt.value.facts["until"] == opener.clock.now_us + 1_000_000
            (waiting,) = (await store.recover(tools=[send])).waiting
            assert (waiting.state, outside.calls.count("looked for a")) == ("in_doubt", 2)

    async def test_what_no_machine_can_settle_is_not_looked_at(self, opener: AsyncOpener) -> None:
        @tool
        async def send() -> None:
            raise OSError("reset")

        async def outer(run: AsyncRun) -> None:
            await run.act(send)

        agent = program(outer)
        async with await opener() as store:
            await driven(store, agent)
            (handle,) = await store.runs()
            assert (handle.record.reason, handle.record.wake_at) == ("doubt", None)


class AsyncRecoveringContract:
    """Work that others left is resumed, whatever else is there."""

    async def test_what_belongs_to_others_hides_nothing(self, opener: AsyncOpener) -> None:
        async def unknown(_run: AsyncRun) -> None:
            raise AssertionError("it belongs to another program")

        async def known(run: AsyncRun) -> int:
            return await run.step(int, 1)

        theirs, mine = agent(name="theirs")(unknown), program(known)
        DECLARED.pop("theirs")
        async with await opener() as store:
            for n in range(60):
                await store.start(theirs, key=str(n))
            await store.start(mine, key="k")
            DECLARED.pop("theirs", None)
            assert [run.status for run in (await store.recover([mine])).runs] == ["completed"]
            assert len(await store.runs(agent="theirs", status="ready", limit=100)) == 60

    async def test_a_run_that_cannot_be_read_keeps_no_other_from_going_on(
        self, opener: AsyncOpener, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from perdure.errors import Damaged  # noqa: PLC0415 - only here

        async def known(run: AsyncRun) -> int:
            return await run.step(int, 1)

        agent, read = program(known), steps.steps_and_retried
        async with await opener() as store:
            broken = await store.start(agent, key="broken")
            await runs_once(store, broken)
            others = [await store.start(agent, key=str(n)) for n in range(3)]

            def torn(reads: Any, stream: Any, after: int = 0) -> Any:
                if stream.name == broken.id:
                    raise Damaged("the stored data is no step", path=f"run {stream.name}")
                return read(reads, stream, after)

            monkeypatch.setattr(steps, "steps_and_retried", torn)
            report = await store.recover([agent])
            assert [(await run.refresh()).status for run in others] == ["completed"] * 3
            assert {run.id for run in report.runs} == {broken.id, *(run.id for run in others)}
            assert ((await broken.refresh()).status, broken.record.reason) == ("parked", "damaged")
            assert "the stored data is no step" in str(broken.record.error)
            assert (await store.recover([agent])).runs == ()
            monkeypatch.undo()
            await broken.resume()
            assert await store.drive(agent, key="broken") == 1

    async def test_however_many_effects_of_runs_there_are_those_of_sessions_are_found(
        self, opener: AsyncOpener, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("perdure.handles.aio.recovery.LOOKED_AT", 3)

        @tool
        async def send(n: int) -> None:
            raise OSError(n)

        async def outer(run: AsyncRun, n: int) -> None:
            await run.act(send, n)

        agent = program(outer)
        async with await opener() as store:
            session = await store.session("s")
            for n in range(5):
                with pytest.raises(InDoubt):
                    await session.act(send, n, key=str(n))
            for n in range(5):
                await driven(store, agent, n, key=str(n))
            assert [effect.args["n"] for effect in (await store.recover([agent])).waiting] == [*range(5)]

    # -- children ------------------------------------------------------------------------------------------------------

    @pytest.mark.parametrize("how", ["waits", "parked"])
    async def test_a_child_that_cannot_go_on_does_not_keep_its_sister(self, opener: AsyncOpener, how: str) -> None:
        outside = CountingWorld()

        async def small(run: AsyncRun, name: str) -> str:
            if name == "stuck":
                if how == "parked":
                    raise Parked("stop", reason="x")
                await run.ask("?")
            return await run.step(outside.seen, name)

        child = agent(name="child")(small)

        async def big(run: AsyncRun) -> list[str]:
            children = [await run.start(child, name) for name in ("stuck", "free")]
            return [await row.result() for row in reversed(children)]

        own_agent = program(big)
        async with await opener() as store:
            for _ in range(2):
                assert type(await driven(store, own_agent)) is (Waiting if how == "waits" else Parked)
                assert outside.calls == ["free"]
            if how == "waits":
                await store.answer((await store.asks())[0].id, "go on")
                assert await store.drive(own_agent, key="k") == ["free", "stuck"]


async def runs_once(store: Any, handle: Any) -> None:
    """A run that somebody had, and gave back."""
    core = caller_of(store).core
    lease = await caller_of(store).write(
        leases.claim, stream_of(handle), holder=core.holder, program="p", epoch=core.epoch
    )
    await caller_of(store).write(leases.fenced, lease, runs.release)


# async-only
class AsyncForgottenContract:
    """Tasks that a program does not wait for."""

    async def test_what_nobody_waits_for_is_not_missed(self, opener: AsyncOpener) -> None:
        import asyncio  # noqa: PLC0415 - only here

        outside = CountingWorld()

        async def forgetful(run: AsyncRun) -> Any:
            tasks = [asyncio.create_task(run.step(outside.seen, "begun"))]
            reply = await run.ask("?")
            return [reply, len(tasks)]

        agent = program(forgetful)
        async with await opener() as store:
            await driven(store, agent)
            await store.answer((await store.asks())[0].id, "yes")
            assert await store.drive(agent, key="k") == ["yes", 1]
            assert outside.count == 1

    async def test_what_a_program_cancelled_is_not_missed_and_it_can_be_cut(self, opener: AsyncOpener) -> None:
        import asyncio  # noqa: PLC0415 - only here

        outside = CountingWorld()

        async def racing(run: AsyncRun) -> Any:
            assert run.restored is None
            slow = asyncio.create_task(run.step(outside.seen, "slow"))
            first = await run.ask("?")
            slow.cancel()
            await asyncio.wait([slow])
            return [first, await run.checkpoint({"x": 1})]

        agent = program(racing)
        async with await opener() as store:
            await driven(store, agent)
            await store.answer((await store.asks())[0].id, "yes")
            assert await store.drive(agent, key="k") == ["yes", True]

    async def test_what_a_finished_branch_left_out_is_missed(self, opener: AsyncOpener) -> None:
        import asyncio  # noqa: PLC0415 - only here

        outside = CountingWorld()

        async def changing(run: AsyncRun) -> Any:
            async def line() -> None:
                if not outside.count:
                    await run.step(outside.seen, "only the first time")

            await asyncio.gather(line())
            return await run.ask("?")

        agent = program(changing)
        async with await opener() as store:
            await driven(store, agent)
            await store.answer((await store.asks())[0].id, "yes")
            assert type(await driven(store, agent)) is Changed


# end
