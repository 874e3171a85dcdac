"""How far a store had come, kept outside of it: a store that was put back to an older state shows when it is opened.

A version-control checkout, a file that is copied back, or the snapshot of a server's volume takes a store back without a word:
what was acknowledged since is gone, and what it had sent since would be sent again. So each process that writes notes the newest
event that it made or saw, when that is durable, beside a file (`<store>.live/tide`) or, for a server, in the user's state folder.
git is told not to look. A store of the same epoch that lacks a noted event is older than what was done from it, and is treated
like a restored one (`effects/rolled_back.py`). A restore or a take-back begins another epoch: older notes say nothing about it.
Synced once a second and at the end: after a power loss it may say less than it could, never more. Keeps P1, P3, P4.

    tide = store uid[16] ‖ slot[64] × 32
    slot = epoch u32 ‖ stream uid[16] ‖ seq u64 ‖ hash[32] ‖ crc32 u32     the last of a process, or of one that shares its slot
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
import threading
import weakref
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from perdure.artifacts.descriptors import flush
from perdure.model import threads

SLOTS = 32
SYNC_SECONDS = 1.0
_SLOT = struct.Struct(">I16sQ32s")
_CHECK = struct.Struct(">I")
_SLOT_BYTES = _SLOT.size + _CHECK.size
_UID_BYTES = 16


class NotedEvent(NamedTuple):
    """One durable event, by the uid of its stream, and the epoch in which it was noted."""

    epoch: int
    stream: bytes
    seq: int
    hash: bytes


class RollbackGuard:
    """The file of one open store. folder: where it lies; None where there is none, and nothing is noted. Threads may share it."""

    def __init__(self, folder: Path | None, store_uid: str, holder: str = "") -> None:
        self.path = None if folder is None else folder / "tide"
        self.count = 0  # of the marks that were noted here
        self._uid = bytes.fromhex(store_uid)
        self._place = _UID_BYTES + int(holder[:8] or "0", 16) % SLOTS * _SLOT_BYTES
        self._fd: int | None = None
        self._mutex = threading.Lock()
        self._unsynced = False
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def note(self, mark: NotedEvent) -> None:
        """Say that this event is durable. A file that cannot be written keeps nobody from working."""
        if self.path is None:
            return
        body = _SLOT.pack(*mark)
        with self._mutex:
            try:
                if self._fd is None:
                    self._fd = self._opened(self.path)
                os.pwrite(self._fd, body + _CHECK.pack(zlib.crc32(body)), self._place)
            except OSError:
                return
            self.count += 1
            self._unsynced = True
            if self._thread is None and not self._stop.is_set():
                self._thread = threads.begin(_keep_syncing, "perdure-tide", (weakref.ref(self), self._stop))

    def sync(self) -> bool:
        """Bring what was noted to the disk; whether there was anything. The thread that asks ends with the first no."""
        with self._mutex:
            fd = self._fd
            if fd is None or not self._unsynced:
                self._thread = None
                return False
            self._unsynced = False
        with contextlib.suppress(OSError):
            flush(fd, data_only=True)
        return True

    def _opened(self, path: Path) -> int:
        """Opened and, if it is another store's or new, made anew."""
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _hide_from_git(path.parent / ".gitignore")
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            if os.pread(fd, _UID_BYTES, 0) != self._uid:
                _empty(fd, self._uid)
            fcntl.flock(fd, fcntl.LOCK_UN)
        except BaseException:  # a full disk, a Ctrl-C: its lock would keep everybody waiting
            os.close(fd)
            raise
        return fd

    @contextlib.contextmanager
    def held(self) -> Iterator[list[NotedEvent]]:
        """The marks, while nobody else looks. Nothing where there is no file of this store."""
        try:
            if self.path is None:
                raise FileNotFoundError
            # Writing would wake who watches for deaths.
            fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            yield []
            return
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            yield list(_noted(os.pread(fd, _UID_BYTES + SLOTS * _SLOT_BYTES, 0), self._uid))
        finally:
            os.close(fd)

    def forget(self) -> None:
        """Begin anew: only inside `held`."""
        assert self.path is not None
        fd = os.open(self.path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            _empty(fd, self._uid)
        finally:
            os.close(fd)

    def close(self) -> None:
        """Bring it to the disk, and let the file go."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        self.sync()
        with self._mutex:
            fd, self._fd = self._fd, None
        if fd is not None:
            os.close(fd)


def _keep_syncing(guard: weakref.ref[RollbackGuard], stop: threading.Event) -> None:
    while not stop.wait(SYNC_SECONDS):
        alive = guard()
        if alive is None or not alive.sync():
            return
        del alive


def _hide_from_git(ignoring: Path) -> None:
    """Files in the folder are of this machine and this moment: a checkout must not take them back."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK  # it may be a link, or a pipe
    fd = os.open(ignoring, flags, 0o600)
    try:
        if not os.fstat(fd).st_size:  # new, or the disk was full
            os.write(fd, b"*\n")
    finally:
        os.close(fd)


def _empty(fd: int, uid: bytes) -> None:
    os.ftruncate(fd, 0)
    os.pwrite(fd, uid + bytes(SLOTS * _SLOT_BYTES), 0)


def _noted(data: bytes, uid: bytes) -> Iterator[NotedEvent]:
    """The slots that are whole: one that is being written, or was torn by a power loss, says nothing."""
    if data[:_UID_BYTES] != uid:
        return
    for at in range(_UID_BYTES, len(data) - _SLOT_BYTES + 1, _SLOT_BYTES):
        body, check = data[at : at + _SLOT.size], data[at + _SLOT.size : at + _SLOT_BYTES]
        if any(body) and check == _CHECK.pack(zlib.crc32(body)):
            yield NotedEvent(*_SLOT.unpack(body))
