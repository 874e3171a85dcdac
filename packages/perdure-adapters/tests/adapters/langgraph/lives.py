"""Lives of an agent of LangGraph that are ended at every commit and every send. Run by `test_kills.py`, in a process of its own:

    python lives.py '{"subject": "perdure", "durability": "async", "slow": false, "again": false, "points": null}'

Subjects: "perdure", a graph whose node asks the model by the ledger; "middleware", an agent of langchain; "asks-itself", whose
node asks the model without the ledger; "stock"; and controls, each of which lacks one thing. Each life is a fork of this process,
so that the frameworks are loaded once. A life is killed at one point; lives follow until one finishes the work; then the outside
world (files of lines) is counted. Prints a JSON object.

Answers of the model have ids, and each life looks first which of them the life before it has left where LangGraph resumes:
  unrecorded  the process died between the answer and the commit that keeps it: nobody can know of it. Of these,
  early       came before the checkpoint of their task was durable, as they may where the node asks without the ledger
  dropped     were written and not yet part of the thread when the message was sent again: LangGraph drops such writes
  paid again  any other answer that was asked for twice
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

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool as as_langchain
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.config import get_config
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.prebuilt import ToolNode

import perdure
from perdure.stores import sqlite
from perdure_adapters.langgraph import PerdureMiddleware, PerdureSaver, answers, ledger

LIVES_MAX = 6
SLOW_SECONDS = 0.15
ORDERS = ("pay", "mail")
CONFIG: Any = {"configurable": {"thread_id": "order"}}


class State(TypedDict):
    messages: Annotated[list, add_messages]


class World:
    """The calls that the outside world saw, and the point at which this life ends."""

    def __init__(self, folder: Path, point: int) -> None:
        self.folder = folder
        self.point = point
        self.count = 0

    def tick(self) -> None:
        self.count += 1
        if self.count == self.point:
            os.kill(os.getpid(), signal.SIGKILL)

    def say(self, file: str, line: str) -> None:
        handle = os.open(self.folder / file, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(handle, line.encode() + b"\n")
        os.close(handle)

    def lines(self, file: str) -> list[str]:
        return (self.folder / file).read_text().split() if (self.folder / file).exists() else []


def live(folder: Path, order: dict[str, Any], point: int) -> int:
    """One life; returns how many points there were."""
    world = World(folder, point)
    subject = order["subject"]
    with opened(folder, subject) as (store, saver):
        look_back(world, store, saver, order["again"])
        wrap_saver(saver, world, order["slow"])
        wrap_commits(world)
        app = agent(world, store, saver) if subject == "middleware" else graph(world, store, saver, subject)
        found = app.get_state(CONFIG)
        if done(found.values):
            return world.count
        fresh = not found.values.get("messages")
        message = {"messages": [HumanMessage("order")]} if fresh or order["again"] else None
        app.invoke(message, CONFIG, durability=order["durability"])
        found = app.get_state(CONFIG)
        if not done(found.values):
            raise SystemExit(f"not done: {found}")
    return world.count


def look_back(world: World, store: Any, saver: Any, again: bool) -> None:
    """Say which answers of the lives before this one are not where it resumes."""
    found = saver.get_tuple(CONFIG)
    thread = found.checkpoint["channel_values"].get("messages", ()) if found else ()
    writes = [value for _, channel, value in found.pending_writes if channel == "messages"] if found else []
    kept = b"".join(each.result["native"] for each in store.effects(tool="model", state="committed")) if store else b""
    known = {each.id for each in thread} | {each for each in world.lines("asked") if each.encode() in kept}
    written = {each.id for value in writes for each in value} - known
    for each in set(world.lines("asked")) - known - set(world.lines("gone")):
        is_written = each in written
        if is_written and not again:
            continue
        world.say("gone", each)
        world.say("dropped" if is_written else "unrecorded", each)


class opened:  # noqa: N801 - used as a context
    def __init__(self, folder: Path, subject: str) -> None:
        self.folder, self.subject = folder, subject

    def __enter__(self) -> tuple[Any, Any]:
        if self.subject == "stock":
            self.context = SqliteSaver.from_conn_string(str(self.folder / "stock.db"))
            return None, self.context.__enter__()
        self.context = perdure.open(f"sqlite:///{self.folder}/agent.db")
        return self.context, PerdureSaver(self.context)

    def __exit__(self, *error: object) -> None:
        self.context.__exit__(*error)


def wrap_saver(saver: Any, world: World, slow: bool) -> None:
    put, put_writes = saver.put, saver.put_writes

    def around_put(*args: Any, **kwargs: Any) -> Any:
        world.tick()
        time.sleep(SLOW_SECONDS if slow else 0)
        given = put(*args, **kwargs)
        world.tick()
        return given

    def around_writes(*args: Any, **kwargs: Any) -> None:
        world.tick()
        put_writes(*args, **kwargs)
        world.tick()

    saver.put, saver.put_writes = around_put, around_writes


def wrap_commits(world: World) -> None:
    does = sqlite.SqliteConnection.commit

    def commit(self: Any, *args: Any, **kwargs: Any) -> Any:
        world.tick()
        given = does(self, *args, **kwargs)
        world.tick()
        return given

    sqlite.SqliteConnection.commit = commit  # this process ends with this life


def answer(world: World, saver: Any, messages: list[Any]) -> AIMessage:
    """The model: it calls both tools, and is done when it has seen their results."""
    made = AIMessage("", id=uuid.uuid4().hex)
    world.say("asked", str(made.id))
    if isinstance(saver, PerdureSaver):
        place = get_config()["configurable"]["checkpoint_map"]
        if saver.await_durable("order", place, 0) is not None:
            world.say("early", str(made.id))
    world.tick()
    if set(ORDERS) <= {each.name for each in messages if isinstance(each, ToolMessage) and each.status != "error"}:
        made.content = "done"
    else:
        made.tool_calls = [
            {"id": f"call_{uuid.uuid4().hex}", "name": name, "args": {"order": "7"}, "type": "tool_call"}
            for name in ORDERS
        ]
    return made


def tools(world: World) -> list[Any]:
    def send(name: str) -> str:
        world.tick()
        world.say("world", name)
        world.tick()
        return f"did {name}"

    def asked(order: str, name: str) -> Any:
        return perdure.Happened(f"did {name}") if name in world.lines("world") else perdure.Absent()

    def tool(name: str) -> Any:
        def act(order: str) -> str:
            """Do it."""
            return send(name)

        act.__name__ = name
        declared = perdure.tool(act, name=name, probe=lambda order: asked(order, name), lands_within=0)
        return as_langchain(declared)

    return [tool(name) for name in ORDERS]


def graph(world: World, store: Any, saver: Any, subject: str) -> Any:
    """A graph whose own node asks the model."""
    wrappers: Any = ledger(store) if store else {}
    if subject == "no barrier":
        wrappers.barrier = False
    if subject == "asks-anew":
        answers.kept_answer = answers.message_before_repetitions = lambda _messages: None
    if subject == "asks-early":
        answers.ModelAnswers._asked_at = lambda _self, place, _messages: place.checkpoint
    asks_itself = subject in ("stock", "no barrier", "asks-itself")

    def model(state: State) -> Any:
        def ask(messages: list[Any]) -> AIMessage:
            return answer(world, saver, messages)

        said = state["messages"]
        return {"messages": [ask(said) if asks_itself else wrappers.ask_model(said, ask)]}

    def route(state: State) -> str:
        return "tools" if state["messages"][-1].tool_calls else END

    made = StateGraph(State)
    made.add_node("model", model)
    made.add_node("tools", ToolNode(tools(world), **wrappers))
    made.add_edge(START, "model")
    made.add_conditional_edges("model", route)
    made.add_edge("tools", "model")
    return made.compile(checkpointer=saver)


def agent(world: World, store: Any, saver: Any) -> Any:
    """An agent of langchain."""

    class Model(BaseChatModel):
        _llm_type = "told"

        def bind_tools(self, *_args: Any, **_kwargs: Any) -> Any:
            return self

        def _generate(self, messages: list[Any], *_args: Any, **_kwargs: Any) -> ChatResult:
            return ChatResult(generations=[ChatGeneration(message=answer(world, saver, messages))])

    return create_agent(Model(), tools(world), middleware=[PerdureMiddleware(store)], checkpointer=saver)


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
    counts = dict.fromkeys(
        ("points", "killed", "twice", "lost", "paid again", "stranded", "unrecorded", "early", "dropped"), 0
    )
    for point in points:
        with tempfile.TemporaryDirectory() as folder:
            for name, number in case(Path(folder), order, point).items():
                counts[name] += number
    return {**counts, "total": count}


def case(folder: Path, order: dict[str, Any], point: int) -> dict[str, int]:
    """What came of one kill."""
    world = World(folder, 0)
    finished, _ = forked(folder, order, point)
    killed, lives = not finished, 1
    while not finished and lives < LIVES_MAX:
        finished, _ = forked(folder, order, 0)
        lives += 1
    happened, unrecorded, dropped = world.lines("world"), set(world.lines("unrecorded")), world.lines("dropped")
    return {
        "points": 1, "killed": killed, "twice": len(happened) > len(set(happened)), "lost": set(happened) != set(ORDERS),
        "paid again": len(world.lines("asked")) > 2 + len(unrecorded) + len(dropped), "stranded": not finished,
        "unrecorded": len(unrecorded), "early": len(unrecorded & set(world.lines("early"))), "dropped": len(dropped),
    }  # fmt: skip


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    sys.stdout.write(json.dumps(sweep(json.loads(sys.argv[1]))))
