"""A worker without a run indexes what was said and makes vectors, a little at a time; a run that comes is driven at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

import perdure
from perdure.handles.colours import run_for
from perdure.handles.working import open_for_worker
from perdure.planes.memory import index, upkeep, vectors
from perdure.planes.memory.vectors import Q
from perdure.runtime import worker as working
from perdure.runtime.agent import DECLARED
from perdure.runtime.worker import Worker, WorkerSettings
from perdure_testing.embedding import HashedEmbedding

TURNS = 500
BOUND_SECONDS = 30


@perdure.agent(name="indexing-greets")
def greets(run: perdure.Run, name: str) -> str:
    return run.step(str.upper, name)


@pytest.fixture
def url(tmp_path) -> str:
    made = f"sqlite:///{tmp_path}/a.db"
    with perdure.open(made, embed=False) as store:
        store.atomic(lambda tx: [tx.session("s").say("user", f"heron {number} fishes") for number in range(TURNS)])
    return made


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "PATIENT_EVENTS", 50)
    monkeypatch.setattr(working, "INDEX_SECONDS", 0.01)


def waiting(url: str) -> tuple[int, int]:
    """How many texts are in the index, and how many vectors."""
    with perdure.open(url, embed=False) as store:
        texts, made = store._caller.read(lambda reads: reads.query(Q.texts_and_vectors, tenant=reads.tenant)[0])
        return texts, made


def work(url: str, until: Callable[[], bool], *, embed: Any = False, indexes: bool = True) -> None:
    """Work until something is so."""

    async def working_until() -> None:
        caller = open_for_worker(url, actor="w", tenant="default", lease_seconds=30)
        caller.core.embed = embed
        settings = WorkerSettings(poll_seconds=0.02, indexes=indexes)
        made = Worker(caller, {"indexing-greets": DECLARED["indexing-greets"]}, settings, run_for)
        task = asyncio.create_task(made.run())
        for _ in range(BOUND_SECONDS * 100):
            if until() or task.done():
                break
            await asyncio.sleep(0.01)
        made.stop()
        await task
        await made.close()
        assert until()

    asyncio.run(working_until())


def test_an_idle_worker_indexes_and_embeds_all_that_waits(url: str) -> None:
    assert waiting(url) == (0, 0)
    work(url, lambda: waiting(url) == (TURNS, TURNS), embed=HashedEmbedding())
    with perdure.open(url, embed=False) as store:
        assert store.search("heron 7").complete


def test_control_a_worker_that_is_told_not_to_leaves_it_alone(url: str) -> None:
    looks: list[int] = []
    work(url, lambda: looks.append(1) or len(looks) > 50, indexes=False)
    assert waiting(url) == (0, 0)


def test_a_run_does_not_wait_for_an_index_that_is_never_done(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    slices: list[int] = []
    monkeypatch.setattr(upkeep, "bring_some", lambda *_: not slices.append(1))
    with perdure.open(url, embed=False) as store:
        handle: list[Any] = []

        def driven() -> bool:
            if slices and not handle:
                handle.append(store.start(greets, "ada"))
            return bool(handle) and handle[0].refresh().status == "completed"

        work(url, driven)
        assert handle[0].result(timeout=1) == "ADA"


def test_an_embedding_that_fails_leaves_the_words_and_the_worker(url: str) -> None:
    def broken(texts: list[str]) -> list[list[float]]:
        raise OSError("no weights")

    work(url, lambda: waiting(url)[0] == TURNS, embed=broken)
    assert waiting(url) == (TURNS, 0)


def test_a_slice_is_bounded_and_the_next_one_continues(url: str) -> None:
    with perdure.open(url, embed=HashedEmbedding()) as store:
        core, tenant = store._caller.core, store._caller.tenant
        assert upkeep.bring_some(core, tenant)
        assert 0 < waiting(url)[0] <= 50
        slices = 1
        while upkeep.bring_some(core, tenant):
            slices += 1
            assert slices < 200
        assert slices >= TURNS // 50 + TURNS // upkeep.SOME_VECTORS
        assert waiting(url) == (TURNS, TURNS)
        assert store._caller.read(vectors.is_complete, core.embed)
