"""Lines of a Claude transcript as messages. Pure: no framework is imported. Every line also stays as it is: its uuid and its
parent belong to it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any
from uuid import UUID

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

TURN = "perdure"  # the field of a rendered line that says of which turn it is


def parse(line: Any) -> Message:
    """One line as a message; what is no part of the conversation (titles, modes, summaries) is opaque."""
    message = line.get("message")
    if line.get("type") not in ("user", "assistant") or not isinstance(message, dict) or line.get("isMeta"):
        return OPAQUE
    content = message.get("content")
    if isinstance(content, str):
        return Message(line["type"], content) if content else OPAQUE
    blocks = [block for block in content or () if isinstance(block, dict)]
    if line["type"] == "assistant":
        return _assistant(blocks, message)
    others = [_part(block) for block in blocks if block.get("type") != "tool_result"]
    answers = _tool_results(blocks)
    return Message("user", others) if others else answers[-1] if answers else OPAQUE


def results(line: Any) -> list[Message]:
    """The results of a line besides its message: of calls in parallel, or before what the user says."""
    message = line.get("message")
    content = message.get("content") if isinstance(message, dict) and line.get("type") == "user" else None
    blocks = [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
    answers = _tool_results(blocks)
    return answers if len(answers) < len(blocks) else answers[:-1]


def _tool_results(blocks: list[Any]) -> list[Message]:
    return [
        Message("tool", _result(block.get("content")), call=block["tool_use_id"], error=bool(block.get("is_error")))
        for block in blocks
        if block.get("type") == "tool_result"
    ]


def _result(content: Any) -> Any:
    parts = [_part(block) for block in content] if isinstance(content, list) else content
    only_text = isinstance(parts, list) and len(parts) == 1 and parts[0].get("type") == "text"
    return parts[0]["text"] if only_text else parts


def _assistant(blocks: list[Any], message: dict[str, Any]) -> Message:
    calls = tuple(
        Call(block["id"], block["name"], block.get("input") or {}) for block in blocks if block["type"] == "tool_use"
    )
    parts = [_part(block) for block in blocks if block["type"] != "tool_use"]
    usage, model = message.get("usage"), message.get("model")
    return Message(
        "assistant", parts or None, calls, usage=usage if isinstance(usage, dict) else None,
        model=model if isinstance(model, str) and model else None, opaque=not parts and not calls,
    )  # fmt: skip


def _part(block: Any) -> Any:
    if block["type"] == "text":
        return text(block["text"])
    if block["type"] == "thinking":
        return thought(block["thinking"], "anthropic", block.get("signature"))
    url = url_of(block)
    return block if url is None else image(url)


def render(message: Message) -> list[Any]:
    """The line of a turn that another framework said, without its place in a transcript (see `chained`)."""
    if message.call is not None:
        block: dict[str, Any] = {
            "type": "tool_result",
            "tool_use_id": message.call,
            "content": plain_text(message.content),
        }
        return [_line("user", [{**block, "is_error": True} if message.error else block])]
    blocks = [_block(part) for part in parts_of(message.content)]
    if message.role == "system":  # a transcript has no place for it: the host says it anew
        return []
    for call in message.calls:
        args = json.loads(json.dumps(call.args, default=str))
        blocks.append({"type": "tool_use", "id": call.id, "name": call.tool, "input": args})
    if not blocks:
        return []
    about = {"model": message.model or "unknown"} if message.role == "assistant" else {}
    return [_line(message.role, blocks, **about)]


def _line(role: str, content: Any, **about: Any) -> Any:
    return {"type": role, "message": {"role": role, "content": content, **about}}


def _block(part: Any) -> Any:
    if part["type"] == "text":
        return part
    if part["type"] == "thinking":
        return {"type": "thinking", "thinking": part["thinking"], "signature": part.get("signature") or ""}
    data, url = image_of(part), url_of(part)
    if data is not None:
        return {"type": "image", "source": {"type": "base64", "media_type": data[0], "data": data[1]}}
    if url is not None:
        return {"type": "image", "source": {"type": "url", "url": url}}
    return text(f"[{part['type']}]")


def chained(lines: Iterable[Any], session_id: str | None, cwd: str) -> list[Any]:
    """Lines of a transcript, and rendered ones between them, as one that the host can resume: each after the one before it.

    A rendered line gets a uuid that is made of its turn's identity, so that making it again gives the same. A line of the host
    stays as it is, but that it follows a rendered one that has come before it. session_id: of all lines, if it is not None.
    """
    chain: list[Any] = []
    own: str | None = None  # the last line of the host
    parent: str | None = None
    folder = cwd
    for line in lines:
        if TURN in line:
            parent, before = _uuid(line[TURN]), parent
            about = {"isSidechain": False, "userType": "external", "cwd": folder, "sessionId": session_id}
            chain.append({**about, **line, "uuid": parent, "parentUuid": before})
            continue
        follows = {"parentUuid": parent} if parent != own == line.get("parentUuid") else {}
        chain.append({**line, **follows, **({} if session_id is None else {"sessionId": session_id})})
        folder = line.get("cwd") or folder
        if line.get("uuid") and not line.get("isSidechain"):
            own = parent = line["uuid"]
    return chain


def answers(lines: Iterable[Any], results: Mapping[str, Any]) -> list[Any]:
    """A line for each call of these lines that has a result here, as the host writes it: after the line of its call."""
    return [
        _answer(line, block["id"], results[block["id"]])
        for line in lines
        for block in _blocks(line)
        if block.get("type") == "tool_use" and block.get("id") in results
    ]


def _blocks(line: Any) -> list[Any]:
    content = line["message"].get("content") if isinstance(line.get("message"), dict) else None
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []


def _answer(line: Any, call: str, result: Any) -> Any:
    """result: of a tool of an SDK server, or of a tool of the host, which may be of any form."""
    fields = result if isinstance(result, dict) else {}
    content = fields.get("content", fields.get("error", result))
    content = content if isinstance(content, str | list) else json.dumps(content, ensure_ascii=False, default=str)
    block = {"type": "tool_result", "tool_use_id": call, "content": content}
    failed = {"is_error": True} if fields.get("is_error") or fields.get("error") else {}
    about = {name: line[name] for name in _OF_THE_HOST if name in line}
    rendered = _line("user", [{**block, **failed}])
    return {**about, **rendered, "uuid": _uuid(f"answer/{call}"), "parentUuid": line.get("uuid")}


# The fields that all lines of one life of the host share.
_OF_THE_HOST = (
    "isSidechain",
    "userType",
    "entrypoint",
    "cwd",
    "sessionId",
    "version",
    "gitBranch",
    "timestamp",
    "agentId",
)


def _uuid(place: str) -> str:
    return str(UUID(bytes=hashlib.sha256(place.encode()).digest()[:16], version=4))


LINES = register(Form("claude.line", "anthropic", parse, render, results, (TURN,)))
