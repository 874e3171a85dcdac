"""`DurableRunner`: doubt pauses a run as the framework's own approvals do; answers stream; tools of MCP servers are ledgered."""

from __future__ import annotations

import asyncio
import json
import threading
from contextlib import suppress
from functools import partial
from types import SimpleNamespace

import pytest

pytest.importorskip("agents", reason="openai-agents is not installed: `tools/adapters.py together` has all frameworks")

from agents import Agent, Model, ModelResponse, ModelSettings, Runner, Usage, function_tool
from agents.mcp import MCPServer
from agents.retry import ModelRetrySettings
from mcp.types import CallToolResult, TextContent, Tool
from openai.types.responses import (
    Response,
    ResponseCompletedEvent,
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
    ResponseTextDeltaEvent,
)

import perdure
from perdure.errors import Failed, InDoubt, Invalid, Unavailable
from perdure_adapters.openai_agents import DurableRunner, PerdureSession, durable_function_tool


class LineIsDead(Exception):
    """The tool cannot tell whether its request arrived."""


class Scripted(Model):
    """Calls every tool of a list at once, then answers with their outputs. Ids of calls are new with every answer."""

    def __init__(self, *calls):
        self.calls = calls
        self.asked = 0

    async def get_response(self, system_instructions, input, *args, **kwargs):  # noqa: A002
        self.asked += 1
        given = [item["output"] for item in input if item.get("type") == "function_call_output"]
        outputs = [each if isinstance(each, str) else each[0]["text"] for each in given]
        output = [said(" | ".join(outputs))] if outputs else [
            call(f"call_{self.asked}_{at}", tool, args) for at, (tool, args) in enumerate(self.calls)
        ]  # fmt: skip
        return ModelResponse(output=output, usage=Usage(requests=1), response_id=None)

    async def stream_response(self, system_instructions, input, *args, **kwargs):  # noqa: A002
        answer = await self.get_response(system_instructions, input)
        delta = {"item_id": "m", "output_index": 0, "content_index": 0, "logprobs": [], "sequence_number": 0}
        yield ResponseTextDeltaEvent(type="response.output_text.delta", delta="…", **delta)
        about = {
            "created_at": 0,
            "model": "m",
            "object": "response",
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
        }
        response = Response(id="r", output=answer.output, **about)
        yield ResponseCompletedEvent(type="response.completed", sequence_number=1, response=response)


def call(call_id, tool, args):
    return ResponseFunctionToolCall(call_id=call_id, name=tool, arguments=json.dumps(args), type="function_call")


def said(text):
    content = [ResponseOutputText(text=text, type="output_text", annotations=[])]
    return ResponseOutputMessage(id="m", content=content, role="assistant", status="completed", type="message")


@pytest.fixture
def world(tmp_path):
    with perdure.open(f"sqlite:///{tmp_path}/agent.db") as store:
        yield SimpleNamespace(store=store, session=PerdureSession("s", store), paid=[], dead=True)


def payer(world, model):
    def pay(invoice: str) -> str:
        """Pay."""
        world.paid.append(invoice)
        if world.dead and invoice == "a":
            raise LineIsDead
        return f"paid {invoice}"

    return Agent(name="payer", model=model, tools=[durable_function_tool(pay)])


def run(world, agent, given="pay", **options):
    return asyncio.run(DurableRunner.run(agent, given, session=world.session, key="r", **options))


def test_doubt_pauses_the_run_and_the_other_calls_are_carried_out(world):
    model = Scripted(("pay", {"invoice": "a"}), ("pay", {"invoice": "b"}))
    result = run(world, payer(world, model))
    assert [item.tool_name for item in result.interruptions] == ["pay"]
    assert json.loads(result.interruptions[0].raw_item.arguments) == {"invoice": "a"}
    assert sorted(world.paid) == ["a", "b"]
    assert model.asked == 1
    assert [each.state.value for each in world.store.effects(tool="pay")].count("in_doubt") == 1


def test_settled_by_a_person_it_goes_on_with_the_same_key(world):
    model = Scripted(("pay", {"invoice": "a"}), ("pay", {"invoice": "b"}))
    run(world, payer(world, model))
    [doubt] = world.store.effects(state="in_doubt")
    doubt.settle(perdure.Happened("paid a, the bank says"))
    assert run(world, payer(world, model)).final_output == "paid a, the bank says | paid b"
    assert (sorted(world.paid), model.asked) == (["a", "b"], 2)


