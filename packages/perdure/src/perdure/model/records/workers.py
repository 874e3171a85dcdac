"""Records of workers, of the runs that they hold, and of the runs that wait for a worker."""

from __future__ import annotations

from datetime import datetime

import msgspec


class About(msgspec.Struct, frozen=True):
    """A worker's description of itself.

    supervisor: the process that started it; 0 when it stands alone.
    agents, programs: the names of the agents that it can drive, and their versions.
    suspects: whether it takes only runs whose process died, one at a time.
    """

    pid: int
    agents: tuple[str, ...]
    concurrency: int
    supervisor: int = 0
    suspects: bool = False
    programs: tuple[str, ...] = ()


class HeldRecord(msgspec.Struct, frozen=True):
    """A run that a process holds. doing: the last thing that it recorded; quiet_seconds: how long ago that was."""

    run: str
    agent: str
    parent: str | None
    session: str | None
    since: datetime
    doing: str
    last_at: datetime
    quiet_seconds: float
    deaths: int
    suspect: bool
    cancelling: bool


class WorkerRecord(msgspec.Struct, frozen=True):
    """One worker, or another process that holds runs. about: None for a process that did not register as a worker."""

    holder: str
    actor: str
    host: str
    started_at: datetime | None
    alive: bool
    about: About | None
    runs: tuple[HeldRecord, ...]


class QueueRecord(msgspec.Struct, frozen=True):
    """The runs of one agent by status. known: whether a living worker can drive it."""

    agent: str
    known: bool
    ready: int
    running: int
    waiting: int
    parked: int
    oldest_ready_at: datetime | None


class StrandedRecord(msgspec.Struct, frozen=True):
    """A run that is ready, or due, and pinned to a program that no living worker has: no worker takes it."""

    run: str
    agent: str
    program: str
    since: datetime

    @property
    def why(self) -> str:
        """The obstacle, for people."""
        return f"pinned to program {self.program[:12]}, which no living worker has"


class WorkersRecord(msgspec.Struct, frozen=True):
    """All workers and queues at one instant, on the store's clock."""

    at: datetime
    workers: tuple[WorkerRecord, ...]
    queue: tuple[QueueRecord, ...]
    stranded: tuple[StrandedRecord, ...] = ()
