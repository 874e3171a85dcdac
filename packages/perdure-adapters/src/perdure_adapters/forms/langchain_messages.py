"""Messages of LangChain as turns, in the framework's own dictionaries (`message_to_dict`). Pure: the framework is not imported.

{"type": "human" | "ai" | "system" | "tool", "data": {"content": …, "id": …, "tool_calls": […], …}}
"""

from __future__ import annotations

from typing import Any

from perdure.model.records.conversation import Call
from perdure.planes.conversation.transcript import as_text
from perdure_adapters.neutral_messages import (
    OPAQUE,
    Form,
    Message,
    image,
    parts_of,
    plain_text,
    register,
    text,
    thought,
    url_of,
)

_ROLES = {"human": "user", "ai": "assistant", "system": "system", "tool": "tool"}
_KINDS = {role: kind for kind, role in _ROLES.items()}
_CALLS = frozenset({"tool_use", "tool_call", "function_call", "server_tool_call"})  # `tool_calls` says them too
_PROVIDERS = {"google_genai": "google", "google_vertexai": "google", "google_anthropic_vertex": "anthropic"}


def parse(record: Any) -> Message:
    """One message; one that changes the list (RemoveMessage) or has a role of its own is opaque."""
    role, data = _ROLES.get(record["type"]), record["data"]
    about = data.get("response_metadata") or {}
    if role is None:
        return OPAQUE
    if role == "tool":
        return Message(
            "tool", _content(data["content"], ""), call=data["tool_call_id"], error=data.get("status") == "error"
        )
    provider = str(about.get("model_provider") or "")
    content = _content(data["content"], _PROVIDERS.get(provider, provider))
    calls = tuple(Call(call["id"], call["name"], call["args"]) for call in data.get("tool_calls") or ())
    usage = {name: count for name, count in (data.get("usage_metadata") or {}).items() if type(count) is int}
    model = about.get("model_name") or about.get("model")
    return Message(
        role, content, calls, usage=usage or None, model=model if isinstance(model, str) else None,
        opaque=content is None and not calls,
    )  # fmt: skip


def _content(content: Any, provider: str) -> Any:
    if isinstance(content, str):
        return content or None
    parts = [neutral for part in content if (neutral := _part(part, provider)) is not None]
    only_text = len(parts) == 1 and parts[0]["type"] == "text"
    return parts[0]["text"] if only_text else parts or None


def _part(part: Any, provider: str) -> Any:
    if isinstance(part, str):
        return text(part)
    kind = part["type"]
    if kind == "text":
        return text(part["text"])
    url = url_of(part)
    if url is not None:
        return image(url)
    if kind == "thinking":
        return thought(part["thinking"], provider or "anthropic", part.get("signature"))
    if kind == "reasoning":
        reasoning = part.get("reasoning") or "\n".join(line["text"] for line in part.get("summary") or ())
        return (
            thought(reasoning, provider or "openai", (part.get("extras") or {}).get("signature")) if reasoning else None
        )
    return None if kind in _CALLS else {**part, "type": kind}


def render(message: Message) -> list[Any]:
    """The message of a turn that another framework said."""
    if message.call is not None:
        output = plain_text(message.content)
        status = "error" if message.error else "success"
        return [_message("tool", content=output, tool_call_id=message.call, status=status, name=message.tool)]
    content = _rendered_content(message.content)
    if message.role != "assistant":
        return [_message(_KINDS[message.role], content=content)] if content else []
    calls = [{"name": call.tool, "args": call.args, "id": call.id, "type": "tool_call"} for call in message.calls]
    return [_message("ai", content=content, tool_calls=calls)] if content or calls else []


def _message(kind: str, **data: Any) -> Any:
    return {"type": kind, "data": {"type": kind, **data}}


def _rendered_content(content: Any) -> Any:
    if isinstance(content, str):
        return content
    parts = [_rendered(part) for part in parts_of(content)]
    return parts[0]["text"] if len(parts) == 1 and parts[0]["type"] == "text" else parts or ""


def _rendered(part: Any) -> Any:
    if part["type"] == "text":
        return part
    if part["type"] == "thinking":  # as the provider's own integration writes it
        if part.get("provider") == "anthropic":
            return {"type": "thinking", "thinking": part["thinking"], "signature": part.get("signature") or ""}
        signed = {} if part.get("signature") is None else {"extras": {"signature": part["signature"]}}
        return {"type": "reasoning", "reasoning": part["thinking"], **signed}
    url = url_of(part)
    return {"type": "image_url", "image_url": {"url": url}} if url is not None else text(as_text([part]))


FORM = register(Form("langchain.message", "", parse, render, id_path=("data", "id")))
