"""The open store behind the tools, the session that they mean when none is named, and errors as texts for a model.

Callers: the modules of this package. The store is opened by the first call that needs it, so that a host has the list of tools
before any database is touched. Keeps P10, P15.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import anyio
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError

import perdure
from perdure.errors import (
    Conflict,
    Error,
    Failed,
    Imported,
    InDoubt,
    Invalid,
    KeyReused,
    NotFound,
    Parked,
    Refused,
    Stale,
    Unavailable,
    Waiting,
)
from perdure.handles.atomic import Atomic
from perdure.planes.execution.requests import KeyedRequest, differing
from perdure.planes.reading.paging import DamagedRow

if TYPE_CHECKING:
    from perdure.handles.aio.session import AsyncSession
    from perdure.handles.aio.store import AsyncStore

TEXT_MAX_CHARS = 2_000  # of one stored text in a list: what follows is fetched by its number

_NO_ARGUMENTS = {"ctx", "key", "session", "replied"}
# Arguments of a tool that older marks do not have (`requests.KeyedRequest.before`): they were forgotten, or came later.
_LATER = {"remember": {"because"}}

T = TypeVar("T")
P = ParamSpec("P")

# The next thing for a model to do, by the class of the error; the first that fits.
NEXT: tuple[tuple[type[Error], str], ...] = (
    (KeyReused, "Use a new key for this request, or repeat the first one exactly."),
    (Stale, "You no longer hold this. Call `ready` or `claim` again with a new key."),
    (Conflict, "Read the current state, decide again, and use a new key."),
    (Imported, "Tell the user: a copy that was imported holds this key, and a person must decide."),
    (Waiting, "A person must answer first. Continue with other work and call this again with the same key."),
    (InDoubt, "Find out whether it happened, then call `effect_settle`. Do not send it again."),
    (NotFound, "Check the name or number; `search`, `ready` and `open_loops` list what there is."),
    (Unavailable, "Nothing was written. Call this again with the same key."),
    (Invalid, "Correct this argument and call again; nothing was written."),
    (Refused, "This store does not allow it. Tell the user."),
    (Failed, "It did not happen. Decide whether to try again under a new key."),
    (Parked, "A person must decide. Tell the user."),
)


class Door:
    """One store for all calls of a server."""

    def __init__(self, url: str, *, actor: str, tenant: str, session: str, labels: tuple[str, ...] = ()) -> None:
        self.url = url
        self.actor = actor
        self.default = session
        self._tenant = tenant
        self._labels = labels
        self._store: AsyncStore | None = None
        self._opening = anyio.Lock()

    async def store(self) -> AsyncStore:
        """The store, opened when it is first needed."""
        async with self._opening:
            if self._store is None:
                self._store = await perdure.aopen(self.url, actor=self.actor, tenant=self._tenant)
            return self._store

    async def close(self) -> None:
        """Let the store go."""
        if self._store is not None:
            await self._store.close()

    def session_name(self, name: str) -> str:
        """The session that a call means. Invalid if it names none and the server has no default."""
        if name or self.default:
            return name or self.default
        raise Invalid("no session is named", path="session", hint="pass session, or start `perdure mcp --session NAME`")

    async def session(self, name: str) -> AsyncSession:
        """The session that a call means, made if it is new. The server's own has the labels that it was given."""
        own_name = self.session_name(name)
        labels = self._labels if own_name == self.default else ()
        return await (await self.store()).session(own_name, labels=labels)

    async def once(self, tool: Callable[..., Any], arguments: dict[str, Any], fn: Callable[[Atomic, str], T]) -> T:
        """Carry a write out once for the key that a tool was given: `fn(tx, name of the session)`.

        arguments: its `locals()`. All of them are the identity of the request, but the key and the session, where it stands.
        """
        session = await self.session(arguments["session"])
        request = _request_of(tool, arguments)
        return await session.once(
            arguments["key"], lambda tx: fn(tx, session.name), asked=request, about=arguments.get("about", ())
        )


def _request_of(tool: Callable[..., Any], arguments: dict[str, Any]) -> KeyedRequest:
    name = tool.__name__.rstrip("_")
    parameters = [it for it in inspect.signature(tool).parameters.values() if it.name not in _NO_ARGUMENTS]
    values = {parameter.name: arguments[parameter.name] for parameter in parameters}
    defaults = {
        parameter.name: parameter.default
        for parameter in parameters
        if parameter.default is not inspect.Parameter.empty
    }
    before = {argument: value for argument, value in values.items() if argument not in _LATER.get(name, ())}
    if not values.get("about"):
        before.pop("about", None)
    return KeyedRequest({"tool": name, **differing(values, defaults)}, {"tool": name, **before})


def door_of(ctx: Context[Any, Any]) -> Door:
    """The door of the server that serves this call."""
    door = ctx.request_context.lifespan_context
    assert isinstance(door, Door)
    return door


def with_error_texts(fn: Callable[P, Awaitable[T]]) -> Callable[P, Awaitable[T]]:
    """A tool whose errors are texts that a model can act upon: what was wrong, where, and what to do next."""

    @functools.wraps(fn)
    async def call(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return await fn(*args, **kwargs)
        except Error as error:
            raise ToolError(text_of(error)) from error

    return call


def text_of(error: Error) -> str:
    """An error of Perdure for a model."""
    following = next((step for kind, step in NEXT if isinstance(error, kind)), "Tell the user.")
    facts = "".join(f"\n{name}: {str(value)[:200]}" for name, value in error.facts.items() if value is not None)
    return f"{type(error).__name__}: {error}{facts}\nNext: {following}"


def places(damaged: Iterable[DamagedRow]) -> list[str]:
    """The rows that cannot be read, for a model."""
    return [f"{row.where}: {row.reason}" for row in damaged]


def short(text: str, fetch: str = "") -> str:
    """A stored text, cut where it is long. fetch: how the rest can be had."""
    if len(text) <= TEXT_MAX_CHARS:
        return text
    return f"{text[:TEXT_MAX_CHARS]} […{len(text) - TEXT_MAX_CHARS} more characters{f'; {fetch}' if fetch else ''}]"
