"""Wake-ups: whoever waits hears of commits and deaths of others, and of nothing when there is nothing."""

from __future__ import annotations

import contextlib
import os
import resource
import subprocess
import sys
import threading
import time

import pytest

import perdure
from perdure.stores import watch as module
from perdure.stores.inotify import WRITTEN, Inotify
from perdure.stores.store import Fault, FaultKind
from perdure.stores.watch import Watch

LONG = 30.0  # a bound: nothing here is to wait that long


@perdure.agent(name="watched")
def watched(run):
    return None


@pytest.fixture(params=["sqlite", "postgres"])
def url(request, tmp_path):
    return f"sqlite:///{tmp_path}/a.db" if request.param == "sqlite" else request.getfixturevalue("postgres_store")


@pytest.fixture
def store(url):
    with perdure.open(url) as store:
        yield store


@contextlib.contextmanager
def watching(store):
    core = store._caller.core
    core.liveness.begin()
    made = Watch(core.engine, core.liveness.folder)
    try:
        while made.wait(0.2):  # what is new to it is what was there before
            pass
        yield made
    finally:
        made.close()


def heard(watch, act, seconds=LONG):
    """Whether the watch wakes up after something was done, while somebody waits on it."""
    told = []
    waiter = threading.Thread(target=lambda: told.append(watch.wait(seconds)))
    waiter.start()
    act()
    waiter.join()
    return told[0]


def test_a_run_that_becomes_ready_wakes(store, url):
    with watching(store) as watch, perdure.open(url) as other:
        assert heard(watch, lambda: other.start(watched))


def test_it_wakes_again_and_again(store, url):
    with watching(store) as watch, perdure.open(url) as other:
        for _ in range(5):
            assert heard(watch, lambda: other.start(watched))
            while watch.wait(0.1):
                pass


def test_control_nothing_wakes_when_nothing_happens(store):
    with watching(store) as watch:
        assert not watch.wait(0.3)


def test_what_no_worker_waits_for_does_not_wake_on_postgresql(postgres_store):
    with perdure.open(postgres_store) as store, watching(store) as watch:
        assert not heard(watch, lambda: store.session("a").say("user", "x"), 0.3)


def test_what_is_rolled_back_does_not_wake_on_postgresql(postgres_store):
    with perdure.open(postgres_store) as store, watching(store) as watch:
        assert heard(watch, lambda: store.start(watched, key="a"))  # the server may take its time to say so
        while watch.wait(0.2):
            pass

        def refused():
            with pytest.raises(perdure.Error):
                store._caller.write(_start_and_fail)

        assert not heard(watch, refused, 0.3)


def _start_and_fail(tx):
    from perdure.planes.execution import runs

    runs.start(tx, runs.RunRequest("watched", [], {}), 0)
    raise perdure.Invalid("no")


