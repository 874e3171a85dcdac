"""The lane: one connection that one batch at a time may hold, and one commit for many.

A caller that finds the lane free runs its own job inline. One that finds it busy queues; the holder commits one batch, its own
job included, and passes the lane to the oldest waiter. Async callers are served by one thread, with one wake-up of the event
loop per batch. Nobody is acknowledged before the commit; after a broken batch every job is run again alone. Keeps P1, P15.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Sequence
from logging import DEBUG
from typing import TYPE_CHECKING, Any, Protocol

from perdure.errors import Error, Refused, TimedOut, Unavailable
from perdure.log.change import Stream
from perdure.model import threads
from perdure.model.crash_points import reach
from perdure.model.ids import Entropy
from perdure.stores.batch import Actor, Batch
from perdure.stores.blobs import Blobs
from perdure.stores.clocks import Clocks
from perdure.stores.commit_logging import COMMITS, EVENTS, CommitLogger
from perdure.stores.job import Job, refuse, settle, wake
from perdure.stores.rollback_guard import NotedEvent
from perdure.stores.store import RETRYABLE, Connection, Engine, Fault, FaultKind, Head, NewEvent, Writes
from perdure.stores.tx import LOG, Tx

if TYPE_CHECKING:
    import asyncio

    from perdure.stores.continuity import Continuity

BATCH_MAX_JOBS = 1024
HINTS_MAX = 20_000
ACTORS_MAX = 20_000  # that are remembered
_LOOK_SECONDS = 1.0  # how often a caller whose job is being committed looks for itself
RACES_MAX = 10  # lost races of one job, its heads locked first: more is a constraint that will never hold, not a race
RETRY_PAUSE_SECONDS = (0.0, 0.001, 0.005, 0.02, 0.05, 0.1, 0.25)


class Observer(Protocol):
    """A listener to what is committed and driven here: telemetry. Each method returns at once, whatever listens behind it."""

    def committed(self, events: Sequence[tuple[Stream, NewEvent]]) -> None:
        """A batch is durable."""
        ...

    def inside(self, stream: Stream) -> contextlib.AbstractContextManager[None]:
        """The context in which the program of a run is called."""
        ...


class Lane:
    """Runs jobs in batches on one connection. Safe to call from any number of threads and event loops."""

    def __init__(
        self,
        engine: Engine,
        blobs: Blobs,
        clocks: Clocks,
        timeout_seconds: float = 30.0,
        continuity: Continuity | None = None,
    ) -> None:
        self._engine = engine
        self._blobs = blobs
        self._clocks = clocks
        self._continuity = continuity
        self._timeout_seconds = timeout_seconds
        self.after_batch: Callable[[], None] | None = None  # called after each batch, when every job has its outcome
        self.observer: Observer | None = None  # hears of every commit
        self._entropy = Entropy()
        self._commit_logger = CommitLogger(engine.url)
        self._connection: Connection | None = None
        self._hints: OrderedDict[int, Head] | None = None if engine.exact_heads else OrderedDict()
        self.actors: dict[Actor, str] = {}  # their random names in headers (log/actors.py)
        self._mutex = threading.Lock()
        self._free = True
        self._owner = 0  # the thread that holds the lane
        self._closed = False
        self._refused: Error | None = None  # why nothing more may be written here
        self._stopping = False
        self._queue: deque[Job] = deque()
        self._watched: set[asyncio.AbstractEventLoop] = set()  # event loops whose queued jobs have a timer
        self._raced: set[int] = set()  # streams of the last attempt that failed: locked first in the next
        self._pid = os.getpid()
        self._thread: threading.Thread | None = None
        self._baton = threading.Semaphore(0)  # passes the lane to the thread that serves async callers

    # -- callers -----------------------------------------------------------------------------------------------------------

    def run(self, job: Job) -> Any:
        """Run a job and wait for its commit. Raises what the verb raised, or why it could not be committed."""
        if self._pid != os.getpid():
            raise _forked()
        try:
            if self._enter(job) or self._wait(job):
                self._hold(job)
        except BaseException:
            self._leave(job)
            raise
        if job.error is not None:
            raise job.error
        return job.result

    def submit(self, job: Job) -> asyncio.Future[Any]:
        """Queue a job for an async caller; the future is done when its batch is committed."""
        from asyncio import get_running_loop  # noqa: PLC0415 - only async callers pay for asyncio

        self.check_process()
        loop = get_running_loop()
        job.future = loop.create_future()
        job.deadline = time.monotonic() + self._timeout_seconds
        with self._mutex:
            if self._closed or self._refused is not None:
                raise self._refusal()
            self._begin_serving()  # first: a job that nobody would serve is not queued
            self._queue.append(job)
            idle, self._free = self._free, False
        if idle:
            self._baton.release()
        elif loop not in self._watched:  # behind a holder that may have the lane for long
            with self._mutex:
                self._watched = {each for each in self._watched if not each.is_closed()} | {loop}
            loop.call_later(self._timeout_seconds, self._expire, loop)
        return job.future

    def _expire(self, loop: asyncio.AbstractEventLoop) -> None:
        """Refuse the jobs of an event loop that have waited for their whole time; whoever gathers them leaves them out.

        One timer a loop is enough: jobs queue in the order of their deadlines, and it rings again at the next of them.
        """
        now = time.monotonic()
        with self._mutex:
            queued = [job for job in self._queue if job.future and job.future.get_loop() is loop and not job.done]
            late = [job for job in queued if job.deadline <= now]
            for job in late:
                refuse(job, _timed_out(self._timeout_seconds))
            if len(late) < len(queued):
                loop.call_later(queued[len(late)].deadline - now, self._expire, loop)
            else:
                self._watched.discard(loop)
        settle(late)

    def borrow(self, read: Callable[[Connection], Any]) -> Any:
        """Read on the lane's own connection (for stores whose readers must share it)."""
        return self.run(Job(read, (), {}, "", 0, reads=True))

    def refuse(self, why: Error) -> None:
        """Let nothing more be written: whoever comes is told why."""
        self._refused = why

    def _refusal(self) -> Error:
        """Why no job is taken any more."""
        return self._refused if self._refused is not None and not self._closed else _closed()

    def close(self) -> None:
        """Refuse new jobs, finish the queued ones, let the connection go."""
        if self._pid != os.getpid():
            return
        last = Job(lambda _tx: None, (), {}, "", 0)
        with self._mutex:
            if self._closed:
                return
            self._check_owner()
            self._closed = True
        if not self._enter(last, final=True):
            assert last.waiter is not None
            last.waiter.acquire()  # everybody before it has an outcome, and nobody can come after it
        self._let_go()

    def _let_go(self) -> None:
        if self._thread is not None:
            self._stopping = True
            self._baton.release()
            self._thread.join()
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def check_process(self) -> None:
        """Asked before any lock is touched: a lock that some thread held during the fork stays locked in the child."""
        if self._pid != os.getpid():
            raise _forked()

    def _check_owner(self) -> None:
        if self._owner == threading.get_ident():
            raise Refused(
                "a function inside store.atomic must not call the store",
                hint="use its argument: tx.session(…), tx.scope(…)",
            )

    def _enter(self, job: Job, *, final: bool = False) -> bool:
        """Whether the caller now holds the lane; if not, its job is queued."""
        job.deadline = math.inf if final else time.monotonic() + self._timeout_seconds
        with self._mutex:
            if (self._closed or self._refused is not None) and not final:
                raise self._refusal()
            if self._free:
                self._free = False
                job.holds = True
                return True
            self._check_owner()
            job.waiter = threading.Lock()
            job.waiter.acquire()
            self._queue.append(job)
            return False

    def _wait(self, job: Job) -> bool:
        """Until the job is done, or (then True) the lane is passed to its caller."""
        assert job.waiter is not None
        if not job.waiter.acquire(timeout=self._timeout_seconds):
            with self._mutex:
                if job in self._queue:
                    self._queue.remove(job)
                    raise _timed_out(self._timeout_seconds)
            while not (job.waiter.acquire(timeout=_LOOK_SECONDS) or job.done):
                continue  # it is being committed: its outcome comes
        return not job.done

    def _leave(self, job: Job) -> None:
        """The caller goes without waiting: its job is withdrawn unless it is in a batch, and the lane never stays with it."""
        with self._mutex:
            job.left = True
            if job in self._queue:
                self._queue.remove(job)
        if job.holds or job.batch:
            self._finish(job)

    # -- the holder ----------------------------------------------------------------------------------------------------------

    def _hold(self, first: Job) -> None:
        """Commit one batch that contains `first`, then pass the lane on."""
        first.batch = jobs = [first]
        try:
            self._owner = threading.get_ident()
            if self._queue or first.future is not None:  # a job that comes after this look is in the next batch
                jobs = self._gather(jobs)
            trouble = self._attempt(jobs, self._claimed(jobs) if len(jobs) > 1 else ()) if jobs else None
            if trouble is not None:
                self._try_again(jobs, trouble)
        finally:
            self._finish(first)

    def _finish(self, first: Job) -> None:
        """Pass the lane on and tell everybody. May be begun again after an interrupt: nobody is left waiting."""
        self._owner = 0
        others = len(first.batch) > 1 or first.future is not None
        if first.holds:
            self._pass_on(first, [job for job in first.batch if not job.done and job is not first] if others else ())
        if others:
            wake([job for job in first.batch if job.done and (job is not first or job.future is not None)])
        first.batch = []
        if self.after_batch is not None:
            self.after_batch()

    def _gather(self, jobs: list[Job]) -> list[Job]:
        """Add everybody who waits. Returns who gets further: not who has waited too long (async callers; others leave)."""
        with self._mutex:
            fitting, left = self._parted(jobs[0])
            jobs += fitting  # before they leave the queue: an interrupt between the two loses nobody
            self._queue = left
        now = time.monotonic()
        for job in jobs:
            if job.deadline < now and job.future is not None:
                refuse(job, _timed_out(self._timeout_seconds))
        return [job for job in jobs if not job.done]

    def _parted(self, first: Job) -> tuple[list[Job], deque[Job]]:
        """The waiting jobs that may share a commit with this one, and the others. Claims are apart from other work where they
        can be lost, because heads are not locked beforehand.
        """
        fitting: list[Job] = []
        left: deque[Job] = deque()
        for job in self._queue:
            fits = len(fitting) < BATCH_MAX_JOBS - 1 and (self._hints is None or job.contended is first.contended)
            (fitting if fits else left).append(job)
        return fitting, left

    def _pass_on(self, holder: Job, unfinished: Sequence[Job] = ()) -> None:
        """Pass the lane to the oldest waiter. Jobs without an outcome (the holder was interrupted) go back to where they were."""
        with self._mutex:
            if unfinished:
                back = [job for job in unfinished if not (job.left or job in self._queue)]
                self._queue.extendleft(reversed(back))
            if not self._queue:
                self._free, holder.holds = True, False
                return
            heir = self._queue[0]
            if heir.future is None:
                heir.holds = True
                del self._queue[0]
            holder.holds = False  # a Ctrl-C comes with a call: before these lines, or when the heir has been told
            (heir.waiter or self._baton).release()

    def _begin_serving(self) -> None:
        """Have the thread that works for async callers; it gets the lane with the baton."""
        self._thread = self._thread or threads.begin(self._serve, "perdure-lane")
        if self._thread is None:
            hint = "end some threads, or raise the limit (ulimit -u, the container's pids)"
            raise Unavailable("no thread could be started for async callers", path="store", hint=hint)

    def _serve(self) -> None:
        while True:
            self._baton.acquire()
            with self._mutex:
                if self._stopping:
                    return
                first = self._queue.popleft()
                first.holds = True
            try:
                self._hold(first)
            except BaseException as error:  # noqa: BLE001 - this thread serves everybody; the outcome is its caller's
                if not first.done:
                    refuse(first, error)
                    wake([first])

    # -- committing ------------------------------------------------------------------------------------------------------------

    def _claimed(self, jobs: list[Job]) -> set[int]:
        """The streams of several claims, whose heads are locked at once: one that is lost then takes none of the others along."""
        return {job.about for job in jobs} - {0} if self._hints is not None and jobs[0].contended else set()

    def _try_again(self, jobs: list[Job], trouble: Exception | None) -> None:
        """Give every job an outcome that got none together: after a lost race once more with the heads locked, else alone."""
        if len(jobs) > 1 and isinstance(trouble, Fault) and trouble.kind is FaultKind.RACED:
            trouble = self._attempt(jobs, self._raced)
        if trouble is not None:
            lock = self._raced if len(jobs) == 1 else ()
            for job in jobs:
                self._alone(job, trouble, lock)

    def _alone(self, job: Job, trouble: Exception, lock: Iterable[int]) -> None:
        """Run one job until it is committed, refused, or its deadline passes: a fault is never its outcome before that."""
        late = _may_pass(trouble) and time.monotonic() > job.deadline  # nobody got through, and the time went by
        if late or isinstance(trouble, CommitUnknown):
            refuse(job, _error_of(trouble))
        races = 0
        for attempt in itertools.count():
            if job.done:
                return
            error = self._attempt([job], lock)
            if error is None:
                return
            races += isinstance(error, Fault) and error.kind is FaultKind.RACED  # an outage before it is no lost race
            if _may_pass(error, races) and time.monotonic() <= job.deadline:
                lock = self._raced or lock
                self._commit_logger.retried(error, attempt)
                pause(attempt)
            else:
                self._commit_logger.failed(error, attempt)
                refuse(job, _error_of(error))

    def _attempt(self, jobs: list[Job], lock: Iterable[int] = ()) -> Exception | None:
        """Run the verbs and commit once. Returns what broke it, our own bugs included: the callers must hear of it.

        A verb's result is its job's outcome if the batch is committed, and is forgotten otherwise. On a Fault nothing is
        acknowledged and nothing is kept.
        """
        batch = None
        committing = False
        try:
            connection = self._connection or self._connect()
            connection.tenants = [jobs[0].tenant] if len(jobs) == 1 else sorted({job.tenant for job in jobs})
            if len(jobs) == 1 and jobs[0].reads:  # nobody else has the connection: no transaction is needed
                _read(jobs[0], connection)
                jobs[0].done = True
                return None
            batch = Batch(connection, self._blobs, self._entropy, self._hints, self.actors)
            connection.begin()
            if lock:
                batch.lock_heads(lock)
            elif len(jobs) > 1:
                batch.look_up({job.about for job in jobs} - {0})
            for job in jobs:
                if job.reads:
                    _read(job, connection)
                    continue
                tx = Tx(batch, job.actor, job.tenant, self._clocks, job.pin)
                try:
                    job.result, job.error = job.verb(tx, *job.args, **job.kwargs), None
                except BaseException as error:  # noqa: BLE001 - its caller's, unless it breaks the batch
                    _blame(job, tx, error)
                else:
                    batch.absorb(tx)
                finally:
                    tx.end()
            reach("lane.before_commit")
            committing = True
            batch.flush(commit=True)
            reach("lane.after_commit")
            self._committed(jobs, batch)
        except BaseException as error:  # noqa: BLE001 - as above, or an interrupt, which goes on
            return self._after(error, batch, jobs, committing=committing)
        return None

    def _after(
        self, error: BaseException, batch: Batch | None, jobs: list[Job], *, committing: bool
    ) -> Exception | None:
        """After what broke an attempt, which may be committed all the same. Returns what broke it; an interrupt goes on."""
        try:
            if batch is None or not committing or not self._learn_outcome(error, batch, jobs):
                self._give_up(error, batch)
                raise error  # noqa: TRY301 - an interrupt goes on, all else is returned below
            self._committed(jobs, batch)
        except Exception as trouble:  # noqa: BLE001 - whatever it is, each job gets its own answer
            return trouble
        if isinstance(error, Fault):
            return None
        if isinstance(error, Exception):
            return error
        raise error  # a Ctrl-C mostly arrives after the COMMIT

    def _committed(self, jobs: list[Job], batch: Batch) -> None:
        """Keep for the next batch what is committed now: heads, random names of actors, and the last event, which the database
        must have from here on. Then every job has its outcome. May be begun again after an interrupt.
        """
        hints = self._hints
        if hints is not None:
            for stream, head in batch.flushed.items():
                hints[stream] = head
                hints.move_to_end(stream)
            while len(hints) > HINTS_MAX:
                hints.popitem(last=False)
        if self._continuity is not None and batch.trail:
            stream, event = batch.trail[-1]
            self._continuity.last = event
            self._continuity.guard.note(NotedEvent(self._continuity.epoch, stream.uid, event.seq, event.hash))
        if batch.named:
            if len(self.actors) >= ACTORS_MAX:
                self.actors.clear()
            self.actors.update(batch.named)
        if COMMITS.isEnabledFor(DEBUG) or EVENTS.isEnabledFor(DEBUG):
            self._commit_logger.committed(batch.trail, len(jobs))
        if self.observer is not None and batch.trail:
            self.observer.committed(batch.trail)
        for job in jobs:
            job.done = True

    # -- the connection ----------------------------------------------------------------------------------------------------------

    def _connect(self) -> Connection:
        connection = self._engine.connect()
        if self._continuity is not None:
            try:
                self._continuity.resumed(connection)
            except BaseException:
                connection.close()
                raise
        self._connection = connection
        return connection

    def _disconnect(self) -> None:
        """Let the connection go; a database in memory lives in it, and has nothing to lose it by."""
        if self._connection is None:
            return
        if self._engine.one_connection:
            self._connection.rollback()
        else:
            self._connection.close()
            self._connection = None

    def _give_up(self, error: BaseException, batch: Batch | None) -> None:
        """Nothing of this attempt is kept; a connection that cannot be trusted any more is let go."""
        self._raced = {*batch.flushed, *batch.locked} if batch else set()
        if self._hints:
            self._hints.clear()
        if isinstance(error, Fault) and error.kind in (FaultKind.LOST, FaultKind.IO, FaultKind.READ_ONLY):
            self._disconnect()  # one that can only be read may lead to a standby: the next may find the primary
        elif self._connection is not None:
            self._connection.rollback()

    def _learn_outcome(self, error: BaseException, batch: Batch, jobs: list[Job]) -> bool:
        """`_was_committed`. A second interrupt ends the asking: nobody knows then, and no job may be run again."""
        try:
            return self._was_committed(error, batch)
        except Exception:
            raise
        except BaseException:
            for job in jobs:
                refuse(job, CommitUnknown("the caller that asked was interrupted").as_error())
            self._disconnect()
            raise

    def _was_committed(self, error: BaseException, batch: Batch) -> bool:
        """Whether a COMMIT without a good reply (lost, with a warning, or interrupted here) took place, and is as durable as any:
        asked by transaction id, never guessed.
        """
        lost = isinstance(error, Fault)
        refused = lost and error.kind not in (FaultKind.LOST, FaultKind.IO)
        if refused or isinstance(error, CommitUnknown) or not batch.trail:
            return False
        if lost:
            self._disconnect()
        deadline = time.monotonic() + self._timeout_seconds
        for attempt in itertools.count():
            try:
                found = self._ask_commit(batch.trail[0][1])
            except Fault as again:
                self._disconnect()
                if again.kind not in RETRYABLE or time.monotonic() > deadline:
                    raise CommitUnknown(again) from error
                pause(attempt)
            else:
                if found and lost and error.kind is FaultKind.IO:  # it can be read, but no sync has confirmed it (P1)
                    raise CommitUnknown(error) from error
                return found
        raise AssertionError

    def _ask_commit(self, event: NewEvent) -> bool:
        # An engine gives out a new connection only when nothing of the lost one can still happen.
        connection = self._connection or self._connect()
        history = self._engine.history_of(connection)
        if history is not None and history.recovers:
            raise Fault(FaultKind.LOST, "a standby answers, which does not know what became of a commit")
        connection.rollback()
        connection.tenants = (event.tenant,)
        found = connection.query(LOG.event_tx, {"stream": event.stream, "seq": event.seq})
        if not found or bytes(found[0][0]) != event.tx:
            return False
        if connection.is_server:  # it is in the primary; a standby may not have it yet
            connection.begin()
            connection.write(Writes(), commit=True)
        return True


