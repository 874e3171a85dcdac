"""The contract of cuts: when a run takes a checkpoint, and what it continues from then (P8, P13)."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.effects.tool import tool
from perdure.errors import Failed, Invalid, Parked, Refused, Waiting
from perdure.handles.aio.run import AsyncRun
from perdure.model.records.conversation import Call
from perdure.runtime.agent import agent
from perdure_testing.contract.aio.effects import CountingWorld
from perdure_testing.contract.aio.runs import driven, program
from perdure_testing.openers import AsyncOpener


class AsyncCutsContract:
    """A journal begins anew after a checkpoint, and nothing is lost sight of."""

    @pytest.mark.parametrize(
        ("policy", "saved"), [(None, [True] * 4), ("every 2 steps", [False, True] * 2), ("after effects", [True] * 4)]
    )
    async def test_a_checkpoint_is_saved_by_policy(
        self, opener: AsyncOpener, policy: str | None, saved: list[bool]
    ) -> None:
        outside = CountingWorld()

        @tool
        async def send(n: int) -> int:
            return outside.seen(n)

        async def count(run: AsyncRun) -> list[Any]:
            state = run.restored or {"n": 0, "saved": []}
            while state["n"] < 4:
                state["n"] += 1
                await run.step(str, state["n"])
                await run.act(send, state["n"])
                state["saved"] += [await run.checkpoint(state)]
            await run.ask("Done?")
            return state["saved"]

        agent = program(count, checkpoint=policy)
        async with await opener() as store:
            await driven(store, agent)
            (handle,) = await store.runs()
            assert handle.record.cuts == sum(saved)
            await store.answer((await store.asks())[0].id, "y")
            # The last one does not hold itself.
            assert await store.drive(agent, key="k") == saved[: -1 if saved[-1] else 4]
            assert outside.calls == [1, 2, 3, 4]
            assert (await store.verify()).ok

    async def test_a_policy_of_time(self, opener: AsyncOpener) -> None:
        async def tick(run: AsyncRun) -> list[bool]:
            saved = [run.restored is not None]
            for minutes in (0, 5, 5, 1):
                opener.clock.advance(minutes * 60 + 0.000001)
                saved.append(await run.checkpoint({"n": minutes}))
            return [*saved, await run.checkpoint({}, now=True)]

        async with await opener() as store:
            saved = [False, False, False, True, False, True]
            assert await store.drive(program(tick, checkpoint="every 10m"), key="k") == saved

    @pytest.mark.parametrize("policy", ["every 1 steps", None])
    async def test_an_offer_while_a_child_is_under_way(self, opener: AsyncOpener, policy: str | None) -> None:
        """A policy waits for another offer: when a child ends is chance, and no reason to fail. By hand it is refused."""

        @agent(name="waits to be let go")
        async def child(run: AsyncRun) -> str:
            return await run.ask("Go?")

        async def offering(run: AsyncRun) -> list[bool]:
            assert run.restored is None
            await run.start(child)
            await run.step(str, 1)
            saved = [await run.checkpoint("while it is")]
            await run.ask("Next?")
            return [*saved, await run.checkpoint("after it")]

        own_agent = program(offering, checkpoint=policy)
        async with await opener() as store:
            ended = await driven(store, own_agent)
            if policy is None:
                assert (ended.code, "give the agent a policy" in ended.message) == ("Refused", True)
                return
            for question in ("Go?", "Next?"):
                await store.recover(agents=[child])
                (question_ask,) = [ask for ask in await store.asks() if ask.question == question]
                await store.answer(question_ask.id, "yes")
            await store.recover(agents=[child])
            assert await store.drive(own_agent, key="k") == [False, True]

    async def test_a_state_that_cannot_be_kept_is_refused_at_a_replay_too(self, opener: AsyncOpener) -> None:
        async def careful(run: AsyncRun) -> str:
            assert run.restored is None
            try:
                await run.checkpoint({"bad": object()})
            except Invalid as error:
                return await run.ask(await run.step(str.lower, str(error)))
            return "saved"

        async with await opener() as store:
            assert type(await driven(store, program(careful))) is Waiting
            await store.answer((await store.asks())[0].id, "seen")
            assert await store.drive(program(careful), key="k") == "seen"

    async def test_what_came_before_a_checkpoint_is_not_looked_at_again(self, opener: AsyncOpener) -> None:
        outside = CountingWorld()

        async def look(what: str) -> str:
            return outside.seen(what)

        async def fold(run: AsyncRun) -> Any:
            if run.restored is None:
                before = await run.step(look, "before")
                await run.checkpoint({"before": before, "big": "x" * 100_000})
            state = run.restored or {"before": "before"}
            after = await run.step(look, "after")
            await run.ask("?")
            return [state["before"], after, run.replaying]

        agent = program(fold)
        async with await opener() as store:
            await driven(store, agent)
            await (await store.runs())[0].resume()
            await driven(store, agent)
            await store.answer((await store.asks())[0].id, "y")
            assert await store.drive(agent, key="k") == ["before", "after", False]
            assert outside.calls == ["before", "after"]

    async def test_a_cut_must_not_lose_sight_of_anything(self, opener: AsyncOpener) -> None:
        async def child(run: AsyncRun) -> None: ...

        started = agent(name="child")(child)

        async def hasty(run: AsyncRun) -> list[str]:
            refusals = [str(run.restored)]
            branch = run.branch("b")
            await run.start(started)
            for verb in (branch.checkpoint, run.checkpoint):
                try:
                    await verb({})
                except Refused as refused:
                    refusals.append(refused.path)
            return refusals

        async with await opener() as store:
            assert await store.drive(program(hasty), key="k") == ["None", "checkpoint", "checkpoint"]

    @pytest.mark.parametrize("reads", ["never", "late"])
    @pytest.mark.parametrize("policy", [None, "every 50 steps"])
    async def test_an_agent_that_does_not_begin_from_its_checkpoint_may_not_make_one(
        self, opener: AsyncOpener, policy: str | None, reads: str
    ) -> None:
        """The mistake shows at the first offer, in development, and not after the first crash; so it does under a policy."""
        outside = CountingWorld()

        async def saving(run: AsyncRun) -> None:
            await run.act(tool(outside.seen), 1)
            if reads == "late":
                assert run.restored is None
            await run.checkpoint({"did": 1})

        async with await opener() as store:
            refused = await driven(store, program(saving, checkpoint=policy))
            assert (type(refused), refused.code) == (Failed, "Refused")
            assert {"never": "never reads run.restored", "late": "only after effect"}[reads] in refused.message
            assert "`state = run.restored or" in refused.message
            assert ((await store.runs())[0].record.cuts, outside.calls) == (0, [1])

    @pytest.mark.parametrize("acts", ["an effect", "a batch", "a child", "atomically", "an ask", "a signal"])
    async def test_a_resumed_run_that_acts_before_it_reads_its_state_is_parked(
        self, opener: AsyncOpener, acts: str
    ) -> None:
        """Its program was changed meanwhile, or an older version let it be cut: nothing is done, and it says what to write."""
        outside, mood = CountingWorld(), "fails"
        send = tool(name="send")(lambda n: outside.seen(n + 0))
        child = agent(name="child of a cut run")(outside.seen)

        async def doing(run: AsyncRun) -> None:
            if acts == "a batch":
                await run.respond(lambda: {"calls": [Call("a", "send", {"n": 1})]}, tools=[send])
            elif acts == "a child":
                await run.start(child)
            elif acts == "atomically":
                await run.atomic(lambda tx: tx.session("s").say("user", "again").seq)
            elif acts in ("an ask", "a signal"):
                await (run.ask("Again?") if acts == "an ask" else run.wait("again"))
            else:
                await run.act(send, 1)

        async def saving(run: AsyncRun) -> Any:
            if mood == "acts":
                assert await run.step(str, 1) == "1"  # a step repeats no external call
                await doing(run)
            if run.restored is None:
                await run.checkpoint({"did": 1})
            if mood == "fails":
                raise ValueError("not yet")
            return [run.restored, await run.step(str, 1)]

        own_agent = program(saving)
        async with await opener() as store:
            assert type(await driven(store, own_agent)) is Failed
            mood = "acts"
            (handle,) = await store.runs()
            await handle.retry()
            parked = await driven(store, own_agent)
            assert (type(parked), parked.facts["reason"]) == (Parked, "unread")
            assert "before it reads run.restored" in parked.message
            assert "`state = run.restored or" in parked.hint
            assert (outside.calls, await store.sessions(), len(await store.runs())) == ([], [], 1)
            mood = "ends"
            await handle.resume()
            assert await store.drive(own_agent, key="k") == [{"did": 1}, "1"]
            assert (await store.verify()).ok
