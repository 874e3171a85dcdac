"""Tool calls of LangGraph in the ledger: once, refused where that cannot be held, and doubt as LangGraph's own pause."""

from __future__ import annotations

import asyncio
import threading
from typing import Annotated, TypedDict

import pytest

pytest.importorskip("langgraph", reason="langgraph is not installed")

from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import InjectedToolCallId, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.types import Command, interrupt

import perdure
from perdure.errors import Refused, TimedOut
from perdure_adapters.langgraph import PerdureSaver, ledger


class State(TypedDict):
    messages: Annotated[list, add_messages]


class Outside:
    """The outside world: what was sent, and whether sending breaks."""

    def __init__(self):
        self.sent = []
        self.breaks = False

    def tool(self):
        @tool
        def send(to: str) -> str:
            """Send something."""
            self.sent.append(to)
            if self.breaks:
                raise OSError("the line went dead")
            return f"sent to {to}"

        return send


def model(state):
    last = state["messages"][-1]
    if isinstance(last, ToolMessage):
        return {"messages": [AIMessage(f"done: {last.content}")]}
    return {"messages": [AIMessage("", tool_calls=[{"id": "call_1", "name": "send", "args": {"to": last.content}}])]}


def graph(tools, saver, wrappers):
    made = StateGraph(State)
    made.add_node("model", model)
    made.add_node("tools", ToolNode(tools, **wrappers))
    made.add_edge(START, "model")
    made.add_conditional_edges("model", tools_condition)
    made.add_edge("tools", "model")
    return made.compile(checkpointer=saver)


def say(text):
    return {"messages": [HumanMessage(text)]}


CONFIG = {"configurable": {"thread_id": "t"}}


@pytest.fixture
def store(tmp_path):
    with perdure.open(f"sqlite:///{tmp_path}/a.db") as opened:
        yield opened


@pytest.fixture
def outside():
    return Outside()


@pytest.fixture
def app(store, outside):
    return graph([outside.tool()], PerdureSaver(store), ledger(store))


def test_a_call_is_an_effect_of_the_session(store, app, outside):
    assert app.invoke(say("bob"), CONFIG)["messages"][-1].content == "done: sent to bob"
    [effect] = store.effects(tool="send")
    assert (effect.tool, effect.state, outside.sent) == ("send", "committed", ["bob"])
    assert effect.result["content"] == "sent to bob"


def test_ids_that_repeat_are_other_calls(app, outside):
    for who in ("bob", "bob", "eve"):
        app.invoke(say(who), CONFIG)
    assert outside.sent == ["bob", "bob", "eve"]


@pytest.mark.parametrize("gives", ["message", "command", "list"])
def test_a_repeated_call_gets_the_result_under_its_own_id(store, gives):
    """The user sent the message again after a crash, and the model made its call again, under another id."""
    sent = []

    @tool
    def send(to: str, tool_call_id: Annotated[str, InjectedToolCallId]):
        """Send something."""
        sent.append(to)
        message = ToolMessage("sent", tool_call_id=tool_call_id)
        update = {"messages": [message]}
        return {"message": message, "command": Command(update=update), "list": [Command(update=update)]}[gives]

    def call(id_):
        return AIMessage("", id=f"m_{id_}", tool_calls=[{"id": id_, "name": "send", "args": {"to": "bob"}}])

    made = StateGraph(State)
    made.add_node("tools", ToolNode([send], **ledger(store)))
    made.add_edge(START, "tools")
    saver = PerdureSaver(store)

    def dying(stores):
        def until_sent(*about):
            if sent:
                raise OSError("killed before the result was stored")
            return stores(*about)

        return until_sent

    saver.put, saver.put_writes = dying(saver.put), dying(saver.put_writes)
    with pytest.raises(OSError, match="killed"):
        made.compile(checkpointer=saver).invoke({"messages": [call("c1")]}, CONFIG, durability="sync")
    app = made.compile(checkpointer=PerdureSaver(store))
    found = app.invoke({"messages": [HumanMessage("again"), call("c2")]}, CONFIG, durability="sync")
    assert found["messages"][-1].tool_call_id == "c2"
    assert sent == ["bob"]


