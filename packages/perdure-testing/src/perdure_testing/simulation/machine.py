"""Simulated processes on one SQLite file: each has the store open, lives in tasks of the scheduler, and can die at any point.

Everything is real (handles, lanes, connections, lock files) but what decides about time and chance: the clock, random bytes, the
locks of lanes, and the turn in which connections write. A process that dies loses its connections and its lock file as the
kernel takes them, and nothing that its threads do while they unwind reaches the store.
"""

from __future__ import annotations

import contextlib
import os
import random
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from perdure.effects.ledger import ARROWS
from perdure.handles.opening import open as open_store
from perdure.handles.sync.store import Store
from perdure.model import crash_points, ids
from perdure.runtime.callers import Caller, caller_of
from perdure.stores import core, lane
from perdure.stores.liveness import Liveness
from perdure.stores.store import Connection, Engine, Fault, FaultKind
from perdure_testing.clock import FakeClock
from perdure_testing.simulation.scheduler import Died, Lock, Scheduler, SimulatedThread

POINTS = (
    *(f"effect.{arrow}.{side}" for arrow in (*ARROWS, "call") for side in ("before", "after")),
    "run.drive.before", "run.drive.after", "lane.before_commit", "lane.after_commit",
)  # fmt: skip
PROVED = 0.7  # the share of deaths that leave a proof
READS = ("query", "select_row", "heads", "begin_reading", "new_stream_ids", "new_tenant", "drop_blobs")


class Process:
    """One simulated process: a store that is open, and the tasks that use it."""

    def __init__(self, name: str, machine: Machine, *, mortal: bool = True) -> None:
        self.name = name
        self.mortal = mortal
        self.alive = True
        self.asleep_until = 0
        self.died_at_us: int | None = None
        self.proved = False  # whether its death can be proved by its lock file
        self.last_point = ""
        self.tasks: list[SimulatedThread] = []
        self.connections: list[Connection] = []
        self.store: Store
        self._machine = machine

    @property
    def busy(self) -> bool:
        """Whether some of its threads have not come to their end."""
        return self.alive and any(not task.over for task in self.tasks)

    def die(self) -> None:
        """As SIGKILL: the kernel closes its files and lets its locks go. Raises Died in a thread of its own.

        Now and then the lock file goes too: then nothing proves the death, as on another machine.
        """
        self.alive = False
        self.died_at_us = self._machine.clock.now_us
        for connection in self.connections:
            connection.close()
        if hasattr(self, "store"):
            self._let_lock_go(caller_of(self.store).core.liveness)
        current = self._machine.scheduler.current
        if current is not None and current.process is self:
            raise Died

    def _let_lock_go(self, liveness: Liveness) -> None:
        fd, liveness._fd = liveness._fd, None
        if fd is None:
            return
        os.close(fd)
        self.proved = self._machine.scheduler.chance.random() < PROVED
        if not self.proved and liveness.folder is not None:
            (liveness.folder / liveness._holder).unlink(missing_ok=True)


