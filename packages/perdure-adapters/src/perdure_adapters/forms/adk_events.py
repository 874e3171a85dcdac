"""Events of Google ADK as turns, in the framework's own JSON. Pure: the framework is not imported.

An event is one turn that keeps it whole. An event may carry several results of tools: all but its last one are turns before it,
so that other frameworks see every result; the framework itself reads the whole event.
"""

from __future__ import annotations

import json
from typing import Any

from perdure.model.records.conversation import Call
from perdure_adapters.neutral_messages import (
    OPAQUE,
    Form,
    Message,
    image,
    image_of,
    parts_of,
    plain_text,
    register,
    text,
    thought,
    url_of,
)

ASKING = "adk_request_"  # calls by which the framework itself asks a person


def parse(event: Any) -> Message:
    """An event as others see it: a message of the user or of an agent, its calls, or its last result."""
    parts = _parts(event)
    if any(part.get("functionResponse") for part in parts):
        answers = _answers(event)
        return answers[-1] if answers else OPAQUE
    calls = tuple(
        Call(part["functionCall"]["id"], part["functionCall"]["name"], part["functionCall"].get("args") or {})
        for part in parts
        if part.get("functionCall")
    )
    content = [neutral for part in parts if (neutral := _part(part)) is not None]
    if any(call.tool.startswith(ASKING) for call in calls) or not (content or calls):
        return OPAQUE
    user = event.get("author") == "user"
    only = content[0]["text"] if len(content) == 1 and content[0]["type"] == "text" else content or None
    return Message("user" if user else "assistant", only, calls, model=event.get("modelVersion"))


def results(event: Any) -> list[Message]:
    """The results of an event besides its last one: the framework answers parallel calls together."""
    return _answers(event)[:-1]


def _parts(event: Any) -> list[Any]:
    return (event.get("content") or {}).get("parts") or []


def _answers(event: Any) -> list[Message]:
    """The results in an event. A response that only asks for a confirmation is none."""
    confirmations = (event.get("actions") or {}).get("requestedToolConfirmations") or {}
    responses = [part["functionResponse"] for part in _parts(event) if part.get("functionResponse")]
    return [_answer(response) for response in responses if response["id"] not in confirmations]


def _answer(answer: Any) -> Message:
    """A result. The framework puts what is no dictionary under `result`, and an error under `error`."""
    response = answer.get("response")
    names = set(response) if isinstance(response, dict) else set()
    if names == {"error"}:
        return Message("tool", response["error"], call=answer["id"], error=True)
    return Message("tool", response["result"] if names == {"result"} else response, call=answer["id"])


def _part(part: Any) -> Any:
    if part.get("text"):
        return (
            thought(part["text"], "google", part.get("thoughtSignature")) if part.get("thought") else text(part["text"])
        )
    data = part.get("inlineData")
    if data and data.get("mimeType", "").startswith("image/"):
        return image(f"data:{data['mimeType']};base64,{data['data'].translate(_PLAIN_BASE64)}")
    file = part.get("fileData")
    if file and (file.get("mimeType") or "").startswith("image/"):
        return image(file["fileUri"])
    return {"type": "file"} if data or file else None


_PLAIN_BASE64 = str.maketrans("-_", "+/")  # the framework writes bytes for addresses


def render(message: Message) -> list[Any]:
    """The event of a turn that another framework said."""
    if message.call is not None:
        answer = {"id": message.call, "name": message.tool or "unknown", "response": _response(message)}
        return [{"author": "model", "content": {"role": "user", "parts": [{"functionResponse": answer}]}}]
    if message.role == "system":  # no event: an agent of the framework says its own instructions
        return []
    parts = [_rendered(part) for part in parts_of(message.content)]
    for call in message.calls:
        args = json.loads(json.dumps(call.args, default=str))
        parts.append({"functionCall": {"id": call.id, "name": call.tool, "args": args}})
    author = "user" if message.role == "user" else "model"
    return [{"author": author, "content": {"role": author, "parts": parts}}] if parts else []


def _response(message: Message) -> dict[str, Any]:
    if message.error:
        return {"error": plain_text(message.content)}
    if isinstance(message.content, dict):
        return json.loads(json.dumps(message.content, default=str))
    return {"result": plain_text(message.content)}


def _rendered(part: Any) -> Any:
    if part["type"] == "text":
        return {"text": part["text"]}
    if part["type"] == "thinking":
        signed = {} if part.get("signature") is None else {"thoughtSignature": part["signature"]}
        return {"text": part["thinking"], "thought": True, **signed}
    data, url = image_of(part), url_of(part)
    if data is not None:
        return {"inlineData": {"mimeType": data[0], "data": data[1]}}
    return {"fileData": {"fileUri": url, "mimeType": "image/*"}} if url is not None else {"text": f"[{part['type']}]"}


FORM = register(Form("google_adk.event", "google", parse, render, results, ("id",)))
