"""The lane: one connection that one batch at a time may hold, and one commit for many (DESIGN §4).

A caller that finds the lane free runs its own job inline. One that finds it busy queues; the holder commits one batch, its own
job included, and passes the lane to the oldest waiter. Async callers are served by one thread, with one wake-up of the event
loop per batch. Nobody is acknowledged before the commit; after a broken batch every job is run again alone. Keeps P1, P15.
"""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from perdure.errors import Error, Refused, TimedOut, Unavailable
from perdure.model.ids import Entropy
from perdure.model.points import reach
from perdure.stores.blobs import Blobs
from perdure.stores.store import RETRYABLE, Connection, Engine, Fault, FaultKind, Head
from perdure.stores.tx import LOG, Batch, Clocks, Tx

if TYPE_CHECKING:
    import asyncio

BATCH_MAX_JOBS = 1024
HINTS_MAX = 20_000
RETRY_PAUSE_SECONDS = (0.0, 0.001, 0.005, 0.02, 0.05, 0.1, 0.25)


class Job:
    """One verb to be run in a transaction of its own, though it may share a commit."""

    __slots__ = ("actor", "args", "done", "error", "future", "kwargs", "loop", "pin", "result", "tenant", "verb", "waiter")

    def __init__(self, verb: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], actor: str, tenant: int,
                 pin: str = "") -> None:  # fmt: skip
        self.verb = verb
        self.args = args
        self.kwargs = kwargs
        self.actor = actor
        self.tenant = tenant
        self.pin = pin
        self.result: Any = None
        self.error: BaseException | None = None
        self.done = False
        self.waiter: threading.Lock | None = None
        self.loop: asyncio.AbstractEventLoop | None = None
        self.future: asyncio.Future[Any] | None = None

    def outcome(self) -> Any:
        """The verb's result, or its error."""
        if self.error is not None:
            raise self.error
        return self.result


