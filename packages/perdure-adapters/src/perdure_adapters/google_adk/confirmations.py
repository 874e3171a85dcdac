"""Doubt as a confirmation of Google ADK: the question, the answer to it, and a question about an attempt that comes later.

A question names the attempt that it is about, and an answer counts for that attempt alone: after a crash the framework hands the
last confirmation to the tool once more. The framework makes a request only for the first question of a call. A later one is
put into the event that carries it, in the framework's own form. Callers: `plugin`. Keeps P4.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from google.adk.events.event import Event  # pyright: ignore[reportMissingImports]
from google.adk.events.event_actions import EventActions  # pyright: ignore[reportMissingImports]
from google.genai import types  # pyright: ignore[reportMissingImports]

from perdure.errors import InDoubt, Waiting
from perdure.model.records.conversation import Call
from perdure.model.records.effects import Verdict
from perdure_adapters import doubt_questions

REQUEST = "adk_request_confirmation"
AGAIN = "again"  # in the payload of a question that the framework makes no request for


def ask(call: Call, doubt: InDoubt | Waiting, attempt: str, tool_context: Any) -> dict[str, Any]:
    """Ask for a confirmation; gives the response that stands in the place of a result."""
    question = {**doubt_questions.question(call, doubt), "attempt": attempt}
    if tool_context.tool_confirmation is not None:
        question[AGAIN] = True
    tool_context.request_confirmation(hint=f"{question['message']} ({question['how']})", payload=question)
    tool_context.actions.skip_summarization = True
    return {"error": "in doubt: a person must say what became of this call", "effect": question["effect"]}


def has_asked(tool_context: Any) -> bool:
    """Whether the tool itself asked for a confirmation or a credential: the framework calls it again with the answer."""
    actions, call_id = tool_context.actions, tool_context.function_call_id
    return call_id in actions.requested_tool_confirmations or call_id in actions.requested_auth_configs


def verdict_about(call_id: str, effect: str, attempt: str, tool_context: Any) -> Verdict | None:
    """The verdict that a person gave about this attempt; None if there is none, or if it was given about another one."""
    confirmation = tool_context.tool_confirmation
    if confirmation is None:
        return None
    question = _answered(tool_context.session.events, call_id)
    is_this = isinstance(question, dict) and (question.get("effect"), question.get("attempt")) == (effect, attempt)
    return doubt_questions.verdict_of(confirmation.payload) if is_this else None


def _answered(events: Iterable[Any], call_id: str) -> Any:
    """The question about a call that the last message answers; of several the newest, whose answer the framework takes."""
    history = list(events)
    last = next((event for event in reversed(history) if event.author == "user"), None)
    answers = {response.id for response in last.get_function_responses()} if last is not None else set()
    questions = [call.args or {} for event in history for call in event.get_function_calls()
             if call.name == REQUEST and call.id in answers]  # fmt: skip
    about = [question for question in questions if (question.get("originalFunctionCall") or {}).get("id") == call_id]
    return (about[-1].get("toolConfirmation") or {}).get("payload") if about else None


def requested_again(events: Iterable[Any], event: Any) -> tuple[Event | None, Event] | None:
    """An event that asks anew, with the requests in it; and before it one with the results beside them, if there are any: the
    model is shown no part of an event that has a request. None for any other event.
    """
    confirmations = event.actions.requested_tool_confirmations or {}
    again = {
        key: confirmation for key, confirmation in confirmations.items()
        if isinstance(confirmation.payload, dict) and confirmation.payload.get(AGAIN)
    }  # fmt: skip
    calls = {call.id: call for earlier in events for call in earlier.get_function_calls() if call.id in again}
    if not calls or event.content is None:
        return None
    parts = event.content.parts or []
    asking = [part for part in parts if part.function_response and part.function_response.id in calls]
    beside = [part for part in parts if part not in asking]
    requests = [_request(calls[key], again[key]) for key in calls]
    settled = None
    if beside:
        rest = event.actions.model_copy(update={"requested_tool_confirmations": {}, "skip_summarization": None})
        settled = _of(event, beside, id=Event.new_id(), actions=rest)
    actions = event.actions if settled is None else EventActions(
        requested_tool_confirmations=again, skip_summarization=True
    )  # fmt: skip
    ids = {part.function_call.id for part in requests if part.function_call is not None}
    return settled, _of(event, [*asking, *requests], actions=actions, long_running_tool_ids=ids)


def _request(call: Any, confirmation: Any) -> types.Part:
    """The framework's own request, as it makes it for the first question."""
    args = {"originalFunctionCall": call.model_dump(exclude_none=True, by_alias=True),
            "toolConfirmation": confirmation.model_dump(exclude_none=True, by_alias=True)}  # fmt: skip
    return types.Part(function_call=types.FunctionCall(id=f"adk-{Event.new_id()}", name=REQUEST, args=args))


def _of(event: Any, parts: list[Any], **changed: Any) -> Event:
    return event.model_copy(
        update={"content": types.Content(role=event.content.role, parts=parts), **changed}
    )  # fmt: skip
