"""`PerdureDurability`: a run of a Pydantic AI agent inside a run of Perdure. Model answers are steps, tool calls are effects.

    agent.run ─▶ model request ─▶ a step: asked once ─▶ tool call ─▶ an effect: sent once ─▶ the next request …

The framework hands every operation to `execute`. Each gets a branch of its own, named by the agent's run, the operation and, for
a tool, the id of its call: so parallel calls find their places again in whatever order they come. Inside a step or a tool the
capability does nothing, and outside of `within(run)` the agent is an ordinary one. Keeps P2, P3, P4.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime
from typing import Any, Literal, TypeAlias

from pydantic_ai import RunContext
from pydantic_ai.durable_exec import (
    JSON_CODEC,
    BaseDurabilityCapability,
    DurabilityEngineSpec,
    JournalCallableOperationBackend,
    RoleBasedOperationConfig,
    ToolsetCallToolId,
    conversation_id_from_run_id,
)
from pydantic_ai.models import Model
from pydantic_ai.tools import AgentDepsT
from pydantic_core import to_jsonable_python

from perdure.effects.tool import Tool, kind_of
from perdure.errors import Invalid
from perdure.handles.aio.run import AsyncRun
from perdure.model.limits import NAME_MAX_CHARS
from perdure.model.records.conversation import Call
from perdure.model.records.effects import ToolKind
from perdure.model.values import digest
from perdure.runtime import current_branch
from perdure_adapters import tool_calls
from perdure_adapters.forms.pydantic_messages import storable_json

METADATA = "perdure"  # the key of a tool's metadata that says its kind
ENVELOPE = "pydantic_ai"  # the key of a result that is more than a value: a retry, a deferral, content with files
FILES = "content_file_digests"  # of a result that holds files; the framework writes it, empty, for any result that is no text
Declared: TypeAlias = "Tool | ToolKind"


class _Inside:
    """A run of Perdure that agents of this context belong to."""

    __slots__ = ("base", "counts", "run")

    def __init__(self, run: AsyncRun) -> None:
        self.run = run
        self.base = run.branch(f"pydantic-ai {run.uuid()}")
        self.counts: Counter[str] = Counter()

    def branch(self, name: str) -> AsyncRun:
        """The line of work of one operation. The framework's own order of equal ones is the order of a conversation."""
        self.counts[name] += 1
        return self.base.branch(_short(f"{name} #{self.counts[name]}"))


_INSIDE: ContextVar[_Inside | None] = ContextVar("perdure_pydantic_ai", default=None)


@contextmanager
def within(run: AsyncRun) -> Iterator[None]:
    """`with within(run): …`: agents with `PerdureDurability` that run inside are recorded in this run.

    Raises Invalid for anything but the run of an async agent.
    """
    if not isinstance(run, AsyncRun):
        hint = "declare the agent with `async def`: @perdure.agent async def support(run, …)"
        raise Invalid(f"expected the run of an async agent, got {type(run).__name__}", path="run", hint=hint)
    token = _INSIDE.set(_Inside(run))
    try:
        yield
    finally:
        _INSIDE.reset(token)


