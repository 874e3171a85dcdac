"""Messages in the shapes of the providers (OpenAI chat, Anthropic) and items of OpenAI's Responses, as turns, calls and results.

Most formats keep one of these inside something of their own. Callers: the formats. Content keeps its parts; texts of one part
become plain text; calls and results leave the content and become calls and results.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NamedTuple

import msgspec

from perdure.model.records.conversation import Call
from perdure_agents.importers.items import (
    ImportedEvent,
    ImportedFrom,
    ImportedResult,
    ImportedSession,
    ImportedTurn,
    ImportedValue,
    Item,
    kind_of,
)
from perdure_agents.importers.names import Calls, Occurrences, name_of, word
from perdure_agents.importers.sources import LENIENT, Source

ROLES = {
    "system": "system", "developer": "system", "user": "user", "human": "user", "assistant": "assistant", "ai": "assistant",
    "model": "assistant",
}  # fmt: skip
TOOL_ROLES = frozenset({"tool", "function"})
_TEXTS = frozenset({"text", "input_text", "output_text", "summary_text", "reasoning_text"})


class Spot(NamedTuple):
    """Where a message stands: its session, its key there, where it came from, and the calls of its session."""

    session: str
    key: str
    origin: ImportedFrom
    place: str
    calls: Calls


class ImportedCall(NamedTuple):
    """A call as its source tells it."""

    id: str
    tool: str
    args: Any


class Given(NamedTuple):
    """A result as its source tells it."""

    call: str
    content: Any
    error: bool


class OneSession:
    """One pass over a file that holds one session: it goes by the file's name, unless a record has its id."""

    def __init__(self, source: Source, format_name: str) -> None:
        self._source = source
        self._format = format_name
        self._session = name_of(format_name, source.path.stem)
        self._begun = False
        self._calls = Calls()
        self._seen = Occurrences()

    def _open(self, place: str, own_id: object = None, facts: dict[str, Any] | None = None) -> Iterator[Item]:
        """The session begins, with what its source says of it; nothing if it has."""
        if self._begun:
            return
        self._begun = True
        if own_id:
            self._session = name_of(self._format, own_id)
        yield ImportedSession(self._session, self._format, place)
        if facts:
            yield ImportedValue("origin", facts, place, session=self._session)


def is_message(value: object) -> bool:
    """Whether this looks like a message of either provider."""
    if not isinstance(value, dict) or not isinstance(value.get("role"), str):
        return False
    return value["role"] in ROLES or value["role"] in TOOL_ROLES


def message_items(message: dict[str, Any], spot: Spot) -> Iterator[Item]:
    """The items of one message: results that it brings, then what it says and the calls that it makes."""
    role = str(message.get("role"))
    if role in TOOL_ROLES:
        call = str(message.get("tool_call_id") or message.get("name") or "")
        yield answer(Given(call, content_of(message.get("content")), message.get("status") == "error"), spot)
        return
    parts, calls, results = _sorted_parts(message.get("content"))
    yield from (answer(part, spot) for part in results)
    calls += [_chat_call(part) for part in _dicts(message.get("tool_calls"))]
    if isinstance(message.get("function_call"), dict):
        calls.append(_chat_call({"id": message["function_call"].get("name"), "function": message["function_call"]}))
    if parts or calls or not results:
        yield turn(ROLES.get(role, "user"), content_of(parts), calls, spot)


def turn(role: str, content: Any, asked_calls: list[ImportedCall], spot: Spot) -> ImportedTurn:
    """A turn. Only the assistant makes calls; whoever else is said to have made some, was the assistant."""
    calls = tuple(
        Call(spot.calls.id_of(call.id, spot.key, number), name_of(call.tool) if call.tool else "unknown", call.args)
        for number, call in enumerate(asked_calls)
    )
    nothing = None if calls else ""
    text = nothing if content in (None, "", []) else content
    return ImportedTurn(
        session=spot.session,
        key=spot.key,
        role="assistant" if calls else role,
        content=text,
        origin=spot.origin,
        place=spot.place,
        calls=calls,
    )


def answer(result: Given, spot: Spot) -> ImportedResult:
    """A result."""
    call = spot.calls.answered(result.call)
    return ImportedResult(spot.session, call, result.content, spot.origin, spot.place, result.error)


def _sorted_parts(content: Any) -> tuple[Any, list[ImportedCall], list[Given]]:
    """The text, the calls and the results among the parts of a content."""
    if not isinstance(content, list):
        return content, [], []
    rest, calls, results = [], [], []
    for part in content:
        kind = kind_of(part)
        if kind in ("tool_use", "server_tool_use"):
            calls.append(ImportedCall(str(part.get("id") or ""), str(part.get("name") or ""), part.get("input")))
        elif kind in ("tool_result", "web_search_tool_result"):
            call, error = str(part.get("tool_use_id") or ""), bool(part.get("is_error"))
            results.append(Given(call, content_of(part.get("content")), error))
        else:
            rest.append(part)
    return rest, calls, results


