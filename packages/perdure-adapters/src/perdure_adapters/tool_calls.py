"""From a framework's tool call to the ledger, once for all adapters.

The rule: a call is a turn before it is an effect; the effect's key is the call's id in its session, and the digest of its
arguments is compared; the kind of a tool is declared, or it is unsafe; a tool that only reads bypasses the ledger; doubt comes
out as `InDoubt` (or `Waiting`, while a person is asked), which each adapter turns into its framework's own pause. The function is
made on the spot for each call: after a death the framework calls again, and the same name and id find the effect. No framework is
imported here. Callers: the adapters. Keeps P2, P3, P4.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from contextvars import ContextVar
from typing import Any, TypeAlias

from perdure.effects.tool import DECLARED, Tool, kind_of, tool
from perdure.handles.aio.session import AsyncSession
from perdure.handles.sync.session import Session
from perdure.model.records.conversation import Call
from perdure.model.records.effects import ToolKind

Kinds: TypeAlias = "Mapping[str, str | ToolKind | Tool]"


class ToolPaused(BaseException):
    """Raised in the place of a framework's own pause: the tool itself asks a person, and is called again from its beginning.

    No Exception: an idempotent tool would be called again at once, until it is given up. See `doubt_questions.is_over`.
    """


_KEY: ContextVar[str | None] = ContextVar("perdure_sent_key", default=None)


def sent_key() -> str | None:
    """The key of the effect that the running tool carries out, for the other side to deduplicate on. None outside of one."""
    return _KEY.get()


def declared_as(name: str, fn: Any = None, kinds: Kinds | None = None) -> Tool | ToolKind:
    """The declaration of a tool: in `kinds`, by `@perdure.tool` on its function, or else unsafe."""
    declaration = (kinds or {}).get(name)
    if isinstance(declaration, Tool):
        return declaration
    if declaration is not None:
        return kind_of(declaration)
    if isinstance(fn, Tool):
        return fn
    declared = next((candidate for candidate in DECLARED.values() if fn is not None and candidate.fn is fn), None)
    return declared or ToolKind.UNSAFE


def reads_only(declared: Tool | ToolKind) -> bool:
    """Whether it changes nothing in the outside world, so that no ledger is needed."""
    return (declared.kind if isinstance(declared, Tool) else declared) is ToolKind.READ


def made_for(call: Call, declared: Tool | ToolKind, invoke: Callable[[], Any], *, as_one: bool = False) -> Tool:
    """The tool of one call: calling it lets the framework call its function, with the arguments that the framework has.

    as_one: the declared function, and so its probe, takes all arguments as one value.
    """
    run = _async_run(invoke) if inspect.iscoroutinefunction(invoke) else _run(invoke)
    if not isinstance(declared, Tool):
        return tool(run, name=call.tool, kind=declared, known=False)
    return declared.for_function(
        run, call.tool, None if declared.probe is None else _probe_for(declared, as_one=as_one)
    )


def _async_run(invoke: Callable[[], Awaitable[Any]]) -> Callable[..., Any]:
    async def run(arguments: dict[str, Any], *, key: str = "") -> Any:  # noqa: ARG001 - the ledger keeps them
        token = _KEY.set(key or None)
        try:
            return await invoke()
        finally:
            _KEY.reset(token)

    return run


def _run(invoke: Callable[[], Any]) -> Callable[..., Any]:
    def run(arguments: dict[str, Any], *, key: str = "") -> Any:  # noqa: ARG001 - as above
        token = _KEY.set(key or None)
        try:
            return invoke()
        finally:
            _KEY.reset(token)

    return run


def _probe_for(declared: Tool, *, as_one: bool) -> Callable[..., Any]:
    """The probe of a declared tool, which takes the tool's arguments by name."""
    probe = declared.probe
    assert probe is not None

    def give(arguments: dict[str, Any], *, key: str = "") -> Any:
        return declared.call(
            probe, {next(iter(declared.signature.parameters)): arguments} if as_one else arguments, key=key
        )

    async def ask(arguments: dict[str, Any], *, key: str = "") -> Any:
        return await give(arguments, key=key)

    return ask if inspect.iscoroutinefunction(probe) else give


async def until_returned(run: Callable[[], Awaitable[Any]], *, in_thread: bool) -> Any:
    """Await a framework's way of calling its function. in_thread: it cannot be stopped, so it counts as sending until it has
    returned, whatever cancels the wait for it.
    """
    running = asyncio.ensure_future(run())
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        if not in_thread:
            running.cancel()
        with suppress(BaseException):
            await running
        raise


async def act(
    session: AsyncSession, call: Call, declared: Tool | ToolKind, invoke: Callable[[], Awaitable[Any]], *, key: str | None = None
) -> Any:  # fmt: skip
    """Carry out a call of a turn, once: its stored result if it has one, else `invoke`. The result turn lands with it.

    key: names the call where its framework tells more about it than its id, as the place in a run; by default it is the id.
    Raises InDoubt when a person must settle it, Waiting while one is asked, Failed for a clear no, KeyReused when the call of
    this id had other arguments, NotFound when no turn made the call.
    """
    if reads_only(declared):
        return await invoke()
    return await session.act(made_for(call, declared, invoke), call.args, call=call, key=key)


def act_now(
    session: Session, call: Call, declared: Tool | ToolKind, invoke: Callable[[], Any], *, key: str | None = None
) -> Any:
    """`act`, for sync code."""
    if reads_only(declared):
        return invoke()
    return session.act(made_for(call, declared, invoke), call.args, call=call, key=key)
