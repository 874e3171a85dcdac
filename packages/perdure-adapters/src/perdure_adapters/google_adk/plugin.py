"""`PerdurePlugin`: the tools of Google ADK through the ledger. Keeps P2, P3, P4.

The framework stores the call before it calls, and a resumed invocation calls again with the same id: the ledger then gives the
result that stands, or settles the doubt. Doubt that a person must settle is a confirmation of the framework's own.

A message that is sent again makes the model call anew, with a new id. An app that can resume is told to do that instead. In any
other, a call that repeats one without a response (same tool, same arguments) is that one; and a message that is sent again
word for word gets the stored answer whose calls wait, so that the model is not paid for it twice.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from google.adk.models.llm_response import LlmResponse  # pyright: ignore[reportMissingImports]
from google.adk.plugins.base_plugin import BasePlugin  # pyright: ignore[reportMissingImports]

from perdure.errors import Conflict, InDoubt, NotFound, Refused, Waiting
from perdure.model.records.conversation import Call
from perdure.model.records.effects import key_of_call
from perdure_adapters import doubt_questions, session_names, tool_calls
from perdure_adapters.google_adk import confirmations
from perdure_adapters.google_adk.sessions import name_of
from perdure_adapters.shared_store import SharedStore

# The framework's own calls, which nobody carries out.
OWN_CALLS = frozenset({confirmations.REQUEST, "adk_request_credential", "adk_request_input", "transfer_to_agent"})


class PerdurePlugin(BasePlugin):
    """For `Runner(…, plugins=[PerdurePlugin(store)])`, beside `PerdureSessionService` on the same store.

    kinds: what tools do to the outside world, by name; also by `@perdure.tool` on their function. A tool that says nothing is
    unsafe: after a crash inside it, or an exception, the framework asks for a confirmation. Its payload may be the verdict
    ("absent", "failed", {"happened": result}), about the attempt that was asked about; after `perdure settle` a bare
    confirmation does.
    """

    def __init__(self, store: Any, *, kinds: tool_calls.Kinds | None = None, name: str = "perdure") -> None:
        super().__init__(name=name)
        self._shared = SharedStore(store)
        self._kinds = dict(kinds or {})

    async def on_user_message_callback(self, *, invocation_context: Any, user_message: Any) -> None:
        """Refuse a message while calls of a resumable invocation wait for their results. Confirmations pass."""
        if not invocation_context.is_resumable or any(part.function_response for part in user_message.parts or ()):
            return
        unanswered = [
            (event, call) for event, call in open_calls(invocation_context.session.events) if not self._reads(call.name)
        ]
        if unanswered:
            event, call = unanswered[-1]
            raise Refused(
                f"the call {call.id} of {call.name} has no result yet: a new message would let the model call it again",
                path="new_message", invocation=event.invocation_id,
                hint=f"resume it: runner.run_async(user_id=…, session_id=…, invocation_id={event.invocation_id!r})",
            )  # fmt: skip

    async def before_model_callback(self, *, callback_context: Any, llm_request: Any) -> LlmResponse | None:  # noqa: ARG002
        """Give a message that is sent again the stored answer whose calls have no response yet."""
        content = answer_among(
            callback_context.session.events, callback_context.invocation_id, callback_context.agent_name
        )
        return None if content is None else LlmResponse(content=content)

    async def before_tool_callback(
        self, *, tool: Any, tool_args: dict[str, Any], tool_context: Any
    ) -> dict[str, Any] | None:
        """Carry out the call, and give its result: the framework then does not call the tool itself."""
        declared = tool_calls.declared_as(tool.name, getattr(tool, "func", None), self._kinds)
        if tool_calls.reads_only(declared):
            return None
        about = tool_context.session
        session = await session_names.session_of(self._shared, name_of(about.app_name, about.user_id, about.id))
        call = Call(tool_context.function_call_id, tool.name, tool_args)
        key = key_among(about.events, call.id)
        asking: list[Any] = []

        async def invoke() -> Any:
            result = await tool.run_async(args=tool_args, tool_context=tool_context)
            if not confirmations.has_asked(tool_context):
                return result
            asking.append(result)
            raise tool_calls.ToolPaused

        async def act() -> Any:
            if key is None:
                return await tool_calls.act(session, call, declared, invoke)
            return await session.act(tool_calls.made_for(call, declared, invoke), call.args, key=key)

        try:
            result = await self._after_doubt(act, call, tool_context)
        except tool_calls.ToolPaused:  # the tool itself asks a person, and is called again from its beginning
            await doubt_questions.let_go(session, call, key)
            result = asking.pop()
        except NotFound as error:
            error.hint = (
                "give the runner PerdureSessionService on the same store: the call must be stored before it is sent"
            )
            raise
        return result if isinstance(result, dict) else {"result": result}

    async def on_event_callback(self, *, invocation_context: Any, event: Any) -> Any:
        """Let a question that is asked anew be answered: it becomes a request of the framework's."""
        pair = confirmations.requested_again(invocation_context.session.events, event)
        if pair is None:
            return None
        settled, asking = pair
        if settled is not None:
            await invocation_context.session_service.append_event(session=invocation_context.session, event=settled)
        return asking

    async def _after_doubt(self, act: Any, call: Call, tool_context: Any) -> Any:
        """Act; in doubt take the verdict that a confirmation gives about this attempt and act again, or ask for one."""
        is_answered = False
        while True:
            try:
                return await act()
            except (InDoubt, Waiting) as doubt:
                attempt = await doubt_questions.attempt_of(self._shared.aio, doubt)
                verdict = confirmations.verdict_about(call.id, doubt.facts.get("effect", ""), attempt, tool_context)
                if verdict is None or is_answered:
                    return confirmations.ask(call, doubt, attempt, tool_context)
                with suppress(Conflict):  # somebody else settled it, or its sender lives: the next look says so
                    await doubt_questions.settle(self._shared.aio, doubt, verdict)
            is_answered = True

    def _reads(self, name: str) -> bool:
        return tool_calls.reads_only(tool_calls.declared_as(name, None, self._kinds))

    async def close(self) -> None:
        """Let the store go, if it was opened here."""
        self._shared.close()


