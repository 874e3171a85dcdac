"""The heartbeat: it beats while something is held, never in anybody's way, and ends with the store."""

from __future__ import annotations

import asyncio
import contextlib
import os
import weakref

import apsw
import pytest

import perdure
from perdure.errors import Unavailable
from perdure.handles.opening import open as open_store
from perdure.runtime import heartbeat as module
from perdure_testing.clock import FakeClock


@pytest.fixture
def store(tmp_path):
    with open_store(f"sqlite:///{tmp_path}/a.db") as store:
        yield store


def holders(store):
    return store._caller.core.engine.reader().raw.execute("SELECT holder FROM holders").fetchall()


def attended(store):
    return store._caller.core.engine.reader().raw.execute("SELECT stream FROM attendance").fetchall()


def test_opening_and_reading_begin_nothing(store):
    store.session("a").turns()
    assert store._caller.heartbeat._thread is None
    assert holders(store) == []


def test_the_first_write_begins_one_thread_that_ends_with_the_store(store):
    store.session("a").say("user", "x")
    thread = store._caller.heartbeat._thread
    store.as_("bob").session("b").say("user", "x")
    assert store._caller.heartbeat._thread is thread
    assert thread.daemon
    assert thread.is_alive()
    assert (len(holders(store)), len(attended(store))) == (1, 2)
    store.close()
    assert not thread.is_alive()
    store.close()


def test_closing_leaves_nothing_behind(tmp_path):
    url = f"sqlite:///{tmp_path}/a.db"
    with open_store(url) as store:
        store.session("a").say("user", "x")
    with open_store(url) as store:
        assert holders(store) == attended(store) == []


def test_an_injected_clock_has_no_thread(tmp_path):
    with open_store(f"sqlite:///{tmp_path}/a.db", clock=FakeClock()) as store:
        store.session("a").say("user", "x")
        assert store._caller.heartbeat._thread is None


def test_it_goes_on_while_something_is_held(store):
    heart = store._caller.heartbeat
    session = store.session("a")
    session.say("user", "x")
    assert heart.tick()
    heart.hold(("task", 1))
    session.close()
    assert heart.tick()
    heart.release(("task", 1))
    assert not heart.tick()
    assert heart._thread is None
    store.session("b").say("user", "x")
    assert heart._thread is not None


def test_a_claim_is_held_while_its_process_lives_though_the_session_is_closed(tmp_path):
    """Found by reading: nothing beat for a task, so that it lapsed with a session that was closed before it was finished."""
    url = f"sqlite:///{tmp_path}/a.db"
    with open_store(url) as store:
        session, heart = store.session("a"), store._caller.heartbeat
        session.task("x")
        task = session.claim_next()
        session.close()
        assert heart.tick()
        with open_store(url) as other, pytest.raises(perdure.Conflict, match="claimed by"):
            other.session("a").get_task(task.id).claim()
        task.done()
        heart.step_out(session._stream)
        assert not heart.tick()


@pytest.mark.parametrize("verb", ["done", "fail", "release", "cancel"])
def test_a_claim_that_ended_is_beaten_for_no_longer(store, verb):
    session, heart = store.session("a"), store._caller.heartbeat
    task = session.task("x").claim()
    assert heart._claims
    getattr(task, verb)()
    assert not heart._claims


def test_a_claim_that_another_handle_ended_is_beaten_for_no_longer(store):
    session, heart = store.session("a"), store._caller.heartbeat
    task = session.task("x").claim()
    session.get_task(task.id).cancel()
    assert not heart._claims
    with pytest.raises(perdure.Stale):
        task.done()


def test_a_claim_that_was_lost_is_beaten_for_no_longer(tmp_path):
    url = f"sqlite:///{tmp_path}/a.db"
    with open_store(url) as store, open_store(url) as other:
        task = store.session("a").task("x").claim()
        other.session("a").get_task(task.id).cancel()
        with pytest.raises(perdure.Stale):
            task.done()
        assert not store._caller.heartbeat._claims


def test_a_stale_handle_ends_no_newer_claim(store):
    session, heart = store.session("a"), store._caller.heartbeat
    first = session.task("x").claim()
    session.get_task(first.id).cancel()
    session.get_task(first.id).reopen()
    second = session.get_task(first.id).claim()
    with pytest.raises(perdure.Stale):
        first.done()
    assert heart._claims
    second.done()
    assert not heart._claims


@pytest.mark.parametrize("ends", ["returns", "fails", "waits"])
def test_a_run_is_beaten_for_as_long_as_it_is_driven(store, ends):
    """Else another process could take it after a minute, though its driver lives (P7)."""
    heart = store._caller.heartbeat
    seen: list[tuple[bool, bool]] = []

    @perdure.agent(name="beaten for")
    def driven(run: perdure.Run) -> None:
        run.step(lambda: seen.append((heart.busy, heart._thread is not None)))
        if ends == "waits":
            run.ask("?")
        if ends == "fails":
            raise perdure.Failed("no")

    with contextlib.suppress(perdure.Failed, perdure.Waiting):
        store.drive(driven, key="k")
    assert seen == [(True, True)]
    assert not heart._claims


