"""Installing: the difference first, then the files, then a record by which every byte can be put back.

The record (`~/.perdure/installed/…`) is durable before the first file is changed, and keeps each file as it was before the first
install. Undo gives back exactly those bytes; a file that somebody changed since keeps the change, and loses only what is ours.
"""

from __future__ import annotations

import base64
import difflib
import hashlib
import os
from pathlib import Path
from typing import NamedTuple

import msgspec

from perdure.errors import Invalid, NotFound, Refused
from perdure_agents.hosts import plans, removing
from perdure_agents.hosts.known import Host
from perdure_agents.hosts.plans import Wanted

FILE_MAX_BYTES = 4 * 1024 * 1024


class InstalledFile(msgspec.Struct):
    """A file as it was before (None: it was not there), what was written, and the folders that were made for it."""

    before: str | None
    written: str
    folders: list[str]


class InstallRecord(msgspec.Struct):
    """The files of an install, by path below the workspace."""

    host: str
    root: str
    files: dict[str, InstalledFile]


class FileChange(NamedTuple):
    """One file that is to be changed: its text before (None: it is not there) and after (None: it goes)."""

    path: str
    before: str | None
    after: str | None

    @property
    def diff(self) -> str:
        """The difference, for people."""
        old, new = (self.before or "").splitlines(), (self.after or "").splitlines()
        return "\n".join(difflib.unified_diff(old, new, self.path, self.path, lineterm=""))


# -- installing ------------------------------------------------------------------------------------------------------------


def planned(host: Host, root: Path, wanted: Wanted) -> list[FileChange]:
    """The changes that an install would make; none if it was done before. Invalid for a file that cannot be merged into."""
    found = [(piece, _text(root, piece.path)) for piece in plans.plan(host, wanted)]
    changes = [FileChange(piece.path, before, piece.change(before)) for piece, before in found]
    return [each for each in changes if each.before != each.after]


def install(host: Host, root: Path, changes: list[FileChange], home: Path) -> None:
    """Write the changes. After a crash, the same again completes it, and undo knows every file that was touched."""
    record = read_record(host, root, home) or InstallRecord(host.name, str(root), {})
    for each in changes:
        assert each.after is not None
        old = record.files.get(each.path)
        folders = _missing(root, each.path) if old is None else old.folders
        record.files[each.path] = InstalledFile(_before(each, old), _mark(each.after.encode()), folders)
    _replace(_record_path(host, root, home), msgspec.json.encode(record), 0o600)
    for each in changes:
        assert each.after is not None
        _replace(_within(root, each.path), each.after.encode())


def _before(change: FileChange, old: InstalledFile | None) -> str | None:
    """The bytes that undo gives back: the file before the first install, with later changes of others."""
    if old is not None and change.before is not None and _mark(change.before.encode()) == old.written:
        return old.before
    text = change.before if old is None or change.before is None else removing.without_ours(change.path, change.before)
    return None if text is None else base64.b64encode(text.encode()).decode()


# -- undoing ---------------------------------------------------------------------------------------------------------------


def undoing(host: Host, root: Path, home: Path) -> list[FileChange]:
    """The changes that undoing would make. NotFound if nothing was installed."""
    record = read_record(host, root, home)
    if record is None:
        raise NotFound(f"{host.name} was not installed in {root}", path="host")
    return [_undone(root, path, kept) for path, kept in record.files.items()]


def _undone(root: Path, path: str, kept: InstalledFile) -> FileChange:
    now = _text(root, path)
    before = None if kept.before is None else base64.b64decode(kept.before).decode()
    if now is None or now == before:  # somebody removed it, or an install was killed before it came to this file
        return FileChange(path, now, now)
    if _mark(now.encode()) == kept.written:
        return FileChange(path, now, before)
    return FileChange(path, now, removing.without_ours(path, now))


def undo(host: Host, root: Path, home: Path) -> list[FileChange]:
    """Put every file back; returns what was changed. Again, after a crash, completes it."""
    changes = undoing(host, root, home)
    record = read_record(host, root, home)
    assert record is not None
    for each in changes:
        path = _within(root, each.path)
        if each.after is None:
            path.unlink(missing_ok=True)
        elif each.after != each.before:
            _replace(path, each.after.encode())
        for folder in record.files[each.path].folders:
            _remove_empty(root / folder)
    _record_path(host, root, home).unlink(missing_ok=True)
    return [each for each in changes if each.before != each.after]


# -- files -----------------------------------------------------------------------------------------------------------------


def read_record(host: Host, root: Path, home: Path) -> InstallRecord | None:
    """The record of an install for a host in a workspace; None if there is none."""
    path = _record_path(host, root, home)
    try:
        return msgspec.json.decode(path.read_bytes(), type=InstallRecord)
    except FileNotFoundError:
        return None
    except msgspec.DecodeError as error:
        raise Invalid(f"cannot be read: {error}", path=str(path), hint="remove it, and our entries by hand") from error


def is_changed(root: Path, path: str, kept: InstalledFile) -> bool:
    """Whether somebody changed a file since it was written."""
    now = _text(root, path)
    return now is None or _mark(now.encode()) != kept.written


def _record_path(host: Host, root: Path, home: Path) -> Path:
    mark = _mark(os.fsencode(root))[:16]
    return home / ".perdure" / "installed" / f"{host.name}-{mark}.json"


def _mark(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _within(root: Path, path: str) -> Path:
    """The file, which must lie in the workspace: a link that leads out of it came with somebody's repository."""
    found = root / path
    if found.is_symlink() or not found.parent.resolve().is_relative_to(root.resolve()):
        raise Refused("a link leads out of the workspace", path=path, hint="replace the link by a file of its own")
    return found


def _bytes(root: Path, path: str) -> bytes:
    with _within(root, path).open("rb") as file:
        data = file.read(FILE_MAX_BYTES + 1)
    if len(data) > FILE_MAX_BYTES:
        raise Invalid(f"more than {FILE_MAX_BYTES} bytes", path=path)
    return data


def _text(root: Path, path: str) -> str | None:
    try:
        return _bytes(root, path).decode()
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as error:
        raise Invalid("no UTF-8", path=path) from error


def _missing(root: Path, path: str) -> list[str]:
    """The folders that are made for a file, the innermost first."""
    parents = [each for each in Path(path).parents if each != Path()]
    return [each.as_posix() for each in parents if not (root / each).exists()]


def _replace(path: Path, data: bytes, mode: int | None = None) -> None:
    """Write a file whole or not at all, durably."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700 if mode else 0o777)
    held = path.stat().st_mode & 0o7777 if path.exists() else mode
    new = path.with_name(f".{path.name}.perdure-new")
    with new.open("wb") as file:
        if held is not None:
            os.fchmod(file.fileno(), held)
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)


def _remove_empty(folder: Path) -> None:
    try:
        folder.rmdir()
    except OSError:  # somebody put something there, or it is gone
        return
