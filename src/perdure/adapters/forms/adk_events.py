"""Events of Google ADK as turns, in the framework's own JSON. Pure: the framework is not imported.

An event is one turn that keeps it whole. An event may carry several results of tools: all but its last one are turns before it,
so that other frameworks see every result; the framework itself reads the whole event.
"""

from __future__ import annotations

from typing import Any

from perdure.adapters.conversing import (
    OPAQUE,
    Form,
    Message,
    image,
    keep,
    parts_of,
    plain_text,
    register,
    text,
    thought,
)
from perdure.errors import Conflict, Invalid, NotFound, TooLarge
from perdure.handles.sync.session import Session
from perdure.model.records.conversation import Call, Turn

ASKING = "adk_request_"  # calls by which the framework itself asks a person


def keep_event(session: Session, event: Any, *, key: str | None) -> Turn:
    """Say an event, with the results that it carries."""
    for each in _results(event)[:-1]:
        try:
            session.result(each.call or "", each.content, error=each.error)
        except TooLarge:
            raise
        except (Conflict, NotFound, Invalid):
            continue  # the whole event stands below, for its own framework
    return keep(session, FORM, event, key=key)


def parse(event: Any) -> Message:
    """An event as others see it: a message of the user or of an agent, its calls, or its last result."""
    parts = _parts(event)
    if any(part.get("functionResponse") for part in parts):
        results = _results(event)
        return results[-1] if results else OPAQUE
    calls = tuple(
        Call(part["functionCall"]["id"], part["functionCall"]["name"], part["functionCall"].get("args") or {})
        for part in parts
        if part.get("functionCall")
    )
    content = [found for part in parts if (found := _part(part)) is not None]
    if any(call.tool.startswith(ASKING) for call in calls) or not (content or calls):
        return OPAQUE
    user = event.get("author") == "user"
    only = content[0]["text"] if len(content) == 1 and content[0]["type"] == "text" else content or None
    return Message("user" if user else "assistant", only, calls, model=event.get("modelVersion"))


def _parts(event: Any) -> list[Any]:
    return (event.get("content") or {}).get("parts") or []


def _results(event: Any) -> list[Message]:
    """The results in an event. A response that only asks for a confirmation is none."""
    asked = (event.get("actions") or {}).get("requestedToolConfirmations") or {}
    found = [part["functionResponse"] for part in _parts(event) if part.get("functionResponse")]
    return [_result(each) for each in found if each["id"] not in asked]


def _result(answer: Any) -> Message:
    response = answer.get("response")
    if isinstance(response, dict) and response.keys() == {"error"}:
        return Message("tool", response["error"], call=answer["id"], error=True)
    return Message("tool", response, call=answer["id"])


def _part(part: Any) -> Any:
    if part.get("text"):
        return (
            thought(part["text"], "google", part.get("thoughtSignature")) if part.get("thought") else text(part["text"])
        )
    data, file = part.get("inlineData"), part.get("fileData")
    if data and data.get("mimeType", "").startswith("image/"):
        return image(f"data:{data['mimeType']};base64,{data['data'].translate(_PLAIN_BASE64)}")
    if file and (file.get("mimeType") or "").startswith("image/"):
        return image(file["fileUri"])
    return {"type": "file"} if data or file else None


_PLAIN_BASE64 = str.maketrans("-_", "+/")  # the framework writes bytes for addresses


def render(message: Message) -> list[Any]:
    """The event of a turn that another framework said."""
    if message.call is not None:
        answer = {"id": message.call, "name": "", "response": _response(message)}
        return [{"author": "user", "content": {"role": "user", "parts": [{"functionResponse": answer}]}}]
    parts = [_rendered(part) for part in parts_of(message.content)]
    parts += [{"functionCall": {"id": call.id, "name": call.tool, "args": call.args}} for call in message.calls]
    author = "user" if message.role == "user" else "model"
    return [{"author": author, "content": {"role": author, "parts": parts}}] if parts else []


def _response(message: Message) -> dict[str, Any]:
    if message.error:
        return {"error": plain_text(message.content)}
    return message.content if isinstance(message.content, dict) else {"result": plain_text(message.content)}


def _rendered(part: Any) -> Any:
    if part["type"] == "text":
        return {"text": part["text"]}
    if part["type"] == "thinking":
        signature = part.get("signature")
        said = {"text": part["thinking"], "thought": True}
        return said if signature is None else {**said, "thoughtSignature": signature}
    source = part.get("source") or {}
    url = part["image_url"]["url"] if part["type"] == "image_url" else source.get("url")
    if part["type"] == "image" and url is None and "data" in source:
        url = f"data:{source.get('media_type')};base64,{source['data']}"
    if url is None:
        return {"text": f"[{part['type']}]"}
    if not url.startswith("data:"):
        return {"fileData": {"fileUri": url, "mimeType": "image/*"}}
    kind, _, data = url.removeprefix("data:").partition(";base64,")
    return {"inlineData": {"mimeType": kind, "data": data}}


FORM = register(Form("google_adk.event", "google", parse, render))
