"""A worker: takes runs that are ready, due, or left by the dead, and drives many of them at once. Keeps P3, P7, P13, P15.

      look ──▶ claim ──▶ drive (a task each) ──▶ over, waiting, parked, or somebody else's
       ▲                                              │
       └── woken: by a commit, a death, the clock ◀───┘

Async agents share one event loop; sync agents get a thread each. Suspects (runs whose process died) are never driven beside
others: a worker of their own takes those of one dead process together, and each alone if that process dies as well; or this one
when it has nothing else. It may serve several tenants of one open store, in a fair order (`runtime.fair_order`). It calls the
verbs of the store through the caller of each tenant, and drives runs through a shell. Callers: `perdure worker`; programs that
want a worker inside them.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import msgspec

from perdure.errors import Error, Invalid, Stale, Unavailable
from perdure.log.change import Stream
from perdure.model.instants import SECOND_US
from perdure.model.pins import moved_text
from perdure.model.records.runs import RunStatus
from perdure.model.records.workers import About
from perdure.planes.execution import leases, runs, workers
from perdure.planes.execution.leases import Company, Lease
from perdure.planes.execution.workers import FoundRun, Look
from perdure.planes.memory import upkeep
from perdure.planes.recovery import presence
from perdure.runtime import log_context
from perdure.runtime.agent import Agent
from perdure.runtime.callers import AsyncCaller
from perdure.runtime.driver import Drive
from perdure.runtime.fair_order import FairOrder
from perdure.runtime.shells import RunMaker, adrive
from perdure.runtime.stalled_loops import LoopWatchdog
from perdure.runtime.stopping import Leaving
from perdure.stores.watch import Watch

log = logging.getLogger("perdure.worker")

FOUND_MAX = 100  # runs that one look finds
CALM_SECONDS = 0.005  # at least, between two looks that commits of others ask for
CALM_LOOKS = 20  # and so many times as long as the last look took: a busy store costs an idle worker 5 % at most
SERVING_LOOKS = (
    5  # instead, beside other tenants: its own commits wake it, too, and would hide a tenant that comes meanwhile
)
SUSPECTED_SECONDS = 0.1  # after which a suspect that nobody has taken needs another process
CANCEL_SECONDS = 5.0  # for runs to give themselves back after the time of grace
THREADS_SECONDS = 1.0  # for threads to come back once their worker has ended
SPARE_THREADS = 32  # for sync steps of async agents
THREADS = "perdure-agent"
TIDY_SECONDS = 600.0
INDEX_SECONDS = 2.0  # at least, from one time that all was indexed to the next look
INDEX_REST_SECONDS = 0.01  # between two batches: others may want the store
INDEX_AGAIN_SECONDS = 60.0  # after it failed
WORKING = "worker"  # the heartbeat's reason while there is no run
TROUBLED = (RunStatus.FAILED, RunStatus.PARKED)  # how a run stands when somebody should look at it
AGAIN_SECONDS = (0.1, 0.5, 1.0, 2.0, 5.0)  # pauses after the store did not answer


class WorkerSettings(msgspec.Struct, frozen=True):
    """How a worker works. poll: how often it looks by itself. grace: how long runs may continue when it is to end.

    suspects_only: take only suspects, those of one death at a time, and end when there are none; a standby waits for the next
    instead, until it has had some. indexes: while it has no run, it indexes what was said and makes vectors.
    """

    concurrency: int = 10
    poll_seconds: float = 1.0
    grace_seconds: float = 5.0
    supervisor: int = 0
    suspects_only: bool = False
    standby: bool = False
    indexes: bool = False

    def check(self) -> None:
        """Refuse what makes no sense. Raises Invalid."""
        if self.concurrency < 1:
            raise Invalid(f"expected at least 1 run at once, got {self.concurrency}", path="concurrency")
        if self.poll_seconds <= 0 or self.grace_seconds < 0:
            raise Invalid("expected a positive time", path="poll" if self.poll_seconds <= 0 else "grace")


class Worker:
    """Drives runs until it is told to stop. For one event loop; `stop` may be called from its signal handlers.

    also: callers of further tenants, in the same open store.
    run_for: makes the run that an agent's function gets. isolate: asks for so many processes for suspects; without it they wait
    here until it is alone. relieve: says that this standby has something to do, so that another one stands by. begin: says that
    it takes its first run.
    """

    def __init__(
        self, caller: AsyncCaller, agents: dict[str, Agent], settings: WorkerSettings, run_for: RunMaker,
        isolate: Callable[[int], None] | None = None, relieve: Callable[[], None] = lambda: None,
        begin: Callable[[], None] = lambda: None, leave: Callable[[], None] = lambda: None,
        also: Sequence[AsyncCaller] = (),
    ) -> None:  # fmt: skip
        settings.check()
        self._caller = caller
        self._callers = (caller, *also)
        self._others = {each.tenant: each for each in also}
        self._fair = FairOrder(several=bool(also))
        self._core = caller.core
        self._run_for = run_for
        self._tidy_at = 0.0
        self._agents = agents
        self._settings = settings
        self._isolate = isolate
        self._relieve = relieve
        self._begin = begin
        self._begun = False
        self._stands_by = settings.standby
        self._running: dict[asyncio.Task[None], tuple[Agent, Lease]] = {}
        self._claiming: set[bytes] = set()
        self._wake = asyncio.Event()
        self._leaving = asyncio.Event()
        self._hurried = asyncio.Event()
        self._unsure = False  # whether a claim or an end was sent whose outcome nobody heard
        self._suspected: dict[bytes, float] = {}  # suspects that wait to be taken, and since when they are seen
        self._look_seconds = 0.0
        self._fellows = FOUND_MAX  # the living workers, as the last look found them
        self._leave = leave
        self._stalls: LoopWatchdog | None = None
        self._indexing: asyncio.Task[None] | None = None
        self._index_at = 0.0

    # -- being told ----------------------------------------------------------------------------------------------------------

    def stop(self) -> None:
        """Take nothing more, let runs continue for the time of grace, then give them back. Said twice: without the grace."""
        if self._leaving.is_set():
            self._hurried.set()
        self._leaving.set()
        self._wake.set()

    def told(self) -> None:
        """The word of a signal handler besides `stop`, which runs in the event loop and so not at all while that is blocked."""
        if self._stalls is not None:
            self._stalls.told()

    def wake(self) -> None:
        """Look now: something may have become ready, or somebody may have died."""
        self._wake.set()

    # -- working -------------------------------------------------------------------------------------------------------------

    async def run(self, ready: Callable[[], None] = lambda: None) -> int:
        """Work until told to stop; returns how many runs had to be left behind (sync agents that do not come back).

        ready: called once others can see it. Raises what the store refuses with; Unavailable is waited out.
        """
        loop = asyncio.get_running_loop()
        threads = ThreadPoolExecutor(self._settings.concurrency + SPARE_THREADS, THREADS)
        loop.set_default_executor(threads)
        self._stalls = LoopWatchdog(self._settings.grace_seconds, self._leave, lambda: len(self._awaited()) > 1)
        await asyncio.gather(*(self._introduce(each) for each in self._callers))
        ready()
        log.info("working", extra={"worker": self._core.holder, "agents": ", ".join(self._agents)})
        watch = Watch(self._core.engine, self._core.liveness.folder, commits=not self._settings.suspects_only)
        listener = threading.Thread(target=self._listen, args=(watch, loop), name="perdure-watch", daemon=True)
        listener.start()
        try:
            await self._work()
        finally:
            left = await self._drain()
            self._stalls.close()
            watch.interrupt()
            await loop.run_in_executor(None, listener.join)
            watch.close()
            threads.shutdown(wait=False, cancel_futures=True)
        return left

    async def close(self) -> None:
        """Leave cleanly, and close the store: what was leased is free at once."""
        for each in self._callers:
            await each.write(workers.leave, self._core.holder)
            await each.work(each.heartbeat.close)
        await self._caller.work(self._core.close)

    async def _introduce(self, caller: AsyncCaller) -> None:
        """Begin the heartbeat in a tenant, and say there what this worker can do. The lock file that proves its death comes
        first.
        """
        core, settings = self._core, self._settings
        core.liveness.begin()
        dead = [each for each in await caller.read(workers.holders) if core.liveness.is_dead(each)]
        about = About(
            os.getpid(), tuple(self._agents), settings.concurrency, settings.supervisor, settings.suspects_only,
            tuple(each.program for each in self._agents.values()),
        )  # fmt: skip
        await caller.write(workers.introduce, core.holder, about, dead)
        caller.heartbeat.hold(WORKING)

    def _caller_of(self, stream: Stream) -> AsyncCaller:
        """The caller of the tenant that a run belongs to."""
        return self._others.get(stream.tenant, self._caller)

    def _listen(self, watch: Watch, loop: asyncio.AbstractEventLoop) -> None:
        """On a thread: wake the worker when others wrote; not more often than looking is worth."""
        while not self._leaving.is_set():
            if watch.wait(self._settings.poll_seconds):
                loop.call_soon_threadsafe(self._wake.set)
                watch.rest(self._calm_seconds())

    def _calm_seconds(self) -> float:
        """Never longer than it looks by itself: a look may have waited for a store that was away."""
        looks = SERVING_LOOKS if self._others and self._running else CALM_LOOKS
        return min(max(CALM_SECONDS, looks * self._look_seconds), self._settings.poll_seconds)

    async def _work(self) -> None:
        failures = 0
        while not self._leaving.is_set():
            self._wake.clear()
            try:
                pause = await self._look()
                failures = 0
            except Unavailable as error:
                pause = AGAIN_SECONDS[min(failures, len(AGAIN_SECONDS) - 1)]
                failures += 1
                log.warning("the store does not answer: %s", error)
            if pause is None:
                return
            await _until(self._wake, pause)

    async def _look(self) -> float | None:
        """Take what there is to take; returns how long to wait if nothing happens, None when this worker is done."""
        began = time.monotonic()
        room, at_work = self._room()
        open_ones = [each for each in self._agents.values() if each.limit is None or at_work[each.name] < each.limit]
        await self._tidy()
        limit = self._found_max(room) if room and open_ones else 0
        seen = await self._look_at_all(open_ones, limit)
        if self._unsure or sum(each.held for each in seen) > len(self._running):
            await self._find_lost()
        suspects = [found for each in seen for found in each.suspects if self._can_drive(found)]
        self._look_seconds = time.monotonic() - began
        self._fellows = max(each.workers for each in seen)
        if self._settings.suspects_only:
            return await self._take_next(suspects)
        if not await self._see_to(suspects):
            drivable = ((look, [*filter(self._can_drive, look.takeable)]) for look in seen)
            wanted = [run for look, runs in drivable for run in look.in_own_order(runs, room)]
            await self._take(wanted, room, at_work)
        self._begin_to_index()
        soon = SUSPECTED_SECONDS if suspects else self._settings.poll_seconds
        due_us = min((each.wake_left_us or math.inf for each in seen), default=math.inf)
        return min(soon, self._settings.poll_seconds, due_us / SECOND_US)

    def _found_max(self, room: int) -> int:
        """How many runs of a tenant a look finds: as many as shares are made of, and more if some may not be taken."""
        most = FOUND_MAX // len(self._callers)
        if all(each.limit is None for each in self._agents.values()):
            most = min(most, room * self._fellows * workers.OVERTAKING)
        return max(most, room)

    async def _look_at_all(self, open_ones: Sequence[Agent], limit: int) -> list[Look]:
        """The work for these agents in each tenant. A tenant that has forgotten this worker learns of it.

        An idle worker holds two connections to a server: the one that writes, and the one that hears of news.
        """
        wanted = workers.drivable([each.name for each in open_ones], [each.program for each in open_ones])
        about = (workers.look, wanted, limit, self._core.liveness.is_dead, self._core.holder)
        idle = self._is_idle()
        seen = await asyncio.gather(*(each.borrow(*about) if idle else each.read(*about) for each in self._callers))
        for caller, each in zip(self._callers, seen, strict=True):
            if not each.introduced:
                await self._introduce(caller)
        return seen

    async def _tidy(self) -> None:
        """Now and then, remove the heartbeats and lock files of the dead that prove nothing any more."""
        now = time.monotonic()
        if now >= self._tidy_at:
            self._tidy_at = now + TIDY_SECONDS
            await self._caller.work(
                presence.tidy, self._core, self._caller.actor, [each.tenant for each in self._callers]
            )

    def _begin_to_index(self) -> None:
        """With nothing to drive, index what waits: beside the looks, so that a run that comes is taken at once."""
        if self._settings.indexes and self._is_idle() and self._indexing is None and time.monotonic() >= self._index_at:
            self._indexing = asyncio.create_task(self._index())

    def _is_idle(self) -> bool:
        return not (self._running or self._claiming or self._leaving.is_set())

    async def _index(self) -> None:
        """Index a little at a time, until nothing waits or a run has come. It is derived: a failure costs nobody anything."""
        pause = INDEX_SECONDS
        try:
            waiting = [caller.tenant for caller in self._callers]
            while waiting and self._is_idle():
                waiting = [each for each in waiting if await self._caller.work(upkeep.bring_some, self._core, each)]
                await _until(self._leaving, INDEX_REST_SECONDS)
        except Error as error:
            log.warning("turns and memories are not indexed: %s", error)
            pause = INDEX_AGAIN_SECONDS
        self._index_at = time.monotonic() + pause
        self._indexing = None

    def _can_drive(self, found: FoundRun) -> bool:
        """Whether it has the program for a run: else no process that is started for it here could take it."""
        agent = self._agents.get(found.agent)
        return agent is not None and found.pinned in (None, agent.program)

    def _room(self) -> tuple[int, Counter[str]]:
        """How many more runs there is room for, and how many each agent has at work."""
        at_work = [self._running[task][0].name for task in self._awaited()]
        return 0 if self._settings.suspects_only else self._settings.concurrency - len(at_work), Counter(at_work)

    def _awaited(self) -> set[asyncio.Task[None]]:
        """The drives that are waited for: not those whose runs came to rest though their programs do not end."""
        return {task for task, (_, lease) in self._running.items() if not lease.forsaken}

    async def _take(self, wanted: Sequence[FoundRun], room: int, at_work: Counter[str]) -> None:
        """Claim as many as there is room for, all at once, the tenants in turns."""
        tenants = Counter(self._running[task][1].stream.tenant for task in self._awaited())
        chosen = self._fair.choose(wanted, room, tenants, partial(self._fits, at_work))
        await asyncio.gather(*(self._claim(found, Company.ANY) for found in chosen))

    def _fits(self, at_work: Counter[str], found: FoundRun) -> bool:
        """Whether its agent may have one more run at work; it counts it."""
        limit = self._agents[found.agent].limit
        if limit is not None and at_work[found.agent] >= limit:
            return False
        at_work[found.agent] += 1
        return True

    async def _claim(self, found: FoundRun, company: Company) -> asyncio.Task[None] | None:
        agent = self._agents[found.agent]
        core = self._core
        gone = {found.holder} if found.holder and core.liveness.is_dead(found.holder) else ()
        self._claiming.add(found.uid)
        try:
            lease = await self._caller_of(found.stream).write(
                leases.claim, found.stream, holder=core.holder, program=agent.program, epoch=core.epoch, dead=gone,
                company=company, pins=agent.versions, on_change=agent.on_change,
            )  # fmt: skip
            if lease is None:
                return None
            lease.driven_by_worker = True
            if not self._begun:
                self._begun = True
                self._begin()
            task = asyncio.create_task(self._drive(found, agent, lease))
            self._running[task] = (agent, lease)
            task.add_done_callback(self._ended)
            return task
        except Error as error:
            self._unsure = True
            log.warning("a run could not be taken: %s", error, extra={"run": found.stream.name, "agent": found.agent})
            return None
        finally:
            self._claiming.discard(found.uid)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._running.pop(task, None)
        self._wake.set()

    async def _drive(self, found: FoundRun, agent: Agent, lease: Lease) -> None:
        """Drive one run to its rest. An error in here is this run's alone."""
        with log_context.driving(found.stream.name, found.agent, found.parent):
            log_context.note(asyncio.current_task())
            log.info("taken", extra={"token": lease.token})
            if lease.moved:
                log.warning("it continues under other versions", extra={"versions": moved_text(lease.moved)})
            try:
                drive = await adrive(self._caller_of(found.stream), agent, lease, self._run_for)
            except (Leaving, asyncio.CancelledError):
                log.info("given back")
            except Unavailable as error:
                log.warning("the store does not answer: %s", error)
                await self._release(lease)
            except Exception as error:
                log.exception("it cannot be driven")
                await self._park(lease, error)
            else:
                _tell(drive)

    async def _release(self, lease: Lease) -> None:
        """Give a run back as soon as the store answers. Nobody else can have it while this worker lives."""
        for pause in AGAIN_SECONDS:
            try:
                await self._caller_of(lease.stream).write(leases.fenced, lease, runs.release)
                return
            except Stale:
                return
            except Error as error:
                log.warning("the run cannot be given back: %s", error)
            await asyncio.sleep(pause)
        self._unsure = True

    async def _park(self, lease: Lease, error: Exception) -> None:
        try:
            said = f"{type(error).__name__}: {error}"
            await self._caller_of(lease.stream).write(leases.fenced, lease, runs.park, "broken", said)
        except Stale:
            return
        except Error:
            self._unsure = True

    async def _find_lost(self) -> None:
        """Give back what this worker has without driving it: what a lost answer of the store left behind, or a driver that
        found its lease lapsed where nobody had taken the run.
        """
        self._unsure = False
        known = {lease.stream.uid for _, lease in self._running.values()} | self._claiming
        for caller in self._callers:
            for found in await caller.read(workers.held_by, self._core.holder):
                known |= {lease.stream.uid for _, lease in self._running.values()}
                if found.uid not in known:
                    await caller.write(workers.give_back, found.stream, self._core.holder)
                    self._wake.set()

    # -- suspects ------------------------------------------------------------------------------------------------------------

    async def _see_to(self, suspects: list[FoundRun]) -> bool:
        """Whether nothing else is to be taken now, because suspects wait until this worker is alone."""
        if self._isolate is None:
            if suspects and not self._running:
                await self._take_suspects(suspects)
            return bool(suspects)
        now = time.monotonic()
        self._suspected = {each.uid: self._suspected.get(each.uid, now) for each in suspects}
        waiting = [each for each in suspects if self._suspected[each.uid] <= now - SUSPECTED_SECONDS]
        if waiting:
            self._isolate(len(_apart(waiting)))
        return False

    async def _take_next(self, suspects: list[FoundRun]) -> float | None:
        """The work of a worker for suspects: those of one death, or one of them; for the others it asks for more processes."""
        others = len(_apart(suspects)) - 1
        if others > 0 and self._isolate is not None:
            self._isolate(others)
        if suspects and await self._take_suspects(suspects):
            return 0.0
        return self._settings.poll_seconds if self._stands_by else None

    async def _take_suspects(self, suspects: list[FoundRun]) -> bool:
        """Drive some that may be driven together, to their rest; whether any could be had."""
        groups = _apart(suspects)
        at = int(self._core.holder[:8], 16) % len(groups)
        for group in [*groups[at:], *groups[:at]]:
            company = Company.NOBODY if group[0].suspect else Company.FELLOWS
            chosen = [*filter(partial(self._fits, Counter()), group)][: self._settings.concurrency]
            tasks = await asyncio.gather(*(self._claim(found, company) for found in chosen))
            if taken := {task for task in tasks if task is not None}:
                await self._see_through(taken)
                return True
        return False

    async def _see_through(self, tasks: set[asyncio.Task[None]]) -> None:
        """Until these runs rest, or this worker is to end. It stands by no longer: another one does."""
        if self._stands_by:
            self._stands_by = False
            self._relieve()
        while left := {task for task in tasks if not task.done()}:
            await _first(left, self._leaving)
            if self._leaving.is_set():
                return

    # -- ending --------------------------------------------------------------------------------------------------------------

    async def _drain(self) -> int:
        """Wait for what runs, then make it give itself back; returns how many do neither."""
        self._leaving.set()
        if waited := self._awaited():
            log.info("letting %d runs continue for %g s", len(waited), self._settings.grace_seconds)
            await self._wait_for_runs(self._settings.grace_seconds, self._hurried)
        for task, (agent, lease) in [*self._running.items()]:
            lease.leaving = True
            if agent.is_async:
                task.cancel()
        await self._wait_for_runs(CANCEL_SECONDS)
        if self._indexing is not None:
            await asyncio.wait({self._indexing}, timeout=CANCEL_SECONDS)
        if self._running:
            log.warning("%d runs do not stop: they continue elsewhere once this process is gone", len(self._running))
        return len(self._running)

    async def _wait_for_runs(self, seconds: float, sooner: asyncio.Event | None = None) -> None:
        sooner = sooner or asyncio.Event()
        deadline = time.monotonic() + seconds
        while (waited := self._awaited()) and not sooner.is_set() and (left := deadline - time.monotonic()) > 0:
            await _first(waited, sooner, left)


