"""The chat client of the subjects of Agent Framework: it plays the task. Imported where the framework is installed."""

from __future__ import annotations

import uuid
from typing import Any

from agent_framework import BaseChatClient, ChatMiddlewareLayer, ChatResponse, Content, FunctionInvocationLayer, Message  # pyright: ignore[reportMissingImports]

from perdure_evaluate.recovery.subjects.agent_framework import parts_of
from perdure_evaluate.recovery.subjects.model_play import Playing, as_text, kept_in

ANSWERS_MAX = 1_000_000  # of a run; by default the framework lets a model answer 40 times


class PlayingClient(FunctionInvocationLayer, ChatMiddlewareLayer, BaseChatClient):
    """Answers with the next operation of the task."""

    def __init__(self, playing: Playing) -> None:
        super().__init__(middleware=[], function_invocation_configuration={"max_iterations": ANSWERS_MAX})
        self._playing = playing

    async def _inner_get_response(self, *, messages: Any, **_options: Any) -> ChatResponse:
        answer = self._playing.next_answer(kept_in(parts_of(messages)))
        content: Any = as_text(answer.args)
        if answer.tool:
            content = Content.from_function_call(f"call_{uuid.uuid4().hex}", answer.tool, arguments=content)
        return ChatResponse(messages=[Message("assistant", [content])])


def client_of(playing: Playing) -> PlayingClient:
    """The client of a subject."""
    return PlayingClient(playing)
