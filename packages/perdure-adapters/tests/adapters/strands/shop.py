"""An agent of Strands for tests: a scripted model that buys two things in one answer, and a bank that remembers."""

from __future__ import annotations

import json
import uuid
from collections.abc import AsyncGenerator, Callable, Iterable
from typing import Any

from strands.models import Model

ORDERS = (5, 7)


class Scripted(Model):
    """Gives the message that a function makes of the conversation. asked: called before each answer."""

    def __init__(self, answer: Callable[[Any], Any], asked: Callable[[], None] = lambda: None) -> None:
        self.answer = answer
        self.asked = asked

    def get_config(self) -> Any:
        return {}

    def update_config(self, **_config: Any) -> None: ...

    async def structured_output(self, *_args: Any, **_options: Any) -> AsyncGenerator[Any, None]:
        raise NotImplementedError
        yield

    async def stream(self, messages: Any, *_args: Any, **_options: Any) -> AsyncGenerator[Any, None]:
        message = self.answer(messages)
        self.asked()
        for event in events_of(message):
            yield event


def events_of(message: Any) -> Iterable[Any]:
    calls = False
    yield {"messageStart": {"role": "assistant"}}
    for block in message["content"]:
        use = block.get("toolUse")
        calls = calls or use is not None
        start = {} if use is None else {"toolUse": {"name": use["name"], "toolUseId": use["toolUseId"]}}
        delta = {"text": block["text"]} if use is None else {"toolUse": {"input": json.dumps(use["input"])}}
        yield {"contentBlockStart": {"start": start}}
        yield {"contentBlockDelta": {"delta": delta}}
        yield {"contentBlockStop": {}}
    yield {"messageStop": {"stopReason": "tool_use" if calls else "end_turn"}}


def buys(messages: Any) -> Any:
    """Charge what is not charged yet, as the conversation says, and then say so."""
    charged = {
        block["toolResult"]["content"][0].get("text")
        for message in messages for block in message["content"]
        if "toolResult" in block and block["toolResult"]["status"] == "success"
    }  # fmt: skip
    left = [cents for cents in ORDERS if f"charged {cents}" not in charged]
    if not left:
        return {"role": "assistant", "content": [{"text": "done"}]}
    uses = [{"toolUseId": f"t-{uuid.uuid4().hex}", "name": "charge", "input": {"cents": cents}} for cents in left]
    return {"role": "assistant", "content": [{"toolUse": use} for use in uses]}
