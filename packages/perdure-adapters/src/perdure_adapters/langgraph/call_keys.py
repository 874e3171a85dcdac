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
    maker = max((place for place, each in enumerate(messages) if _made(each, call_id)), default=None)
    if maker is None:
        return short_key(call_id)
    made = _made(messages[maker], call_id)
    open_: list[_OpenCall] = []
    for place, message in enumerate(messages[: maker + 1]):
        if isinstance(message, ToolMessage):
            _close(open_, message.tool_call_id)
        elif isinstance(message, AIMessage):
            open_ += _opened(message, place, made, open_)
    return next(each.key for each in reversed(open_) if each.id == call_id)


def _opened(message: AIMessage, place: int, made: Mapping[str, Any], open_: list[_OpenCall]) -> list[_OpenCall]:
    """The calls of a message that are like this one. Each takes an open one over, while there is one."""
    named = message.id or f"#{place}"
    alike = [each["id"] or "" for each in message.tool_calls if _likeness(each) == _likeness(made)]
    taken = [open_.pop(0).key for _ in alike[: len(open_)]]
    own = [short_key(f"{id_}@{named}") for id_ in alike]
    return [_OpenCall(id_, key) for id_, key in zip(alike, taken + own[len(taken) :], strict=True)]


def _close(open_: list[_OpenCall], call_id: str) -> None:
    """An answer belongs to the newest open call of its id."""
    for each in reversed(open_):
        if each.id == call_id:
            open_.remove(each)
            return


def _conversation(state: Any, call_id: str) -> list[Any]:
    """The messages among which the call was made: a graph may keep them under any name."""
    values: Iterable[Any] = (
        [state] if isinstance(state, list) else
        state.values() if isinstance(state, Mapping) else vars(state).values() if hasattr(state, "__dict__") else ()
    )  # fmt: skip
    lists = [each for each in values if isinstance(each, list)]
    return next((each for each in lists if any(_made(message, call_id) for message in each)), [])


def _made(message: Any, call_id: str) -> Mapping[str, Any]:
    """The call of this id, as the message makes it; empty if it makes none."""
    calls: Iterable[Any] = message.tool_calls if isinstance(message, AIMessage) else ()
    return next((each for each in calls if each["id"] == call_id), {})


def _likeness(call: Mapping[str, Any]) -> tuple[Any, Any]:
    return call["name"], call["args"]


def short_key(key: str) -> str:
    """A key that the ledger takes: the text itself, or its digest."""
    if len(key) <= _KEY_MAX_CHARS and key.isprintable():
        return key
    return hashlib.sha256(key.encode(errors="surrogatepass")).hexdigest()
