"""The store as users hold it: sessions, scopes, and asking across everything."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any, TypeVar

from perdure.handles.aio.artifacts import AsyncArtifactsAcross
from perdure.handles.aio.conversation import AsyncConversationAcross
from perdure.handles.aio.decisions import AsyncDecisionsAcross
from perdure.handles.aio.happenings import AsyncHappeningsAcross
from perdure.handles.aio.session import AsyncScope, AsyncSession
from perdure.handles.aio.upkeep import AsyncUpkeep
from perdure.handles.aio.work import AsyncWorkAcross
from perdure.handles.atomic import Atomic, run_atomic
from perdure.handles.callers import AsyncCaller
from perdure.model.limits import check_name
from perdure.planes import conversation, values

T = TypeVar("T")


class AsyncStore(
    AsyncConversationAcross,
    AsyncWorkAcross,
    AsyncDecisionsAcross,
    AsyncHappeningsAcross,
    AsyncArtifactsAcross,
    AsyncUpkeep,
):
    """An open store. Use it as a context manager, or call `close`."""

    def __init__(self, caller: AsyncCaller, *, owner: bool) -> None:
        super().__init__(caller)
        self._owner = owner

    @property
    def actor(self) -> str:
        """Who acts through this handle: every event names it."""
        return self._caller.actor

    def as_(self, actor: str) -> AsyncStore:
        """The same store, another actor. Closing it does nothing: the handle that was opened closes the store."""
        caller = AsyncCaller(self._caller.core, check_name(actor, "actor"), self._caller.tenant)
        return AsyncStore(caller, owner=False)

    async def session(self, name: str, **options: Any) -> AsyncSession:
        """Get the session of this name, or create it. Options: see `planes.conversation.open_session`."""
        stream, pin = await conversation_open(self._caller, name, options)
        return AsyncSession(self._caller, stream, pin)

    async def scope(self, name: str) -> AsyncScope:
        """Values that outlive a session: `user:alice`, `project:acme`."""
        stream = await self._caller.write(values.open_scope, name)
        return AsyncScope(self._caller, stream)

    async def atomic(self, fn: Callable[[Atomic], T]) -> T:
        """Several verbs in one commit: `fn(tx)` gets the same verbs through `tx.session(…)` and `tx.scope(…)`.

        All of it or nothing. `fn` is sync and quick, calls nothing outside, and may be run again.
        """
        return await self._caller.write(run_atomic, fn, self._caller.core)

    async def close(self) -> None:
        """Finish what is queued and let the store go. Calling it again does nothing."""
        if self._owner:
            await self._caller.work(self._caller.core.close)

    async def __aenter__(self) -> AsyncStore:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


async def conversation_open(caller: AsyncCaller, name: str, options: dict[str, Any]) -> Any:
    """Read first: opening a session that exists writes nothing."""
    found = await caller.read(conversation.find_session, name)
    return found or await caller.write(conversation.open_session, name, **options)
