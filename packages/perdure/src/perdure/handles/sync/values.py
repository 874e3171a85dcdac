# Generated from handles/aio/values.py by tools/unasync.py: edit that one.
"""Handles for values and locks: the verbs of sessions and scopes, and the lock itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, Self

from perdure.errors import Conflict, Stale, TimedOut
from perdure.handles.facts import LockFacts
from perdure.handles.sync.base import StreamHandle
from perdure.handles.sync.made import gives, reads
from perdure.log.change import Stream
from perdure.model.functions import plain
from perdure.model.records.values import Entry, LockRecord
from perdure.planes.memory import values
from perdure.planes.reading.durations import Duration, pauses
from perdure.planes.recovery import locks
from perdure.runtime import fences
from perdure.runtime.callers import Caller
from perdure.verbs import values as verbs

UPDATE_RETRIES = 100
_UPDATE_PAUSE_SECONDS = 0.001
_UPDATE_PAUSE_MAX_SECONDS = 0.05


class Values(StreamHandle):
    """Verbs of a session or scope for values under names, with versions and an optional time to live."""

    __slots__ = ()

    set = gives(verbs.set_)

    def get(self, name: str, default: Any = None) -> Any:
        """Return the value of a name, or `default` if it is not there or its time is over. Writes nothing."""
        found = self.entry(name)
        return default if found is None else found.value

    entry = reads(verbs.entry)

    entries = reads(verbs.entries)

    unset = gives(verbs.unset)

    def update(
        self,
        name: str,
        fn: Callable[[Any], Any],
        *,
        ttl: Duration | None = None,
        retries: int = UPDATE_RETRIES,
        about: Iterable[str] = (),
    ) -> Entry:
        """Read a value (None if it is not there), change it with `fn`, and write it; again if another caller was faster.

            session.update("retries", lambda count: (count or 0) + 1)

        `fn` runs outside any transaction: it may take its time, and it may be called more than once. No update is lost between
        two callers. Like `set`, this ends the time to live unless `ttl` gives a new one. The new value is about the subjects of
        the old one, and `about`. Not idempotent: after a crash look at the entry's version. Raises Conflict after so many
        retries, Invalid for an async `fn`, and whatever `fn` raises.
        """
        change = plain(fn, "fn")
        pause = _UPDATE_PAUSE_SECONDS
        for attempt in range(retries + 1):
            found = self.entry(name)
            value = change(None if found is None else found.value)
            try:
                expect = 0 if found is None else found.version
                return self._write(values.put, name, value, expect=expect, ttl=ttl, about=about, derived=True)
            except Conflict:
                if attempt == retries:
                    raise
            self._caller.pause(pause)
            pause = min(2 * pause, _UPDATE_PAUSE_MAX_SECONDS)
        raise AssertionError

    def lock(self, name: str, *, ttl: Duration = "30s", wait: Duration | None = None) -> Lock:
        """Return a lock for `with`: one holder at a time, until `ttl` is over. Nothing happens before it is entered.

        wait: how long to try while another caller holds it. Without it, Conflict at once.
        """
        return Lock(self._caller, self._stream, self._pin, name, ttl, wait)


class Lock(LockFacts, StreamHandle):
    """A fenced lock: `with session.lock("deploy") as lock`. Pass `lock.token` on to what you protect.

    Entering raises Conflict, or TimedOut after waiting, with the holder and the time until which it holds. After a crash the
    lock is free when its time is over, and at once on the machine where its holder died.

    Every write inside the block, through any handle of this store, is fenced by the token: once the lock was lost, writes raise
    Stale and nothing is written. The block is that of this thread, or of this async task and the tasks that it starts; a thread
    that is started inside calls `check` itself. Leaving releases the lock, and raises Stale if it was lost; an exception inside
    the block takes precedence.
    """

    __slots__ = ("_block", "_held", "_name", "_ttl", "_wait")

    def __init__(
        self, caller: Caller, stream: Stream, pin: str, name: str, ttl: Duration, wait: Duration | None
    ) -> None:
        super().__init__(caller, stream, pin)
        self._name = name
        self._ttl = ttl
        self._wait = wait
        self._held: LockRecord | None = None
        self._block: fences.LockBlock | None = None

    def check(self) -> None:
        """Raise Stale if the lock is no longer held. Call it right before each step that must be protected."""
        self._read(locks.check, self._name, token=self.token)

    def renew(self, ttl: Duration | None = None) -> None:
        """Hold it for `ttl` (default: as at first) from now. Atomic. Raises Stale if it is no longer held."""
        lasts = self._ttl if ttl is None else ttl
        self._held = self._write(locks.renew, self._name, token=self.token, ttl=lasts)

    def __enter__(self) -> Self:
        for pause in pauses(self._wait):
            try:
                return self._acquire()
            except Conflict:
                self._caller.pause(pause)
        try:
            return self._acquire()
        except Conflict as held:
            if self._wait is None:
                raise
            raise TimedOut(f"{held.message}; waited {self._wait}", path="lock", **held.facts) from None

    def _acquire(self) -> Self:
        holder = self._caller.core.holder
        self._caller.heartbeat.prove()
        self._held = self._take(locks.acquire, locks.give_back, self._name, ttl=self._ttl, holder=holder)
        self._block = self._caller.enter(locks.Fence(self._stream, self._name, self.token))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._block is not None:
            fences.leave(self._block)
        try:
            self._state(locks.release, self._name, token=self.token)
        except Stale as stale:
            if error is None:
                raise
            error.add_note(str(stale))
        finally:
            self._held = None
