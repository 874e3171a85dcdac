"""The contract of runs: driven by replay, each thing once; a changed program is named; leases are fenced (P3, P7, P13)."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from perdure.effects.commands import CheckLease
from perdure.effects.tool import tool
from perdure.errors import (
    Conflict,
    Error,
    Failed,
    Invalid,
    KeyReused,
    NotFound,
    Refused,
    TimedOut,
    Waiting,
)
from perdure.handles.aio.run import AsyncRun
from perdure.handles.aio.run_handle import AsyncRunHandle
from perdure.handles.aio.store import AsyncStore
from perdure.handles.colours import run_for
from perdure.planes.execution import leases, steps
from perdure.runtime.agent import Agent, agent
from perdure.runtime.callers import caller_of, stream_of
from perdure.runtime.shells import AsyncRunShell
from perdure_testing.contract.aio.effects import CountingWorld
from perdure_testing.openers import AsyncOpener
from perdure_testing.races import AsyncRace
from perdure_testing.sample_types import Price


def program(fn: Any, **declared: Any) -> Agent:
    """A function as the agent `a`: another program under the same name is what a deploy brings."""
    return agent(name="a", **declared)(fn)


async def driven(store: AsyncStore, agent: Agent, *args: Any, key: str = "k", **kwargs: Any) -> Any:
    """Drive it; what it is refused with counts as what it gave."""
    try:
        return await store.drive(agent, *args, key=key, **kwargs)
    except Error as error:
        return error


async def claimed(store: AsyncStore, handle: AsyncRunHandle) -> leases.Lease | None:
    """Take a run as a worker does."""
    core = caller_of(store).core
    return await caller_of(store).write(
        leases.claim, stream_of(handle), holder=core.holder, program="p", epoch=core.epoch
    )


class AsyncRunsContract:
    """Starting, driving, replaying."""

    async def test_a_run_does_each_thing_once_however_often_it_is_driven(self, opener: AsyncOpener) -> None:
        outside = CountingWorld()

        async def draft(issue: int) -> str:
            return outside.seen(f"draft {issue}")

        @tool
        async def send(text: str) -> str:
            return outside.seen(f"sent {text}")

        async def fix(run: AsyncRun, issue: int, *, loud: bool = False) -> list[str]:
            plan = await run.step(draft, issue)
            sent = await run.act(send, plan)
            reply = await run.ask("Go on?")
            return [plan, sent, reply, str(loud)]

        agent = program(fix)
        async with await opener(actor="ann") as store:
            handle = await store.start(agent, 7, key="k", session="s", loud=True)
            assert (handle.status, handle.record.session, handle.record.creator) == ("ready", "s", "ann")
            for _ in range(2):
                await store.start(agent, 7, key="k", session="s", loud=True)
                assert await handle.resume() is handle
            with pytest.raises(Waiting) as waiting:
                await store.drive(agent, 7, key="k", session="s", loud=True)
            await handle.resume()
            assert type(await driven(store, agent, 7, session="s", loud=True)) is Waiting
            (ask,) = await handle.waits()
            assert (waiting.value.facts["asks"], waiting.value.facts["run"]) == ([ask.id], handle.id)
            assert f"perdure answer {ask.id}" in waiting.value.hint
            await store.answer(ask.id, "yes", by="bob")
            expected = ["draft 7", "sent draft 7", "yes", "True"]
            assert await store.drive(agent, 7, key="k", session="s", loud=True) == expected
            assert await handle.result() == expected
            assert await store.drive(agent, 7, key="k", session="s", loud=True) == expected
            assert outside.calls == ["draft 7", "sent draft 7"]
            (effect,) = await handle.effects()
            assert (effect.state, effect.record.place) == ("committed", "0//2")
            assert [run.id for run in await store.runs(agent="a", session="s", status="completed")] == [handle.id]
            assert (await store.verify()).ok

    async def test_who_fails_without_a_word_is_known_by_the_name_of_what_it_raised(self, opener: AsyncOpener) -> None:
        async def silent(_run: AsyncRun) -> None:
            raise ValueError

        async with await opener() as store:
            failed = await driven(store, program(silent))
            assert (failed.code, failed.message) == ("ValueError", "ValueError")

    async def test_the_same_key_is_the_same_run(self, opener: AsyncOpener) -> None:
        async def same(_run: AsyncRun, n: int) -> int:
            return n

        agent = program(same)
        async with await opener() as store:
            first = await store.start(agent, 1, key="k")
            assert (await store.start(agent, 1, key="k")).id == first.id
            with pytest.raises(KeyReused) as refused:
                await store.start(agent, 2, key="k")
            assert (refused.value.path, refused.value.facts["run"]) == ("key", first.id)
            assert refused.value.facts["stored"] != refused.value.facts["given"]
            assert (await store.start(agent, 1)).id != (await store.start(agent, 1)).id
            assert len(await store.runs()) == 3

    async def test_many_who_start_it_at_once_start_one(self, opener: AsyncOpener) -> None:
        async def same(run: AsyncRun) -> None: ...

        agent = program(same)
        async with await opener() as x, await opener() if opener.shared else x as y:
            for number in range(4):
                key = f"k{number}"
                outcomes = await AsyncRace.between(*[partial(opened.start, agent, key=key) for opened in (x, y, x, y)])
                assert outcomes.refused == []
                assert len({handle.id for handle in outcomes.won}) == 1
            assert len(await x.runs()) == 4

    async def test_of_two_who_claim_one_gets_it(self, opener: AsyncOpener) -> None:
        async def same(run: AsyncRun) -> None: ...

        agent = program(same)
        async with await opener() as x, await opener() if opener.shared else x as y:
            for _ in range(4):
                handle = await x.start(agent)
                outcomes = await AsyncRace.between(partial(claimed, x, handle), partial(claimed, y, handle))
                assert len([outcome for outcome in outcomes if outcome is not None]) == 1
                assert (await handle.refresh()).record.token == 1
                if opener.shared:
                    with pytest.raises(Conflict) as held:
                        await _drive_again(y if outcomes[0] is not None else x, agent, handle)
                    assert held.value.facts["holder"] == handle.record.holder

    async def test_registered_types_go_in_and_out(self, opener: AsyncOpener) -> None:
        async def double(price: Price) -> Price:
            return Price(price.amount * 2, price.currency)

        @tool
        async def pay(price: Price) -> Price:
            return Price(-price.amount, price.currency)

        async def shop(run: AsyncRun, price: Price) -> list[Price]:
            twice = await run.step(double, price)
            return [price, twice, await run.act(pay, twice)]

        async with await opener() as store:
            expected = [Price(1, "EUR"), Price(2, "EUR"), Price(-2, "EUR")]
            assert await store.drive(program(shop), Price(1, "EUR"), key="k") == expected
            (handle,) = await store.runs()
            assert (await handle.result(), handle.record.args) == (expected, [Price(1, "EUR")])
            (effect,) = await handle.effects()
            assert effect.record.args == {"price": Price(2, "EUR")}

    async def test_time_and_chance_stay_the_same(self, opener: AsyncOpener) -> None:
        draws: list[Any] = []

        async def dice(run: AsyncRun) -> None:
            draws.append([await run.now(), run.uuid(), run.uuid(), run.random(), run.random()])
            await run.ask("?")

        agent = program(dice)
        async with await opener() as store:
            for _ in range(3):
                await driven(store, agent)
                opener.clock.advance("1h")
                await (await store.runs())[0].resume()
            await driven(store, agent, key="other")
            assert draws[0] == draws[1] == draws[2]
            now, one, two, x, y = draws[0]
            assert (one != two, x != y, 0 <= x < 1, now.tzinfo is not None, one.version) == (True, True, True, True, 4)
            assert draws[3][1] != one

    async def test_a_step_that_fails_is_kept_when_the_program_goes_on(self, opener: AsyncOpener) -> None:
        outside = CountingWorld()

        async def flaky() -> None:
            outside.seen()
            raise (KeyError if outside.count == 1 else Failed)("gone")

        async def careful(run: AsyncRun) -> list[str]:
            codes = []
            for _ in range(2):
                try:
                    await run.step(flaky)
                except Failed as failed:
                    codes.append(failed.code)
            await run.ask("?")
            return codes

        agent = program(careful)
        async with await opener() as store:
            await driven(store, agent)
            await (await store.runs())[0].resume()
            await driven(store, agent)
            await store.answer((await store.asks())[0].id, "x")
            assert await store.drive(agent, key="k") == ["KeyError", "Failed"]
            assert outside.count == 2

    async def test_a_run_that_failed_can_be_tried_again_where_it_failed(self, opener: AsyncOpener) -> None:
        outside = CountingWorld()

        async def first() -> str:
            return outside.seen("first")

        async def second() -> str:
            if outside.seen("second") and outside.count < 3:
                raise ValueError("not yet")
            return "done"

        async def two(run: AsyncRun) -> str:
            return await run.step(first) + await run.step(second)

        agent = program(two)
        async with await opener() as store:
            refused = await driven(store, agent)
            assert (type(refused), refused.code, refused.message) == (Failed, "ValueError", "step second: not yet")
            (handle,) = await store.runs(status="failed")
            assert await driven(store, agent) is not None  # it is over: driving it again does nothing
            assert outside.calls == ["first", "second"]
            await handle.retry()
            assert await store.drive(agent, key="k") == "firstdone"
            assert outside.calls == ["first", "second", "second"]
            with pytest.raises(Conflict):
                await handle.retry()
            assert (await store.verify()).ok

    async def test_only_the_effect_that_ended_it_is_tried_again(self, opener: AsyncOpener) -> None:
        outside = CountingWorld()

        @tool
        async def send(what: str) -> str:
            outside.seen(what)
            if what == "a" or outside.calls.count(what) == 1:
                raise Failed(f"no {what}", code="No")
            return what

        async def note(text: str) -> str:
            return text

        async def two(run: AsyncRun) -> list[str]:
            lines = []
            try:
                await run.act(send, "a")
            except Failed as failed:
                lines.append(await run.step(note, failed.message))
            return [*lines, await run.act(send, "b")]

        agent = program(two)
        async with await opener() as store:
            refused = await driven(store, agent)
            assert (refused.code, refused.message.endswith(": no b")) == ("No", True)
            (handle,) = await store.runs()
            await handle.retry()
            assert await store.drive(agent, key="k") == ["no a", "b"]
            assert outside.calls == ["a", "b", "b"]

    # -- leases ------------------------------------------------------------------------------------------------------------

    async def test_a_stale_lease_writes_nothing(self, opener: AsyncOpener) -> None:
        if not opener.shared:
            pytest.skip("a memory store has one holder")
        outside = CountingWorld()
        async with await opener() as a, await opener() as b:

            async def usurped(n: int) -> int:
                if outside.count == 0:
                    outside.seen("first")
                    opener.clock.advance("1h")  # no heartbeat came: somebody else takes it
                    assert await claimed(b, handle) is not None
                return outside.seen(n)

            async def work(run: AsyncRun) -> int:
                return await run.step(usurped, 1)

            agent = program(work)
            handle = await a.start(agent, key="k")
            with pytest.raises(Conflict):  # b has it
                await a.drive(agent, key="k")
            done = await caller_of(b).read(steps.steps, stream_of(handle))
            assert (done, (await handle.refresh()).record.token) == ([], 2)
            opener.clock.advance("1h")
            assert await b.drive(agent, key="k") == 1
            assert (await handle.refresh()).record.token == 3
            assert (await b.verify()).ok

    async def test_the_lease_is_looked_at_once_more_before_anything_is_sent(self, opener: AsyncOpener) -> None:
        if not opener.shared:
            pytest.skip("a memory store has one holder")
        outside = CountingWorld()
        async with await opener() as a, await opener() as b:

            @tool
            async def send() -> int:
                return outside.seen(1)

            class Losing(AsyncRunShell):
                """The lease is lost right before the call."""

                async def _lose(self, command: CheckLease) -> None:
                    opener.clock.advance("1h")
                    assert await claimed(b, await b.run(self._stream.name)) is not None
                    await self._check_lease(command)

                _ways = {**AsyncRunShell._ways, CheckLease: _lose}  # noqa: RUF012 - as the shell has it

            async def work(run: AsyncRun) -> int:
                run._shell = Losing(run._shell.caller, run._engine, run_for(run._engine.agent))
                return await run.act(send)

            async def later(run: AsyncRun) -> int:
                return await run.act(send)

            handle = await a.start(program(work), key="k")
            with pytest.raises(Conflict):
                await a.drive(program(work), key="k")
            (effect,) = await handle.effects()
            assert (outside.count, effect.state, effect.record.attempt) == (0, "planned", 1)
            opener.clock.advance("1h")
            assert await b.drive(program(later), key="k") == 1
            assert outside.count == 1

    async def test_a_run_whose_driver_went_away_can_be_had_again_here(self, opener: AsyncOpener) -> None:
        async def work(_run: AsyncRun) -> int:
            return 1

        agent = program(work)
        async with await opener() as store:
            handle = await store.start(agent, key="k")
            assert await claimed(store, handle) is not None  # claimed, and never driven
            assert await store.drive(agent, key="k") == 1

    # -- asking --------------------------------------------------------------------------------------------------------------

    async def test_runs_are_listed_and_found(self, opener: AsyncOpener) -> None:
        async def work(run: AsyncRun) -> None: ...

        async with await opener() as store:
            ids = [(await store.start(program(work))).id for _ in range(5)]
            page = await store.runs(limit=3)
            rest = await store.runs(limit=3, after=page.next)
            assert [row.id for row in [*page, *rest]] == ids[::-1]
            assert (rest.next, await store.runs(status="failed"), await store.runs(agent="other")) == (None, [], [])
            with pytest.raises(Invalid):
                await store.runs(status="lost")  # type: ignore[arg-type]
            with pytest.raises(NotFound):
                await store.run("nobody")
            with pytest.raises(TimedOut):
                await (await store.run(ids[0])).result(timeout=0.001)
            handle = await store.run(ids[0])
            assert ids[0] in repr(handle)

    async def test_a_run_that_takes_too_long_fails_also_while_it_waits(self, opener: AsyncOpener) -> None:
        async def wait(run: AsyncRun) -> None:
            await run.ask("?")

        agent = program(wait, timeout="1h")
        async with await opener() as store:
            assert type(await driven(store, agent)) is Waiting
            opener.clock.advance("1h")
            refused = await driven(store, agent)
            assert (type(refused), refused.code) == (Failed, "TimedOut")
            assert await store.asks() == []

    async def test_steps_refuse_what_they_must_not_call(self, opener: AsyncOpener) -> None:
        @tool
        async def send() -> None: ...

        @tool(kind="read")
        async def look() -> str:
            return "seen"

        async def nested(run: AsyncRun) -> None:
            await run.step(str, 1)

        async def wrong(run: AsyncRun) -> list[str]:
            paths = []
            no_function: Any = 7
            for verb in (partial(run.step, send), partial(run.act, look), partial(run.step, no_function)):
                try:
                    await verb()
                except (Refused, Invalid) as refused:
                    paths.append(refused.path)
            try:
                await run.step(partial(nested, run))
            except Failed as failed:
                paths.append(failed.code)
            return [*paths, await run.step(look)]

        async with await opener() as store:
            assert await store.drive(program(wrong), key="k") == ["step", "tool", "step", "Refused", "seen"]

    async def test_several_verbs_in_the_commit_of_a_step(self, opener: AsyncOpener) -> None:
        async def note(run: AsyncRun) -> Any:
            turn = await run.atomic(lambda tx: tx.session("notes").say("user", "x").seq)
            await run.ask("?")
            return turn

        agent = program(note)
        async with await opener() as store:
            for _ in range(3):
                await driven(store, agent)
                await (await store.runs())[0].resume()
            assert len(await (await store.session("notes")).turns(last=9)) == 1


async def _drive_again(store: AsyncStore, agent: Agent, handle: AsyncRunHandle) -> Any:
    return await store._driven(await handle.refresh(), {agent.name: agent})