def test_async_as_well(store, outside):
    app = graph([outside.tool()], PerdureSaver(store), ledger(store))
    found = asyncio.run(app.ainvoke(say("bob"), CONFIG))
    assert (found["messages"][-1].content, outside.sent) == ("done: sent to bob", ["bob"])


@pytest.mark.parametrize(
    ("answer", "content", "sent"),
    [({"happened": "it is there"}, "done: it is there", 1), ("absent", "done: sent to bob", 2),
     ("failed", "done: a person said so", 1)],
)  # fmt: skip
def test_doubt_pauses_the_graph_until_somebody_says(app, outside, answer, content, sent):
    outside.breaks = True
    paused = app.invoke(say("bob"), CONFIG)
    [question] = paused["__interrupt__"]
    assert question.value["tool"] == "send"
    assert "perdure settle session:t/" in question.value["message"]
    outside.breaks = False
    assert app.invoke(Command(resume=answer), CONFIG)["messages"][-1].content == content
    assert len(outside.sent) == sent


def test_perdure_settle_answers_it_too(store, app, outside):
    outside.breaks = True
    app.invoke(say("bob"), CONFIG)
    [effect] = store.effects(state="in_doubt")
    effect.settle(perdure.Happened("seen at the other side"), by="alice")
    assert app.invoke(Command(resume="look again"), CONFIG)["messages"][-1].content == "done: seen at the other side"
    assert outside.sent == ["bob"]


def test_a_tool_that_pauses_by_itself_is_called_again(store, outside):
    @tool
    def send(to: str) -> str:
        """Send something, if a person agrees."""
        outside.sent.append(f"asked about {to}")
        return f"{interrupt('May I?')} to {to}"

    app = graph([send], PerdureSaver(store), ledger(store))
    assert app.invoke(say("bob"), CONFIG)["__interrupt__"][0].value == "May I?"
    assert app.invoke(Command(resume="sent"), CONFIG)["messages"][-1].content == "done: sent to bob"
    assert store.effects(state="in_doubt") == []


def test_a_tool_that_reads_bypasses_the_ledger(store, outside):
    app = graph([outside.tool()], PerdureSaver(store), ledger(store, kinds={"send": "read"}))
    app.invoke(say("bob"), CONFIG, durability="exit")
    assert (outside.sent, [*store.effects()]) == (["bob"], [])


def test_exit_is_refused(app, outside):
    with pytest.raises(Refused, match="durability='exit' stores the thread only at the end"):
        app.invoke(say("bob"), CONFIG, durability="exit")
    assert outside.sent == []


def test_a_thread_that_is_kept_elsewhere_is_refused(store, outside):
    with pytest.raises(Refused, match="checkpoints are kept in Perdure"):
        graph([outside.tool()], InMemorySaver(), ledger(store)).invoke(say("bob"), CONFIG)
    assert outside.sent == []


def test_nothing_is_sent_before_the_checkpoint_is_durable(store, outside):
    saver, free = PerdureSaver(store), threading.Event()
    does = saver.put

    def put(config, checkpoint, metadata, versions):
        if metadata["step"] == 1:  # the one that holds the call
            assert free.wait(60)
            assert outside.sent == []
        return does(config, checkpoint, metadata, versions)

    saver.put = put
    awaited = saver.await_durable
    saver.await_durable = lambda *about: (free.set(), awaited(*about))[1]
    graph([outside.tool()], saver, ledger(store)).invoke(say("bob"), CONFIG)
    assert outside.sent == ["bob"]


def test_a_checkpoint_that_never_comes_is_not_waited_for_for_ever(store, outside):
    saver = PerdureSaver(store)
    saver.await_durable = lambda _thread, checkpoints, _seconds: checkpoints[""]
    with pytest.raises(TimedOut, match="send was not called: its checkpoint"):
        graph([outside.tool()], saver, ledger(store, barrier_seconds=0.1)).invoke(say("bob"), CONFIG)
    assert outside.sent == []


