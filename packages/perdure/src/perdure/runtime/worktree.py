"""A working tree of git: which of its files differ from HEAD, found without running anything that the repository names.

Git lists what the index, HEAD and the ignore rules say (`stores.git`); the files are looked at and hashed here. A file is as it
was committed if its stat data are those of the index, or its bytes are those of the object: as they are, with LF line ends, or
as the pointer that git-lfs keeps in their place. No other filter is applied, so a file behind one counts as changed once it was
touched. A repository inside this one is a plain tree, and what leads out of the folder is not followed.
Caller: `runtime.workspace`. Keeps P10 and P15.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from perdure.stores import git

GIT, NO_GIT, NO_FOLDER, NO_REPOSITORY, UNKNOWN = "git", "no git", "no folder", "no repository", "unknown"
CHUNK_BYTES = 1 << 20
LF_MAX_BYTES = 16 * 1024**2  # of a file whose line ends are looked at
NESTED_MAX_FILES = 200_000
NESTED_READ_MAX_BYTES = 64 * 1024**2  # a larger tree is told by sizes and times
_LINK, _REPOSITORY = 0o120000, 0o160000
_ASSUMED, _SKIPPED = 0x8000, 0x40000000  # flags of the index: not looked at; not checked out
_32_BITS = 0xFFFFFFFF
_ENTRY = re.compile(
    rb"(\d{6}) ([0-9a-f]{40,64}) (\d)\t([^\0]+)\0  ctime: (\d+):(\d+)\n  mtime: (\d+):(\d+)\n"
    rb"  dev: \d+\tino: (\d+)\n  uid: \d+\tgid: \d+\n  size: (\d+)\tflags: ([0-9a-f]+)\n"
)


class Unclear(Exception):
    """Why a folder cannot be compared."""

    def __init__(self, state: str, why: str) -> None:
        super().__init__(why)
        self.state = state


class IndexEntry(NamedTuple):
    """An entry of the index."""

    mode: int
    oid: str
    stage: int
    path: bytes
    stat: tuple[int, ...]  # ctime and mtime, each in seconds and nanoseconds; inode; size
    flags: int


class Worktree:
    """The working tree around a folder, seen from that folder. Unclear when there is none, or it cannot be read in time."""

    def __init__(self, place: Path, deadline: float) -> None:
        self._place = place
        self._deadline = deadline
        if not place.is_dir():
            raise Unclear(NO_FOLDER, "there is no such folder")
        up, self._format, index = self._asked(
            "rev-parse", "--show-cdup", "--show-object-format", "--git-path", "index"
        ).split("\n", 2)
        if up.replace("../", ""):
            raise Unclear(UNKNOWN, "its configuration says that its files are somewhere else")
        self.top = place / up
        self._index = place / index.removesuffix("\n")
        self._below_top = f"{self.top}/"
        self._plain: dict[str, bool] = {"": True}  # folders below the top: whether no link leads there

    def head(self) -> tuple[str, str]:
        """The commit that is checked out, "" before the first one, and its branch."""
        branch = self._answer("symbolic-ref", "--quiet", "HEAD")
        name = (
            os.fsdecode(branch.out).removesuffix("\n").removeprefix("refs/heads/")
            if not branch.status
            else "(detached)"
        )
        commit = self._answer("rev-parse", "--verify", "--quiet", "HEAD")
        return ("" if commit.status else commit.out.decode().strip()), name

    def changed(self, head: str) -> set[bytes]:
        """The paths that differ from a commit, untracked ones included, ignored ones not; from the top on."""
        here = ("--", ".")
        files = self._listed("ls-files", "-z", "--others", "--exclude-standard", "--full-name", *here)
        entries = list(self._entries(self._out("ls-files", "-z", "--stage", "--debug", "--full-name", *here)))
        if head:
            files += self._listed("diff-index", "--cached", "--name-only", "-z", "--no-renames", head, *here)
        else:
            files += [entry.path for entry in entries]
        modes = self._answer("config", "--type=bool", "--get", "core.fileMode").out.strip() != b"false"
        before = int(self._index.stat().st_mtime) if entries else 0
        return {*files, *(entry.path for entry in entries if not self._is_committed(entry, before, modes=modes))}

    def digest(self, path: bytes) -> str:
        """A digest of what stands at a path, whatever it is."""
        self._check_time()
        try:
            found = self._found(path)
            if stat.S_ISDIR(found.st_mode):
                return self._nested(self.top / os.fsdecode(path))
            return self._hashed(self.top / os.fsdecode(path), found)
        except (FileNotFoundError, NotADirectoryError):
            return "gone"
        except PermissionError:
            return "unreadable"

    # -- the index ---------------------------------------------------------------------------------------------------------

    def _entries(self, said: bytes) -> Iterator[IndexEntry]:
        at = 0
        while at < len(said):
            found = _ENTRY.match(said, at)
            if found is None:
                raise Unclear(UNKNOWN, "this git lists its index in a form that is not known")
            mode, oid, stage, path, *numbers, flags = found.groups()
            yield IndexEntry(int(mode, 8), oid.decode(), int(stage), path, tuple(map(int, numbers)), int(flags, 16))
            at = found.end()

    def _is_committed(self, entry: IndexEntry, index_time: int, *, modes: bool) -> bool:
        """Whether a file is as the index has it. index_time: what changed in that second or later may have the same stat data."""
        self._check_time()
        try:
            found = self._found(entry.path)
        except (FileNotFoundError, NotADirectoryError):
            return bool(entry.flags & _SKIPPED)
        if entry.flags & _ASSUMED or entry.stage:
            return not entry.stage
        if entry.mode == _REPOSITORY:
            return not any((self.top / os.fsdecode(entry.path)).iterdir()) if stat.S_ISDIR(found.st_mode) else False
        if entry.stat[2] < index_time and _same(entry.stat, found):
            return True
        return _has_mode(found.st_mode, entry.mode, modes=modes) and self._has_content(entry, found)

    def _has_content(self, entry: IndexEntry, found: os.stat_result) -> bool:
        path = self.top / os.fsdecode(entry.path)
        try:
            return entry.oid in self._objects(path, found)
        except PermissionError:
            return False

    def _objects(self, path: Path, found: os.stat_result) -> Iterator[str]:
        """The objects that git may keep for a file: its bytes, the pointer of git-lfs, its text with LF line ends."""
        if stat.S_ISLNK(found.st_mode):
            yield self._object(os.fsencode(path.readlink()))
            return
        raw, whole = self._begun(found.st_size), hashlib.sha256()
        for piece in self._pieces(path):
            raw.update(piece)
            whole.update(piece)
        yield raw.hexdigest()
        pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{whole.hexdigest()}\nsize {found.st_size}\n"
        yield self._object(pointer.encode())
        if found.st_size <= LF_MAX_BYTES:
            yield self._object(b"".join(self._pieces(path)).replace(b"\r\n", b"\n"))

    def _object(self, content: bytes) -> str:
        digest = self._begun(len(content))
        digest.update(content)
        return digest.hexdigest()

    def _begun(self, size: int) -> hashlib._Hash:
        return hashlib.new(self._format, b"blob %d\0" % size, usedforsecurity=False)

    # -- files -------------------------------------------------------------------------------------------------------------

    def _found(self, path: bytes) -> os.stat_result:
        """The file at a path of the index; FileNotFoundError if that leads through a link, or out of the tree."""
        name = os.fsdecode(path).rstrip("/")
        folder, _, last = name.rpartition("/")
        if last in ("", ".", "..") or name.startswith("/") or not self._is_plain(folder):
            raise FileNotFoundError("no path of this tree, or one behind a link")
        return os.lstat(self._below_top + name)

    def _is_plain(self, folder: str) -> bool:
        if folder not in self._plain:
            above, _, last = folder.rpartition("/")
            inside = last not in ("", ".", "..") and self._is_plain(above)
            self._plain[folder] = inside and stat.S_ISDIR(os.lstat(self._below_top + folder).st_mode)
        return self._plain[folder]

    def _hashed(self, path: Path, found: os.stat_result) -> str:
        mode = found.st_mode
        digest = hashlib.sha256(f"{stat.S_IFMT(mode)} {bool(mode & stat.S_IXUSR)} ".encode())
        if stat.S_ISLNK(mode):
            digest.update(os.fsencode(path.readlink()))
        elif stat.S_ISREG(mode):
            for piece in self._pieces(path):
                digest.update(piece)
        return digest.hexdigest()

    def _pieces(self, path: Path) -> Iterator[bytes]:
        """The content of a regular file; of nothing else, whatever stands there by now."""
        number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(number, "rb") as file:  # noqa: PTH123 - a descriptor
            while stat.S_ISREG(os.fstat(number).st_mode) and (data := file.read(CHUNK_BYTES)):
                self._check_time()
                yield data

    def _nested(self, folder: Path) -> str:
        """A repository inside: all of its files but its `.git`. A large one is told by sizes and times, and not read."""
        files = sorted(self._below(folder))
        read = sum(found.st_size for _, found in files) <= NESTED_READ_MAX_BYTES
        digest = hashlib.sha256(b"perdure nested 1\0")
        for path, found in files:
            told = (
                self._hashed(folder / path, found) if read else f"{found.st_mode} {found.st_size} {found.st_mtime_ns}"
            )
            digest.update(told.encode() + b" " + os.fsencode(path) + b"\0")
        return digest.hexdigest()

    def _below(self, folder: Path) -> Iterator[tuple[str, os.stat_result]]:
        waiting, count = [""], 0
        while waiting:
            inside = waiting.pop()
            with os.scandir(folder / inside) as found:
                for each in found:
                    count += 1
                    self._check_time(count > NESTED_MAX_FILES)
                    name = f"{inside}{each.name}"
                    if each.is_dir(follow_symlinks=False) and each.name != ".git":
                        waiting.append(f"{name}/")
                    elif each.name != ".git":
                        yield name, each.stat(follow_symlinks=False)

    def _check_time(self, too_many: bool = False) -> None:
        if too_many or time.monotonic() > self._deadline:
            raise Unclear(UNKNOWN, "there is too much to look at in the time")

    # -- git ---------------------------------------------------------------------------------------------------------------

    def _answer(self, *command: str) -> git.GitAnswer:
        try:
            return git.ask(self._place, self._deadline - time.monotonic(), *command)
        except FileNotFoundError as error:
            raise Unclear(NO_GIT, str(error)) from None
        except TimeoutError as error:
            raise Unclear(UNKNOWN, str(error)) from None

    def _out(self, *command: str) -> bytes:
        answer = self._answer(*command)
        if answer.status:
            raise Unclear(NO_REPOSITORY if "not a git repository" in answer.complaint else UNKNOWN, answer.complaint)
        return answer.out

    def _asked(self, *command: str) -> str:
        return os.fsdecode(self._out(*command))

    def _listed(self, *command: str) -> list[bytes]:
        return [path for path in self._out(*command).split(b"\0") if path]


def _same(known: tuple[int, ...], found: os.stat_result) -> bool:
    """Whether a file has the stat data of the index; some gits keep no nanoseconds there."""
    changed, changed_ns = divmod(found.st_ctime_ns, 10**9)
    written, written_ns = divmod(found.st_mtime_ns, 10**9)
    now = (
        changed & _32_BITS, changed_ns if known[1] else 0, written & _32_BITS, written_ns if known[3] else 0,
        found.st_ino & _32_BITS, found.st_size & _32_BITS,
    )  # fmt: skip
    return known == now


def _has_mode(mode: int, known: int, *, modes: bool) -> bool:
    if stat.S_ISREG(mode) and known != _LINK:
        return not modes or bool(mode & stat.S_IXUSR) == bool(known & stat.S_IXUSR)
    return stat.S_ISLNK(mode) and known == _LINK