class Lane:
    """Runs jobs in batches on one connection. Safe to call from any number of threads and event loops."""

    def __init__(self, engine: Engine, blobs: Blobs, clocks: Clocks, timeout_seconds: float = 30.0) -> None:
        self._engine = engine
        self._blobs = blobs
        self._clocks = clocks
        self._timeout_seconds = timeout_seconds
        self._entropy = Entropy()
        self._connection: Connection | None = None
        self._hints: OrderedDict[int, Head] = OrderedDict()
        self._mutex = threading.Lock()
        self._free = True
        self._closed = False
        self._stopping = False
        self._queue: deque[Job] = deque()
        self._raced: list[int] = []  # streams of the last attempt that failed: locked first in the next
        self._pid = os.getpid()
        self._thread: threading.Thread | None = None
        self._baton = threading.Semaphore(0)  # passes the lane to the thread that serves async callers

    # -- callers -----------------------------------------------------------------------------------------------------------

    def run(self, job: Job) -> Any:
        """Run a job and wait for its commit. Raises what the verb raised, or why it could not be committed."""
        if not self._enter(job):
            self._wait(job)
            if job.done:
                return job.outcome()
        self._hold(job)
        return job.outcome()

    def submit(self, job: Job) -> asyncio.Future[Any]:
        """Queue a job for an async caller; the future is done when its batch is committed."""
        from asyncio import get_running_loop  # noqa: PLC0415 - only async callers pay for asyncio

        job.loop = get_running_loop()
        job.future = job.loop.create_future()
        with self._mutex:
            self._check_open()
            self._queue.append(job)
            idle, self._free = self._free, False
        if idle:
            self._serve_async()
        return job.future

    def borrow(self, read: Callable[[Connection], Any]) -> Any:
        """Read on the lane's own connection (for stores whose readers must share it)."""
        return self.run(Job(lambda tx: read(tx._batch.connection), (), {}, "", 0))  # noqa: SLF001

    def close(self) -> None:
        """Refuse new jobs, finish the queued ones, let the connection go."""
        if self._pid != os.getpid():
            return
        last = Job(lambda _tx: None, (), {}, "", 0)
        with self._mutex:
            if self._closed:
                return
            self._closed = True
        if not self._enter(last, final=True):
            assert last.waiter is not None
            last.waiter.acquire()
            if not last.done:
                self._hold(last)
        else:
            self._hold(last)
        self._let_go()

    def _let_go(self) -> None:
        if self._thread is not None:
            self._stopping = True
            self._baton.release()
            self._thread.join()
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _check_open(self) -> None:
        if self._closed:
            raise Refused("the store is closed")
        if self._pid != os.getpid():
            raise Refused("the store was opened before a fork", hint="open it again in the child process")

    def _enter(self, job: Job, *, final: bool = False) -> bool:
        """Whether the caller now holds the lane; if not, its job is queued."""
        with self._mutex:
            if not final:
                self._check_open()
            if self._free:
                self._free = False
                return True
            job.waiter = threading.Lock()
            job.waiter.acquire()
            self._queue.append(job)
            return False

    def _wait(self, job: Job) -> None:
        """Until the job is done, or the lane is passed to its caller."""
        assert job.waiter is not None
        if job.waiter.acquire(timeout=self._timeout_seconds):
            return
        with self._mutex:
            waiting = job in self._queue
            if waiting:
                self._queue.remove(job)
        if waiting:
            raise TimedOut(f"the store was busy for {self._timeout_seconds:g} s; nothing was written")
        job.waiter.acquire()

    # -- the holder ----------------------------------------------------------------------------------------------------------

    def _hold(self, first: Job) -> None:
        """Commit one batch that contains `first`, then pass the lane on."""
        with self._mutex:
            jobs = [first, *(self._queue.popleft() for _ in range(min(len(self._queue), BATCH_MAX_JOBS - 1)))]
        try:
            self._commit(jobs)
        finally:
            others = [job for job in jobs if job is not first and job.done]
            with self._mutex:  # jobs without an outcome (this thread was interrupted) go back to where they were
                self._queue.extendleft(job for job in reversed(jobs) if not job.done and job is not first)
            self._pass_on()
            _wake(others if first.future is None else [first, *others])

    def _pass_on(self) -> None:
        with self._mutex:
            if not self._queue:
                self._free = True
                return
            heir = self._queue[0]
            if heir.future is None:
                self._queue.popleft()
        if heir.future is None:
            assert heir.waiter is not None
            heir.waiter.release()
        else:
            self._serve_async()

    def _serve_async(self) -> None:
        """Pass the lane to the thread that works for async callers."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._serve, name="perdure-lane", daemon=True)
            self._thread.start()
        self._baton.release()

    def _serve(self) -> None:
        while True:
            self._baton.acquire()
            with self._mutex:
                if self._stopping:
                    return
                first = self._queue.popleft()
            self._hold(first)

    # -- committing ------------------------------------------------------------------------------------------------------------

    def _commit(self, jobs: list[Job]) -> None:
        """Give every job an outcome: together if it works, else each alone."""
        deadline = time.monotonic() + self._timeout_seconds
        try:
            self._attempt(jobs)
        except Unknown as unknown:
            _refuse(jobs, unknown.error)
        except Exception as error:  # noqa: BLE001 - whatever broke the batch, each job is tried alone and gets its own answer
            raced = isinstance(error, Fault) and error.kind is FaultKind.RACED
            if not (raced and len(jobs) > 1 and self._again(jobs)):
                for job in jobs:
                    self._alone(job, deadline)

    def _again(self, jobs: list[Job]) -> bool:
        """After a lost race, the same batch once more, with its heads locked first."""
        try:
            self._attempt(jobs, lock=self._raced)
        except Fault:
            return False
        return True

    def _alone(self, job: Job, deadline: float) -> None:
        """Run one job until it is committed, refused, or the deadline passes: a fault is never its outcome before that."""
        for attempt in itertools.count():
            try:
                self._attempt([job], lock=self._raced if attempt else ())
            except Unknown as unknown:
                _refuse([job], unknown.error)
            except Tainted as tainted:
                _refuse([job], tainted.error)
            except Fault as fault:
                if fault.kind not in RETRYABLE or time.monotonic() > deadline:
                    _refuse([job], fault.as_error())
            except Exception as error:  # noqa: BLE001 - our own bug, most likely: its caller must hear of it
                _refuse([job], error)
            if job.done:
                return
            _pause(attempt)

    def _attempt(self, jobs: list[Job], lock: Iterable[int] = ()) -> None:
        """Run the verbs and commit once. On a Fault nothing is acknowledged and nothing is kept."""
        batch: Batch | None = None
        committing = False
        try:
            connection = self._connected()
            hints = {} if self._engine.exact_heads else self._hints
            batch = Batch(connection, self._blobs, self._entropy, hints)
            connection.begin()
            if lock:
                batch.lock_heads(lock)
            outcomes = [self._run(job, batch) for job in jobs]
            reach("lane.before_commit")
            committing = True
            batch.flush(commit=True)
            reach("lane.after_commit")
        except BaseException as error:
            if not (isinstance(error, Fault) and committing and self._was_committed(error, batch)):
                self._give_up(error, batch)
                raise
        self._remember(batch)
        for job, (result, error) in zip(jobs, outcomes, strict=True):
            job.result, job.error, job.done = result, error, True

    def _run(self, job: Job, batch: Batch) -> tuple[Any, BaseException | None]:
        tx = Tx(batch, job.actor, job.tenant, self._clocks, job.pin)
        try:
            result = job.verb(tx, *job.args, **job.kwargs)
        except Fault:
            raise
        except Exception as error:  # noqa: BLE001 - the verb's own error is its outcome, not the batch's
            if tx.flushed_early:
                raise Tainted(error) from error
            return None, error
        batch.absorb(tx)
        return result, None

    # -- the connection ----------------------------------------------------------------------------------------------------------

    def _connected(self) -> Connection:
        if self._connection is None:
            self._connection = self._engine.connect()
        return self._connection

    def _give_up(self, error: BaseException, batch: Batch | None) -> None:
        """Nothing of this attempt is kept; a connection that cannot be trusted any more is let go."""
        self._raced = list(batch.seqs) if batch else []
        self._hints.clear()
        if self._connection is None:
            return
        if isinstance(error, Fault) and error.kind in (FaultKind.LOST, FaultKind.IO, FaultKind.FULL):
            self._connection.close()
            self._connection = None
        else:
            self._connection.rollback()

    def _was_committed(self, fault: Fault, batch: Batch | None) -> bool:
        """Whether a COMMIT whose reply was lost took place: asked by transaction id, never guessed."""
        if fault.kind not in (FaultKind.LOST, FaultKind.IO) or batch is None or batch.first is None:
            return False
        stream, seq, tx = batch.first
        deadline = time.monotonic() + self._timeout_seconds
        for attempt in itertools.count():
            try:
                return self._ask_commit(stream, seq, tx)
            except Fault as again:
                if again.kind not in RETRYABLE or time.monotonic() > deadline:
                    raise Unknown(again) from fault
            _pause(attempt)
        raise AssertionError

    def _ask_commit(self, stream: int, seq: int, tx: bytes) -> bool:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        connection = self._connected()
        connection.begin()
        connection.heads([stream], lock=True)  # waits until the old transaction is over
        found = connection.query(LOG.event_tx, {"stream": stream, "seq": seq})
        connection.rollback()
        return bool(found) and bytes(found[0][0]) == tx

    def _remember(self, batch: Batch) -> None:
        if self._engine.exact_heads:
            return
        hints = self._hints
        for stream, head in batch.flushed.items():
            hints[stream] = head
            hints.move_to_end(stream)
        while len(hints) > HINTS_MAX:
            hints.popitem(last=False)


class Tainted(Exception):  # noqa: N818 - never leaves this module
    """A verb failed after some of its writes had reached the transaction: the whole batch must be rolled back."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


