"""Measures PerdureSaver beside LangGraph's own SqliteSaver, in one run: bytes for each turn, one put, one read.

python benchmarks/langgraph_saver.py turns 400     bytes of a thread of so many turns of 2 KB
python benchmarks/langgraph_saver.py puts          one put at 20, 200 and 800 messages, alternating; `puts turns`: and said
python benchmarks/langgraph_saver.py gets          one get_tuple at as many; `gets cold`: by a saver that remembers nothing
"""

from __future__ import annotations

import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any, TypedDict

from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.base.id import uuid6
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages

from perdure_adapters.langgraph import PerdureSaver

WORDS = (Path(__file__).parent.parent / "docs" / "guarantees.md").read_text().split()
ROUNDS = 40


class State(TypedDict):
    """Messages."""

    messages: Annotated[list, add_messages]


def text(draw: random.Random, size: int = 1024) -> str:
    """Words of a page of ours, in any order."""
    return " ".join(draw.choices(WORDS, k=size // 3))[:size]


def turns(count: int) -> None:
    """Talk so many turns, and say what the file takes."""
    draw = random.Random(7)
    made = StateGraph(State)
    made.add_node("model", lambda _state: {"messages": [AIMessage(text(draw))]})
    made.add_edge(START, "model")
    made.add_edge("model", END)
    with tempfile.TemporaryDirectory() as folder:
        for part in range(1, 5):
            with PerdureSaver.from_conn_string(f"sqlite:///{folder}/agent.db") as saver:
                app = made.compile(checkpointer=saver)
                for _ in range(count // 4):
                    app.invoke({"messages": [HumanMessage(text(draw))]}, {"configurable": {"thread_id": "t"}})
            size = sum(file.stat().st_size for file in Path(folder).rglob("*") if file.is_file())
            done = part * (count // 4)
            print(f"{done} turns: {size / 1e6:.2f} MB, {size / done / 1000:.1f} KB a turn")


class Line:
    """A thread that grows by a message with each put."""

    def __init__(self, saver: Any, count: int) -> None:
        draw = random.Random(count)
        self.saver = saver
        self.draw = draw
        self.messages: list[Any] = [HumanMessage(text(draw), id=str(number)) for number in range(count)]
        self.place: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
        self.version: Any = None

    def put(self) -> float:
        """One put; the seconds that it took."""
        self.messages.append(AIMessage(text(self.draw), id=str(len(self.messages))))
        self.version = self.saver.get_next_version(self.version, None)
        checkpoint = empty_checkpoint()
        checkpoint["id"] = str(uuid6())
        checkpoint["channel_values"] = {"messages": [*self.messages]}
        checkpoint["channel_versions"] = {"messages": self.version}
        about = {"source": "loop", "step": 1, "parents": {}}
        began = time.perf_counter()
        self.place = self.saver.put(self.place, checkpoint, about, {"messages": self.version})
        return time.perf_counter() - began

    def get(self, *, is_cold: bool = False) -> float:
        """Read the last checkpoint; the seconds that it took."""
        if is_cold and isinstance(self.saver, PerdureSaver):
            self.saver = PerdureSaver(self.saver.store)
        began = time.perf_counter()
        found = self.saver.get_tuple(self.place)
        seconds = time.perf_counter() - began
        assert found.checkpoint["channel_values"]["messages"] == self.messages
        return seconds


def compare(act: Callable[[Line], float], *, says_turns: bool) -> None:
    """Do one thing in turn with both savers, so that both meet the same noise."""
    for count in (20, 200, 800):
        with tempfile.TemporaryDirectory() as folder:
            made = PerdureSaver.from_conn_string(f"sqlite:///{folder}/ours.db", turns=says_turns)
            with SqliteSaver.from_conn_string(f"{folder}/stock.db") as stock, made as ours:
                lines = Line(stock, count), Line(ours, count)
                for line in lines:
                    line.put()
                seconds = [(act(lines[0]), act(lines[1])) for _ in range(ROUNDS)][2:]
        theirs, own = (statistics.median(each) * 1000 for each in zip(*seconds, strict=True))
        print(f"{count} messages: stock {theirs:.2f} ms, ours {own:.2f} ms, {theirs / own:.2f} times its speed")


def main(what: str, option: str = "") -> None:
    """Measure one of them."""
    if what == "turns":
        turns(int(option))
    elif what == "puts":
        compare(Line.put, says_turns=option == "turns")
    else:
        compare(partial(Line.get, is_cold=option == "cold"), says_turns=False)


if __name__ == "__main__":
    main(*sys.argv[1:])
