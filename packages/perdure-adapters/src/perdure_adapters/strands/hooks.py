"""`PerdureHooks`: the tools of Strands through the ledger. Keeps P2, P3, P4.

    the answer is a message, and so a turn ─▶ BeforeToolCallEvent ─▶ the selected tool is replaced by `LedgeredTool`
      ─▶ the intent is durable ─▶ the tool runs ─▶ its result is durable ─▶ the message with the results

An agent that is made again after a crash, and called with no prompt, runs the tools of its last message again, with the same ids:
the ledger gives the results that stand, or settles the doubt. Doubt that a person must settle is an interrupt of the framework.

A prompt instead makes the framework answer the open calls with "Tool was interrupted.". A call whose result is in the ledger gets
that one here. A later call that repeats one that was cut off (same tool, same input) is that one, so that it is not sent twice.
A prompt that is sent again word for word gets the stored answer whose calls were cut off, so that the model is not paid for it
twice. It stays in the conversation, and the model reads it before its next answer.
"""

from __future__ import annotations

import asyncio
import inspect
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import suppress
from typing import Any

from strands.hooks import (  # pyright: ignore[reportMissingImports]
    BeforeInvocationEvent,
    BeforeToolCallEvent,
    HookOrder,
    HookProvider,
    HookRegistry,
    MessageAddedEvent,
)
from strands.types._events import ToolInterruptEvent, ToolResultEvent  # pyright: ignore[reportMissingImports]
from strands.types.tools import AgentTool  # pyright: ignore[reportMissingImports]

from perdure.errors import Conflict, Failed, InDoubt, Refused, Waiting
from perdure.handles.aio.session import AsyncSession
from perdure.model.ids import new_uid
from perdure.model.records.conversation import Call
from perdure.model.records.effects import key_of_call
from perdure_adapters import doubt_questions, tool_calls
from perdure_adapters.forms.strands_messages import blocks_of, content_of
from perdure_adapters.neutral_messages import arguments_of
from perdure_adapters.shared_store import SharedStore
from perdure_adapters.strands.repository import PerdureSessionRepository, conversation_of

# As the framework answers for a call that was lost.
CUT_OFF = {"status": "error", "content": [{"text": "Tool was interrupted."}]}
# Types of the framework's own tools that touch nothing.
PURE = frozenset({"structured_output"})


class PerdureHooks(HookProvider):
    """For `Agent(hooks=[PerdureHooks(store)])` beside a RepositorySessionManager on PerdureSessionRepository of the same store.
    PerdureSessionManager brings both.

    kinds: what tools do to the outside world, by name; also by `@perdure.tool` under `@strands.tool`. A tool that says nothing
    is unsafe: after a crash inside it, or an exception, the agent stops with an interrupt until a person says what happened.
    """

    def __init__(self, store: Any, *, kinds: tool_calls.Kinds | None = None) -> None:
        self._shared = SharedStore(store)
        self._kinds = dict(kinds or {})

    def register_hooks(self, registry: HookRegistry, **_options: Any) -> None:
        """Register the callbacks: results before the session stores them; messages and tools after other hooks chose them."""
        registry.add_callback(MessageAddedEvent, self.tell_results, order=HookOrder.SDK_FIRST)
        registry.add_callback(BeforeInvocationEvent, self.answer_again, order=HookOrder.SDK_LAST)
        registry.add_callback(BeforeToolCallEvent, self.replace_tool, order=HookOrder.SDK_LAST)

    def close(self) -> None:
        """Let the store go, if it was opened here."""
        self._shared.close()

    def answer_again(self, event: BeforeInvocationEvent) -> None:
        """Let a message that is sent again be followed by the stored answer: the framework then carries out its calls."""
        messages = event.messages or []
        if len(messages) != 1 or _repository_of(event.agent) is None:
            return
        answer = answer_in(event.agent.messages, messages[0])
        if answer is not None:
            event.messages = [*messages, answer]

    async def tell_results(self, event: MessageAddedEvent) -> None:
        """Put the ledger's results into the message by which the framework answers calls that were cut off."""
        lost = [result for result in _results_in(event.message) if _is_cut_off(result)]
        if not lost or _repository_of(event.agent) is None:
            return
        session = await self._session(event.agent)
        for result in lost:
            stands = await session.result_of(result["toolUseId"])
            if stands is not None:
                result |= {"status": "error" if stands.error else "success", "content": blocks_of(stands.content)}

    async def replace_tool(self, event: BeforeToolCallEvent) -> None:
        """Let the ledger carry out the selected tool. Refused where no session would keep the call before it is sent."""
        tool = event.selected_tool
        if tool is None or event.cancel_tool or isinstance(tool, LedgeredTool) or tool.tool_type in PURE:
            return
        declared = tool_calls.declared_as(tool.tool_name, getattr(tool, "_tool_func", None), self._kinds)
        if tool_calls.reads_only(declared):
            return
        if _repository_of(event.agent) is None:
            raise Refused(
                f"{tool.tool_name} needs a session that keeps its call before it is sent", path="session_manager",
                hint="Agent(session_manager=PerdureSessionManager(session_id, store)); or declare the tool as read",
            )  # fmt: skip
        event.selected_tool = LedgeredTool(tool, declared, event, await self._session(event.agent), self._shared)

    async def _session(self, agent: Any) -> AsyncSession:
        return await self._shared.aio.session(conversation_of(agent._session_manager.session_id, agent.agent_id))


