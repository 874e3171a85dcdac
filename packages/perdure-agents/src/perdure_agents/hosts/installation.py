"""Installing: the difference first, then the files, then a record by which every byte can be put back.

The record (`~/.perdure/installed/…`) is durable before the first file is changed, and keeps each file as it was before the first
install. Undo gives back exactly those bytes; a file that somebody changed since keeps the change, and loses only what is ours.
"""

from __future__ import annotations

import base64
import difflib
import hashlib
import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from perdure.errors import Invalid, NotFound, Refused
from perdure_agents.hosts import plans
from perdure_agents.hosts.catalog import Host
from perdure_agents.hosts.plans import NAME, OPENCODE_PAGE, InstallOptions, indent_of, is_ours, without_marked

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


def planned(host: Host, root: Path, options: InstallOptions) -> list[FileChange]:
    """The changes that an install would make; none if it was done before. Invalid for a file that cannot be merged into."""
    pieces = [(piece, _text(root, piece.path)) for piece in plans.plan(host, options)]
    changes = [FileChange(piece.path, before, piece.change(before)) for piece, before in pieces]
    return [change for change in changes if change.before != change.after]


def install(host: Host, root: Path, changes: list[FileChange], home: Path) -> None:
    """Write the changes. After a crash, the same again completes it, and undo knows every file that was touched."""
    record = read_record(host, root, home) or InstallRecord(host.name, str(root), {})
    for change in changes:
        assert change.after is not None
        old = record.files.get(change.path)
        folders = _missing(root, change.path) if old is None else old.folders
        record.files[change.path] = InstalledFile(_before(change, old), _mark(change.after.encode()), folders)
    _replace(_record_path(host, root, home), msgspec.json.encode(record), 0o600)
    for change in changes:
        assert change.after is not None
        _replace(_within(root, change.path), change.after.encode())


def _before(change: FileChange, old: InstalledFile | None) -> str | None:
    """The bytes that undo gives back: the file before the first install, with later changes of others."""
    if old is not None and change.before is not None and _mark(change.before.encode()) == old.written:
        return old.before
    text = change.before if old is None or change.before is None else without_ours(change.path, change.before)
    return None if text is None else base64.b64encode(text.encode()).decode()


# -- undoing ---------------------------------------------------------------------------------------------------------------


def undoing(host: Host, root: Path, home: Path) -> list[FileChange]:
    """The changes that undoing would make. NotFound if nothing was installed."""
    record = read_record(host, root, home)
    if record is None:
        raise NotFound(f"{host.name} was not installed in {root}", path="host")
    return [_undone(root, path, installed) for path, installed in record.files.items()]


def _undone(root: Path, path: str, installed: InstalledFile) -> FileChange:
    now = _text(root, path)
    before = None if installed.before is None else base64.b64decode(installed.before).decode()
    if now is None or now == before:  # somebody removed it, or an install was killed before it came to this file
        return FileChange(path, now, now)
    if _mark(now.encode()) == installed.written:
        return FileChange(path, now, before)
    return FileChange(path, now, without_ours(path, now))


def undo(host: Host, root: Path, home: Path) -> list[FileChange]:
    """Put every file back; returns what was changed. Again, after a crash, completes it."""
    changes = undoing(host, root, home)
    record = read_record(host, root, home)
    assert record is not None
    for change in changes:
        path = _within(root, change.path)
        if change.after is None:
            path.unlink(missing_ok=True)
        elif change.after != change.before:
            _replace(path, change.after.encode())
        for folder in record.files[change.path].folders:
            with suppress(OSError):  # somebody put something there, or it is gone
                (root / folder).rmdir()
    _record_path(host, root, home).unlink(missing_ok=True)
    return [change for change in changes if change.before != change.after]


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


def is_changed(root: Path, path: str, installed: InstalledFile) -> bool:
    """Whether somebody changed a file since it was written."""
    now = _text(root, path)
    return now is None or _mark(now.encode()) != installed.written


def _record_path(host: Host, root: Path, home: Path) -> Path:
    mark = _mark(os.fsencode(root))[:16]
    return home / ".perdure" / "installed" / f"{host.name}-{mark}.json"


def _mark(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _within(root: Path, path: str) -> Path:
    """The file, which must lie in the workspace: a link that leads out of it came with somebody's repository."""
    file = root / path
    if file.is_symlink() or not file.parent.resolve().is_relative_to(root.resolve()):
        raise Refused("a link leads out of the workspace", path=path, hint="replace the link by a file of its own")
    return file


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
    parents = [parent for parent in Path(path).parents if parent != Path()]
    return [parent.as_posix() for parent in parents if not (root / parent).exists()]


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


# -- our own entries out of a file that somebody changed after an install ----------------------------------------


def without_ours(path: str, text: str) -> str:
    """The text without what an install put into it. An unreadable file and an edited page stay as they are."""
    if not path.endswith(".json"):
        return without_marked(text) if path.endswith(".toml") else text
    try:
        document = json.loads(text)
    except ValueError:
        return text
    if not isinstance(document, dict):
        return text
    for table in ("mcpServers", "mcp"):
        _drop(document, table, NAME)
    for event in [*document.get("hooks", {})]:
        others = [entry for entry in document["hooks"][event] if not is_ours(entry)]
        document["hooks"][event] = others
        if not others:
            del document["hooks"][event]
    _drop_listed(document, "permissions", "allow", lambda entry: entry.startswith(f"mcp__{NAME}__"))
    _drop_listed(document, "", "enabledMcpjsonServers", lambda entry: entry == NAME)
    _drop_listed(document, "", "instructions", lambda entry: entry == OPENCODE_PAGE)
    for table in ("hooks", "permissions"):
        if document.get(table) == {}:
            del document[table]
    return json.dumps(document, indent=indent_of(text), ensure_ascii=False) + "\n"


def _drop(document: dict[str, Any], table: str, name: str) -> None:
    inner = document.get(table)
    if isinstance(inner, dict) and inner.pop(name, None) is not None and not inner:
        del document[table]


def _drop_listed(document: dict[str, Any], table: str, name: str, is_one: Any) -> None:
    inner = document.get(table) if table else document
    if isinstance(inner, dict) and isinstance(inner.get(name), list):
        others = [entry for entry in inner[name] if not (isinstance(entry, str) and is_one(entry))]
        inner[name] = others
        if not others:
            del inner[name]
