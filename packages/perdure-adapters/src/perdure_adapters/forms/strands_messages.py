"""Messages of Strands as turns, in the framework's own dictionaries (bytes stay bytes). Pure: the framework is not imported.

A message is one turn that keeps it whole. A message may carry several results of tools: all but its last one are turns before it,
so that other frameworks see every result; the framework itself reads the whole message. `_session` is ours: what the framework
keeps beside a message.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from typing import Any

from perdure.model.records.conversation import Call
from perdure_adapters.neutral_messages import (
    OPAQUE,
    Form,
    Message,
    arguments_of,
    image,
    parts_of,
    register,
    text,
    thought,
)

ENVELOPE = "_session"


def parse(record: Any) -> Message:
    """A message as it is seen by others: what was said, the calls, or the last result."""
    results = _results(record)
    if results:
        return results[-1]
    blocks = record["content"]
    calls = tuple(
        Call(block["toolUse"]["toolUseId"], block["toolUse"]["name"], arguments_of(block["toolUse"].get("input")))
        for block in blocks
        if "toolUse" in block
    )
    content = [part for block in blocks if (part := _part(block)) is not None]
    if not content and not calls:
        return OPAQUE
    only = content[0]["text"] if len(content) == 1 and content[0]["type"] == "text" else content or None
    usage = (record.get("metadata") or {}).get("usage")
    return Message(record["role"], only, calls, usage=dict(usage) if usage else None)


def _results(record: Any) -> list[Message]:
    results = [block["toolResult"] for block in record["content"] if "toolResult" in block]
    return [
        Message("tool", content_of(result["content"]), call=result["toolUseId"], error=result.get("status") == "error")
        for result in results
    ]


def content_of(blocks: Iterable[Any]) -> Any:
    """The content of a result: a lone text or JSON value as itself, else parts."""
    all_blocks = list(blocks)
    if len(all_blocks) == 1 and "json" in all_blocks[0]:
        return all_blocks[0]["json"]
    parts = [part for block in all_blocks if (part := _part(block)) is not None]
    return parts[0]["text"] if len(parts) == 1 and parts[0]["type"] == "text" else parts


def _part(block: Any) -> Any:
    if "text" in block:
        return text(block["text"])
    if "json" in block:
        return text(json.dumps(block["json"], ensure_ascii=False, default=str))
    if "image" in block:
        return _image(block["image"])
    if "reasoningContent" in block:
        reasoning = block["reasoningContent"].get("reasoningText") or {}
        return thought(reasoning["text"], "strands", reasoning.get("signature")) if reasoning.get("text") else None
    return _rarer(block)


def _rarer(block: Any) -> Any:
    if "citationsContent" in block:
        return text("".join(citation.get("text", "") for citation in block["citationsContent"].get("content") or ()))
    if "guardContent" in block:
        return text(block["guardContent"]["text"]["text"])
    return next(({"type": kind} for kind in ("document", "video", "audio") if kind in block), None)


def _image(block: Any) -> Any:
    source = block["source"]
    if "bytes" in source:
        return image(f"data:image/{block['format']};base64,{base64.b64encode(_bytes(source['bytes'])).decode()}")
    return image(source["location"]["uri"])


def _bytes(data: Any) -> bytes:
    """Bytes, also as the framework writes them into JSON."""
    return data if isinstance(data, bytes) else base64.b64decode(data["data"])


def render(message: Message) -> list[Any]:
    """The message of a turn that another framework said. A system turn is none: the agent has its own system prompt."""
    if message.call is not None:
        status = "error" if message.error else "success"
        result = {"toolUseId": message.call, "status": status, "content": blocks_of(message.content)}
        return [{"role": "user", "content": [{"toolResult": result}]}]
    if message.role == "system":
        return []
    blocks = [_block(part) for part in parts_of(message.content)]
    for call in message.calls:
        arguments = json.loads(json.dumps(call.args, default=str))
        blocks.append({"toolUse": {"toolUseId": call.id, "name": call.tool, "input": arguments}})
    return [{"role": message.role, "content": blocks}] if blocks else []


def blocks_of(content: Any) -> list[Any]:
    """The blocks of a result: texts, images, or JSON for any other value."""
    if isinstance(content, (dict, list)) and parts_of(content) is not content:
        return [{"json": content}]
    return [_block(part) for part in parts_of(content)] or [{"text": ""}]


def _block(part: Any) -> Any:
    if part["type"] == "text":
        return {"text": part["text"]}
    if part["type"] == "thinking":
        reasoning = {"text": part["thinking"]}
        if part.get("signature") is not None:
            reasoning["signature"] = part["signature"]
        return {"reasoningContent": {"reasoningText": reasoning}}
    source = part.get("source") or {}
    url = part["image_url"]["url"] if part["type"] == "image_url" else source.get("url")
    if part["type"] == "image" and url is None and "data" in source:
        url = f"data:{source.get('media_type')};base64,{source['data']}"
    if url is None or not url.startswith("data:image/"):
        return {"text": f"[{part['type'] if url is None else url}]"}
    kind, _, data = url.removeprefix("data:image/").partition(";base64,")
    return {"image": {"format": kind, "source": {"bytes": base64.b64decode(data)}}}


def merged(records: Iterable[Any]) -> list[Any]:
    """Messages in which two of one role never follow each other, as models want them: results stand in one message."""
    messages: list[Any] = []
    for record in records:
        if messages and messages[-1]["role"] == record["role"]:
            messages[-1] = {**messages[-1], "content": [*messages[-1]["content"], *record["content"]]}
        else:
            messages.append(record)
    return messages


FORM = register(Form("strands.message", "strands", parse, render, lambda record: _results(record)[:-1]))
