"""`PerdureLedger`: the tools of a Claude agent in the ledger.

Built-in tools (Bash, Write …) are carried out by the host. A hook can only refuse them: the intent is recorded before the call,
the result after it, and a call whose like was left in doubt by a dead process is denied until somebody settles it. Tools of your
own go through an SDK MCP server, where the ledger is complete.

A process may die when a tool has happened and its result is not in the transcript yet. The host then asks the model anew, and the
call comes again under another id. So an effect is bound to its call and the transcript of that call. An effect of an earlier
process whose call has no result in the transcript that `PerdureSessionStore` mirrors answers the next call like it; a resumed
transcript is given its result. Keeps P2, P3, P4.
"""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, NamedTuple

from anyio import Lock
from claude_agent_sdk import HookMatcher, SdkMcpTool, create_sdk_mcp_server, project_key_for_directory  # pyright: ignore[reportMissingImports]

from perdure.effects.tool import Tool
from perdure.errors import Conflict, Failed, InDoubt, Waiting
from perdure.handles.aio.effects import AsyncEffect
from perdure.handles.aio.session import AsyncSession
from perdure.handles.listing import aevery
from perdure.model.records.conversation import Call, Turn
from perdure.model.records.effects import EffectState, ToolKind
from perdure.model.storable import storable
from perdure.model.values import digest
from perdure_adapters import session_names, tool_calls
from perdure_adapters.claude_agent.session_store import name_of
from perdure_adapters.shared_store import SharedStore

KEY = "claude:"  # with the place of a call: the key of its effect

# Built-in tools that change nothing outside of the conversation.
READS = frozenset({
    "Read", "Glob", "Grep", "LS", "NotebookRead", "WebFetch", "WebSearch", "TodoWrite", "TodoRead", "BashOutput", "Task", "Agent",
    "ToolSearch", "AskUserQuestion", "ExitPlanMode",
})  # fmt: skip
# Writing the same text once more changes nothing.
IDEMPOTENT = frozenset({"Write"})


