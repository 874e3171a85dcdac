"""What a worker needs of an open store: finding, claiming and driving runs. By hand, in async form, like the callers.

The rules of a worker are in `runtime/worker.py`, which does not know handles: a door makes a desk and hands it over. `tree` is
what `perdure workers` shows. Keeps P3, P7, P13.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from importlib import import_module
from typing import TYPE_CHECKING

from perdure.effects import rewound
from perdure.handles import crossing
from perdure.handles.callers import AsyncCaller
from perdure.handles.opening import keep_views
from perdure.model.limits import check_name
from perdure.model.records.workers import About, StrandedRecord, WorkersRecord
from perdure.planes import leasing, presence, runs, workers
from perdure.planes.leasing import Company, Lease
from perdure.planes.workers import Found, Look
from perdure.runtime.agent import Agent
from perdure.runtime.course import Drive
from perdure.stores.core import KEEP_SECONDS, Core, open_core
from perdure.stores.watch import Watch

if TYPE_CHECKING:
    from perdure.handles.sync.store import Store

DRIVERS = ("perdure.handles.aio.driving", "perdure.handles.sync.driving")
TIDY_SECONDS = 600.0
WORKING = "worker"  # what the heartbeat goes on for while there is no run


class AsyncDesk:
    """One open store as a worker's: see `runtime.worker.Desk`. Open and closed by `open_desk` and `close`."""

    def __init__(self, caller: AsyncCaller) -> None:
        self._caller = caller
        self._core: Core = caller.core
        self.holder = caller.core.holder
        self._tidy_at = 0.0

    async def introduce(self, about: About) -> None:
        """Begin the heartbeat, and say what this worker can do. The lock file that proves its death comes first."""
        self._core.living.begin()
        dead = [each for each in await self._caller.read(workers.holders) if self._core.living.is_dead(each)]
        await self._caller.write(workers.introduce, self.holder, about, dead)
        self._caller.heartbeat.hold(WORKING)

    async def look(self, agents: Collection[Agent], limit: int) -> Look:
        """What there is to do: runs of these agents that are ready or due, and runs whose holders are gone."""
        await self._tidy()
        wanted = workers.drivable([each.name for each in agents], [each.program for each in agents])
        return await self._caller.read(workers.look, wanted, limit, self._core.living.is_dead, self.holder)

    async def _tidy(self) -> None:
        """Now and then, remove the lock files of the dead that prove nothing any more."""
        now = time.monotonic()
        if now >= self._tidy_at:
            self._tidy_at = now + TIDY_SECONDS
            await self._caller.work(presence.tidy, self._core)

    async def lost(self, known: Collection[bytes]) -> list[Found]:
        """Runs that this holder has, but for those that it knows of."""
        found = await self._caller.read(workers.held_by, self.holder)
        return [each for each in found if each.uid not in known]

    async def claim(self, found: Found, agent: Agent, company: Company) -> Lease | None:
        """Take a run; None when it is not to be had. Atomic; of many who try, one gets it."""
        gone = {found.holder} if found.holder and self._core.living.is_dead(found.holder) else ()
        lease = await self._caller.write(
            leasing.claim, found.stream, holder=self.holder, program=agent.program, epoch=self._core.epoch,
            dead=gone, company=company,
        )  # fmt: skip
        if lease is not None:
            lease.hired = True
        return lease

    async def drive(self, agent: Agent, lease: Lease) -> Drive:
        """Drive a run to its rest: an async agent here, a sync one on a thread of its own."""
        return await crossing.adrive(self._caller, agent, lease)

    async def release(self, lease: Lease) -> None:
        """Give a run back. Stale if it is somebody else's by now."""
        await self._caller.write(leasing.fenced, lease, runs.release)

    async def give_back(self, found: Found) -> None:
        """Give a run back that this holder has without a lease to show for it."""
        await self._caller.write(workers.give_back, found.stream, self.holder)

    async def park(self, lease: Lease, why: str) -> None:
        """Leave a run to people. Stale if it is somebody else's by now."""
        await self._caller.write(leasing.fenced, lease, runs.park, "broken", why)

    def watch(self, *, commits: bool) -> Watch:
        """What says that somebody else died, or wrote."""
        return Watch(self._core.engine, self._core.living.folder, commits=commits)

    async def close(self) -> None:
        """Leave cleanly: what was leased is free at once."""
        await self._caller.write(workers.leave, self.holder)
        await self._caller.work(self._leave)

    def _leave(self) -> None:
        self._caller.heartbeat.close()
        self._core.close()


def open_desk(
    url: str, *, actor: str, tenant: str, lease_seconds: float, keep_seconds: float = KEEP_SECONDS
) -> AsyncDesk:
    """Open a store for a worker. lease_seconds: after so long without a heartbeat others take its runs. keep_seconds: for so
    long a result that cannot be recorded is kept and tried again.
    """
    for module in DRIVERS:  # now, not at the first run: code that is replaced meanwhile must not be half loaded
        import_module(module)
    core = open_core(url, lease_seconds=lease_seconds)
    core.keep_seconds = keep_seconds
    try:
        rewound.notice(core)
        keep_views(core)
        return AsyncDesk(AsyncCaller(core, check_name(actor, "actor"), core.tenant_id(check_name(tenant, "tenant"))))
    except BaseException:
        core.close()
        raise


def stranded(store: Store) -> dict[str, StrandedRecord]:
    """Runs, by their ids, that could be taken, and are pinned to a program that no living worker has."""
    return {each.run: each for each in store._caller.read(workers.stranded)}


def tree(store: Store) -> WorkersRecord:
    """Who lives, who runs what since when, and what waits for somebody to take it."""
    caller = store._caller
    return caller.read(workers.tree, caller.core.living.is_dead)
