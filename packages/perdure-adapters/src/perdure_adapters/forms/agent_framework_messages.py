"""Messages of Microsoft Agent Framework as turns, as its `Message.to_dict` gives them. Pure: the framework is not imported.

A message is one turn. A message may carry several results of tools: all but its last one are turns before it. Calls that the
provider itself carries out (`hosted`, `informational_only`), approvals and other contents that only it has stay in the record.
"""

from __future__ import annotations

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
    plain_text,
    register,
    text,
    thought,
    url_of,
)

PROVIDER = "agent_framework"  # its records do not say which model gave a reasoning: no other framework's model gets it


def lean(record: Any) -> Any:
    """A record without the fields that say nothing (empty properties, `hosted: false`): the framework reads it as the same."""
    if isinstance(record, list):
        return [lean(item) for item in record]
    if not isinstance(record, dict):
        return record
    empty = {"additional_properties": {}, "hosted": False}
    fields = {name: value for name, value in record.items() if not (name in empty and value == empty[name])}
    return {
        name: lean(value) if name in ("contents", "items", "function_call") else value for name, value in fields.items()
    }


def parse(record: Any) -> Message:
    """A message as it is seen by others: what was said, the calls, or the last result."""
    results = _results(record)
    if results:
        return results[-1]
    contents = record["contents"]
    calls = tuple(
        Call(part["call_id"], part["name"], arguments_of(part.get("arguments"))) for part in contents if is_call(part)
    )
    parts = [part for content in contents if (part := _part(content)) is not None]
    if not parts and not calls:
        return OPAQUE
    only = parts[0]["text"] if len(parts) == 1 and parts[0]["type"] == "text" else parts or None
    return Message(record["role"], only, calls)


def is_call(content: Any) -> bool:
    """Whether a content is a call that the framework carries out here."""
    return content["type"] == "function_call" and not content.get("hosted") and not content.get("informational_only")


def results_in(record: Any) -> list[str]:
    """The ids of the calls whose results a record carries."""
    return [content["call_id"] for content in record.get("contents", ()) if content.get("type") == "function_result"]


def _results(record: Any) -> list[Message]:
    results = [result for result in record["contents"] if result["type"] == "function_result"]
    return [
        Message("tool", _content_of(result), call=result["call_id"], error=result.get("exception") is not None)
        for result in results
    ]


def _content_of(result: Any) -> Any:
    parts = [part for item in result.get("items") or () if (part := _part(item)) is not None]
    if len(parts) > 1 or (parts and parts[0]["type"] != "text"):
        return parts
    return parts[0]["text"] if parts else result.get("result") or ""


def _part(content: Any) -> Any:
    kind = content["type"]
    if kind == "text":
        return text(content.get("text") or "")
    if kind == "text_reasoning":
        reasoning = content.get("text")
        return thought(reasoning, PROVIDER, content.get("protected_data")) if reasoning else None
    if kind in ("data", "uri"):
        is_image = (content.get("media_type") or "").startswith("image/")
        return image(content["uri"]) if is_image else {"type": "file", "uri": content["uri"]}
    return text(content.get("message") or "") if kind == "error" else None


def render(message: Message) -> list[Any]:
    """The message of a turn that another framework said."""
    if message.call is not None:
        return [_message("tool", [_result(message)])]
    contents = [_content(part) for part in parts_of(message.content)]
    for call in message.calls:
        arguments = json.loads(json.dumps(call.args, default=str))
        contents.append({"type": "function_call", "call_id": call.id, "name": call.tool, "arguments": arguments})
    return [_message(message.role, contents)] if contents else []


def _message(role: str, contents: list[Any]) -> Any:
    return {"type": "message", "role": role, "contents": contents}


def _result(message: Message) -> Any:
    items = contents_of(message.content)
    result = {"type": "function_result", "call_id": message.call, "result": plain_text(message.content), "items": items}
    return {**result, "exception": "FunctionInvocationError"} if message.error else result


def _content(part: Any) -> Any:
    if part["type"] == "text":
        return {"type": "text", "text": part["text"]}
    if part["type"] == "thinking":
        reasoning = {"type": "text_reasoning", "text": part["thinking"]}
        return reasoning if part.get("signature") is None else {**reasoning, "protected_data": part["signature"]}
    url = url_of(part)
    if url is None:
        return {"type": "text", "text": f"[{part.get('uri') or part['type']}]"}
    if not url.startswith("data:"):
        return {"type": "uri", "uri": url, "media_type": "image/*"}
    return {"type": "data", "uri": url, "media_type": url.removeprefix("data:").partition(";")[0]}


def _goes_on(before: Any, record: Any) -> bool:
    """Whether a message only adds calls to the one before it, and neither is the framework's own."""
    is_foreign = before.keys() == record.keys() == {"type", "role", "contents"}
    return is_foreign and all(map(is_call, record["contents"])) and is_call(before["contents"][-1])


def kept_content(items: list[Any]) -> Any:
    """The content of a result that these contents are; None where it would say less than they do."""
    content = _content_of({"items": items})
    return content if contents_of(content) == lean(items) else None


def contents_of(content: Any) -> list[Any]:
    """The contents of a result: texts, images; any other value as its JSON."""
    return [_content(part) for part in parts_of(content)] or [{"type": "text", "text": ""}]


def merged(records: Iterable[Any]) -> list[Any]:
    """Messages in which the results that follow each other stand in one, and so do calls of other frameworks."""
    messages: list[Any] = []
    for record in records:
        if (
            messages
            and messages[-1]["role"] == record["role"]
            and (record["role"] == "tool" or _goes_on(messages[-1], record))
        ):
            messages[-1] = {**messages[-1], "contents": [*messages[-1]["contents"], *record["contents"]]}
        else:
            messages.append(record)
    return messages


FORM = register(Form("agent_framework.message", PROVIDER, parse, render, results=lambda record: _results(record)[:-1]))
