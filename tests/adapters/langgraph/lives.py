"""Lives of an agent of LangGraph that are ended at every commit and every send. Run by `test_kills.py`, in a process of its own:

    python lives.py '{"subject": "perdure", "durability": "async", "slow": false, "again": false, "points": null}'

Each life is a fork of this process, so that the frameworks are loaded once. A life is killed at one point; lives follow until one
finishes the work; then the outside world (a file of lines) is counted. Prints a JSON object.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import time
import uuid
import warnings
from pathlib import Path
from typing import Annotated, Any, TypedDict

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool as as_langchain
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.prebuilt import ToolNode

import perdure
from perdure.adapters.langgraph import PerdureSaver, ledger
from perdure.stores import sqlite

LIVES_MAX = 6
SLOW_SECONDS = 0.15
ORDERS = ("pay", "mail")


class State(TypedDict):
    messages: Annotated[list, add_messages]


class World:
    """The calls that the outside world saw, and the point at which this life ends."""

    def __init__(self, folder: Path, point: int) -> None:
        self.file = folder / "world"
        self.asked = folder / "asked"
        self.unrecorded = folder / "unrecorded"
        self.point = point
        self.count = 0
        self.answers = 0  # of the model, in this life
        self.puts: set[str] = set()  # the checkpoints that are kept, by id
        self.written: dict[str, int] = {}  # how many answers had been given when writes of a checkpoint were kept

    def tick(self) -> None:
        self.count += 1
        if self.count == self.point:
            # In "async", writes may be kept before their checkpoint is: without it they are nothing.
            recorded = max((count for at, count in self.written.items() if at in self.puts), default=0)
            for _ in range(recorded, self.answers):
                self.say(self.unrecorded, "unrecorded")
            os.kill(os.getpid(), signal.SIGKILL)

    def say(self, file: Path, line: str) -> None:
        handle = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(handle, line.encode() + b"\n")
        os.close(handle)

    def lines(self, file: Path) -> list[str]:
        return file.read_text().split() if file.exists() else []


def live(folder: Path, order: dict[str, Any], point: int) -> int:
    """One life; returns how many points there were."""
    world = World(folder, point)
    subject = order["subject"]
    with opened(folder, subject) as (saver, wrappers):
        wrap_saver(saver, world, order["slow"])
        wrap_commits(world)
        app = graph(world, saver, wrappers)
        config = {"configurable": {"thread_id": "order"}}
        found = app.get_state(config)
        if done(found.values):
            return world.count
        fresh = not found.values.get("messages")
        message = {"messages": [HumanMessage("order")]} if fresh or order["again"] else None
        app.invoke(message, config, durability=order["durability"])
        found = app.get_state(config)
        if not done(found.values):
            raise SystemExit(f"not done: {found}")
    return world.count


class opened:  # noqa: N801 - used as a context
    def __init__(self, folder: Path, subject: str) -> None:
        self.folder, self.subject = folder, subject

    def __enter__(self) -> tuple[Any, dict[str, Any]]:
        if self.subject == "stock":
            self.context = SqliteSaver.from_conn_string(str(self.folder / "stock.db"))
            return self.context.__enter__(), {}
        self.context = perdure.open(f"sqlite:///{self.folder}/agent.db")
        wrappers = ledger(self.context)
        wrappers.barrier = self.subject != "no barrier"
        return PerdureSaver(self.context), dict(**wrappers)

    def __exit__(self, *error: object) -> None:
        self.context.__exit__(*error)


def wrap_saver(saver: Any, world: World, slow: bool) -> None:
    put, put_writes = saver.put, saver.put_writes
    tuple_of = saver.get_tuple

    def around_put(*args: Any, **kwargs: Any) -> Any:
        world.tick()
        time.sleep(SLOW_SECONDS if slow else 0)
        given = put(*args, **kwargs)
        world.puts.add(given["configurable"]["checkpoint_id"])
        world.tick()
        return given

    def around_writes(config: Any, *args: Any, **kwargs: Any) -> Any:
        answers = world.answers
        world.tick()
        put_writes(config, *args, **kwargs)
        world.written[config["configurable"]["checkpoint_id"]] = answers
        world.tick()

    def around_tuple(*args: Any, **kwargs: Any) -> Any:
        found = tuple_of(*args, **kwargs)
        world.puts |= {found.config["configurable"]["checkpoint_id"]} if found is not None else set()
        return found

    saver.put, saver.put_writes, saver.get_tuple = around_put, around_writes, around_tuple


def wrap_commits(world: World) -> None:
    does = sqlite.SqliteConnection.commit

    def commit(self: Any, *args: Any, **kwargs: Any) -> Any:
        world.tick()
        given = does(self, *args, **kwargs)
        world.tick()
        return given

    sqlite.SqliteConnection.commit = commit  # this process ends with this life


def graph(world: World, saver: Any, wrappers: dict[str, Any]) -> Any:
    def send(name: str) -> str:
        world.tick()
        world.say(world.file, name)
        world.tick()
        return f"did {name}"

    def asked(order: str, name: str) -> Any:
        return perdure.Happened(f"did {name}") if name in world.lines(world.file) else perdure.Absent()

    def tool(name: str) -> Any:
        def act(order: str) -> str:
            """Do it."""
            return send(name)

        act.__name__ = name
        declared = perdure.tool(act, name=name, probe=lambda order: asked(order, name), lands_within=0)
        return as_langchain(declared)

    def model(state: State) -> Any:
        world.say(world.asked, "asked")
        world.answers += 1
        answered = {each.name for each in state["messages"] if isinstance(each, ToolMessage)}
        world.tick()
        if set(ORDERS) <= answered:
            return {"messages": [AIMessage("done")]}
        calls = [{"id": f"call_{uuid.uuid4().hex}", "name": name, "args": {"order": "7"}} for name in ORDERS]
        return {"messages": [AIMessage("", tool_calls=calls)]}

    def route(state: State) -> str:
        return "tools" if state["messages"][-1].tool_calls else END

    made = StateGraph(State)
    made.add_node("model", model)
    made.add_node("tools", ToolNode([tool(name) for name in ORDERS], **wrappers))
    made.add_edge(START, "model")
    made.add_conditional_edges("model", route)
    made.add_edge("tools", "model")
    return made.compile(checkpointer=saver)


def done(values: dict[str, Any]) -> bool:
    messages = values.get("messages") or []
    return bool(messages) and isinstance(messages[-1], AIMessage) and messages[-1].content == "done"


def forked(folder: Path, order: dict[str, Any], point: int) -> tuple[bool, int]:
    """A life in a process of its own: whether it came to its end, and how many points it had."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writer, str(live(folder, order, point)).encode())
            os._exit(0)
        except BaseException as error:
            sys.stderr.write(f"{type(error).__name__}: {error}\n")
            os._exit(1)
    os.close(writer)
    said = os.read(reader, 20)
    os.close(reader)
    _, status = os.waitpid(child, 0)
    if os.WIFEXITED(status) and os.WEXITSTATUS(status):
        raise SystemExit(f"a life ended with an error at point {point} of {order}")
    return not os.WIFSIGNALED(status), int(said or b"0")


def sweep(order: dict[str, Any]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        _, count = forked(Path(folder), order, 0)
    points = range(1, count + 1) if order["points"] is None else order["points"]
    counts = {"points": 0, "killed": 0, "twice": 0, "lost": 0, "paid again": 0, "stranded": 0, "unrecorded": 0}
    for point in points:
        with tempfile.TemporaryDirectory() as folder:
            world = World(Path(folder), 0)
            finished, _ = forked(Path(folder), order, point)
            counts["points"] += 1
            counts["killed"] += not finished
            lives = 1
            while not finished and lives < LIVES_MAX:
                finished, _ = forked(Path(folder), order, 0)
                lives += 1
            happened = world.lines(world.file)
            counts["twice"] += len(happened) > len(set(happened))
            counts["lost"] += set(happened) != set(ORDERS)
            unrecorded = len(world.lines(world.unrecorded))
            counts["unrecorded"] += unrecorded
            counts["paid again"] += len(world.lines(world.asked)) > 2 + unrecorded
            counts["stranded"] += not finished
    return {**counts, "total": count}


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    sys.stdout.write(json.dumps(sweep(json.loads(sys.argv[1]))))
