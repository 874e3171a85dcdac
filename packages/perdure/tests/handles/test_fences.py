"""The contexts of a lock: whose writes it fences (P7)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

import perdure
from perdure.errors import Stale
from perdure_testing.clock import FakeClock


def test_a_thread_that_holds_no_lock_is_not_fenced(tmp_path: Path) -> None:
    clock = FakeClock()
    with perdure.open(f"sqlite:///{tmp_path}/a.db", actor="me", clock=clock) as store:
        session = store.session("s")
        session.lock("x", ttl="10s").__enter__()
        clock.advance("10s")
        other = threading.Thread(target=session.set, args=("by", "another thread"))
        other.start()
        other.join()
        with pytest.raises(Stale):
            session.set("by", "the block")
        assert session.get("by") == "another thread"


def test_a_lock_fences_its_own_store_alone(tmp_path: Path) -> None:
    clock = FakeClock()
    with (
        perdure.open(f"sqlite:///{tmp_path}/a.db", actor="me", clock=clock) as store,
        perdure.open(f"sqlite:///{tmp_path}/b.db", actor="me", clock=clock) as elsewhere,
    ):
        store.session("s").lock("x", ttl="10s").__enter__()
        clock.advance("10s")
        elsewhere.session("s").set("x", 1)
        assert elsewhere.session("s").get("x") == 1


def test_a_task_started_inside_is_fenced_while_the_block_lasts(tmp_path: Path) -> None:
    asyncio.run(_task_inside(tmp_path))


async def _task_inside(tmp_path: Path) -> None:
    clock = FakeClock()
    async with await perdure.aopen(f"sqlite:///{tmp_path}/a.db", actor="me", clock=clock) as store:
        session = await store.session("s")
        left, lost = asyncio.Event(), asyncio.Event()

        async def beside() -> None:
            with pytest.raises(Stale):
                await session.set("x", "inside")
            lost.set()
            await left.wait()
            await session.set("x", "after")

        lock = await session.lock("x", ttl="10s").__aenter__()
        clock.advance("10s")
        task = asyncio.create_task(beside())
        await lost.wait()
        with pytest.raises(Stale):
            await lock.__aexit__(None, None, None)
        left.set()
        await task
        assert await session.get("x") == "after"


def test_a_lock_inside_atomic_fences_nothing_after_it(tmp_path: Path) -> None:
    clock = FakeClock()
    with perdure.open(f"sqlite:///{tmp_path}/a.db", actor="me", clock=clock) as store:

        def take(tx: perdure.Atomic) -> None:
            tx.session("s").lock("x", ttl="10s").__enter__()

        store.atomic(take)
        clock.advance("10s")
        store.session("s").set("x", 1)


@perdure.agent
def errand(run: perdure.Run) -> str:
    """Asks a person."""
    return run.ask("Go?", choices=["yes", "no"])


def start(store: perdure.Store) -> None:
    store.start(errand, key="another")


def answer(store: perdure.Store) -> None:
    store.answer(store.asks()[0].id, "yes")


def open_session(store: perdure.Store) -> None:
    store.session("another")


def open_scope(store: perdure.Store) -> None:
    store.scope("project:another")


def delete(store: perdure.Store) -> None:
    store.delete("old", dry_run=False)


def forget(store: perdure.Store) -> None:
    store.forget_actor("them")


def events_in(store: perdure.Store) -> int:
    return store.query("SELECT count(*) AS n FROM v_events")[0]["n"]


STORE_WRITES = (start, answer, open_session, open_scope, delete, forget)


@pytest.mark.parametrize("write", STORE_WRITES, ids=lambda write: write.__name__)
def test_writes_of_the_store_itself_are_fenced(tmp_path: Path, write: Callable[[perdure.Store], None]) -> None:
    clock = FakeClock()
    with perdure.open(f"sqlite:///{tmp_path}/a.db", actor="me", clock=clock) as store:
        store.as_("them").session("old").say("user", "x")
        store.session("old").close("completed")
        with pytest.raises(perdure.Waiting):
            store.drive(errand, key="first")
        lock = store.session("s").lock("x", ttl="10s").__enter__()
        clock.advance("10s")
        before = events_in(store)
        with pytest.raises(Stale):
            write(store)
        assert events_in(store) == before
        with pytest.raises(Stale):
            lock.__exit__(None, None, None)
        write(store)  # the control: outside of the block nothing fences it
        assert events_in(store) > before
