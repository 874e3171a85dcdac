"""Other systems: without fdatasync, with F_FULLFSYNC (macOS), and Windows, which is refused with a reason (P1, P15)."""

from __future__ import annotations

import errno
import fcntl
import os
import subprocess
import sys

import pytest

import perdure
from perdure.artifacts import descriptors
from stores.files import rebuilt


def test_a_system_without_fdatasync_appends_all_the_same(tmp_path, monkeypatch):
    monkeypatch.delattr(os, "fdatasync")
    with perdure.open(f"files:///{tmp_path}/store") as store:
        store.session("a").say("user", "kept")
    rebuilt.check(tmp_path / "store")


def test_where_the_drive_can_be_told_to_empty_its_cache_it_is(tmp_path, monkeypatch):
    told: list[int] = []
    real = fcntl.fcntl

    def control(fd: int, command: int, *args: int) -> int:
        if command == 51:
            told.append(fd)
            return 0
        return real(fd, command, *args)

    monkeypatch.setattr(fcntl, "F_FULLFSYNC", 51, raising=False)
    monkeypatch.setattr(fcntl, "fcntl", control)
    with perdure.open(f"files:///{tmp_path}/store") as store:
        before = len(told)
        store.session("a").say("user", "kept")
        assert len(told) > before


def test_a_file_system_that_cannot_do_that_is_synced(tmp_path, monkeypatch):
    synced: list[int] = []

    def refusing(*_: int) -> int:
        raise OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP))

    monkeypatch.setattr(fcntl, "F_FULLFSYNC", 51, raising=False)
    monkeypatch.setattr(fcntl, "fcntl", refusing)
    monkeypatch.setattr(os, "fsync", synced.append)
    descriptors.flush(7)
    assert synced == [7]


def test_windows_is_refused_when_it_is_imported():
    program = "import sys; sys.platform = 'win32'; import perdure"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "ImportError: Perdure runs on Linux and macOS, and not on Windows: use it in WSL 2" in done.stderr


@pytest.mark.parametrize("missing", ["fdatasync", None])
def test_control_a_sync_that_fails_is_told_either_way(tmp_path, monkeypatch, missing):
    with perdure.open(f"files:///{tmp_path}/store") as store:
        session = store.session("a")
        if missing:
            monkeypatch.delattr(os, missing)

        def failing(_: int) -> None:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

        monkeypatch.setattr(os, "fsync" if missing else "fdatasync", failing)
        with pytest.raises(perdure.Unavailable):
            session.say("user", "not acknowledged")
        monkeypatch.undo()
