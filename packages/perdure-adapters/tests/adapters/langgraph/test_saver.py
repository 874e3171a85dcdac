"""PerdureSaver: strict reading, shared elements, deleted threads, pruning, what the log says of it. P5, P8, P10."""

from __future__ import annotations

import asyncio
import random
import re
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, TypedDict

import apsw
import pytest

pytest.importorskip("langgraph", reason="langgraph is not installed")

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.base.id import uuid6
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages

import perdure
from perdure.errors import Conflict, Damaged, Error, Invalid
from perdure.planes.recovery.keyed import Base
from perdure_adapters.langgraph import PerdureSaver, StrictSerializer, UnknownType, layout, marks, serde


class State(TypedDict):
    messages: Annotated[list, add_messages]


class Mine:
    """A class of the application, which says how it is written as pydantic's do."""

    def __init__(self, **fields):
        self.fields = fields

    def model_dump(self):
        return self.fields

    def __eq__(self, other):
        return isinstance(other, Mine) and self.fields == other.fields

    __hash__ = None


def graph(saver, answer="answer " * 200):
    made = StateGraph(State)
    made.add_node("model", lambda state: {"messages": [AIMessage(f"{answer}{len(state['messages'])}")]})
    made.add_edge(START, "model")
    made.add_edge("model", END)
    return made.compile(checkpointer=saver)


def config(thread="t"):
    return {"configurable": {"thread_id": thread, "checkpoint_ns": ""}}


def put(saver, place, values, versions=None, new=None):
    checkpoint = empty_checkpoint()
    checkpoint["id"] = str(uuid6())
    checkpoint["channel_values"] = values
    checkpoint["channel_versions"] = versions or dict.fromkeys(values, 1)
    return saver.put(
        place, checkpoint, {"source": "loop", "step": 1, "parents": {}}, new or checkpoint["channel_versions"]
    )


@pytest.fixture
def store(tmp_path):
    with perdure.open(f"sqlite:///{tmp_path}/a.db") as opened:
        yield opened


@pytest.fixture
def saver(store):
    return PerdureSaver(store)


def test_a_thread_is_a_session_and_its_log_verifies(store, saver):
    app = graph(saver)
    for turn in range(4):
        app.invoke({"messages": [HumanMessage(f"say {turn}")]}, config())
    assert len(app.get_state(config()).values["messages"]) == 8
    assert len(store.session("t").checkpoints("langgraph/")) == 12
    assert store.verify().ok
    store.collect(grace="10m")
    assert store.verify().ok
    assert len(graph(PerdureSaver(store)).get_state(config()).values["messages"]) == 8


def test_sync_and_async_on_one_object(saver):
    app = graph(saver)
    app.invoke({"messages": [HumanMessage("one")]}, config())
    asyncio.run(app.ainvoke({"messages": [HumanMessage("two")]}, config()))
    assert len(app.get_state(config()).values["messages"]) == 4


def test_a_list_comes_back_as_it_was_whatever_happens_to_it(store, saver):
    draw = random.Random(5)
    place, messages = config(), []
    for number in range(60):
        choice = draw.random()
        if choice < 0.6 or len(messages) < 3:
            messages.append(draw.choice([HumanMessage, AIMessage])("x" * draw.randrange(3000), id=str(number)))
        elif choice < 0.7:
            del messages[draw.randrange(len(messages))]
        elif choice < 0.8:
            messages[draw.randrange(len(messages))].additional_kwargs["changed in place"] = number
        elif choice < 0.9:
            messages[draw.randrange(len(messages))].content = "changed " + "y" * draw.randrange(2000)
        else:
            messages.insert(draw.randrange(len(messages)), HumanMessage([{"type": "text", "text": "z" * 1500}]))
        version = number + 1
        place = put(saver, place, {"messages": [*messages], "n": number}, {"messages": version, "n": version})
        found = PerdureSaver(store).get_tuple(place).checkpoint["channel_values"]
        assert found == {"messages": messages, "n": number}


def test_control_a_mark_that_misses_changes_in_place_is_caught(saver, monkeypatch):
    monkeypatch.setattr(marks, "_copy", lambda value: {**value} if "content" in (value or ()) else value)
    message = HumanMessage("a")
    place = put(saver, config(), {"messages": [message, message]}, {"messages": 1})
    message.additional_kwargs["x"] = 1
    place = put(saver, place, {"messages": [message, message, message]}, {"messages": 2})
    assert saver.get_tuple(place).checkpoint["channel_values"]["messages"][0].additional_kwargs == {}


