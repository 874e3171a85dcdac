"""`DurableRunner`: a run of OpenAI Agents that survives its process. Each model answer is paid for once, each tool called once.

    ask the model ─▶ the answer is in the ledger ─▶ its items are turns ─▶ each call is an effect ─▶ its result is a turn

Called again with the same key after a death, it goes through the same run: recorded answers and results come back, and what was
open is settled by the tool's rule. Its session shows it the history as it was when the run began.

Doubt that a person must settle is the framework's own pause: the run ends with `interruptions`, one for each such call. A
decision is recorded with the attempt that it is about, so that an approval calls the tool once. Keeps P2, P3, P4, P14.
"""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any

from agents import Agent, FunctionTool, RunConfig, Runner, RunResult, RunResultStreaming, RunState, function_tool  # pyright: ignore[reportMissingImports]
from agents.items import ModelResponse  # pyright: ignore[reportMissingImports]
from agents.models.interface import Model  # pyright: ignore[reportMissingImports]
from pydantic import TypeAdapter

from perdure.effects.tool import Tool, kind_of, tool
from perdure.errors import Conflict, InDoubt, Invalid, KeyReused, Waiting
from perdure.handles.aio.effects import AsyncEffect
from perdure.handles.aio.session import AsyncSession
from perdure.handles.atomic import Atomic
from perdure.handles.sync.session import Session
from perdure.model.limits import KEY_MAX_CHARS, check_name
from perdure.model.records.conversation import Call
from perdure.model.records.effects import Absent, EffectState, ToolKind
from perdure.model.storable import storable
from perdure.model.values import digest
from perdure_adapters import doubt_questions, tool_calls
from perdure_adapters.forms.openai_items import ITEMS, parse
from perdure_adapters.neutral_messages import arguments_of, keep, native_of, records_of
from perdure_adapters.openai_agents.model import DurableModel
from perdure_adapters.openai_agents.session import PerdureSession

REJECTED = "Tool execution was not approved."  # as the framework says it
_RESPONSE = TypeAdapter(ModelResponse)


class DurableRunner:
    """Runs agents so that a killed process can be continued: call `run` again with the same key."""

    @staticmethod
    async def run(
        agent: Agent[Any],
        input: Any,  # noqa: A002 - the framework's word
        *,
        session: PerdureSession,
        key: str,
        kinds: tool_calls.Kinds | None = None,
        run_config: RunConfig | None = None,
        **options: Any,
    ) -> RunResult:
        """`Runner.run`, once for a key in this session. kinds: what tools are, by name, where they do not say it themselves.

        Every function tool goes through the ledger, those of MCP servers too, and those of agents that are handed off to; a tool
        that declares nothing is unsafe. A call that a person must settle pauses the run as `needs_approval` does: the result has
        `interruptions`. Then either `perdure settle` it and run again with the same key and input, or decide in the state and run
        with that: `state.approve(item)` says that it did not happen, and it is called again; `state.reject(item)` answers the
        model that it is not, and leaves the doubt. Raises Waiting while a person is asked by a guard (run it again with the same
        key), KeyReused when the key stands for another input.
        """
        run = await _opened(session, key, kinds, run_config)
        run_input = await run.resolve_input(input)
        while True:
            try:
                result = await Runner.run(
                    run.agent(agent), run_input, session=await run.begin(), run_config=run.config, **options
                )
            except Exception as error:
                if run.trouble is not None and run.trouble is not error:
                    raise run.trouble from error
                if not run.doubts:
                    raise
            else:
                if not run.doubts:
                    return result
            run.pause()

    @staticmethod
    async def run_streamed(
        agent: Agent[Any],
        input: Any,  # noqa: A002 - the framework's word
        *,
        session: PerdureSession,
        key: str,
        kinds: tool_calls.Kinds | None = None,
        run_config: RunConfig | None = None,
        **options: Any,
    ) -> RunResultStreaming:
        """`Runner.run_streamed`, once for a key in this session: see `run`. An answer streams while it comes, and is recorded
        before its end is told; a recorded one comes whole. Doubt that shows while it streams is raised as InDoubt
        from `stream_events`; run again with the same key, it is a pause.
        """
        run = await _opened(session, key, kinds, run_config)
        run_input = await run.resolve_input(input)
        await run.pause_known()
        return Runner.run_streamed(
            run.agent(agent), run_input, session=await run.begin(), run_config=run.config, **options
        )  # fmt: skip

    @staticmethod
    def run_sync(agent: Agent[Any], input: Any, **options: Any) -> RunResult:  # noqa: A002 - as above
        """`run`, for sync code."""
        return asyncio.run(DurableRunner.run(agent, input, **options))


