"""The lane, step by step: who runs what, in which commit, and who hears of it (P1, P15).

Faults of the disk and the network are in test_sqlite, test_postgres and tests/faults.
"""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

import perdure
from perdure.errors import Conflict, Error, Invalid, Refused, TimedOut, Unavailable
from perdure.model import crash_points
from perdure.stores import lane as lanes
from perdure.stores import postgres
from perdure.stores.batch import Batch
from perdure.stores.job import contended
from perdure.stores.lane import Lane
from perdure.stores.store import Fault, FaultKind
from stores.verbs import (
    Called,
    Gate,
    Opened,
    append,
    begin,
    begin_and_append,
    count_turns,
    everything,
    impatient,
    opened,
    until,
)


@pytest.fixture
def url(tmp_path) -> str:
    return f"sqlite:///{tmp_path}/agent.db"


@pytest.fixture
def store(url) -> Iterator[Opened]:
    with opened(url) as store:
        yield store


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def any_store(request, tmp_path) -> Iterator[Opened]:
    urls = {
        "memory": lambda: "memory:",
        "sqlite": lambda: f"sqlite:///{tmp_path}/agent.db",
        "postgres": lambda: request.getfixturevalue("postgres_store"),
    }
    with opened(urls[request.param]()) as store:
        yield store


@pytest.fixture
def commits() -> Iterator[list[int]]:
    """One entry for every commit: the thread that made it."""
    made: list[int] = []
    disarm = crash_points.arm("lane.after_commit", lambda: made.append(threading.get_ident()))
    yield made
    disarm()


def held(store: Opened, gate: Gate) -> Called:
    """Somebody holds the lane."""
    holder = Called(store.write, gate)
    assert gate.entered.wait(60)
    return holder


def queued(store: Opened, count: int) -> None:
    until(lambda: len(store.core.lane._queue) == count)


def with_lane(store: Opened, kind: type[Lane], timeout_seconds: float = 30.0) -> None:
    """Put another lane into an open store: how the controls break it on purpose."""
    old = store.core.lane
    store.core.lane = kind(old._engine, old._blobs, old._clocks, timeout_seconds)
    old.close()


def ran_by(_tx: Any, names: dict[str, int], name: str) -> None:
    names[name] = threading.get_ident()


# -- who runs what ------------------------------------------------------------------------------------------


def test_a_caller_that_finds_the_lane_free_runs_its_own_job(store, commits):
    before = {*threading.enumerate()}  # of which some may be on their way out: others of this process have had them
    stream = store.write(begin, "a")
    for number in range(20):
        store.write(append, stream, number)
    assert set(commits) == {threading.get_ident()}
    assert {each.name for each in {*threading.enumerate()} - before} <= {"perdure-tide"}
    assert store.core.lane._thread is None


def test_a_read_that_has_the_lane_alone_needs_no_transaction(commits):
    with opened("memory:") as store:
        stream = store.write(begin, "s")
        commits.clear()
        assert store.read(count_turns, stream) == 0
        assert not store.read(lambda reads: reads.connection.raw.in_transaction)
        assert commits == []


def test_reads_in_a_batch_have_outcomes_of_their_own(commits):
    with opened("memory:") as store:
        stream = store.write(begin, "s")
        commits.clear()
        gate = Gate()
        holder = held(store, gate)
        said, looked = Called(store.write, append, stream, "x"), Called(store.read, count_turns, stream)
        failed = Called(store.read, lambda _reads: 1 / 0)
        queued(store, 3)
        gate.open()
        assert holder.outcome() is None
        assert (said.outcome(), looked.outcome() in (0, 1)) == (2, True)
        with pytest.raises(ZeroDivisionError):
            failed.outcome()
        assert store.contents(stream) == ["x"]
        assert len(commits) == 2


