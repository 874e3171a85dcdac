"""Proof of death: a lock file that a process holds as long as it lives, beside the store.

The kernel lets a lock go when the process and all that it forked are gone, whatever killed them; a process id proves
nothing, because it is given out again. A process that can lock another's file knows that its owner can no longer send.
Callers: whoever leases or dispatches (`begin`), recovery (`is_dead`), and workers that clean up (`tidy`). Keeps P3, P4.

    <store>.live/<holder>      locked: it lives.  Can be locked: it is dead.  Not there: nothing is proved.
    <store>.live/tide          how far it had come: see `rollback_guard`
    <store>.live/<holder>.new  not locked yet: it gets its name with its lock, so that no file of a holder is ever without one

The last one to leave takes the folder along. A folder that holds a file stays the one that it is, so nobody who lives loses it;
who looks or begins goes through a descriptor of it, because by its next call another's folder may have its name.
"""

from __future__ import annotations

import fcntl
import os
import re
import stat
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path

from perdure.errors import Error
from perdure.model.instants import SECOND_US, system_clock

FILES_MAX = 1_000  # that one tidying looks at
OLD_SECONDS = (
    300.0  # a younger file is left: what its process sent before it died may still be on its way into the database
)
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_HOLDER = re.compile(r"[0-9a-f]{32}")
_NEW = ".new"
_TRIES = 10


class Liveness:
    """The lock file of one open store. Made when it is first needed; a store in memory has none."""

    def __init__(self, folder: Path | None, holder: str) -> None:
        self._folder = folder
        self._holder = holder
        self._fd: int | None = None
        self._mutex = threading.Lock()
        self._sending = 0
        self._named = False

    @property
    def folder(self) -> Path | None:
        """Where the lock files lie; None where nothing can be proved."""
        return self._folder

    def begin(self) -> None:
        """Hold the lock from here on: called before anything is leased or dispatched in this holder's name.

        Raises Unavailable, Full or Refused where it cannot be had: what is not locked could never be proved dead.
        """
        with self._mutex:
            folder = self._folder
            if self._fd is not None or folder is None:
                return
            try:
                self._fd = _made(folder, self._holder)
            except OSError as error:
                raise _unusable(folder, error) from error
            if self._fd is None:  # somebody else's folder proves nothing
                self._folder = None

    def end(self) -> None:
        """Let it go with the store. While a call is under way in a thread the lock stays until the process ends.

        The file goes too, unless something still names the holder (`stay_named`): then it proves that nobody is behind it.
        With the last file goes the folder.
        """
        with self._mutex:
            fd, self._fd = self._fd, None
            if fd is None or self._folder is None or self._sending:
                return
            if not self._named:
                (self._folder / self._holder).unlink(missing_ok=True)
            os.close(fd)
            _take_along(self._folder)

    def stay_named(self) -> None:
        """The rows that name this holder in the store could not be taken back: others must be able to prove that it is gone."""
        self._named = True

    def sending(self, change: int) -> None:
        """An external call begins (1) or has returned (-1)."""
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
            with _entered(self._folder) as inside:
                return inside is not None and _can_be_locked(holder, inside)
        except OSError:
            return False

    def is_held(self, holder: str) -> bool:
        """Whether a process on this machine is proved to live behind another holder, also one that is stopped."""
        if self._folder is None or holder == self._holder or not _HOLDER.fullmatch(holder):
            return False
        try:
            with _entered(self._folder) as inside:
                if inside is None:
                    return False
                os.stat(holder, dir_fd=inside, follow_symlinks=False)
                return not _can_be_locked(holder, inside)
        except OSError:
            return False

    # -- tidying -------------------------------------------------------------------------------------------------------------

    def tidy(self, needed: Callable[[], Collection[str] | None]) -> int:
        """Remove the files of the dead that prove nothing to anybody any more; returns how many. Safe beside anybody.

        needed: the holders that something still names, asked after their deaths are proved: from then on they name nothing
        new. None: they cannot be told, and all files stay.
        """
        if self._folder is None:
            return 0
        try:
            with _entered(self._folder) as inside:
                gone = [] if inside is None else self._unneeded(inside, needed)
                for name in gone:
                    with suppress(FileNotFoundError):
                        os.unlink(name, dir_fd=inside)
        except FileNotFoundError:
            return 0
        if gone:
            _take_along(self._folder)
        return len(gone)

    def _unneeded(self, inside: int, needed: Callable[[], Collection[str] | None]) -> list[str]:
        old = _old_files(inside)
        dead = [each for each in old if _HOLDER.fullmatch(each) and self.is_dead(each)]
        kept = needed() if dead else ()
        gone = [each for each in dead if kept is not None and each not in kept]
        return gone + [each for each in old if each.endswith(_NEW) and _can_be_locked(each, inside)]


