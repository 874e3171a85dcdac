"""Messages of a thread as turns of its session: said once, replaced, removed, deleted; and read back from any session."""

from __future__ import annotations

import pytest

pytest.importorskip("langgraph", reason="langgraph is not installed")

from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage, ToolMessage
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.graph.message import REMOVE_ALL_MESSAGES

import perdure
from perdure_adapters.langgraph import PerdureSaver, messages

PLACE = {"configurable": {"thread_id": "t"}}


@pytest.fixture
def store(tmp_path):
    with perdure.open(f"sqlite:///{tmp_path}/agent.db") as opened:
        yield opened


def app(saver):
    def model(state):
        return {"messages": [AIMessage(f"answer to {state['messages'][-1].content}")]}

    graph = StateGraph(MessagesState)
    graph.add_node("model", model)
    graph.add_edge(START, "model")
    return graph.compile(checkpointer=saver)


def texts(store, name="t"):
    return [turn.content for turn in store.session(name).turns(after=0)]


def test_each_message_is_one_turn(store):
    talk = app(PerdureSaver(store, turns=True))
    for word in ("a", "b"):
        talk.invoke({"messages": [HumanMessage(word)]}, PLACE)
    assert texts(store) == ["a", "answer to a", "b", "answer to b"]
    assert [turn.role.value for turn in store.session("t").turns(after=0)] == ["user", "assistant"] * 2
    assert store.search("answer")
    assert store.verify().ok


def test_another_process_adds_only_what_is_new(store):
    app(PerdureSaver(store, turns=True)).invoke({"messages": [HumanMessage("a")]}, PLACE)
    app(PerdureSaver(store, turns=True)).invoke({"messages": [HumanMessage("b")]}, PLACE)
    assert texts(store) == ["a", "answer to a", "b", "answer to b"]


def test_a_message_that_is_replaced_or_removed_changes_its_turn(store):
    talk = app(PerdureSaver(store, turns=True))
    talk.invoke({"messages": [HumanMessage("a", id="1")]}, PLACE)
    talk.update_state(PLACE, {"messages": [HumanMessage("changed", id="1")]})
    assert sorted(texts(store)) == ["answer to a", "changed"]
    talk.update_state(PLACE, {"messages": [RemoveMessage(id="1")]})
    assert texts(store) == ["answer to a"]


@pytest.mark.parametrize("fresh", [False, True])
@pytest.mark.parametrize("count", [1, 2])
def test_a_thread_whose_messages_are_all_removed_shows_none(store, count, fresh):
    talk = app(PerdureSaver(store, turns=True))
    talk.update_state(PLACE, {"messages": [HumanMessage("a", id=str(number)) for number in range(count)]})
    assert len(texts(store)) == count
    talk = app(PerdureSaver(store, turns=True)) if fresh else talk
    talk.update_state(PLACE, {"messages": [RemoveMessage(id=REMOVE_ALL_MESSAGES)]})
    assert texts(store) == []


@pytest.mark.parametrize("fresh", [False, True])
def test_a_thread_that_goes_back_shows_where_it_stands_now(store, fresh):
    saver = PerdureSaver(store, turns=True)
    talk = app(saver)
    talk.invoke({"messages": [HumanMessage("a")]}, PLACE)
    back = talk.get_state(PLACE).config
    talk.invoke({"messages": [HumanMessage("b")]}, PLACE)
    (app(PerdureSaver(store, turns=True)) if fresh else talk).invoke({"messages": [HumanMessage("c")]}, back)
    assert texts(store) == ["a", "answer to a", "c", "answer to c"]


def test_a_thread_that_was_written_without_is_said_when_it_is_asked_for(store):
    saver = PerdureSaver(store)
    app(saver).invoke({"messages": [HumanMessage("a")]}, PLACE)
    assert texts(store) == []
    assert saver.say_turns("t") == 2
    assert saver.say_turns("t") == 0
    assert texts(store) == ["a", "answer to a"]
    assert saver.say_turns("another") == 0


def test_a_deleted_thread_leaves_no_turn(store):
    saver = PerdureSaver(store, turns=True)
    app(saver).invoke({"messages": [HumanMessage("a")]}, PLACE)
    saver.delete_thread("t")
    assert texts(store) == []


def test_a_session_of_another_framework_is_continued_in_a_graph(store):
    session = store.session("other")
    session.say("user", "find it")
    session.say(
        "assistant", "I look", calls=[perdure.Call("c1", "find", {"q": 1}), perdure.Call("c2", "find", {"q": 2})]
    )
    session.result("c1", {"hits": 3})
    found = messages(session)
    assert [type(each) for each in found] == [HumanMessage, AIMessage, ToolMessage, ToolMessage]
    assert sorted((each.tool_call_id, each.status, each.name) for each in found[2:]) == [
        ("c1", "success", "find"),
        ("c2", "error", "find"),  # said to be interrupted (P14)
    ]
    talk = app(PerdureSaver(store, turns=True))
    talk.update_state(PLACE, {"messages": found})
    talk.invoke({"messages": [HumanMessage("and now?")]}, PLACE)
    assert texts(store)[-2:] == ["and now?", "answer to and now?"]
    assert store.session("t").transcript("anthropic")


# -- a session that another framework began --------------------------------------------------------------------------


def begun(store):
    session = store.session("t")
    session.say("user", "a")
    session.say("assistant", "b", calls=[perdure.Call("c1", "find", {})])
    return session


def test_a_session_that_another_framework_began_is_continued_and_not_doubled(store):
    session = begun(store)
    talk = app(PerdureSaver(store, turns=True))
    for word in ("c", "d"):  # all messages are given anew each time
        talk.invoke({"messages": [*messages(session), HumanMessage(word)]}, PLACE)
    assert texts(store) == ["a", "b", "c", "answer to c", "d", "answer to d"]
    app(PerdureSaver(store, turns=True)).invoke({"messages": [HumanMessage("e")]}, PLACE)  # another process
    assert texts(store)[-2:] == ["e", "answer to e"]
    assert len(texts(store)) == 8
    assert PerdureSaver(store).say_turns("t") == 0


def test_a_message_of_another_frameworks_turn_is_replaced_and_removed_as_any(store):
    session = begun(store)
    talk = app(PerdureSaver(store, turns=True))
    talk.invoke({"messages": [*messages(session), HumanMessage("c")]}, PLACE)
    first, second = talk.get_state(PLACE).values["messages"][:2]
    talk.update_state(PLACE, {"messages": [HumanMessage("changed", id=first.id)]})
    assert texts(store) == ["b", "c", "answer to c", "changed"]
    talk.update_state(PLACE, {"messages": [RemoveMessage(second.id)]})
    assert texts(store) == ["c", "answer to c", "changed"]


def test_a_removed_result_that_said_that_it_is_missing_takes_no_turn_along(store):
    session = begun(store)
    talk = app(PerdureSaver(store, turns=True))
    talk.invoke({"messages": [*messages(session), HumanMessage("c")]}, PLACE)
    [missing] = [each for each in talk.get_state(PLACE).values["messages"] if each.type == "tool"]
    talk.update_state(PLACE, {"messages": [RemoveMessage(missing.id)]})
    assert texts(store) == ["a", "b", "c", "answer to c"]