def open_calls(events: Iterable[Any]) -> list[tuple[Any, Any]]:
    """The calls that no event answers, each with its event. A response that only asks for a confirmation answers none."""
    history = list(events)
    answered = {
        response.id for event in history for response in event.get_function_responses()
        if response.id not in (event.actions.requested_tool_confirmations or {})
    }  # fmt: skip
    return [
        (event, call) for event in history for call in event.get_function_calls()
        if call.id not in answered and call.name not in OWN_CALLS
        and call.id not in (event.long_running_tool_ids or ())
    ]  # fmt: skip


def answer_among(events: Iterable[Any], invocation: str, agent: str) -> Any:
    """The stored answer to the message that this invocation begins with; None where the model must be asked.

    That is the newest answer before the message, if none of its calls has a response, and if the message that led to it is equal
    to this one. Its calls get ids of their own: they are other calls in the conversation, and `key_among` says which they repeat.
    """
    history = list(events)
    if len(history) < 3 or history[-1].invocation_id != invocation or history[-1].author != "user":
        return None
    *before, answer, message = history
    question = next(
        (event for event in before if event.invocation_id == answer.invocation_id and event.author == "user"), None
    )
    calls = answer.get_function_calls()
    open_ids = {call.id for _, call in open_calls(history)}
    if answer.author != agent or question is None or question.content != message.content or not calls:
        return None
    if not all(call.id in open_ids for call in calls):
        return None
    content = answer.content.model_copy(deep=True)
    for part in content.parts or ():
        if part.function_call is not None:
            part.function_call.id = None
    return content


def key_among(events: Iterable[Any], call_id: str) -> str | None:
    """The key of the call without a response that this one repeats; None for a call of its own.

    Goes through the stored events, so that every life finds the same. A call without a response is open; the next one of the same
    tool and arguments takes it.
    """
    history = list(events)
    open_ids = {call.id for _, call in open_calls(history)}
    calls = {call.id: call for event in history for call in event.get_function_calls()}
    this = calls.get(call_id)
    if this is None:
        return None
    keys: dict[str, str] = {}
    open_keys: list[str] = []
    for event in history:
        before = list(open_keys)
        for call in event.get_function_calls():
            if (call.name, call.args or {}) != (this.name, this.args or {}):
                continue
            earlier_key = before.pop(0) if before else None
            if earlier_key is not None:
                open_keys.remove(earlier_key)
            keys[call.id] = earlier_key or key_of_call(call.id)
            if call.id in open_ids:
                open_keys.append(keys[call.id])
    key = keys.get(call_id)
    return None if key == key_of_call(call_id) else key
