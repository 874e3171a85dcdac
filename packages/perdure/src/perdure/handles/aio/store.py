"""The store as users hold it: sessions, scopes, runs, and questions across everything."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Any, Self, TypeVar

from perdure.handles import colours
from perdure.handles.aio.artifacts import AsyncArtifactsAcross
from perdure.handles.aio.conversation import AsyncConversationAcross
from perdure.handles.aio.decisions import AsyncDecisionsAcross
from perdure.handles.aio.effects import AsyncEffectsAcross
from perdure.handles.aio.emitted import AsyncEmittedAcross
from perdure.handles.aio.interchange import AsyncInterchange
from perdure.handles.aio.memory import AsyncMemoriesAcross
from perdure.handles.aio.recovery import AsyncRecovery
from perdure.handles.aio.retention import AsyncRetaining
from perdure.handles.aio.session import AsyncScope, AsyncSession
from perdure.handles.aio.tasks import AsyncWorkAcross
from perdure.handles.atomic import Atomic, run_atomic, run_inside, run_on
from perdure.handles.later import user_query
from perdure.model.functions import plain
from perdure.model.limits import check_name
from perdure.planes.conversation import sessions
from perdure.planes.memory import values
from perdure.planes.reading.durations import Duration
from perdure.runtime.callers import AsyncCaller
from perdure.stores.url import without_password

T = TypeVar("T")


class AsyncStore(
    AsyncConversationAcross,
    AsyncWorkAcross,
    AsyncDecisionsAcross,
    AsyncMemoriesAcross,
    AsyncEmittedAcross,
    AsyncArtifactsAcross,
    AsyncEffectsAcross,
    AsyncRecovery,
    AsyncInterchange,
    AsyncRetaining,
):
    """An open store, as `perdure.open` returns it. Use it as a context manager, or call `close`."""

    __slots__ = ("_owner",)

    def __init__(self, caller: AsyncCaller, *, owner: bool) -> None:
        super().__init__(caller)
        self._owner = owner

    @property
    def actor(self) -> str:
        """The actor of this handle: every event names it."""
        return self._caller.actor

    def as_(self, actor: str) -> AsyncStore:
        """Return this store with another actor. Closing it does nothing: the handle that was opened closes the store."""
        return AsyncStore(self._caller.acting_as(check_name(actor, "actor")), owner=False)

    # async-only
    @property
    def sync(self) -> colours.Store:
        """This open store for sync code, at the same time. Closing it does nothing."""
        return colours.sync_store(self._caller)

    # end
    # sync: @property
    # sync: def aio(self) -> colours.AsyncStore:
    # sync:     """This open store for async code, at the same time, in any event loop. Closing it does nothing."""
    # sync:     return colours.async_store(self._caller)

    async def session(
        self,
        name: str,
        *,
        title: str = "",
        labels: Iterable[str] = (),
        goal: str | None = None,
        ttl: Duration | None = None,
        pins: Mapping[str, Any] | None = None,
        about: Iterable[str] = (),
    ) -> AsyncSession:
        """Get the session of this name, or create it. Atomic: of many callers at once, one creates it.

        title, labels, goal, ttl, pins: for its creation. A session that exists is only read, and these change nothing about it.
        ttl: after this time listings leave it out; it can still be opened by its name.
        pins: software versions, see `session.pin`.
        about: subjects of the whole session, with its runs. A session that exists gets those that it lacks.

        Raises Invalid with the path.
        """
        options = {"title": title, "labels": labels, "goal": goal, "ttl": ttl, "pins": pins, "about": about}
        found = None if about else await self._caller.read(sessions.find_session, name)
        stream, pin = found or await self._write(sessions.open_session, name, **options)
        return AsyncSession(self._caller, stream, pin)

    async def scope(self, name: str, *, about: Iterable[str] = ()) -> AsyncScope:
        """Get or create a scope: values and memories that outlive a session, such as `user:alice` or `project:acme`.

        about: subjects of everything in it. Opening a scope that exists writes only the subjects that it lacks.
        """
        found = None if about else await self._caller.read(values.find_scope, name)
        return AsyncScope(self._caller, found or await self._write(values.open_scope, name, about))

    async def atomic(self, fn: Callable[[Atomic], T], *, on: Any = None) -> T:
        """Write with several verbs in one commit: `fn(tx)` gets them through `tx.session(…)` and `tx.scope(…)`. Returns its
        result.

        All of it or nothing. `fn` is sync and quick, calls nothing external, and may be run again. Handles that it made are
        sync: sync code may keep using them, each verb as a commit of its own; in async code they are Refused once `fn` is over.
        Raises Invalid for an async `fn`, and what `fn` raises; nothing is written then.

        on: your own psycopg connection to the database of this (PostgreSQL) store, inside a transaction of yours. The writes of
            `fn` go there, and become durable, or are gone, with your rows at your commit or rollback. Keep it short: nobody
            else writes to these sessions meanwhile. A Conflict spoils the transaction: run all of it again. If `fn`
            raises, everything written on the connection inside it is taken back; a part of it cannot be undone alone.
        """
        if on is not None:
            return await self._caller.finish(run_on, self._caller, self._caller.fenced(run_inside), plain(fn, "fn"), on)
        done = await self._write(run_atomic, plain(fn, "fn"), self._caller)
        done.held_back.tell()
        # sync: done.inside.settle(self._caller.heartbeat)
        return done.result

    async def query(
        self, sql: str, params: Mapping[str, Any] | None = None, *, limit: int = 10_000, timeout: float | None = None
    ) -> list[dict[str, Any]]:
        """Run SQL of your own: one statement that reads the views (docs/sql.md). Returns rows by column. Changes nothing.

        params: values for `:name` in the statement. The views show this tenant.
        limit: more rows than that raise TooLarge.
        timeout: seconds, by default the store's; after it, TimedOut.

        Raises Refused for a statement that does anything but read, Invalid for one that the database does not understand.
        """
        core, tenant = self._caller.core, self._caller.tenant
        return await self._caller.work(user_query.ask, core, tenant, sql, params or {}, limit, timeout)

    async def beat(self) -> None:
        """Send a sign of life now. A thread does it by itself, unless a clock was passed to `open`."""
        await self._caller.work(self._caller.heartbeat.beat)

    async def close(self) -> None:
        """Finish queued writes and close the store. Calling it again does nothing. The store is closed, too, when this is
        cancelled.
        """
        if self._owner:
            self._owner = False
            await self._caller.finish(self._leave)

    def _leave(self) -> None:
        self._caller.heartbeat.close()
        self._caller.core.close()

    def __repr__(self) -> str:
        url = without_password(self._caller.core.engine.url)
        return f"{type(self).__name__}({url!r}, actor={self.actor!r})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
