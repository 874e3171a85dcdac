"""The transcript: turns and summaries as messages that a provider accepts, whatever crashed (P14). Pure
functions.

The log is never repaired; this view of it is. Every call has exactly one result, right after the message that
made it: one that came late is put in its place, one that never came is said to be unknown, one whose call is
not in view is left out. Nothing is empty, ids and names have the characters that providers allow, and for
Anthropic roles take turns, beginning with the user. Callers: `covers.transcript`.
"""

from __future__ import annotations

import enum
import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import msgspec

from perdure.errors import Invalid
from perdure.model.records.conversation import Call, Cover, Role, Turn
from perdure.model.values import encode, to_plain

Message: TypeAlias = dict[str, Any]
Item: TypeAlias = Turn | Cover

INTERRUPTED = "interrupted: the outcome of this call is unknown; check before doing it again"
EMPTY = "(empty)"
CONTINUED = "(the conversation goes on)"
ID_MAX_CHARS = 40
TOOL_MAX_CHARS = 64

_SAFE = re.compile(r"[A-Za-z0-9_-]+")
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]")


class TranscriptFormat(enum.StrEnum):
    """Whose messages these are."""

    OPENAI = "openai"
    ANTHROPIC = "anthropic"


class Transcript(list[Message]):
    """Messages, ready to be sent to a provider. `system` holds the system text for Anthropic; "" for OpenAI."""

    __slots__ = ("system",)

    def __init__(self, messages: Iterable[Message] = (), system: str = "") -> None:
        super().__init__(messages)
        self.system = system


class AnsweredCall(NamedTuple):
    """A call of the view with its result; None when none came."""

    call: Call
    result: Turn | None


class Exchange(NamedTuple):
    """One turn of the view and the calls that it makes, each with its result."""

    turn: Turn
    answered: tuple[AnsweredCall, ...] = ()


def format_of(name: str) -> TranscriptFormat:
    """The format of this name."""
    if not isinstance(name, str) or name not in set(TranscriptFormat):
        raise Invalid(f"no format {str(name)[:40]!r}", path="format", hint=" or ".join(TranscriptFormat))
    return TranscriptFormat(name)


def render(items: Iterable[Item], shape: TranscriptFormat) -> Transcript:
    """The messages of a conversation in one of the formats."""
    paired = [*_distinct(pair(items))]
    return _openai(paired) if shape is TranscriptFormat.OPENAI else _anthropic(paired)


def pair(items: Iterable[Item]) -> list[Exchange | Cover]:
    """Every call with its result at the place of the call; results leave their own place. A result belongs to the newest call of
    its id before it, else to the first after it; the first of two counts.
    """
    paired: list[Exchange | Cover] = []
    results: dict[tuple[int, str], Turn] = {}  # by the turn that made the call, and its id
    makers: dict[str, int] = {}
    for item in items:
        if isinstance(item, Cover):
            paired.append(item)
        elif item.role is Role.TOOL:
            results.setdefault((makers.get(item.call or "", 0), item.call or ""), item)
        elif item.content is not None or item.calls or item.native is None:  # else only its framework can show it
            paired.append(Exchange(item))
            makers |= {call.id: item.seq for call in item.calls}
    return [entry if isinstance(entry, Cover) else _answered(entry.turn, results) for entry in paired]


def _answered(turn: Turn, results: dict[tuple[int, str], Turn]) -> Exchange:
    for call in turn.calls:
        early = results.pop((0, call.id), None)
        if early is not None:
            results.setdefault((turn.seq, call.id), early)
    calls = {call.id: call for call in reversed(turn.calls)}  # the first of an id
    fresh = [call for call in turn.calls if calls[call.id] is call]
    return Exchange(turn, tuple(AnsweredCall(call, results.get((turn.seq, call.id))) for call in fresh))


def _distinct(paired: Iterable[Exchange | Cover]) -> Iterator[Exchange | Cover]:
    """Ids that come again, with the number of their turn: providers take each once."""
    used: set[str] = set()
    for item in paired:
        if isinstance(item, Exchange) and not used.isdisjoint(call.id for call, _ in item.answered):
            anew = [
                AnsweredCall(msgspec.structs.replace(call, id=f"{call.id}@{item.turn.seq}") if call.id in used else call, result)
                for call, result in item.answered
            ]  # fmt: skip
            item = Exchange(item.turn, tuple(anew))  # noqa: PLW2901 - as it is shown
        if isinstance(item, Exchange):
            used |= {call.id for call, _ in item.answered}
        yield item


# -- what both formats need ----------------------------------------------------------------------------------


