"""The contract of what runs wait for (people, times, signals), and of branches (P13, P15)."""

from __future__ import annotations

import random
from functools import partial
from typing import Any

import pytest

from perdure.effects.tool import Refuse, tool
from perdure.errors import Changed, Conflict, Failed, Invalid, KeyReused, NotFound, TimedOut, Waiting
from perdure.handles.aio.run import AsyncRun
from perdure.model.records.effects import Happened
from perdure.runtime.agent import agent
from perdure_testing.contract.aio.effects import CountingWorld
from perdure_testing.contract.aio.runs import driven, program
from perdure_testing.openers import AsyncOpener
from perdure_testing.races import AsyncRace


class AsyncWaitsContract:
    """Each wait is opened once and ends once."""

    async def test_an_answer_is_taken_once_and_names_who_gave_it(self, opener: AsyncOpener) -> None:
        async def asking(run: AsyncRun) -> list[Any]:
            return [await run.ask("Merge?", choices=["merge", "hold"], detail={"n": 1}), await run.ask("Why?")]

        agent = program(asking)
        async with await opener(actor="ann") as x, await opener(actor="ann") if opener.shared else x as y:
            await driven(x, agent)
            (ask,) = await x.asks()
            assert (ask.question, ask.choices, ask.detail, ask.actor) == ("Merge?", ("merge", "hold"), {"n": 1}, "ann")
            with pytest.raises(Invalid) as no_choice:
                await x.answer(ask.id, "burn")
            assert no_choice.value.path == "answer"
            outcomes = await AsyncRace.between(
                partial(x.answer, ask.id, "merge", by="bob"), partial(y.answer, ask.id, "hold", by="eve")
            )
            assert len(outcomes.won) == 1
            assert type(outcomes.refused[0]) is Conflict
            (won,) = outcomes.won
            assert outcomes.refused[0].facts["met_by"] == won.met_by
            assert type(await driven(x, agent)) is Waiting
            (free,) = await x.asks()
            await x.answer(free.id, {"any": "value"})
            assert await x.drive(agent, key="k") == [won.answer, {"any": "value"}]
            assert [ask.met_by for ask in await x.asks(state="met")] == ["ann", won.met_by]
            for wrong in ("run:nobody/1", ask.id.rpartition("/")[0] + "/999"):
                with pytest.raises(NotFound):
                    await x.answer(wrong, "x")
            assert (await x.verify()).ok

    async def test_a_session_waits_while_somebody_is_asked_in_it(self, opener: AsyncOpener) -> None:
        async def asking(run: AsyncRun, within: str | None) -> Any:
            return await run.ask("Merge?", timeout=within, default="no")

        async def listed(store: Any, status: str) -> list[str]:
            return [session.name for session in await store.sessions(status=status)]

        @tool(kind="idempotent", name="waiting-send")
        def send() -> str:
            return "sent"

        agent = program(asking)
        async with await opener() as store:
            session, acting = await store.session("s"), await store.session("acting")
            await store.session("idle")
            with pytest.raises(Waiting):
                await store.drive(agent, None, key="k", session="s")
            with pytest.raises(Waiting):
                await acting.act(send, key="k", approve="Send it?")
            assert await session.get_status() == (await session.info()).status == "waiting"
            assert await listed(store, "waiting") == ["acting", "s"]
            assert await listed(store, "active") == ["idle"]
            for ask in await store.asks():
                await store.answer(ask.id, "approve")
            assert await store.drive(agent, None, key="k", session="s") == "approve"
            assert await listed(store, "waiting") == []
            with pytest.raises(Waiting):
                await store.drive(agent, "10s", key="again", session="s")
            assert await listed(store, "waiting") == ["s"]
            opener.clock.advance("11s")  # nobody is asked any more
            assert await listed(store, "waiting") == []
            await session.mark_waiting()
            assert await listed(store, "waiting") == ["s"]

    async def test_a_page_of_asks_or_of_a_timeline_says_whether_there_is_more(self, opener: AsyncOpener) -> None:
        """Questions and approvals in one order: nobody is asked without being listed on some page, and on one only."""

        @tool(kind="idempotent", name="paged-send")
        def send(name: str) -> str:
            return name

        async def asking(run: AsyncRun, name: str) -> Any:
            return await (run.ask(name) if name in "ace" else run.act(send, name, approve=name))

        agent = program(asking)
        async with await opener() as store:
            for name in "abcde":
                await driven(store, agent, name, key=name)
                opener.clock.advance("1s")
            pages = [page := await store.asks(limit=2)]
            while page.next is not None:
                pages.append(page := await store.asks(limit=2, after=page.next))
            assert [[row.question for row in page] for page in pages] == [["e", "d"], ["c", "b"], ["a"]]
            assert (await store.asks(limit=5)).next is None
            handle = (await store.runs())[0]
            timeline = await handle.timeline()
            newest = await handle.timeline(last=2)
            older = await handle.timeline(before=newest.next)
            assert [*older, *newest] == timeline
            assert (timeline.next, older.next) == (None, None)

    async def test_after_its_time_the_default_stands(self, opener: AsyncOpener) -> None:
        async def asking(run: AsyncRun) -> Any:
            return await run.ask("Merge?", choices=["merge", "hold"], timeout="2d", default="hold")

        async def wrong(run: AsyncRun) -> Any:
            return await run.ask("Merge?", choices=["merge"], timeout="2d", default="burn")

        agent = program(asking)
        async with await opener() as store:
            await driven(store, agent)
            (ask,) = await store.asks()
            opener.clock.advance("2d")
            with pytest.raises(Conflict, match="is over"):
                await store.answer(ask.id, "merge")
            assert await store.asks() == []
            assert [ask.id for ask in await store.asks(state="expired")] == [ask.id]
            assert [ask.state.value for ask in await store.asks(state=None)] == ["expired"]
            assert await store.drive(agent, key="k") == "hold"
            assert (await store.asks(state="expired"))[0].met_by == "the clock"
            assert (await driven(store, program(wrong), key="wrong")).code == "Invalid"

    @pytest.mark.parametrize(("whole", "answer"), [("1h", "2h"), ("2h", "1h")])
    async def test_a_run_wakes_up_at_the_first_of_its_times(self, opener: AsyncOpener, whole: str, answer: str) -> None:
        async def asking(run: AsyncRun) -> object:
            return await run.ask("Merge?", timeout=answer, default="no")

        agent = program(asking, timeout=whole)
        async with await opener() as store:
            assert type(await driven(store, agent)) is Waiting
            opener.clock.advance("1h")
            result = await driven(store, agent)
            assert result == "no" if answer == "1h" else type(result) is Failed

    @pytest.mark.parametrize("verb", ["ask", "wait"])
    async def test_without_a_default_the_end_of_its_time_is_told(self, opener: AsyncOpener, verb: str) -> None:
        """An ask and a wait for a signal are alike: a default that is given is returned, also if it is None."""

        async def waiting(run: AsyncRun, *given: Any) -> Any:
            options = {"default": given[0]} if given else {}
            return await getattr(run, verb)("go", timeout="2d", **options)

        agent = program(waiting)
        async with await opener() as store:
            for key, given in ("none", [None]), ("given", ["late"]), ("missing", []):
                assert type(await driven(store, agent, *given, key=key)) is Waiting
            opener.clock.advance("2d")
            assert await store.drive(agent, None, key="none") is None
            assert await store.drive(agent, "late", key="given") == "late"
            ended = await driven(store, agent, key="missing")
            assert (type(ended), ended.code) == (Failed, "TimedOut")

    @pytest.mark.parametrize("nested", [False, True])
    async def test_who_drives_a_long_sleep_is_told_when_it_ends(self, opener: AsyncOpener, nested: bool) -> None:
        """`drive` waits in place for a minute at most, and longer only if it is asked to; so it does for a child that sleeps."""

        @agent(name="sleeper")
        async def sleeper(run: AsyncRun) -> str:
            await run.sleep("1h")
            return "rested"

        async def outer(run: AsyncRun) -> str:
            return await run.call(sleeper)

        own_agent = program(outer) if nested else sleeper
        async with await opener(clock=None) as store:
            for wait in (None, False, "10m"):
                with pytest.raises(Waiting, match="sleep") as waiting:
                    await store.drive(own_agent, key="k", wait=wait)
                assert "wait=True" in waiting.value.hint
                assert waiting.value.facts["until"]
            with pytest.raises(Invalid, match="wait"):
                await store.drive(own_agent, key="k", wait="for ever")

    async def test_a_sleep_without_an_end_is_refused(self, opener: AsyncOpener) -> None:
        async def nap(run: AsyncRun, duration: Any) -> None:
            await run.sleep(duration)

        async with await opener() as store:
            for duration in (None, 0, "soon"):
                with pytest.raises(Failed, match="duration: ") as refused:
                    await store.drive(program(nap), duration)
                assert refused.value.code == "Invalid"

    async def test_a_sleep_ends_by_the_clock_of_the_store(self, opener: AsyncOpener) -> None:
        outside = CountingWorld()

        async def nap(run: AsyncRun) -> str:
            await run.sleep("10m")
            return await run.step(outside.seen, "awake")

        agent = program(nap)
        async with await opener() as store:
            for passed in ("1m", "9m"):
                assert type(await driven(store, agent)) is Waiting
                (handle,) = await store.runs()
                assert (handle.status, handle.record.reason, outside.count) == ("waiting", "sleep", 0)
                opener.clock.advance(passed)
            assert await store.drive(agent, key="k") == "awake"
            assert outside.count == 1

    async def test_a_signal_is_kept_until_it_is_taken(self, opener: AsyncOpener) -> None:
        async def listen(run: AsyncRun) -> list[Any]:
            return [await run.wait("ci"), await run.wait("ci"), await run.wait("other", timeout="1h", default="none")]

        agent = program(listen)
        async with await opener() as store:
            handle = await store.start(agent, key="k")
            await handle.signal("ci", {"n": 1})  # before anybody waits
            waiting = await driven(store, agent)
            assert (type(waiting), waiting.message) == (Waiting, "waiting: the signal 'ci'")
            assert f"store.signal('{handle.id}', 'ci')" in waiting.hint
            await handle.signal("unheard")
            assert (await handle.refresh()).status == "waiting"
            await store.signal(handle.id, "ci", {"n": 2})  # after
            assert (await handle.refresh()).status == "ready"
            await driven(store, agent)
            opener.clock.advance("1h")
            assert await store.drive(agent, key="k") == [{"n": 1}, {"n": 2}, "none"]
            with pytest.raises(Conflict) as over:
                await handle.signal("ci")
            assert over.value.facts["status"] == "completed"
            with pytest.raises(Invalid):
                await store.signal(handle.id, "")
            assert (await store.verify()).ok

    async def test_a_signal_under_a_key_is_sent_once(self, opener: AsyncOpener) -> None:
        """Also when it comes again after the run has taken it, and after its end: webhooks are delivered more than once."""

        async def listen(run: AsyncRun) -> list[Any]:
            return [await run.wait("ci", timeout="1h", default="none") for _ in range(2)]

        agent = program(listen)
        async with await opener() as store:
            handle = await store.start(agent, key="k", about=["user:bo"])
            await handle.signal("ci", {"n": 1}, key="build-1")
            await store.signal(handle.id, "ci", {"n": 1}, key="build-1")
            with pytest.raises(KeyReused) as other:
                await handle.signal("ci", {"n": 2}, key="build-1")
            assert other.value.path == "key"
            await driven(store, agent)
            await handle.signal("ci", {"n": 1}, key="build-1")
            opener.clock.advance("1h")
            assert await store.drive(agent, key="k") == [{"n": 1}, "none"]
            await handle.signal("ci", {"n": 1}, key="build-1")
            with pytest.raises(Conflict):
                await handle.signal("ci", {"n": 1}, key="build-2")
            marks = [event for event in await store.events(about="user:bo") if event.session.startswith("requests/")]
            assert [event.kind for event in marks] == ["value.set"]
            assert (await store.verify()).ok

    async def test_a_signal_that_does_not_come_is_timed_out(self, opener: AsyncOpener) -> None:
        async def listen(run: AsyncRun) -> str:
            try:
                await run.wait("ci", timeout="1h")
            except TimedOut as late:
                return late.path
            return "came"

        agent = program(listen)
        async with await opener() as store:
            await driven(store, agent)
            opener.clock.advance("1h")
            assert await store.drive(agent, key="k") == "signal"

    # -- approvals in runs -----------------------------------------------------------------------------------------

    async def test_an_approval_is_of_one_call_and_is_used_once(self, opener: AsyncOpener) -> None:
        outside = CountingWorld()

        @tool
        async def pay(n: int) -> int:
            if outside.seen(n) and outside.count == 1:
                raise Failed("not now", code="NotNow")
            return n

        async def spend(run: AsyncRun) -> int:
            return await run.act(pay, 5, approve="Pay?")

        agent = program(spend)
        async with await opener() as store:
            for answers, expected in ((["refuse"], "Refused"), (["approve"], "NotNow")):
                for answer in answers:
                    await driven(store, agent)
                    (ask,) = await store.asks()
                    assert (ask.question, ask.detail) == ("Pay?", {"tool": "pay", "args": {"n": 5}})
                    await store.answer(ask.id, answer, by="ann")
                refused = await driven(store, agent)
                assert refused.code == expected
                (handle,) = await store.runs()
                await handle.retry()
            # The approved attempt was made; it must be approved anew.
            assert type(await driven(store, agent)) is Waiting
            await store.answer((await store.asks())[0].id, "approve")
            assert await store.drive(agent, key="k") == 5
            assert outside.count == 2
            assert (await store.verify()).ok

    async def test_guards_and_time_refuse_in_a_run_too(self, opener: AsyncOpener) -> None:
        outside = CountingWorld()

        @tool(guards=[lambda *_: Refuse("never")])
        async def never() -> None:
            outside.seen()

        @tool
        async def late() -> None:
            outside.seen()

        async def careless(run: AsyncRun) -> list[str]:
            lines = []
            for act in (partial(run.act, never), partial(run.act, late, approve="?", approve_within="1h")):
                try:
                    await act()
                except Failed as refused:
                    lines.append(refused.message)
            return lines

        agent = program(careless)
        async with await opener() as store:
            await driven(store, agent)
            opener.clock.advance("1h")
            assert await store.drive(agent, key="k") == ["never", "nobody approved in time"]
            assert outside.count == 0


