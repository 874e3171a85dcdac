"""The database files that this process holds: nobody else in it may open them, and their WAL must stay theirs. Keeps P1.

POSIX locks belong to a process. A second SQLite library in it (Python's own `sqlite3`, and so pandas or SQLAlchemy) drops our
locks when it closes a file, takes the file for its own and removes the WAL that we write to. So `sqlite3.connect` to a file that
we hold is refused, by an audit hook. Any other library is noticed after the fact: before a commit is acknowledged, its WAL must
still lie under its name. Where it does not, all our connections to the file are closed without a word to the database, because
what they know of it is out of date; whoever wrote tries again on a new one. Callers: `sqlite`.
"""

from __future__ import annotations

import logging
import os
import struct
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial
from typing import Any, Protocol
from urllib.parse import unquote, urlsplit
from weakref import WeakSet

from perdure.errors import Refused
from perdure.stores.store import Fault, FaultKind

log = logging.getLogger("perdure.store")

Place = tuple[int, int]  # device and inode
_PATIENCE_SECONDS = 1.0  # how long a connection that is in use is waited for, each time
_PAUSE_SECONDS = 0.005
_WHY = "its WAL was removed by another SQLite library in this process"
_AT_FDCWD, _STATX_NLINK_AND_INO, _STATX_BYTES = -100, 0x104, 256
_MOUNT_ROOT = 0x2000  # the attribute of a mount point; kernels before 5.8 do not know it
# Parts of a statx: attributes, links, inode, the attributes that the kernel knows, and the two numbers of the device.
_PARTS = struct.Struct("=8xQI12xQ16xQ72xII")
HINT = "ask with store.query(…), or from another process; or close the store first"


class HeldFile(Protocol):
    """A registered connection of ours."""

    pid: int

    def sever(self) -> bool:
        """Close it without a checkpoint; False while a thread is using it."""
        ...


class _File:
    """One database file: our connections to it, and the WAL that they write to."""

    __slots__ = ("connections", "severed", "wal")

    def __init__(self) -> None:
        self.connections: WeakSet[HeldFile] = WeakSet()
        self.wal: Place | None = None
        self.severed = False


_files: dict[Place, _File] = {}
_mutex = threading.RLock()  # the hook may be called by whatever interrupts its holder
_is_watching = False


def place_of(file: str) -> Place | None:
    """Which file has this name now; None when none has, and for a database in memory, which has no name."""
    status = _status_of(file) if file else None
    return None if status is None else (status.st_dev, status.st_ino)


def _status_of(file: str) -> os.stat_result | None:
    try:
        return os.stat(file)  # noqa: PTH116 - thrice in every commit: a Path costs more than the call
    except OSError:
        return None


class FileLook:
    """`place_of` for the files that every commit asks about: their times are not asked for, and nothing is allocated for a look.
    links, is_mount_point: whether it has another path, as of the last look; the second is None where that was not told.

    From Linux 6.13 on a file whose times were read gets new ones at its next write, and each sync has to write those too: 25 µs a
    commit, measured. Where there is no statx, or it fails, the ordinary look is taken. Not for two threads at once.
    """

    __slots__ = ("_file", "_look", "_parts", "_place", "_seen", "is_mount_point", "links")

    def __init__(self, file: str) -> None:
        self._file = file
        self._parts = bytearray(_STATX_BYTES)
        self._look = _statx(os.fsencode(file), self._parts)
        self._seen: tuple[int, ...] = ()
        self._place: Place | None = None
        self.links = 1
        self.is_mount_point: bool | None = None

    def __call__(self) -> Place | None:
        """Which file it is now; None if there is none."""
        if self._look is None or self._look() != 0:
            status = _status_of(self._file)
            self.links = 1 if status is None else status.st_nlink
            return None if status is None else (status.st_dev, status.st_ino)
        parts = _PARTS.unpack_from(self._parts)
        if parts != self._seen:
            self._seen = parts
            attributes, self.links, inode, known, major, minor = parts
            self._place = (os.makedev(major, minor), inode)
            self.is_mount_point = bool(attributes & _MOUNT_ROOT) if known & _MOUNT_ROOT else None
        return self._place


