"""LangGraph on SQLite: tasks of an entrypoint that give 1 KiB, turns of a graph that keeps messages; durability sync."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Iterator
from operator import add
from pathlib import Path
from typing import Annotated, Any, TypedDict

from langgraph.checkpoint.sqlite import SqliteSaver  # type: ignore[import-not-found]
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver  # type: ignore[import-not-found]
from langgraph.func import entrypoint, task  # type: ignore[import-not-found]
from langgraph.graph import START, StateGraph  # type: ignore[import-not-found]
from langgraph.types import interrupt  # type: ignore[import-not-found]

from perdure.evaluation.bench.floor import Rate, timed
from perdure.evaluation.bench.peers import TEXT, TURNS, main

LETTERS = "abcdefghijklmnopqrstuvwxyz ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.,;"


class Conversation(TypedDict):
    """The content of a checkpoint."""

    turns: Annotated[list[str], add]


def _think(number: int) -> str:
    """A step that costs nothing."""
    return f"{number:04}" + TEXT[4:]


async def _athink(number: int) -> str:
    """An async step that costs nothing."""
    return _think(number)


think: Any = task(_think)
athink: Any = task(_athink)


def _thread(name: str) -> dict[str, Any]:
    return {"configurable": {"thread_id": name}}


@contextlib.contextmanager
def _kept(folder: Path) -> Iterator[Any]:
    with SqliteSaver.from_conn_string(str(folder / "checkpoints.sqlite")) as saver:
        yield saver


@contextlib.asynccontextmanager
async def _akept(folder: Path) -> AsyncIterator[Any]:
    async with AsyncSqliteSaver.from_conn_string(str(folder / "checkpoints.sqlite")) as saver:
        yield saver


def _conversing(saver: Any) -> Any:
    """A graph that takes a turn into its state."""
    graph = StateGraph(Conversation).add_node("hear", lambda state: {}).add_edge(START, "hear")  # noqa: ARG005
    return graph.compile(checkpointer=saver)


def steps(folder: Path, count: int) -> Rate:
    """One entrypoint of many tasks."""
    with _kept(folder) as saver:

        def run(number: int) -> int:
            return sum(len(think(each).result()) for each in range(number))

        graph: Any = entrypoint(checkpointer=saver)(run)
        graph.invoke(20, _thread("warm"), durability="sync")
        return timed(count, lambda: graph.invoke(count, _thread("run"), durability="sync"))


def runs(folder: Path, count: int) -> Rate:
    """Many entrypoints at once, as coroutines."""

    async def act() -> None:
        async with _akept(folder) as saver:

            async def run(number: int) -> int:
                return sum([len(await athink(each)) for each in range(number)])

            graph: Any = entrypoint(checkpointer=saver)(run)
            names = [f"r{number}" for number in range(count // TURNS)]
            await asyncio.gather(*(graph.ainvoke(TURNS, _thread(name), durability="sync") for name in names))

    return timed(count, lambda: asyncio.run(act()))


def crowd(folder: Path, count: int) -> Rate:
    """Many conversations at once, a turn each time."""

    async def one(graph: Any, name: str) -> None:
        for _ in range(TURNS):
            await graph.ainvoke({"turns": [TEXT]}, _thread(name), durability="sync")

    async def act() -> None:
        async with _akept(folder) as saver:
            graph = _conversing(saver)
            await asyncio.gather(*(one(graph, f"s{number}") for number in range(count // TURNS)))

    return timed(count, lambda: asyncio.run(act()))


def turns(folder: Path, count: int) -> Rate:
    """One conversation of 2 KB a turn: a checkpoint holds all of it."""
    source = random.Random(7)
    with _kept(folder) as saver:
        graph = _conversing(saver)

        def act() -> None:
            for _ in range(count):
                said = "".join(source.choices(LETTERS, k=2_000))
                graph.invoke({"turns": [said]}, _thread("growing"), durability="sync")

        return timed(count, act)


def begun(folder: Path, count: int) -> Rate:
    """A long entrypoint up to where it waits for somebody."""
    return _long(folder, count, count)


def resumed(folder: Path, count: int) -> Rate:
    """Resume it in a new process: what is kept is not done again."""
    return _long(folder, count, None)


def _long(folder: Path, count: int, given: int | None) -> Rate:
    with _kept(folder) as saver:

        def run(number: int) -> Any:
            for each in range(number):
                think(each).result()
            return interrupt("Go on?")

        graph: Any = entrypoint(checkpointer=saver)(run)
        return timed(count, lambda: graph.invoke(given, _thread("long"), durability="sync"))


if __name__ == "__main__":
    main(steps=steps, runs=runs, crowd=crowd, turns=turns, begun=begun, resumed=resumed)
