"""Copies of a SQLite database, and files that appear whole or not at all: under a name of their own first,
synced, then linked.

Callers: migrations (the copy that is kept), backup and restore. Keeps P1: what has its final name is
complete and durable.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import apsw

from perdure.artifacts.descriptors import flush
from perdure.errors import Conflict, Error, Full, Invalid, NotFound, ReadOnly, Refused, Unavailable
from perdure.model.crash_points import reach
from perdure.stores.one_path import unfinished_copy
from perdure.stores.sqlite import fault_of
from perdure.stores.statements import Statements

Q = Statements("perdure.stores", "migrate.sql")

Progress = Callable[[int, int], None]

_PARTIAL = ".partial"
_LOCK_PAUSE_SECONDS = 0.01
_NO_ROOM = "free some space; nothing was written"
_PROGRESS_STEPS = 20_000  # instructions of SQLite's virtual machine between two reports


def copy_database(source: apsw.Connection, target: Path, progress: Progress | None = None) -> None:
    """A consistent copy of a whole database while others write, readable by its owner alone.

    Atomic: after a crash `target` is there whole or not at all. Conflict when it exists; raises Fault, or
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
    except apsw.FullError as error:
        raise Full(str(error), path=str(target), hint=_NO_ROOM) from error
    except (apsw.CorruptError, apsw.NotADBError) as error:
        raise fault_of(error, source.filename) from error
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


def partition_beside(tenant: int) -> str:
    """Where a tenant's blobs lie in the folder beside a backup, whatever store it is of or becomes."""
    return f"tenant-{tenant}"


@contextmanager
def whole_file(target: Path) -> Iterator[Path]:
    """An empty file to fill, mode 0600; when that is done it is synced and gets its name, which nobody else
    may have."""
    partial = target.with_name(target.name + _PARTIAL)
    refuse_existing(target)
    with disk_errors(target):
        partial.unlink(missing_ok=True)
        new_file(partial)
    try:
        yield partial
        reach("copy.filled")
        with disk_errors(target):
            publish(partial, target)
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def unfinished(target: Path, *, blobs: bool = False, wait_seconds: float = 0.0) -> Iterator[Path]:
    """A hidden folder `.<name>.unfinished` next to the target for what is not whole yet; it goes at the end.

    With `blobs`, the block also makes `<name>.blobs`: Conflict if it exists; it goes too if the block fails before
    it has published the target. A process that is killed leaves both behind, but not the lock: the next run for the same target
    takes them away first. Conflict when somebody else is still at it after `wait_seconds`; OSError, for `disk_errors`
    around it.
    """
    folder = unfinished_copy(target).parent
    lock = _locked(folder, target, time.monotonic() + wait_seconds)
    try:
        _take_away(folder, target)
        if blobs:
            _claim_blobs(folder, target)
        try:
            yield folder
        except BaseException:
            if blobs and not _is_published(folder / target.name, target):
                shutil.rmtree(blobs_beside(target), ignore_errors=True)
            raise
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def _locked(folder: Path, target: Path, deadline: float) -> int:
    """The folder, made if need be, open and locked: the lock ends with this process, however that ends."""
    while True:
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        lock = _try_lock(folder)
        if lock is not None:
            return lock
        if time.monotonic() > deadline:
            raise Conflict("another process is making it just now", path=str(target), hint="try again when it is done")
        time.sleep(_LOCK_PAUSE_SECONDS)


def _try_lock(folder: Path) -> int | None:
    """None when somebody else has it, or took it away while we looked."""
    try:
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(fd).st_ino == folder.stat().st_ino:
            return fd
    except (BlockingIOError, FileNotFoundError):
        pass
    except BaseException:
        os.close(fd)
        raise
    os.close(fd)
    return None


def _is_published(partial: Path, target: Path) -> bool:
    """Whether our file has its name: an interrupt may come right after that, and what is visible keeps its blobs."""
    return target.exists() and (not partial.exists() or partial.samefile(target))


def _our_blobs(folder: Path, target: Path) -> Path:
    """In an unfinished folder: says that the blobs beside the target are of the same run."""
    return folder / blobs_beside(target).name


