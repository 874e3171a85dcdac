"""A disk that can lose its power: a small ext4 file system in a file, mounted by root, shut down with nothing flushed.

Tests of what is durable (P1) and the evaluation call it. Synced data is there when it is mounted again; of the rest some.
A process that may be inside a sync when the power goes must not be believed: `tests/faults/test_power.py` says why.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import struct
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from perdure.model import programs

CLONE_NEWNS = 0x00020000
EXT4_SHUTDOWN = 0x8004587D
NO_LOG_FLUSH = struct.pack("I", 2)
IMAGE_BYTES = 256 * 2**20
RUN_SECONDS = 120.0


class Disk:
    """A file system in `folder`: its image, and the place where it is mounted. Raises OSError where there can be none."""

    def __init__(self, folder: Path, size_bytes: int = IMAGE_BYTES) -> None:
        self._image = folder / "image"
        self.place = folder / "disk"
        self.place.mkdir()
        with self._image.open("wb") as file:
            file.truncate(size_bytes)
        run("mkfs.ext4", "-qF", str(self._image))

    def mount(self) -> None:
        """Begin to use it, for this process and those that it starts; what a loss left is recovered."""
        own_mounts()
        run("mount", "-o", "loop", str(self._image), str(self.place))

    def unmount(self) -> None:
        """Take it away; nobody may have a file open on it."""
        run("umount", str(self.place))

    @contextlib.contextmanager
    def mounted(self) -> Iterator[None]:
        """Mounted, for a while."""
        self.mount()
        try:
            yield
        finally:
            self.unmount()

    def lose_power(self) -> None:
        """Data that was not synced is gone; every call fails from here on, until it is mounted again."""
        if not self.place.is_mount():
            raise RuntimeError(f"{self.place} is not mounted: this would shut down the filesystem that it lies on")
        folder = os.open(self.place, os.O_RDONLY)
        try:
            fcntl.ioctl(folder, EXT4_SHUTDOWN, NO_LOG_FLUSH)
        finally:
            os.close(folder)


@cache
def own_mounts() -> None:
    """From now on this process's mounts are its own. A file system that others have too is not gone when one unmounts it."""
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNS) != 0:
        raise OSError(ctypes.get_errno(), "no mounts of its own")
    run("mount", "--make-rprivate", "/")


def run(*words: str) -> None:
    """Run a program of the system. Raises OSError with its words."""
    ended = programs.run(words, env=os.environ, seconds=RUN_SECONDS)
    if ended.exit != 0:
        raise OSError(f"{words[0]}: {str(ended.err).strip()[:200]}")