def is_anyone_alive(folder: Path) -> bool:
    """Whether some process holds a lock in the folder of a store: it leases or sends there."""
    with suppress(OSError), _entered(folder) as inside:
        if inside is not None:
            with os.scandir(inside) as found:
                return not all(_can_be_locked(each.name, inside) for each in found if _HOLDER.fullmatch(each.name))
    return False


def _made(folder: Path, holder: str) -> int | None:
    """The folder, and a lock file in it; returns the descriptor that holds its lock. None when the folder is not ours."""
    for _ in range(_TRIES):
        _make(folder)
        try:
            with _entered(folder) as inside:
                return None if inside is None else _locked(holder, inside)
        except FileNotFoundError:
            continue  # the last of the others took the folder along; or this process stood still for long, see `_locked`
    raise OSError(f"the lock file {folder / holder} is taken away again and again")


def _make(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        if folder.is_file():
            raise


def _locked(holder: str, inside: int) -> int:
    """Make a lock file that is locked before it has its name. FileNotFoundError when the folder is gone, or when this took so
    long that somebody took the file for a dead one's.
    """
    new = holder + _NEW
    flags = os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
    fd = os.open(new, flags, 0o600, dir_fd=inside)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        os.rename(new, holder, src_dir_fd=inside, dst_dir_fd=inside)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _take_along(folder: Path) -> None:
    """Remove the folder if nobody has a file in it. A process that is about to have one makes it again."""
    with suppress(OSError):
        folder.rmdir()


def _can_be_locked(name: str, inside: int) -> bool:
    """Whether nobody holds the lock of a file. Opened to be read: else every look would wake those who watch for deaths."""
    try:
        fd = os.open(name, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW, dir_fd=inside)
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


def _old_files(inside: int) -> list[str]:
    """Some files of the folder, but for the young ones."""
    before = system_clock() / SECOND_US - OLD_SECONDS
    with os.scandir(inside) as found:
        return [each.name for each in islice(found, FILES_MAX) if _is_older(each, before)]


def _is_older(found: os.DirEntry[str], before: float) -> bool:
    try:
        return found.stat(follow_symlinks=False).st_mtime < before
    except FileNotFoundError:
        return False


@contextmanager
def _entered(folder: Path) -> Iterator[int | None]:
    """A descriptor of the folder; None when somebody else can have put a file there: a free lock would prove nothing then."""
    if not _is_ours(folder.lstat()):
        yield None
        return
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        yield fd if _is_ours(os.fstat(fd)) else None  # by now it may be another
    finally:
        os.close(fd)


def _is_ours(found: os.stat_result) -> bool:
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & _OTHERS_WRITE


def _unusable(folder: Path, error: OSError) -> Error:
    from perdure.stores.atomic_files import disk_error  # noqa: PLC0415 - much to load, and only for what went wrong

    made = disk_error(error, f"the lock folder {folder} cannot be used: {error.strerror or error}", "store.live")
    made.hint = "make it a folder that only this user may write: its locks prove which processes live"
    return made


def folder_for(path: Path | None, store_uid: str, *, remote: bool) -> Path | None:
    """Where the lock files of a store lie: beside its file, or for a database elsewhere in this machine's temporary folder.

    Machines that do not share the folder prove nothing about each other, which is right: names are random. None where somebody
    else could put another folder in its place.
    """
    if path is not None:
        return beside(path.resolve())  # one folder, under all symbolic links to the file
    if not remote:
        return None
    from tempfile import gettempdir  # noqa: PLC0415 - slow to load, and needed for databases elsewhere only

    above = Path(gettempdir())
    return above / f"perdure-{os.geteuid()}-{store_uid}" if keeps_folders(above) else None


def beside(path: Path) -> Path:
    """Where the lock files of a store lie whose tables are in this file."""
    return path.with_name(path.name + ".live")


def keeps_folders(above: Path) -> bool:
    """Whether a folder in this one stays the one that it is: others may not write there, or may not rename what is not theirs."""
    found = above.stat()
    trusted = found.st_uid in (0, os.geteuid())
    return trusted and (not found.st_mode & _OTHERS_WRITE or bool(found.st_mode & stat.S_ISVTX))


def marks_folder(store_uid: str) -> Path | None:
    """Where this user's programs note how far a database on a server had come (`rollback_guard`): it must outlast the machine's
    temporary folder. None without a home.
    """
    above = state_folder()
    return None if above is None else above / "perdure" / "marks" / store_uid


def state_folder() -> Path | None:
    """The folder of this user for what programs must keep: $XDG_STATE_HOME, or ~/.local/state. None without a home."""
    state = os.environ.get("XDG_STATE_HOME") or ""
    if state.startswith("/"):
        return Path(state)
    with suppress(RuntimeError):
        return Path.home() / ".local" / "state"
    return None