@pytest.mark.parametrize("as_text", [False, True])
def test_an_approval_calls_it_once_more_and_a_second_doubt_asks_again(world, as_text):
    model = Scripted(("pay", {"invoice": "a"}), ("pay", {"invoice": "b"}))
    agent = payer(world, model)

    def approved(result):
        state = result.to_state()
        if as_text:  # as it goes through a queue
            state = asyncio.run(state.from_string(agent, state.to_string()))
        for item in state.get_interruptions():
            state.approve(item)
        return state

    first = approved(run(world, agent))
    second = run(world, agent, first)  # the line is still dead
    assert len(second.interruptions) == 1
    assert sorted(world.paid) == ["a", "a", "b"]
    again = run(world, agent, first)  # the old approval was for the first attempt, and is used up
    assert len(again.interruptions) == 1
    assert sorted(world.paid) == ["a", "a", "b"]
    world.dead = False
    assert run(world, agent, approved(second)).final_output == "paid a | paid b"
    assert sorted(world.paid) == ["a", "a", "a", "b"]
    assert run(world, agent).final_output == "paid a | paid b"
    assert model.asked == 2


def late_payer(world, free, *, is_async):
    """Pays after its time, once it may, and the line dies: it goes on when it is given up, in a thread or as a task."""

    async def pay(invoice: str) -> str:
        """Pay."""
        while not free.is_set():
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(0.01)
        world.paid.append(invoice)
        raise LineIsDead

    def pay_in_thread(invoice: str) -> str:
        """Pay."""
        assert free.wait(60)
        world.paid.append(invoice)
        raise LineIsDead

    paying = durable_function_tool(pay if is_async else pay_in_thread, timeout=0.05, name_override="pay")
    return Agent(name="payer", model=Scripted(("pay", {"invoice": "a"})), tools=[paying])


async def until_quiet(store):
    for _ in range(1200):
        [effect] = store.effects(tool="pay")
        if effect.record.quiet_at is not None:
            return
        await asyncio.sleep(0.05)
    raise AssertionError("its sender never came to its end")


def approved(result):
    state = result.to_state()
    for item in state.get_interruptions():
        state.approve(item)
    return state


@pytest.mark.parametrize("is_async", [False, True])
def test_an_approval_from_before_the_senders_end_is_none_after_it(world, is_async):
    free = threading.Event()
    agent = late_payer(world, free, is_async=is_async)

    async def story():
        go = partial(DurableRunner.run, agent, session=world.session, key="r")
        paused = await go("pay")
        early = await go(approved(paused))  # its sender may still send: the approval is not believed
        assert (len(early.interruptions), world.paid) == (1, [])
        free.set()
        await until_quiet(world.store)
        late = [await go("pay"), await go(approved(paused)), await go(approved(early))]
        assert ([len(each.interruptions) for each in late], world.paid) == ([1, 1, 1], ["a"])
        # The control: a person who has looked since is believed.
        assert len((await go(approved(late[-1]))).interruptions) == 1
        assert world.paid == ["a", "a"]

    try:
        asyncio.run(story())
    finally:
        free.set()


class Looking(Scripted):
    """Looks, pays, looks again, one after another."""

    async def get_response(self, system_instructions, input, *args, **kwargs):  # noqa: A002
        self.asked += 1
        done = sum(item.get("type") == "function_call_output" for item in input)
        output = call(f"call_{done}", *self.calls[done]) if done < len(self.calls) else said("seen")
        return ModelResponse(output=[output], usage=Usage(requests=1), response_id=None)


def test_a_run_that_paused_keeps_the_results_of_reading_tools_once(world):
    def look(at: int) -> str:
        """Look."""
        return f"seen {at}"

    def agent():
        made = payer(world, Looking(("look", {"at": 0}), ("pay", {"invoice": "a"}), ("look", {"at": 1})))
        made.tools.append(durable_function_tool(look, kind="read"))
        return made

    assert len(run(world, agent()).interruptions) == 1
    [doubt] = world.store.effects(state="in_doubt")
    doubt.settle(perdure.Happened("paid a"))
    assert run(world, agent()).final_output == "seen"
    items = asyncio.run(world.session.get_items())
    outputs = [item["output"] for item in items if item.get("type") == "function_call_output"]
    assert outputs == ["seen 0", "paid a", "seen 1"]
    assert run(world, agent()).final_output == "seen"


def test_a_rejection_answers_the_model_and_leaves_the_doubt(world):
    model = Scripted(("pay", {"invoice": "a"}))
    state = run(world, payer(world, model)).to_state()
    state.reject(state.get_interruptions()[0], rejection_message="we ask the bank")
    assert run(world, payer(world, model), state).final_output == "we ask the bank"
    assert run(world, payer(world, model)).final_output == "we ask the bank"
    assert (world.paid, model.asked) == (["a"], 2)
    assert len(world.store.effects(state="in_doubt")) == 1


