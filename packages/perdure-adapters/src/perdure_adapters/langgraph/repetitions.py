"""A message that is sent again after a crash, found in the conversation alone, so that every life finds the same.

LangGraph starts the graph from its beginning then, and leaves an answer in the thread whose calls have no result. While none of
its calls has one, the same words get that answer: the model is not paid again, and the calls keep their effects (`call_keys`).
No message is dropped. In the thread it is an answer of its own, whose calls have ids of their own. The model is shown one answer,
as it gave it: a provider knows its parts by their ids. Providers refuse a call without a result, so the model is shown that such
calls were cut off. Callers: `answers`. Keeps P3, P14.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from operator import is_
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from perdure.model.ids import new_uid
from perdure.planes.conversation.transcript import INTERRUPTED

REPEATS = "perdure_repeats"  # in the metadata of an answer that was given again: the id of the first one


def kept_answer(messages: Sequence[BaseMessage]) -> AIMessage | None:
    """The answer that the last message had before a crash, to be returned instead of asking the model. None for a new question.

    It is the newest answer, if none of its calls has a result, and the user's message that led to it has the same content.
    """
    again = _repetitions(messages)
    before = messages[: len(messages) - again]
    last = before[-1] if before else None
    if not again or not isinstance(last, AIMessage) or not last.tool_calls:
        return None
    return _given_again(last) if _is_same(_last_user(before), messages[-1]) else None


def sendable(messages: list[Any]) -> list[Any]:
    """Messages as a provider accepts them: a call that was cut off has a result that says so, and an answer that was given again
    is shown once. The list itself if nothing is to be changed.
    """
    prompt = [*_sendable(messages)]
    return messages if len(prompt) == len(messages) and all(map(is_, prompt, messages)) else prompt


def message_before_repetitions(messages: Sequence[BaseMessage]) -> BaseMessage | None:
    """The last message that a run was asked about before its own message was sent again; None if it was not."""
    again = _repetitions(messages)
    before = messages[: len(messages) - again]
    if again and before and isinstance(before[-1], ToolMessage):
        return before[-1] if _is_same(_last_user(before), messages[-1]) else None
    return messages[len(before)] if again > 1 else None


def _repetitions(messages: Sequence[BaseMessage]) -> int:
    """How many messages at the end are the last one's words of the user."""
    return sum(1 for _ in takewhile(lambda message: _is_same(message, messages[-1]), reversed(messages)))


def _last_user(messages: Sequence[BaseMessage]) -> BaseMessage | None:
    return next((message for message in reversed(messages) if isinstance(message, HumanMessage)), None)


def _is_same(earlier: BaseMessage | None, now: BaseMessage) -> bool:
    if not isinstance(earlier, HumanMessage) or not isinstance(now, HumanMessage):
        return False
    return (earlier.content, earlier.name) == (now.content, now.name)


def _given_again(answer: AIMessage) -> AIMessage:
    """An answer once more: its text and its calls. It has no usage, because nobody paid for it."""
    calls = [{**call, "id": f"call_{new_uid().hex()}"} for call in answer.tool_calls]
    return AIMessage(
        str(answer.text),
        name=answer.name,
        tool_calls=calls,
        response_metadata={REPEATS: _repeated(answer) or answer.id},
    )


def _repeated(message: Any) -> str | None:
    """The id of the first answer that this message gives again."""
    return message.response_metadata.get(REPEATS) if isinstance(message, AIMessage) else None


def _sendable(messages: Sequence[Any]) -> Iterator[Any]:
    last = {first: place for place, entry in enumerate(messages) if (first := _repeated(entry)) is not None}
    firsts = {entry.id: entry for entry in messages if isinstance(entry, AIMessage) and entry.id in last}
    open_: list[Any] = []  # the calls of the last answer that have no result yet
    ids: dict[Any, Any] = {}  # of its calls, as the model gave them
    for place, message in enumerate(messages):
        if isinstance(message, ToolMessage):
            result = _result_of(message, ids)
            open_ = [call for call in open_ if call["id"] != result.tool_call_id]
            yield result
            continue
        yield from map(_cut_off, open_)
        open_, ids = [], {}
        if isinstance(message, AIMessage):
            first = _repeated(message)
            if message.id in last or (first is not None and last[first] != place):
                continue  # it is given again
            answer = firsts.get(first or "", message)
            open_ = [*answer.tool_calls]
            ids = {new["id"]: old["id"] for new, old in zip(message.tool_calls, answer.tool_calls, strict=False)}
            yield answer
        else:
            yield message
    yield from map(_cut_off, open_)


def _result_of(result: ToolMessage, ids: Mapping[Any, Any]) -> ToolMessage:
    """A result with the id of its call as the model gave it."""
    own_id = ids.get(result.tool_call_id, result.tool_call_id)
    return result if own_id == result.tool_call_id else result.model_copy(update={"tool_call_id": own_id})


def _cut_off(call: Any) -> ToolMessage:
    return ToolMessage(content=INTERRUPTED, tool_call_id=call["id"] or "", name=call["name"], status="error")
