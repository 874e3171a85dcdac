"""Writing a file: whole or not at all, durable when it returns, and recognised by its content afterwards.

Called through the ledger (`session.act(write_file, …)`). Keeps P1, P4 and P10: below `root` nothing is opened through a
link. Not undone by a rule: after a crash nobody would know the content that was there before; git does.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import PurePosixPath
from typing import Any, Final

from perdure.artifacts.descriptors import (
    DIRECTORY,
    FILE,
    ROOT,
    TEMPORARY,
    names_in,
    new_temporary,
    opened,
    pieces_of,
    remove_left,
    sync,
    translated,
)
from perdure.effects.tool import tool
from perdure.errors import Error, Failed, InDoubt, Invalid, NotFound
from perdure.model.crash_points import reach
from perdure.model.records.effects import Absent, Happened, Unknown
from perdure_agents.ready.checks import absolute, argument, nothing_done_yet

POINTS: Final = ("file.before_write", "file.before_rename", "file.after_rename", "file.after_sync")
NO_FILE: Final = ""  # as `expect`: there must be none yet
_SHA256 = re.compile(r"([0-9a-f]{64})?", re.ASCII)


def find_file(
    path: str, content: str | bytes, *, root: str | None = None, expect: str | None = None
) -> Happened | Absent | Unknown:
    """The probe: Happened if that content stands there (made durable first), Absent if what it was to replace does.

    Without `expect` anything else is Absent; with it, what is neither is Unknown: somebody else wrote it in between. Files that a
    dead call has left in the folder are removed.
    """
    expected = _sha256(_bytes(content))
    try:
        with _place(path, root, make=False) as (folder, name):
            actual = NO_FILE if folder is None else _sha256_of_file(folder, name)
            if folder is not None:
                remove_left(folder, names_in(folder, TEMPORARY))
            if folder is not None and actual == expected:
                _settle(folder, name)
    except Error as error:
        return Unknown(str(error))
    if actual == expected:
        return Happened(_result(path, _bytes(content)))
    if expect is None or actual == expect:
        return Absent("other content stands there" if actual else "there is no such file")
    return Unknown("neither the old nor the new content stands there: somebody else has written it")


@tool(probe=find_file, timeout=60, lands_within=0, retries=2, fails=(Invalid,))
def write_file(
    path: str, content: str | bytes, *, root: str | None = None, expect: str | None = None
) -> dict[str, Any]:
    """Write a whole file, atomically and durably; returns {"path", "sha256", "bytes"}.

    path: absolute; or relative to `root`, below which missing folders are made and no link is followed. The file itself is
    never a link. Its mode is kept. expect: the sha256 of what it replaces, `""` for no file; anything else there is Failed.
    Idempotent. After a crash: the old content or the new, and perhaps a file `.perdure-…`, which the probe and `git_commit`
    remove. Raises Invalid or Failed
    (nothing was changed), Unavailable (nothing was changed: a full disk), InDoubt (it stands there, perhaps not durably).
    """
    data = _bytes(content)
    if expect is not None and not (isinstance(expect, str) and _SHA256.fullmatch(expect)):
        raise Invalid("expected a sha256 in hexadecimal, or '' for no file", path="expect")
    with ExitStack() as held:
        with nothing_done_yet():
            folder, name = held.enter_context(_place(path, root, make=True))
            if folder is None:
                raise NotFound("no such folder", path=path)
            temporary = held.enter_context(_written(folder, data, _mode(folder, name)))
            _check_found(folder, name, expect, _sha256(data))
            reach("file.before_rename")
            with translated(path):
                os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
        reach("file.after_rename")
        try:
            sync(folder, path)
        except Error as error:
            raise InDoubt(f"written, but perhaps not durably: {error.message}", path=path) from error
    reach("file.after_sync")
    return _result(path, data)


def _result(path: str, data: bytes) -> dict[str, Any]:
    return {"path": path, "sha256": _sha256(data), "bytes": len(data)}


def _bytes(content: object) -> bytes:
    if isinstance(content, bytes):
        return content
    if not isinstance(content, str):
        raise Invalid(f"expected text or bytes, got {type(content).__name__}", path="content")
    try:
        return content.encode()
    except UnicodeEncodeError as error:
        raise Invalid(f"lone surrogate at character {error.start}", path="content") from None


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@contextmanager
def _place(path: str, root: str | None, *, make: bool) -> Iterator[tuple[int | None, str]]:
    """The folder of the file, opened, and the file's name. None: a folder below `root` is missing. NotFound: the place is."""
    top, folders, name = _parts(path, root)
    with ExitStack() as held:
        folder = held.enter_context(opened(ROOT, top))
        if folder is None:
            raise NotFound("no such folder", path=top)
        for part in folders:
            if make and folder is not None:
                _make(folder, part)
            folder = held.enter_context(opened(DIRECTORY, part, folder))
        yield folder, name