def _chat_call(call: dict[str, Any]) -> ImportedCall:
    function = call.get("function") if isinstance(call.get("function"), dict) else call.get("custom")
    if not isinstance(function, dict):
        return ImportedCall(str(call.get("id") or ""), str(call.get("name") or ""), call.get("args"))
    args = function.get("arguments", function.get("input"))
    return ImportedCall(str(call.get("id") or ""), str(function.get("name") or ""), arguments(args))


def arguments(raw: Any) -> Any:
    """Arguments that are written as JSON in a text, as what they are; another text stays one."""
    if not isinstance(raw, str):
        return raw
    try:
        return msgspec.json.decode(raw) if raw.strip() else {}
    except (msgspec.MsgspecError, UnicodeEncodeError):
        with suppress(ValueError, RecursionError):
            return LENIENT.decode(raw)  # half an emoji is let pass here: see `text_repair`
    except RecursionError:
        pass
    return raw


def content_of(content: Any) -> Any:
    """A content as a turn keeps it: one text as text, parts under the names that both providers know."""
    if not isinstance(content, list):
        return content
    parts = [_part(part) for part in content]
    if len(parts) == 1 and isinstance(parts[0], dict) and set(parts[0]) == {"type", "text"}:
        return parts[0]["text"]
    return parts


def _part(part: Any) -> Any:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    if not isinstance(part, dict):
        return part
    if kind_of(part) in _TEXTS and isinstance(part.get("text"), str):
        return {"type": "text", "text": part["text"]}
    if part.get("type") == "input_image" and isinstance(part.get("image_url"), str):
        return {"type": "image_url", "image_url": {"url": part["image_url"]}}
    return part


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


# -- OpenAI's Responses ------------------------------------------------------------------------------------------

_RESPONSE_CALLS = {"function_call": "arguments", "custom_tool_call": "input", "mcp_call": "arguments"}
_HOSTED_CALLS = frozenset({
    "local_shell_call", "shell_call", "apply_patch_call", "web_search_call", "file_search_call", "computer_call",
    "code_interpreter_call", "image_generation_call", "tool_search_call",
})  # fmt: skip


def response_items(item: dict[str, Any], spot: Spot) -> Iterator[Item]:
    """One item of the Responses shape: a message, a call, a result, a thought; what is none of them becomes an emitted event."""
    kind = kind_of(item) or ("message" if is_message(item) else "")
    if kind == "message":
        yield from message_items(item, spot)
    elif kind in _RESPONSE_CALLS:
        yield from _called(item, str(item.get("name") or ""), arguments(item.get(_RESPONSE_CALLS[kind])), spot)
    elif kind in _HOSTED_CALLS:
        about = {
            name: value for name, value in item.items() if name not in ("type", "id", "call_id", "status", "output")
        }
        yield from _called(item, kind.removesuffix("_call"), about.get("action", about), spot)
    elif kind.endswith(("_call_output", "_tool_output", "tool_search_output")):
        yield answer(_output(item), spot)
    elif kind == "reasoning":
        yield turn("assistant", [{"type": "thinking", "thinking": _thought(item)}], [], spot)
    else:
        yield ImportedEvent(
            spot.session, spot.key, f"{word(spot.origin.format)}.{word(kind)}", item, spot.origin, spot.place
        )


def _called(item: dict[str, Any], tool: str, args: Any, spot: Spot) -> Iterator[Item]:
    """A call, and its result where the same item has it."""
    call = str(item.get("call_id") or item.get("id") or "")
    yield turn("assistant", None, [ImportedCall(call, tool, args)], spot)
    if item.get("output") is not None or item.get("error") is not None:
        yield answer(_output(item), spot)


def _output(item: dict[str, Any]) -> Given:
    output, failed = item.get("output"), item.get("error") is not None or item.get("status") == "failed"
    if isinstance(output, dict) and "success" in output:
        failed = output["success"] is False
        output = output.get("content", output)
    content = item["error"] if output is None and item.get("error") is not None else content_of(output)
    return Given(str(item.get("call_id") or item.get("id") or ""), content, failed)


def _thought(item: dict[str, Any]) -> str:
    """The readable part of a thought; most of it is encrypted and only its maker's."""
    parts = _dicts(item.get("summary")) + _dicts(item.get("content"))
    return "\n".join(part["text"] for part in parts if isinstance(part.get("text"), str))
