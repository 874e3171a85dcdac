"""Handles for tasks: the verbs of sessions and stores, and the task itself."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from perdure.errors import Stale
from perdure.handles.aio.base import AsyncStoreHandle, AsyncStreamHandle
from perdure.handles.aio.made import lists_all, makes
from perdure.handles.facts import TaskFacts
from perdure.handles.filtered import filtered
from perdure.handles.later import task_needs as needing
from perdure.handles.later import tasks
from perdure.log.change import Stream
from perdure.model.filters import SessionTaskFilters, TaskFilters
from perdure.model.records.tasks import TaskRecord
from perdure.planes.reading.durations import Duration
from perdure.planes.reading.paging import Page
from perdure.runtime.callers import AsyncCaller
from perdure.verbs import work as verbs


class AsyncTask(TaskFacts, AsyncStreamHandle):
    """One task, as it was last read. Each verb and `refresh` bring it up to date.

    A handle that claimed the task moves it as its holder: Stale if the claim was lost. Any other handle gets Conflict while the
    task is held, except for `cancel`. All verbs are atomic; repeating a verb whose state is reached already changes nothing, so
    verbs are safe after a crash.
    """

    __slots__ = ("_record", "_token")

    def __init__(
        self, caller: AsyncCaller, stream: Stream, pin: str, record: TaskRecord, *, token: int | None = None
    ) -> None:
        super().__init__(caller, stream, pin)
        self._record = record
        self._token = token

    async def refresh(self) -> AsyncTask:
        """Read the task again; returns itself."""
        self._record = await self._read(tasks.task, self.id)
        return self

    async def claim(self, ttl: Duration | None = None) -> AsyncTask:
        """Take the task; returns itself. Of several callers at once, one gets it.

        It is free again when `ttl` is over (if one is given), when this store is closed, or when its process dies. Raises
        Conflict if it is held (and names the holder), if it waits for other tasks, or if it is not to be done.
        """
        holder = self._caller.holder
        self._record = await self._take(
            self._caller.fenced(tasks.claim), tasks.give_back, self.id, holder=holder, ttl=ttl
        )
        self._token = self._record.token
        self._caller.hold((self._record.ref, self._record.token))
        return self

    async def release(self) -> AsyncTask:
        """Give it back: it is todo again. Raises Stale or Conflict if this handle does not hold it."""
        return await self._move("release")

    async def done(self, note: str | None = None, *, about: Iterable[str] = ()) -> AsyncTask:
        """Mark it as done; tasks that need it may become ready. Raises Stale or Conflict."""
        return await self._move("done", note, about)

    async def fail(self, note: str | None = None, *, about: Iterable[str] = ()) -> AsyncTask:
        """Mark it as failed; tasks that need it are stuck until it is reopened. Raises Stale or Conflict."""
        return await self._move("fail", note, about)

    async def block(self, reason: str, *, about: Iterable[str] = ()) -> AsyncTask:
        """Put it aside until an obstacle is gone; a claim on it ends. Raises Stale or Conflict."""
        return await self._move("block", reason, about)

    async def unblock(self, note: str | None = None, *, about: Iterable[str] = ()) -> AsyncTask:
        """Mark its obstacle as gone: it is todo again. Raises Conflict if it is not blocked."""
        return await self._move("unblock", note, about)

    async def cancel(self, note: str | None = None, *, about: Iterable[str] = ()) -> AsyncTask:
        """Mark it as not to be done any more. Anybody may do so; its holder is told by Stale."""
        return await self._move("cancel", note, about)

    async def reopen(self, note: str | None = None, *, about: Iterable[str] = ()) -> AsyncTask:
        """Make a failed or cancelled task todo again. Raises Conflict if it is neither."""
        return await self._move("reopen", note, about)

    async def _move(self, verb: str, note: str | None = None, about: Iterable[str] = ()) -> AsyncTask:
        try:
            self._record = await self._write(tasks.move, self.id, verb, note=note, token=self._token, about=about)
        except Stale:
            self._caller.heartbeat.release((self._record.ref, self._token))
            raise
        self._token = None
        self._caller.heartbeat.release((self._record.ref, self._record.token))
        return self

    async def edit(
        self,
        *,
        title: str | None = None,
        priority: int | None = None,
        labels: Iterable[str] | None = None,
        detail: Any = ...,
        about: Iterable[str] = (),
    ) -> AsyncTask:
        """Change its title, priority, labels or detail; anything not given stays. Atomic; a repetition changes nothing.

        Its `key` continues to stand for the input with which the task was first added. about: further subjects from here on.
        Raises Stale or Conflict as the moves do, and Invalid with the path.
        """
        given = {"title": title, "priority": priority, "labels": labels, "detail": detail}
        self._record = await self._write(tasks.edit, self.id, token=self._token, about=about, **given)
        return self

    async def need(self, other: AsyncTask | TaskRecord | int) -> AsyncTask:
        """Make it wait for another task of this session. Raises Invalid that spells out a cycle."""
        self._record = await self._write(needing.need, self.id, other, token=self._token)
        return self

    async def unneed(self, other: AsyncTask | TaskRecord | int) -> AsyncTask:
        """Let it no longer wait for another task: the way out when that task failed for good."""
        self._record = await self._write(needing.unneed, self.id, other, token=self._token)
        return self

    async def put_under(self, parent: AsyncTask | TaskRecord | int | None) -> AsyncTask:
        """Make it a part of another task of this session, or of none. Raises Invalid for a cycle."""
        self._record = await self._write(needing.put_under, self.id, parent, token=self._token)
        return self


class AsyncWork(AsyncStreamHandle):
    """Verbs of a session for its plan: tasks, their dependencies, and their claims."""

    __slots__ = ()

    task = makes(verbs.task, lambda: AsyncTask)

    async def get_task(self, task: int, *, token: int | None = None) -> AsyncTask:
        """Return the task with this number. Raises NotFound.

        token: of a claim that another handle made, to move the task as its holder; Stale if that claim was lost.
        """
        return AsyncTask(self._caller, self._stream, self._pin, await self._read(tasks.task, task), token=token)

    @filtered(SessionTaskFilters)
    async def tasks(self, asked: SessionTaskFilters) -> Page[AsyncTask]:
        """Return the tasks of this session, newest first. stuck: those that need a failed or cancelled task."""
        found = await self._read(tasks.tasks, asked)
        return found.each(lambda record: AsyncTask(self._caller, self._stream, self._pin, record))

    async def ready(self, *, limit: int = 20, label: str | None = None) -> Page[AsyncTask]:
        """Return the tasks that can be begun now: todo or abandoned, with all needs done. The most urgent come first."""
        found = await self._read(tasks.ready, limit=limit, label=label)
        return found.each(lambda record: AsyncTask(self._caller, self._stream, self._pin, record))

    async def claim_next(self, *, ttl: Duration | None = None, label: str | None = None) -> AsyncTask | None:
        """Claim the first task that is ready; None if none is. Atomic: no two callers get the same one."""
        holder = self._caller.holder
        record = await self._take(
            self._caller.fenced(tasks.claim_next), tasks.give_back, holder=holder, ttl=ttl, label=label
        )
        if record is None:
            return None
        self._caller.hold((record.ref, record.token))
        return AsyncTask(self._caller, self._stream, self._pin, record, token=record.token)


class AsyncWorkAcross(AsyncStoreHandle):
    """Verbs of a store that ask across all tasks."""

    __slots__ = ()

    tasks = lists_all(verbs.all_tasks, TaskFilters, lambda: AsyncTask)
