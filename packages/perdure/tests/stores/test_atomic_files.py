"""Files that appear whole or not at all, and what unfinished ones leave behind (P1, P15)."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from perdure.errors import Conflict, Error, Full, Invalid, NotFound, ReadOnly, Refused, Unavailable
from perdure.stores import atomic_files
from stores.verbs import Called


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_an_unfinished_folder_goes_at_the_end(tmp_path: Path) -> None:
    target = tmp_path / "t"
    with atomic_files.unfinished(target, blobs=True) as folder:
        (folder / "t").write_text("whole")
        atomic_files.blobs_beside(target).mkdir()
        atomic_files.publish(folder / "t", target)
    assert names(tmp_path) == ["t", "t.blobs"]
    assert target.read_text() == "whole"


def test_what_fails_leaves_nothing(tmp_path: Path) -> None:
    target = tmp_path / "t"

    def fail() -> None:
        with atomic_files.unfinished(target, blobs=True) as folder:
            (folder / "t").write_text("half")
            atomic_files.blobs_beside(target).mkdir()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert names(tmp_path) == []


def test_an_interrupt_after_the_name_was_given_takes_no_blobs_away(tmp_path: Path) -> None:
    """What is visible is whole: a Ctrl-C may come right after the last step."""
    target = tmp_path / "t"

    def interrupted() -> None:
        with atomic_files.unfinished(target, blobs=True) as folder:
            (folder / "t").write_text("whole")
            atomic_files.blobs_beside(target).mkdir()
            atomic_files.publish(folder / "t", target)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert names(tmp_path) == ["t", "t.blobs"]


def test_nor_does_one_while_it_is_given(tmp_path: Path) -> None:
    target = tmp_path / "t"

    def interrupted() -> None:
        with atomic_files.unfinished(target, blobs=True) as folder:
            (folder / "t").write_text("whole")
            atomic_files.blobs_beside(target).mkdir()
            os.link(folder / "t", target)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert names(tmp_path) == ["t", "t.blobs"]


def test_control_a_target_of_somebody_else_does_not_keep_our_blobs(tmp_path: Path) -> None:
    target = tmp_path / "t"

    def late() -> None:
        with atomic_files.unfinished(target, blobs=True) as folder:
            (folder / "t").write_text("whole")
            atomic_files.blobs_beside(target).mkdir()
            target.write_text("theirs")
            atomic_files.publish(folder / "t", target)

    with pytest.raises(Conflict):
        late()
    assert names(tmp_path) == ["t"]


@pytest.mark.parametrize("name", ["blobs", "t.blobs", ".t", "-wal"])
def test_any_name_will_do(tmp_path: Path, name: str) -> None:
    target = tmp_path / name
    with atomic_files.unfinished(target, blobs=True) as folder:
        atomic_files.new_file(folder / name)
        atomic_files.publish(folder / name, target)
    assert names(tmp_path) == [name]


def test_blobs_that_are_there_already_are_kept(tmp_path: Path) -> None:
    atomic_files.blobs_beside(tmp_path / "t").mkdir()
    with pytest.raises(Conflict, match="exists already"), atomic_files.unfinished(tmp_path / "t", blobs=True):
        pass
    assert names(tmp_path) == ["t.blobs"]


KILLED = """
import os, signal, sys
from pathlib import Path
from perdure.stores import atomic_files
target = Path(sys.argv[1])
with atomic_files.unfinished(target, blobs=True) as folder:
    (folder / "t").write_text("half")
    (folder / "more").mkdir()
    atomic_files.blobs_beside(target).mkdir()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def kill_one(target: Path) -> None:
    subprocess.run([sys.executable, "-c", KILLED, str(target)], check=False)
    assert names(target.parent) == [".t.unfinished", "t.blobs"]


def test_what_a_killed_run_left_behind_goes_with_the_next_one(tmp_path: Path) -> None:
    target = tmp_path / "t"
    kill_one(target)
    with atomic_files.unfinished(target) as folder:
        assert names(tmp_path) == [".t.unfinished"]
        assert names(folder) == []
    assert names(tmp_path) == []


def test_blobs_of_a_target_that_got_its_name_stay(tmp_path: Path) -> None:
    kill_one(tmp_path / "t")
    (tmp_path / "t").touch()
    with atomic_files.unfinished(tmp_path / "t"):
        pass
    assert names(tmp_path) == ["t", "t.blobs"]


def test_who_is_still_at_it_is_not_disturbed(tmp_path: Path) -> None:
    with atomic_files.unfinished(tmp_path / "t") as folder:
        (folder / "t").write_text("half")
        with pytest.raises(Conflict, match="another process"), atomic_files.unfinished(tmp_path / "t"):
            pass
        assert names(folder) == ["t"]


def test_who_waits_gets_it_afterwards(tmp_path: Path) -> None:
    entered = threading.Event()

    def second() -> list[str]:
        entered.set()
        with atomic_files.unfinished(tmp_path / "t", wait_seconds=60) as folder:
            return names(folder)

    with atomic_files.unfinished(tmp_path / "t") as folder:
        (folder / "t").write_text("half")
        waiting = Called(second)
        assert entered.wait(60)
    assert waiting.outcome() == []
    assert names(tmp_path) == []


def test_a_name_that_is_not_durable_is_taken_away_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(path: Path) -> None:
        if path == tmp_path:
            raise OSError(errno.EIO, "Input/output error")

    (tmp_path / "partial").write_text("whole")
    monkeypatch.setattr(atomic_files, "sync", fails)
    with pytest.raises(OSError, match="Input/output"):
        atomic_files.publish(tmp_path / "partial", tmp_path / "t")
    assert names(tmp_path) == ["partial"]


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (errno.ENOSPC, Full),
        (errno.EDQUOT, Full),
        (errno.EROFS, ReadOnly),
        (errno.ENOENT, NotFound),
        (errno.EISDIR, Invalid),
        (errno.EACCES, Refused),
        (errno.EIO, Unavailable),
    ],
)
def test_what_the_disk_says(number: int, expected: type[Error]) -> None:
    with pytest.raises(Error) as caught, atomic_files.disk_errors(Path("/b")):
        raise OSError(number, os.strerror(number))
    assert (type(caught.value), caught.value.path) == (expected, "/b")
    with pytest.raises(expected) as caught, atomic_files.disk_errors(Path("/b"), "store"):
        raise OSError(number, os.strerror(number))
    assert (caught.value.path, caught.value.message) == ("store", f"/b: {os.strerror(number)}")
