"""Lines of a Claude transcript as messages. Pure: no framework is imported. Every line also stays as it is: its uuid and its
parent belong to it.
"""

from __future__ import annotations

from typing import Any

from perdure.adapters.conversing import OPAQUE, Form, Message, register, text, thought
from perdure.model.records.conversation import Call


def parse(line: Any) -> Message:
    """One line as a message; what is no part of the conversation (titles, modes, summaries) is opaque."""
    said = line.get("message")
    if line.get("type") not in ("user", "assistant") or not isinstance(said, dict) or line.get("isMeta"):
        return OPAQUE
    content = said.get("content")
    if isinstance(content, str):
        return Message(line["type"], content) if content else OPAQUE
    blocks = [block for block in content or () if isinstance(block, dict)]
    if line["type"] == "assistant":
        return _assistant(blocks, said)
    results = [block for block in blocks if block.get("type") == "tool_result"]
    if len(results) == 1 == len(blocks):
        given = results[0]
        return Message("tool", given.get("content"), call=given["tool_use_id"], error=bool(given.get("is_error")))
    return OPAQUE if results or not blocks else Message("user", blocks)


def _assistant(blocks: list[Any], said: dict[str, Any]) -> Message:
    calls = tuple(
        Call(block["id"], block["name"], block.get("input") or {}) for block in blocks if block["type"] == "tool_use"
    )
    parts = [_part(block) for block in blocks if block["type"] != "tool_use"]
    usage, model = said.get("usage"), said.get("model")
    return Message(
        "assistant", parts or None, calls, usage=usage if isinstance(usage, dict) else None,
        model=model if isinstance(model, str) and model else None, opaque=not parts and not calls,
    )  # fmt: skip


def _part(block: Any) -> Any:
    if block["type"] == "text":
        return text(block["text"])
    return thought(block["thinking"], "anthropic", block.get("signature")) if block["type"] == "thinking" else block


def render(message: Message) -> list[Any]:  # noqa: ARG001 - as every form
    """Nothing: a line belongs to a chain of uuids that only the host can continue."""
    return []


LINES = register(Form("claude.line", "anthropic", parse, render))
