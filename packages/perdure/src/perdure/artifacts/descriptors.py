"""File descriptors: opened, written, listed, and what the operating system says about them in our own words.

Called by `disk`, and by `objects` for its local spool. Keeps P10 and P11: below a directory nothing is opened
through a symbolic link. Every function raises errors of our tree, never `OSError`.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from perdure.artifacts.compress import CHUNK_BYTES, HEADER_BYTES, pack_stream
from perdure.artifacts.place import RESTORE, Stored
from perdure.errors import Damaged, Error, Full, ReadOnly, Refused, Unavailable
from perdure.model.ids import new_uid

ROOT: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC  # the operator's choice: may be a link
DIRECTORY: Final = ROOT | os.O_NOFOLLOW
# O_NONBLOCK: a named pipe that somebody put there must not make us wait for its writer.
FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
NO_ROOM: Final = "free some space; nothing was written, and reads continue"
NEW_FILE: Final = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
TEMPORARY: Final = re.compile(r"\.perdure-[0-9a-f]{32}", re.ASCII)


def new_temporary(folder: int, mode: int) -> tuple[str, int]:
    """A new file in a folder of the user, to be renamed: its name, and a descriptor that is to stay open until then.

    It is locked: a file of this name that can be locked was left by a process that died.
    """
    name = f".perdure-{new_uid().hex()}"
    fd = os.open(name, NEW_FILE, mode, dir_fd=folder)
    with suppress(OSError):  # a file system without locks: what is left there is never removed
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return name, fd


def remove_left(folder: int, names: Iterable[str]) -> list[str]:
    """Remove those of these temporary files that a dead process left; returns the others, which somebody is writing."""
    return [name for name in names if TEMPORARY.fullmatch(name) and not _removed(folder, name)]


def _removed(folder: int, name: str) -> bool:
    with opened(FILE, name, folder) as fd, translated(name):
        if fd is None:
            return True
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=folder)
        return True


@contextmanager
def opened(flags: int, name: str | Path, parent: int | None = -1) -> Iterator[int | None]:
    """Open below `parent` (-1: an absolute path); None when it, or the parent, is not there."""
    fd = None
    if parent is not None:
        with translated(str(name)), suppress(FileNotFoundError):
            fd = os.open(name, flags, dir_fd=None if parent == -1 else parent)
    try:
        yield fd
    finally:
        if fd is not None:
            os.close(fd)


def sync(fd: int, where: str) -> None:
    """Return once what was written to this file or directory is on the disk."""
    with translated(where):
        flush(fd)


def flush(fd: int, *, data_only: bool = False) -> None:
    """Return once a file or folder is on the disk itself. OSError from the disk.

    On macOS fsync stops at the drive's cache, and there is no fdatasync: F_FULLFSYNC goes further, where the file system can.
    data_only: size and content are enough.
    """
    full = getattr(fcntl, "F_FULLFSYNC", None)
    if full is not None:
        with suppress(OSError):
            fcntl.fcntl(fd, full)
            return
    (getattr(os, "fdatasync", os.fsync) if data_only else os.fsync)(fd)


def write_packed(fd: int, source: Iterable[bytes]) -> Stored:
    """Write the packed form of `source` to an empty file; errors of `source` itself pass through."""

    def write(data: bytes) -> None:
        with translated("put"):
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(fd, rest) :]

    write(bytes(HEADER_BYTES))
    packed = pack_stream(source, write)
    with translated("put"):
        os.lseek(fd, 0, os.SEEK_SET)
    write(packed.header)
    return packed.stored


def pieces_of(fd: int, where: str) -> Iterator[bytes]:
    """Yield the bytes of a regular file from where it stands."""
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        raise Damaged("not a regular file", path=where, hint=RESTORE)
    while True:
        with translated(where):
            piece = os.read(fd, CHUNK_BYTES)
        if not piece:
            return
        yield piece


def names_in(folder: int, pattern: re.Pattern[str]) -> list[str]:
    """The names in a directory that match, in order; what else lies there is none of ours."""
    with translated("list"):
        return sorted(name for name in os.listdir(folder) if pattern.fullmatch(name))


def directories_in(folder: int, pattern: re.Pattern[str]) -> list[str]:
    """The directories among them; a symbolic link is none."""
    return [name for name in names_in(folder, pattern) if _is_directory(folder, name)]


def _is_directory(folder: int, name: str) -> bool:
    with translated(name), suppress(FileNotFoundError):
        return stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    return False


def modified_us(folder: int, name: str) -> int | None:
    """When the regular file of that name was last written or touched; None when there is none."""
    with translated(name):
        try:
            status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            return None
    return status.st_mtime_ns // 1_000 if stat.S_ISREG(status.st_mode) else None


@contextmanager
def translated(where: str) -> Iterator[None]:
    """Say an operating system error in the words of our tree."""
    try:
        yield
    except OSError as error:
        raise _error_of(error, where) from error


@contextmanager
def room() -> Iterator[None]:
    """A put that finds no room: what is full is the artifact place, whatever was being written there."""
    try:
        yield
    except Full as error:
        raise Full(error.message, path="artifacts", hint=error.hint or NO_ROOM) from error


def _error_of(error: OSError, where: str) -> Error:
    message = error.strerror or str(error)
    if error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}:
        return Full(message, path=where, hint=NO_ROOM)
    if error.errno == errno.EROFS:
        return ReadOnly(message, path=where)
    if error.errno in {errno.EACCES, errno.EPERM}:
        return Refused(message, path=where, hint="the directory belongs to somebody else")
    if error.errno in {errno.ELOOP, errno.ENOTDIR}:
        return Damaged("a symbolic link or a foreign file is in the way", path=where)
    return Unavailable(message, path=where)
