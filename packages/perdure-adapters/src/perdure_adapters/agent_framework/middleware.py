"""The tools of Agent Framework through the ledger. Keeps P2, P3, P4.

    the answer is saved, and so a turn ─▶ PerdureFunctionMiddleware ─▶ the intent is durable ─▶ the tool runs
      ─▶ its result is durable ─▶ the framework's message of the results, with the next answer

An agent that is run again after a crash, with no message, gets its last answer back from PerdureChatMiddleware while a call of it
has no result: the model is not asked, and the framework carries the calls out, with the same ids. So does an agent that is sent
its last message again, word for word: the message and the answer are kept once more, with other ids. Any other message is a new
question to the model. A call that repeats one that was cut off (same tool, same arguments) takes its place, so that it is not
sent twice. Doubt that a person must settle is a `function_approval_request` of the framework.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import agent_framework  # pyright: ignore[reportMissingImports]
from agent_framework import (  # pyright: ignore[reportMissingImports]
    ChatMiddleware,
    ChatResponse,
    ChatResponseUpdate,
    Content,
    FunctionMiddleware,
    Message,
    MiddlewareTermination,
    ResponseStream,
)
from agent_framework._sessions import LOCAL_HISTORY_CONVERSATION_ID  # pyright: ignore[reportMissingImports]
from agent_framework.exceptions import UserInputRequiredException  # pyright: ignore[reportMissingImports]

from perdure.errors import Conflict, InDoubt, Refused, Waiting
from perdure.handles.aio.session import AsyncSession
from perdure.handles.atomic import Atomic
from perdure.handles.listing import aevery
from perdure.model.ids import new_uid
from perdure_adapters import doubt_questions, tool_calls
from perdure_adapters.agent_framework.conversation import StoredCall, StoredConversation, record_of
from perdure_adapters.forms.agent_framework_messages import FORM, contents_of, kept_content
from perdure_adapters.neutral_messages import keep
from perdure_adapters.shared_store import SharedStore

Next = Callable[[], Awaitable[None]]
ANSWER = "perdure"  # the property of an approval request with the question, and of its response with the verdict
ATTEMPT = "perdure_attempt"  # the property of both with the attempt that they are about
WHOLE = "agent_framework"  # a result that is kept as the framework's own contents
HINT = (
    "Agent(context_providers=[history], middleware=history.middleware(), require_per_service_call_history_persistence=True), "
    "history = PerdureHistoryProvider(store); or declare the tool as read"
)
_FAILURE: Any = getattr(agent_framework, "MiddlewareFailure", None)  # not in the oldest versions


class PerdureChatMiddleware(ChatMiddleware):
    """Gives the last answer again, without asking the model, while calls of it are open: to an agent that is run with no message,
    or with the message to which it was the answer.

    For `Agent(middleware=[…])` beside PerdureFunctionMiddleware; `PerdureHistoryProvider.middleware()` gives both.
    """

    def __init__(self, store: Any) -> None:
        self._shared = SharedStore(store)

    async def process(self, context: Any, call_next: Next) -> None:
        """Answer from the session, or let the model answer."""
        messages = [message for message in context.messages if _is_said(message)]
        if context.session is None or len(messages) > 1 or any(message.role != "user" for message in messages):
            return await call_next()
        session = await self._shared.aio.session(context.session.session_id)
        stored = await conversation_of(session)
        open_answer = stored.open_answer()
        if open_answer is None or not all(_is_same(stored.question(), message) for message in messages):
            return await call_next()
        record, open_ids = open_answer
        answer = Message.from_dict(record)
        answer.contents = [part for part in answer.contents if part.type != "function_call" or part.call_id in open_ids]
        if messages:
            answer = said_again(answer)
            await self._keep(context.session.session_id, [*messages, answer])
        response = ChatResponse(messages=[answer], conversation_id=LOCAL_HISTORY_CONVERSATION_ID)
        response.mark_internal_conversation_id()
        context.result = _streamed(response) if context.stream else response
        return None

    async def _keep(self, name: str, messages: list[Message]) -> None:
        """Keep messages as turns: one commit. A process that dies before it leaves the first answer as it was."""
        records = [record_of(message) for message in messages]

        def save(tx: Atomic) -> None:
            session = tx.session(name)
            for record in records:
                keep(session, FORM, record)

        await self._shared.aio.atomic(save)

    def close(self) -> None:
        """Let the store go, if it was opened here."""
        self._shared.close()


def _is_said(message: Message) -> bool:
    """Whether a message is of the caller or the loop, and not the context of a provider."""
    return message.role != "system" and "_attribution" not in message.additional_properties


def _is_same(record: Any, message: Message) -> bool:
    """Whether a message says what a stored one does."""
    return (
        record is not None and record["role"] == message.role and record["contents"] == record_of(message)["contents"]
    )


def said_again(answer: Message) -> Message:
    """An answer as another one of the same contents: calls, and what a provider takes only once, have no id of the first."""
    copy = Message.from_dict(answer.to_dict())
    copy.message_id = None
    for content in copy.contents:
        content.id = None
        content.additional_properties.pop("fc_id", None)  # of OpenAI's Responses
        if content.type == "function_call":
            content.call_id = f"call_{new_uid().hex()}"
    return copy


def _streamed(response: ChatResponse) -> Any:
    async def updates() -> Any:
        for message in response.messages:
            yield ChatResponseUpdate(contents=message.contents, role=message.role)

    return ResponseStream(updates(), finalizer=lambda _updates: response)


async def conversation_of(session: AsyncSession) -> StoredConversation:
    """The stored conversation."""
    return StoredConversation([turn async for turn in aevery(session.turns, after=0)])


class PerdureFunctionMiddleware(FunctionMiddleware):
    """For `Agent(middleware=[…, PerdureFunctionMiddleware(store)])`, as the last one, with PerdureHistoryProvider on that store
    and `require_per_service_call_history_persistence=True`. store: a URL or an open store.

    kinds: what tools do to the outside world, by name; also by `@perdure.tool` under the framework's `@tool`. A tool that says
    nothing is unsafe: after a crash inside it, or an exception, the run ends with an approval request until a person says what
    happened.
    """

    def __init__(self, store: Any, *, kinds: tool_calls.Kinds | None = None) -> None:
        self._shared = SharedStore(store)
        self._kinds = dict(kinds or {})

    async def process(self, context: Any, call_next: Next) -> None:
        """Carry out a call through the ledger, and give its result to the framework."""
        tool = context.function
        declared = tool_calls.declared_as(tool.name, getattr(tool, "func", None), self._kinds)
        if tool_calls.reads_only(declared) or _is_invalid(context):
            return await call_next()
        if context.session is None:
            raise _refusal(tool.name)
        session = await self._shared.aio.session(context.session.session_id)
        stored_call = (await conversation_of(session)).find(context.metadata.get("call_id"), tool.name)
        if stored_call is None:
            raise _refusal(tool.name)
        await _OneCall(self._shared, session, context, call_next, declared, stored_call).carry_out()
        return None

    def close(self) -> None:
        """Let the store go, if it was opened here."""
        self._shared.close()


def _refusal(tool: str) -> BaseException:
    """An error that ends the run. The framework makes a result for the model of any other one."""
    refused = Refused(f"{tool} needs a session that keeps its call before it is sent", path="agent", hint=HINT)
    if _FAILURE is None:
        return MiddlewareTermination(str(refused), result=f"Error: {refused}")
    failure = _FAILURE(str(refused))
    failure.__cause__ = refused
    return failure


class _OneCall:
    """One call on its way: act; after doubt take a person's answer and act again, or ask."""

    def __init__(
        self,
        shared: SharedStore,
        session: AsyncSession,
        context: Any,
        call_next: Next,
        declared: Any,
        stored_call: StoredCall,
    ) -> None:
        self._shared = shared
        self._session = session
        self._context = context
        self._next = call_next
        self._declared = declared
        self._call = stored_call.call
        self._key = stored_call.key if stored_call.repeats else None
        self._is_approved = "approval_response" in context.metadata
        self._paused: list[Any] = []

    async def carry_out(self) -> None:
        """Set the result: that of the ledger, an error of the model's, or the framework's request."""
        try:
            self._context.result = contents(await self._act())
        except tool_calls.ToolPaused:
            await doubt_questions.let_go(self._session, self._call, self._key)
            self._pause()
        except (InDoubt, Waiting) as doubt:
            if await self._is_answered(doubt):
                await self.carry_out()
            else:
                await self._ask(doubt)

    async def _act(self) -> Any:
        return await tool_calls.act(self._session, self._call, self._declared, self._invoke, key=self._key)

    async def _is_answered(self, doubt: InDoubt | Waiting) -> bool:
        """Settle it by the verdict that a person gave with the approval about this attempt, once."""
        response = self._context.metadata.pop("approval_response", None)
        properties = {} if response is None else response.additional_properties
        verdict = doubt_questions.verdict_of(properties.get(ANSWER))
        if verdict is None or "effect" not in doubt.facts or properties.get(ATTEMPT) != await self._attempt(doubt):
            return False
        with suppress(Conflict):  # somebody else settled it, or its sender lives: the next look says so
            await doubt_questions.settle(self._shared.aio, doubt, verdict)
        return True

    async def _attempt(self, doubt: InDoubt | Waiting) -> str:
        return f"{doubt.facts.get('effect', '')}@{await doubt_questions.attempt_of(self._shared.aio, doubt)}"

    async def _ask(self, doubt: InDoubt | Waiting) -> None:
        """Let the run end with a request. After an approval, the oldest versions take it only from an exception."""
        self._context.result = self._request(doubt, await self._attempt(doubt))
        if _FAILURE is None and self._is_approved:
            raise UserInputRequiredException([self._context.result])

    def _request(self, doubt: InDoubt | Waiting, attempt: str) -> Content:
        call = Content.from_function_call(self._call.id, self._call.tool, arguments=self._call.args)
        call.id = self._context.metadata.get("function_call_occurrence_id")
        about = {ANSWER: doubt_questions.question(self._call, doubt), ATTEMPT: attempt}
        return Content.from_function_approval_request(call.id or self._call.id, call, additional_properties=about)

    def _pause(self) -> None:
        paused = self._paused.pop()
        if isinstance(paused, BaseException):
            raise paused
        self._context.result = paused

    async def _invoke(self) -> Any:
        """Run the tool; the framework runs a sync function in a thread."""
        is_async = inspect.iscoroutinefunction(getattr(self._context.function, "func", None))
        return await tool_calls.until_returned(self._run, in_thread=not is_async)

    async def _run(self) -> Any:
        try:
            await self._next()
        except UserInputRequiredException as asks:
            self._paused.append(asks)
            raise tool_calls.ToolPaused from asks
        result = self._context.result
        if isinstance(result, Content) and result.user_input_request:
            self._paused.append(result)
            raise tool_calls.ToolPaused
        return ledger_result(result)


def ledger_result(result: Any) -> Any:
    """A result as the ledger keeps it: its content, as a person or a probe would say it; whole where that says less."""
    if not isinstance(result, list) or not all(isinstance(part, Content) for part in result):
        return result
    items = [part.to_dict() for part in result]
    content = kept_content(items)
    return {WHOLE: items} if content is None else content


def contents(result: Any) -> list[Content]:
    """A result of the ledger as the framework's contents."""
    is_whole = isinstance(result, dict) and result.keys() == {WHOLE}
    return [Content.from_dict(content) for content in (result[WHOLE] if is_whole else contents_of(result))]


def _is_invalid(context: Any) -> bool:
    """Whether the arguments do not fit the function, so that the framework answers without calling it."""
    metadata = context.metadata
    return "_auto_prepare_function_arguments" in metadata and "_prepared_function_arguments" not in metadata
