"""`PerdureMiddleware` for agents of `langchain`: tool calls through the ledger, and answers of the model that are paid once.

An answer of the model is kept as soon as it came, under the checkpoint that its task began from. A process that dies before
LangGraph has stored it finds it there, and the model is not asked again. Keeps P1, P2, P3, P4.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from threading import Lock
from typing import Any

from langchain.agents.middleware import AgentMiddleware
from langchain.agents.middleware.types import ModelResponse
from langgraph.config import get_config

from perdure.adapters.langgraph.layout import dump, load
from perdure.adapters.langgraph.ledger import BARRIER_SECONDS, CHECKPOINT_MAP, ToolLedger
from perdure.adapters.langgraph.serde import StrictSerializer
from perdure.adapters.outward import Kinds
from perdure.effects.tool import Tool, tool


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
        self._asked: Counter[tuple[str, str]] = Counter()  # how often the model was asked after a checkpoint
        self._mutex = Lock()

    def wrap_tool_call(self, request: Any, execute: Callable[[Any], Any]) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """See `ToolLedger.wrap_tool_call`."""
        return self.ledger.wrap_tool_call(request, execute)

    async def awrap_tool_call(self, request: Any, execute: Callable[[Any], Awaitable[Any]]) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """See `ToolLedger.wrap_tool_call`."""
        return await self.ledger.awrap_tool_call(request, execute)

    def wrap_model_call(self, request: Any, execute: Callable[[Any], Any]) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The answer that is kept for this place, else that of the model, which is kept before it is returned."""
        place = self._place()
        if place is None:
            return execute(request)
        thread, checkpoint, number = place

        def ask(checkpoint: str, number: int) -> Any:  # noqa: ARG001 - the ledger keeps them
            return self._kept(execute(request))

        session = self.ledger.sync().session(thread)
        return self._given(session.act(_asking(ask), checkpoint, number, key=f"model@{checkpoint}#{number}"))

    async def awrap_model_call(self, request: Any, execute: Callable[[Any], Awaitable[Any]]) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """See `wrap_model_call`."""
        place = self._place()
        if place is None:
            return await execute(request)
        thread, checkpoint, number = place

        async def ask(checkpoint: str, number: int) -> Any:  # noqa: ARG001 - the ledger keeps them
            return self._kept(await execute(request))

        session = await self.ledger.aio().session(thread)
        return self._given(await session.act(_asking(ask), checkpoint, number, key=f"model@{checkpoint}#{number}"))

    def _place(self) -> tuple[str, str, int] | None:
        """The thread, the checkpoint that the task began from, and how often the model was asked since; None without a thread."""
        place = get_config().get("configurable") or {}
        checkpoints = place.get(CHECKPOINT_MAP) or {}
        if "thread_id" not in place or not checkpoints:
            return None
        thread, checkpoint = str(place["thread_id"]), checkpoints[max(checkpoints, key=len)]
        with self._mutex:
            self._asked[thread, checkpoint] += 1
            return thread, checkpoint, self._asked[thread, checkpoint]

    def _kept(self, response: Any) -> Any:
        messages = response.result if isinstance(response, ModelResponse) else [response]
        structured = response.structured_response if isinstance(response, ModelResponse) else None
        kind, data = dump(self._serde, [messages, structured], "model response")
        return {"type": kind, "native": data}

    def _given(self, kept: Any) -> Any:
        messages, structured = load(self._serde, kept["type"], kept["native"], "model response")
        return ModelResponse(result=messages, structured_response=structured)


def _asking(ask: Callable[..., Any]) -> Tool:
    """Asking a model may be repeated: it costs money, and nothing else."""
    return tool(ask, name="model", kind="idempotent", known=False)
