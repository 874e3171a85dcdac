"""The forms of the learning export: a session as a row of a data set, as pieces of one JSON line.

Pieces, because a session may be longer than the memory: turns come in chunks, and each chunk is written before the next is
read. Pure. The rows hold nothing but what their format knows; the lineage file (`learning`) says where they came from.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any

import msgspec

from perdure.model.records.conversation import Role, Turn
from perdure.planes.conversation.transcript import Exchange, TranscriptFormat, as_text, pair, render

encode = msgspec.json.Encoder(order="deterministic").encode
Chunks = Iterable[Sequence[Turn]]
ATIF = "ATIF-v1.8"
AGENT_SOURCES = {Role.SYSTEM: "system", Role.USER: "user", Role.ASSISTANT: "agent"}


def openai(chunks: Chunks, disliked: Collection[str], about: dict[str, Any]) -> Iterator[bytes]:  # noqa: ARG001 - as all forms
    """OpenAI's chat form for fine-tuning: messages, and the tools that they call. An answer whose call a person took back or
    refused has weight 0: it is context, and not learnt.
    """
    tools: dict[str, None] = {}

    def messages() -> Iterator[dict[str, Any]]:
        for chunk in chunks:
            for message in render(chunk, TranscriptFormat.OPENAI):
                calls = message.get("tool_calls", ())
                tools.update({call["function"]["name"]: None for call in calls})
                liked = not any(call["id"] in disliked for call in calls)
                yield message if liked else {**message, "weight": 0}

    yield from _line("messages", messages(), encode, lambda: _tools(tools))


def trl(chunks: Chunks, disliked: Collection[str], about: dict[str, Any]) -> Iterator[bytes]:  # noqa: ARG001 - as all forms
    """TRL's conversational form (`messages`, `tools`): arguments of calls are objects. Calls that a person took back stay."""
    tools: dict[str, None] = {}

    def messages() -> Iterator[dict[str, Any]]:
        for chunk in chunks:
            for message in _plain_messages(chunk):
                tools.update({call["function"]["name"]: None for call in message.get("tool_calls", ())})
                yield message

    yield from _line("messages", messages(), encode, lambda: _tools(tools))


def preference(prompt: Chunks, chosen: Chunks, rejected: Chunks) -> Iterator[bytes]:
    """TRL's conversational preference form: what both had in common, then the way that worked and the one that did not."""
    opening = b'{"prompt":['
    for name, chunks in (("prompt", prompt), ("chosen", chosen), ("rejected", rejected)):
        yield opening if name == "prompt" else b'],"' + name.encode() + b'":['
        yield from _separated(encode(message) for chunk in chunks for message in _plain_messages(chunk))
    yield b"]}\n"


def atif(chunks: Chunks, disliked: Collection[str], about: dict[str, Any]) -> Iterator[bytes]:
    """A trajectory of ATIF 1.8: a step for each turn, results beside the calls that they answer."""
    head = {
        "schema_version": ATIF,
        "session_id": about["session"],
        "trajectory_id": about["uid"],
        "agent": {"name": about["agent"], "version": about["version"]},
        "extra": {name: about[name] for name in ("outcome", "corrections", "first_seq", "head_seq", "head_hash")},
    }
    yield encode(head)[:-1] + b',"steps":['
    yield from _separated(map(encode, _steps(chunks, disliked)))
    yield b"]}\n"


FORMS: dict[str, Callable[[Chunks, Collection[str], dict[str, Any]], Iterator[bytes]]] = {
    "openai": openai,
    "trl": trl,
    "atif": atif,
}


def _line(
    name: str, items: Iterable[Any], written: Callable[[Any], bytes], rest: Callable[[], dict[str, Any]]
) -> Iterator[bytes]:
    yield b'{"' + name.encode() + b'":['
    yield from _separated(map(written, items))
    more = rest()
    yield b"]" + (b"," + encode(more)[1:] if more else b"}") + b"\n"


def _separated(pieces: Iterable[bytes]) -> Iterator[bytes]:
    for number, piece in enumerate(pieces):
        yield b"," + piece if number else piece


def _tools(names: Iterable[str]) -> dict[str, Any]:
    """Declarations of the tools that were called; their parameters are not recorded, so any are allowed."""
    parameters = {"type": "object", "properties": {}, "additionalProperties": True}
    declarations = [{"type": "function", "function": {"name": name, "parameters": parameters}} for name in names]
    return {"tools": declarations} if declarations else {}


def _plain_messages(chunk: Sequence[Turn]) -> Iterator[dict[str, Any]]:
    """Messages whose arguments are objects and whose content is text, as templates of chats read them."""
    for message in render(chunk, TranscriptFormat.OPENAI):
        calls = [
            {"type": "function", "function": {**plain, "arguments": msgspec.json.decode(plain["arguments"])}}
            for plain in (call["function"] for call in message.get("tool_calls", ()))
        ]
        content = message["content"]
        text = content if isinstance(content, str) else as_text(content) if content is not None else ""
        plain = {"role": message["role"], "content": text} | ({"tool_calls": calls} if calls else {})
        yield plain | ({"name": message["tool_call_id"]} if message["role"] == "tool" else {})


def _steps(chunks: Chunks, disliked: Collection[str]) -> Iterator[dict[str, Any]]:
    number = 0
    for chunk in chunks:
        for item in pair(chunk):
            if isinstance(item, Exchange):
                number += 1
                yield {"step_id": number, **_step(item, disliked)}


def _step(item: Exchange, disliked: Collection[str]) -> dict[str, Any]:
    turn = item.turn
    step: dict[str, Any] = {
        "timestamp": turn.at.isoformat(),
        "source": AGENT_SOURCES[turn.role],
        "message": as_text(turn.content) if turn.content is not None else "",
        "extra": {"seq": turn.seq},
    }
    if turn.role is not Role.ASSISTANT:
        return step
    if turn.model is not None:
        step["model_name"] = turn.model
    if metrics := _metrics(turn.usage or {}):
        step["metrics"] = metrics
    if item.answered:
        step["tool_calls"] = [
            {"tool_call_id": call.id, "function_name": call.tool,
             "arguments": call.args if isinstance(call.args, dict) else {"value": call.args},
             **({"extra": {"taken_back": True}} if call.id in disliked else {})}
            for call, _ in item.answered
        ]  # fmt: skip
        results = [(call, result) for call, result in item.answered if result is not None]
        if results:
            step["observation"] = {"results": [
                {"source_call_id": call.id, "content": as_text(result.content),
                 **({"extra": {"error": True}} if result.error else {})}
                for call, result in results
            ]}  # fmt: skip
    return step


def _metrics(usage: dict[str, Any]) -> dict[str, int]:
    names = {
        "prompt_tokens": ("input_tokens", "prompt_tokens"),
        "completion_tokens": ("output_tokens", "completion_tokens"),
        "cached_tokens": ("cache_read_input_tokens", "cached_tokens"),
    }
    counts = {
        name: next((usage[word] for word in words if type(usage.get(word)) is int), None)
        for name, words in names.items()
    }
    return {name: count for name, count in counts.items() if count is not None}