def durable_function_tool(
    fn: Callable[..., Any] | None = None, *, kind: Any = None, probe: Any = None, timeout: Any = None, retries: int = 0,
    lands_within: Any = "60s", fails: Any = (), **options: Any,
) -> Any:  # fmt: skip
    """`function_tool` with what the function does to the outside world (see `perdure.tool`); options are the framework's.

    An exception is doubt, unless `fails=` names it or it is `perdure.Failed`; the framework's own default would turn it into a
    result. `perdure_adapters.tool_calls.sent_key()` gives a keyed tool its key.
    """

    def declare(fn: Callable[..., Any]) -> FunctionTool:
        if isinstance(fn, Tool):
            declaration, bare = fn, fn.fn
        else:
            # The ledger calls what `tool_calls` makes of it: `keyed` needs no parameter here.
            about = {"timeout": timeout, "retries": retries, "lands_within": lands_within, "fails": fails}
            declared = "idempotent" if kind == "keyed" else kind
            declaration, bare = tool(fn, kind=declared, probe=probe, **about), fn
            declaration.kind = kind_of(kind, probe) if kind == "keyed" else declaration.kind
        wrapper = function_tool(bare, failure_error_function=None, **options)
        wrapper.perdure_tool = declaration  # type: ignore[attr-defined]
        return wrapper

    return declare if fn is None else declare(fn)


async def _opened(
    session: PerdureSession, key: str, kinds: tool_calls.Kinds | None, config: RunConfig | None
) -> _DurableRun:  # fmt: skip
    check_name(key, "key", KEY_MAX_CHARS - 40)
    return _DurableRun(await session.session(), session, key, kinds or {}, config or RunConfig())


