"""One open store in both colours: the sync handle of an async store, the other way round, and the run that an agent gets.

Both use the same lane, heartbeat and threads, so they may be used at once, from any number of threads and event loops. The handle
that opened the store closes it. Callers: `store.aio`, `store.sync`, `session.aio`, `session.sync`; whoever drives runs; adapters
of frameworks that call one object from sync and async code.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from perdure.errors import Refused
from perdure.runtime.agent import Agent
from perdure.runtime.callers import AsyncCaller, AsyncFrozenCaller, Caller, FrozenCaller

if TYPE_CHECKING:
    from perdure.handles.aio.session import AsyncSession as AsyncSession  # noqa: PLC0414 - handles have it from here
    from perdure.handles.aio.store import AsyncStore as AsyncStore  # noqa: PLC0414 - handles have it from here
    from perdure.handles.sync.session import Session as Session  # noqa: PLC0414 - handles have it from here
    from perdure.handles.sync.store import Store as Store  # noqa: PLC0414 - handles have it from here
    from perdure.log.change import Stream


def run_for(agent: Agent) -> Callable[..., Any]:
    """The class of the run that this agent's function gets. Each colour is loaded where it is needed."""
    if agent.is_async:
        from perdure.handles.aio.run import AsyncRun  # noqa: PLC0415 - only who has async agents pays for it

        return AsyncRun
    from perdure.handles.sync.run import Run  # noqa: PLC0415 - as above

    return Run


def async_store(caller: Caller) -> AsyncStore:
    """The async handle of a store that sync code opened."""
    from perdure.handles.aio.store import AsyncStore  # noqa: PLC0415 - only one colour is loaded

    return AsyncStore(_to_async(caller), owner=False)


def sync_store(caller: AsyncCaller) -> Store:
    """The sync handle of a store that async code opened."""
    from perdure.handles.sync.store import Store  # noqa: PLC0415 - as above

    return Store(_to_sync(caller), owner=False)


def async_session(caller: Caller, stream: Stream, pin: str) -> AsyncSession:
    """The async handle of a session."""
    from perdure.handles.aio.session import AsyncSession  # noqa: PLC0415 - as above

    return AsyncSession(_to_async(caller), stream, pin)


def sync_session(caller: AsyncCaller, stream: Stream, pin: str) -> Session:
    """The sync handle of a session."""
    from perdure.handles.sync.session import Session  # noqa: PLC0415 - as above

    return Session(_to_sync(caller), stream, pin)


def _to_async(caller: Caller) -> AsyncCaller:
    made = {Caller: AsyncCaller, FrozenCaller: AsyncFrozenCaller}.get(type(caller)) or _refuse()
    return made(caller.core, caller.actor, caller.tenant, caller.heartbeat)


def _to_sync(caller: AsyncCaller) -> Caller:
    made = {AsyncCaller: Caller, AsyncFrozenCaller: FrozenCaller}.get(type(caller)) or _refuse()
    return made(caller.core, caller.actor, caller.tenant, caller.heartbeat)


def _refuse() -> type:
    """Inside `store.atomic` a handle belongs to its transaction."""
    raise Refused(
        "sync and async cannot be mixed inside a transaction",
        path="store",
        hint="use `.sync` and `.aio` before or after `store.atomic`",
    )