def _parts(path: str, root: str | None) -> tuple[str, list[str], str]:
    """The folder that must exist, the folders below it, and the name of the file."""
    if root is None:
        given_path = PurePosixPath(absolute(path, "path"))
        top, folders = str(given_path.parent), []
    else:
        given_path = PurePosixPath(argument(path, "path"))
        top, folders = absolute(root, "root"), list(given_path.parts[:-1])
        if given_path.is_absolute() or ".." in given_path.parts:
            raise Invalid(f"{path[:80]!r} leads out of its root", path="path")
    if not given_path.name or path.endswith("/"):
        raise Invalid("expected the path of a file", path="path")
    return top, folders, given_path.name


def _make(folder: int, name: str) -> None:
    """A folder below, durable if it is new."""
    with translated(name), suppress(FileExistsError):
        os.mkdir(name, dir_fd=folder)
        os.fsync(folder)


def _mode(folder: int, name: str) -> int | None:
    """The mode of the file that is replaced; None if there is none. Failed if it is no regular file."""
    with translated(name):
        try:
            mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
        except FileNotFoundError:
            return None
    if not stat.S_ISREG(mode):
        kind = "a symbolic link" if stat.S_ISLNK(mode) else "no regular file"
        raise Failed(f"{name!r} is {kind}, which is not replaced", code="NotAFile", path="path")
    return stat.S_IMODE(mode)


@contextmanager
def _written(folder: int, data: bytes, mode: int | None) -> Iterator[str]:
    """A durable temporary file beside the target; whatever is left of it in the end is removed."""
    reach("file.before_write")
    with translated("path"):
        name, fd = new_temporary(folder, 0o666)
    try:
        with os.fdopen(fd, "wb") as file:
            with translated(name):
                if mode is not None:
                    os.fchmod(fd, mode)
                file.write(data)
                file.flush()
                os.fsync(fd)
            yield name
    finally:
        with suppress(OSError):  # mostly because it has been renamed
            os.unlink(name, dir_fd=folder)


def being_written(root: str, paths: Iterable[str]) -> list[str]:
    """Those of these temporary files below a folder that somebody is writing; the others were left by the dead, and go."""
    alive: list[str] = []
    for path in paths:
        with _place(path, root, make=False) as (folder, name):
            alive += [path] if folder is not None and remove_left(folder, [name]) else []
    return alive


def _check_found(folder: int, name: str, expect: str | None, own: str) -> None:
    """Refuse to replace what was not expected; its own content is, so that a second call is as good as none."""
    if expect is not None and (actual := _sha256_of_file(folder, name)) not in (expect, own):
        state = f"its sha256 is {actual}" if actual else "there is none"
        raise Failed(f"not the file that was expected: {state}", code="Changed", path="expect", hint="read it again")


def _sha256_of_file(folder: int, name: str) -> str:
    """The sha256 of the file there; `NO_FILE` if there is none. Damaged if it is a link or no regular file."""
    with opened(FILE, name, folder) as fd:
        if fd is None:
            return NO_FILE
        read = hashlib.sha256()
        for piece in pieces_of(fd, name):
            read.update(piece)
        return read.hexdigest()


def _settle(folder: int, name: str) -> None:
    """Make durable what was found: its writer may have died before it did."""
    with opened(FILE, name, folder) as fd:
        if fd is not None:
            sync(fd, name)
    sync(folder, name)