class _DurableRun:
    """One run: how many answers it has had, which of their items its session has, and what stopped it.

    decided: what people decided about calls, by the key of the call: {"call", "attempt", "verdict", "message"}.
    """

    def __init__(
        self, session: AsyncSession, owner: PerdureSession, key: str, kinds: tool_calls.Kinds, config: RunConfig
    ) -> None:
        self.session = session
        self.owner = owner
        self.key = key
        self.kinds = kinds
        self.provider = config.model_provider
        self.answers = 0
        self.said: list[Any] = []  # items of answers that are turns already, and that the framework will add
        self.trouble: Waiting | None = None
        self.doubts: dict[str, InDoubt] = {}  # calls of this pass that a person must settle
        self.paused: set[str] = set()  # calls at which the framework pauses
        self.decided: dict[str, dict[str, Any]] = {}
        self.input: Any = None
        self._agents: dict[int, Agent[Any]] = {}
        self.config = (
            dataclasses.replace(config, model=self.model(config.model)) if config.model is not None else config
        )

    async def begin(self) -> _RunSession:
        """The run's own view of its session: history ends where the run began, in whichever life."""
        first = await self.session.said(self._name("in", 0))
        return _RunSession(self, None if first is None else first.seq)

    def _name(self, *place: object) -> str:
        return "/".join(map(str, ("openai", self.key, *place)))

    def _call_key(self, call_id: str) -> str:
        return self._name("call", self.answers - 1, call_id)

    # -- pauses ----------------------------------------------------------------------------------------------------

    async def resolve_input(self, input: Any) -> Any:  # noqa: A002 - the framework's word
        """The input of the run. A state is decisions about a pause: they are recorded, and the run begins anew with its input."""
        pauses = await self.session.get(self._name("pauses"), None) or {"input": None, "calls": {}}
        self.decided = {key: pause for key, pause in pauses["calls"].items() if pause.get("verdict")}
        self.input = input
        if isinstance(input, RunState):
            if not pauses["calls"]:
                hint = "use the session and the key of the run that paused"
                raise Invalid("no pause of this run is recorded", path="input", hint=hint)
            self.input = pauses["input"]
            self.decided = await self.owner.atomic(lambda tx: self._decide(tx, input))
        return self.input

    async def pause_known(self) -> None:
        """Pause at the calls that are known to need a person: a stream cannot be begun anew."""
        self.paused = {
            effect.key
            for effect in await self.session.effects(open=True)
            if effect.state is EffectState.IN_DOUBT and effect.record.kind is ToolKind.UNSAFE
            and effect.key.startswith(self._name("call") + "/") and not self._is_approved(effect)
        }  # fmt: skip

    def _decide(self, tx: Atomic, state: RunState[Any]) -> dict[str, dict[str, Any]]:
        """Record what a person decided about the calls of a pause."""
        session = tx.session(self.owner.session_id)
        pauses = session.get(self._name("pauses"))
        marks = state._context.tool_input if state._context is not None else None
        for item in state.get_interruptions():
            call = item.raw_item["call_id"] if isinstance(item.raw_item, dict) else item.raw_item.call_id
            about = {"tool_name": item.tool_name or "", "call_id": call, "existing_pending": item}
            approved = state._context.get_approval_status(**about) if state._context is not None else None
            for key, pause in pauses["calls"].items():
                # A state of an earlier pause is over: its decisions were about an attempt before.
                current = isinstance(marks, dict) and marks.get(key) == pause["attempt"]
                if pause["call"] == call and approved is not None and current:
                    text = None if approved or state._context is None else state._context.get_rejection_message(**about)
                    verdict = "approved" if approved else "rejected"
                    pause |= {"verdict": verdict, "message": text or REJECTED, "decided": pause["attempt"]}
        session.set(self._name("pauses"), pauses)
        return {key: pause for key, pause in pauses["calls"].items() if pause.get("verdict")}

    def _is_approved(self, effect: AsyncEffect) -> bool:
        """Whether a person said of this very attempt that it did not happen, and since its sender's end if it has ended."""
        decision = self.decided.get(effect.key, {})
        return decision.get("verdict") == "approved" and decision["decided"] == doubt_questions.attempt_in(
            effect.record
        )

    def pause(self) -> None:
        """Go through the run once more, up to the calls that were found to be in doubt. Raises InDoubt if they were known."""
        fresh = self.doubts.keys() - self.paused
        if not fresh:
            raise next(iter(self.doubts.values()))
        self.paused |= fresh
        self.doubts, self.answers, self.said, self._agents = {}, 0, [], {}

    async def _note_pause(self, key: str, call_id: str) -> str:
        """Record that the run pauses at a call; gives the attempt that a decision would be about."""
        attempts = {
            effect.key: doubt_questions.attempt_in(effect.record) for effect in await self.session.effects(open=True)
        }
        attempt = attempts.get(key, "0")

        def note(tx: Atomic) -> None:
            session = tx.session(self.owner.session_id)
            pauses = session.get(self._name("pauses"), None) or {"input": storable(_plain(self.input)), "calls": {}}
            calls = {**pauses["calls"], key: {"call": call_id, "attempt": attempt}}
            session.set(self._name("pauses"), {**pauses, "calls": calls})

        await self.owner.atomic(note)
        return attempt

    # -- agents and tools ------------------------------------------------------------------------------------------

    def agent(self, agent: Agent[Any]) -> Agent[Any]:
        """An agent whose model and function tools are durable, and so are those of the agents that it hands off to."""
        earlier = self._agents.get(id(agent))
        if earlier is not None:
            return earlier
        clone = agent.clone(
            model=self.model(agent.model), model_settings=agent.model_settings, tools=self._tools(agent.tools)
        )
        if agent.mcp_servers:
            get_mcp_tools = clone.get_mcp_tools

            async def ledgered(context: Any) -> list[Any]:
                return self._tools(await get_mcp_tools(context))

            clone.get_mcp_tools = ledgered
        self._agents[id(agent)] = clone
        clone.handoffs = [self.agent(handoff) if isinstance(handoff, Agent) else handoff for handoff in agent.handoffs]
        return clone

    def model(self, model: str | Model | None) -> Model:
        """A model whose answers are kept."""
        return DurableModel(self.answer, model if isinstance(model, Model) else self.provider.get_model(model))

    def _tools(self, tools: list[Any]) -> list[Any]:
        return [self._tool(item) if isinstance(item, FunctionTool) else item for item in tools]

    def _tool(self, original: FunctionTool) -> FunctionTool:
        declared = tool_calls.declared_as(original.name, getattr(original, "perdure_tool", None), self.kinds)

        async def invoke(context: Any, arguments: str) -> Any:
            call = Call(context.tool_call_id, original.name, arguments_of(arguments))
            key = self._call_key(call.id)
            if self.decided.get(key, {}).get("verdict") == "rejected":
                return self.decided[key]["message"]

            async def on() -> Any:
                return _plain(await original.on_invoke_tool(context, arguments))

            async def act() -> Any:
                sending = partial(tool_calls.until_returned, on, in_thread=_is_in_thread(original))
                return await tool_calls.act(self.session, call, declared, sending, key=key)

            try:
                return await self._act_as_approved(act, key)
            except InDoubt as doubt:  # told to the model by nobody: the pass ends before it is asked
                self.doubts[key] = doubt
                return str(doubt)
            except Waiting as trouble:
                self.trouble = self.trouble or trouble
                raise

        async def asks(context: Any, params: Any, call_id: str) -> bool:
            key, own = self._call_key(call_id), original.needs_approval
            is_needed = key in self.paused
            if not is_needed and key not in self.decided:
                is_needed = own(context, params, call_id) if callable(own) else own
                is_needed = await is_needed if inspect.isawaitable(is_needed) else is_needed
            if is_needed:
                marks = context.tool_input if isinstance(context.tool_input, _PauseMarks) else _PauseMarks()
                context.tool_input = _PauseMarks({**marks, key: await self._note_pause(key, call_id)})
            return bool(is_needed)

        # A policy that is a function would also pause for arguments that are no JSON: only where one is needed.
        needs = asks if self.paused or self.decided or original.needs_approval is not False else False
        return dataclasses.replace(original, on_invoke_tool=invoke, needs_approval=needs)

    async def _act_as_approved(self, act: Callable[[], Awaitable[Any]], key: str) -> Any:
        """Act. A person who approves a call in doubt says that it did not happen; of this attempt, and of no later one.

        The approval is looked at after the ledger has looked at the sender: one from before its end is none after that.
        """
        try:
            return await act()
        except InDoubt:
            for effect in await self.session.effects(open=True):
                if effect.key == key and self._is_approved(effect):
                    with suppress(Conflict):  # somebody else settled it, or its sender lives: the next look says so
                        await effect.settle(Absent())
                    return await act()
            raise

    # -- answers ---------------------------------------------------------------------------------------------------

    async def answer(self, input: Any, ask: Callable[[], Awaitable[ModelResponse]]) -> ModelResponse:  # noqa: A002
        """The model's next answer: the one that is kept, or a new one. Its items are turns before anything is done about them."""
        if self.doubts:
            raise next(iter(self.doubts.values()))
        number = self.answers

        async def model(number: int, asked: str) -> Any:  # noqa: ARG001 - the ledger keeps them
            return _RESPONSE.dump_python(await ask(), mode="json", exclude_unset=True)

        try:
            record = await self.session.ask_model(
                model, number, _digest(input), key=self._name("model", number), name="openai.model"
            )
        except KeyReused as error:
            error.hint = "the run was begun with other input: use a new key for a new request"
            raise
        self.answers = number + 1  # when it came: a framework that tries again asks for the same answer
        response = _RESPONSE.validate_python(record)
        items = response.to_input_items()
        await self.owner.atomic(lambda tx: self._say(tx, number, items, response))
        self.said += map(_bare, items)
        return response

    def _say(self, tx: Atomic, number: int, items: list[Any], response: ModelResponse) -> None:
        session = tx.session(self.owner.session_id)
        for at, item in enumerate(items):
            usage = _usage(response) if item is items[-1] else None
            keep(session, ITEMS, item, key=self._name(number, at), usage=usage)

    def add(self, tx: Atomic, items: list[Any], first: int) -> int:
        """Add what the framework gives, but for what stands already; returns how many are not the model's.

        All of those are counted, so that an item has the same number in every life.
        """
        session, number = tx.session(self.owner.session_id), first
        if self.doubts:
            return 0
        waiting = list(self.said)
        for item in items:
            if _bare(item) in waiting:
                waiting.remove(_bare(item))
                continue
            if not _is_answered(session, item):
                keep(session, ITEMS, item, key=self._name("in", number))
            number += 1
        return number - first


