"""Files below the folder of a store: reached from folder to folder by descriptors, and through no link at any depth (P10).

A folder that came with git, or out of an archive, may hold a link, a device or a pipe in any place, also where we are about to
write. So nothing below it is opened by a path: each folder on the way is opened inside the one above it, files are regular ones,
new content goes into a file that did not exist before and gets its name by a rename, which replaces a link and follows none. The
folder itself is the operator's choice, and may be reached through links. All that writes below it does so here, but for
SQLite in its cache (`secret`) and for blobs (`artifacts.disk`, which works in the same way): tests/test_tidy.py looks.

Callers: `layout`, `journal`, `aside`, `interchange.views`. OSError from the disk, Foreign for a link or what is no file.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from perdure.artifacts.descriptors import DIRECTORY, NEW_FILE, ROOT, flush

BYTES_MAX = 256 * 1024 * 1024  # no file that is read whole is larger
_PIECE_BYTES = 1024 * 1024
_NO_WAIT = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK  # a pipe must not make us wait for its other end


class ForeignEntry(OSError):
    """A link, or something that is no regular file or folder, stands where one of ours belongs."""

    def __init__(self, path: Path, what: str) -> None:
        super().__init__(errno.ELOOP, f"{path} is {what}")


class Within:
    """Everything below one folder. Paths are given whole, and lie below it."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @contextmanager
    def folder(self, path: Path, *, make: bool = False) -> Iterator[int]:
        """A descriptor of a folder, made with all above it if asked. FileNotFoundError when there is none."""
        depth = len(self.root.parts)
        if path.parts[:depth] != self.root.parts:
            raise ValueError(f"{path} is not below {self.root}")
        fd = os.open(self.root, ROOT)
        try:
            for end in range(depth + 1, len(path.parts) + 1):
                above, fd = fd, self._entered(fd, path.parts[:end], make=make)
                os.close(above)
            yield fd
        finally:
            os.close(fd)

    def _entered(self, above: int, parts: tuple[str, ...], *, make: bool) -> int:
        if make:
            with suppress(FileExistsError):
                os.mkdir(parts[-1], 0o700, dir_fd=above)
        try:
            return os.open(parts[-1], DIRECTORY, dir_fd=above)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENOTDIR):
                raise ForeignEntry(Path(*parts), "a link, or no folder") from error
            raise

    def make(self, path: Path) -> None:
        """Make a folder, unless it is there."""
        with self.folder(path, make=True):
            pass

    # -- looking -------------------------------------------------------------------------------------------------------------

    def status(self, path: Path) -> os.stat_result | None:
        """The entry of this name, which may be a link; None when there is none."""
        try:
            with self.folder(path.parent) as folder:
                return os.stat(path.name, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def names(self, path: Path) -> list[str]:
        """The names in a folder, in order; none when it is not there."""
        try:
            with self.folder(path) as folder:
                return sorted(os.listdir(folder))  # noqa: PTH208 - a descriptor
        except FileNotFoundError:
            return []

    def read(self, path: Path, offset: int = 0, most: int = BYTES_MAX) -> bytes:
        """A regular file from `offset` on. FileNotFoundError; Foreign when it is none, or has more than `most` bytes."""
        with self.opened(path, os.O_RDONLY) as fd:
            if os.fstat(fd).st_size > most:
                raise ForeignEntry(path, f"larger than {most // (1024 * 1024)} MiB")
            return _bytes_of(fd, offset, most)

    def beginning(self, path: Path, most: int) -> bytes:
        """The first bytes of a regular file, however long it is."""
        with self.opened(path, os.O_RDONLY) as fd:
            return _bytes_of(fd, 0, most)

    # -- opening -------------------------------------------------------------------------------------------------------------

    @contextmanager
    def opened(self, path: Path, flags: int) -> Iterator[int]:
        """A descriptor of a regular file."""
        fd = self.open_file(path, flags)
        try:
            yield fd
        finally:
            os.close(fd)

    def open_file(self, path: Path, flags: int) -> int:
        """A descriptor of a regular file, which the caller closes."""
        with self.folder(path.parent) as folder:
            try:
                fd = os.open(path.name, flags | _NO_WAIT, 0o600, dir_fd=folder)
            except OSError as error:
                if error.errno in (errno.ELOOP, errno.ENXIO, errno.EISDIR):
                    raise ForeignEntry(path, "a link, or no regular file") from error
                raise
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            os.close(fd)
            raise ForeignEntry(path, "no regular file")
        return fd

    # -- writing -------------------------------------------------------------------------------------------------------------

    def place(self, path: Path, data: bytes, partial: Path, *, durable: bool = True) -> None:
        """Give a file its content, whole: after a crash the old content or the new. `partial` is its name until then."""
        self.fill(partial, data, durable=durable)
        self.rename(partial, path, durable=durable)

    def fill(self, path: Path, data: bytes, *, durable: bool = True) -> None:
        """A new file with this content; whatever had its name is gone."""
        with self.folder(path.parent) as folder:
            with suppress(FileNotFoundError):
                os.unlink(path.name, dir_fd=folder)
            fd = os.open(path.name, NEW_FILE, 0o600, dir_fd=folder)
        try:
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(fd, rest) :]
            if durable:
                flush(fd)
        finally:
            os.close(fd)

    def rename(self, path: Path, to: Path, *, durable: bool = True) -> None:
        """Give a file or a folder another name; a file that had it is gone."""
        with self.folder(path.parent) as before, self.folder(to.parent) as after:
            os.rename(path.name, to.name, src_dir_fd=before, dst_dir_fd=after)
            if durable:
                flush(after)

    def unlink(self, path: Path) -> None:
        """Remove a file, or the link that stands in its place."""
        with suppress(FileNotFoundError), self.folder(path.parent) as folder:
            os.unlink(path.name, dir_fd=folder)

    def remove(self, path: Path) -> None:
        """Remove a folder with all in it, or whatever stands in its place. A file that cannot be removed stays."""
        status = self.status(path)
        if status is None:
            return
        if stat.S_ISDIR(status.st_mode):
            with self.folder(path.parent) as folder:
                shutil.rmtree(path.name, ignore_errors=True, dir_fd=folder)
        else:
            self.unlink(path)

    def sync_file(self, path: Path) -> None:
        """Make a file durable."""
        with self.opened(path, os.O_RDONLY) as fd:
            flush(fd)

    def sync(self, path: Path) -> None:
        """Make a folder durable."""
        with self.folder(path) as folder:
            flush(folder)


def _bytes_of(fd: int, offset: int, most: int) -> bytes:
    """Piece by piece: a file may be longer by now than its size was."""
    os.lseek(fd, offset, os.SEEK_SET)
    parts: list[bytes] = []
    to_read = most
    while to_read > 0 and (part := os.read(fd, min(to_read, _PIECE_BYTES))):
        parts.append(part)
        to_read -= len(part)
    return b"".join(parts)
