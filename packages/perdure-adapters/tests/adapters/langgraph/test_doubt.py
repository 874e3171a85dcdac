"""Doubt about a tool call of LangGraph ends by the tool's rule or by a person's word about that very attempt. P3, P4."""

from __future__ import annotations

import asyncio
import threading
from typing import Annotated, Any, TypedDict

import pytest

pytest.importorskip("langgraph", reason="langgraph is not installed")

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.types import Command, interrupt

import perdure
from perdure_adapters.langgraph import PerdureSaver, ledger

CONFIG: Any = {"configurable": {"thread_id": "t"}}


class State(TypedDict):
    messages: Annotated[list, add_messages]


def model(state):
    """Calls `send` for each word of the last message, by ids that are always the same."""
    last = state["messages"][-1]
    if isinstance(last, ToolMessage):
        results = [each.content for each in state["messages"] if isinstance(each, ToolMessage)]
        return {"messages": [AIMessage(f"done: {results[-1]}")]}
    calls = [
        {"id": f"call_{place}", "name": "send", "args": {"to": to}} for place, to in enumerate(last.content.split())
    ]
    return {"messages": [AIMessage("", tool_calls=calls)]}


def graph(send, saver, wrappers):
    made = StateGraph(State)
    made.add_node("model", model)
    made.add_node("tools", ToolNode([send], **wrappers))
    made.add_edge(START, "model")
    made.add_conditional_edges("model", tools_condition)
    made.add_edge("tools", "model")
    return made.compile(checkpointer=saver)


def say(text):
    return {"messages": [HumanMessage(text)]}


@pytest.fixture
def store(tmp_path):
    with perdure.open(f"sqlite:///{tmp_path}/a.db") as opened:
        yield opened


class Line:
    """A line to the outside world: what was sent on it, and whether it goes dead after that."""

    def __init__(self):
        self.sent = []
        self.dead = True
        self.meeting = None  # a barrier at which calls wait for each other, once each is sent

    def app(self, store, **options):
        @tool
        def send(to: str) -> str:
            """Send something."""
            self.sent.append(to)
            if self.meeting is not None:
                self.meeting.wait(60)
            if self.dead:
                raise OSError("the line went dead")
            return f"sent to {to}"

        return graph(send, PerdureSaver(store), ledger(store, **options))


@pytest.fixture
def line():
    return Line()


def test_a_third_order_is_sent_though_the_first_was_never_answered(store, line):
    line.dead = False
    app = line.app(store)
    cut_off = AIMessage("", tool_calls=[{"id": "call_9", "name": "send", "args": {"to": "bob"}}])
    app.update_state(CONFIG, {"messages": [HumanMessage("bob"), cut_off]}, as_node="tools")
    app.invoke(say("bob"), CONFIG)  # sent again after a crash
    assert line.sent == ["bob"]
    app.invoke(say("bob"), CONFIG)  # another order
    assert line.sent == ["bob", "bob"]


def test_an_answer_is_about_one_attempt_and_no_later_one(store, line):
    app = line.app(store)
    app.invoke(say("bob"), CONFIG)
    again = app.invoke(Command(resume="absent"), CONFIG)  # the second attempt breaks too
    assert (line.sent, again["__interrupt__"][0].value["tool"]) == (["bob"] * 2, "send")
    done = app.invoke(Command(resume={"happened": "it is there"}), CONFIG)
    assert (line.sent, done["messages"][-1].content) == (["bob"] * 2, "done: it is there")


def test_an_answer_by_the_id_of_its_question_counts(store, line):
    app = line.app(store)
    [asked] = app.invoke(say("bob"), CONFIG)["__interrupt__"]
    [again] = app.invoke(Command(resume={asked.id: "absent"}), CONFIG)["__interrupt__"]
    assert line.sent == ["bob"] * 2
    done = app.invoke(Command(resume={again.id: {"happened": "it is there"}}), CONFIG)
    assert (line.sent, done["messages"][-1].content) == (["bob"] * 2, "done: it is there")


def test_an_answer_is_not_used_again_by_a_run_without_one(store, line, monkeypatch):
    monkeypatch.setattr("perdure_adapters.langgraph.questions.ANSWER_SECONDS", 0.2)
    app = line.app(store)
    app.invoke(say("bob"), CONFIG)
    app.invoke(Command(resume="absent"), CONFIG)
    for _ in range(2):
        assert app.invoke(None, CONFIG)["__interrupt__"][0].value["tool"] == "send"
    assert line.sent == ["bob"] * 2