def test_who_waits_goes_into_one_batch_with_the_oldest_waiter(store, commits):
    gate, ran = Gate(), {}
    holder = held(store, gate)
    waiters = []
    for count, name in enumerate("bcd", 1):
        waiters.append(Called(store.write, ran_by, ran, name))
        queued(store, count)
    del commits[:]
    gate.open()
    for waiter in (holder, *waiters):
        waiter.outcome()
    assert commits == [holder.ident, waiters[0].ident]
    assert set(ran.values()) == {waiters[0].ident}


class DrainingLane(Lane):
    """The control: commits until nobody waits, as the design forbids."""

    def _hold(self, first) -> None:
        super()._hold(first)
        while self._queue and self._queue[0].future is None:
            until(lambda: not self._queue or self._free)
            if not self._queue:
                return

    def _pass_on(self, holder, unfinished=()) -> None:
        with self._mutex:
            more = [*unfinished, *self._queue]
            self._queue.clear()
        if more:
            self._attempt(more)
            lanes.wake(more)
        super()._pass_on(holder)


def captured(store: Opened) -> bool:
    """Whether a holder ran the job of somebody who came while its batch was being committed."""
    gate, ran = Gate(), {}
    holder = held(store, gate)
    late = Called(store.write, ran_by, ran, "late")
    queued(store, 1)
    gate.open()
    holder.outcome()
    late.outcome()
    return ran["late"] == holder.ident


def test_a_holder_commits_one_batch_and_is_not_captured(store):
    assert not captured(store)


def test_control_a_draining_holder_is_captured(store):
    with_lane(store, DrainingLane)
    assert captured(store)


def test_the_lane_goes_to_the_oldest_waiter(store, monkeypatch):
    monkeypatch.setattr(lanes, "BATCH_MAX_JOBS", 1)
    gate, order = Gate(), []
    holder = held(store, gate)
    waiters = []
    for number in range(8):
        waiters.append(Called(store.write, lambda _tx, number=number: order.append(number)))
        queued(store, number + 1)
    gate.open()
    for waiter in (holder, *waiters):
        waiter.outcome()
    assert order == list(range(8))


def test_a_batch_is_bounded(store, monkeypatch, commits):
    monkeypatch.setattr(lanes, "BATCH_MAX_JOBS", 3)
    gate = Gate()
    holder = held(store, gate)
    waiters = [Called(store.write, lambda _tx: None) for _ in range(7)]
    queued(store, 7)
    del commits[:]
    gate.open()
    for waiter in (holder, *waiters):
        waiter.outcome()
    assert len(commits) == 1 + 3  # the holder alone, then 3 + 3 + 1


# -- async --------------------------------------------------------------------------------------------------


def count_wakes() -> list[Any]:
    loop = asyncio.get_running_loop()
    wake, wakes = loop.call_soon_threadsafe, []
    loop.call_soon_threadsafe = lambda call, *args: (wakes.append(call), wake(call, *args))[1]  # type: ignore[method-assign]
    return wakes


def test_one_wake_up_for_each_batch(store, commits):
    async def main() -> None:
        stream = await store.submit(begin, "a")
        wakes, gate = count_wakes(), Gate()
        del commits[:]
        first = store.submit(gate)
        await asyncio.to_thread(gate.entered.wait)
        jobs = [store.submit(append, stream, number) for number in range(500)]
        del wakes[:]  # to_thread wakes the loop too
        gate.open()
        assert await asyncio.gather(first, *jobs) == [None, *range(2, 502)]
        assert len(commits) == 2
        assert len(wakes) == 2

    asyncio.run(main())


def test_the_loop_is_not_blocked_while_the_lane_is_busy(store):
    async def main() -> None:
        gate = Gate()
        first = store.submit(gate)
        later = [store.submit(begin, f"s{number}") for number in range(50)]
        for _ in range(1000):
            await asyncio.sleep(0)
        assert not first.done()
        gate.open()  # by the loop itself: if it were blocked, nobody could
        await asyncio.gather(first, *later)

    asyncio.run(main())


