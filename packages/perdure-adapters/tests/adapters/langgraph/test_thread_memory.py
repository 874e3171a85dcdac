"""Nodes that a saver remembers: read once, bounded, verified wherever they come from, and forgotten with their thread. P6, P8."""

from __future__ import annotations

from hashlib import sha256

import pytest

pytest.importorskip("langgraph", reason="langgraph is not installed")

from langchain_core.messages import HumanMessage
from langgraph.checkpoint.base import empty_checkpoint

import perdure
from perdure.errors import Damaged
from perdure.stores.core import Reader
from perdure_adapters.langgraph import PerdureSaver, thread_memory
from perdure_adapters.langgraph.thread_memory import RecentNodes

PLACE = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
SAID = [HumanMessage(f"{number} " + "word " * 400, id=str(number)) for number in range(40)]


def nodes(*texts: bytes) -> dict[bytes, bytes]:
    return {sha256(text).digest(): text for text in texts}


@pytest.fixture
def read(monkeypatch):
    """The addresses that the store was asked for."""
    asked: list[bytes] = []
    fetch = Reader.fetch

    def fetching(self, addresses):
        asked.extend(addresses)
        return fetch(self, addresses)

    monkeypatch.setattr(Reader, "fetch", fetching)
    return asked


@pytest.fixture
def store(tmp_path):
    with perdure.open(f"sqlite:///{tmp_path}/agent.db") as opened:
        yield opened


def put(saver, count, place=PLACE):
    checkpoint = empty_checkpoint()
    checkpoint["channel_values"] = {"messages": SAID[:count]}
    checkpoint["channel_versions"] = {"messages": count}
    return saver.put(place, checkpoint, {"source": "loop", "step": 1, "parents": {}}, {"messages": count})


def messages(saver, place=PLACE):
    return saver.get_tuple(place).checkpoint["channel_values"]["messages"]


def test_what_was_put_here_is_not_read_from_the_store(store, read):
    saver = PerdureSaver(store)
    put(saver, 40)
    assert messages(saver) == SAID
    assert read == []


def test_another_saver_reads_each_node_once(store, read):
    put(PerdureSaver(store), 40)
    saver = PerdureSaver(store)
    assert messages(saver) == SAID
    assert len(read) == len(set(read)) > 40
    before = len(read)
    assert messages(saver) == SAID
    assert len(read) == before


def test_of_a_thread_that_grew_elsewhere_only_the_new_nodes_are_read(store, read):
    elsewhere, saver = PerdureSaver(store), PerdureSaver(store)
    place = put(elsewhere, 39)
    assert messages(saver) == SAID[:39]
    before = len(read)
    put(elsewhere, 40, place)
    assert messages(saver) == SAID
    assert len(read) - before < 10


@pytest.mark.parametrize("forget", ["delete_thread", "prune", "delete_for_runs"])
def test_what_is_deleted_is_forgotten(store, forget):
    saver = PerdureSaver(store)
    put(saver, 2)
    assert saver._threads.nodes._newer
    getattr(saver, forget)("t" if forget == "delete_thread" else ["t"])
    assert not saver._threads.nodes._newer


def test_a_remembered_node_is_verified_all_the_same(store):
    saver = PerdureSaver(store)
    put(saver, 2)
    newer = saver._threads.nodes._newer
    for address, node in newer.items():
        newer[address] = node[:-1] + bytes([node[-1] ^ 1])
    with pytest.raises(Damaged, match="not what was written"):
        saver.get_tuple(PLACE)


def test_they_are_bounded_and_those_in_use_stay(monkeypatch):
    monkeypatch.setattr(thread_memory, "NODES_MAX_BYTES", 4_000)
    recent = RecentNodes()
    used = nodes(b"used" * 100)
    recent.keep(used)
    for number in range(100):
        recent.keep(nodes(b"%d " % number * 200))
        held = [*recent._newer.values(), *recent._older.values()]
        assert sum(map(len, held)) <= 4_000 + 800
        assert recent.before(lambda missing: pytest.fail(f"{missing}"))([*used]) == used


def test_control_a_node_that_nobody_asks_for_goes(monkeypatch):
    monkeypatch.setattr(thread_memory, "NODES_MAX_BYTES", 4_000)
    recent = RecentNodes()
    unused = nodes(b"unused" * 100)
    recent.keep(unused)
    for number in range(20):
        recent.keep(nodes(b"%d " % number * 200))
    asked: list[bytes] = []
    recent.before(lambda missing: asked.extend(missing) or {})([*unused])
    assert asked == [*unused]
