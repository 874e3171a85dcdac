"""How far the effects of a store had come, kept beside it: a store that was put back to an older state shows when it is opened.

A version-control checkout, or a file that is copied back, takes a store back without a word, and what it had sent since would be
sent again. So a process that is about to send notes the dispatch, which is durable by then, in `<store>.live/tide`, where git is
told not to look. A store that does not know a dispatch that is noted there is older than what was done from it, and is treated
like a
restored one (`effects/rolled_back.py`). Not synced: after a power loss it may say less than it could, never more. Keeps P3, P4.

    tide = store uid[16] ‖ slot[32] × 32
    slot = stream uid[16] ‖ effect u64 ‖ attempt u32 ‖ crc32 u32     the last dispatch of a stream, or of one that shares its slot
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
import threading
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

SLOTS = 32
_SLOT = struct.Struct(">16sQI")
_CHECK = struct.Struct(">I")
_SLOT_BYTES = _SLOT.size + _CHECK.size
_UID_BYTES = 16


class Dispatch(NamedTuple):
    """One dispatch: an attempt of an effect, in a stream of this uid."""

    stream: bytes
    effect: int
    attempt: int


class RollbackGuard:
    """The file of one open store. folder: where it lies; None where there is none, and nothing is noted."""

    def __init__(self, folder: Path | None, store_uid: str) -> None:
        self._path = None if folder is None else folder / "tide"
        self._uid = bytes.fromhex(store_uid)
        self._fd: int | None = None
        self._mutex = threading.Lock()

    def note(self, dispatch: Dispatch) -> None:
        """Say that this is durable, right before it is sent. A file that cannot be written keeps nobody from sending."""
        if self._path is None:
            return
        body = _SLOT.pack(*dispatch)
        place = _UID_BYTES + int.from_bytes(dispatch.stream[:4]) % SLOTS * _SLOT_BYTES
        with contextlib.suppress(OSError), self._mutex:
            if self._fd is None:
                self._fd = self._opened(self._path)
            os.pwrite(self._fd, body + _CHECK.pack(zlib.crc32(body)), place)

    def _opened(self, path: Path) -> int:
        """Opened and, if it is another store's or new, made anew."""
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
    def held(self) -> Iterator[list[Dispatch]]:
        """The notes, while nobody else looks. Nothing where there is no file of this store."""
        try:
            if self._path is None:
                raise FileNotFoundError
            # Writing would wake who watches for deaths.
            fd = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
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
        assert self._path is not None
        fd = os.open(self._path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            _empty(fd, self._uid)
        finally:
            os.close(fd)

    def close(self) -> None:
        """Let the file go."""
        with self._mutex:
            fd, self._fd = self._fd, None
        if fd is not None:
            os.close(fd)


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


def _noted(data: bytes, uid: bytes) -> Iterator[Dispatch]:
    """The slots that are whole: one that is being written, or was torn by a power loss, says nothing."""
    if data[:_UID_BYTES] != uid:
        return
    for at in range(_UID_BYTES, len(data) - _SLOT_BYTES + 1, _SLOT_BYTES):
        body, check = data[at : at + _SLOT.size], data[at + _SLOT.size : at + _SLOT_BYTES]
        if any(body) and check == _CHECK.pack(zlib.crc32(body)):
            yield Dispatch(*_SLOT.unpack(body))