def test_approvals_of_the_framework_itself_are_kept(world):
    model = Scripted(("pay", {"invoice": "b"}))

    def agent():
        made = payer(world, model)
        made.tools[0].needs_approval = True
        return made

    result = run(world, agent())
    assert (len(result.interruptions), world.paid) == (1, [])
    state = result.to_state()
    state.approve(state.get_interruptions()[0])
    assert run(world, agent(), state).final_output == "paid b"
    assert run(world, agent()).final_output == "paid b"  # as after a crash: decided once
    assert (world.paid, model.asked) == (["b"], 2)


def test_a_state_of_another_run_is_refused(world):
    model = Scripted(("pay", {"invoice": "a"}))
    state = run(world, payer(world, model)).to_state()
    with pytest.raises(Invalid, match="no pause of this run"):
        asyncio.run(DurableRunner.run(payer(world, model), state, session=world.session, key="another"))


async def streamed(world, agent):
    result = await DurableRunner.run_streamed(agent, "pay", session=world.session, key="r")
    kinds = [event.data.type async for event in result.stream_events() if event.type == "raw_response_event"]
    return result, kinds


def test_an_answer_streams_and_a_recorded_one_comes_whole(world):
    world.dead = False
    model = Scripted(("pay", {"invoice": "a"}))
    result, kinds = asyncio.run(streamed(world, payer(world, model)))
    assert result.final_output == "paid a"
    assert kinds == ["response.output_text.delta", "response.completed"] * 2
    result, kinds = asyncio.run(streamed(world, payer(world, model)))
    assert (result.final_output, kinds) == ("paid a", ["response.completed"] * 2)
    assert run(world, payer(world, model)).final_output == "paid a"
    assert (world.paid, model.asked) == (["a"], 2)


def test_doubt_in_a_stream_is_raised_and_pauses_the_next_one(world):
    model = Scripted(("pay", {"invoice": "a"}))
    with pytest.raises(InDoubt):
        asyncio.run(streamed(world, payer(world, model)))
    result, _ = asyncio.run(streamed(world, payer(world, model)))
    assert len(result.interruptions) == 1
    assert (world.paid, model.asked) == (["a"], 1)


class Server(MCPServer):
    """A server in this process whose one tool pays."""

    def __init__(self, paid):
        super().__init__()
        self.paid = paid

    name = "bank"

    async def connect(self): ...

    async def cleanup(self): ...

    async def list_tools(self, run_context=None, agent=None):
        return [
            Tool(
                name="pay",
                description="Pay",
                inputSchema={"type": "object", "properties": {"invoice": {"type": "string"}}},
            )
        ]

    async def call_tool(self, tool_name, arguments, meta=None):
        self.paid.append(arguments["invoice"])
        return CallToolResult(content=[TextContent(type="text", text=f"paid {arguments['invoice']}")])

    async def list_prompts(self): ...

    async def get_prompt(self, name, arguments=None): ...


def test_the_tools_of_an_mcp_server_go_through_the_ledger(world):
    model = Scripted(("pay", {"invoice": "a"}))
    agent = Agent(name="payer", model=model, mcp_servers=[Server(world.paid)])
    first = run(world, agent)
    assert "paid a" in first.final_output
    assert run(world, agent).final_output == first.final_output
    assert (world.paid, model.asked) == (["a"], 2)
    [effect] = world.store.effects(tool="pay")
    assert (effect.record.kind, effect.state) == ("unsafe", "committed")


def test_control_the_framework_alone_calls_the_server_again(world):
    agent = Agent(name="payer", model=Scripted(("pay", {"invoice": "a"})), mcp_servers=[Server(world.paid)])
    for _ in range(2):
        agent.model.asked = 0
        asyncio.run(Runner.run(agent, "pay"))
    assert world.paid == ["a", "a"]


def test_a_plain_tool_turns_its_error_into_a_result(world):
    def pay(invoice: str) -> str:
        """Pay."""
        world.paid.append(invoice)
        raise LineIsDead

    agent = Agent(name="payer", model=Scripted(("pay", {"invoice": "a"})), tools=[function_tool(pay)])
    assert run(world, agent).final_output == run(world, agent).final_output
    assert world.paid == ["a"]


# -- a model that is away ----------------------------------------------------------------------------------------------


class ModelIsAway(Exception):
    """The provider is overloaded, or the connection broke."""