class Unknown(Exception):  # noqa: N818 - never leaves this module
    """The database was lost during a COMMIT and did not come back in time to be asked."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(str(fault))
        self.error: Error = Unavailable(
            f"the database was lost during a commit and does not come back, so the outcome is not known: {fault}",
            hint="look before writing again; a client key makes repeating safe",
        )


def _pause(attempt: int) -> None:
    time.sleep(RETRY_PAUSE_SECONDS[min(attempt, len(RETRY_PAUSE_SECONDS) - 1)])


def _refuse(jobs: list[Job], error: Exception) -> None:
    for job in jobs:
        job.error, job.done = error, True


def _wake(jobs: list[Job]) -> None:
    """Tell everybody: threads one by one, each event loop once."""
    by_loop: dict[asyncio.AbstractEventLoop, list[Job]] = {}
    for job in jobs:
        if job.loop is not None:
            by_loop.setdefault(job.loop, []).append(job)
        elif job.waiter is not None:
            job.waiter.release()
    for loop, finished in by_loop.items():
        try:
            loop.call_soon_threadsafe(_settle, finished)
        except RuntimeError:  # the loop was closed: nobody is waiting any more
            continue


def _settle(jobs: list[Job]) -> None:
    for job in jobs:
        future = job.future
        if future is None or future.done():
            continue
        if job.error is not None:
            future.set_exception(job.error)
        else:
            future.set_result(job.result)
