"""A file that is deleted, moved away or replaced while a store has it open is told, and nothing is acknowledged (P1)."""

from __future__ import annotations

import asyncio

import pytest

import perdure
from perdure.errors import Damaged


def delete(path):
    path.unlink()


def move(path):
    path.rename(path.with_name("elsewhere.db"))


def replace(path):
    path.rename(path.with_name("elsewhere.db"))
    perdure.open(f"sqlite:///{path.with_name('new.db')}").close()
    path.with_name("new.db").rename(path)


@pytest.mark.parametrize("act", [delete, move, replace])
def test_a_file_that_goes_while_it_is_open_acknowledges_nothing(tmp_path, act):
    path = tmp_path / "a.db"
    store = perdure.open(f"sqlite:///{path}")
    session = store.session("a")
    session.say("user", "kept")
    act(path)
    for _ in range(2):
        with pytest.raises(Damaged, match="deleted, moved or replaced"):
            session.say("user", "lost")
    store.close()
    if act is not delete:
        for left in tmp_path.glob("a.db-*"):  # they belong to the file that was moved
            left.rename(tmp_path / left.name.replace("a.db", "elsewhere.db"))
        with perdure.open(f"sqlite:///{tmp_path}/elsewhere.db") as moved:
            assert [turn.content for turn in moved.session("a").turns()] == ["kept"]


def test_one_that_goes_during_the_commit_is_not_acknowledged_either(tmp_path, monkeypatch):
    path = tmp_path / "a.db"
    with perdure.open(f"sqlite:///{path}") as store:
        session = store.session("a")
        with pytest.raises(Damaged):
            store.atomic(lambda tx: (tx.session("a").say("user", "lost"), path.unlink(missing_ok=True)))
        with pytest.raises(Damaged):
            session.say("user", "x")


def test_async_too(tmp_path):
    async def main():
        async with perdure.aopen(f"sqlite:///{tmp_path}/a.db") as store:
            session = await store.session("a")
            (tmp_path / "a.db").unlink()
            with pytest.raises(Damaged):
                await session.say("user", "x")

    asyncio.run(main())


def test_closing_an_old_store_takes_nothing_from_the_new_one(tmp_path):
    path = tmp_path / "a.db"
    old = perdure.open(f"sqlite:///{path}")
    old.session("a").say("user", "old")
    for left in tmp_path.glob("a.db*"):
        if left.is_file():
            left.unlink()
    with perdure.open(f"sqlite:///{path}") as new:
        session = new.session("b")
        session.say("user", "new")
        with pytest.raises(Damaged):
            old.session("c")
        old.close()
        session.say("user", "newer")
        assert (tmp_path / "a.db-wal").exists()
    with perdure.open(f"sqlite:///{path}") as again:
        assert [turn.content for turn in again.session("b").turns()] == ["new", "newer"]
        assert again.verify().ok


def test_control_a_file_that_stays_is_written(tmp_path):
    with perdure.open(f"sqlite:///{tmp_path}/a.db") as store:
        store.session("a").say("user", "x")
        (tmp_path / "a.db").chmod(0o600)
        store.session("a").say("user", "y")
