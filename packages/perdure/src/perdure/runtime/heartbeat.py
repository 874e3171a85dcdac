"""The heartbeat of an open store: one thread that says "alive" while the store holds something, and nothing
otherwise.

Callers: the callers of the handles (sessions that are attended), and handles that claim or lock (`hold`,
`release`). The thread never keeps a process or a forgotten store alive. With an injected clock there is none:
`store.beat()`.
"""

from __future__ import annotations

import logging
import os
import threading
import weakref
from collections import ChainMap
from collections.abc import Callable, Hashable, MutableMapping
from contextlib import suppress
from functools import partial

from perdure.errors import Error, NewerSchema, Unavailable
from perdure.log.change import Stream
from perdure.model import threads
from perdure.planes.recovery import presence
from perdure.stores.core import Core
from perdure.stores.tx import Tx

log = logging.getLogger("perdure.heartbeat")

BEATS_PER_LEASE = 3
BEAT_SECONDS = presence.TTL_SECONDS / BEATS_PER_LEASE
AGAIN_SECONDS = 1.0  # after a beat that the store could not take: it has waited for the store's timeout already


class Heartbeat:
    """The leases of one open store, and the proof that it lives. Shared by all handles of the store."""

    def __init__(self, core: Core, actor: str, tenant: int) -> None:
        self.core = core
        self._tenant = tenant
        self.attended: MutableMapping[int, Stream] = {}
        self.spoken: set[int] = set()  # sessions in which a turn was said here since they were closed
        self.begun = False  # whether a heartbeat is kept up, so that attending a session need not renew it
        self._actor = actor
        self._claims: set[Hashable] = set()
        self._mutex = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._pid = os.getpid()
        self._seen = False  # whether there ever was a heartbeat, so that closing has one to end
        self.is_late = False  # the last beat found the store away: the next one is due as soon as it is back

    def attend(self, stream: Stream) -> None:
        """A session was written in, and the commit that did it wrote down that this store attends it."""
        self.attended[stream.id] = stream
        self._begin()

    def step_out(self, stream: Stream) -> None:
        """A session is not attended any more."""
        self.attended.pop(stream.id, None)
        self.spoken.discard(stream.id)

    def hold(self, claim: Hashable) -> None:
        """Keep the heartbeat up for a claim, which was made with `presence.touch_holder` in the same commit."""
        self._claims.add(claim)
        self._begin()

    def keep_up(self, claim: Hashable) -> None:
        """Have a heartbeat before a claim is made that others may see at any time from then on. Raises as any write does."""
        if not self.begun:
            self.beat()
        self.hold(claim)

    def release(self, claim: Hashable) -> None:
        """A claim was given back."""
        self._claims.discard(claim)

    def beat(self) -> None:
        """Renew the heartbeat now. Raises as any write does. A store that hears that a newer Perdure has migrated it writes
        nothing more.
        """
        about = (self.core.holder, list(self.attended.values()), self.core.continuity.look_ahead)
        try:
            note_newest = self.core.write(_beat, *about, actor=self._actor, tenant=self._tenant)
        except NewerSchema as newer:
            self.core.lane.refuse(newer)
            raise
        note_newest()
        self.begun = self._seen = True

    def close(self) -> None:
        """Stop, and leave cleanly: what was attended did not crash. Leaving is tried once; if it fails, it
        lapses, and others can prove before that nobody is behind it any more.
        """
        self._stop.set()
        thread = self._thread
        if thread is not None and self._pid == os.getpid():
            thread.join()
        if not self._seen or self._pid != os.getpid():
            return
        self._seen = False
        try:
            self.core.write(
                presence.leave, self.core.holder, list(self.attended.values()), actor=self._actor, tenant=self._tenant
            )
        except Error as error:
            self.core.liveness.stay_named()
            log.warning("the heartbeat could not be ended and will lapse: %s", error)

    @property
    def busy(self) -> bool:
        """Whether there is anything to live for."""
        return bool(self.attended or self._claims)

    def prove(self) -> None:
        """Hold the lock file that proves a death, so that others need not wait for a lapse. Without it they wait for that."""
        with suppress(Error):
            self.core.liveness.begin()

    def _begin(self) -> None:
        self.begun = self._seen = True
        self.prove()
        if not self.core.clock_moves:
            return
        with self._mutex:
            if self._thread is None and not self._stop.is_set():
                args = (weakref.ref(self), self._stop, self.core.lease_seconds / BEATS_PER_LEASE)
                self._thread = threads.begin(_keep_beating, "perdure-heartbeat", args)

    def tick(self) -> bool:
        """One beat of the thread; whether it continues. It ends when nothing is held, and begins anew when
        needed.
        """
        with self._mutex:
            if not self.busy:
                self._thread = None
                self.begun = False
                return False
        self.is_late = False
        try:
            self.beat()
        except Error as error:
            self.is_late = isinstance(error, Unavailable)
            log.warning("the heartbeat was not renewed: %s", error)
        return not self._stop.is_set()


def _beat(
    tx: Tx, holder: str, attended: list[Stream], look_ahead: Callable[[Tx], Callable[[], None]]
) -> Callable[[], None]:
    presence.beat(tx, holder, attended)
    return look_ahead(tx)


class HeldBack(Heartbeat):
    """Attendance and claims of an atomic function: the heartbeat hears of them after the commit, and never if there is none."""

    def __init__(self, heartbeat: Heartbeat) -> None:
        super().__init__(heartbeat.core, "", heartbeat._tenant)
        self.attended = ChainMap({}, heartbeat.attended)
        self.begun = heartbeat.begun
        self._heartbeat = heartbeat
        self._notes: list[Callable[[], None]] = []

    def attend(self, stream: Stream) -> None:
        """To be told later; inside the function it holds at once."""
        self.attended[stream.id] = stream
        self.begun = True
        self._notes.append(partial(self._heartbeat.attend, stream))

    def step_out(self, stream: Stream) -> None:
        """To be told later."""
        self._notes.append(partial(self._heartbeat.step_out, stream))

    def hold(self, claim: Hashable) -> None:
        """To be told later."""
        self._notes.append(partial(self._heartbeat.hold, claim))

    def release(self, claim: Hashable) -> None:
        """To be told later."""
        self._notes.append(partial(self._heartbeat.release, claim))

    def tell(self) -> None:
        """The commit is done: tell the heartbeat."""
        for note in self._notes:
            note()


def _keep_beating(heartbeat: weakref.ref[Heartbeat], stop: threading.Event, beat_seconds: float = BEAT_SECONDS) -> None:
    pause = beat_seconds
    while not stop.wait(pause):
        alive = heartbeat()
        if alive is None or not alive.tick():
            return
        pause = min(beat_seconds, AGAIN_SECONDS) if alive.is_late else beat_seconds
        del alive
