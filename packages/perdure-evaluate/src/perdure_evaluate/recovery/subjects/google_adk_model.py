"""The model of the subjects of Google ADK: it plays the task. Imported where the framework is installed."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

from google.adk.models.base_llm import BaseLlm  # pyright: ignore[reportMissingImports]
from google.adk.models.llm_response import LlmResponse  # pyright: ignore[reportMissingImports]
from google.genai import types  # pyright: ignore[reportMissingImports]

from perdure_evaluate.recovery.subjects.google_adk import parts_of
from perdure_evaluate.recovery.subjects.model_play import Playing, as_text, kept_in


class PlayingLlm(BaseLlm):
    """Answers with the next operation of the task."""

    playing: Any

    async def generate_content_async(self, llm_request: Any, stream: bool = False) -> AsyncGenerator[Any, None]:  # noqa: ARG002
        """The next call, or the end."""
        answer = self.playing.next_answer(kept_in(parts_of(llm_request.contents)))
        part = types.Part(text=as_text(answer.args))
        if answer.tool:
            part = types.Part(function_call=types.FunctionCall(name=answer.tool, args=answer.args))
        yield LlmResponse(content=types.Content(role="model", parts=[part]))


def model_of(playing: Playing) -> PlayingLlm:
    """The model of a subject."""
    return PlayingLlm(model="playing", playing=playing)