def test_two_loops_and_threads_share_one_lane(store):
    stream = store.write(begin, "a")

    async def some(who: str) -> list[int]:
        return await asyncio.gather(*(store.submit(append, stream, f"{who}{number}") for number in range(100)))

    def threaded(who: str) -> list[int]:
        return [store.write(append, stream, f"{who}{number}") for number in range(50)]

    callers = [Called(asyncio.run, some(who)) for who in "ab"] + [Called(threaded, who) for who in "cd"]
    seqs = [seq for caller in callers for seq in caller.outcome()]
    assert sorted(seqs) == list(range(2, 302))
    assert len(set(store.contents(stream))) == 300


def test_a_cancelled_task_loses_only_its_answer(store):
    async def main() -> None:
        stream = await store.submit(begin, "a")
        gate = Gate()
        first = store.submit(gate)
        task = asyncio.ensure_future(store.submit(append, stream, "cancelled"))
        neighbour = store.submit(append, stream, "neighbour")
        await asyncio.sleep(0)
        task.cancel()
        gate.open()
        await first
        assert await neighbour
        with pytest.raises(asyncio.CancelledError):
            await task
        assert store.contents(stream) == ["cancelled", "neighbour"]

    asyncio.run(main())


def test_a_loop_that_was_closed_stops_nobody(store):
    gate = Gate()
    stream = store.write(begin, "a")
    loop = asyncio.new_event_loop()

    async def leave() -> None:
        store.submit(gate)
        store.submit(append, stream, "left behind")

    loop.run_until_complete(leave())
    loop.close()
    gate.open()
    store.write(append, stream, "after")
    assert store.contents(stream) == ["left behind", "after"]


def stop_iteration(_tx: Any) -> None:
    raise StopIteration


def leave_program(_tx: Any) -> None:
    raise SystemExit(3)


def test_errors_that_no_future_takes_reach_their_caller_alone(store):
    """StopIteration cannot be set on a future, SystemExit would end the thread that serves everybody."""

    async def main() -> None:
        jobs = [store.submit(verb, *args) for verb, *args in ((stop_iteration,), (leave_program,), (begin, "a"))]
        outcomes = await asyncio.gather(*jobs[::2], return_exceptions=True)
        assert isinstance(outcomes[0], RuntimeError)
        assert outcomes[1].name == "a"
        assert isinstance(jobs[1].exception(), SystemExit)
        assert (await store.submit(begin, "b")).name == "b"

    asyncio.run(main())


# -- failing jobs -------------------------------------------------------------------------------------------


def fail_after(tx: Any, stream: Any, content: str) -> None:
    append(tx, stream, content)
    raise Invalid("no", path="here")


def fail_after_flush(tx: Any, stream: Any, content: str) -> None:
    append(tx, stream, content)
    count_turns(tx, stream)
    raise Invalid("no", path="here")


def in_one_batch(store: Opened, *jobs: Any) -> list[Any]:
    """The outcomes of these jobs, all of which wait while somebody else holds the lane."""
    gate = Gate()
    holder = held(store, gate)
    waiters = []
    for count, job in enumerate(jobs, 1):
        waiters.append(Called(store.write, *job))
        queued(store, count)
    gate.open()
    holder.outcome()
    outcomes = []
    for waiter in waiters:
        try:
            outcomes.append(waiter.outcome())
        except Error as error:
            outcomes.append(error)
    return outcomes


@pytest.mark.parametrize("failing", [fail_after, fail_after_flush])
def test_a_verb_that_raises_leaves_no_trace_and_its_neighbours_commit(any_store, failing):
    store = any_store
    stream = store.write(begin, "a")
    jobs = [(append, stream, "x"), (failing, stream, "bad"), (append, stream, "y")]
    x, bad, y = in_one_batch(store, *jobs)
    assert (x, y) == (2, 3)
    assert bad.path == "here"
    assert store.contents(stream) == ["x", "y"]
    assert store.write(count_turns, stream) == 2


@contended
def claim(tx: Any, stream: Any, who: str) -> str | None:
    """Get what only one can have."""
    if count_turns(tx, stream):
        return None
    append(tx, stream, who)
    return who


