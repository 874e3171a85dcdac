"""Trouble that is not the agent's: the store is away, the caller is stopped, two drive at once. Nothing ends by it.

Each test is of one rule; its control is the same story with that rule taken away.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import pytest

import perdure
from perdure.effects.effect_engine import EffectEngine
from perdure.handles.colours import run_for
from perdure.model.crash_points import arm
from perdure.planes.execution import leases, workers
from perdure.runtime import current_branch, driver
from perdure.runtime.run_state import Hold
from perdure.runtime.shells import adrive
from perdure.stores.in_flight import InFlight
from perdure.stores.lane import Lane

AWAY = perdure.Unavailable("the database does not answer", path="store")


@pytest.fixture
def url(tmp_path) -> str:
    return f"sqlite:///{tmp_path}/a.db"


@contextmanager
def away(times: int = 1) -> Iterator[None]:
    """The store does not answer, so many times."""
    real, left = Lane.run, [times]

    def run(lane: Lane, job: Any) -> Any:
        if left[0] > 0:
            left[0] -= 1
            raise AWAY
        return real(lane, job)

    Lane.run = run  # type: ignore[method-assign]
    try:
        yield
    finally:
        Lane.run = real  # type: ignore[method-assign]


class Trip:
    """A saga in which the store goes away just when a result is to be kept. swallow: the agent catches whatever comes."""

    def __init__(self, *, swallow: bool = False, times: int = 1) -> None:
        self.calls: list[str] = []
        self.swallow = swallow
        self.gone = away(times)
        self.book = perdure.tool(kind="idempotent", undo=self._unbook, name="book")(self._book)
        self.pay = perdure.tool(kind="idempotent", name="pay", retries=3)(self._pay)
        self.agent = perdure.agent(name="trip")(self._trip)

    def _book(self, what: str) -> str:
        self.calls.append(f"book {what}")
        return what

    def _unbook(self, what: str) -> None:
        self.calls.append(f"undo {what}")

    def _pay(self) -> str:
        self.calls.append("pay")
        if self.calls.count("pay") == 1:
            self.gone.__enter__()
        return "paid"

    def _trip(self, run: perdure.Run) -> str:
        try:
            with run.saga():
                run.act(self.book, "hotel")
                return run.act(self.pay)
        except Exception:
            if self.swallow:
                return "not charged"
            raise

    def drive(self, store: perdure.Store) -> Any:
        try:
            return store.drive(self.agent, key="k")
        finally:
            self.gone.__exit__(None, None, None)


@pytest.mark.parametrize("times", [1, 3])  # also when it cannot even be given back
@pytest.mark.parametrize("swallow", [False, True])
def test_a_store_that_is_away_ends_no_run_and_undoes_nothing(url, swallow, times):
    trip = Trip(swallow=swallow, times=times)
    with perdure.open(url, keep=0) as store:
        with pytest.raises(perdure.Unavailable):
            trip.drive(store)
        (handle,) = store.runs()
        assert handle.status == ("ready" if times == 1 else "running")
        assert trip.calls == ["book hotel", "pay"]
        assert store.drive(trip.agent, key="k") == "paid"
        assert trip.calls == ["book hotel", "pay", "pay"]
        assert [each.state for each in handle.effects()] == ["committed", "committed"]
        assert handle.refresh().record.deaths == 0


def test_control_trouble_that_counts_as_the_agents_own(url, monkeypatch):
    monkeypatch.setattr(Hold, "stop_for_trouble", lambda _, trouble: trouble)
    trip = Trip(swallow=True)
    with perdure.open(url, keep=0) as store:
        assert trip.drive(store) == "not charged"
        assert "undo hotel" in trip.calls


def test_a_journal_that_cannot_be_read_now_is_read_later(url, monkeypatch):
    @perdure.agent(name="two")
    def two(run: perdure.Run) -> Any:
        return run.step(lambda: 1), run.ask("?")

    with perdure.open(url) as store:
        with pytest.raises(perdure.Waiting):
            store.drive(two, key="k")
        (handle,) = store.runs()
        store.answer(handle.waits()[0].id, "yes")
        with monkeypatch.context() as patched:
            patched.setattr(driver, "load_journal", lambda *_: (_ for _ in ()).throw(AWAY))
            for _ in range(7):
                with pytest.raises(perdure.Unavailable):
                    store.drive(two, key="k")
        assert (handle.refresh().status, handle.record.deaths) == ("ready", 0)
        assert store.drive(two, key="k") == (1, "yes")


class Line:
    """A tool that passes its deadline and arrives later; its probe looks. The store is away when the doubt is to be recorded."""

    def __init__(self) -> None:
        self.world: list[str] = []
        self.begun = 0
        self.under_way, self.go_on, self.arrived = threading.Event(), threading.Event(), threading.Event()
        self.send = perdure.tool(probe=self._find, lands_within=0, timeout=0.05, retries=3, name="send")(self._send)
        self.agent = perdure.agent(name="liner")(lambda run: run.act(self.send))

    def _find(self) -> Any:
        return perdure.Happened("sent") if self.world else perdure.Absent()

    def _send(self) -> str:
        self.begun += 1
        if self.begun == 1:
            self.under_way.set()
            assert self.go_on.wait(60)
        self.go_on.set()  # who is sent a second time has shown what a control is to show
        self.world.append("sent")
        self.arrived.set()
        return "sent"

    def story(self, url: str, seconds: float = 0.2) -> list[str]:
        """Driven again while the first call is still under way; which arrives then, or after so many seconds."""
        with perdure.open(url) as store, ExitStack() as later:
            gone = ExitStack()
            disarm = arm("effect.call.before", lambda: (disarm(), gone.enter_context(away(1))))
            with gone, pytest.raises(perdure.Unavailable):
                store.drive(self.agent, key="k")
            assert self.under_way.wait(60)
            timer = threading.Timer(seconds, self.go_on.set)
            later.callback(timer.cancel)
            timer.start()
            while not self.go_on.wait(0.05):  # once would do, but on a busy machine the probe may be late, too
                with suppress(perdure.Waiting):
                    store.drive(self.agent, key="k")
            assert self.arrived.wait(60)
        return self.world


def test_a_call_that_was_left_behind_is_not_taken_for_over(url):
    assert Line().story(url) == ["sent"]


def test_control_a_flight_that_ends_when_nobody_waits_for_it(url, monkeypatch):
    monkeypatch.setattr(InFlight, "has_attempt", lambda *_: False)
    line = Line()
    line.story(url, seconds=60)
    assert line.begun == 2


def driven_by_two(url: str) -> tuple[list[Any], Any]:
    """A run that somebody drives is driven again and again by others of this process; what they got, and how it ended."""
    begun, go_on = threading.Event(), threading.Event()

    @perdure.agent(name="slow")
    def slow(run: perdure.Run) -> int:
        if not begun.is_set():
            begun.set()
            go_on.wait(60)
        return run.step(lambda: 1)

    def again(_: int) -> Any:
        try:
            return store.drive(slow, key="k")
        except perdure.Error as error:
            return type(error)

    with perdure.open(url) as store:
        handle = store.start(slow, key="k")
        first = threading.Thread(target=again, args=(0,))
        first.start()
        assert begun.wait(60)
        others = [*map(again, range(8))]
        go_on.set()
        first.join()
        return others, handle.refresh().record


def test_of_two_who_drive_at_once_one_does(url):
    others, record = driven_by_two(url)
    assert others == [perdure.Conflict] * 8  # each theft would count as a death of the one before
    assert (record.status, record.token, record.deaths) == ("completed", 1, 0)


def test_control_a_run_that_anybody_of_the_process_takes(url, monkeypatch):
    monkeypatch.setattr(InFlight, "begin", lambda *_: True)
    assert driven_by_two(url)[0] != [perdure.Conflict] * 8


def stopped_in_its_claim(url: str) -> str:
    """How a run stands after a drive was cancelled when its claim was just committed."""

    async def story() -> str:
        async with await perdure.aopen(url) as store:
            quick = perdure.agent(name="quick")(_quick)
            handle = await store.start(quick, key="k")
            task, loop, seen = asyncio.ensure_future(store.drive(quick, key="k")), asyncio.get_running_loop(), []

            def stop() -> None:
                seen.append(None)
                if len(seen) == 2:  # the first says that the run stands
                    loop.call_soon_threadsafe(task.cancel)

            disarm = arm("lane.after_commit", stop)
            with pytest.raises(asyncio.CancelledError):
                await task
            disarm()
            return (await handle.refresh()).status

    return asyncio.run(story())


def test_a_drive_that_is_cancelled_while_it_claims_gives_the_run_back(url):
    assert stopped_in_its_claim(url) == "ready"


def test_control_nobody_gives_it_back(url, monkeypatch):
    monkeypatch.setattr(workers, "give_back", lambda *_: False)
    assert stopped_in_its_claim(url) == "running"


async def _quick(run: perdure.AsyncRun) -> int:
    return await run.step(lambda: 1)


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit])
def test_what_is_stopped_before_the_call_was_not_sent(url, stop):
    sent: list[int] = []

    @perdure.tool(name="unsafe-send")
    def send() -> int:
        sent.append(1)
        return 1

    @perdure.agent(name="sender")
    def sender(run: perdure.Run) -> int:
        return run.act(send)

    def stopped() -> None:
        raise stop

    with perdure.open(url) as store:
        for point in ("effect.dispatch.after", "effect.call.before"):
            disarm = arm(point, stopped)
            with pytest.raises(stop):
                store.drive(sender, key=point)
            disarm()
            assert store.drive(sender, key=point) == 1  # and nobody is asked
        assert sent == [1, 1]


BATCH = {"calls": [{"id": name, "tool": "batch-send", "args": {}} for name in "ab"]}


@pytest.mark.parametrize("point", ["effect.plan.after", "effect.commit.after", "effect.dispatch.after"])
def test_in_a_batch_too_what_is_stopped_before_the_call_was_not_sent(url, point):
    sent: list[int] = []

    @perdure.tool(name="batch-send")
    def send() -> int:
        sent.append(1)
        return 1

    @perdure.agent(name="batch-sender")
    def sender(run: perdure.Run) -> list[int]:
        return [each.result for each in run.respond(lambda: BATCH, tools=[send]).answers]

    def stopped() -> None:
        disarm()
        raise KeyboardInterrupt

    with perdure.open(url) as store:
        disarm = arm(point, stopped)
        with pytest.raises(KeyboardInterrupt):
            store.drive(sender, key="k")
        assert store.drive(sender, key="k") == [1, 1]  # and nobody is asked
        assert sent == [1, 1]


def test_control_nobody_says_it_in_a_batch(url, monkeypatch):
    monkeypatch.setattr(EffectEngine, "_take_back_dispatch", lambda *_: ())
    with pytest.raises(perdure.Waiting):
        test_in_a_batch_too_what_is_stopped_before_the_call_was_not_sent(url, "effect.commit.after")


def test_control_nobody_says_that_it_was_not_sent(url, monkeypatch):
    monkeypatch.setattr(EffectEngine, "_take_back_dispatch", lambda *_: ())
    with pytest.raises(perdure.Waiting):
        test_what_is_stopped_before_the_call_was_not_sent(url, KeyboardInterrupt)


class Odd(Exception):
    """Something that a program may catch."""


def test_what_a_program_catches_it_catches_again(url):
    seen: list[list[str]] = []

    @perdure.tool(kind="idempotent", name="odd")
    def odd() -> object:
        return object()

    def occupied(tx: Any) -> None:
        if tx.session("s").get("seat") is None:
            raise Odd("not there yet")
        tx.session("s").set("seat", "mine")

    @perdure.agent(name="catcher")
    def catcher(run: perdure.Run) -> int:
        seen.append([])
        for attempt in (lambda: run.step(object), lambda: run.act(odd), lambda: run.atomic(occupied)):
            try:
                attempt()
            except perdure.Error as error:
                seen[-1].append(f"{type(error).__name__} {getattr(error, 'code', '')}")
        run.ask("?")
        return 1

    with perdure.open(url) as store:
        with pytest.raises(perdure.Waiting):
            store.drive(catcher, key="k")
        store.session("s").set("seat", "free")
        store.answer(store.runs()[0].waits()[0].id, "on")
        assert store.drive(catcher, key="k") == 1
        assert seen == [["Invalid ", "Invalid ", "Failed Odd"]] * 2
        assert store.session("s").get("seat") == "free"


class Base(BaseException):
    """Something that is no Exception, and that nothing but an agent raises."""


def driven_by_a_worker(url: str, fn: Any) -> Any:
    """A run as one drive of a worker leaves it."""

    async def story() -> Any:
        made = perdure.agent(name="poison")(fn)
        async with await perdure.aopen(url) as store:
            handle = await store.start(made, key="k")
            core = store._caller.core
            lease = await store._caller.write(
                leases.claim, handle._stream, holder=core.holder, program=made.program, epoch=core.epoch
            )
            lease.driven_by_worker = True
            await adrive(store._caller, made, lease, run_for)
            return (await handle.refresh()).record

    return asyncio.run(story())


@pytest.mark.parametrize("raised", [SystemExit, asyncio.CancelledError, Base])
def test_in_a_worker_what_an_agent_raises_is_its_own_end(url, raised):
    async def poison(run: perdure.AsyncRun) -> None:
        await run.step(lambda: 1)
        raise raised

    record = driven_by_a_worker(url, poison)
    assert (record.status, record.error.code) == ("failed", raised.__name__)


def branching(url: str) -> Any:
    async def poison(run: perdure.AsyncRun) -> None:
        async def branch() -> None:
            await run.step(sys.exit, 3)

        await asyncio.gather(branch())

    return driven_by_a_worker(url, poison)


def test_a_branch_that_exits_ends_its_run_and_not_the_worker(url):
    record = branching(url)
    assert (record.status, record.error.code) == ("failed", "SystemExit")


def test_control_a_branch_that_exits_as_any_task_does(url, monkeypatch):
    monkeypatch.setattr(current_branch, "_failed_if_exited", lambda coro: coro)
    with pytest.raises(SystemExit):
        branching(url)


def test_a_stale_lock_of_the_programs_own_is_no_lost_lease(url):
    drives: list[int] = []

    @perdure.agent(name="locker")
    def locker(run: perdure.Run) -> None:
        drives.append(1)
        if len(drives) > 3:
            raise KeyboardInterrupt
        raise perdure.Stale("the lock was lost", path="lock")

    with perdure.open(url) as store:
        with pytest.raises(perdure.Failed, match="the lock was lost"):
            store.drive(locker, key="k")
        assert (store.runs()[0].status, drives) == ("failed", [1])


def test_who_drives_in_place_may_leave(url):
    @perdure.agent(name="leaver")
    def leaver(run: perdure.Run) -> None:
        run.step(lambda: 1)
        raise SystemExit(3)

    with perdure.open(url) as store:
        with pytest.raises(SystemExit):
            store.drive(leaver, key="k")
        assert store.runs()[0].status == "ready"