def test_a_claim_of_an_atomic_function_is_held_after_its_commit(store):
    task = store.session("a").task("x")
    claimed = store.atomic(lambda tx: tx.session("a").get_task(task.id).claim())
    assert store._caller.heartbeat._claims
    claimed.done()
    assert not store._caller.heartbeat._claims


def test_a_claim_whose_atomic_function_failed_is_not_held(store):
    task = store.session("a").task("x")

    def claims(tx):
        tx.session("a").get_task(task.id).claim()
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        store.atomic(claims)
    assert not store._caller.heartbeat._claims


def test_a_beat_that_fails_is_tried_again_later(store, monkeypatch, caplog):
    store.session("a").say("user", "x")
    heart = store._caller.heartbeat

    def refuse(*_args, **_kwargs):
        raise Unavailable("later")

    monkeypatch.setattr(heart.core, "write", refuse)
    assert heart.tick()
    assert "not renewed" in caplog.text


def test_closing_does_not_fail_when_the_database_is_gone(tmp_path, monkeypatch, caplog):
    store = open_store(f"sqlite:///{tmp_path}/a.db")
    store.session("a").say("user", "x")

    def refuse(*_args, **_kwargs):
        raise Unavailable("gone")

    monkeypatch.setattr(store._caller.core, "write", refuse)
    store.close()
    assert "will lapse" in caplog.text


def test_who_could_not_leave_is_proved_to_be_gone_and_its_run_is_taken_at_once(tmp_path, monkeypatch):
    """Found by an I/O error in the middle of a run: it was held until the lease lapsed, though its process had ended."""
    url = f"sqlite:///{tmp_path}/a.db"

    @perdure.agent(name="left")
    def left(run):
        return run.step(tried.pop())

    def lose_the_disk():
        monkeypatch.setattr(broken._caller.core.lane, "run", refuse)
        return 1

    def refuse(*_args, **_kwargs):
        raise Unavailable("disk I/O error")

    tried = [lambda: 2, lose_the_disk]
    broken = open_store(url, keep=0)
    with pytest.raises(Unavailable):
        broken.drive(left, key="k")
    broken.close()
    with open_store(url) as store:
        assert store.drive(left, key="k") == 2


class Impatient:
    """An event whose wait is over at once, and which is set after so many."""

    def __init__(self, times):
        self.times = times

    def wait(self, _seconds):
        self.times -= 1
        return self.times < 0


def test_the_thread_beats_until_it_is_stopped(store):
    heart = store._caller.heartbeat
    store.session("a").say("user", "x")
    beats = []
    heart.beat = lambda: beats.append(1)
    module._keep_beating(weakref.ref(heart), Impatient(3))
    assert len(beats) == 3


class Patient(Impatient):
    """It remembers how long it was asked to wait."""

    def __init__(self, times):
        super().__init__(times)
        self.waited = []

    def wait(self, seconds):
        self.waited.append(seconds)
        return super().wait(seconds)


@pytest.mark.parametrize(
    ("error", "then"), [(Unavailable("away"), module.AGAIN_SECONDS), (perdure.Refused("never"), module.BEAT_SECONDS)]
)
def test_a_beat_that_the_store_could_not_take_is_tried_again_soon(store, error, then):
    """A beat waits for half a lease while the database is away. After another third the lease lapsed, though it was back."""
    heart, stop = store._caller.heartbeat, Patient(3)
    store.session("a").say("user", "x")
    outcomes = [error, None, None]

    def beat():
        outcome = outcomes.pop(0)
        if outcome is not None:
            raise outcome

    heart.beat = beat
    module._keep_beating(weakref.ref(heart), stop)
    assert stop.waited == [module.BEAT_SECONDS, then, module.BEAT_SECONDS, module.BEAT_SECONDS]


def test_a_short_lease_is_not_renewed_later_than_it_would_be_anyway(store):
    heart, stop = store._caller.heartbeat, Patient(1)
    store.session("a").say("user", "x")

    def refuse():
        raise Unavailable("away")

    heart.beat = refuse
    module._keep_beating(weakref.ref(heart), stop, 0.3)
    assert stop.waited == [0.3, 0.3]


def test_a_forgotten_store_is_not_kept_alive():
    class Gone:
        pass

    module._keep_beating(weakref.ref(Gone()), Impatient(10**9))  # returns: there is nobody to beat for


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_leaves_its_parents_heartbeat_alone(store):
    store.session("a").say("user", "x")
    child = os.fork()
    if child == 0:
        try:
            store._caller.heartbeat.close()
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    assert len(holders(store)) == 1


def test_a_cancelled_write_leaves_no_attendance_behind(tmp_path):
    async def main():
        async with perdure.aopen(f"sqlite:///{tmp_path}/a.db") as store:
            session = await store.session("a")
            saying = asyncio.create_task(session.say("user", "x"))
            await asyncio.sleep(0)  # it is queued
            saying.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await saying
            while not await session.turns():  # noqa: ASYNC110 - it is committed all the same
                await asyncio.sleep(0.01)

    asyncio.run(main())
    left = apsw.Connection(f"{tmp_path}/a.db").execute("SELECT count(*) FROM attendance").get
    assert left == 0  # else it reads as crashed when the heartbeat, which nobody keeps up, lapses