def claimed_beside_work(store: Opened, other: Opened, verb: Any, commits: list[int]) -> tuple[list[Any], int, int]:
    """Claims of three streams in the queue with other work, one of them lost at the last moment: the outcomes, how often the
    other work ran, and how many commits there were."""
    free, lost, last, desk = (store.write(begin, name) for name in "abcd")
    for stream in (free, lost, last, desk):
        store.write(count_turns, stream)
    ran: list[str] = []

    def work(tx: Any, content: str) -> int:
        ran.append(content)
        if ran == ["x", "y"]:
            other.write(append, lost, "theirs")
        return append(tx, desk, content)

    commits.clear()
    jobs = [(work, "x"), (verb, free, "me"), (verb, lost, "me"), (work, "y"), (verb, last, "me")]
    outcomes = in_one_batch(store, *jobs)
    return outcomes, len(ran), len(commits) - 2  # the gate, and theirs


def test_a_claim_that_is_lost_costs_nobody_else_anything(postgres_store, commits):
    """It shared a commit with other work, and took that along: all of it was run twice."""
    with opened(postgres_store) as store, opened(postgres_store) as other:
        outcomes, ran, made = claimed_beside_work(store, other, claim, commits)
        assert outcomes == [2, "me", None, 3, "me"]
        assert ran == 2
        assert made == 2


def test_control_a_claim_beside_other_work_takes_it_along(postgres_store, commits):
    def beside(tx: Any, stream: Any, who: str) -> str | None:
        return claim(tx, stream, who)

    with opened(postgres_store) as store, opened(postgres_store) as other:
        outcomes, ran, _ = claimed_beside_work(store, other, beside, commits)
        assert outcomes == [2, "me", None, 3, "me"]
        assert ran > 2


def locks_after_a_lost_race(store: Opened, other: Opened, monkeypatch) -> list[list[int]]:
    """The streams whose heads were locked in each transaction of a verb that comes to a lower one when it is run again."""
    low, high = store.write(begin, "low"), store.write(begin, "high")
    store.write(count_turns, high)
    tries: list[int] = []
    locked: list[list[int]] = []

    def begun(connection: Any) -> None:
        locked.append([])
        begin_connection(connection)

    def heads(connection: Any, streams: Any, *, lock: bool) -> Any:
        locked[-1] += streams if lock else ()
        return read_heads(connection, streams, lock=lock)

    def write(connection: Any, writes: Any, *, commit: bool) -> None:
        locked[-1] += sorted({move.stream for move in writes.heads} - {*locked[-1]})
        flush(connection, writes, commit=commit)

    def wander(tx: Any) -> None:
        tries.append(1)
        append(tx, high, "mine")
        if len(tries) == 1:
            other.write(append, high, "theirs")
        else:
            append(tx, low, "mine")

    kind = postgres.PostgresConnection
    begin_connection, read_heads, flush = kind.begin, kind.heads, kind.write
    own = store.core.lane._connection
    monkeypatch.setattr(kind, "begin", lambda it: begun(it) if it is own else begin_connection(it))
    monkeypatch.setattr(kind, "heads", lambda it, *a, **k: heads(it, *a, **k) if it is own else read_heads(it, *a, **k))
    monkeypatch.setattr(kind, "write", lambda it, *a, **k: write(it, *a, **k) if it is own else flush(it, *a, **k))
    store.write(wander)
    assert store.contents(low) == ["mine"]
    assert store.contents(high) == ["theirs", "mine"]
    return locked


def test_heads_are_locked_in_one_order_after_a_lost_race_too(postgres_store, monkeypatch):
    """The heads of the failed attempt were locked, and then those that the verbs came to anew: two orders, so deadlocks."""
    with opened(postgres_store) as store, opened(postgres_store) as other:
        for streams in locks_after_a_lost_race(store, other, monkeypatch):
            assert streams == sorted(streams)


