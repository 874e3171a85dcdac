"""The model of the subjects of OpenAI Agents: it plays the task. Imported where the framework is installed."""

from __future__ import annotations

import uuid
from typing import Any

from agents import Model, ModelResponse, Usage  # pyright: ignore[reportMissingImports]
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText  # pyright: ignore[reportMissingImports]

from perdure_evaluate.recovery.subjects.model_play import Playing, as_text, kept_in
from perdure_evaluate.recovery.subjects.openai_agents import parts_of


class PlayingModel(Model):
    """Answers with the next operation of the task."""

    def __init__(self, playing: Playing) -> None:
        self._playing = playing

    async def get_response(self, system_instructions: Any, input: Any, *args: Any, **kwargs: Any) -> ModelResponse:  # noqa: A002, ARG002
        """The next call, or the end."""
        answer = self._playing.next_answer(kept_in(parts_of(input)))
        text = ResponseOutputText(text=as_text(answer.args), type="output_text", annotations=[])
        output: Any = ResponseOutputMessage(
            id=f"msg_{uuid.uuid4().hex}", content=[text], role="assistant", status="completed", type="message"
        )
        if answer.tool:
            called = {"call_id": f"call_{uuid.uuid4().hex}", "name": answer.tool, "arguments": as_text(answer.args)}
            output = ResponseFunctionToolCall(type="function_call", **called)
        return ModelResponse(output=[output], usage=Usage(requests=1), response_id=None)

    def stream_response(self, *args: Any, **kwargs: Any) -> Any:
        """Nothing streams here."""
        raise NotImplementedError


def model_of(playing: Playing) -> PlayingModel:
    """The model of a subject."""
    return PlayingModel(playing)