class PerdureLedger:
    """Hooks and servers for one agent. store: a URL or an open store; session: the session that holds its effects."""

    def __init__(self, store: Any, session: str, *, kinds: tool_calls.Kinds | None = None) -> None:
        self._opened = SharedStore(store)
        self._name = session
        self._kinds = kinds or {}
        self._begun: dict[str, AsyncEffect] = {}
        self._coming: dict[str, list[_Coming]] = {}  # calls of our own servers that a hook has seen, by tool and input
        self._unheard: list[AsyncEffect] | None = None  # effects of earlier processes whose results nobody has heard
        self._placed: set[str] = set()  # transcripts whose names the session has
        self._own: set[str] = set()  # calls of this process: their results are on their way
        self._mutex = Lock()
        self._served: set[str] = set()  # tools of our own servers, by the names that hosts give them

    # -- built-in tools --------------------------------------------------------------------------------------------

    def hooks(self) -> dict[str, list[HookMatcher]]:
        """For `ClaudeAgentOptions(hooks=…)`."""
        return {
            "PreToolUse": [HookMatcher(hooks=[self._before])],
            "PostToolUse": [HookMatcher(hooks=[self._after])],
            "PostToolUseFailure": [HookMatcher(hooks=[self._after])],
        }

    async def _before(self, hook_input: Any, tool_use_id: str | None, _context: Any) -> Any:
        name, args = hook_input["tool_name"], hook_input.get("tool_input") or {}
        kind = self._kind(name)
        coming = _Coming.of(hook_input, tool_use_id)
        self._own.add(coming.call)
        if name in self._served:
            self._coming.setdefault(_like(name.rpartition("__")[2], args), []).append(coming)
        if kind is ToolKind.READ or name in self._served:
            return {}
        session = await self._session()
        await self._look_for_unheard(coming)
        earlier = await left_open(session, name, args)
        if earlier is not None and kind is not ToolKind.IDEMPOTENT:
            return _denied(f"{name} with this input was being carried out when its process died, and its outcome is unknown. "
                           f"Check, then run `perdure settle {earlier.id} happened|absent|failed`")  # fmt: skip
        earlier = earlier or await self._take_unheard(name, args, coming)
        if earlier is not None and earlier.state is EffectState.COMMITTED:
            outcome = f"{name} with this input was carried out before the process died. Its result: {earlier.result!r}"
            return _denied(outcome[:2_000])
        key = earlier.key if earlier is not None else KEY + coming.place
        effect = await session.begin(name, {"arguments": storable(args)}, kind=kind, key=key)
        if effect.settled:
            return _denied(f"{name} was carried out before under this id: {effect.result!r}"[:500])
        try:
            self._begun[str(tool_use_id)] = await effect.dispatch()
        except (Conflict, InDoubt, Waiting, Failed) as refused:
            return _denied(str(refused))
        return {}

    async def _after(self, done: Any, tool_use_id: str | None, _context: Any) -> Any:
        effect = self._begun.pop(str(tool_use_id), None)
        if effect is not None:
            failed = done.get("error") if done.get("hook_event_name") == "PostToolUseFailure" else None
            result = {"error": failed} if failed is not None else done.get("tool_response")
            await effect.commit(storable(result))
        return {}

    def _kind(self, name: str) -> ToolKind:
        declared = tool_calls.declared_as(name, None, self._kinds)
        if name in self._kinds:
            return declared.kind if isinstance(declared, Tool) else declared
        return ToolKind.READ if name in READS else ToolKind.IDEMPOTENT if name in IDEMPOTENT else ToolKind.UNSAFE

    # -- tools of one's own ----------------------------------------------------------------------------------------

    def server(self, name: str, tools: list[SdkMcpTool[Any]], *, version: str = "1.0.0") -> Any:
        """An SDK MCP server whose tools are ledgered, for `ClaudeAgentOptions(mcp_servers={name: …})`.

        A call that a dead process left is continued by its tool's rule; one that a person must settle is answered with an error
        that says how.
        """
        self._served |= {f"mcp__{name}__{entry.name}" for entry in tools}
        return create_sdk_mcp_server(
            name, version, [dataclasses.replace(entry, handler=self.ledgered(entry)) for entry in tools]
        )

    def ledgered(self, tool: SdkMcpTool[Any]) -> Callable[[Any], Awaitable[dict[str, Any]]]:
        """The handler of a tool, through the ledger. The probe of a tool that is declared on its handler takes the input, too."""
        declared = tool_calls.declared_as(tool.name, tool.handler, self._kinds)

        async def handle(args: Any) -> dict[str, Any]:
            async def invoke() -> Any:
                return await tool.handler(args)

            if tool_calls.reads_only(declared):
                return await invoke()
            session = await self._session()
            calls = self._coming.get(_like(tool.name, args))
            coming = calls.pop(0) if calls else _Coming()
            await self._look_for_unheard(coming)
            earlier = await left_open(session, tool.name, args) or await self._take_unheard(tool.name, args, coming)
            call = Call("", tool.name, args)
            key = earlier.key if earlier is not None else KEY + coming.place if coming.call else None
            try:
                if earlier is not None:
                    await self._bind(earlier, coming)
                acting = tool_calls.made_for(call, declared, invoke, as_one=tool.name not in self._kinds)
                return await session.act(acting, args, key=key)
            except (InDoubt, Waiting, Failed) as trouble:
                return {"content": [{"type": "text", "text": str(trouble)}], "is_error": True}

        return handle

    # -- results that nobody has heard -------------------------------------------------------------------------------

    async def untold(self, key: Any) -> dict[str, Any]:
        """The results that earlier processes got for calls of this transcript, and that it does not have; by the call's id."""
        session = await self._name_of(key)
        return {
            call: effect.result
            async for effect, name, call, result in self._answers()
            if name == session and result is None and effect.state is EffectState.COMMITTED and call not in self._own
        }

    async def _look_for_unheard(self, coming: _Coming) -> None:
        """Once, before this process has effects of its own. The name of each transcript is kept before its first effect."""
        if coming.key is None:
            return
        async with self._mutex:
            if self._unheard is None:
                self._unheard = await self._find_unheard(coming)
            if coming.conversation not in self._placed:
                session, name = await self._session(), await self._name_of(coming.key)
                if await session.get(_transcript(coming.conversation)) != name:
                    await session.set(_transcript(coming.conversation), name)
                self._placed.add(coming.conversation)

    async def _take_unheard(self, tool: str, args: Any, coming: _Coming) -> AsyncEffect | None:
        """The effect of an earlier process that this call is; from now on it is bound to it.

        It is done; or a person has said since that it did not happen, and it is sent under its key.
        """
        for effect in list(self._unheard or ()):
            if effect.tool != tool or effect.record.args != {"arguments": storable(args)}:
                continue
            await effect.refresh()
            if effect.state in (EffectState.COMMITTED, EffectState.PLANNED) and self._unheard is not None:
                self._unheard.remove(effect)
                await self._bind(effect, coming)
                return effect
        return None

    async def _find_unheard(self, coming: _Coming) -> list[AsyncEffect]:
        """Effects, done or in doubt, whose calls have no result in their transcript. None without a mirrored transcript."""
        here = await self._name_of(coming.key)
        if not await (await self._opened.aio.session(here)).turns(last=1):
            return []
        # An error that the host wrote for a call that was cut off says nothing of the effect.
        return [
            effect async for effect, _, _, result in self._answers(here)
            if result is None or (result.error and not _is_error(effect.result))
        ]  # fmt: skip

    async def _answers(self, here: str = "") -> AsyncIterator[tuple[AsyncEffect, str, str, Turn | None]]:
        """Each effect, done or in doubt, with the transcript and the call that it answers, and the result that is there.

        here: the transcript of calls whose own one was not kept.
        """
        session = await self._session()
        async for effect in aevery(session.effects):
            done = effect.state in (EffectState.COMMITTED, EffectState.IN_DOUBT) or await effect.is_left()
            if done and effect.key.startswith(KEY):
                place = await session.get(_bound(effect), effect.key.removeprefix(KEY))
                conversation, _, call = place.rpartition("/")
                name = (await session.get(_transcript(conversation)) or "") if conversation else here
                transcript = await self._opened.aio.session(name) if name and call else None
                yield effect, name, call, await transcript.result_of(call) if transcript is not None else None

    async def _bind(self, effect: AsyncEffect, coming: _Coming) -> None:
        await (await self._session()).set(_bound(effect), coming.place)

    # -- the session -----------------------------------------------------------------------------------------------

    async def _name_of(self, key: Any) -> str:
        """The name of the session that holds a transcript."""
        return await session_names.name_of(self._opened, name_of(key))

    async def _session(self) -> AsyncSession:
        return await self._opened.aio.session(self._name)

    def close(self) -> None:
        """Let the store go."""
        self._opened.close()


