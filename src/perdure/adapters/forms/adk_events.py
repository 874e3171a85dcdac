"""Events of Google ADK as turns, in the framework's own JSON. Pure: the framework is not imported."""

from __future__ import annotations

from typing import Any

from perdure.adapters.conversing import OPAQUE, Form, Message, image, parts_of, plain_text, register, text, thought
from perdure.model.records.conversation import Call


def parse(event: Any) -> Message:
    """An event as others see it: a message of the user or of an agent, its calls, or the result of one call."""
    parts = (event.get("content") or {}).get("parts") or []
    answers = [part["functionResponse"] for part in parts if part.get("functionResponse")]
    if answers:
        [answer] = answers if len(answers) == 1 else [None]
        return OPAQUE if answer is None else Message("tool", answer.get("response"), call=answer["id"])
    calls = tuple(
        Call(part["functionCall"]["id"], part["functionCall"]["name"], part["functionCall"].get("args") or {})
        for part in parts
        if part.get("functionCall")
    )
    content = [found for part in parts if (found := _part(part)) is not None]
    if not content and not calls:
        return OPAQUE
    user = event.get("author") == "user"
    only = content[0]["text"] if len(content) == 1 and content[0]["type"] == "text" else content or None
    return Message("user" if user else "assistant", only, calls, model=event.get("modelVersion"))


def _part(part: Any) -> Any:
    if part.get("text"):
        return (
            thought(part["text"], "google", part.get("thoughtSignature")) if part.get("thought") else text(part["text"])
        )
    data = part.get("inlineData")
    if data and data.get("mimeType", "").startswith("image/"):
        return image(f"data:{data['mimeType']};base64,{data['data'].translate(_PLAIN_BASE64)}")
    return None


_PLAIN_BASE64 = str.maketrans("-_", "+/")  # the framework writes bytes for addresses


def render(message: Message) -> list[Any]:
    """The event of a turn that another framework said."""
    if message.call is not None:
        response = message.content if isinstance(message.content, dict) else {"result": plain_text(message.content)}
        answer = {"id": message.call, "name": "", "response": response}
        return [{"author": "user", "content": {"role": "user", "parts": [{"functionResponse": answer}]}}]
    parts: list[Any] = [{"text": part["text"]} for part in parts_of(message.content) if part["type"] == "text"]
    parts += [{"functionCall": {"id": call.id, "name": call.tool, "args": call.args}} for call in message.calls]
    author = "user" if message.role == "user" else "model"
    return [{"author": author, "content": {"role": author, "parts": parts}}] if parts else []


FORM = register(Form("google_adk.event", "google", parse, render))
