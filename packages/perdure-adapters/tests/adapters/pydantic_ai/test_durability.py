"""A run of a Pydantic AI agent inside a run of Perdure: answers are asked for once, calls are sent once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

import perdure
from perdure.errors import Failed, Invalid, Waiting

pytest.importorskip(
    "pydantic_ai.durable_exec",
    reason="Pydantic AI is not here: pip install 'perdure[pydantic-ai]'",
    exc_type=ImportError,
)

from pydantic_ai import Agent, ModelRetry, RunContext
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from perdure_adapters.pydantic_ai import PerdureDurability, within

CALLS = [ToolCallPart("charge", {"cents": 5}, "call-1"), ToolCallPart("charge", {"cents": 7}, "call-2")]


class World:
    """An agent of the framework, and what it did."""

    def __init__(self, *calls: ToolCallPart, **about: Any) -> None:
        self.calls = calls or (CALLS[0],)
        self.asked = 0
        self.charged: list[int] = []
        self.breaks: Callable[[], None] = lambda: None
        self.agent = Agent(FunctionModel(self.answer), name="shop", capabilities=[PerdureDurability(**about)])
        self.agent.tool_plain(self.charge)

    async def answer(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        self.asked += 1
        returned = [
            part for part in messages[-1].parts if isinstance(part, ToolReturnPart) and part.outcome == "success"
        ]
        if returned:
            return ModelResponse([TextPart(" ".join(str(part.content) for part in returned))])
        return ModelResponse(list(self.calls))

    async def charge(self, cents: int) -> str:
        """Charge a card."""
        self.charged.append(cents)
        self.breaks()
        return f"charged {cents}"

    def program(self) -> Any:
        @perdure.agent(name="shop")
        async def shop(run: Any, question: str) -> str:
            with within(run):
                first = await self.agent.run(question)
            await run.step(self.after)
            return first.output

        return shop

    async def after(self) -> None:
        self.breaks()


class Death(BaseException):
    """Stands for the end of a process inside this one."""


def die() -> None:
    raise Death


@pytest.fixture
def store(tmp_path: Any) -> Any:
    with perdure.open(f"sqlite:///{tmp_path}/agent.db") as opened:
        yield opened


def drive(store: Any, world: World) -> str:
    async def main() -> str:
        return await store.aio.drive(world.program(), "buy it", key="order-1")

    return asyncio.run(main())


def test_outside_of_a_run_it_is_an_ordinary_agent() -> None:
    world = World()
    assert asyncio.run(world.agent.run("buy it")).output == "charged 5"
    assert (world.asked, world.charged) == (2, [5])


def test_answers_are_steps_and_calls_are_effects(store: Any) -> None:
    world = World(*CALLS)
    assert drive(store, world) == "charged 5 charged 7"
    [run] = store.runs()
    steps, effects = run.steps(), run.effects()
    assert [step.name for step in steps] == ["shop__model.request", "shop__model.request", "after"]
    found = sorted((each.record.args["arguments"]["cents"], each.record.result) for each in effects)
    assert found == [(5, "charged 5"), (7, "charged 7")]


def die_after(world: World) -> None:
    """The process ends when the agent has its answer: all of it is recorded, nothing is returned."""

    async def after() -> None:
        raise Death

    world.after = after  # type: ignore[method-assign]


def test_a_run_that_is_driven_again_asks_and_sends_nothing_twice(store: Any) -> None:
    first, second = World(*CALLS), World(*CALLS)
    die_after(first)
    with pytest.raises(Death):
        drive(store, first)
    assert (first.asked, sorted(first.charged)) == (2, [5, 7])
    assert drive(store, second) == "charged 5 charged 7"
    assert (second.asked, second.charged) == (0, [])


def test_control_without_the_capability_all_of_it_is_done_again(store: Any) -> None:
    first, second = World(*CALLS), World(*CALLS)
    for each in (first, second):
        each.agent = Agent(FunctionModel(each.answer), name="shop", tools=[each.charge])
    die_after(first)
    with pytest.raises(Death):
        drive(store, first)
    drive(store, second)
    assert (second.asked, sorted(second.charged)) == (2, [5, 7])


def test_a_tool_that_says_nothing_and_dies_leaves_doubt_for_a_person(store: Any) -> None:
    first, second = World(), World()
    first.breaks = die
    with pytest.raises(Death):
        drive(store, first)
    with pytest.raises(Waiting):
        drive(store, second)
    [run] = store.runs()
    [effect] = run.effects()
    effect.settle(perdure.Happened("charged, as the bank says"))
    assert drive(store, second) == "charged, as the bank says"
    assert (second.asked, second.charged) == (1, [])


def test_a_tool_whose_repetition_is_harmless_is_called_again(store: Any) -> None:
    first, second = World(kinds={"charge": "idempotent"}), World(kinds={"charge": "idempotent"})
    first.breaks = die
    with pytest.raises(Death):
        drive(store, first)
    assert drive(store, second) == "charged 5"
    assert (first.asked, second.asked, second.charged) == (1, 1, [5])


def test_metadata_says_the_kind(store: Any) -> None:
    world = World(ToolCallPart("look", {}, "call-1"))
    seen: list[str | None] = []

    async def look() -> str:
        seen.append(None)
        return "all there"

    world.agent.tool_plain(metadata={"perdure": "read"})(look)
    assert drive(store, world) == "all there"
    [run] = store.runs()
    assert not run.effects()
    assert [step.name for step in run.steps()] == ["shop__model.request", "look", "shop__model.request", "after"]


@pytest.mark.parametrize("said", [False, {"kind": 7}, "reed"])
def test_metadata_that_means_nothing_is_refused(store: Any, said: Any) -> None:
    world = World(ToolCallPart("look_on", {}, "call-1"))
    world.agent.tool_plain(metadata={"perdure": said})(look_on)
    with pytest.raises((Failed, Invalid), match="expected"):
        drive(store, world)
    assert not world.charged


async def look_on() -> str:
    raise AssertionError("called")


def test_a_declared_tool_brings_its_own_rule(store: Any) -> None:
    asked: list[Any] = []

    def is_charged(cents: int) -> Any:
        asked.append(cents)
        return perdure.Happened(f"charged {cents}, said the probe")

    @perdure.tool(kind="probed", probe=is_charged, name="pay", lands_within=0)
    async def pay(cents: int) -> str:
        raise Death

    calls = ToolCallPart("pay", {"cents": 9}, "call-1")
    first, second = World(calls), World(calls)
    for each in (first, second):
        each.agent.tool_plain(pay.fn)
    with pytest.raises(Death):
        drive(store, first)
    assert drive(store, second) == "charged 9, said the probe"
    assert asked == [9]


def test_control_flow_of_the_framework_is_a_result(store: Any) -> None:
    world = World()
    tries: list[int] = []

    async def fussy(cents: int) -> str:
        tries.append(cents)
        if len(tries) == 1:
            raise ModelRetry("more, please")
        return "enough"

    world.agent = Agent(FunctionModel(world.answer), name="shop", capabilities=[PerdureDurability()])
    world.agent.tool_plain(name="charge", retries=2)(fussy)
    assert drive(store, world) == "enough"
    assert (world.asked, tries) == (3, [5, 5])  # one id comes twice: two calls


def test_a_result_that_is_no_text_stands_bare_in_the_ledger(store: Any) -> None:
    world = World()

    async def structured(cents: int) -> dict[str, Any]:
        return {"charged": cents, "kind": "image-url", "url": "https://example.com/a.png"}  # data, and no file

    world.agent = Agent(FunctionModel(world.answer), name="shop", capabilities=[PerdureDurability()])
    world.agent.tool_plain(name="charge")(structured)
    for _ in range(2):
        assert "image-url" in drive(store, world)
    [effect] = store.effects()
    assert effect.result == {"charged": 5, "kind": "image-url", "url": "https://example.com/a.png"}


def test_text_that_no_store_keeps_as_text_comes_back(store: Any) -> None:
    world = World()

    async def odd(cents: int) -> str:
        return "a\0b\ud800"

    world.agent = Agent(FunctionModel(world.answer), name="shop", capabilities=[PerdureDurability()])
    world.agent.tool_plain(name="charge")(odd)
    seen: list[str] = []

    async def noted(run: Any) -> int:
        with within(run):
            seen.append((await world.agent.run("buy it")).output)
        return len(seen)

    asyncio.run(store.aio.drive(noted))
    assert seen == ["a\0b\ud800"]


def test_agents_side_by_side_find_their_own_places_again(store: Any) -> None:
    worlds = [World(*CALLS), World(ToolCallPart("charge", {"cents": 1}, "call-1"))]
    deaths = [die]

    async def last() -> None:
        if deaths:
            deaths.pop()()

    @perdure.agent(name="both")
    async def both(run: Any) -> list[str]:
        with within(run):
            found = await asyncio.gather(*(each.agent.run("buy it") for each in worlds))
        await run.step(last)
        return [each.output for each in found]

    with pytest.raises(Death):
        asyncio.run(store.aio.drive(both, key="k"))
    assert asyncio.run(store.aio.drive(both, key="k")) == ["charged 5 charged 7", "charged 1"]
    assert [each.asked for each in worlds] == [2, 2]
    assert [sorted(each.charged) for each in worlds] == [[5, 7], [1]]


def test_an_agent_in_a_tool_belongs_to_that_tool(store: Any) -> None:
    inner, outer = World(), World(ToolCallPart("delegate", {}, "call-1"))

    async def delegate(ctx: RunContext[None]) -> str:
        return (await inner.agent.run("buy it")).output

    outer.agent.tool(delegate)
    assert drive(store, outer) == "charged 5"
    [run] = store.runs()
    assert [each.record.tool for each in run.effects()] == ["delegate"]


def test_a_sync_agent_is_told_to_be_async(store: Any) -> None:
    @perdure.agent(name="sync")
    def sync(run: Any) -> None:
        with within(run):
            pass

    with pytest.raises(Failed, match="async agent"):
        store.drive(sync)


class ModelIsAway(Exception):
    """The provider is overloaded, or the connection broke."""


@pytest.mark.parametrize("away", [{1}, {2}, {1, 2, 4, 5}])
def test_an_outage_of_the_model_is_over_when_the_run_is_tried_again(store: Any, away: set[int]) -> None:
    world = World(*CALLS)
    answer = world.answer

    async def flaky(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        if world.asked + 1 in away:
            world.asked += 1
            raise ModelIsAway
        return await answer(messages, info)

    world.agent = Agent(FunctionModel(flaky), name="shop", capabilities=[PerdureDurability()])
    world.agent.tool_plain(world.charge)
    for _ in away:
        with pytest.raises(Failed, match="ModelIsAway"):
            drive(store, world)
        [run] = store.runs()
        run.retry()
    assert drive(store, world) == "charged 5 charged 7"
    assert (world.asked, sorted(world.charged)) == (2 + len(away), [5, 7])


def test_control_a_failed_run_that_nobody_tries_again_stays_failed(store: Any) -> None:
    world = World()

    async def away(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        world.asked += 1
        raise ModelIsAway

    world.agent = Agent(FunctionModel(away), name="shop", capabilities=[PerdureDurability()])
    for _ in range(2):
        with pytest.raises(Failed, match="ModelIsAway"):
            drive(store, world)
    assert world.asked == 1
