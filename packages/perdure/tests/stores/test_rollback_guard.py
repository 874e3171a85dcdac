"""What is noted beside a store: whole slots of this store only, whatever was torn, planted or is another store's."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from perdure.model.ids import new_uid
from perdure.stores import rollback_guard
from perdure.stores.rollback_guard import SLOTS, NotedEvent, RollbackGuard

UID = "ab" * 16


def holder(number: int) -> str:
    """Holders of different slots, as long as there are any."""
    return f"{number:08x}" + "0" * 24


def mark(number: int) -> NotedEvent:
    return NotedEvent(1, bytes(15) + b"\1", number, bytes([100 + number]) * 32)


@pytest.fixture
def guard(tmp_path: Path) -> Iterator[RollbackGuard]:
    with closing(RollbackGuard(tmp_path, UID, holder(1))) as guard:
        yield guard


@pytest.fixture
def second(tmp_path: Path) -> Iterator[RollbackGuard]:
    """Another process's."""
    with closing(RollbackGuard(tmp_path, UID, holder(2))) as guard:
        yield guard


def noted(guard: RollbackGuard) -> list[NotedEvent]:
    with guard.held() as found:
        return found


def test_the_last_event_of_each_process_is_noted(guard: RollbackGuard, second: RollbackGuard, tmp_path: Path) -> None:
    for number in (1, 2):
        guard.note(mark(number))
    second.note(mark(3))
    guard.close()
    assert noted(RollbackGuard(tmp_path, UID)) == [mark(2), mark(3)]


def test_processes_that_share_a_slot_leave_the_last_one(guard: RollbackGuard, tmp_path: Path) -> None:
    guard.note(mark(1))
    with closing(RollbackGuard(tmp_path, UID, holder(1 + SLOTS))) as other:
        other.note(mark(2))
    assert noted(guard) == [mark(2)]


def test_what_was_forgotten_is_noted_anew_by_those_who_had_it_open(guard: RollbackGuard, second: RollbackGuard) -> None:
    guard.note(mark(1))
    with second.held() as found:
        assert len(found) == 1
        second.forget()
    assert noted(guard) == []
    guard.note(mark(2))
    assert noted(second) == [mark(2)]


def test_another_stores_file_says_nothing_and_is_made_anew(guard: RollbackGuard, tmp_path: Path) -> None:
    with closing(RollbackGuard(tmp_path, new_uid().hex())) as other:
        other.note(mark(1))
    assert noted(guard) == []
    guard.note(mark(2))
    assert noted(guard) == [mark(2)]


def test_a_torn_slot_says_nothing_and_the_others_do(
    guard: RollbackGuard, second: RollbackGuard, tmp_path: Path
) -> None:
    guard.note(mark(1))
    second.note(mark(2))
    whole = (tmp_path / "tide").read_bytes()
    at = whole.index(mark(2).hash) - 28
    for byte in range(64):
        torn = bytearray(whole)
        torn[at + byte] ^= 1
        (tmp_path / "tide").write_bytes(torn)
        assert noted(guard) == [mark(1)]
    for length in range(at):
        (tmp_path / "tide").write_bytes(whole[:length])
        assert len(noted(guard)) <= 1


def test_what_was_noted_is_brought_to_the_disk_at_the_end(guard: RollbackGuard, monkeypatch) -> None:
    synced = []
    monkeypatch.setattr(rollback_guard.os, "fdatasync", synced.append)
    guard.note(mark(1))
    guard.close()
    assert synced
    assert not guard.sync()


def test_git_is_told_to_leave_it_where_it_is(guard: RollbackGuard, tmp_path: Path) -> None:
    (tmp_path / ".gitignore").touch()
    guard.note(mark(1))
    assert (tmp_path / ".gitignore").read_text() == "*\n"


def test_without_a_folder_or_a_file_nothing_is_noted_and_nothing_fails(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for nowhere in (RollbackGuard(None, UID), RollbackGuard(tmp_path / "file", UID)):
        nowhere.note(mark(1))
        assert noted(nowhere) == []
        nowhere.close()


def test_a_link_is_not_followed(guard: RollbackGuard, tmp_path: Path) -> None:
    (tmp_path / "mine").write_bytes(b"my own")
    (tmp_path / "tide").symlink_to(tmp_path / "mine")
    guard.note(mark(1))
    assert (tmp_path / "mine").read_bytes() == b"my own"
    assert noted(guard) == []


def test_a_full_disk_leaves_no_lock_on_the_file(tmp_path, monkeypatch):
    """The file could not be made, and its lock kept every later sender waiting for good."""
    real = rollback_guard._empty

    def full(*_: object) -> None:
        monkeypatch.setattr(rollback_guard, "_empty", real)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(rollback_guard, "_empty", full)
    guard = RollbackGuard(tmp_path, "00" * 16)
    for seq in (1, 2):
        guard.note(mark(seq))
    with guard.held() as noted:
        assert noted == [mark(2)]
    guard.close()