def _heading(cover: Cover) -> str:
    turns = f"turns {cover.first_seq} to {cover.last_seq}"
    names = f"\nAlso named there: {', '.join(cover.keys)}" if cover.keys else ""
    return f"Summary of what was said before ({turns}):\n{_filled(cover.text)}{names}"


def _filled(text: str) -> str:
    return text if text.strip() else EMPTY


def as_text(content: Any) -> str:
    """Content as one text: parts joined, other values as JSON."""
    if isinstance(content, str):
        return content
    parts = _parts(content)
    if parts is None:
        return "" if content is None else encode(content).decode()
    visible_parts = [part for part in parts if part["type"] not in _ANTHROPIC_THOUGHTS]
    return "\n".join(part["text"] if _is_text(part) else f"[{part['type']}]" for part in visible_parts)


def _parts(content: Any) -> list[dict[str, Any]] | None:
    """The content parts of a provider's list, without texts that say nothing; None if it is no such list."""
    if not isinstance(content, list) or not content:
        return None
    if not all(isinstance(part, dict) and str(part.get("type")) in _PARTS for part in content):
        return None
    return [part for part in content if not _is_text(part) or part["text"].strip()]


def _block(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _is_text(part: dict[str, Any]) -> bool:
    return part["type"] == "text" and isinstance(part.get("text"), str)


def _safe(name: str, max_chars: int) -> str:
    """The name as it is if a provider allows it, else one that is as unique."""
    if len(name) <= max_chars and _SAFE.fullmatch(name):
        return name
    mark = hashlib.sha256(name.encode()).hexdigest()[:12]
    return f"{_UNSAFE.sub('_', name)[: max_chars - 13]}_{mark}"


def _args(call: Call) -> dict[str, Any]:
    plain = to_plain(call.args, "args", from_store=True)
    return plain if isinstance(plain, dict) else {"value": plain}


# -- OpenAI --------------------------------------------------------------------------------------------------


def _openai(paired: Sequence[Exchange | Cover]) -> Transcript:
    messages = Transcript()
    for item in paired:
        if isinstance(item, Cover):
            messages.append({"role": "system", "content": _heading(item)})
        else:
            messages += _openai_exchange(item)
    return messages


def _openai_exchange(item: Exchange) -> list[Message]:
    turn = item.turn
    message: Message = {"role": turn.role.value, "content": _openai_content(turn)}
    if not item.answered:
        if not message["content"] and _only_thinks(turn):
            return []
        message["content"] = message["content"] or EMPTY
        return [message]
    message["content"] = message["content"] or None
    message["tool_calls"] = [_openai_call(call) for call, _ in item.answered]
    return [message, *(_openai_result(*answered) for answered in item.answered)]


def _openai_content(turn: Turn) -> Any:
    parts = _parts(turn.content) if turn.role is Role.USER else None
    if parts is None:
        text = as_text(turn.content)
        return text if text.strip() else ""
    return [_openai_part(part) for part in parts if part["type"] not in _ANTHROPIC_THOUGHTS]


def _openai_part(part: dict[str, Any]) -> dict[str, Any]:
    source = part.get("source")
    if part["type"] == "image" and isinstance(source, dict):
        url = source.get("url") or f"data:{source.get('media_type')};base64,{source.get('data')}"
        return {"type": "image_url", "image_url": {"url": url}}
    if _is_text(part):
        return _block(part["text"])
    if part["type"] in _OPENAI_PARTS and isinstance(part.get(part["type"]), dict):
        return part
    return {"type": "text", "text": f"[{part['type']}]"}


def _openai_call(call: Call) -> dict[str, Any]:
    function = {"name": _safe(call.tool, TOOL_MAX_CHARS), "arguments": encode(_args(call)).decode()}
    return {"id": _safe(call.id, ID_MAX_CHARS), "type": "function", "function": function}


def _openai_result(call: Call, result: Turn | None) -> Message:
    text = INTERRUPTED if result is None else _filled(as_text(result.content))
    if result is not None and result.error:
        text = f"error: {text}"
    return {"role": "tool", "tool_call_id": _safe(call.id, ID_MAX_CHARS), "content": text}


# -- Anthropic -----------------------------------------------------------------------------------------------


def _anthropic(paired: Sequence[Exchange | Cover]) -> Transcript:
    messages = Transcript()
    rules: list[str] = []
    for item in paired:
        if isinstance(item, Cover):
            _add(messages, "user", [_block(_heading(item))])
        elif item.turn.role is Role.SYSTEM:
            rules.append(as_text(item.turn.content))
        else:
            _add_exchange(messages, item)
    if messages and messages[-1]["role"] == "assistant":
        blocks = messages[-1]["content"]
        if blocks[-1]["type"] == "text":  # the last text of the assistant must not end in white space
            blocks[-1] = _block(blocks[-1]["text"].rstrip())
    messages.system = "\n\n".join(rule for rule in rules if rule.strip())
    return messages


def _add_exchange(messages: Transcript, item: Exchange) -> None:
    blocks = _anthropic_content(item.turn)
    if item.turn.role is Role.USER:
        _add(messages, "user", blocks or [_block(EMPTY)])
        return
    calls = [_anthropic_call(call) for call, _ in item.answered]
    if not blocks and not calls and _only_thinks(item.turn):
        return
    _add(messages, "assistant", [*blocks, *calls] or [_block(EMPTY)])
    if calls:
        _add(messages, "user", [_anthropic_result(*answered) for answered in item.answered])


def _add(messages: Transcript, role: str, blocks: list[dict[str, Any]]) -> None:
    """Add blocks: to the last message if it has the same role. The first message is always the user's."""
    if not messages and role == "assistant":
        messages.append({"role": "user", "content": [_block(CONTINUED)]})
    if messages and messages[-1]["role"] == role:
        messages[-1]["content"] += blocks
    else:
        messages.append({"role": role, "content": blocks})


def _anthropic_content(turn: Turn) -> list[dict[str, Any]]:
    parts = _parts(turn.content)
    if parts is not None:
        if turn.role is Role.USER:
            return _anthropic_blocks(parts, _ANTHROPIC_PARTS)
        return [part if _is_thought(part) else _anthropic_part(part, _NONE) for part in parts if not _is_unsigned(part)]
    text = as_text(turn.content)
    return [_block(text)] if text.strip() else []


def _anthropic_part(part: dict[str, Any], allowed: frozenset[str]) -> dict[str, Any]:
    if _is_text(part):
        return _block(part["text"])
    url = part["image_url"].get("url") if isinstance(part.get("image_url"), dict) else None
    if "image" in allowed and isinstance(url, str):
        return {"type": "image", "source": _image_source(url)}
    has_source = isinstance(part.get("source"), dict)
    return part if part["type"] in allowed and has_source else _block(f"[{part['type']}]")


def _anthropic_blocks(parts: list[dict[str, Any]], allowed: frozenset[str]) -> list[dict[str, Any]]:
    return [_anthropic_part(part, allowed) for part in parts if not _is_thought(part)]


def _is_thought(part: dict[str, Any]) -> bool:
    return part["type"] in _ANTHROPIC_THOUGHTS


def _only_thinks(turn: Turn) -> bool:
    """Whether a turn is nothing but reasoning, as some frameworks keep it: nobody misses it where it cannot be shown."""
    parts = _parts(turn.content)
    return turn.role is Role.ASSISTANT and bool(parts) and all(map(_is_thought, parts or ()))


def _is_unsigned(part: dict[str, Any]) -> bool:
    """Whether it is a thought that the provider refuses: one without its signature. It is kept in the turn, not sent."""
    return _is_thought(part) and not isinstance(part.get(_ANTHROPIC_THOUGHTS[part["type"]]), str)


def _image_source(url: str) -> dict[str, str]:
    inline = re.fullmatch(r"data:([\w/+.-]+);base64,(.*)", url, re.DOTALL)
    if inline:
        return {"type": "base64", "media_type": inline[1], "data": inline[2]}
    return {"type": "url", "url": url}


def _anthropic_call(call: Call) -> dict[str, Any]:
    names = {"id": _safe(call.id, ID_MAX_CHARS), "name": _safe(call.tool, TOOL_MAX_CHARS)}
    return {"type": "tool_use", **names, "input": _args(call)}


def _anthropic_result(call: Call, result: Turn | None) -> dict[str, Any]:
    block: dict[str, Any] = {"type": "tool_result", "tool_use_id": _safe(call.id, ID_MAX_CHARS)}
    if result is None:
        return block | {"content": INTERRUPTED, "is_error": True}
    parts = _parts(result.content)
    blocks = _anthropic_blocks(parts, _ANTHROPIC_PARTS) if parts else []
    block["content"] = blocks or _filled(as_text(result.content))
    return block | {"is_error": True} if result.error else block


_OPENAI_PARTS = frozenset({"image_url", "input_audio", "file"})
_ANTHROPIC_PARTS = frozenset({"image", "document"})
# A thought, and the field that makes the provider believe it.
_ANTHROPIC_THOUGHTS = {"thinking": "signature", "redacted_thinking": "data"}
_NONE: frozenset[str] = frozenset()
_PARTS = frozenset({"text", "refusal", "tool_use", "tool_result"}) | (
    _OPENAI_PARTS | _ANTHROPIC_PARTS | _ANTHROPIC_THOUGHTS.keys()
)
