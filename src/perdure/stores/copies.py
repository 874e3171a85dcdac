"""Copies of a SQLite database, and files that appear whole or not at all: under a name of their own first,
synced, then linked.

Callers: migrations (the copy that is kept), backup and restore. Keeps P1: what has its final name is
complete and durable.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw

from perdure.errors import Full, Refused, Unavailable
from perdure.model.points import reach
from perdure.stores.sqlite import fault_of
from perdure.stores.statements import Statements

Q = Statements("perdure.stores", "migrate.sql")

Progress = Callable[[int, int], None]

_PARTIAL = ".partial"
_PROGRESS_STEPS = 20_000  # instructions of SQLite's virtual machine between two reports


def copy_database(source: apsw.Connection, target: Path, progress: Progress | None = None) -> None:
    """A consistent copy of a whole database while others write, readable by its owner alone.

    Atomic: after a crash `target` is there whole or not at all. Refused when it exists; raises Fault, or
    Full.
    """
    with whole_file(target) as partial:
        fill_copy(source, partial, progress)


def fill_copy(source: apsw.Connection, target: Path, progress: Progress | None = None) -> None:
    """Copy a database into an empty file."""
    total = source.execute(Q.database_size.source).get
    if progress:
        source.set_progress_handler(_reporter(target, total, progress), _PROGRESS_STEPS)
    try:
        for _ in source.execute(Q.copy_into.source, {"target": str(target)}):
            pass
    except apsw.Error as error:
        raise fault_of(error, str(target)) from error
    finally:
        source.set_progress_handler(None)
    if progress:
        progress(total, total)


def _reporter(target: Path, total: int, progress: Progress) -> Callable[[], bool]:
    def report() -> bool:
        progress(min(target.stat().st_size, total), total)
        return False

    return report


@contextmanager
def whole_file(target: Path) -> Iterator[Path]:
    """An empty file to fill, mode 0600; when that is done it is synced and gets its name, which nobody else
    may have."""
    partial = target.with_name(target.name + _PARTIAL)
    with disk_errors(target):
        if target.exists():
            raise Refused("there is something already, and nothing is ever overwritten", path=str(target))
        partial.unlink(missing_ok=True)
        os.close(os.open(partial, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    try:
        yield partial
        reach("copy.filled")
        with disk_errors(target):
            publish(partial, target)
    finally:
        partial.unlink(missing_ok=True)


def publish(partial: Path, target: Path) -> None:
    """Give a complete file its name, durably; Refused when somebody else was first."""
    sync(partial)
    try:
        os.link(partial, target)
    except FileExistsError:
        raise Refused("there is something already, and nothing is ever overwritten", path=str(target)) from None
    partial.unlink()
    sync(target.parent)
    reach("copy.published")


def sync(path: Path) -> None:
    """Make a file or a folder durable. Never a database that somebody in this process has open: it would
    drop its locks."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def sweep_partials(path: Path, infix: str) -> None:
    """Remove what copies that died left behind; only for who knows that none is under way."""
    remove_all(path.parent, path.name + infix, _PARTIAL)


def remove_all(folder: Path, prefix: str, suffix: str = "") -> None:
    """Remove the files of a folder that are named like this."""
    for path in folder.iterdir():
        if path.name.startswith(prefix) and path.name.endswith(suffix):
            path.unlink(missing_ok=True)


@contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """What the file system says, as errors of the tree."""
    try:
        yield
    except OSError as error:
        message = f"{error.strerror or error}"
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise Full(message, path=str(path)) from error
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOENT, errno.ENOTDIR, errno.EISDIR):
            raise Refused(message, path=str(path)) from error
        raise Unavailable(message, path=str(path)) from error