def _tell(drive: Drive) -> None:
    """How a run came to its rest."""
    level = logging.WARNING if drive.status in TROUBLED else logging.INFO
    log.log(level, drive.status or "lost to another", extra={"why": drive.why} if drive.why else {})


def _apart(suspects: Iterable[FoundRun]) -> list[list[FoundRun]]:
    """Suspects as they may be driven, a process each: those of one death together, a suspect for the second time alone."""
    groups: dict[Any, list[FoundRun]] = {}
    for found in suspects:
        groups.setdefault(found.uid if found.suspect else found.holder, []).append(found)
    return list(groups.values())


def threads_at_work() -> int:
    """How many threads of a worker that has ended do not come back: steps and agents that nothing can stop."""
    deadline = time.monotonic() + THREADS_SECONDS
    while found := sum(each.name.startswith(THREADS) for each in threading.enumerate()):
        if time.monotonic() > deadline:
            return found
        time.sleep(0.01)
    return 0


async def _first(tasks: set[asyncio.Task[None]], event: asyncio.Event, seconds: float | None = None) -> None:
    """Until one of the tasks is done, the event is set, or the time is over."""
    waiting = asyncio.ensure_future(event.wait())
    try:
        await asyncio.wait({*tasks, waiting}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiting.cancel()


async def _until(event: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(max(seconds, 0.001)):
            await event.wait()
    except TimeoutError:
        return
