"""Makes a sample with langgraph itself: graphs that call tools, on its SQLite checkpointer. Runs in the peer's interpreter.

python make_langgraph.py FOLDER    writes checkpoints.sqlite, and expected.json: what the library itself reads back from it
"""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from decimal import Decimal
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any
from uuid import UUID

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, RemoveMessage, SystemMessage
from langchain_core.tools import tool
from langgraph.channels import DeltaChannel
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import _messages_delta_reducer, add_messages
from langgraph.prebuilt import ToolNode
from langgraph.types import interrupt
from typing_extensions import TypedDict


class State(TypedDict, total=False):
    messages: Annotated[list[AnyMessage], add_messages]
    count: int
    facts: dict[str, Any]


class Deltas(TypedDict, total=False):
    messages: Annotated[list[AnyMessage], DeltaChannel(_messages_delta_reducer, snapshot_frequency=5)]


@tool
def weather(city: str) -> str:
    """The weather of a city."""
    if city == "Atlantis":
        raise ValueError("no such city")
    return f"{city}: sunny, 21 °C"


def call(name: str, city: str) -> dict[str, Any]:
    return {"name": "weather", "args": {"city": city}, "id": name}


ANSWERS = [
    AIMessage("Let me look.", tool_calls=[call("call_a", "Oslo"), call("call_b", "Rome")]),
    AIMessage("Both are sunny."),
    AIMessage(
        [{"type": "text", "text": "Hm."}, {"type": "text", "text": "I try."}], tool_calls=[call("call_c", "Atlantis")]
    ),
    AIMessage("There is no such city."),
]


def built(saver: SqliteSaver) -> Any:
    answers = iter(ANSWERS)

    def think(state: State) -> State:
        facts = {
            "when": datetime(2026, 1, 2, tzinfo=UTC),
            "sum": Decimal("1.50"),
            "id": UUID(int=7),
            "set": {1},
            "raw": b"\x00\xff",
        }
        return {"messages": [next(answers)], "count": state.get("count", 0) + 1, "facts": facts}

    graph = StateGraph(State).add_node("think", think).add_node("tools", ToolNode([weather], handle_tool_errors=True))
    graph.add_edge(START, "think").add_edge("tools", "think")
    graph.add_conditional_edges("think", lambda state: "tools" if state["messages"][-1].tool_calls else END)
    return graph.compile(checkpointer=saver)


def asking(saver: SqliteSaver) -> Any:
    def ask(state: State) -> State:
        return {"messages": [AIMessage(str(interrupt("Go on?")))]}

    graph = StateGraph(State).add_node("ask", ask).add_edge(START, "ask").add_edge("ask", END)
    return graph.compile(checkpointer=saver)


def told(message: Any) -> dict[str, Any]:
    calls = [[each["id"], each["name"], each["args"]] for each in getattr(message, "tool_calls", [])]
    found = {"type": message.type, "content": message.content, "calls": calls, "id": message.id}
    return found | ({"call": message.tool_call_id, "status": message.status} if message.type == "tool" else {})


def branched(saver: SqliteSaver) -> dict[str, Any]:
    """A thread that went on from an older checkpoint once: the line that was left is a branch."""
    thread = {"configurable": {"thread_id": "branches"}}
    plain = StateGraph(State).add_node("hear", lambda _: {}).add_edge(START, "hear").compile(checkpointer=saver)
    for number in ("b1", "b2"):
        plain.invoke({"messages": [HumanMessage(f"say {number}", id=number)]}, thread)
    left = plain.get_state(thread)
    earlier = next(state for state in plain.get_state_history(thread) if len(state.values.get("messages", [])) == 1)
    plain.invoke({"messages": [HumanMessage("say b3", id="b3")]}, earlier.config)
    name = f"branches/branch-{left.config['configurable']['checkpoint_id']}"
    return {
        "branches": [told(each) for each in plain.get_state(thread).values["messages"]],
        name: [told(each) for each in left.values["messages"]],
    }


def kept_as_deltas(saver: SqliteSaver) -> dict[str, Any]:
    """A thread whose messages are not in its checkpoints, but for a snapshot now and then."""
    thread = {"configurable": {"thread_id": "deltas"}}
    graph = StateGraph(Deltas).add_node(
        "echo", lambda state: {"messages": [AIMessage(f"re {state['messages'][-1].content}")]}
    )
    compiled = graph.add_edge(START, "echo").compile(checkpointer=saver)
    for number in range(4):
        compiled.invoke({"messages": [HumanMessage(f"say {number}")]}, thread)
    return {"deltas": [told(each) for each in compiled.get_state(thread).values["messages"]]}


def make(folder: Path) -> None:
    file = folder / "checkpoints.sqlite"
    read: dict[str, Any] = {}
    with SqliteSaver.from_conn_string(str(file)) as saver:
        graph, thread = built(saver), {"configurable": {"thread_id": "trip-1"}}
        first = [SystemMessage("Plan trips.", id="s0"), HumanMessage("Where is it warm?", id="h1")]
        graph.invoke({"messages": first}, thread)
        graph.invoke({"messages": [HumanMessage("And in Atlantis?", id="h2")]}, thread)
        read["trip-1"] = [told(each) for each in graph.get_state(thread).values["messages"]]
        waiting, other = asking(saver), {"configurable": {"thread_id": "waits"}}
        waiting.invoke({"messages": [HumanMessage("May I?", id="h3")]}, other)
        read["waits"] = [told(each) for each in waiting.get_state(other).values["messages"]]
        forgetful = {"configurable": {"thread_id": "forgets"}}
        plain = StateGraph(State).add_node("hear", lambda _: {}).add_edge(START, "hear").compile(checkpointer=saver)
        plain.invoke({"messages": [HumanMessage("one", id="f1"), AIMessage("two", id="f2")]}, forgetful)
        before = [told(each) for each in plain.get_state(forgetful).values["messages"]]
        plain.invoke({"messages": [RemoveMessage("f1"), HumanMessage("three", id="f3")]}, forgetful)
        after = [told(each) for each in plain.get_state(forgetful).values["messages"]]
        read["forgets"] = [*before, after[-1]]  # also what was removed later was said
        read |= branched(saver) | kept_as_deltas(saver)
        saver.conn.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    names = ("langgraph", "langgraph-checkpoint-sqlite", "langchain-core")
    versions = ", ".join(f"{name} {version(name)}" for name in names)
    expected = {"made with": versions, "sessions": read}
    (folder / "expected.json").write_text(json.dumps(expected, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    make(Path(sys.argv[1]))
