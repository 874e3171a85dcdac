"""An agent of Agent Framework for tests: a scripted model that buys two things in one answer, and a bank that remembers."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Sequence
from typing import Any

from agent_framework import (
    BaseChatClient,
    ChatMiddlewareLayer,
    ChatResponse,
    ChatResponseUpdate,
    Content,
    FunctionInvocationLayer,
    Message,
    ResponseStream,
)

ORDERS = (5, 7)


class Scripted(FunctionInvocationLayer, ChatMiddlewareLayer, BaseChatClient):
    """Gives the message that a function makes of the conversation. asked: called before each answer."""

    def __init__(
        self, answer: Callable[[Any], Message], asked: Callable[[], None] = lambda: None, *, is_strict: bool = True
    ) -> None:
        super().__init__(middleware=[])
        self.answer = answer
        self.asked = asked
        self.is_strict = is_strict

    def _inner_get_response(self, *, messages: Sequence[Message], stream: bool, options: Any, **_kwargs: Any) -> Any:
        async def updates() -> Any:
            message = self.said(messages)
            yield ChatResponseUpdate(contents=message.contents, role="assistant")

        async def response() -> ChatResponse:
            return ChatResponse(messages=[self.said(messages)])

        return ResponseStream(updates(), finalizer=ChatResponse.from_updates) if stream else response()

    def said(self, messages: Sequence[Message]) -> Message:
        if self.is_strict:
            check_whole(messages)
        message = self.answer(messages)
        self.asked()
        return message


def check_whole(messages: Sequence[Message]) -> None:
    """As the providers do: every call has one result, right after it, and no result is without its call."""
    left: list[str] = []
    for content in (content for message in messages for content in message.contents):
        if content.type == "function_call":
            left.append(content.call_id)
        elif content.type == "function_result":
            assert content.call_id in left, f"a result without its call, or a second one: {content.call_id}"
            left.remove(content.call_id)
        else:
            assert not left, f"calls without a result: {left}"
    assert not left, f"calls without a result: {left}"


def says(text: str) -> Message:
    return Message("assistant", [text])


def calls(name: str, *arguments: Any) -> Message:
    """An answer that calls a tool, once for each arguments, as text: so models give them."""
    made = [Content.from_function_call(f"t-{uuid.uuid4().hex}", name, arguments=json.dumps(each)) for each in arguments]
    return Message("assistant", made)


def results_of(messages: Sequence[Message]) -> list[Any]:
    return [each for message in messages for each in message.contents if each.type == "function_result"]


def buys(messages: Sequence[Message]) -> Message:
    """Charge what is not charged yet, as the conversation says, and then say so."""
    charged = {each.result for each in results_of(messages) if each.exception is None}
    left = [{"cents": cents} for cents in ORDERS if f"charged {cents}" not in charged]
    return calls("charge", *left) if left else says("done")