def _repository_of(agent: Any) -> PerdureSessionRepository | None:
    repository = getattr(getattr(agent, "_session_manager", None), "session_repository", None)
    return repository if isinstance(repository, PerdureSessionRepository) else None


class LedgeredTool(AgentTool):
    """A tool for one call, whose function is called by the ledger. Everything else is the tool's own."""

    def __init__(
        self, inner: AgentTool, declared: Any, event: BeforeToolCallEvent, session: AsyncSession, shared: SharedStore
    ) -> None:
        super().__init__()
        self._inner = inner
        self._declared = declared
        self._event = event
        self._session = session
        self._shared = shared

    @property
    def tool_name(self) -> str:
        """The tool's name."""
        return self._inner.tool_name

    @property
    def tool_spec(self) -> Any:
        """The tool's specification."""
        return self._inner.tool_spec

    @property
    def tool_type(self) -> str:
        """The tool's type."""
        return self._inner.tool_type

    async def stream(
        self, tool_use: Any, invocation_state: dict[str, Any], **options: Any
    ) -> AsyncGenerator[Any, None]:
        """The tool's own events as they come, then its result: the one that stands, or that of this call."""
        if _is_invalid(self._inner, tool_use):  # the framework answers that without calling the function
            async for event in self._inner.stream(tool_use, invocation_state, **options):
                yield event
            return
        events: asyncio.Queue[Any] = asyncio.Queue()
        one = _OneCall(self, tool_use, invocation_state, options, events.put_nowait)
        task = asyncio.create_task(one.carry_out())
        task.add_done_callback(lambda _: events.put_nowait(None))
        try:
            while (event := await events.get()) is not None:
                yield event
        finally:
            if not task.done():
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
        yield task.result()


class _OneCall:
    """One call on its way: act, and after doubt ask, settle and act again."""

    def __init__(
        self, tool: LedgeredTool, tool_use: Any, state: dict[str, Any], options: dict[str, Any], emit: Callable[[Any], None]
    ) -> None:  # fmt: skip
        self._tool = tool
        self._tool_use = tool_use
        self._stream = lambda: tool._inner.stream(tool_use, state, **options)
        self._emit = emit
        self._paused: list[ToolInterruptEvent] = []
        self._asked: Counter[str] = Counter()  # how often about each attempt
        self._call = Call(tool_use["toolUseId"], tool_use["name"], arguments_of(tool_use.get("input")))
        self._key = key_in(tool._event.agent.messages, self._call)

    async def carry_out(self) -> Any:
        """The last event of the tool: its result, or the framework's interrupt."""
        while True:
            try:
                return self._result(await self._act())
            except Failed as no:
                return ToolResultEvent(self._wrapped("error", [{"text": f"Error: {no}"}]), exception=no)
            except tool_calls.ToolPaused:
                await doubt_questions.let_go(self._tool._session, self._call, self._key)
                return self._paused.pop()
            except (InDoubt, Waiting) as doubt:
                await self._ask(doubt)

    async def _act(self) -> Any:
        session, call, declared = self._tool._session, self._call, self._tool._declared
        if self._key is None:
            return await tool_calls.act(session, call, declared, self._invoke)
        return await session.act(tool_calls.made_for(call, declared, self._invoke), call.args, key=self._key)

    async def _ask(self, doubt: InDoubt | Waiting) -> None:
        """Interrupt the agent, or take the answer that a person gave about this attempt; the framework keeps answers by name."""
        about = await doubt_questions.attempt_of(self._tool._shared.aio, doubt)
        self._asked[about] += 1
        name = f"perdure.doubt.{about}.{self._asked[about]}"
        answer = self._tool._event.interrupt(name, reason=doubt_questions.question(self._call, doubt))
        verdict = doubt_questions.verdict_of(answer)
        if verdict is not None and "effect" in doubt.facts:
            with suppress(Conflict):  # somebody else settled it, or its sender lives: the next look says so
                await doubt_questions.settle(self._tool._shared.aio, doubt, verdict)

    async def _invoke(self) -> Any:
        """Run the tool; the framework runs a sync function in a thread."""
        return await tool_calls.until_returned(self._run, in_thread=not _is_async(self._tool._inner))

    async def _run(self) -> Any:
        last: Any = None
        async for event in self._stream():
            if isinstance(event, ToolInterruptEvent):
                self._paused.append(event)
                raise tool_calls.ToolPaused
            if isinstance(event, ToolResultEvent):
                if event.exception is not None:
                    raise event.exception
                return _ledger_result(event.tool_result)
            self._emit(event)
            last = event
        return _ledger_result(last)

    def _result(self, value: Any) -> Any:
        if isinstance(value, dict) and value.keys() == {"status", "content"}:
            return ToolResultEvent(self._wrapped(value["status"], value["content"]))
        return ToolResultEvent(self._wrapped("success", blocks_of(value)))

    def _wrapped(self, status: str, content: list[Any]) -> Any:
        return {"toolUseId": self._tool_use["toolUseId"], "status": status, "content": content}