def long_list(count=60):
    return [HumanMessage(f"{number} " * 90, id=str(number)) for number in range(count)]


def stored(store, place):
    """The messages of a checkpoint, read by a saver that remembers nothing."""
    return PerdureSaver(store).get_tuple(place).checkpoint["channel_values"]["messages"]


def change_each_part(saver, store):
    """Change every part of a message in place, one after the other, and look for each change in what is stored."""
    message = ToolMessage("a", tool_call_id="1", artifact={1}, id="0", more=[{"deep": ["x"]}])
    messages = [*long_list(), message, *long_list(3)]
    place = put(saver, config(), {"messages": [*messages]}, {"messages": 1})
    changes = [
        lambda: setattr(message, "content", [{"type": "text", "text": "b"}]),
        lambda: message.content[0].update(text="c"),
        lambda: message.artifact.add(2),
        lambda: message.response_metadata.update(x=1),
        lambda: message.__pydantic_extra__["more"][0]["deep"].append("y"),
        lambda: setattr(message, "artifact", bytearray(b"a")),
        lambda: message.artifact.extend(b"b"),
    ]
    for number, change in enumerate(changes, 2):
        change()
        place = put(saver, place, {"messages": [*messages]}, {"messages": number})
        assert stored(store, place) == messages, number


def test_whatever_is_changed_in_place_is_stored(store, saver):
    change_each_part(saver, store)


def test_control_marks_of_anything_trust_that_an_object_is_the_same(store, saver, monkeypatch):
    monkeypatch.setattr(marks, "_FIXED", marks._FIXED | {set, bytearray})
    with pytest.raises(AssertionError, match="4"):
        change_each_part(saver, store)


def test_another_class_with_the_same_fields_is_seen(store, saver):
    first = HumanMessage("a", id="1")
    place = put(saver, config(), {"messages": [first, first]}, {"messages": 1})
    other = AIMessage("a", id="1")
    object.__setattr__(other, "__dict__", first.__dict__)
    place = put(saver, place, {"messages": [other, first]}, {"messages": 2})
    assert [type(each) for each in stored(store, place)] == [AIMessage, HumanMessage]


def test_elements_that_are_no_messages_are_shared_too():
    documents = [{"number": number, "text": f"{number}" * 150} for number in range(40)]
    serializer = StrictSerializer()

    def laid(memory, *more):
        checkpoint = {"channel_values": {"list": [*documents, *more]}, "channel_versions": {"list": 1}}
        state = layout.lay_out(checkpoint, {"list": 1}, serializer, memory)
        return layout.ThreadMemory(Base("", state.root.hex()), serializer, state.channels), len(state.nodes)

    memory, whole = laid(None)
    documents[30]["number"] = "thirty"
    memory, changed = laid(memory, HumanMessage("a"), 5)
    same, added = laid(memory, HumanMessage("a"), 5)
    assert (memory.base, same.base) == (laid(None, HumanMessage("a"), 5)[0].base,) * 2
    assert added < changed < whole / 2


def test_a_put_that_failed_leaves_the_memory_as_it_was(store, saver):
    messages = long_list()
    first = put(saver, config(), {"messages": [*messages]}, {"messages": 1})
    with pytest.raises(UnknownType):
        put(saver, first, {"messages": [*messages, HumanMessage("lost")], "z": Mine(a=1)}, {"messages": 2, "z": 2})
    second = put(saver, first, {"messages": [*messages, AIMessage("kept")]}, {"messages": 2})
    third = put(saver, second, {"messages": [*messages, AIMessage("kept"), HumanMessage("b")]}, {"messages": 3})
    assert stored(store, second) == [*messages, AIMessage("kept")]
    assert stored(store, third) == [*messages, AIMessage("kept"), HumanMessage("b")]


def test_a_branch_from_an_older_checkpoint_shares_nothing_that_came_after_it(store, saver):
    messages = long_list()
    first = put(saver, config(), {"messages": [*messages]}, {"messages": 1})
    second = put(saver, first, {"messages": [*messages, HumanMessage("one")]}, {"messages": 2})
    branch = put(saver, first, {"messages": [*messages, HumanMessage("two")]}, {"messages": 2})
    third = put(saver, branch, {"messages": [*messages, HumanMessage("two"), HumanMessage("three")]}, {"messages": 3})
    fourth = put(saver, second, {"messages": [*messages, HumanMessage("one"), HumanMessage("four")]}, {"messages": 3})
    tails = [[each.content for each in stored(store, place)[60:]] for place in (first, second, branch, third, fourth)]
    assert tails == [[], ["one"], ["two"], ["two", "three"], ["one", "four"]]
    assert store.verify().ok


