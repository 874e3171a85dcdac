"""Tool calls of LangGraph through the ledger: once, whatever crashes. For `ToolNode`, and for agents of `langchain`.

The barrier: with LangGraph's default durability a tool may run before the checkpoint that asks for it is stored. Killed there,
the answer of the model is gone, another one is asked for, and its call has another id: no key would help. So a call is sent only
when every checkpoint that its task began from is durable (P2). With durability="exit" that is at the end, so it is refused.

The effect's key is found in the conversation (`call_keys`). Doubt that a person must settle becomes LangGraph's own pause
(`questions`). It ends with `perdure settle`, or with a verdict that the graph gets. Keeps P2, P3, P4.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from langchain_core.messages import ToolMessage
from langgraph.errors import GraphBubbleUp
from langgraph.types import Command

from perdure.effects.tool import Tool
from perdure.errors import Conflict, Failed, InDoubt, Refused, TimedOut, Waiting
from perdure.handles.aio.store import AsyncStore
from perdure.handles.sync.store import Store
from perdure.model.records.conversation import Call
from perdure.model.records.effects import Absent, Verdict
from perdure_adapters import doubt_questions, tool_calls
from perdure_adapters.langgraph.answers import GivenAnswer, ModelAnswers
from perdure_adapters.langgraph.call_keys import key_in
from perdure_adapters.langgraph.configuration import CHECKPOINT_MAP, CHECKPOINTER, DURABILITY
from perdure_adapters.langgraph.layout import dump, load
from perdure_adapters.langgraph.questions import Called, Questions
from perdure_adapters.langgraph.saver import PerdureSaver
from perdure_adapters.langgraph.serde import StrictSerializer
from perdure_adapters.shared_store import SharedStore

BARRIER_SECONDS = 30.0


class ToolLedger:
    """The wrappers of `ToolNode` and of middleware: `ToolNode(tools, **ledger(store))`."""

    def __init__(self, store: Any, kinds: tool_calls.Kinds | None, barrier_seconds: float, serde: Any) -> None:
        self._opened = SharedStore(store)
        self._kinds = kinds
        self._seconds = barrier_seconds
        self._serde = serde
        self._questions = Questions()
        self.answers = ModelAnswers(self._opened, serde, barrier_seconds)
        self.barrier = True  # only a control of our own tests takes it away

    # `**ledger(store)` gives both wrappers by the names that ToolNode has for them.

    def keys(self) -> Iterator[str]:
        """The names of the wrappers."""
        return iter(("wrap_tool_call", "awrap_tool_call"))

    def __getitem__(self, name: str) -> Any:
        return {"wrap_tool_call": self.wrap_tool_call, "awrap_tool_call": self.awrap_tool_call}[name]

    def __call__(self, request: Any, execute: Callable[[Any], Any]) -> Any:
        """See `wrap_tool_call`: `ToolNode(tools, wrap_tool_call=ledger(store))`."""
        return self.wrap_tool_call(request, execute)

    def wrap_tool_call(self, request: Any, execute: Callable[[Any], Any]) -> Any:
        """Carry out a tool call once: its stored result if it has one.

        Raises Refused where a call could be sent before it is durable, TimedOut when that takes too long, KeyReused when the call
        had other arguments before; pauses the graph when a person must say what happened.
        """
        called = self._called(request)
        if called is None:
            return execute(request)
        if self.barrier:
            _await(called)

        def invoke() -> Any:
            with _noting(called):
                return self._record(execute(request))

        call_tool = tool_calls.made_for(called.call, called.declared, invoke)
        session = self.sync().session(called.thread)
        steps = self._steps(called)
        step = next(steps)
        while not isinstance(step, LastStep):
            try:
                if isinstance(step, ActStep):
                    came = session.act(call_tool, called.call.args, key=called.key)
                else:
                    came = step.does()
            except BaseException as error:  # noqa: BLE001 - the steps decide
                step = steps.throw(error)
            else:
                step = steps.send(came)
        return step.result

    async def awrap_tool_call(self, request: Any, execute: Callable[[Any], Awaitable[Any]]) -> Any:
        """See `wrap_tool_call`."""
        called = self._called(request)
        if called is None:
            return await execute(request)
        if self.barrier:
            await asyncio.to_thread(_await, called)

        async def invoke() -> Any:
            with _noting(called):
                return self._record(await execute(request))

        call_tool = tool_calls.made_for(called.call, called.declared, invoke)
        session = await self.aio().session(called.thread)
        steps = self._steps(called)
        step = next(steps)
        while not isinstance(step, LastStep):
            try:
                if isinstance(step, ActStep):
                    came = await session.act(call_tool, called.call.args, key=called.key)
                else:
                    came = await asyncio.to_thread(step.does)
            except BaseException as error:  # noqa: BLE001 - the steps decide
                step = steps.throw(error)
            else:
                step = steps.send(came)
        return step.result

    def ask_model(self, messages: list[Any], ask: Callable[[list[Any]], Any]) -> Any:
        """Ask a model in a node of your own: `ledger.ask_model(state["messages"], model.invoke)`. The answer is paid once.

        Gives the recorded answer if there is one, as after a crash, or when a message is sent again. Else `ask` is called with
        messages that providers accept, and its answer is recorded.
        """
        return self.answers.ask(messages, lambda prompt: GivenAnswer([ask(prompt)])).messages[0]

    async def aask_model(self, messages: list[Any], ask: Callable[[list[Any]], Awaitable[Any]]) -> Any:
        """See `ask_model`: `await ledger.aask_model(state["messages"], model.ainvoke)`."""

        async def answer(prompt: list[Any]) -> GivenAnswer:
            return GivenAnswer([await ask(prompt)])

        return (await self.answers.aask(messages, answer)).messages[0]

    def _steps(self, called: Called) -> Generator[ActStep | StoreStep | LastStep, Any, None]:
        """The steps of a call, in no colour: act; in doubt ask a person, settle and act again."""
        while True:
            try:
                result = self._result(called, (yield ActStep()))
            except Failed as no:
                result = _refusal(called, no)
            except tool_calls.ToolPaused:
                yield StoreStep(partial(self._let_go, called))
                raise called.paused.pop() from None
            except (InDoubt, Waiting) as doubt:
                verdict = yield StoreStep(partial(self._questions.ask, self.sync(), called, doubt))
                if verdict is not None and "effect" in doubt.facts:
                    with suppress(Conflict):  # somebody else settled it, or its sender lives: the next look says so
                        yield StoreStep(partial(self._settle, doubt, verdict))
                continue
            break
        yield LastStep(result)

    # -- what is called ------------------------------------------------------------------------------------------

    def _called(self, request: Any) -> Called | None:
        """The call of a request; None for one that the ledger is not needed for."""
        call = request.tool_call
        fn = getattr(request.tool, "func", None) or getattr(request.tool, "coroutine", None)
        declared = tool_calls.declared_as(
            call["name"], fn, {**(self._kinds or {}), **_kind_in_metadata(request.tool, call["name"])}
        )
        if tool_calls.reads_only(declared):
            return None
        place = (getattr(request.runtime, "config", None) or {}).get("configurable") or {}
        if place.get(DURABILITY) == "exit":
            raise Refused(
                f"{call['name']} could run before anything is durable: durability='exit' stores the thread only at the end",
                path="durability", hint="use durability='sync' or 'async', or declare the tool as read",
            )  # fmt: skip
        saver, thread = place.get(CHECKPOINTER), place.get("thread_id")
        if not isinstance(saver, PerdureSaver) or thread is None:
            raise Refused(
                f"{call['name']} needs a thread whose checkpoints are kept in Perdure", path="checkpointer",
                hint="compile the graph with checkpointer=PerdureSaver(…), and invoke it with a thread_id",
            )  # fmt: skip
        ledger_call = Call(call["id"], call["name"], dict(call["args"]))
        return Called(
            call=ledger_call, declared=declared, thread=str(thread), key=key_in(request.state, ledger_call.id), saver=saver,
            checkpoints=dict(place.get(CHECKPOINT_MAP) or {}), seconds=self._seconds, paused=[],
        )  # fmt: skip

    def sync(self) -> Store:
        """The store, for sync code."""
        return self._opened.sync

    def aio(self) -> AsyncStore:
        """The store, for async code."""
        return self._opened.aio

    def _settle(self, doubt: InDoubt | Waiting, verdict: Verdict) -> None:
        """Say what became of an effect, unless somebody has. Conflict for Absent while its sender may still send it."""
        effect = self.sync().effect(doubt.facts["effect"])
        if not effect.settled:
            effect.settle(verdict)

    def _let_go(self, called: Called) -> None:
        """The tool has paused the graph itself: it is called again, from its beginning."""
        kind = called.declared.kind if isinstance(called.declared, Tool) else called.declared
        session = self.sync().session(called.thread)
        effect = session.begin(called.call.tool, {"arguments": called.call.args}, kind=kind, key=called.key)
        if doubt_questions.is_over(effect.record):
            effect.settle(Absent())

    # -- what comes of it ----------------------------------------------------------------------------------------

    def _record(self, result: Any) -> Any:
        """The result of a call as the ledger keeps it: what people read of it, and LangGraph's own bytes."""
        kind, data = dump(self._serde, result, "tool result")
        content = result.content if isinstance(result, ToolMessage) else None
        status = (
            result.status if isinstance(result, ToolMessage) else "command" if isinstance(result, Command) else "value"
        )
        return {"content": content, "status": status, "type": kind, "native": data}

    def _result(self, called: Called, record: Any) -> Any:
        """The result as LangGraph gets it. One that a person gave, or a probe, is the content of a message."""
        if isinstance(record, dict) and {"type", "native"} <= record.keys():
            return _answering(load(self._serde, record["type"], record["native"], "tool result"), called.call.id)
        content = record if isinstance(record, str) else json.dumps(record, default=str)
        return ToolMessage(content=content, tool_call_id=called.call.id, name=called.call.tool)


