"""The connections of a process to PostgreSQL: two while it is idle, one more for each read at work, and a bound (P15)."""

from __future__ import annotations

import asyncio
import threading

import psycopg
import pytest

from perdure.errors import TimedOut
from perdure.handles.colours import run_for
from perdure.runtime.callers import AsyncCaller
from perdure.runtime.worker import Worker, WorkerSettings
from perdure.stores import core as cores
from perdure.stores.core import open_core
from stores.verbs import Called, opened, until

LOOKS = 5
pytestmark = pytest.mark.usefixtures("new_connections")


class Watched(Worker):
    """A worker that counts its looks."""

    looks = 0

    async def _look(self) -> float | None:
        self.looks += 1
        return await super()._look()


def connections(url: str) -> list[str]:
    """The names of Perdure's connections to this database."""
    with psycopg.connect(url.partition("?")[0]) as admin:
        rows = admin.execute(
            "SELECT application_name FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        return sorted(name.partition("-")[2][:8] for (name,) in rows if name.startswith("perdure-"))


class Reading(AsyncCaller):
    """The control: it looks on a connection of its own."""

    borrow = AsyncCaller.read


async def _idle(url: str, kind: type[AsyncCaller]) -> list[str]:
    core = open_core(url)
    caller = kind(core, "me", core.tenant_id("default"))
    worker = Watched(caller, {}, WorkerSettings(poll_seconds=0.05), run_for)
    core.close_idle(0)
    task = asyncio.create_task(worker.run())
    try:
        async with asyncio.timeout(60):
            while worker.looks < LOOKS:  # noqa: ASYNC110 - played, not timed
                await asyncio.sleep(0.01)
            core.close_idle(0)  # what it read while it introduced itself
            while worker.looks < 2 * LOOKS:  # noqa: ASYNC110 - as above
                await asyncio.sleep(0.01)
        return connections(url)
    finally:
        worker.stop()
        await task
        await worker.close()


def test_an_idle_worker_holds_two_connections(postgres_store):
    assert len(asyncio.run(_idle(postgres_store, AsyncCaller))) == 2


def test_control_a_worker_that_looks_on_a_reader_holds_three(postgres_store):
    assert len(asyncio.run(_idle(postgres_store, Reading))) == 3


def test_readers_that_nobody_uses_are_closed_though_nothing_happens_any_more(postgres_store, monkeypatch):
    """A program, or a server, that read once and then did nothing kept them for good."""
    monkeypatch.setattr(cores, "READER_IDLE_SECONDS", 0.05)
    with opened(postgres_store) as store:
        for _ in range(2):  # again after a time in which nothing was read
            store.write(lambda _: None)
            store.read(lambda _: store.read(lambda _: None))
            until(lambda: len(connections(postgres_store)) == 1)
        store.read(lambda _: None)


def test_control_a_reader_is_kept_for_who_reads_next(postgres_store):
    with opened(postgres_store) as store:
        store.write(lambda _: None)
        for _ in range(3):
            store.read(lambda _: None)
        assert connections(postgres_store).count("reader") == 1


def test_reads_at_work_have_a_bound_and_the_others_wait(postgres_store):
    with opened(postgres_store) as store:
        store.core.close_idle(0.0)
        gate = threading.Event()
        at_work: list[int] = []

        def read(_: object) -> int:
            at_work.append(1)
            assert gate.wait(60)
            return 1

        readers = [Called(store.read, read) for _ in range(3 * cores.READERS_MAX)]
        until(lambda: len(at_work) == cores.READERS_MAX)
        assert connections(postgres_store).count("reader") == cores.READERS_MAX
        gate.set()
        assert sum(each.outcome() for each in readers) == 3 * cores.READERS_MAX


def test_a_read_that_finds_no_place_in_its_time_is_told_so(postgres_store, monkeypatch):
    with opened(postgres_store) as store:
        monkeypatch.setattr(store.core, "_readers_out", cores.READERS_MAX)
        monkeypatch.setattr(store.core, "timeout_seconds", 0.05)
        with pytest.raises(TimedOut, match="reads"):
            store.read(lambda _: None)


def test_a_read_that_fails_gives_its_place_back(postgres_store):
    def fails(_: object) -> None:
        raise ValueError("no")

    with opened(postgres_store) as store:
        for _ in range(2 * cores.READERS_MAX):
            with pytest.raises(ValueError, match="no"):
                store.read(fails)
        assert store.core._readers_out == 0