def test_an_answer_goes_to_the_call_that_was_asked_about(store, line):
    app = line.app(store)
    line.meeting = threading.Barrier(2)  # else the node drops the call that has not begun when the other one asks
    paused = app.invoke(say("bob eve"), CONFIG)
    assert sorted(line.sent) == ["bob", "eve"]
    line.dead, line.meeting = False, None
    for _ in range(9):
        asked = paused["__interrupt__"][0].value["args"]["to"]
        answer = {"happened": f"{asked} has it"} if asked == "bob" else "absent"
        paused = app.invoke(Command(resume=answer), CONFIG)
        if "__interrupt__" not in paused:
            break
    results = {each.tool_call_id: each.content for each in paused["messages"] if isinstance(each, ToolMessage)}
    assert results == {"call_0": "bob has it", "call_1": "sent to eve"}
    assert sorted(line.sent) == ["bob", "eve", "eve"]


@pytest.fixture
def stuck(store):
    """A call that has missed its time, and whose thread may still send."""
    free, sent = threading.Event(), []

    def send(to: str) -> str:
        """Send something, late."""
        assert free.wait(60)
        sent.append(to)
        return f"sent to {to}"

    declared = perdure.tool(send, name="langgraph-stuck", timeout=0.05, known=False)
    app = graph(tool(send), PerdureSaver(store), ledger(store, kinds={"send": declared}))
    yield app, free, sent
    free.set()


def test_absent_is_not_believed_while_the_sender_may_send(store, stuck):
    app, free, sent = stuck
    app.invoke(say("bob"), CONFIG)
    asked = app.invoke(Command(resume="absent"), CONFIG)["__interrupt__"][0].value
    assert "in doubt" in asked["reason"]
    [effect] = store.effects(tool="send")
    assert (effect.state, effect.record.attempt, sent) == ("in_doubt", 1, [])
    free.set()
    done = _until_settled(store)
    assert (done.state, sent) == ("committed", ["bob"])
    assert app.invoke(Command(resume="look again"), CONFIG)["messages"][-1].content == "done: sent to bob"
    assert sent == ["bob"]


def _until_settled(store):
    for _ in range(600):
        [effect] = store.effects(tool="send")
        if effect.settled:
            return effect
        threading.Event().wait(0.05)
    raise AssertionError("the late answer was never recorded")


@pytest.mark.parametrize("kind", ["unsafe", "idempotent", "keyed"])
@pytest.mark.parametrize("aio", [False, True])
def test_a_tool_that_asks_a_person_itself_is_called_when_there_is_an_answer(store, kind, aio):
    asked = []

    @tool
    def send(to: str) -> str:
        """Send something, if a person agrees."""
        asked.append(to)
        return f"{interrupt('May I?')} to {to}"

    app = graph(send, PerdureSaver(store), ledger(store, kinds={"send": kind}))
    invoke = (lambda *about: asyncio.run(app.ainvoke(*about))) if aio else app.invoke
    assert invoke(say("bob"), CONFIG)["__interrupt__"][0].value == "May I?"
    assert asked == ["bob"]
    assert invoke(Command(resume="sent"), CONFIG)["messages"][-1].content == "done: sent to bob"
    assert asked == ["bob"] * 2
    assert store.effects(state="in_doubt") == []


def test_an_approval_that_a_guard_asks_for_pauses_the_graph(tmp_path, line):
    line.dead = False
    guard = lambda _intent, _actor: perdure.RequireApproval("may it be sent?")  # noqa: E731
    with perdure.open(f"sqlite:///{tmp_path}/a.db", guards=[guard]) as store:
        app = line.app(store)
        [asked] = app.invoke(say("bob"), CONFIG)["__interrupt__"]
        assert ("may it be sent?" in asked.value["message"], line.sent) == (True, [])
        [approval] = store.asks()
        store.answer(approval.id, "approve")
        assert app.invoke(Command(resume="approved"), CONFIG)["messages"][-1].content == "done: sent to bob"


def test_a_pause_tells_nothing_about_the_attempt_before_it(store):
    """The first attempt raised, and may have happened. That the second one paused does not settle it."""
    said = []

    @tool
    def send(to: str) -> str:
        """Send something."""
        said.append(to)
        if len(said) == 1:
            raise OSError("the line went dead")
        return f"{interrupt('May I?')} to {to}"

    declared = perdure.tool(
        lambda to, *, key: to, name="langgraph-doubtful", kind="keyed", known=False, retries=2, backoff="1ms"
    )
    app = graph(send, PerdureSaver(store), ledger(store, kinds={"send": declared}))
    app.invoke(say("bob"), CONFIG)
    [effect] = store.effects(tool="send")
    assert (effect.state, effect.record.doubtful, said) == ("in_doubt", True, ["bob"] * 2)
    assert app.invoke(Command(resume="sent"), CONFIG)["messages"][-1].content == "done: sent to bob"