def _statx(file: bytes, parts: bytearray) -> Callable[[], int] | None:
    """The system call that looks at a file and is told what to look for, ready to be made; None where there is none."""
    call = _statx_call()
    if call is None:
        return None
    import ctypes  # noqa: PLC0415 - only who writes to a file pays for it

    # Converted once: each look would convert them anew.
    where, mask = (
        (ctypes.c_int(_AT_FDCWD), ctypes.c_char_p(file)),
        (ctypes.c_int(0), ctypes.c_uint(_STATX_NLINK_AND_INO)),
    )
    return partial(call, *where, *mask, ctypes.byref((ctypes.c_char * _STATX_BYTES).from_buffer(parts)))


@cache
def _statx_call() -> Callable[..., int] | None:
    if not sys.platform.startswith("linux"):
        return None
    import ctypes  # noqa: PLC0415 - as above

    try:
        return ctypes.CDLL(None).statx
    except (OSError, AttributeError):
        return None


def enter(connection: HeldFile, place: Place, wal: Place | None) -> None:
    """A new connection that has found this WAL. LOST when that is not the one of the others: then all of them are closed."""
    _watch()
    with _mutex:
        file = _files.get(place)
        if file is None or not file.connections:
            file = _files[place] = _File()
        file.connections.add(connection)
        file.wal = file.wal or wal
        fits = not file.severed and wal in (None, file.wal)
    if not fits:
        raise lost(place)


def leave(connection: HeldFile, place: Place | None) -> None:
    """The connection is closed."""
    with _mutex:
        file = _files.get(place) if place else None
        if file is not None:
            file.connections.discard(connection)
            if not file.connections:
                del _files[place]  # type: ignore[arg-type] - it was found


def check(file: str) -> None:
    """Refuse a new connection to a file while old ones with another WAL are open: they share what they know of it. LOST."""
    found = place_of(file)
    held = _files.get(found) if found else None
    if found and held is not None and held.severed:
        _close_all(held)


def lost(place: Place) -> Fault:
    """Close every connection to a file whose WAL was taken away, and say why: whoever reads or writes connects anew."""
    with _mutex:
        file = _files.get(place)
        first = file is not None and not file.severed
        if file is not None:
            file.severed = True
    if first:
        log.warning("%s: nothing was acknowledged, and all connections are opened anew", _WHY, extra={"hint": HINT})
    if file is not None:
        with suppress(Fault):
            _close_all(file)
    return Fault(FaultKind.LOST, _WHY, HINT)


def _close_all(file: _File) -> None:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while True:
        with _mutex:
            left = [*file.connections]
        in_use = [each for each in left if not each.sever()]
        if not in_use:
            return
        if time.monotonic() > deadline:
            raise Fault(FaultKind.LOST, f"{_WHY}, and a connection to it is still in use", HINT)
        time.sleep(_PAUSE_SECONDS)


# -- the standard library's own ------------------------------------------------------------------------------------------


def _watch() -> None:
    """Have an ear for `sqlite3.connect`, from the first file on. A hook can never be taken off, and costs a comparison."""
    global _is_watching  # noqa: PLW0603 - as there is one interpreter
    if not _is_watching:
        _is_watching = True
        sys.addaudithook(_hear)


def _hear(event: str, args: tuple[Any, ...]) -> None:
    if event == "sqlite3.connect" and _files:
        name = os.fsdecode(args[0]) if isinstance(args[0], (str, bytes, os.PathLike)) else ""
        for file in (name, _path_in(name)):
            if _is_held(place_of(file)):
                raise Refused(f"{file} is open as a store in this process: sqlite3 would lose its writes", path="sqlite3",
                              hint=HINT)  # fmt: skip


def _path_in(name: str) -> str:
    """The path that a `file:` URI names."""
    return unquote(urlsplit(name).path) if name.startswith("file:") else ""


def _is_held(place: Place | None) -> bool:
    pid = os.getpid()  # locks that a fork brought along are the parent's, and nothing here can harm them
    with _mutex:
        file = _files.get(place) if place else None
        return file is not None and any(each.pid == pid for each in file.connections)


def _forget_mutex() -> None:
    global _mutex  # noqa: PLW0603 - a thread of the parent may have held it
    _mutex = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_mutex)
