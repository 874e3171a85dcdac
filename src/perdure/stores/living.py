"""Proof of death: a lock file that a process holds as long as it lives, beside the store (DESIGN §5).

The kernel lets a lock go when the process and all that it forked are gone, whatever killed them; a process id proves
nothing, because it is given out again. Whoever can lock another's file knows that its process can no longer send.
Callers: whoever leases or dispatches (`begin`), and recovery (`is_dead`). Keeps P3, P4.

    <store>.live/<holder>      locked: it lives.  Can be locked: it is dead.  Not there: nothing is proved.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import stat
import threading
from pathlib import Path

_HOLDER = re.compile(r"[0-9a-f]{32}")


class Living:
    """The lock file of one open store. Made when it is first needed; a store in memory has none."""

    def __init__(self, folder: Path | None, holder: str) -> None:
        self._folder = folder
        self._holder = holder
        self._fd: int | None = None
        self._mutex = threading.Lock()
        self._sending = 0

    @property
    def folder(self) -> Path | None:
        """Where the lock files lie; None where nothing can be proved."""
        return self._folder

    def begin(self) -> None:
        """Hold the lock from here on: called before anything is leased or dispatched in this holder's name."""
        with self._mutex:
            if self._fd is not None or self._folder is None:
                return
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not _is_ours(self._folder):  # somebody else's folder proves nothing
                self._folder = None
                return
            flags = os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
            fd = os.open(self._folder / self._holder, flags, 0o600)
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._fd = fd

    def end(self) -> None:
        """Let it go with the store. While a call is under way in a thread the lock stays until the process ends."""
        with self._mutex:
            fd, self._fd = self._fd, None
            if fd is None or self._folder is None or self._sending:
                return
            with contextlib.suppress(FileNotFoundError):
                (self._folder / self._holder).unlink()
            os.close(fd)

    def sending(self, change: int) -> None:
        """A call to the outside begins (1) or has returned (-1)."""
        with self._mutex:
            self._sending += change

    def lock(self) -> tuple[int, ...]:
        """The descriptor of the lock, if it is held: whoever inherits it keeps the holder from being taken for dead."""
        with self._mutex:
            return () if self._fd is None else (self._fd,)

    def is_dead(self, holder: str) -> bool:
        """Whether the process behind another holder is proved to be gone. False means only that it is not proved."""
        if self._folder is None or holder == self._holder or not _HOLDER.fullmatch(holder):
            return False
        try:
            fd = os.open(self._folder / holder, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            return False
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return False
        else:
            return True
        finally:
            os.close(fd)


def _is_ours(folder: Path) -> bool:
    found = folder.lstat()
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & stat.S_IWOTH


def folder_for(path: Path | None, store_uid: str, *, remote: bool) -> Path | None:
    """Where the lock files of a store lie: beside its file, or for a database elsewhere in this machine's temporary folder.

    Machines that do not share the folder prove nothing about each other, which is right: names are random.
    """
    if path is not None:
        return path.with_name(path.name + ".live")
    if not remote:
        return None
    from tempfile import gettempdir  # noqa: PLC0415 - slow to load, and needed for databases elsewhere only

    return Path(gettempdir(), f"perdure-{os.getuid()}", store_uid)
