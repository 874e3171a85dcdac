"""Sessions and scopes: one class each, composed of the verbs of the planes."""

from __future__ import annotations

from perdure.handles import colours
from perdure.handles.aio.artifacts import AsyncArtifacts
from perdure.handles.aio.boot import AsyncBooting
from perdure.handles.aio.checkpoints import AsyncCheckpoints
from perdure.handles.aio.conversation import AsyncConversation
from perdure.handles.aio.decisions import AsyncDecisions
from perdure.handles.aio.effects import AsyncEffects
from perdure.handles.aio.emitted import AsyncEmitted
from perdure.handles.aio.history import AsyncPast, AsyncTime
from perdure.handles.aio.memory import AsyncMemories
from perdure.handles.aio.requests import AsyncRequests
from perdure.handles.aio.tasks import AsyncWork
from perdure.handles.aio.values import AsyncValues
from perdure.planes import subjects as adding


class AsyncSession(
    AsyncConversation,
    AsyncValues,
    AsyncWork,
    AsyncDecisions,
    AsyncMemories,
    AsyncBooting,
    AsyncCheckpoints,
    AsyncEmitted,
    AsyncArtifacts,
    AsyncEffects,
    AsyncRequests,
    AsyncTime,
):
    """One unit of work of an agent: its conversation, plan, values, decisions, memories, checkpoints, events and artifacts.

    Get one with `store.session(name)`. It holds no state, so it is cheap to make and safe to share.
    """

    __slots__ = ()

    # async-only
    @property
    def sync(self) -> colours.Session:
        """This session for sync code, at the same time."""
        return colours.sync_session(self._caller, self._stream, self._pin)

    # end
    # sync: @property
    # sync: def aio(self) -> colours.AsyncSession:
    # sync:     """This session for async code, at the same time, in any event loop."""
    # sync:     return colours.async_session(self._caller, self._stream, self._pin)


class AsyncScope(AsyncValues, AsyncMemories, AsyncPast):
    """Values and memories that outlive a session, under a name such as `user:alice` or `project:acme`.

    Get one with `store.scope(name)`. A session that is labelled with its name recalls its memories.
    """

    __slots__ = ()

    async def add_subjects(self, *subjects: str) -> tuple[str, ...]:
        """Say that everything in the scope, before and after, is about these persons or things. Returns all of them.
        Idempotent.
        """
        return await self._write(adding.add_to_scope, subjects)