class _PauseMarks(dict[str, str]):
    """The attempts that a pause is about, by the key of the call. It travels in the state, so that each state is used once."""


def _is_in_thread(original: FunctionTool) -> bool:
    """Whether the framework runs the tool's function in a thread: so it marks tools of sync functions."""
    return getattr(original.on_invoke_tool, "__agents_sync_function_tool__", False)


def _is_answered(session: Session, item: Any) -> bool:
    """Whether the ledger has given this result; one that the framework words otherwise takes the place of it."""
    if not isinstance(item, dict) or item.get("type") != "function_call_output":
        return False
    message = parse(item)
    turn = session.result_of(message.call or "")
    if turn is None:
        return False
    if records_of(ITEMS, turn) != [item]:
        session.retract(turn, because="as the framework words it")
        session.result(message.call or "", message.content, native=native_of(ITEMS, item, message))
    return True


def _bare(item: Any) -> Any:
    """An item without fields that say nothing: the framework writes them, or not, depending on where the item came from."""
    if isinstance(item, dict):
        return {name: _bare(value) for name, value in item.items() if value is not None}
    return [_bare(part) for part in item] if isinstance(item, list) else item


def _usage(response: ModelResponse) -> dict[str, Any]:
    usage = response.usage
    names = ("requests", "input_tokens", "output_tokens", "total_tokens")
    return {name: getattr(usage, name) for name in names if isinstance(getattr(usage, name, None), int)}


