"""Items of the Responses API as messages. Pure: no framework is imported, so that every adapter can read them."""

from __future__ import annotations

import json
from typing import Any

from perdure.model.records.conversation import Call
from perdure_adapters.neutral_messages import (
    OPAQUE,
    Form,
    Message,
    arguments_of,
    image,
    parts_of,
    plain_text,
    register,
    text,
    thought,
    url_of,
)

_ROLES = {"user": "user", "assistant": "assistant", "system": "system", "developer": "system"}
_TEXTS = frozenset({"input_text", "output_text", "text"})


def parse(item: Any) -> Message:
    """One item as a message."""
    kind = item.get("type", "message")
    if kind == "function_call":
        call = Call(_text(item["call_id"]), _text(item["name"]), arguments_of(item.get("arguments")))
        return Message("assistant", calls=(call,))
    if kind == "function_call_output":
        return Message("tool", _content(item["output"]), call=_text(item["call_id"]))
    if kind == "reasoning":
        summary = "\n".join(_text(part["text"]) for part in item.get("summary") or ())
        return Message("assistant", [thought(summary, "openai")]) if summary else OPAQUE
    if kind == "message" and item.get("role") in _ROLES and item.get("content"):
        return Message(_ROLES[item["role"]], _content(item["content"]))
    return OPAQUE


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _content(content: Any) -> Any:
    return [_part(part) for part in content] if isinstance(content, list) else content


def _part(part: Any) -> Any:
    kind = part.get("type")
    if kind in _TEXTS:
        return text(_text(part["text"]))
    if kind == "refusal":
        return text(_text(part["refusal"]))
    if kind == "input_image" and isinstance(part.get("image_url"), str):
        return image(part["image_url"])
    return {**part, "type": "file"} if kind == "input_file" else part


def render(message: Message) -> list[Any]:
    """The items of a message: its content as one, then each call."""
    if message.call is not None:
        plain = plain_text(message.content)
        output = f"error: {plain}" if message.error else plain
        return [{"call_id": message.call, "output": output, "type": "function_call_output"}]
    items: list[Any] = []
    content = _rendered(message)
    if content:
        items.append({"role": message.role, "content": content})
    for call in message.calls:
        arguments = json.dumps(call.args, default=str, ensure_ascii=False, separators=(",", ":"))
        items.append({"call_id": call.id, "name": call.tool, "arguments": arguments, "type": "function_call"})
    return items


def _rendered(message: Message) -> Any:
    if isinstance(message.content, str) or message.role != "user":
        return plain_text(message.content)
    return [_rendered_part(part) for part in parts_of(message.content) if part["type"] != "thinking"]


def _rendered_part(part: Any) -> Any:
    if part["type"] == "text":
        return {"type": "input_text", "text": part["text"]}
    url = url_of(part)
    if url is not None:
        return {"type": "input_image", "image_url": url, "detail": "auto"}
    if part["type"] == "file":
        return {**part, "type": "input_file"}
    return {"type": "input_text", "text": f"[{part['type']}]"}


ITEMS = register(Form("openai.item", "openai", parse, render))