class PerdureDurability(BaseDurabilityCapability[AgentDepsT]):
    """A capability of an agent: `Agent(…, name="support", capabilities=[PerdureDurability()])`, run `within(run)`.

    kinds: what tools do to the outside world, by name, where they do not say it themselves: by `metadata={"perdure": "read"}`,
    or by being a `@perdure.tool`. A tool that says nothing is unsafe. Tools that only read are steps.
    models, name: as for every capability of this kind.
    """

    engine_spec = DurabilityEngineSpec(
        engine_name="Perdure",
        durable_unit_noun="step",
        durable_container_noun="run",
        codec=JSON_CODEC,
        tool_config_key=METADATA,
    )

    def __init__(
        self,
        *,
        kinds: tool_calls.Kinds | None = None,
        models: Mapping[str, Model] | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(models=models, name=name)
        self._kinds = dict(kinds or {})
        self._backend: _Backend | None = None

    def _bind_to_agent(self, agent: Any) -> None:
        self._backend = _Backend(self.name, self.default_model_id, self._kinds)
        self._register_toolsets(agent)

    @property
    def in_durable_context(self) -> bool:
        """Whether the running code belongs to a run, and is in none of its steps and tools."""
        return _INSIDE.get() is not None and not current_branch.is_inside_a_step()

    def get_durable_operation_backend(self) -> _Backend:
        """The road of operations into the run."""
        assert self._backend is not None, "bound to an agent"
        return self._backend

    def get_default_run_id(self) -> str | None:
        """An id that every replay finds again."""
        inside = _INSIDE.get()
        return str(inside.run.uuid()) if inside is not None and self.in_durable_context else None

    def get_default_conversation_id(self, run_id: str) -> str | None:
        """The id that belongs to the run's id."""
        return conversation_id_from_run_id(run_id) if self.in_durable_context else None

    async def get_run_start_time(self, run_id: str) -> datetime | None:  # noqa: ARG002 - one start for each place
        """The time when the agent's run first began, for its `timeout=`."""
        inside = _INSIDE.get()
        return await inside.run.now() if inside is not None and self.in_durable_context else None


class _Backend(JournalCallableOperationBackend[Declared]):
    """Operations of the framework as steps and effects."""

    def __init__(self, agent_name: str, default_model_id: str | None, kinds: tool_calls.Kinds) -> None:
        self._kinds = kinds
        reads = ToolKind.READ
        config = RoleBasedOperationConfig[Declared](
            model=reads, event=reads, capability=reads, tool=ToolKind.UNSAFE, resolve_tool=self._declared
        )
        super().__init__(agent_name=agent_name, default_model_id=default_model_id, config=config)

    def _declared(self, operation_id: Any, tool: Any, tool_name: str) -> Declared | Literal[False]:
        """The declaration of a tool. Discovery and the validation of arguments only read."""
        if not isinstance(operation_id, ToolsetCallToolId):
            return ToolKind.READ
        if tool is None:
            return ToolKind.UNSAFE
        declaration = (tool.tool_def.metadata or {}).get(METADATA)
        declaration = declaration.get("kind") if isinstance(declaration, Mapping) else declaration
        path = f"tool {tool_name}: metadata.{METADATA}"
        if declaration is None:
            return tool_calls.declared_as(tool_name, _function_of(tool), self._kinds)
        if isinstance(declaration, Tool):
            return declaration
        if not isinstance(declaration, str):
            raise Invalid(f"expected a kind, got {declaration!r}", path=path, hint='metadata={"perdure": "read"}')
        return kind_of(declaration)

    async def execute(
        self,
        *,
        operation_id: Any,
        name: str,
        body: Callable[[], Awaitable[object]],
        cache_key: tuple[object, ...],
        config: Declared,
    ) -> object:
        """Do one operation at its place of the run, or give what it gave."""
        inside = _INSIDE.get()
        if inside is None or current_branch.is_inside_a_step():
            return await body()

        async def storable_body() -> Any:
            return storable_json(await body())

        context = next((part for part in cache_key if isinstance(part, RunContext)), None)
        agent_run = (context.run_id if context is not None else None) or ""
        if isinstance(operation_id, ToolsetCallToolId):
            answer = await self._call(inside, agent_run, context, cache_key, config, storable_body)
        else:
            storable_body.__name__ = storable_body.__qualname__ = _short(name)
            answer = await inside.branch(f"{agent_run} {name}").step(storable_body)
        return json.loads(answer) if isinstance(answer, bytes) else answer

    async def _call(
        self, inside: _Inside, agent_run: str, context: Any, cache_key: tuple[Any, ...], declared: Declared, invoke: Any
    ) -> Any:  # fmt: skip
        tool_name, arguments = cache_key[0], cache_key[1]
        call = Call(context.tool_call_id or "", tool_name, _plain(arguments))
        branch = inside.branch(f"{agent_run} {call.id}")
        if tool_calls.reads_only(declared):
            invoke.__name__ = invoke.__qualname__ = _short(tool_name)
            return await branch.step(invoke)

        async def bare() -> Any:
            return _bare(await invoke())

        result = await branch.act(tool_calls.made_for(call, declared, bare), call.args)
        return result[ENVELOPE] if _is_enveloped(result) else {"kind": "tool_return", "result": result}


def _function_of(tool: Any) -> Any:
    """The user's function of a function tool."""
    return getattr(getattr(getattr(tool, "call_func", None), "__self__", None), "function", None)


def _plain(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Validated arguments as the ledger keeps them: models and dates as JSON, other objects by their type."""
    encoded = to_jsonable_python(
        dict(arguments), bytes_mode="base64", inf_nan_mode="strings", fallback=lambda value: type(value).__qualname__
    )
    plain = storable_json(encoded)
    return plain if isinstance(plain, dict) else {"json": plain}


def _bare(payload: Any) -> Any:
    """The result of a tool as people, probes and the ledger know it, without the framework's envelope."""
    plain = isinstance(payload, dict) and payload.keys() <= {"kind", "result", FILES} and not payload.get(FILES)
    if plain and payload["kind"] == "tool_return" and "result" in payload:
        result = payload["result"]
        if not isinstance(result, bytes) and not _is_enveloped(result):
            return result
    return {ENVELOPE: payload}


def _is_enveloped(value: Any) -> bool:
    return isinstance(value, dict) and value.keys() == {ENVELOPE}


def _short(name: str) -> str:
    """A name that is not too long: with the digest of what is cut off."""
    name = "".join(letter if letter.isprintable() else "?" for letter in name)
    return name if len(name) <= NAME_MAX_CHARS else f"{name[: NAME_MAX_CHARS - 17]}~{digest(name, 'name').hex()[:16]}"
