"""The model of power loss: what a trace leaves durable, and what may be left of the rest."""

from __future__ import annotations

from pathlib import Path

import pytest

from perdure_evaluate.recovery.faults.file_replay import Files, Untold

FOLDER = Path("/t/s")


def coded(text: str) -> str:
    return "".join(f"\\x{byte:02x}" for byte in text.encode())


def fd(number: int, name: str) -> str:
    return f"{number}<{coded(f'{FOLDER}/{name}')}>"


def opened(name: str, flags: str, number: int = 3) -> str:
    return f'7 openat(AT_FDCWD<{coded("/t")}>, "{coded(f"{FOLDER}/{name}")}", {flags}, 0666) = {fd(number, name)}'


def written(name: str, text: str, number: int = 3) -> str:
    return f'7 write({fd(number, name)}, "{coded(text)}", {len(text)}) = {len(text)}'


def replayed(*lines: str) -> Files:
    files = Files(FOLDER)
    files.replay("\n".join(lines))
    return files


def states(files: Files, name: str) -> list[bytes]:
    """All that a power loss may leave of a file."""
    file = files.files[f"{FOLDER}/{name}"]
    sizes = [len(op.data or b"") for op in file.pending]
    return [file.content(kept, cut) for kept, size in enumerate(sizes) for cut in range(max(size, 1))]


def test_what_was_synced_is_there_and_the_rest_may_be_torn() -> None:
    files = replayed(
        opened("a", "O_WRONLY|O_CREAT|O_APPEND"), written("a", "one"), f"7 fsync({fd(3, 'a')}) = 0", written("a", "two")
    )
    assert states(files, "a") == [b"one", b"onet", b"onetw"]


def test_a_file_that_is_rewritten_in_place_may_be_old_empty_or_cut() -> None:
    old = [opened("a", "O_WRONLY|O_CREAT|O_TRUNC"), written("a", "old"), f"7 fsync({fd(3, 'a')}) = 0"]
    files = replayed(*old, opened("a", "O_WRONLY|O_CREAT|O_TRUNC"), written("a", "new"))
    assert set(states(files, "a")) == {b"old", b"", b"n", b"ne"}


def test_a_renamed_file_is_as_durable_as_it_was() -> None:
    there = [opened("b", "O_WRONLY|O_CREAT|O_TRUNC"), written("b", "new"), f"7 fdatasync({fd(3, 'b')}) = 0"]
    files = replayed(*there, f'7 rename("{coded(f"{FOLDER}/b")}", "{coded(f"{FOLDER}/a")}") = 0')
    assert files.files[f"{FOLDER}/a"].content(0) == b"new"
    assert files.files[f"{FOLDER}/a"].pending == []
    assert f"{FOLDER}/b" not in files.files


def test_a_file_is_renamed_by_names_below_folders_too() -> None:
    made = [opened("live/b", "O_WRONLY|O_CREAT|O_TRUNC"), written("live/b", "new")]
    below = fd(4, "live")
    files = replayed(*made, f'7 renameat({below}, "{coded("b")}", {below}, "{coded("a")}") = 0')
    assert list(files.files) == [f"{FOLDER}/live/a"]
    with pytest.raises(Untold):
        replayed(*made, f'7 renameat({below}, "{coded("b")}", AT_FDCWD, "{coded("a")}") = 0')


def test_writes_at_places_calls_in_two_parts_and_calls_that_failed() -> None:
    begun, over = f'8 pwrite64({fd(3, "a")}, "{coded("xy")}", 2, 1 <unfinished ...>', "8 <... pwrite64 resumed>) = 2"
    failed = f'7 pwrite64({fd(3, "a")}, "{coded("zz")}", 2, 0) = -1 ENOSPC (No space)'
    killed = f'7 pwrite64({fd(3, "a")}, "{coded("zz")}", 2, 0) = ?'
    files = replayed(opened("a", "O_RDWR|O_CREAT"), begun, written("a", "abcd"), over, failed, killed)
    assert files.files[f"{FOLDER}/a"].content(2) == b"axyd"


def test_other_peoples_files_are_not_looked_at() -> None:
    assert replayed(f'7 write(1<{coded("/elsewhere")}>, "{coded("x")}", 1) = 1').files == {}


def test_what_the_model_does_not_know_is_not_passed_over() -> None:
    with pytest.raises(Untold):
        replayed(opened("a", "O_RDWR|O_CREAT"), f"7 fallocate({fd(3, 'a')}, 0, 0, 4096) = 0")