class Tainted(Exception):
    """A verb failed after some of its writes had reached the transaction: the whole batch must be rolled back."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(str(error))
        self.error = error


class CommitUnknown(Exception):
    """The database was lost during a COMMIT, or did not wait for its standby, and could not be asked in time."""

    def as_error(self) -> Error:
        """The error that each caller gets."""
        return Unavailable(
            f"a commit may have been written; the outcome is not known: {self}",
            path="store",
            hint="look before you write again; with key= a repetition is safe",
        )


def _forked() -> Refused:
    return Refused("the store was opened before a fork", path="store", hint="open it again in the child process")


def _closed() -> Refused:
    return Refused("the store is closed", path="store")


def _timed_out(seconds: float) -> TimedOut:
    hint = "try again later, or open the store with a longer timeout"
    return TimedOut(f"the store was busy for {seconds:g} s; nothing was written", path="store", hint=hint)


def _may_pass(error: Exception, races: int = 0) -> bool:
    """Whether trying again may help: the fault can pass by itself, and is not a race that can no longer be one."""
    if not isinstance(error, Fault) or error.kind not in RETRYABLE:
        return False
    return error.kind is not FaultKind.RACED or races <= RACES_MAX


def _error_of(error: Exception) -> BaseException:
    """The error that the caller of a failed job gets."""
    if isinstance(error, Tainted):
        return error.error
    return error.as_error() if isinstance(error, (Fault, CommitUnknown)) else error


def pause(attempt: int) -> None:
    """Wait before the next attempt: not at all, then longer and longer."""
    time.sleep(RETRY_PAUSE_SECONDS[min(attempt, len(RETRY_PAUSE_SECONDS) - 1)])


def _blame(job: Job, tx: Tx, error: BaseException) -> None:
    """The error of a verb is the outcome of its job. Raises what breaks the whole batch."""
    if isinstance(
        error, (Fault, KeyboardInterrupt)
    ):  # a Ctrl-C is for the thread that holds the lane, whoever's job this is
        raise error
    tx.check()
    if tx.flushed_early:
        raise Tainted(error) from error
    job.result, job.error = None, error


def _read(job: Job, connection: Connection) -> None:
    """Run a job that only reads; its result is its outcome."""
    try:
        job.result, job.error = job.verb(connection), None
    except (Fault, KeyboardInterrupt):  # as for a verb that writes
        raise
    except BaseException as error:  # noqa: BLE001 - its caller's
        job.result, job.error = None, error