def test_a_process_that_dies_wakes(store, url):
    program = (
        f"import perdure; s = perdure.open({url!r}); s._caller.core.liveness.begin(); print(1, flush=True); input()"
    )
    with watching(store) as watch:
        child = subprocess.Popen(
            [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert child.stdout.readline() == "1\n"
        while watch.wait(0.2):
            pass
        assert heard(watch, child.kill)
        assert watch.wait(LONG)  # and once more, when the lock is surely gone
        assert not watch.wait(0.2)
        child.wait()
        child.stdin.close()
        child.stdout.close()


def test_looking_whether_somebody_lives_wakes_nobody(store, url):
    """Else workers that look at each other would wake each other for ever."""
    with watching(store) as watch, perdure.open(url) as other:
        other._caller.core.liveness.begin()
        while watch.wait(0.2):
            pass
        assert not heard(watch, lambda: store._caller.core.liveness.is_dead(other._caller.core.holder), 0.3)


def test_control_opening_its_file_to_write_would(store, url):
    with watching(store) as watch, perdure.open(url) as other:
        liveness = other._caller.core.liveness
        liveness.begin()
        while watch.wait(0.2):
            pass
        assert heard(watch, lambda: (liveness.folder / other._caller.core.holder).open("r+").close())


def test_it_can_be_interrupted(store):
    with watching(store) as watch:
        assert not heard(watch, watch.interrupt)


def test_a_rest_can_be_interrupted_too(store):
    with watching(store) as watch:
        resting = threading.Thread(target=watch.rest, args=(10**9,))
        resting.start()
        watch.interrupt()
        resting.join(LONG)
        assert not resting.is_alive()


def test_it_works_beside_any_number_of_open_files(store, url):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 2048:
        pytest.skip("no more than 2048 files may be open here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2048), hard))
    many = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
    try:
        with watching(store) as watch, perdure.open(url) as other:
            assert heard(watch, lambda: other.start(watched))
    finally:
        for number in many:
            os.close(number)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_who_cannot_listen_leaves_no_connection_behind(postgres_store, monkeypatch):
    with perdure.open(postgres_store) as store:
        engine = store._caller.core.engine
        made = []
        connect_now = engine._connect_now
        monkeypatch.setattr(engine, "_connect_now", lambda name: made.append(connect_now(name)) or made[-1])
        monkeypatch.setattr("perdure.stores.postgres_listener._LISTEN", "SELECT 1 / 0 FROM (SELECT %s::text) AS one")
        with pytest.raises(Fault):
            engine.ears()
        assert made[-1].raw.closed


def counting(watch, monkeypatch, enough=None):
    """Every time that it looks, as it does. enough: after so many it is interrupted."""
    looks, look = [], watch._select

    def counted(seconds):
        looks.append(seconds)
        if len(looks) == enough:
            watch.interrupt()
        return look(seconds)

    monkeypatch.setattr(watch, "_select", counted)
    return looks


def test_waiting_costs_next_to_nothing(store, monkeypatch):
    """It sleeps until it is told, which can be counted: what that took of a core depends on what else its process does."""
    with watching(store) as watch:
        while watch._is_polling():  # until what was written has settled
            watch.wait(0.2)
        looks = counting(watch, monkeypatch)
        assert not watch.wait(1.0)
        assert len(looks) < 5


def test_control_while_a_file_settles_it_looks_again_and_again(tmp_path, monkeypatch):
    with perdure.open(f"sqlite:///{tmp_path}/a.db") as store, watching(store) as watch:
        watch._settling_until = time.monotonic() + 2 * LONG
        looks = counting(watch, monkeypatch, enough=20)
        assert not watch.wait(LONG)
        assert len(looks) == 20


def test_without_the_kernels_help_it_looks_by_itself(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_inotify", lambda: None)
    url = f"sqlite:///{tmp_path}/a.db"
    with perdure.open(url) as store, watching(store) as watch, perdure.open(url) as other:
        assert heard(watch, lambda: other.start(watched))
        assert not watch.wait(0.2)


def test_a_memory_store_is_looked_at_now_and_then():
    with perdure.open("memory:") as store:
        watch = Watch(store._caller.core.engine, None)
        assert watch.wait(LONG)
        watch.interrupt()
        assert not watch.wait(LONG)
        watch.close()


def test_a_lost_listener_is_replaced(postgres_store):
    with perdure.open(postgres_store) as store, watching(store) as watch:

        class Lost:
            def fileno(self):
                return watch._ears_before.fileno()

            def heard(self):
                raise Fault(FaultKind.LOST, "gone")

            def close(self):
                watch._ears_before.close()

        watch._ears_before, watch._ears = watch._ears, Lost()
        assert heard(watch, lambda: store.start(watched))  # it looks, because it may have missed something
        watch._deaf_until = 0.0
        while watch.wait(0.3):
            pass
        assert heard(watch, lambda: store.start(watched))


def test_inotify_tells_of_writes(tmp_path):
    path = tmp_path / "a"
    path.write_text("")
    notes = Inotify()
    number = notes.add(str(path), WRITTEN)
    assert notes.read() == []
    path.write_text("x")
    assert (number, WRITTEN) in notes.read()
    with pytest.raises(OSError, match="add_watch"):
        notes.add(str(tmp_path / "missing"), WRITTEN)
    notes.close()
