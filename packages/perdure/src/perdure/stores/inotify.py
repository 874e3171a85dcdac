"""Linux tells when a file is written or let go: a few calls of its library, through ctypes.

Callers: `stores/watch.py`, which does without where there is none. Keeps nothing: it only saves looking.
"""

from __future__ import annotations

import ctypes
import os
import struct

WRITTEN = 0x002  # IN_MODIFY
LET_GO = 0x008  # IN_CLOSE_WRITE: also what the kernel does for a process that was killed
GONE = 0x400 | 0x8000  # IN_DELETE_SELF, IN_IGNORED
_EVENT = struct.Struct("iIII")
_BUFFER_BYTES = 65_536


class Inotify:
    """Changes of some files and folders: readable when something happened. OSError where the system has none."""

    def __init__(self) -> None:
        library = ctypes.CDLL(None, use_errno=True)
        try:
            init, self._add = library.inotify_init1, library.inotify_add_watch
        except AttributeError:
            raise OSError("no inotify on this system") from None
        self.fd: int = init(os.O_CLOEXEC | os.O_NONBLOCK)
        if self.fd < 0:
            raise OSError(ctypes.get_errno(), "inotify_init1")

    def fileno(self) -> int:
        """The descriptor to wait for."""
        return self.fd

    def add(self, path: str, mask: int) -> int:
        """Watch a file or a folder; returns its number. OSError when it cannot be watched."""
        number = self._add(self.fd, os.fsencode(path), mask)
        if number < 0:
            raise OSError(ctypes.get_errno(), "inotify_add_watch", path)
        return number

    def read(self) -> list[tuple[int, int]]:
        """The changes since the last call: the number of the watch, and its kind."""
        found: list[tuple[int, int]] = []
        try:
            data = os.read(self.fd, _BUFFER_BYTES)
        except BlockingIOError:
            return found
        at = 0
        while at < len(data):
            number, mask, _, length = _EVENT.unpack_from(data, at)
            found.append((number, mask))
            at += _EVENT.size + length
        return found

    def close(self) -> None:
        """Let it go."""
        os.close(self.fd)
