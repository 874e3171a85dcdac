"""`DurableModel`: a model of OpenAI Agents whose answers are asked for once, whole or streamed.

A streamed answer is passed on as it comes, but for its end: that is told when the answer is recorded. A recorded answer is
streamed as its end alone. Callers: `runner`. Keeps P1.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from agents.items import ModelResponse  # pyright: ignore[reportMissingImports]
from agents.models.interface import Model  # pyright: ignore[reportMissingImports]
from agents.usage import Usage  # pyright: ignore[reportMissingImports]
from openai.types.responses import Response, ResponseCompletedEvent, ResponseUsage  # pyright: ignore[reportMissingImports]

from perdure.errors import Unavailable

Answer = Callable[[Any, Callable[[], Awaitable[ModelResponse]]], Awaitable[ModelResponse]]


class DurableModel(Model):
    """A model around another one. answer: gives the recorded answer, or asks for one and records it."""

    def __init__(self, answer: Answer, inner: Model) -> None:
        self._answer = answer
        self._inner = inner

    async def get_response(self, system_instructions: Any, input: Any, *args: Any, **kwargs: Any) -> ModelResponse:  # noqa: A002
        """The kept answer, or a new one."""
        return await self._answer(input, lambda: self._inner.get_response(system_instructions, input, *args, **kwargs))

    async def stream_response(
        self,
        system_instructions: Any,
        input: Any,  # noqa: A002 - the framework's word
        *args: Any,
        **kwargs: Any,
    ) -> AsyncIterator[Any]:
        """The kept answer at once, or a new one as it comes."""
        events: asyncio.Queue[Any] = asyncio.Queue()

        async def ask() -> ModelResponse:
            ended: Response | None = None
            async for event in self._inner.stream_response(system_instructions, input, *args, **kwargs):
                if isinstance(event, ResponseCompletedEvent):
                    ended = event.response
                else:
                    events.put_nowait(event)
            if ended is None:
                raise Unavailable("the model's stream broke off before its end", path="model", hint="run it again")
            return ModelResponse(output=ended.output, usage=_usage_of(ended), response_id=ended.id)

        asking = asyncio.ensure_future(self._answer(input, ask))
        asking.add_done_callback(lambda _done: events.put_nowait(None))
        try:
            while (event := await events.get()) is not None:
                yield event
            yield _completed(await asking)
        finally:
            asking.cancel()

    def get_retry_advice(self, request: Any) -> Any:
        """The inner model's."""
        return self._inner.get_retry_advice(request)

    async def close(self) -> None:
        """Close the inner model."""
        await self._inner.close()


def _usage_of(response: Response) -> Usage:
    usage = response.usage
    if usage is None:
        return Usage()
    return Usage(
        requests=1, input_tokens=usage.input_tokens, output_tokens=usage.output_tokens, total_tokens=usage.total_tokens,
        input_tokens_details=usage.input_tokens_details, output_tokens_details=usage.output_tokens_details,
    )  # fmt: skip


def _completed(answer: ModelResponse) -> ResponseCompletedEvent:
    """The end of the stream of a recorded answer."""
    counts = answer.usage
    usage = ResponseUsage.model_construct(
        input_tokens=counts.input_tokens, output_tokens=counts.output_tokens, total_tokens=counts.total_tokens,
        input_tokens_details=counts.input_tokens_details, output_tokens_details=counts.output_tokens_details,
    )  # fmt: skip
    response = Response.model_construct(
        id=answer.response_id or "", created_at=0, model="", object="response", output=answer.output, usage=usage,
        parallel_tool_calls=True, tool_choice="auto", tools=[],
    )  # fmt: skip
    return ResponseCompletedEvent.model_construct(type="response.completed", sequence_number=0, response=response)