def test_another_saver_wrote_and_pruned_meanwhile(store, saver):
    messages = long_list()
    first = put(saver, config(), {"messages": [*messages]}, {"messages": 1})
    other = PerdureSaver(store)
    second = put(other, first, {"messages": [*messages, HumanMessage("one")]}, {"messages": 2})
    other.prune(["t"])
    store.collect(grace="10m")
    third = put(saver, first, {"messages": [*messages, HumanMessage("two")]}, {"messages": 2})
    assert [stored(store, place)[60:] for place in (second, third)] == [[HumanMessage("one")], [HumanMessage("two")]]


def test_a_thread_that_was_deleted_by_another_saver_is_not_built_upon(store, saver):
    messages = long_list()
    first = put(saver, config(), {"messages": [*messages]}, {"messages": 1})
    PerdureSaver(store).delete_thread("t")
    store.collect(grace="10m")
    with pytest.raises(Conflict, match="deleted"):
        put(saver, first, {"messages": [*messages, HumanMessage("two")]}, {"messages": 2})
    again = put(saver, config(), {"messages": [*messages, HumanMessage("anew")]}, {"messages": 1})
    assert stored(store, again) == [*messages, HumanMessage("anew")]


def test_threads_of_a_process_that_put_at_once_each_store_their_own(store, saver):
    messages = long_list()
    first = put(saver, config(), {"messages": [*messages]}, {"messages": 1})
    with ThreadPoolExecutor(4) as pool:
        tails = [[HumanMessage(f"{number}")] * (number + 1) for number in range(12)]
        places = [*pool.map(lambda tail: put(saver, first, {"messages": [*messages, *tail]}, {"messages": 2}), tails)]
    assert [stored(store, place)[60:] for place in places] == tails
    assert store.verify().ok


def test_a_channel_without_a_new_version_is_not_looked_at(saver):
    place = put(saver, config(), {"big": "x" * 5000, "n": 1}, {"big": 1, "n": 1})
    place = put(saver, place, {"big": object(), "n": 2}, {"big": 1, "n": 2}, {"n": 2})
    assert saver.get_tuple(place).checkpoint["channel_values"] == {"big": "x" * 5000, "n": 2}


def test_a_branch_trusts_no_version_of_another_one(saver):
    first = put(saver, config(), {"a": "one"}, {"a": 1})
    put(saver, first, {"a": "two"}, {"a": 2})
    other = put(saver, first, {"a": "three"}, {"a": 2}, {"n": 1})
    assert saver.get_tuple(other).checkpoint["channel_values"] == {"a": "three"}


# -- strict reading --------------------------------------------------------------------------------------------


def test_a_class_that_was_not_allowed_is_refused_when_it_is_written(saver):
    with pytest.raises(UnknownType, match=r"channel_values.mine.*test_saver.Mine.*allow=\[Mine\]"):
        put(saver, config(), {"mine": Mine(a=1)})
    assert saver.get_tuple(config()) is None


def test_an_allowed_class_comes_back(store):
    saver = PerdureSaver(store, allow=[Mine])
    place = put(saver, config(), {"mine": Mine(a=1), "listed": [Mine(a=2), Mine(a=3)]})
    assert saver.get_tuple(place).checkpoint["channel_values"] == {"mine": Mine(a=1), "listed": [Mine(a=2), Mine(a=3)]}
    with pytest.raises(UnknownType, match=r"channel_values\.\w+.*Mine"):
        PerdureSaver(store).get_tuple(place)


def test_the_serializer_may_be_assigned_later(store):
    saver = PerdureSaver(store)
    saver.serde = JsonPlusSerializer(allowed_msgpack_modules=[Mine])
    place = put(saver, config(), {"mine": Mine(a=1)})
    assert saver.get_tuple(place).checkpoint["channel_values"] == {"mine": Mine(a=1)}


def test_with_allowlist_allows_more(saver):
    more = saver.with_allowlist([(Mine.__module__, "Mine")])
    place = put(more, config(), {"mine": Mine(a=1)})
    assert more.get_tuple(place).checkpoint["channel_values"] == {"mine": Mine(a=1)}