class Flaky(Scripted):
    """Fails at some of its calls, by their numbers from 1."""

    def __init__(self, *calls, away=(), error=ModelIsAway):
        super().__init__(*calls)
        self.away = away
        self.error = error

    async def get_response(self, system_instructions, input, *args, **kwargs):  # noqa: A002
        if self.asked + 1 in self.away:
            self.asked += 1
            raise self.error
        return await super().get_response(system_instructions, input, *args, **kwargs)


@pytest.mark.parametrize("away", [{1}, {2}, {1, 2, 4, 5}])
def test_an_outage_of_the_model_does_not_spend_the_key(world, away):
    world.dead = False
    model = Flaky(("pay", {"invoice": "a"}), away=away)
    for _ in away:
        with pytest.raises(ModelIsAway):  # the model's own error, as the framework alone would raise it
            run(world, payer(world, model))
    assert run(world, payer(world, model)).final_output == "paid a"
    assert run(world, payer(world, model)).final_output == "paid a"
    assert (world.paid, model.asked) == (["a"], 2 + len(away))  # each answer that came was asked for once
    assert [each.state.value for each in world.store.effects(tool="openai.model")] == ["committed"] * 2


def test_an_outage_in_a_stream_does_not_spend_the_key(world):
    world.dead = False
    model = Flaky(("pay", {"invoice": "a"}), away={2})
    with pytest.raises(ModelIsAway):
        asyncio.run(streamed(world, payer(world, model)))
    result, _ = asyncio.run(streamed(world, payer(world, model)))
    assert (result.final_output, world.paid, model.asked) == ("paid a", ["a"], 3)


def test_a_stream_that_breaks_off_does_not_spend_the_key(world):
    class Breaks(Scripted):
        async def stream_response(self, *args, **kwargs):
            async for event in super().stream_response(*args, **kwargs):
                if self.asked > 1 or event.type != "response.completed":
                    yield event

    world.dead = False
    model = Breaks(("pay", {"invoice": "a"}))
    with pytest.raises(Unavailable, match="broke off"):
        asyncio.run(streamed(world, payer(world, model)))
    result, _ = asyncio.run(streamed(world, payer(world, model)))
    assert (result.final_output, world.paid) == ("paid a", ["a"])


def test_a_model_that_hangs_and_is_cancelled_does_not_spend_the_key(world):
    class Hangs(Scripted):
        async def get_response(self, *args, **kwargs):
            if self.asked < 7:
                self.asked += 1
                raise asyncio.CancelledError
            return await super().get_response(*args, **kwargs)

    world.dead = False
    model = Hangs(("pay", {"invoice": "a"}))
    for _ in range(7):
        with pytest.raises(asyncio.CancelledError):
            run(world, payer(world, model))
    assert run(world, payer(world, model)).final_output == "paid a"
    assert world.paid == ["a"]


def test_retries_of_the_framework_get_the_answer_of_their_place(world):
    world.dead = False
    model = Flaky(("pay", {"invoice": "a"}), away={1, 3})
    settings = ModelSettings(
        retry=ModelRetrySettings(max_retries=2, backoff={"initial_delay": 0}, policy=lambda _: True)
    )
    agent = payer(world, model).clone(model_settings=settings)
    assert run(world, agent).final_output == "paid a"
    assert (world.paid, model.asked) == (["a"], 4)
    assert run(world, agent).final_output == "paid a"
    assert (world.paid, model.asked) == (["a"], 4)


def test_control_a_guard_that_refuses_the_model_is_not_asked_around(tmp_path):
    def broke(intent, _actor):
        return perdure.Refuse("the budget is spent") if intent.tool == "openai.model" else None

    with perdure.open(f"sqlite:///{tmp_path}/guarded.db", guards=[broke]) as store:
        world = SimpleNamespace(store=store, session=PerdureSession("s", store), paid=[], dead=False)
        model = Scripted(("pay", {"invoice": "a"}))
        for _ in range(2):
            with pytest.raises(Failed, match="the budget is spent"):
                run(world, payer(world, model))
        assert (model.asked, world.paid) == (0, [])


def test_control_a_tool_that_says_no_is_not_called_again(world):
    def pay(invoice: str) -> str:
        """Pay."""
        world.paid.append(invoice)
        raise Failed("no such invoice")

    agent = Agent(name="payer", model=Scripted(("pay", {"invoice": "a"})), tools=[durable_function_tool(pay)])
    for _ in range(2):
        with pytest.raises(Exception, match="no such invoice"):
            run(world, agent)
    assert world.paid == ["a"]
