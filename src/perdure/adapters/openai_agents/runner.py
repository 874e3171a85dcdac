"""`DurableRunner`: a run of OpenAI Agents that survives its process. Each model answer is paid for once, each tool called once.

    ask the model ─▶ the answer is in the ledger ─▶ its items are turns ─▶ each call is an effect ─▶ its result is a turn

Called again with the same key after a death, it goes through the same run: recorded answers and results come back, and what was
open is settled by the tool's rule. Its session shows it the history as it was when the run began. Keeps P2, P3, P4, P14.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from agents import Agent, FunctionTool, RunConfig, Runner, RunResult, function_tool  # pyright: ignore[reportMissingImports]
from agents.items import ModelResponse  # pyright: ignore[reportMissingImports]
from agents.models.interface import Model  # pyright: ignore[reportMissingImports]
from pydantic import TypeAdapter

from perdure.adapters import outward
from perdure.adapters.conversing import arguments_of, keep, native_of, records_of
from perdure.adapters.forms.openai_items import ITEMS, parse
from perdure.adapters.openai_agents.session import PerdureSession
from perdure.effects.tool import Tool, tool
from perdure.errors import InDoubt, Invalid, KeyReused, Refused, Waiting
from perdure.handles.aio.session import AsyncSession
from perdure.handles.atomic import Atomic
from perdure.handles.sync.session import Session
from perdure.model.limits import KEY_MAX_CHARS, check_name
from perdure.model.records.conversation import Call
from perdure.model.values import digest

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
        kinds: outward.Kinds | None = None,
        run_config: RunConfig | None = None,
        **options: Any,
    ) -> RunResult:
        """`Runner.run`, once for a key in this session. kinds: what tools are, by name, where they do not say it themselves.

        Every function tool goes through the ledger, and those of agents that are handed off to; a tool that declares nothing is
        unsafe. Raises InDoubt when a person must settle a call (`perdure settle`), and Waiting while one is asked: then call it
        again with the same key. KeyReused when the key stands for another input.
        """
        check_name(key, "key", KEY_MAX_CHARS - 40)
        run = _DurableRun(await session.session(), session, key, kinds or {}, run_config or RunConfig())
        try:
            return await Runner.run(
                run.agent(agent), input, session=await run.begin(), run_config=run.config, **options
            )  # fmt: skip
        except Exception as error:
            if run.trouble is not None and run.trouble is not error:
                raise run.trouble from error
            raise

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
    result. `perdure.adapters.outward.sent_key()` gives a keyed tool its key.
    """

    def declare(found: Callable[..., Any]) -> FunctionTool:
        if isinstance(found, Tool):
            said, bare = found, found.fn
        else:
            # The ledger calls what `outward` makes of it: `keyed` needs no parameter here.
            about = {"timeout": timeout, "retries": retries, "lands_within": lands_within, "fails": fails}
            declared = "idempotent" if kind == "keyed" else kind
            said, bare = tool(found, kind=declared, probe=probe, **about), found
            said.kind = outward.kind_of(kind, probe) if kind == "keyed" else said.kind
        made = function_tool(bare, failure_error_function=None, **options)
        made.perdure_tool = said  # type: ignore[attr-defined]
        return made

    return declare if fn is None else declare(fn)


