"""A worker at an open store: now and then it tidies, and it is never kept from looking by that."""

from __future__ import annotations

import asyncio

import pytest

import perdure
from perdure.handles.colours import run_for
from perdure.handles.working import open_for_worker
from perdure.runtime import worker as working
from perdure.runtime.worker import Worker, WorkerSettings
from perdure.stores import liveness
from perdure.stores.liveness import Liveness

DEAD = "d" * 32


@pytest.fixture
def hired(tmp_path, monkeypatch):
    monkeypatch.setattr(liveness, "OLD_SECONDS", -3600.0)
    perdure.open(f"sqlite:///{tmp_path}/a.db").close()
    caller = open_for_worker(f"sqlite:///{tmp_path}/a.db", actor="worker", tenant="default", lease_seconds=60.0)
    caller.core.liveness.begin()
    yield lambda: Worker(caller, {}, WorkerSettings(suspects_only=True), run_for)
    caller.heartbeat.close()
    caller.core.close()


def leave(worker):
    """A lock file whose process is gone."""
    path = worker._core.liveness.folder / DEAD
    path.touch()
    return path


def test_looking_tidies_now_and_then(hired, monkeypatch):
    async def main():
        worker = hired()
        path = leave(worker)
        await worker._look()
        assert not path.exists()
        path = leave(worker)
        await worker._look()
        assert path.exists()  # not at every look
        monkeypatch.setattr(working, "TIDY_SECONDS", 0.0)
        worker._tidy_at = 0.0
        await worker._look()
        assert not path.exists()

    asyncio.run(main())


def test_what_cannot_be_tidied_is_said_and_keeps_nobody(hired, monkeypatch, caplog):
    def refuse(*_):
        raise PermissionError("not here")

    async def main():
        assert await hired()._look() is None  # there are no suspects: it is done

    monkeypatch.setattr(Liveness, "tidy", refuse)
    asyncio.run(main())
    assert "not here" in caplog.text