def test_control_locking_what_turns_up_is_a_second_order(postgres_store, monkeypatch):
    monkeypatch.setattr(Batch, "_hold", lambda *_: None)
    with opened(postgres_store) as store, opened(postgres_store) as other:
        assert any(streams != sorted(streams) for streams in locks_after_a_lost_race(store, other, monkeypatch))


def test_a_broken_constraint_hits_only_who_broke_it(any_store):
    store = any_store
    stream, other = store.write(begin, "a"), store.write(begin, "b")
    store.write(append, stream, "first", "k")
    jobs = [
        (append, other, "x"),
        (append, stream, "second", "k"),
        (append, other, "y"),
        (append, stream, "z"),
    ]
    outcomes = in_one_batch(store, *jobs)
    assert isinstance(outcomes[1], (Invalid, Conflict))
    assert outcomes[0] == 2
    assert outcomes[2] == 3
    assert store.contents(other) == ["x", "y"]
    assert store.contents(stream) == ["first", "z"]


def test_a_race_that_is_lost_after_an_outage_is_run_again(store, monkeypatch):
    """Each attempt that had found no database counted as a lost race: "others kept writing the same stream"."""
    stream, lane = store.write(begin, "a"), store.core.lane
    faults = [Fault(FaultKind.LOST, "away")] * (lanes.RACES_MAX + 1) + [Fault(FaultKind.RACED, "others wrote")]
    attempt = lane._attempt
    monkeypatch.setattr(lanes, "RETRY_PAUSE_SECONDS", (0.0,))
    monkeypatch.setattr(lane, "_attempt", lambda *args: faults.pop(0) if faults else attempt(*args))
    store.write(append, stream, "x")
    assert store.read(count_turns, stream) == 1


def test_control_a_race_that_is_always_lost_is_an_error(store, monkeypatch):
    stream, lane = store.write(begin, "a"), store.core.lane
    tried: list[int] = []
    monkeypatch.setattr(lanes, "RETRY_PAUSE_SECONDS", (0.0,))
    monkeypatch.setattr(lane, "_attempt", lambda *_: tried.append(1) or Fault(FaultKind.RACED, "others wrote"))
    with pytest.raises(Conflict, match="kept writing"):
        store.write(append, stream, "x")
    assert len(tried) == lanes.RACES_MAX + 2  # the first of a batch, and those alone


def fault_once(point: str, kind: FaultKind) -> None:
    """The database fails at a point, once."""

    def act() -> None:
        disarm()
        raise Fault(kind, "no reply")

    disarm = crash_points.arm(point, act)


def test_a_commit_whose_reply_was_lost_is_asked_for_and_acknowledged_once(any_store):
    stream = any_store.write(begin, "a")
    for point in ("lane.before_commit", "lane.after_commit"):
        fault_once(point, FaultKind.LOST)
        any_store.write(append, stream, point)
    assert any_store.contents(stream) == ["lane.before_commit", "lane.after_commit"]


def test_a_commit_that_no_sync_has_confirmed_is_not_acknowledged(store):
    """It can be read, and a loss of power may take it yet (P1)."""
    stream = store.write(begin, "a")
    fault_once("lane.after_commit", FaultKind.IO)
    with pytest.raises(Unavailable, match="the outcome is not known"):
        store.write(append, stream, "x")
    assert store.contents(stream) == ["x"]


def test_atomic_is_all_or_nothing(url):
    with perdure.open(url) as store:
        store.session("a")

        def both(tx: Any) -> None:
            tx.session("a").say("user", "one")
            tx.session("b").say("user", "two")
            raise Invalid("changed my mind")

        with pytest.raises(Invalid, match="changed"):
            store.atomic(both)
        assert store.session("a").turns() == []
        store.atomic(lambda tx: (tx.session("a").say("user", "one"), tx.session("b").say("user", "two")))
        assert [turn.content for turn in store.session("b").turns()] == ["two"]


