"""The key of a tool call in the ledger, found in the conversation alone, so that every life finds the same.

A call is named by its id and by the message that made it, because ids repeat. A call that repeats one of an earlier message that
was never answered is that one: the user sent the message again after a crash. It takes the key of the open call with it: once the
repetition is answered, nothing is open any more, and a third call like it is a new one. Keeps P3.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from langchain_core.messages import AIMessage, ToolMessage

_KEY_MAX_CHARS = 200


class _OpenCall(NamedTuple):
    """A call without an answer, and its key."""

    id: str
    key: str


def key_in(state: Any, call_id: str) -> str:
    """The key of a call in the state of its graph: its own, or that of the unanswered call that it repeats."""
    messages = _conversation(state, call_id)
    maker = max((place for place, message in enumerate(messages) if _call_in(message, call_id)), default=None)
    if maker is None:
        return short_key(call_id)
    target = _call_in(messages[maker], call_id)
    open_: list[_OpenCall] = []
    for place, message in enumerate(messages[: maker + 1]):
        if isinstance(message, ToolMessage):
            _close(open_, message.tool_call_id)
        elif isinstance(message, AIMessage):
            open_ += _opened(message, place, target, open_)
    return next(call.key for call in reversed(open_) if call.id == call_id)


def _opened(message: AIMessage, place: int, target: Mapping[str, Any], open_: list[_OpenCall]) -> list[_OpenCall]:
    """The calls of a message that are like this one. Each takes an open one over, while there is one."""
    source = message.id or f"#{place}"
    alike = [call["id"] or "" for call in message.tool_calls if _likeness(call) == _likeness(target)]
    earlier_keys = [open_.pop(0).key for _ in alike[: len(open_)]]
    own = [short_key(f"{id_}@{source}") for id_ in alike]
    return [_OpenCall(id_, key) for id_, key in zip(alike, earlier_keys + own[len(earlier_keys) :], strict=True)]


def _close(open_: list[_OpenCall], call_id: str) -> None:
    """An answer belongs to the newest open call of its id."""
    for call in reversed(open_):
        if call.id == call_id:
            open_.remove(call)
            return


def _conversation(state: Any, call_id: str) -> list[Any]:
    """The messages among which the call was made: a graph may keep them under any name."""
    values: Iterable[Any] = (
        [state] if isinstance(state, list) else
        state.values() if isinstance(state, Mapping) else vars(state).values() if hasattr(state, "__dict__") else ()
    )  # fmt: skip
    lists = [messages for messages in values if isinstance(messages, list)]
    return next((messages for messages in lists if any(_call_in(message, call_id) for message in messages)), [])


def _call_in(message: Any, call_id: str) -> Mapping[str, Any]:
    """The call of this id, as the message makes it; empty if it makes none."""
    calls: Iterable[Any] = message.tool_calls if isinstance(message, AIMessage) else ()
    return next((call for call in calls if call["id"] == call_id), {})


def _likeness(call: Mapping[str, Any]) -> tuple[Any, Any]:
    return call["name"], call["args"]


def short_key(key: str) -> str:
    """A key that the ledger takes: the text itself, or its digest."""
    if len(key) <= _KEY_MAX_CHARS and key.isprintable():
        return key
    return hashlib.sha256(key.encode(errors="surrogatepass")).hexdigest()