class _Coming(NamedTuple):
    """A call that is on its way to a tool: its id, and the host's session, folder and subagent."""

    call: str = ""
    session: str | None = None
    cwd: str | None = None
    agent: str | None = None

    @classmethod
    def of(cls, hook_input: Any, call: str | None) -> _Coming:
        """The call that a hook is asked about."""
        call_id = str(call or hook_input.get("tool_use_id") or "")
        return cls(call_id, hook_input.get("session_id"), hook_input.get("cwd"), hook_input.get("agent_id"))

    @property
    def key(self) -> Any:
        """The key of its transcript; None if the host does not say it."""
        about = {"subpath": f"subagents/agent-{self.agent}"} if self.agent else {}
        project = project_key_for_directory(self.cwd)
        return {"project_key": project, "session_id": self.session, **about} if self.session else None

    @property
    def conversation(self) -> str:
        return ":".join(filter(None, (self.session, self.agent)))

    @property
    def place(self) -> str:
        """Where its result is heard: the conversation, and the id of the call."""
        return f"{self.conversation}/{self.call}" if self.session else self.call


def _like(tool: str, args: Any) -> str:
    return f"{tool} {digest(storable(args), 'input').hex()}"


def _bound(effect: AsyncEffect) -> str:
    """The name of the value that says which call an effect answers, where that is not the one of its key."""
    return f"claude.bound/{effect.record.seq}"


def _transcript(conversation: str) -> str:
    """The name of the value that says which session mirrors a conversation."""
    return f"claude.transcript/{conversation}"


def _is_error(result: Any) -> bool:
    return isinstance(result, dict) and bool(result.get("is_error") or result.get("error"))


async def left_open(session: AsyncSession, tool: str, args: Any) -> AsyncEffect | None:
    """The effect of the same tool and input that a dead process left, or that is in doubt."""
    for effect in await session.effects(open=True):
        same = effect.tool == tool and effect.record.args == {"arguments": args}
        if same and (effect.state is EffectState.IN_DOUBT or await effect.is_left()):
            return effect
    return None


def _denied(reason: str) -> dict[str, Any]:
    about = {"hookEventName": "PreToolUse", "permissionDecision": "deny", "permissionDecisionReason": reason}
    return {"hookSpecificOutput": about}