def test_a_verb_that_calls_its_own_store_is_told_so(any_store):
    with pytest.raises(Refused, match="must not call"):
        any_store.write(lambda _tx: any_store.write(begin, "a"))
    assert any_store.write(begin, "b").name == "b"


# -- interrupts ---------------------------------------------------------------------------------------------


def interrupted(_tx: Any) -> None:
    raise KeyboardInterrupt


def test_an_interrupted_holder_leaves_the_others_their_outcomes(store):
    stream = store.write(begin, "a")
    gate = Gate()
    holder = held(store, gate)
    victim = Called(store.write, interrupted)
    queued(store, 1)
    others = [Called(store.write, append, stream, name) for name in "xyz"]
    queued(store, 4)
    gate.open()
    holder.outcome()
    with pytest.raises(KeyboardInterrupt):
        victim.outcome()
    assert sorted(other.outcome() for other in others) == [2, 3, 4]
    assert sorted(store.contents(stream)) == ["x", "y", "z"]


def interrupt_once(point: str) -> Any:
    """A Ctrl-C at a point, once: signals are handled when the C call under way returns."""

    def act() -> None:
        disarm()
        raise KeyboardInterrupt

    disarm = crash_points.arm(point, act)
    return disarm


def written_around_an_interrupt(store: Opened, point: str) -> list[str]:
    stream = store.write(begin, "a")
    gate = Gate()
    holder = held(store, gate)
    callers = []
    for count, name in enumerate("xyz", 1):
        callers.append(Called(store.write, append, stream, name))
        queued(store, count)
    disarm = crash_points.arm("lane.after_commit", lambda: disarm() or interrupt_once(point))
    gate.open()  # the holder's own commit arms it for the batch of the others
    holder.outcome()
    with pytest.raises(KeyboardInterrupt):
        callers[0].outcome()
    assert all(caller.outcome() for caller in callers[1:])
    return sorted(store.contents(stream))


@pytest.mark.parametrize(("point", "kept"), [("lane.before_commit", "yz"), ("lane.after_commit", "xyz")])
def test_an_interrupt_around_the_commit_doubles_nothing(any_store, point, kept):
    assert written_around_an_interrupt(any_store, point) == list(kept)


class GuessingLane(Lane):
    """The control: takes every COMMIT without a reply for one that did not happen."""

    def _was_committed(self, error, batch) -> bool:
        return False


def test_control_guessing_after_an_interrupt_doubles(store):
    with_lane(store, GuessingLane)
    assert written_around_an_interrupt(store, "lane.after_commit") == list("xyyzz")


class InterruptedRemembering(Lane):
    """A Ctrl-C comes after the COMMIT was answered, before the jobs have their outcome."""

    rang = False

    def _committed(self, jobs, batch) -> None:
        if len(jobs) > 1 and not self.rang:
            self.rang = True
            raise KeyboardInterrupt
        super()._committed(jobs, batch)


def test_an_interrupt_after_the_answer_of_a_commit_doubles_nothing(store):
    with_lane(store, InterruptedRemembering)
    assert written_around_an_interrupt(store, "never reached") == list("xyz")


class InterruptedAsking(Lane):
    """A second Ctrl-C comes while it is asked what became of a commit."""

    def _was_committed(self, error, batch) -> bool:
        raise KeyboardInterrupt


def test_a_second_interrupt_lets_nobody_be_run_again(store):
    """The commit took place: the others hear that nobody knows, and find theirs there."""
    with_lane(store, InterruptedAsking)
    with pytest.raises(Unavailable, match="may have been written"):
        written_around_an_interrupt(store, "lane.after_commit")
    assert everything(store.core.engine.url) == Counter("xyz")


def test_a_real_interrupt_while_waiting_does_not_take_the_lane_along(store):
    if threading.current_thread() is not threading.main_thread():
        pytest.skip("signals reach the main thread only")
    stream = store.write(begin, "a")
    gate = Gate()
    holder = held(store, gate)
    main = threading.get_ident()

    def interrupt() -> None:
        queued(store, 1)
        signal.pthread_kill(main, signal.SIGINT)

    interrupter = Called(interrupt)
    with pytest.raises(KeyboardInterrupt):
        store.write(append, stream, "never")
    interrupter.outcome()
    gate.open()
    holder.outcome()
    store.write(append, stream, "after")
    assert store.contents(stream) == ["after"]


