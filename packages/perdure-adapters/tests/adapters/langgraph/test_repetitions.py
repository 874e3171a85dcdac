"""A message that is sent again after a crash gets the answer that it had; no provider gets a call without a result. P3, P14."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

pytest.importorskip("langgraph", reason="langgraph is not installed")
pytest.importorskip("langchain", reason="langchain is not installed")

from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import tool
from langgraph.config import get_config
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.types import Send

import perdure
from perdure.planes.conversation.transcript import INTERRUPTED
from perdure_adapters.langgraph import PerdureMiddleware, PerdureSaver, ledger
from perdure_adapters.langgraph import messages as session_messages
from perdure_adapters.langgraph.repetitions import kept_answer, message_before_repetitions, sendable

CONFIG = {"configurable": {"thread_id": "t"}}


def user(text="order", **fields):
    return HumanMessage(text, **fields)


def asks(message, *ids, to="bob", text=""):
    return AIMessage(text, id=message, tool_calls=[{"id": id_, "name": "send", "args": {"to": to}} for id_ in ids])


def answer(id_):
    return ToolMessage("sent", tool_call_id=id_)


def refused(messages):
    """The calls that a provider refuses: those without a result directly behind their message."""
    found = []
    for place, each in enumerate(messages):
        behind = set()
        for later in messages[place + 1 :]:
            if not isinstance(later, ToolMessage):
                break
            behind.add(later.tool_call_id)
        found += [call["id"] for call in getattr(each, "tool_calls", ()) if call["id"] not in behind]
    return found


# -- the answer that a message had


def made(message):
    return [(call["name"], call["args"]) for call in message.tool_calls]


def given_again(said, id_):
    """The kept answer of a conversation, as LangGraph adds it to the thread."""
    return kept_answer(said).model_copy(update={"id": id_})


def test_a_message_that_is_sent_again_gets_the_answer_whose_calls_are_open():
    first = asks("m1", "c1", "c2", text="I send both.")
    first.usage_metadata = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
    kept = kept_answer([user(), first, user()])
    assert (kept.content, made(kept), kept.id, kept.usage_metadata) == (first.content, made(first), None, None)
    assert not {call["id"] for call in kept.tool_calls} & {"c1", "c2"}


def test_it_gets_it_a_third_time():
    assert made(kept_answer([user(), asks("m1", "c1"), user(), user()])) == made(asks("m1", "c1"))


def test_the_message_that_led_to_an_answer_may_stand_before_other_calls():
    said = [user(), asks("m1", "c1"), answer("c1"), asks("m2", "c2", to="eve"), user()]
    assert made(kept_answer(said)) == [("send", {"to": "eve"})]


@pytest.mark.parametrize(
    "said",
    [
        [user(), asks("m1", "c1"), user("another")],
        [user(), asks("m1", "c1"), user("another"), user()],
        [user(), asks("m1", "c1"), answer("c1"), user()],
        [user(), asks("m1", "c1", "c2"), answer("c1"), user()],  # a part of it was heard: the model decides
        [user(), AIMessage("done"), user()],
        [user(), asks("m1", "c1")],  # nobody can tell whether the message was changed in its place
        [asks("m1", "c1"), user()],
        [user()],
        [],
    ],
)
def test_any_other_conversation_is_a_new_question(said):
    assert kept_answer(said) is None


# -- what a provider accepts


def test_nothing_is_changed_where_every_call_has_its_result():
    said = [
        SystemMessage("be kind"),
        user(),
        asks("m1", "c1", "c2"),
        answer("c2"),
        answer("c1"),
        AIMessage("done"),
        user(),
    ]
    assert sendable(said) is said


def test_a_call_without_a_result_gets_one_that_says_so():
    said = [user(), asks("m1", "c1", "c2"), answer("c1"), user("stop")]
    shown = sendable(said)
    assert refused(said) == ["c2"]
    assert refused(shown) == []
    assert [each.type for each in shown] == ["human", "ai", "tool", "tool", "human"]
    assert (shown[3].content, shown[3].status, shown[3].name) == (INTERRUPTED, "error", "send")
    assert len(said) == 4


@pytest.mark.parametrize("times", [1, 2])
def test_an_answer_that_was_given_again_is_shown_once_as_the_model_gave_it(times):
    thinking = [{"type": "thinking", "thinking": "…", "signature": "s"}, {"type": "text", "text": "I send it."}]
    first = asks("m1", "c1", text=thinking)
    said = [user(id="h1"), first]
    for number in range(times):
        said.append(user(id=f"h{number + 2}"))
        said.append(given_again(said, f"m{number + 2}"))
    said += [answer(said[-1].tool_calls[0]["id"]), AIMessage("done")]
    shown = sendable(said)
    assert [each.type for each in shown] == ["human"] * (times + 1) + ["ai", "tool", "ai"]
    assert shown[times + 1] is first
    assert shown[times + 2].tool_call_id == "c1"
    assert (refused(shown), said[-3].text) == ([], "I send it.")


def test_an_answer_that_was_given_again_is_shown_itself_where_the_first_one_is_gone():
    said = [user(), asks("m1", "c1"), user()]
    again = given_again(said, "m2")
    left = [said[2], again, answer(again.tool_calls[0]["id"])]
    assert sendable(left) is left


def test_ids_that_repeat_in_later_answers_are_no_results_of_this_one():
    said = [user(), asks("m1", "c"), user("another"), asks("m2", "c", to="eve"), answer("c")]
    assert [each.type for each in sendable(said)] == ["human", "ai", "tool", "human", "ai", "tool"]


# -- a run that was cut off before its answer stood in the thread


@pytest.mark.parametrize(
    ("said", "place"),
    [
        ([user(), user()], 0),
        ([user(), user(), user()], 0),
        ([user(), asks("m1", "c1"), answer("c1"), user()], 2),
        ([user(), asks("m1", "c1"), answer("c1"), user(), user()], 2),
        ([AIMessage("done"), user(), user()], 1),
        ([user(), AIMessage("done"), user()], None),
        ([user(), user("another")], None),
        ([user(), asks("m1", "c1"), answer("c1"), user("another")], None),
        ([user()], None),
        ([], None),
    ],
)
def test_the_message_at_which_the_first_run_stood(said, place):
    assert message_before_repetitions(said) is (None if place is None else said[place])


# -- agents


class Outside:
    """The outside world, and a model that refuses what providers refuse. die: where the next life ends."""

    def __init__(self):
        self.sent, self.asked, self.early, self.die = [], [], [], None

    def at(self, point):
        if self.die == point:
            raise Died(point)


class Died(Exception):
    """The process was killed here: nothing after it is stored."""


class DyingSaver(PerdureSaver):
    """Stores nothing once its process has died."""

    def __init__(self, store, outside):
        super().__init__(store)
        self.outside, self.dead = outside, False

    def _check(self, point, is_there):
        if self.dead or (self.outside.die == point and is_there):
            self.dead = True
            raise Died(point)

    def put(self, config, checkpoint, metadata, new_versions):
        said = checkpoint["channel_values"].get("messages") or [None]
        self._check("put", metadata["source"] == "loop" and isinstance(said[-1], AIMessage))
        return super().put(config, checkpoint, metadata, new_versions)

    def put_writes(self, config, writes, task_id, task_path=""):
        said = [each for channel, value in writes if channel == "messages" for each in value]
        self._check("answer written", any(isinstance(each, AIMessage) for each in said))
        self._check("result written", any(isinstance(each, ToolMessage) for each in said))
        super().put_writes(config, writes, task_id, task_path)

    async def aput(self, *about):
        return await asyncio.to_thread(self.put, *about)

    async def aput_writes(self, *about):
        await asyncio.to_thread(self.put_writes, *about)


class Model(GenericFakeChatModel):
    """Calls a tool, and is done when it has its result. It refuses what providers refuse."""

    outside: Any
    saver: Any

    def bind_tools(self, tools, **_kwargs):
        return self

    def _generate(self, messages, *args, **kwargs):
        assert refused(messages) == []
        place = get_config()["configurable"]["checkpoint_map"]
        self.outside.early.append(self.saver.await_durable("t", place, 0))
        self.outside.asked.append([each.type for each in messages])
        is_done = any(isinstance(each, ToolMessage) and each.content == "sent" for each in messages)
        call = {"id": f"call_{len(self.outside.asked)}", "name": "send", "args": {"to": "bob"}}
        self.messages = iter([AIMessage("done") if is_done else AIMessage("", tool_calls=[call])])
        return super()._generate(messages, *args, **kwargs)


def agent(store, outside, kind="middleware"):
    @tool
    def send(to: str) -> str:
        """Send something."""
        outside.sent.append(to)
        return "sent"

    saver = DyingSaver(store, outside)
    model = Model(messages=iter([]), outside=outside, saver=saver)
    if kind == "middleware":
        return create_agent(model, [send], middleware=[PerdureMiddleware(store)], checkpointer=saver)
    wrappers = ledger(store)

    def ask(state):
        return {"messages": [wrappers.ask_model(state["messages"], model.invoke)]}

    async def aask(state):
        return {"messages": [await wrappers.aask_model(state["messages"], model.ainvoke)]}

    made = StateGraph(MessagesState)
    made.add_node("model", RunnableLambda(ask, aask))
    made.add_node("tools", ToolNode([send], **wrappers))
    made.add_edge(START, "model")
    made.add_conditional_edges("model", tools_condition)
    made.add_edge("tools", "model")
    return made.compile(checkpointer=saver)


@pytest.fixture
def store(tmp_path):
    with perdure.open(f"sqlite:///{tmp_path}/a.db") as opened:
        yield opened


@pytest.fixture
def outside():
    return Outside()


def live(store, outside, said, die=None, app=None, kind="middleware"):
    """One life of the agent. die: where it ends."""
    outside.die = die
    app = app or agent(store, outside, kind)
    given = None if said is None else {"messages": [HumanMessage(said)]}
    if die is None:
        return app.invoke(given, CONFIG, durability="sync")["messages"]
    with pytest.raises(Died):
        app.invoke(given, CONFIG, durability="sync")
    return []


DEATHS = pytest.mark.parametrize("die", ["answer written", "put", "result written"])


KINDS = pytest.mark.parametrize("kind", ["middleware", "own node"])


@DEATHS
@KINDS
@pytest.mark.parametrize("times", [1, 2])
def test_a_message_that_is_sent_again_is_neither_paid_for_nor_carried_out_twice(store, outside, die, times, kind):
    for _ in range(times):
        live(store, outside, "order", die, kind=kind)
    messages = live(store, outside, "order", kind=kind)
    assert messages[-1].content == "done"
    assert (outside.sent, len(outside.asked)) == (["bob"], 2)
    assert sum(isinstance(each, HumanMessage) for each in messages) == times + 1  # no message is dropped


@DEATHS
def test_the_session_of_such_a_thread_can_be_shown_to_a_provider_too(store, outside, die):
    for _ in range(2):
        live(store, outside, "order", die)
    live(store, outside, "order")
    assert PerdureSaver(store).say_turns("t") > 0
    assert refused(session_messages(store.session("t"))) == []


def test_another_message_asks_the_model_which_is_shown_that_the_call_was_cut_off(store, outside):
    live(store, outside, "order", "result written")
    assert live(store, outside, "do it, please")[-1].content == "done"
    assert outside.asked[1] == ["human", "ai", "tool", "human"]
    assert outside.sent == ["bob"]  # the model repeats the call, and it is that one


def test_a_message_that_is_meant_twice_is_a_new_question_once_it_is_answered(store, outside):
    for _ in range(2):
        live(store, outside, "order")
    assert len(outside.asked) == 3


@KINDS
@pytest.mark.parametrize("colour", ["sync", "async"])
def test_the_model_is_asked_when_the_checkpoint_of_its_task_is_durable(store, outside, kind, colour):
    app, said = agent(store, outside, kind), {"messages": [HumanMessage("order")]}
    if colour == "sync":
        app.invoke(said, CONFIG, durability="async")
    else:
        asyncio.run(app.ainvoke(said, CONFIG, durability="async"))
    assert (len(outside.asked), outside.early, outside.sent) == (2, [None, None], ["bob"])


def test_nothing_is_waited_for_where_nothing_is_stored_before_the_end(store, outside):
    saver = PerdureSaver(store)
    saver.await_durable = lambda *_about: pytest.fail("waited")
    model = GenericFakeChatModel(messages=iter([AIMessage("done")]))
    app = create_agent(model, [], middleware=[PerdureMiddleware(store)], checkpointer=saver)
    found = app.invoke({"messages": [HumanMessage("order")]}, CONFIG, durability="exit")
    assert found["messages"][-1].content == "done"


def test_a_subgraph_that_stores_nothing_is_not_waited_for_long(store, outside, monkeypatch):
    waited = []
    monkeypatch.setattr("perdure_adapters.langgraph.answers.SUBGRAPH_SECONDS", 0.01)
    saver = PerdureSaver(store)
    does = saver.await_durable
    saver.await_durable = lambda thread, places, seconds: waited.append(seconds) or does(thread, places, seconds)
    model = GenericFakeChatModel(messages=iter([AIMessage("done")]))
    inner = create_agent(model, [], middleware=[PerdureMiddleware(store)], checkpointer=False)
    made = StateGraph(MessagesState)
    made.add_node("inner", inner)
    made.add_edge(START, "inner")
    found = made.compile(checkpointer=saver).invoke({"messages": [HumanMessage("order")]}, CONFIG)
    assert (found["messages"][-1].content, waited) == ("done", [0.01])


def test_an_answer_is_paid_once_by_a_process_that_lives_on(store, outside):
    """As in a server: the request failed after the answer came, and the next one resumes the thread."""
    app = agent(store, outside)
    live(store, outside, "order", "answer written", app)
    app.checkpointer.dead = False
    assert live(store, outside, None, None, app)[-1].content == "done"
    assert (outside.sent, len(outside.asked)) == (["bob"], 2)


@pytest.mark.parametrize("colour", ["sync", "async"])
def test_nodes_that_ask_side_by_side_keep_their_own_answers(store, colour):
    asked = []

    def graph(saver):
        wrappers, made = ledger(store), StateGraph(MessagesState)

        def asking(name):
            def answer(_messages):
                asked.append(name)
                return AIMessage(f"by {name}")

            async def aanswer(messages):
                return answer(messages)

            def ask(state):
                return {"messages": [wrappers.ask_model(state["messages"], answer)]}

            async def aask(state):
                return {"messages": [await wrappers.aask_model(state["messages"], aanswer)]}

            return RunnableLambda(ask, aask)

        for name in ("a", "b", "each"):
            made.add_node(name, asking(name))
        made.add_edge(START, "a")
        made.add_edge(START, "b")
        made.add_conditional_edges("a", lambda state: [Send("each", state), Send("each", state)])
        return made.compile(checkpointer=saver)

    def invoke(app, said):
        if colour == "sync":
            return app.invoke(said, CONFIG, durability="sync")
        return asyncio.run(app.ainvoke(said, CONFIG, durability="sync"))

    outside = Outside()
    outside.die = "answer written"
    with pytest.raises(Died):
        invoke(graph(DyingSaver(store, outside)), {"messages": [HumanMessage("order")]})
    found = invoke(graph(PerdureSaver(store)), None)
    said = sorted(each.content for each in found["messages"] if isinstance(each, AIMessage))
    assert (said, sorted(asked)) == (["by a", "by b", "by each", "by each"], ["a", "b", "each", "each"])
