"""The desk of a worker: now and then it tidies, and it is never kept from looking by that."""

from __future__ import annotations

import asyncio

import pytest

import perdure
from perdure.handles import working
from perdure.handles.working import open_desk
from perdure.stores import living
from perdure.stores.living import Living

DEAD = "d" * 32


@pytest.fixture
def desk(tmp_path, monkeypatch):
    monkeypatch.setattr(living, "OLD_SECONDS", -3600.0)
    perdure.open(f"sqlite:///{tmp_path}/a.db").close()
    made = open_desk(f"sqlite:///{tmp_path}/a.db", actor="worker", tenant="default", lease_seconds=60.0)
    made._core.living.begin()
    yield made
    made._leave()


def leave(desk):
    """A lock file whose process is gone."""
    path = desk._core.living.folder / DEAD
    path.touch()
    return path


def test_looking_tidies_now_and_then(desk, monkeypatch):
    path = leave(desk)
    asyncio.run(desk.look([], 0))
    assert not path.exists()
    path = leave(desk)
    asyncio.run(desk.look([], 0))
    assert path.exists()  # not at every look
    monkeypatch.setattr(working, "TIDY_SECONDS", 0.0)
    desk._tidy_at = 0.0
    asyncio.run(desk.look([], 0))
    assert not path.exists()


def test_what_cannot_be_tidied_is_said_and_keeps_nobody(desk, monkeypatch, caplog):
    def refuse(*_):
        raise PermissionError("not here")

    monkeypatch.setattr(Living, "tidy", refuse)
    assert asyncio.run(desk.look([], 0)).takeable == []
    assert "not here" in caplog.text