class Machine:
    """All that is simulated in one history. Use it as a context: inside, what decides about time and chance is replaced."""

    def __init__(self, path: Path, scheduler: Scheduler, seed: int) -> None:
        self.path = path
        self.scheduler = scheduler
        self.clock = FakeClock()
        self.processes: list[Process] = []
        self.turn = Lock(scheduler)  # SQLite's one writer
        self._random = random.Random(seed)
        self._opening: Process | None = None
        scheduler.tick = self.clock.advance

    def start(self, name: str, *, mortal: bool = True) -> Process:
        """A new process with the store open; it has no task yet."""
        process = Process(name, self, mortal=mortal)
        self._opening = process
        try:
            process.store = open_store(f"sqlite:///{self.path}", actor=name, clock=self.clock)
        finally:
            self._opening = None
        self.processes.append(process)
        return process

    def spawn(self, process: Process, work: Callable[[], None]) -> SimulatedThread:
        """Another thread of a process."""
        return self.scheduler.spawn(f"{process.name}.{len(process.tasks)}", process, work)

    def end(self) -> None:
        """Every process dies."""
        for process in self.processes:
            if process.alive:
                process.die()

    @contextlib.contextmanager
    def running(self) -> Iterator[Machine]:
        """Inside this the scheduler, the clock and the seed decide."""
        replaced: list[tuple[Any, str, Any]] = [
            (ids, "random_bytes", self._random.randbytes),
            (core, "engine_for", self._engine_for(core.engine_for)),
            (lane, "threading", _threading(self.scheduler)),
            (lane, "pause", lambda _attempt: None),
            (Caller, "pause", lambda _caller, seconds, _check=None: self._pause(seconds)),
        ]
        originals = [(owner, name, getattr(owner, name)) for owner, name, _ in replaced]
        disarm = [crash_points.arm(name, lambda name=name: self.scheduler.reach(name)) for name in POINTS]
        try:
            for owner, name, value in replaced:
                setattr(owner, name, value)
            yield self
        finally:
            for owner, name, value in originals:
                setattr(owner, name, value)
            for undo in disarm:
                undo()
            self.end()

    def _pause(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.scheduler.reach("pause")

    # -- connections -----------------------------------------------------------------------------------------------------------

    def _engine_for(self, real: Callable[..., Engine]) -> Callable[..., Engine]:
        def engine_for(*args: Any, **kwargs: Any) -> Engine:
            engine = real(*args, **kwargs)
            process = self._opening
            if process is not None:
                for name in ("connect", "reader"):
                    setattr(engine, name, self._connecting(getattr(engine, name), process))
            return engine

        return engine_for

    def _connecting(self, connect: Callable[[], Connection], process: Process) -> Callable[[], Connection]:
        def connecting() -> Connection:
            if not process.alive:
                raise Died
            connection: Any = connect()
            process.connections.append(connection)
            _Gate(self, process, connection)
            return connection

        return connecting


class _Gate:
    """The gate before one connection: it answers only the living, and writes in its turn."""

    def __init__(self, machine: Machine, process: Process, connection: Any) -> None:
        self._machine = machine
        self._process = process
        self._writing = False
        for name in READS:
            setattr(connection, name, self._checked(getattr(connection, name)))
        self._begin, self._write = connection.begin, connection.write
        self._rollback, self._close = connection.rollback, connection.close
        connection.begin, connection.write = self.begin, self.write
        connection.rollback, connection.close = self.rollback, self.close

    def _checked(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def checked(*args: Any, **kwargs: Any) -> Any:
            if not self._process.alive:
                raise Died
            return call(*args, **kwargs)

        return checked

    def begin(self) -> None:
        self._machine.scheduler.reach("begin")
        if not self._process.alive:
            raise Died
        if self._machine.scheduler.loses("the database is busy"):
            raise Fault(FaultKind.BUSY, "simulated")
        self._machine.turn.acquire()
        self._writing = True
        self._begin()

    def write(self, writes: Any, *, commit: bool) -> None:
        if not self._process.alive:
            raise Died
        scheduler = self._machine.scheduler
        if commit and scheduler.loses("a COMMIT is lost"):
            self._rollback()
            self._give_turn()
            raise Fault(FaultKind.LOST, "simulated")
        self._write(writes, commit=commit)
        if commit:
            self._give_turn()
            if scheduler.loses("the reply to a COMMIT is lost"):
                raise Fault(FaultKind.LOST, "simulated")

    def rollback(self) -> None:
        if self._process.alive:
            self._rollback()
            self._give_turn()

    def close(self) -> None:
        self._close()
        self._give_turn()

    def _give_turn(self) -> None:
        if self._writing:
            self._writing = False
            self._machine.turn.release()


def _threading(scheduler: Scheduler) -> Any:
    """A lane's replacement for the module `threading`: its locks give the baton away."""
    return SimpleNamespace(
        Lock=lambda: Lock(scheduler),
        get_ident=threading.get_ident,
        Semaphore=threading.Semaphore,
        Thread=threading.Thread,
    )
