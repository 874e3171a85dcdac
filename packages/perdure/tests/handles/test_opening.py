"""Opening: every form of `aopen`, and what is refused before anything is made."""

from __future__ import annotations

import asyncio
import math
import pickle
import threading

import pytest

import perdure
from perdure.errors import Invalid, Refused
from perdure.handles import opening


def test_every_form_of_aopen():
    async def main() -> list[perdure.AsyncStore]:
        async with perdure.aopen("memory:") as entered:
            await entered.session("a")
        async with await perdure.aopen("memory:") as awaited:
            await awaited.session("a")
        opened = await asyncio.create_task(perdure.aopen("memory:"))
        await opened.session("a")
        await opened.close()
        return [entered, awaited, opened]

    async def late(store: perdure.AsyncStore) -> None:
        await store.session("b")

    for store in asyncio.run(main()):
        with pytest.raises(Refused, match="closed"):
            asyncio.run(late(store))


def test_aopen_can_be_run():
    async def close(store: perdure.AsyncStore) -> None:
        await store.close()

    asyncio.run(close(asyncio.run(perdure.aopen("memory:"))))


def test_an_error_inside_still_closes():
    async def main() -> perdure.AsyncStore:
        with pytest.raises(ZeroDivisionError):
            async with perdure.aopen("memory:") as store:
                _ = 1 // 0
        return store

    assert asyncio.run(main())._caller.core._closed


def test_an_aopen_that_nobody_awaits_is_warned_of():
    forgotten = [perdure.aopen("memory:")]
    with pytest.warns(RuntimeWarning, match="never awaited"):
        forgotten.clear()


@pytest.mark.parametrize("late", [True, False])
def test_an_aopen_that_is_cancelled_leaves_nothing_open(tmp_path, monkeypatch, late):
    """Nobody gets what its thread opens: so it is closed, whoever of the two is done first."""
    opened, begun, cancelled = [], threading.Event(), threading.Event()
    open_core = opening._open_core

    def slow(*args, **options):
        begun.set()
        assert not late or cancelled.wait(60)
        opened.append(open_core(*args, **options))
        begun.set() if late else brought.set()
        return opened[-1]

    brought = threading.Event()
    monkeypatch.setattr(opening, "_open_core", slow)

    async def main():
        task = asyncio.create_task(perdure.aopen(f"sqlite:///{tmp_path}/a.db"))
        await asyncio.sleep(0)
        assert (begun if late else brought).wait(60)  # the loop stands still: it cannot have taken it yet
        task.cancel()
        cancelled.set()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())  # waits for its threads
    assert [core._closed for core, _ in opened] == [True]


def test_one_opening_is_good_for_one_store():
    async def main():
        once = perdure.aopen("memory:")
        async with once as store:
            with pytest.raises(RuntimeError, match="already awaited"):
                await once
            await store.session("a")
        assert store._caller.core._closed

    asyncio.run(main())


@pytest.mark.parametrize("timeout", [0, -1, math.nan, math.inf, 10**9, "30", None, True])
def test_a_timeout_is_a_positive_number(tmp_path, timeout):
    for url in ("memory:", f"sqlite:///{tmp_path}/agent.db"):
        with pytest.raises(Invalid) as refused:
            perdure.open(url, timeout=timeout)
        assert refused.value.path == "timeout"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("lease", [0, 0.5, -1, math.nan, 10**6, "60", None, True])
def test_a_lease_is_a_second_or_more(tmp_path, lease):
    for open_it in (perdure.open, lambda url, **options: asyncio.run(perdure.aopen(url, **options))):
        with pytest.raises(Invalid) as refused:
            open_it(f"sqlite:///{tmp_path}/agent.db", lease=lease)
        assert refused.value.path == "lease"
    assert list(tmp_path.iterdir()) == []


def test_a_store_is_taken_for_alive_as_long_as_its_lease_says(tmp_path):
    with perdure.open(f"sqlite:///{tmp_path}/agent.db", lease=5) as store:
        assert store._caller.core.clocks.lease_us == 5_000_000
        assert store._caller.core.lease_seconds == 5


@pytest.mark.parametrize("place", ["banana", "", "ftp://x", "file://host/x", 7])
def test_a_place_for_artifacts_is_refused_before_a_database_is_made(tmp_path, place):
    for open_it in (perdure.open, lambda url, **options: asyncio.run(perdure.aopen(url, **options))):
        with pytest.raises(Invalid) as refused:
            open_it(f"sqlite:///{tmp_path}/agent.db", artifacts=place)
        assert refused.value.path == "artifacts"
    assert list(tmp_path.iterdir()) == []


def test_so_is_one_in_the_url(tmp_path):
    with pytest.raises(Invalid) as refused:
        perdure.open(f"sqlite:///{tmp_path}/agent.db?artifacts=banana")
    assert refused.value.path == "store.artifacts"
    assert list(tmp_path.iterdir()) == []


def test_control_what_is_right_is_opened(tmp_path):
    with perdure.open(f"sqlite:///{tmp_path}/agent.db", timeout=30, artifacts=f"file://{tmp_path}/blobs") as store:
        store.session("a")
    assert (tmp_path / "agent.db").exists()


def test_a_store_and_its_handles_cannot_be_pickled_and_say_what_to_do_instead():
    with perdure.open("memory:", actor="me") as store:
        session = store.session("a")
        for held in (store, session, session.task("t"), session.decide("d", because="b")):
            with pytest.raises(Refused, match="open it there by its URL"):
                pickle.dumps(held)


def test_a_repr_shows_no_password():
    with perdure.open("memory:") as store:
        store._caller.core.engine.url = "postgresql://ann:secret@host/db?password=secret"
        assert "secret" not in repr(store)


@pytest.mark.parametrize("clock", [lambda: 1.5e15, lambda: None, lambda: True, lambda: 10**40, 7, "now"])
def test_a_clock_that_gives_no_microseconds_is_refused(tmp_path, clock):
    """It was a struct.error in the middle of the first write."""
    with pytest.raises(Invalid, match="clock: expected") as refused:
        perdure.open(f"sqlite:///{tmp_path}/a.db", clock=clock)
    assert refused.value.path == "clock"
    assert "time_ns" in refused.value.hint
    assert [*tmp_path.iterdir()] == []  # before anything is made
    perdure.open(f"sqlite:///{tmp_path}/a.db", clock=lambda: 1_500_000_000_000_000).close()  # the control