class ActStep(NamedTuple):
    """Act, and give the result."""


class StoreStep(NamedTuple):
    """Ask or tell the store something, in sync code, and give what it says."""

    does: Callable[[], Any]


class LastStep(NamedTuple):
    """The end: what LangGraph gets."""

    result: Any


def ledger(
    store: Any, *, kinds: tool_calls.Kinds | None = None, allow: Any = (), barrier_seconds: float = BARRIER_SECONDS
) -> ToolLedger:
    """Wrappers that send tool calls through the ledger of a store: `ToolNode(tools, **ledger(store))`.

    store: a URL, or an open store; that of the `PerdureSaver`, as a rule. kinds: what a tool is, by its name: "read",
    "idempotent", … or a `perdure.tool`; else what `@perdure.tool` on its function says, or unsafe. allow: as for the saver,
    classes of your own in what tools give. barrier_seconds: how long a call waits for its checkpoint.
    """
    return ToolLedger(store, kinds, barrier_seconds, StrictSerializer(allow))


@contextmanager
def _noting(called: Called) -> Iterator[None]:
    """Note that the tool itself pauses the graph."""
    try:
        yield
    except GraphBubbleUp as pause:
        called.paused.append(pause)
        raise tool_calls.ToolPaused from pause


def _await(called: Called) -> None:
    """Wait until every checkpoint that the task began from is durable."""
    late = called.saver.await_durable(called.thread, called.checkpoints, called.seconds)
    if late is not None:
        raise TimedOut(
            f"{called.call.tool} was not called: its checkpoint {late} is not stored after {called.seconds:g} s",
            path="checkpoint",
            hint="is the store away, or is this a subgraph that was compiled with checkpointer=False?",
        )


def _kind_in_metadata(tool: Any, name: str) -> dict[str, str]:
    """The kind that a tool of LangChain says in its metadata: {"perdure": "read"}."""
    kind = (getattr(tool, "metadata", None) or {}).get("perdure")
    return {name: kind} if isinstance(kind, str) else {}


def _answering(result: Any, call_id: str) -> Any:
    """A result of this call. A call that repeats another one has an id of its own, and gets the result of that one."""
    if isinstance(result, ToolMessage):
        same = result.tool_call_id == call_id
        return result if same else result.model_copy(update={"tool_call_id": call_id})
    if isinstance(result, Command):
        return replace(result, update=_answering(result.update, call_id))
    if isinstance(result, dict):
        return {name: _answering(part, call_id) for name, part in result.items()}
    return [_answering(part, call_id) for part in result] if isinstance(result, list) else result


def _refusal(called: Called, no: Failed) -> ToolMessage:
    """The message to the model when it is known that nothing happened."""
    return ToolMessage(content=no.message, tool_call_id=called.call.id, name=called.call.tool, status="error")
