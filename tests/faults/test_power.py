"""Power loss on a real filesystem: an ext4 image whose device goes away while it is written to (P1)."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure.errors import Error
from stores.verbs import everything

WRITER = Path(__file__).with_name("writer.py")
EXT4_SHUTDOWN = 0x8004587D
NO_LOG_FLUSH = struct.pack("I", 2)


class Disk:
    """A small ext4 filesystem in a file."""

    def __init__(self, folder: Path) -> None:
        self._image = folder / "image"
        self.place = folder / "disk"
        self.place.mkdir()
        with self._image.open("wb") as file:
            file.truncate(48 * 2**20)
        run("mkfs.ext4", "-qF", str(self._image))

    @contextlib.contextmanager
    def mounted(self) -> Iterator[None]:
        run("mount", "-o", "loop", str(self._image), str(self.place))
        try:
            yield
        finally:
            run("umount", str(self.place))

    def lose_power(self) -> None:
        """What was not synced is gone; every call fails from here on."""
        folder = os.open(self.place, os.O_RDONLY)
        try:
            fcntl.ioctl(folder, EXT4_SHUTDOWN, NO_LOG_FLUSH)
        finally:
            os.close(folder)


def run(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True)


@pytest.fixture
def disk(tmp_path) -> Disk:
    if os.geteuid():
        pytest.skip("only root can mount a filesystem to lose: power loss is not tested")
    try:
        disk = Disk(tmp_path)
        with disk.mounted():
            disk.lose_power()
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no filesystem can be lost here, so power loss is not tested: {error}")
    return disk


def written_until_the_power_went(disk: Disk, what: str, acks: int) -> list[str]:
    """What we had heard of when the power went. Not what was printed meanwhile: this way of losing it is no
    instant, and a bare `fdatasync` that is under way just then is now and then told that it succeeded."""
    command = [sys.executable, str(WRITER), f"sqlite:///{disk.place}/agent.db", what, "1000000"]
    env = {**os.environ, "PYTHONPATH": str(WRITER.parents[1])}
    with disk.mounted():
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=env) as program:
            assert program.stdout is not None
            lines = [program.stdout.readline() for _ in range(acks)]
            disk.lose_power()
            program.send_signal(signal.SIGKILL)
    return [line.decode().strip() for line in lines]


@pytest.mark.parametrize("acks", [1, 40, 300])
def test_what_was_acknowledged_survives_a_power_loss(disk, acks):
    acked = written_until_the_power_went(disk, "one", acks)
    with disk.mounted():
        stored = everything(f"sqlite:///{disk.place}/agent.db")
    assert set(acked) <= set(stored)
    assert set(stored.values()) == {1}


def test_control_without_syncs_acknowledged_writes_are_lost(disk):
    acked = written_until_the_power_went(disk, "loose", 40)
    with disk.mounted():
        try:
            stored = set(everything(f"sqlite:///{disk.place}/agent.db"))
        except Error:
            stored = set()  # the whole database is gone
    assert not set(acked) <= stored