def _digest(input: Any) -> str:  # noqa: A002 - the framework's word
    try:
        return digest(input, "input").hex()
    except Invalid:
        return digest(repr(input), "input").hex()


def _plain(value: Any) -> Any:
    """A tool's output as the ledger keeps it."""
    if isinstance(value, list):
        return [_plain(part) for part in value]
    dump = getattr(value, "model_dump", None)
    return dump(mode="json", exclude_unset=True) if callable(dump) else value


class _RunSession:
    """The session as one run sees it."""

    def __init__(self, run: _DurableRun, first: int | None) -> None:
        self._run = run
        self._first = first
        self._added = 0
        self.session_id = run.owner.session_id
        self.session_settings = run.owner.session_settings

    async def get_items(self, limit: int | None = None) -> list[Any]:
        """The history before this run."""
        return await self._run.owner.items_before(limit, self._first)

    async def add_items(self, items: list[Any]) -> None:
        """Add what is new of it."""
        first = self._added
        self._added += await self._run.owner.atomic(lambda tx: self._run.add(tx, items, first))
        for item in map(_bare, items):
            if item in self._run.said:
                self._run.said.remove(item)

    async def pop_item(self) -> Any:
        """As of the session."""
        return await self._run.owner.pop_item()

    async def clear_session(self) -> None:
        """As of the session."""
        await self._run.owner.clear_session()