class _DurableRun:
    """One run: how many answers it has had, which of their items its session has, and what stopped it."""

    def __init__(
        self, session: AsyncSession, owner: PerdureSession, key: str, kinds: outward.Kinds, config: RunConfig
    ) -> None:
        self.session = session
        self.owner = owner
        self.key = key
        self.kinds = kinds
        self.provider = config.model_provider
        self.answers = 0
        self.said: list[Any] = []  # items of answers that are turns already, and that the framework will add
        self.trouble: InDoubt | Waiting | None = None
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

    # -- agents and tools ------------------------------------------------------------------------------------------

    def agent(self, agent: Agent[Any]) -> Agent[Any]:
        """An agent whose model and function tools are durable, and so are those of the agents that it hands off to."""
        known = self._agents.get(id(agent))
        if known is not None:
            return known
        if agent.mcp_servers:
            hint = "call the server in a function tool of your own"
            raise Refused(
                f"the tools of MCP servers of {agent.name!r} would bypass the ledger", path="agent", hint=hint
            )
        tools = [self._tool(each) if isinstance(each, FunctionTool) else each for each in agent.tools]
        made = agent.clone(model=self.model(agent.model), model_settings=agent.model_settings, tools=tools)
        self._agents[id(agent)] = made
        made.handoffs = [self.agent(each) if isinstance(each, Agent) else each for each in agent.handoffs]
        return made

    def model(self, model: str | Model | None) -> Model:
        """A model whose answers are kept."""
        return _DurableModel(self, model if isinstance(model, Model) else self.provider.get_model(model))

    def _tool(self, found: FunctionTool) -> FunctionTool:
        declared = outward.declared_as(found.name, getattr(found, "perdure_tool", None), self.kinds)

        async def invoke(context: Any, arguments: str) -> Any:
            call = Call(context.tool_call_id, found.name, arguments_of(arguments))
            key = self._name("call", self.answers - 1, call.id)

            async def on() -> Any:
                return _plain(await found.on_invoke_tool(context, arguments))

            try:
                return await outward.act(self.session, call, declared, on, key=key)
            except (InDoubt, Waiting) as trouble:
                self.trouble = self.trouble or trouble
                raise

        return dataclasses.replace(found, on_invoke_tool=invoke)

    # -- answers ---------------------------------------------------------------------------------------------------

    async def answer(self, input: Any, ask: Callable[[], Awaitable[ModelResponse]]) -> ModelResponse:  # noqa: A002
        """The model's next answer: the one that is kept, or a new one. Its items are turns before anything is done about them."""
        number, self.answers = self.answers, self.answers + 1

        async def model(number: int, asked: str) -> Any:  # noqa: ARG001 - the ledger keeps them
            return _RESPONSE.dump_python(await ask(), mode="json", exclude_unset=True)

        asking = tool(model, name="openai.model", kind="idempotent", known=False)
        try:
            kept = await self.session.act(asking, number, _digest(input), key=self._name("model", number))
        except KeyReused as error:
            error.hint = "the run was begun with other input: use a new key for a new request"
            raise
        response = _RESPONSE.validate_python(kept)
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
        """Add what the framework gives, but for what stands already; returns how many were new."""
        session, added = tx.session(self.owner.session_id), 0
        waiting = list(self.said)
        for item in items:
            if _bare(item) in waiting:
                waiting.remove(_bare(item))
            elif not _is_answered(session, item):
                keep(session, ITEMS, item, key=self._name("in", first + added))
                added += 1
        return added


def _is_answered(session: Session, item: Any) -> bool:
    """Whether the ledger has given this result; one that the framework words otherwise takes the place of it."""
    if not isinstance(item, dict) or item.get("type") != "function_call_output":
        return False
    message = parse(item)
    given = session.result_of(message.call or "")
    if given is None:
        return False
    if records_of(ITEMS, given) != [item]:
        session.retract(given, because="as the framework words it")
        session.result(message.call or "", message.content, native=native_of(ITEMS, item, message))
    return True


def _bare(item: Any) -> Any:
    """An item without fields that say nothing: the framework writes them, or not, depending on where the item came from."""
    if isinstance(item, dict):
        return {name: _bare(value) for name, value in item.items() if value is not None}
    return [_bare(each) for each in item] if isinstance(item, list) else item


def _usage(response: ModelResponse) -> dict[str, Any]:
    said = response.usage
    names = ("requests", "input_tokens", "output_tokens", "total_tokens")
    return {name: getattr(said, name) for name in names if isinstance(getattr(said, name, None), int)}


def _digest(input: Any) -> str:  # noqa: A002 - the framework's word
    try:
        return digest(input, "input").hex()
    except Invalid:
        return digest(repr(input), "input").hex()


def _plain(value: Any) -> Any:
    """A tool's output as the ledger keeps it."""
    if isinstance(value, list):
        return [_plain(each) for each in value]
    dump = getattr(value, "model_dump", None)
    return dump(mode="json", exclude_unset=True) if callable(dump) else value


class _DurableModel(Model):
    """A model whose answers are asked for once."""

    def __init__(self, run: _DurableRun, inner: Model) -> None:
        self._run = run
        self._inner = inner

    async def get_response(self, system_instructions: Any, input: Any, *args: Any, **kwargs: Any) -> ModelResponse:  # noqa: A002
        """The kept answer, or a new one."""
        return await self._run.answer(
            input, lambda: self._inner.get_response(system_instructions, input, *args, **kwargs)
        )

    def stream_response(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:  # noqa: ARG002 - refused
        """Refused: half an answer cannot be kept."""
        raise Refused("a durable run does not stream", path="run", hint="DurableRunner.run gives the whole answer")

    def get_retry_advice(self, request: Any) -> Any:
        """The inner model's."""
        return self._inner.get_retry_advice(request)

    async def close(self) -> None:
        """Close the inner model."""
        await self._inner.close()


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
