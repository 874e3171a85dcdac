"""Folders for what is killed on purpose, in memory where there is such a place. A process that begins clears up after the dead.

A folder is locked by the process that made it, and so by those that it forked: one that can be locked is nobody's any more.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

MEMORY = Path("/dev/shm")  # noqa: S108 - folders of their own are made there
YOUNG_SECONDS = 60  # a younger one may not be locked yet


@contextmanager
def scratch(prefix: str) -> Iterator[Path]:
    """A folder that names its process and goes at the end, or with the next one of this prefix if the process is killed."""
    place = MEMORY if MEMORY.is_dir() else Path(tempfile.gettempdir())
    tidy(place, prefix)
    own = f"{prefix}{os.getpid()}-"
    with tempfile.TemporaryDirectory(dir=place, prefix=own, ignore_cleanup_errors=True) as name, _locked(name):
        yield Path(name)


@contextmanager
def _locked(folder: str) -> Iterator[None]:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_SH)
        yield
    finally:
        os.close(fd)


def tidy(place: Path, prefix: str) -> None:
    """Remove the folders of the dead: those of ours with this prefix that nobody has locked, but for the young."""
    for leftover in place.glob(f"{prefix}*"):
        with suppress(OSError):
            if time.time() - leftover.lstat().st_mtime > YOUNG_SECONDS:
                _remove_unlocked(leftover)


def _remove_unlocked(folder: Path) -> None:
    """BlockingIOError if somebody has it."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(fd).st_uid == os.geteuid():
            shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(fd)