# async-only
class AsyncBranchesContract:
    """Branches replay the same, whatever finishes first."""

    @pytest.mark.parametrize("seed", range(4))
    async def test_branches_replay_whatever_finishes_first(self, opener: AsyncOpener, seed: int) -> None:
        import asyncio  # noqa: PLC0415 - only here

        outside, dice = CountingWorld(), random.Random(seed)

        async def look(name: str) -> str:
            await asyncio.sleep(dice.random() / 100)
            return outside.seen(name)

        def slow(name: str) -> str:
            return outside.seen(name)

        send = tool(timeout=30)(slow)  # a thread with a deadline: no branch of the run

        async def branch(run: AsyncRun, name: str) -> list[Any]:
            first = await run.act(send, f"{name}0")
            both = await asyncio.gather(*[run.step(look, f"{name}{n}") for n in (1, 2)])
            return [first, *both, await run.ask(name)]

        async def fan(run: AsyncRun) -> Any:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(branch(run, name)) for name in "xyz"]
            return [task.result() for task in tasks] + [await asyncio.gather(run.step(look, "p"), run.step(look, "q"))]

        agent = program(fan)
        async with await opener() as store:
            while type(await driven(store, agent)) is Waiting:
                asks = await store.asks()
                ask = dice.choice(asks)
                await store.answer(ask.id, ask.question)
            expected = [[f"{n}0", f"{n}1", f"{n}2", n] for n in "xyz"] + [["p", "q"]]
            assert await store.drive(agent, key="k") == expected
            assert sorted(outside.calls) == sorted([f"{n}{i}" for n in "xyz" for i in range(3)] + ["p", "q"])
            assert (await store.verify()).ok

    async def test_an_answer_that_comes_while_another_branch_works_is_not_lost(self, opener: AsyncOpener) -> None:
        import asyncio  # noqa: PLC0415 - only here

        async with await opener() as store:

            async def answered() -> None:
                while not (open_ones := await store.asks()):  # noqa: ASYNC110 - it is another branch that asks
                    await asyncio.sleep(0.001)
                await store.answer(open_ones[0].id, "yes")

            async def both(run: AsyncRun) -> Any:
                async def work() -> None:
                    await run.step(answered)
                    await run.step(str, 1)  # a write after the answer

                return (await asyncio.gather(run.ask("?"), work()))[0]

            assert await store.drive(program(both), key="k") == "yes"

    async def test_a_changed_branch_parks_and_undoes_nothing(self, opener: AsyncOpener) -> None:
        import asyncio  # noqa: PLC0415 - only here

        outside = CountingWorld()

        async def delete() -> None:
            outside.seen("deleted")

        @tool(undo=delete)
        async def create() -> None:
            outside.seen("created")

        def fan(word: str) -> Any:
            async def grouped(run: AsyncRun) -> None:
                async with run.saga():
                    await run.act(create)
                    async with asyncio.TaskGroup() as group:
                        group.create_task(run.step(str, word))
                    await run.ask("?")

            return program(grouped)

        async with await opener() as store:
            await driven(store, fan("old"))
            await (await store.runs())[0].resume()
            assert type(await driven(store, fan("new"))) is Changed
            assert outside.calls == ["created"]

    async def test_a_saga_settles_what_it_interrupted_and_leaves_other_branches_alone(
        self, opener: AsyncOpener
    ) -> None:
        import asyncio  # noqa: PLC0415 - only here

        outside, begun = CountingWorld(), asyncio.Event()

        async def delete(name: str) -> None:
            outside.seen(f"deleted {name}")

        async def look(name: str) -> Happened:
            return Happened(f"found {name}")

        @tool(undo=delete, probe=look)
        async def create(name: str) -> str:
            outside.seen(name)
            if name == "slow":
                begun.set()
                await asyncio.sleep(60)
            return name

        async def fails() -> None:
            await begun.wait()
            raise ValueError("no")

        async def inside(run: AsyncRun) -> str:
            try:
                async with run.saga():
                    await asyncio.gather(run.act(create, "slow"), run.step(fails))
            except Failed as failed:
                return failed.code
            return "?"

        async def both(run: AsyncRun) -> Any:
            return await asyncio.gather(inside(run), run.act(create, "other"))

        async with await opener() as store:
            assert await store.drive(program(both), key="k") == ["ValueError", "other"]
            assert sorted(outside.calls) == ["deleted slow", "other", "slow"]

    async def test_what_an_agent_catches_does_not_end_its_run(self, opener: AsyncOpener) -> None:
        import asyncio  # noqa: PLC0415 - only here

        async def greedy(run: AsyncRun) -> Any:
            return [str(row) for row in await asyncio.gather(run.ask("?"), return_exceptions=True)]

        agent = program(greedy)
        async with await opener() as store:
            assert type(await driven(store, agent)) is Waiting
            await store.answer((await store.asks())[0].id, "yes")
            assert await store.drive(agent, key="k") == ["yes"]


# end