def test_pickle_is_neither_written_nor_read(store):
    saver = PerdureSaver(store, serde=JsonPlusSerializer(pickle_fallback=True))
    with pytest.raises(Invalid, match=r"channel_values.x: .*pickle"):
        put(saver, config(), {"x": re.compile})
    with pytest.raises(UnknownType, match="pickle"):
        StrictSerializer().loads_typed(("pickle", b"\x80\x04N."))


def test_what_cannot_be_stored_names_its_channel(saver):
    with pytest.raises(Invalid, match=r"channel_values\.huge"):
        put(saver, config(), {"huge": 2**80})
    with pytest.raises(Invalid, match=r"channel_values\.opaque"):
        put(saver, config(), {"opaque": object()})


# -- threads ---------------------------------------------------------------------------------------------------


def test_a_deleted_thread_is_not_brought_back_by_a_run_that_still_writes(store, saver):
    first = put(saver, config(), {"a": 1})
    saver.delete_thread("t")
    with pytest.raises(Conflict, match="was deleted while this run was writing"):
        put(saver, first, {"a": 2})
    with pytest.raises(Conflict, match="was deleted"):
        PerdureSaver(store).put_writes(first, [("a", 2)], "task")
    assert saver.get_tuple(config()) is None
    assert [*saver.list(None)] == []
    place = put(saver, config(), {"a": 3})
    assert saver.get_tuple(config()).config == place
    assert store.verify().ok


def test_deleting_empties_the_log_and_frees_the_nodes(store, saver):
    place = config()
    for number in range(5):
        place = put(saver, place, {"text": f"secret {number} " * 500}, {"text": number + 1})
    saver.put_writes(place, [("text", "secret")], "task")
    saver.delete_thread("t")
    assert store.collect(grace="10m").blobs >= 5
    assert store.verify().ok
    assert "secret" not in str(store.query("SELECT body FROM v_events"))


class Deltas(TypedDict):
    log: Annotated[list, DeltaChannel(lambda old, new: [*old, *new], list)]


def test_pruning_keeps_what_a_delta_channel_is_rebuilt_from(saver):
    made = StateGraph(Deltas)
    made.add_node("work", lambda state: {"log": [f"did {len(state['log'])}"]})
    made.add_edge(START, "work")
    made.add_edge("work", END)
    app = made.compile(checkpointer=saver)
    for number in range(3):
        app.invoke({"log": [f"asked {number}"]}, config())
    before = app.get_state(config()).values
    assert len(before["log"]) == 6
    saver.prune(["t"])
    assert app.get_state(config()).values == before


def test_control_pruning_without_its_ancestors_loses_it(saver, monkeypatch):
    from perdure_adapters.langgraph import threads

    monkeypatch.setattr(threads, "_lacking", lambda _each: set())
    with pytest.raises(AssertionError):
        test_pruning_keeps_what_a_delta_channel_is_rebuilt_from(saver)


def test_two_writers_on_one_thread_lose_nothing(store):
    one, other = PerdureSaver(store), PerdureSaver(store)
    first = put(one, config(), {"a": ["x" * 2000, "y"]})
    second = put(other, first, {"a": ["x" * 2000, "y", "z"]}, {"a": 2})
    third = put(one, first, {"a": ["x" * 2000, "y", "w"]}, {"a": 2})
    assert one.get_tuple(second).checkpoint["channel_values"]["a"][-1] == "z"
    assert other.get_tuple(third).checkpoint["channel_values"]["a"][-1] == "w"
    assert store.verify().ok


def test_a_thread_is_forked_exported_and_moved(store, saver, tmp_path):
    app = graph(saver)
    app.invoke({"messages": [HumanMessage("one")]}, config())
    store.session("t").fork(name="fork")
    assert len(app.get_state(config("fork")).values["messages"]) == 2
    app.invoke({"messages": [HumanMessage("two")]}, config("fork"))
    assert [len(app.get_state(config(name)).values["messages"]) for name in ("t", "fork")] == [2, 4]
    store.export(tmp_path / "out.perdure", sessions=["t"])
    with perdure.open(f"sqlite:///{tmp_path}/b.db") as other:
        other.import_(tmp_path / "out.perdure")
        assert len(graph(PerdureSaver(other)).get_state(config()).values["messages"]) == 2
        assert other.verify().ok


def test_a_put_whose_base_was_pruned_and_collected_is_laid_out_anew(store, saver):
    first = put(saver, config(), {"text": "x" * 9000, "n": 1}, {"text": 1, "n": 1})
    PerdureSaver(store).delete_for_runs([])
    other = PerdureSaver(store)
    second = put(other, first, {"text": "y" * 9000, "n": 1}, {"text": 2, "n": 1})
    other.prune(["t"])
    store.collect(grace="10m")
    third = put(saver, first, {"text": "x" * 9000, "n": 2}, {"text": 1, "n": 2}, {"n": 2})
    assert saver.get_tuple(third).checkpoint["channel_values"] == {"text": "x" * 9000, "n": 2}
    assert saver.get_tuple(second).checkpoint["channel_values"]["text"] == "y" * 9000


