"""A model for tests of Google ADK: it buys two things in one answer, and says when both are bought."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from typing import Any

from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_response import LlmResponse
from google.genai import types

ORDERS = (5, 7)


class Scripted(BaseLlm):
    """Charges what is not charged yet, as the conversation says. asked: called before each answer."""

    asked: Callable[[], None] = lambda: None

    async def generate_content_async(self, llm_request: Any, stream: bool = False) -> AsyncGenerator[Any, None]:
        given = [part.function_response for content in llm_request.contents for part in content.parts or ()]
        charged = {(each.response or {}).get("charged") for each in given if each is not None}
        left = [cents for cents in ORDERS if cents not in charged]
        parts = [types.Part(function_call=types.FunctionCall(name="charge", args={"cents": each})) for each in left]
        if stream:
            yield LlmResponse(content=types.Content(role="model", parts=[types.Part(text="let me")]), partial=True)
        self.asked()
        yield LlmResponse(content=types.Content(role="model", parts=parts or [types.Part(text="done")]))
