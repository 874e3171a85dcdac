"""`PerdureMiddleware` for agents of `langchain`: tool calls through the ledger, and answers of the model that are paid once.

Keeps P1, P2, P3, P4, P14.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from langchain.agents.middleware import AgentMiddleware
from langchain.agents.middleware.types import ModelResponse

from perdure_adapters.langgraph.answers import GivenAnswer
from perdure_adapters.langgraph.ledger import BARRIER_SECONDS, ToolLedger
from perdure_adapters.langgraph.serde import StrictSerializer
from perdure_adapters.tool_calls import Kinds


class PerdureMiddleware(AgentMiddleware):
    """Middleware for `create_agent(model, tools, middleware=[PerdureMiddleware(store)], checkpointer=PerdureSaver(store))`.

    The arguments are those of `ledger`.
    """

    def __init__(
        self, store: Any, *, kinds: Kinds | None = None, allow: Any = (), barrier_seconds: float = BARRIER_SECONDS
    ) -> None:
        super().__init__()
        self.ledger = ToolLedger(store, kinds, barrier_seconds, StrictSerializer(allow))

    def wrap_tool_call(self, request: Any, execute: Callable[[Any], Any]) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """See `ToolLedger.wrap_tool_call`."""
        return self.ledger.wrap_tool_call(request, execute)

    async def awrap_tool_call(self, request: Any, execute: Callable[[Any], Awaitable[Any]]) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """See `ToolLedger.wrap_tool_call`."""
        return await self.ledger.awrap_tool_call(request, execute)

    def wrap_model_call(self, request: Any, execute: Callable[[Any], Any]) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """See `ToolLedger.ask_model`."""

        def ask(messages: list[Any]) -> GivenAnswer:
            return _answer_of(execute(request.override(messages=messages)))

        return _response(self.ledger.answers.ask(request.messages, ask))

    async def awrap_model_call(self, request: Any, execute: Callable[[Any], Awaitable[Any]]) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """See `ToolLedger.ask_model`."""

        async def ask(messages: list[Any]) -> GivenAnswer:
            return _answer_of(await execute(request.override(messages=messages)))

        return _response(await self.ledger.answers.aask(request.messages, ask))


def _answer_of(response: Any) -> GivenAnswer:
    if isinstance(response, ModelResponse):
        return GivenAnswer(response.result, response.structured_response)
    return GivenAnswer([response])


def _response(answer: GivenAnswer) -> ModelResponse:
    return ModelResponse(result=answer.messages, structured_response=answer.structured)
