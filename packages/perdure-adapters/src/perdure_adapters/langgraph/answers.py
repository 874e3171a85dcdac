"""Answers of a model that are paid once, whatever crashes.

The model is asked when the checkpoint that its task began from is durable. Its answer is kept under that checkpoint as soon as it
comes. A process that dies before LangGraph has stored the answer finds it there, and the model is not asked again. A message that
is sent again finds the answer of the run that was cut off (`repetitions`). Callers: `middleware`, `ledger`. Keeps P1, P3, P14.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from threading import Lock
from typing import Any, NamedTuple

from langgraph.config import get_config

from perdure_adapters.langgraph.call_keys import short_key
from perdure_adapters.langgraph.configuration import CHECKPOINT_MAP, CHECKPOINTER, DURABILITY, SCRATCHPAD
from perdure_adapters.langgraph.layout import dump, load
from perdure_adapters.langgraph.repetitions import kept_answer, message_before_repetitions, sendable
from perdure_adapters.langgraph.saver import PerdureSaver
from perdure_adapters.shared_store import SharedStore

SUBGRAPH_SECONDS = 1.0  # a subgraph that was compiled with checkpointer=False stores nothing, and looks like any other
LOOK_BACK_MAX = 32  # checkpoints
PLACES_MAX = 256


class GivenAnswer(NamedTuple):
    """An answer of a model: its messages, one as a rule, and what a structured one says."""

    messages: list[Any]
    structured: Any = None


class ModelAnswers:
    """The answers of a model in a store."""

    def __init__(self, opened: SharedStore, serde: Any, barrier_seconds: float) -> None:
        self._opened = opened
        self._serde = serde
        self._seconds = barrier_seconds
        self._asked: OrderedDict[tuple[str, str], _Asked] = OrderedDict()  # by checkpoint and task
        self._mutex = Lock()

    def ask(self, messages: list[Any], ask: Callable[[list[Any]], GivenAnswer]) -> GivenAnswer:
        """The answer that is kept for this place, else that of the model, which is kept before it is returned."""
        answer, place, prompt = kept_answer(messages), _place(), sendable(messages)
        if answer is not None:
            return GivenAnswer([answer])
        if place is None:
            return ask(prompt)

        def asking(checkpoint: str, number: int) -> Any:  # noqa: ARG001 - the ledger keeps them
            return self._record(ask(prompt))

        checkpoint = self._asked_at(place, messages)
        session = self._opened.sync.session(place.thread)
        with self._numbered(place, checkpoint) as number:
            return self._answer(session.ask_model(asking, checkpoint, number, key=_key(place, checkpoint, number)))

    async def aask(self, messages: list[Any], ask: Callable[[list[Any]], Awaitable[GivenAnswer]]) -> GivenAnswer:
        """See `ask`."""
        answer, place, prompt = kept_answer(messages), _place(), sendable(messages)
        if answer is not None:
            return GivenAnswer([answer])
        if place is None:
            return await ask(prompt)

        async def asking(checkpoint: str, number: int) -> Any:  # noqa: ARG001 - the ledger keeps them
            return self._record(await ask(prompt))

        checkpoint = await asyncio.to_thread(self._asked_at, place, messages)
        session = await self._opened.aio.session(place.thread)
        with self._numbered(place, checkpoint) as number:
            return self._answer(
                await session.ask_model(asking, checkpoint, number, key=_key(place, checkpoint, number))
            )

    def _asked_at(self, place: _Place, messages: Sequence[Any]) -> str:
        """The checkpoint under which the answer is kept: durable, so that the next life begins from it.

        A message that is sent again is asked where the run stood that was cut off.
        """
        if place.saver is None:
            return place.checkpoint
        seconds = self._seconds if len(place.checkpoints) == 1 else min(self._seconds, SUBGRAPH_SECONDS)
        place.saver.await_durable(place.thread, place.checkpoints, seconds)
        before = message_before_repetitions(messages)
        return place.checkpoint if before is None else _stood_at(place, before.id) or place.checkpoint

    @contextmanager
    def _numbered(self, place: _Place, checkpoint: str) -> Iterator[int]:
        """The number of the next answer in this run of a task. Without an answer it is free again: the next try is for it."""
        with self._mutex:
            task_run = self._asked.get((checkpoint, place.task))
            if task_run is None or task_run.run is not place.run:
                task_run = self._asked[checkpoint, place.task] = _Asked(place.run, set())
                while len(self._asked) > PLACES_MAX:
                    self._asked.popitem(last=False)
            number = next(candidate for candidate in count(1) if candidate not in task_run.numbers)
            task_run.numbers.add(number)
        try:
            yield number
        except BaseException:
            with self._mutex:
                task_run.numbers.discard(number)
            raise

    def _record(self, answer: GivenAnswer) -> Any:
        kind, data = dump(self._serde, [answer.messages, answer.structured], "model response")
        return {"type": kind, "native": data}

    def _answer(self, record: Any) -> GivenAnswer:
        return GivenAnswer(*load(self._serde, record["type"], record["native"], "model response"))


class _Place(NamedTuple):
    """Where a model is asked. checkpoints: those that the task began from, by namespace; task: one of several that began there;
    run: of the task; saver: None if it is not ours, or stores nothing before the end.
    """

    thread: str
    checkpoints: Mapping[str, str]
    task: str
    run: Any
    saver: PerdureSaver | None

    @property
    def namespace(self) -> str:
        return max(self.checkpoints, key=len)

    @property
    def checkpoint(self) -> str:
        return self.checkpoints[self.namespace]


class _Asked(NamedTuple):
    """The answers that one run of a task has got, by their numbers."""

    run: Any
    numbers: set[int]


def _place() -> _Place | None:
    """Where the running task asks; None without a thread."""
    config = get_config()
    settings, about = config.get("configurable") or {}, config.get("metadata") or {}
    checkpoints = settings.get(CHECKPOINT_MAP) or {}
    if "thread_id" not in settings or not checkpoints:
        return None
    saver = settings.get(CHECKPOINTER)
    is_stored = isinstance(saver, PerdureSaver) and settings.get(DURABILITY) != "exit"
    task = f"{about.get('langgraph_node')} {about.get('langgraph_path')}"
    return _Place(str(settings["thread_id"]), checkpoints, task, settings.get(SCRATCHPAD), saver if is_stored else None)


def _stood_at(place: _Place, message: str | None) -> str | None:
    """The newest checkpoint before this one, not of an input, whose last message is this; None if it is not near."""
    assert place.saver is not None
    at: Any = {"thread_id": place.thread, "checkpoint_ns": place.namespace, "checkpoint_id": place.checkpoint}
    for _ in range(LOOK_BACK_MAX):
        earlier = place.saver.get_tuple({"configurable": at})
        if earlier is None:
            return None
        messages = earlier.checkpoint["channel_values"].get("messages") or [None]
        if earlier.metadata.get("source") != "input" and getattr(messages[-1], "id", None) == message:
            return earlier.checkpoint["id"]
        if earlier.parent_config is None:
            return None
        at = earlier.parent_config.get("configurable")
    return None


def _key(place: _Place, checkpoint: str, number: int) -> str:
    return short_key(f"model@{checkpoint}#{number} of {place.task}")