# -- deadlines, closing, forks ------------------------------------------------------------------------------


def test_who_waits_too_long_is_told_and_never_runs(url):
    with opened(url) as store:
        stream = store.write(begin, "a")
        gate = Gate()
        holder = held(store, gate)
        with impatient(store), pytest.raises(TimedOut, match="nothing was written"):
            store.write(append, stream, "late")
        gate.open()
        holder.outcome()
        store.write(append, stream, "after")
        assert store.contents(stream) == ["after"]


def test_async_callers_have_the_same_deadline(url):
    async def main() -> None:
        with opened(url) as store:
            stream = await store.submit(begin, "a")
            gate = Gate()
            first = store.submit(gate)
            await asyncio.to_thread(gate.entered.wait)
            late = store.submit(append, stream, "late")
            store.core.lane._queue[0].deadline = 0.0  # as if it had waited that long
            gate.open()
            await first
            with pytest.raises(TimedOut, match="nothing was written"):
                await late
            await store.submit(append, stream, "after")
            assert store.contents(stream) == ["after"]

    asyncio.run(main())


def test_closing_finishes_what_is_queued(url):
    with opened(url) as store:
        stream = store.write(begin, "a")
        gate = Gate()
        holder = held(store, gate)
        waiters = [Called(store.write, append, stream, number) for number in range(5)]
        queued(store, 5)
        closer = Called(store.core.close)
        queued(store, 6)
        gate.open()
        for waiter in (holder, *waiters, closer):
            waiter.outcome()
        for call in (lambda: store.write(begin, "b"), lambda: store.read(count_turns, stream)):
            with pytest.raises(Refused, match="closed"):
                call()
        store.core.close()  # again: nothing happens
    with opened(url) as store:
        assert sorted(store.contents(stream)) == list(range(5))


def test_a_closed_store_refuses_async_callers(store):
    async def main() -> None:
        await store.submit(begin, "a")
        await asyncio.to_thread(store.core.close)
        with pytest.raises(Refused, match="closed"):
            await store.submit(begin, "b")

    asyncio.run(main())


FORKED = """
import os, sys, threading
from stores.verbs import begin, count_turns, opened
from perdure.errors import Refused
with opened(sys.argv[1]) as store:
    stream = store.write(begin, "a")
    store.read(count_turns, stream)
    store.core.lane._mutex.acquire()      # as if another thread were in the lane at the fork
    child = os.fork()
    if child:
        store.core.lane._mutex.release()
    else:
        for call in (lambda: store.write(begin, "b"), lambda: store.read(count_turns, stream)):
            try:
                call()
            except Refused as error:
                assert "fork" in str(error)
            else:
                os._exit(1)
        store.core.close()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    store.write(begin, "c")               # the child has not ended the parent's sessions
    store.read(count_turns, stream)
"""


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_a_fork_refuses_in_the_child_and_spares_the_parent(kind, request, url):
    target = url if kind == "sqlite" else request.getfixturevalue("postgres_store")
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORKED, target],
        timeout=60,
        capture_output=True,
        check=False,
        env=child_environment(),
    )
    assert run.returncode == 0, run.stderr.decode()


def child_environment() -> dict[str, str]:
    import os
    from pathlib import Path

    return {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}