def test_a_thread_of_the_stock_saver_is_brought_along_and_continued(saver, tmp_path):
    sqlite = pytest.importorskip("langgraph.checkpoint.sqlite", reason="langgraph-checkpoint-sqlite is not installed")
    with sqlite.SqliteSaver.from_conn_string(str(tmp_path / "old.sqlite")) as old:
        stock = graph(old)
        for text in ("one", "two"):
            stock.invoke({"messages": [HumanMessage(text)]}, config())
        before = [(each.values, each.next, each.metadata) for each in stock.get_state_history(config())]
        assert saver.bring_from(old, "t") == 6
        assert saver.bring_from(old, "t") == 6
    app = graph(saver)
    assert [(each.values, each.next, each.metadata) for each in app.get_state_history(config())] == before
    assert len(app.invoke({"messages": [HumanMessage("three")]}, config())["messages"]) == 6


def test_a_turn_costs_the_same_however_long_the_thread_is(store, tmp_path):
    def bytes_now() -> int:
        database = apsw.Connection(f"{tmp_path}/a.db")
        try:
            return sum(
                next(database.execute(statement))[0]
                for statement in ("SELECT sum(length(body)) FROM events", "SELECT sum(length(data)) FROM blobs")
            )
        finally:
            database.close()

    app = graph(PerdureSaver(store), "answer " * 150)
    sizes = []
    for number in range(90):
        app.invoke({"messages": [HumanMessage(f"{number} " + "question " * 120)]}, config(), durability="sync")
        if number in (29, 59, 89):
            sizes.append(bytes_now())
    assert sizes[2] - sizes[1] < 1.3 * (sizes[1] - sizes[0])  # a state that is written whole each time: 1.7


# -- hostile bytes ---------------------------------------------------------------------------------------------


def test_hostile_bytes_import_nothing_and_change_nothing(saver, monkeypatch):
    import importlib

    import ormsgpack

    imported: list[str] = []
    real = importlib.import_module
    monkeypatch.setattr(importlib, "import_module", lambda name, *rest: imported.append(name) or real(name, *rest))
    draw = random.Random(11)
    names = [
        ("os", "system"), ("subprocess", "Popen"), ("builtins", "eval"), ("pathlib", "Path.unlink"), ("importlib", "reload"),
        ("langchain_core.messages.ai", "AIMessage.__init__"), ("antigravity", "fly"), ("pickle", "loads"), (1, None), ("", ""),
    ]  # fmt: skip
    good = saver.serde.dumps_typed([HumanMessage("hello", id="1"), {"a": (1, 2)}])[1]
    refused = read = 0
    for number in range(700):
        if number % 2:
            module, name = names[number // 2 % len(names)]
            payload = [
                module,
                name,
                draw.choice([{}, [], "rm -rf /", {"x": 1}]),
                draw.choice(["model_validate_json", "system"]),
            ]
            data = ormsgpack.packb([ormsgpack.Ext(draw.randrange(9), ormsgpack.packb(payload[: draw.randrange(5)]))])
        else:
            broken = bytearray(good)
            for _ in range(draw.randrange(1, 4)):
                broken[draw.randrange(len(broken))] = draw.randrange(256)
            data = bytes(broken[: draw.randrange(1, len(broken) + 1)])
        kind = draw.choice(["msgpack"] * 8 + ["pickle", "json"])
        try:
            saver.serde.loads_typed((kind, data))
            read += 1
        except Error:
            refused += 1
    assert refused + read == 700
    assert refused > 500
    allowed = {module for module, *_ in serde.BUILT_IN}
    assert set(imported) <= allowed


def test_a_damaged_state_is_refused_with_its_channel(store, saver):
    place = put(saver, config(), {"a": ["x", "y"]})
    store.session("t").checkpoint({"format": 9}, name="langgraph/", key="zzz")
    with pytest.raises(Damaged, match="not a checkpoint of LangGraph"):
        saver.get_tuple({"configurable": {"thread_id": "t", "checkpoint_id": "zzz"}})
    assert saver.get_tuple(place).checkpoint["channel_values"] == {"a": ["x", "y"]}
