"""What is noted beside a store: whole slots of this store only, whatever was torn, planted or is another store's."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from perdure.model.ids import new_uid
from perdure.stores import rollback_guard
from perdure.stores.rollback_guard import SLOTS, Dispatch, RollbackGuard

UID = "ab" * 16


def stream(number: int) -> bytes:
    """Streams of different slots, as long as there are any."""
    return number.to_bytes(4) + bytes(11) + b"\1"


@pytest.fixture
def guard(tmp_path: Path) -> RollbackGuard:
    return RollbackGuard(tmp_path, UID)


def noted(guard: RollbackGuard) -> list[Dispatch]:
    with guard.held() as found:
        return found


def test_the_last_dispatch_of_each_stream_is_noted(guard: RollbackGuard, tmp_path: Path) -> None:
    for attempt in (1, 2):
        guard.note(Dispatch(stream(1), 7, attempt))
    guard.note(Dispatch(stream(2), 9, 1))
    guard.close()
    assert noted(RollbackGuard(tmp_path, UID)) == [Dispatch(stream(1), 7, 2), Dispatch(stream(2), 9, 1)]


def test_streams_that_share_a_slot_leave_the_last_one(guard: RollbackGuard) -> None:
    for number in (1, 1 + SLOTS):
        guard.note(Dispatch(stream(number), number, 1))
    assert noted(guard) == [Dispatch(stream(1 + SLOTS), 1 + SLOTS, 1)]


def test_what_was_forgotten_is_noted_anew_by_those_who_had_it_open(guard: RollbackGuard, tmp_path: Path) -> None:
    guard.note(Dispatch(stream(1), 7, 1))
    other = RollbackGuard(tmp_path, UID)
    with other.held() as found:
        assert len(found) == 1
        other.forget()
    assert noted(guard) == []
    guard.note(Dispatch(stream(2), 9, 1))
    assert noted(other) == [Dispatch(stream(2), 9, 1)]


def test_another_stores_file_says_nothing_and_is_made_anew(guard: RollbackGuard, tmp_path: Path) -> None:
    other = RollbackGuard(tmp_path, new_uid().hex())
    other.note(Dispatch(stream(1), 7, 1))
    assert noted(guard) == []
    guard.note(Dispatch(stream(2), 9, 1))
    assert noted(guard) == [Dispatch(stream(2), 9, 1)]


def test_a_torn_slot_says_nothing_and_the_others_do(guard: RollbackGuard, tmp_path: Path) -> None:
    guard.note(Dispatch(stream(1), 7, 1))
    guard.note(Dispatch(stream(2), 9, 1))
    whole = (tmp_path / "tide").read_bytes()
    at = whole.index(stream(2))
    for byte in range(32):
        torn = bytearray(whole)
        torn[at + byte] ^= 1
        (tmp_path / "tide").write_bytes(torn)
        assert noted(guard) == [Dispatch(stream(1), 7, 1)]
    for length in range(at):
        (tmp_path / "tide").write_bytes(whole[:length])
        assert len(noted(guard)) <= 1


def test_git_is_told_to_leave_it_where_it_is(guard: RollbackGuard, tmp_path: Path) -> None:
    (tmp_path / ".gitignore").touch()
    guard.note(Dispatch(stream(1), 7, 1))
    assert (tmp_path / ".gitignore").read_text() == "*\n"


def test_without_a_folder_or_a_file_nothing_is_noted_and_nothing_fails(tmp_path: Path) -> None:
    for nowhere in (RollbackGuard(None, UID), RollbackGuard(tmp_path / "none", UID)):
        nowhere.note(Dispatch(stream(1), 7, 1))
        assert noted(nowhere) == []
        nowhere.close()


def test_a_link_is_not_followed(guard: RollbackGuard, tmp_path: Path) -> None:
    (tmp_path / "mine").write_bytes(b"my own")
    (tmp_path / "tide").symlink_to(tmp_path / "mine")
    guard.note(Dispatch(stream(1), 7, 1))
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
        guard.note(Dispatch(bytes(16), seq, 1))
    with guard.held() as noted:
        assert [each.effect for each in noted] == [2]
    guard.close()