def _ledger_result(result: Any) -> Any:
    """A result as the ledger keeps it: its content, as a person or a probe would say it; whole where that says less."""
    if not isinstance(result, dict) or not isinstance(result.get("content"), list):
        return result
    content = content_of(result["content"])
    if result.get("status") == "success" and blocks_of(content) == result["content"]:
        return content
    return {"status": result.get("status", "success"), "content": result["content"]}


def _is_async(tool: Any) -> bool:
    fn = getattr(tool, "_tool_func", None)
    return inspect.iscoroutinefunction(fn) or inspect.isasyncgenfunction(fn)


def _is_invalid(tool: Any, tool_use: Any) -> bool:
    """Whether the tool's input does not fit its function, so that nothing would be called."""
    validate = getattr(getattr(tool, "_metadata", None), "validate_input", None)
    if validate is None:
        return False
    try:
        validate(tool_use.get("input", {}))
    except ValueError:
        return True
    return False


def answer_in(messages: Iterable[Any], repeated: Any) -> Any:
    """The newest answer, with the calls of it that were cut off, if the message that led to it is said again; else None.

    A process may have died when the message was there again and the answer was not. The calls get ids of their own: they are
    other calls in the conversation, and `key_in` says which they repeat.
    """
    history = list(messages)
    while history and _is_same(history[-1], repeated):
        history.pop()
    if len(history) < 3 or history[-2]["role"] != "assistant":
        return None
    *before, answer, results = history
    question = next(
        (message for message in reversed(before) if message["role"] == "user" and not _results_in(message)), None
    )
    cut_off = {result["toolUseId"] for result in _results_in(results) if _is_cut_off(result)}
    if not cut_off or question is None or not _is_same(question, repeated):
        return None
    content = [
        block if "toolUse" not in block else {"toolUse": {**block["toolUse"], "toolUseId": f"tooluse_{new_uid().hex()}"}}
        for block in answer["content"] if "toolUse" not in block or block["toolUse"]["toolUseId"] in cut_off
    ]  # fmt: skip
    return {"role": "assistant", "content": content}


def _is_same(message: Any, other: Any) -> bool:
    return message["role"] == other["role"] == "user" and message["content"] == other["content"]


def _results_in(message: Any) -> list[Any]:
    return [block["toolResult"] for block in message["content"] if "toolResult" in block]


def key_in(messages: Iterable[Any], call: Call) -> str | None:
    """The key of the call that this one repeats because that was cut off; None for a call of its own.

    Goes through the conversation, so that every life finds the same. A call that was cut off is open; the next one of the same
    tool and input takes it.
    """
    keys: dict[str, str] = {}
    open_keys: list[str] = []
    for message in messages:
        before = list(open_keys)
        for use in (block["toolUse"] for block in message["content"] if "toolUse" in block):
            if use["name"] != call.tool or arguments_of(use.get("input")) != call.args:
                continue
            earlier_key = before.pop(0) if before else None
            if earlier_key is not None:
                open_keys.remove(earlier_key)
            keys[use["toolUseId"]] = earlier_key or key_of_call(use["toolUseId"])
        results = [result for result in _results_in(message) if result["toolUseId"] in keys]
        open_keys += [keys[result["toolUseId"]] for result in results if _is_cut_off(result)]
    key = keys.get(call.id)
    return None if key == key_of_call(call.id) else key


def _is_cut_off(result: Any) -> bool:
    return all(result.get(name) == value for name, value in CUT_OFF.items())