def _take_away(folder: Path, target: Path) -> None:
    """Remove the remains of a run that was killed. Blobs beside a target that got its name belong to that."""
    if _our_blobs(folder, target).exists() and not target.exists():
        shutil.rmtree(blobs_beside(target), ignore_errors=True)
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def _claim_blobs(folder: Path, target: Path) -> None:
    refuse_existing(blobs_beside(target))
    new_file(_our_blobs(folder, target))
    sync(folder)
    sync(folder.parent)


def blobs_beside(target: Path) -> Path:
    """Where the blobs of a store or a backup lie."""
    return target.with_name(target.name + ".blobs")


def new_file(path: Path) -> None:
    """An empty file for its owner alone; whatever had that name stays what it is."""
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))


def publish(partial: Path, target: Path) -> None:
    """Give a complete file its name, durably; Conflict when somebody else was first, OSError from the disk."""
    sync(partial)
    try:
        os.link(partial, target)
    except FileExistsError:
        raise _existing(target) from None
    try:
        sync(target.parent)
    except BaseException:  # not durable, so not done: who calls clears up what belongs to it
        target.unlink(missing_ok=True)
        raise
    partial.unlink(missing_ok=True)  # a process that opens the target by now may have been quicker (`one_path`)
    reach("copy.published")


def publish_folder(partial: Path, target: Path) -> None:
    """Give a complete folder, all of whose files are synced, its name, durably; Conflict when somebody else was first."""
    refuse_existing(target)
    sync(partial)
    partial.rename(target)  # onto an empty folder at most: anything else has made it fail
    sync(target.parent)
    reach("copy.published")


def refuse_existing(path: Path) -> None:
    """Nothing is ever overwritten."""
    if path.exists() or path.is_symlink():
        raise _existing(path)


def refuse_remains(target: Path) -> None:
    """Conflict when a WAL or journal of a database that is gone lies where a new one is to be: SQLite would take it for the
    new one's and write its pages into it. An empty one holds nothing.
    """
    for suffix in ("-wal", "-journal"):
        beside = target.with_name(target.name + suffix)
        if beside.exists() and beside.stat().st_size:
            message = f"{beside.name} holds changes of a database that is not there any more"
            raise Conflict(message, path=str(beside), hint=f"bring {target.name} back beside it, or move it away")


def _existing(path: Path) -> Conflict:
    return Conflict(f"{path.name} exists already, and nothing is ever overwritten", path=str(path), hint="name another")


def check_folder(target: Path) -> None:
    """NotFound names the folder that is missing."""
    if not target.parent.is_dir():
        raise NotFound(f"there is no folder {target.parent}", path=str(target), hint="make it first")


def sync(path: Path) -> None:
    """Make a file or a folder durable. Never a database that somebody in this process has open: it would
    drop its locks."""
    fd = os.open(path, os.O_RDONLY)
    try:
        flush(fd)
    finally:
        os.close(fd)


def sweep_partials(path: Path, infix: str) -> None:
    """Remove what copies that died left behind; only for who knows that none is under way."""
    for found in path.parent.iterdir():
        if found.name.startswith(path.name + infix) and found.name.endswith(_PARTIAL):
            found.unlink(missing_ok=True)


@contextmanager
def disk_errors(path: Path, where: str = "") -> Iterator[None]:
    """Errors of the file system, as errors of the tree; `where` is their path, if it is not the file itself."""
    try:
        yield
    except OSError as error:
        said = error.strerror or str(error)
        raise disk_error(error, f"{path}: {said}" if where else said, where or str(path)) from error


def disk_error(error: OSError, message: str, path: str) -> Error:
    """An error of the file system, as an error of the tree."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return Full(message, path=path, hint=_NO_ROOM)
    if error.errno == errno.EROFS:
        return ReadOnly(message, path=path, hint="name a place that may be written")
    if error.errno == errno.ENOENT:
        return NotFound(message, path=path)
    if error.errno in (errno.ENOTDIR, errno.EISDIR, errno.ELOOP):
        through_a_link = "remove it: nothing is read or written through a link" if error.errno == errno.ELOOP else ""
        return Invalid(message, path=path, hint=through_a_link)
    if error.errno in (errno.EACCES, errno.EPERM):
        return Refused(message, path=path, hint="name a place that may be written")
    return Unavailable(message, path=path)
