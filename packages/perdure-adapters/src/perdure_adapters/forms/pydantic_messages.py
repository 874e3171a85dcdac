"""Messages of Pydantic AI as turns, in the framework's own JSON. Pure: the framework is not imported.

A message is one turn that keeps it whole. A request may carry several results of tools, and what a user says after them: all but
the last of these are turns before it, so that other frameworks see each; the framework itself reads the whole message.
"""

from __future__ import annotations

import json
from typing import Any

from perdure.errors import Invalid, TooLarge
from perdure.model.records.conversation import Call
from perdure.model.values import to_plain
from perdure_adapters.neutral_messages import (
    OPAQUE,
    Form,
    Message,
    arguments_of,
    image,
    image_of,
    parts_of,
    plain_text,
    register,
    text,
    thought,
    url_of,
)

RESULTS = frozenset({"tool-return", "retry-prompt"})


def storable_json(payload: Any) -> Any:
    """A payload of JSON; as bytes where a text in it holds NUL or a lone surrogate, which no store keeps as text."""
    try:
        to_plain(payload, "result")
    except TooLarge:
        raise
    except Invalid:
        return json.dumps(payload).encode()
    return payload


def parse(record: Any) -> Message:
    """A message as it is seen by others: an answer, the last result, or what a user and the system said."""
    if record["kind"] == "response":
        return _answer(record)
    prompts, results = _prompts(record), _results(record)
    if prompts:
        contents = [part["content"] if isinstance(part["content"], list) else [part["content"]] for part in prompts]
        content = [_content(part) for parts in contents for part in parts]
        return Message("user", content[0]["text"] if len(content) == 1 and content[0]["type"] == "text" else content)
    if results:
        return results[-1]
    instructions = "\n".join(part["content"] for part in record["parts"] if part["part_kind"] == "system-prompt")
    return Message("system", instructions) if instructions else OPAQUE


def results(record: Any) -> list[Message]:
    """The results of a message besides what `parse` gives of it: of calls in parallel, or before what a user says."""
    return _results(record) if _prompts(record) else _results(record)[:-1]


def _prompts(record: Any) -> list[Any]:
    return [part for part in record["parts"] if record["kind"] == "request" and part["part_kind"] == "user-prompt"]


def _answer(record: Any) -> Message:
    parts, content, calls = record["parts"], [], []
    for part in parts:
        if part["part_kind"] == "text" and part["content"]:
            content.append(text(part["content"]))
        elif part["part_kind"] == "thinking" and part["content"]:
            provider = part.get("provider_name") or record.get("provider_name") or ""
            content.append(thought(part["content"], provider, part.get("signature")))
        elif part["part_kind"] == "tool-call":
            calls.append(Call(part["tool_call_id"], part["tool_name"], arguments_of(part["args"])))
    if not content and not calls:
        return OPAQUE
    usage = {name: count for name, count in (record.get("usage") or {}).items() if type(count) is int and count}
    return Message("assistant", content or None, tuple(calls), usage=usage or None, model=record.get("model_name"))


def _results(record: Any) -> list[Message]:
    if record["kind"] != "request":
        return []
    return [
        Message("tool", part["content"], call=part["tool_call_id"], error=_is_error(part))
        for part in record["parts"]
        if part["part_kind"] in RESULTS and part.get("tool_name")
    ]


def _is_error(part: Any) -> bool:
    return part["part_kind"] == "retry-prompt" or part.get("outcome", "success") != "success"


def _content(part: Any) -> Any:
    if isinstance(part, str):
        return text(part)
    if part.get("kind") == "image-url":
        return image(part["url"])
    if part.get("kind") == "binary" and part["media_type"].startswith("image/"):
        return image(f"data:{part['media_type']};base64,{part['data'].translate(_PLAIN_BASE64)}")
    return {**part, "type": part.get("kind", "file")}


_PLAIN_BASE64 = str.maketrans("-_", "+/")  # the framework writes bytes for addresses


def render(message: Message) -> list[Any]:
    """The message of a turn that another framework said."""
    if message.call is not None:
        outcome = "failed" if message.error else "success"
        part = {
            "part_kind": "tool-return",
            "tool_name": message.tool or "unknown",
            "content": message.content,
            "tool_call_id": message.call,
        }
        return [_request({**part, "outcome": outcome})]
    if message.role == "user":
        return [_request({"part_kind": "user-prompt", "content": _prompt(message.content)})]
    if message.role == "system":
        return [_request({"part_kind": "system-prompt", "content": plain_text(message.content)})]
    parts = [_part(part) for part in parts_of(message.content)]
    for call in message.calls:
        args = json.loads(json.dumps(call.args, default=str))
        parts.append({"part_kind": "tool-call", "tool_name": call.tool, "args": args, "tool_call_id": call.id})
    return [{"kind": "response", "parts": parts, "model_name": message.model}] if parts else []


def _request(part: Any) -> Any:
    return {"kind": "request", "parts": [part]}


def _prompt(content: Any) -> Any:
    if isinstance(content, str):
        return content
    return [_prompt_part(part) for part in parts_of(content) if part["type"] != "thinking"]


def _prompt_part(part: Any) -> Any:
    if part["type"] == "text":
        return part["text"]
    data, url = image_of(part), url_of(part)
    if data is not None:
        return {"kind": "binary", "media_type": data[0], "data": data[1]}
    return f"[{part['type']}]" if url is None else {"kind": "image-url", "url": url}


def _part(part: Any) -> Any:
    if part["type"] == "text":
        return {"part_kind": "text", "content": part["text"]}
    if part["type"] == "thinking":
        about = {"signature": part.get("signature"), "provider_name": part.get("provider") or None}
        return {"part_kind": "thinking", "content": part["thinking"], **about}
    return {"part_kind": "text", "content": f"[{part['type']}]"}


FORM = register(Form("pydantic_ai.message", "", parse, render, results))
