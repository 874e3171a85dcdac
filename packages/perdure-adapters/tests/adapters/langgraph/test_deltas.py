"""The history of delta channels is what LangGraph's own walk finds, and reads no state on the way. P8."""

from __future__ import annotations

import pytest

pytest.importorskip("langgraph", reason="langgraph is not installed")

from langchain_core.messages import HumanMessage
from langgraph.checkpoint.base import BaseCheckpointSaver, empty_checkpoint
from langgraph.checkpoint.base.id import uuid6

from perdure.planes.recovery import keyed
from perdure_adapters.langgraph import PerdureSaver

if not hasattr(BaseCheckpointSaver, "get_delta_channel_history"):
    pytest.skip("this version of langgraph has no delta channels", allow_module_level=True)


@pytest.fixture
def saver(tmp_path):
    with PerdureSaver(f"sqlite:///{tmp_path}/a.db") as made:
        yield made


def put(saver, place, values):
    checkpoint = empty_checkpoint() | {"id": str(uuid6()), "channel_values": values}
    return saver.put(place, checkpoint, {"source": "loop", "step": 1, "parents": {}}, dict.fromkeys(values, 1))


def line(saver):
    """A thread in which `a` and `b` stand whole once, with a long channel beside them and a branch off it."""
    rest = {"long": [HumanMessage("x" * 3_000, id=str(number)) for number in range(40)]}
    place = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
    places = []
    for number, values in enumerate([{"b": [1]}, {"a": [HumanMessage("whole")]}, {}, {}, {}]):
        place = put(saver, place, rest | values)
        saver.put_writes(place, [("a", f"a{number}"), ("b", [number]), ("other", 0)], "task-2", "~2")
        saver.put_writes(place, [("a", "y" * 3_000)], "task-1", "~1")
        places.append(place)
    side = put(saver, places[2], rest)
    saver.put_writes(side, [("a", "not on the way")], "task-1", "~1")
    return places


def test_it_is_what_the_walk_of_langgraph_finds(saver):
    for place in line(saver):
        for channels in (["a"], ["a", "b"], ["b", "nobody"], []):
            expected = BaseCheckpointSaver.get_delta_channel_history(saver, config=place, channels=channels)
            assert saver.get_delta_channel_history(config=place, channels=channels) == expected
    assert saver.get_delta_channel_history(
        config={"configurable": {"thread_id": "nobody"}}, channels=["a"]
    ) == {"a": {"writes": []}}  # fmt: skip


def test_only_the_state_that_has_the_channel_is_read(saver, monkeypatch):
    places, read = line(saver), []
    whole = keyed.state
    monkeypatch.setattr(keyed, "state", lambda found, fetch: read.append(found.key) or whole(found, fetch))
    found = saver.get_delta_channel_history(config=places[-1], channels=["a"])
    assert [each[2] for each in found["a"]["writes"]] == ["y" * 3_000, "a1", "y" * 3_000, "a2", "y" * 3_000, "a3"]
    assert found["a"]["seed"][0].content == "whole"
    assert read == [places[1]["configurable"]["checkpoint_id"]]