def test_new_streams_survive_an_early_flush(any_store):
    """A stream that has no event yet when the batch is flushed becomes real with its first."""

    def late_first_event(tx: Any, old: Any) -> tuple[str, int]:
        new = tx.new_stream("session", "late")
        append(tx, old, "x")
        count_turns(tx, old)
        third = tx.new_stream("session", "third")
        assert third.id != new.id
        return begin(tx, "late").name, tx.record(opening(tx, new))

    def opening(tx: Any, stream: Any) -> Any:
        from perdure.log.change import Change
        from perdure.planes.tables import SESSIONS

        columns = {"name": "late", "title": "", "status": "active", "creator": "me", "labels": "[]"}
        return Change("session.opened", stream, SESSIONS, set={**columns, "created_at": tx.now})

    old = any_store.write(begin, "a")
    assert any_store.write(late_first_event, old) == ("late", 1)
    assert any_store.write(begin_and_append, "late", "y") == 2


def test_an_async_caller_waits_no_longer_than_a_sync_one_for_a_lane_that_is_blocked(tmp_path):
    """It had no bound at all: its deadline was looked at by whoever had the lane next (P15)."""
    blocked, go = threading.Event(), threading.Event()

    def block(_tx):
        blocked.set()
        assert go.wait(60)

    async def main(store):
        session = await store.session("a")
        blocking = asyncio.create_task(asyncio.to_thread(store.sync.atomic, block))
        await asyncio.to_thread(blocked.wait, 60)
        try:
            with pytest.raises(TimedOut, match="nothing was written"):
                await asyncio.wait_for(session.say("user", "late"), 20)
            store._caller.core.lane._timeout_seconds = 60.0
            queued = asyncio.create_task(session.say("user", "in time"))
            await asyncio.sleep(0)
        finally:
            go.set()
        await blocking
        await queued
        return [turn.content for turn in await session.turns()]

    async def opened():
        async with perdure.aopen(f"sqlite:///{tmp_path}/a.db", timeout=0.5) as store:
            return await main(store)

    assert asyncio.run(opened()) == ["in time"]


def test_every_async_caller_has_a_bound_of_its_own_behind_one_timer(tmp_path):
    """The timer of the first caller rings again for the later ones; each hears in its own time (P15)."""
    blocked, go = threading.Event(), threading.Event()

    def block(_tx):
        blocked.set()
        assert go.wait(60)

    async def opened():
        async with perdure.aopen(f"sqlite:///{tmp_path}/a.db", timeout=0.3) as store:
            session = await store.session("a")
            blocking = asyncio.create_task(asyncio.to_thread(store.sync.atomic, block))
            await asyncio.to_thread(blocked.wait, 60)
            try:
                early = asyncio.create_task(session.say("user", "early"))
                await asyncio.sleep(0.1)
                late = asyncio.create_task(session.say("user", "late"))
                done = await asyncio.wait_for(asyncio.gather(early, late, return_exceptions=True), 20)
                with pytest.raises(TimedOut):  # nobody was left to watch: the timer is set anew
                    await asyncio.wait_for(session.say("user", "later"), 20)
            finally:
                go.set()
            await blocking
            return done, await session.turns(), store._caller.core.lane._watched

    refused, turns, watched = asyncio.run(opened())
    assert [type(each) for each in refused] == [TimedOut, TimedOut]
    assert not turns
    assert not watched


class InterruptedMutex:
    """The lane's mutex, whose next release after `armed` is set is followed by a Ctrl-C, as the interpreter delivers one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.armed = False

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()
        if self.armed and threading.current_thread() is threading.main_thread():
            self.armed = False
            raise KeyboardInterrupt


def test_a_ctrl_c_while_the_lane_is_passed_on_loses_neither_lane_nor_heir(store):
    session, lane = store.write(begin, "a"), store.core.lane
    lane._mutex = mutex = InterruptedMutex()
    waiters: list[Called] = []

    def append_while_another_waits(tx, stream):
        if not waiters:
            waiters.append(Called(store.write, append, session, "heir"))
            until(lambda: len(lane._queue) == 1)
            mutex.armed = True
        return append(tx, stream, "holder")

    with pytest.raises(KeyboardInterrupt):
        store.write(append_while_another_waits, session)
    waiters[0].outcome()
    store.write(append, session, "next")
    assert store.read(count_turns, session) == 3