def test_middleware_pays_a_model_once(store, outside):
    agents = pytest.importorskip("langchain.agents", reason="langchain is not installed")
    from perdure_adapters.langgraph import PerdureMiddleware

    class Model(GenericFakeChatModel):
        def bind_tools(self, tools, **_kwargs):
            return self

    answers = [AIMessage("", tool_calls=[{"id": "c", "name": "send", "args": {"to": "bob"}}]), AIMessage("done")]
    saver = PerdureSaver(store)
    stored, away = saver.put, []

    def put(config, checkpoint, metadata, versions):
        if away or metadata["step"] == 1:
            away.append(metadata)
            raise OSError("killed before the answer was stored")
        return stored(config, checkpoint, metadata, versions)

    saver.put, saver.put_writes = put, lambda *_about: None
    app = agents.create_agent(
        Model(messages=iter(answers)), [outside.tool()], middleware=[PerdureMiddleware(store)], checkpointer=saver
    )
    with pytest.raises(OSError, match="killed"):
        app.invoke(say("bob"), CONFIG, durability="sync")
    saver = PerdureSaver(store)
    app = agents.create_agent(
        Model(messages=iter(answers[1:])), [outside.tool()], middleware=[PerdureMiddleware(store)], checkpointer=saver
    )
    assert app.invoke(None, CONFIG)["messages"][-1].content == "done"
    assert outside.sent == ["bob"]
    assert [effect.tool for effect in store.effects(tool="model")] == ["model"] * 2


class ModelIsAway(Exception):
    """The provider is overloaded, or the connection broke."""


def agent_of(store, outside, asked, away, *outer):
    """An agent whose model fails at some of its calls, by their numbers from 1."""
    agents = pytest.importorskip("langchain.agents", reason="langchain is not installed")
    from perdure_adapters.langgraph import PerdureMiddleware

    class Model(GenericFakeChatModel):
        def bind_tools(self, tools, **_kwargs):
            return self

        def _generate(self, messages, *args, **kwargs):
            asked.append(len(messages))
            if len(asked) in away:
                raise ModelIsAway
            done = isinstance(messages[-1], ToolMessage)
            call = {"id": "c", "name": "send", "args": {"to": "bob"}}
            answer = AIMessage("done") if done else AIMessage("", tool_calls=[call])
            self.messages = iter([answer])
            return super()._generate(messages, *args, **kwargs)

    middleware = [*outer, PerdureMiddleware(store)]
    return agents.create_agent(
        Model(messages=iter([])), [outside.tool()], middleware=middleware, checkpointer=PerdureSaver(store)
    )


@pytest.mark.parametrize("colour", ["sync", "async"])
@pytest.mark.parametrize("process", ["same", "new"])
@pytest.mark.parametrize("away", [{1}, {2}, {1, 2, 4, 5}])
def test_an_outage_of_the_model_does_not_spend_its_place(store, outside, away, process, colour):
    asked = []
    app = agent_of(store, outside, asked, away)

    def invoke(given):
        if colour == "sync":
            return app.invoke(given, CONFIG, durability="sync")
        return asyncio.run(app.ainvoke(given, CONFIG, durability="sync"))

    with pytest.raises(ModelIsAway):
        invoke(say("bob"))
    for _ in range(len(away) - 1):
        app = app if process == "same" else agent_of(store, outside, asked, away)
        with pytest.raises(ModelIsAway):
            invoke(None)
    app = app if process == "same" else agent_of(store, outside, asked, away)
    assert invoke(None)["messages"][-1].content == "done"
    assert (outside.sent, len(asked)) == (["bob"], 2 + len(away))
    assert [each.state.value for each in store.effects(tool="model")] == ["committed"] * 2


def test_a_model_that_is_tried_again_in_its_task_has_one_place(store, outside):
    middleware = pytest.importorskip("langchain.agents.middleware", reason="langchain is not installed")
    asked, retry = [], middleware.ModelRetryMiddleware(max_retries=2, initial_delay=0)
    app = agent_of(store, outside, asked, {1, 3}, retry)
    assert app.invoke(say("bob"), CONFIG, durability="sync")["messages"][-1].content == "done"
    assert [each.key.rpartition("#")[2].split()[0] for each in store.effects(tool="model")] == ["1", "1"]
    assert (outside.sent, len(asked)) == (["bob"], 4)
