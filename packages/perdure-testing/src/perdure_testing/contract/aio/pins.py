"""The contract of pins: the versions under which a run works are recorded, and a change of them is noticed (P13)."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

from perdure.effects.tool import Tool, tool
from perdure.errors import Changed, Failed, Invalid, Waiting
from perdure.handles.aio.run import AsyncRun
from perdure.handles.aio.run_handle import AsyncRunHandle
from perdure.handles.aio.store import AsyncStore
from perdure.model.records.runs import RunStatus
from perdure.runtime.agent import Agent
from perdure_testing.contract.aio.effects import CountingWorld
from perdure_testing.contract.aio.runs import driven, program
from perdure_testing.openers import AsyncOpener

M1, M2, M3 = ({"model": model, "prompt": f"p-{model}"} for model in ("m1", "m2", "m3"))
CHANGED = {"model": ["m1", "m2"], "prompt": ["p-m1", "p-m2"]}
SAID = "model m1 → m2, prompt p-m1 → p-m2"
KIND = "run.versions_changed"


class PinnedWorld:
    """An agent that acts, asks and acts again, as its deploys have it."""

    def __init__(self) -> None:
        self.outside = CountingWorld()
        self.send: Tool = tool(name="send")(self._sent)

    async def _sent(self, text: str) -> Any:
        return self.outside.seen(text)

    async def work(self, run: AsyncRun) -> str:
        """The program, which no deploy changes."""
        await run.act(self.send, "first")
        reply = await run.ask("Go on?")
        await run.act(self.send, "second")
        return reply

    def deployed(self, pins: dict[str, Any] | None, on_change: Any = None) -> Agent:
        """The agent under these pins."""
        return program(self.work, pins=pins, on_change=on_change)


async def begun(store: AsyncStore, agent: Agent, **options: Any) -> AsyncRunHandle:
    """A run that has begun under these pins, and whose question was answered."""
    assert type(await driven(store, agent, **options)) is Waiting
    (ask,) = await store.asks()
    await store.answer(ask.id, "yes")
    return (await store.runs())[0]


async def changes(store: AsyncStore) -> list[Any]:
    """The documents of the events about changes, oldest first."""
    return [event.data for event in reversed(list(await store.events(kind=KIND)))]


class AsyncPinsContract:
    """`pins=` and `on_change=` of agents, and `session.pin`, in runs."""

    async def test_the_versions_of_an_agent_stand_in_the_run_its_events_and_its_envelope(
        self, opener: AsyncOpener
    ) -> None:
        world = PinnedWorld()
        pins = {"model": "m1", "tools": {"git": 2, "mail": "v3"}, "prompt": "x" * 1_000, "nothing": None}
        async with await opener() as store:
            handle = await store.start(world.deployed(pins), key="k")
            versions = handle.record.pins
            assert versions["prompt"].startswith("sha256:")
            assert {**versions, "prompt": ""} == {"model": "m1", "tools.git": "2", "tools.mail": "v3", "prompt": ""}
            handle = await begun(store, world.deployed(pins))
            assert handle.record.pins == versions
            assert handle.record.pins_change is None
            assert (await handle.envelope()).pins == versions
            assert (await handle.envelope()).run.pins == versions
            carrying = [
                event.kind for event in await handle.timeline(last=100) if event.kind in ("run.started", "run.claimed")
            ]
            assert carrying == ["run.started", "run.claimed"]
            rows = await store.query("SELECT run, pins FROM v_runs")
            assert "tools.git" in str(rows[0]["pins"])
            assert not await changes(store)

    async def test_the_pins_of_a_session_are_those_of_its_runs_and_an_agent_goes_before(
        self, opener: AsyncOpener
    ) -> None:
        world = PinnedWorld()
        async with await opener() as store:
            session = await store.session("s", pins={"model": "m1", "commit": "abc"})
            handle = await begun(store, world.deployed({"prompt": "p1"}), session="s")
            assert handle.record.pins == {"model": "m1", "commit": "abc", "prompt": "p1"}
            await session.pin(model="m2")
            assert await store.drive(world.deployed({"prompt": "p1", "commit": "own"}), key="k", session="s") == "yes"
            record = (await handle.refresh()).record
            assert record.pins == {"model": "m2", "commit": "own", "prompt": "p1"}
            assert record.pins_change is not None
            assert record.pins_change.moved == {"model": ["m1", "m2"], "commit": ["abc", "own"]}

    async def test_continue_is_the_default_and_one_event_says_what_changed(self, opener: AsyncOpener) -> None:
        world = PinnedWorld()
        async with await opener() as store:
            handle = await begun(store, world.deployed(M1))
            assert await store.drive(world.deployed(M2), key="k") == "yes"
            record = (await handle.refresh()).record
            assert (record.status, record.pins) == (RunStatus.COMPLETED, M2)
            assert record.pins_change is not None
            assert (record.pins_change.moved, record.pins_change.decision) == (CHANGED, "continued")
            assert [change["moved"] for change in await changes(store)] == [CHANGED]
            assert (world.outside.count, (await store.verify()).ok) == (2, True)

    async def test_versions_that_stay_are_not_written_again(self, opener: AsyncOpener) -> None:
        world = PinnedWorld()
        async with await opener() as store:
            handle = await begun(store, world.deployed(M1))
            await store.drive(world.deployed(M1), key="k")
            (last, first) = await store.events(kind="run.claimed")
            assert first.seq < last.seq
            assert "pins" not in str(await handle.timeline(last=100)).replace("pins_", "").split("run.claimed")[-1]
            assert not await changes(store)

    async def test_unknown_versions_differ(self, opener: AsyncOpener) -> None:
        world = PinnedWorld()
        async with await opener() as store:
            handle = await begun(store, world.deployed(M1, "park"))
            silent = await driven(store, world.deployed(None))
            assert type(silent) is Changed  # it says nothing of a policy: the one that the run has holds
            record = (await handle.refresh()).record
            assert (record.status, record.pins) == (RunStatus.PARKED, M1)
            assert record.pins_change is not None
            assert record.pins_change.moved == {"model": ["m1", None], "prompt": ["p-m1", None]}
            assert "model m1 → unknown" in str(record.error)
            assert world.outside.count == 1

    async def test_nothing_was_done_under_versions_that_nobody_knew_at_the_start(self, opener: AsyncOpener) -> None:
        world = PinnedWorld()
        async with await opener() as store:
            await store.start(world.deployed(None), key="k")
            handle = await begun(store, world.deployed(M1, "park"))
            assert (handle.record.pins, handle.record.pins_change) == (M1, None)

    async def test_park_parks_and_resume_takes_the_new_versions_over(self, opener: AsyncOpener) -> None:
        world = PinnedWorld()
        async with await opener() as store:
            handle = await begun(store, world.deployed(M1, "park"))
            for _ in range(2):  # also when it is tried again in vain
                parked = await driven(store, world.deployed(M2, "park"))
                assert type(parked) is Changed
                assert SAID in parked.message
                assert all(way in parked.hint for way in ("perdure resume", "perdure pin"))
            record = (await handle.refresh()).record
            assert (record.status, record.reason, record.pins, world.outside.count) == ("parked", "changed", M1, 1)
            await handle.resume()
            change = handle.record.pins_change
            assert change is not None
            assert (change.decision, handle.record.pins) == ("accepted", M1)
            assert await store.drive(world.deployed(M2, "park"), key="k") == "yes"
            assert (await handle.refresh()).record.pins == M2
            assert [change["moved"] for change in await changes(store)] == [CHANGED]
            assert (world.outside.count, (await store.verify()).ok) == (2, True)

    async def test_a_parked_run_continues_under_its_own_versions_too(self, opener: AsyncOpener) -> None:
        world = PinnedWorld()
        async with await opener() as store:
            handle = await begun(store, world.deployed(M1, "park"))
            assert type(await driven(store, world.deployed(M2, "park"))) is Changed
            await handle.resume()
            assert await store.drive(world.deployed(M1, "park"), key="k") == "yes"
            assert (await handle.refresh()).record.pins == M1
            assert not await changes(store)

    async def test_what_was_accepted_holds_for_these_versions_alone(self, opener: AsyncOpener) -> None:
        world = PinnedWorld()
        async with await opener() as store:
            handle = await begun(store, world.deployed(M1, "park"))
            assert type(await driven(store, world.deployed(M2, "park"))) is Changed
            await handle.resume()
            parked = await driven(store, world.deployed(M3, "park"))
            assert type(parked) is Changed
            assert "model m1 → m3" in parked.message

    async def test_ask_asks_a_person_once_and_the_answer_counts_once(self, opener: AsyncOpener) -> None:
        world = PinnedWorld()
        async with await opener() as store:
            handle = await begun(store, world.deployed(M1, "ask"))
            for _ in range(2):
                assert type(await driven(store, world.deployed(M2, "ask"))) is Waiting
            (ask,) = await store.asks()
            assert SAID in ask.question
            assert ask.choices == ("continue", "park")
            with pytest.raises(Invalid):
                await store.answer(ask.id, "yes")
            await store.answer(ask.id, "continue", by="alice")
            assert await store.drive(world.deployed(M2, "ask"), key="k") == "yes"
            record = (await handle.refresh()).record
            assert record.pins == M2
            assert record.pins_change is not None
            assert record.pins_change.decision == "accepted"
            assert [change["moved"] for change in await changes(store)] == [CHANGED]
            assert (world.outside.count, (await store.verify()).ok) == (2, True)

    async def test_ask_again_for_another_change_and_not_when_it_is_rolled_back(self, opener: AsyncOpener) -> None:
        world = PinnedWorld()

        async def thrice(run: AsyncRun) -> list[str]:
            return [await run.ask(f"{number}?") for number in range(3)]

        def deployed(pins: dict[str, Any]) -> Agent:
            return program(thrice, pins=pins, on_change="ask")

        async def question(pins: dict[str, Any]) -> Any:
            assert type(await driven(store, deployed(pins))) is Waiting
            return (await store.asks())[0]

        async with await opener() as store:
            await store.answer((await question(M1)).id, "a")
            first = await question(M2)
            await (await store.runs())[0].resume()
            back = await question(M1)  # rolled back: the question about versions is withdrawn
            await (await store.runs())[0].resume()
            assert (back.question, [ask.id for ask in await store.asks()]) == ("1?", [back.id])
            again = await question(M2)
            assert again.id != first.id
            await store.answer(again.id, "continue")
            assert (await question(M2)).question == "1?"
            await (await store.runs())[0].resume()
            other = await question(M1)  # back once more: that is another change, and it is asked about
            assert "model m2 → m1" in other.question
            await store.answer(other.id, "continue")
            await store.answer((await question(M1)).id, "b")
            fresh = await question(M2)  # the first answer to this was used up
            assert fresh.id not in (first.id, again.id)
            assert world.outside.count == 0

    async def test_an_answer_may_be_to_park(self, opener: AsyncOpener) -> None:
        world = PinnedWorld()
        async with await opener() as store:
            handle = await begun(store, world.deployed(M1, "ask"))
            assert type(await driven(store, world.deployed(M2, "ask"))) is Waiting
            await store.answer((await store.asks())[0].id, "park")
            for policy in ("continue", "ask"):  # a person's word goes before the policy of a later deploy
                assert type(await driven(store, world.deployed(M2, policy))) is Changed
            await handle.resume()
            assert await store.drive(world.deployed(M2, "ask"), key="k") == "yes"

    @pytest.mark.parametrize("on_change", ["park", "ask"])
    async def test_a_run_that_is_to_end_ends(self, opener: AsyncOpener, on_change: str) -> None:
        world, undone = PinnedWorld(), CountingWorld()

        async def unsend(text: str) -> None:
            undone.seen(text)

        sent = tool(name="sent", undo=tool(kind="idempotent", name="unsend")(unsend))(world._sent)

        async def work(run: AsyncRun) -> None:
            async with run.saga():
                await run.act(sent, "first")
                await run.ask("Go on?")

        async with await opener() as store:
            assert type(await driven(store, program(work, pins=M1, on_change=on_change))) is Waiting
            (handle,) = await store.runs()
            await handle.cancel()
            await driven(store, program(work, pins=M2, on_change=on_change))
            assert ((await handle.refresh()).status, undone.count) == ("cancelled", 1)

    async def test_an_open_question_does_not_keep_a_run_from_its_end(self, opener: AsyncOpener) -> None:
        async def work(run: AsyncRun) -> str:
            return await run.ask("Go on?")

        async with await opener() as store:
            handle = await begun(store, program(work, pins=M1, on_change="ask", timeout="1h"))
            agent = program(work, pins=M2, on_change="ask", timeout="1h")
            assert type(await driven(store, agent)) is Waiting
            opener.clock.advance(3_700)
            await driven(store, agent)
            assert ((await handle.refresh()).status, len(await store.asks())) in (("failed", 0), ("completed", 0))

    async def test_a_fork_has_the_versions_of_its_past(self, opener: AsyncOpener) -> None:
        world = PinnedWorld()
        async with await opener() as store:
            handle = await begun(store, world.deployed(M1))
            await store.drive(world.deployed(M2), key="k")
            (opening,) = [event for event in await handle.timeline(last=100) if event.kind == "ask.opened"]
            forked = await handle.fork(opening.seq, "no")
            assert forked.record.pins == M1
            await store.recover(agents=[world.deployed(M2)])
            assert (await forked.refresh()).record.pins == M2

    async def test_a_child_has_versions_of_its_own(self, opener: AsyncOpener) -> None:
        async def small(run: AsyncRun) -> str:
            return await run.ask("Well?")

        def child(model: str) -> Agent:
            return program(small, pins={"model": model})

        async with await opener() as store:
            for model in ("m1", "m2"):
                one = child(model)

                async def work(run: AsyncRun, one: Agent = one) -> Any:
                    return await (await run.start(one)).result()

                agent = Agent(work, "parent", one.policy, timeout=None, limit=None, workspace=None, pins=M1)
                with contextlib.suppress(Waiting, Failed):
                    await store.drive(agent, key="p")
                for ask in await store.asks():
                    await store.answer(ask.id, "yes")
            parent = (await store.runs(agent="parent"))[0].record
            own = (await store.runs(agent="a"))[0].record
            assert (parent.pins, parent.pins_change) == (M1, None)
            assert own.pins_change is not None
            assert own.pins_change.moved == {"model": ["m1", "m2"]}

    async def test_an_adopted_run_takes_its_versions_along(self, opener: AsyncOpener) -> None:
        world = PinnedWorld()
        async with await opener() as store:
            await store.session("s", pins={"commit": "abc"})
            handle = await begun(store, world.deployed(M1, "park"), session="s")
            envelope = await handle.hand_over()
            luggage = await store.artifacts_of(envelope)
        async with await AsyncOpener("memory:")(clock=opener.clock) as other:
            adopted = await other.adopt(type(envelope).from_json(envelope.to_json()), luggage)
            assert adopted.record.pins == {**M1, "commit": "abc"}
            assert type(await driven(other, world.deployed(M2))) is not Changed or adopted.record.on_change == "park"
            record = (await adopted.refresh()).record
            assert record.pins_change is not None
            assert record.pins_change.moved == CHANGED
            await adopted.resume()
            assert await other.drive(world.deployed(M1, "park"), key="k", session="s") == "yes"
            assert (world.outside.count, (await other.verify()).ok) == (2, True)

    async def test_runs_are_listed_by_a_version(self, opener: AsyncOpener) -> None:
        async def work(_run: AsyncRun) -> int:
            return 1

        async with await opener() as store:
            for number, model in enumerate(("m1", "m2", "m1")):
                await store.drive(program(work, pins={"model": model, "tools": {"git": "2"}}), key=str(number))
            assert [run.record.key for run in await store.runs(version="model=m1")] == ["2", "0"]
            assert [run.record.key for run in await store.runs(version="tools.git=2", agent="a")] == ["2", "1", "0"]
            page = await store.runs(version="model=m1", limit=1)
            assert page.next is not None
            assert [run.record.key for run in await store.runs(version="model=m1", after=page.next)] == ["0"]
            assert not list(await store.runs(version="model=m3"))
            assert not list(await store.runs(version="model=m1", errors=True))
            for wrong in ("model", "=m1", "model=", ""):
                with pytest.raises(Invalid) as refused:
                    await store.runs(version=wrong)
                assert refused.value.path == "version"

    @pytest.mark.parametrize(
        ("declared", "path"),
        [
            ({"pins": {"a": "x\0"}}, "pins.a"),
            ({"pins": {"": "x"}}, "pins"),
            ({"pins": {"tools.git": "1", "tools": {"git": "2"}}}, "pins.tools.git"),
            ({"pins": {"tools": {"x" * 300: "2"}}}, "pins.tools"),
            ({"pins": {str(number): "1" for number in range(2_000)}}, "pins"),
            ({"on_change": "stop"}, "on_change"),
            ({"on_change": 5}, "on_change"),
        ],
    )  # fmt: skip
    async def test_bad_pins_are_refused_with_their_path(
        self, opener: AsyncOpener, declared: dict[str, Any], path: str
    ) -> None:
        async def work(_run: AsyncRun) -> int:
            return 1

        async with await opener():
            with pytest.raises(Invalid) as refused:
                program(work, **declared)
            assert refused.value.path == path
