"""`PerdureMiddleware` for agents of `langchain`: tool calls through the ledger, and answers of the model that are paid once.

An answer of the model is kept as soon as it came, under the checkpoint that its task began from. A process that dies before
LangGraph has stored it finds it there, and the model is not asked again. Keeps P1, P2, P3, P4.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from itertools import count
from threading import Lock
from typing import Any, TypeAlias

from langchain.agents.middleware import AgentMiddleware
from langchain.agents.middleware.types import ModelResponse
from langgraph.config import get_config

from perdure.adapters.langgraph.layout import dump, load
from perdure.adapters.langgraph.ledger import BARRIER_SECONDS, CHECKPOINT_MAP, ToolLedger
from perdure.adapters.langgraph.serde import StrictSerializer
from perdure.adapters.outward import Kinds

Place: TypeAlias = "tuple[str, str]"


class PerdureMiddleware(AgentMiddleware):
    """Middleware for `create_agent(model, tools, middleware=[PerdureMiddleware(store)], checkpointer=PerdureSaver(store))`.

    The arguments are those of `ledger`.
    """

    def __init__(
        self, store: Any, *, kinds: Kinds | None = None, allow: Any = (), barrier_seconds: float = BARRIER_SECONDS
    ) -> None:
        super().__init__()
        self._serde = StrictSerializer(allow)
        self.ledger = ToolLedger(store, kinds, barrier_seconds, self._serde)
        self._asked: defaultdict[Place, set[int]] = defaultdict(set)  # the answers since a checkpoint, by their numbers
        self._mutex = Lock()

    def wrap_tool_call(self, request: Any, execute: Callable[[Any], Any]) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """See `ToolLedger.wrap_tool_call`."""
        return self.ledger.wrap_tool_call(request, execute)

    async def awrap_tool_call(self, request: Any, execute: Callable[[Any], Awaitable[Any]]) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """See `ToolLedger.wrap_tool_call`."""
        return await self.ledger.awrap_tool_call(request, execute)

    def wrap_model_call(self, request: Any, execute: Callable[[Any], Any]) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The answer that is kept for this place, else that of the model, which is kept before it is returned."""
        place = _place()
        if place is None:
            return execute(request)

        def ask(checkpoint: str, number: int) -> Any:  # noqa: ARG001 - the ledger keeps them
            return self._kept(execute(request))

        session = self.ledger.sync().session(place[0])
        with self._numbered(place) as number:
            return self._given(session.ask_model(ask, place[1], number, key=_key(place, number)))

    async def awrap_model_call(self, request: Any, execute: Callable[[Any], Awaitable[Any]]) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """See `wrap_model_call`."""
        place = _place()
        if place is None:
            return await execute(request)

        async def ask(checkpoint: str, number: int) -> Any:  # noqa: ARG001 - the ledger keeps them
            return self._kept(await execute(request))

        session = await self.ledger.aio().session(place[0])
        with self._numbered(place) as number:
            return self._given(await session.ask_model(ask, place[1], number, key=_key(place, number)))

    @contextmanager
    def _numbered(self, place: Place) -> Iterator[int]:
        """The number of the next answer of this place. Without an answer it is free again: the next try is for the same one."""
        with self._mutex:
            taken = self._asked[place]
            number = next(each for each in count(1) if each not in taken)
            taken.add(number)
        try:
            yield number
        except BaseException:
            with self._mutex:
                taken.discard(number)
            raise

    def _kept(self, response: Any) -> Any:
        messages = response.result if isinstance(response, ModelResponse) else [response]
        structured = response.structured_response if isinstance(response, ModelResponse) else None
        kind, data = dump(self._serde, [messages, structured], "model response")
        return {"type": kind, "native": data}

    def _given(self, kept: Any) -> Any:
        messages, structured = load(self._serde, kept["type"], kept["native"], "model response")
        return ModelResponse(result=messages, structured_response=structured)


def _place() -> Place | None:
    """The thread, and the checkpoint that the task began from; None without a thread."""
    place = get_config().get("configurable") or {}
    checkpoints = place.get(CHECKPOINT_MAP) or {}
    if "thread_id" not in place or not checkpoints:
        return None
    return str(place["thread_id"]), checkpoints[max(checkpoints, key=len)]


def _key(place: Place, number: int) -> str:
    return f"model@{place[1]}#{number}"
