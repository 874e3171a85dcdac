"""Files as a trace of system calls leaves them: every write and cut in order, and what each sync has made durable.

`Files` replays a trace of strace (see `RECORDING`). Names (creations, renames, removals) are taken as durable at once, in the
subject's favour. Bytes that were written through a shared mapping alone are not known. Callers: `power`, `outages`.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

from perdure_evaluate.recovery.faults import system_calls

CALLS = (
    "openat", "creat", "write", "pwrite64", "writev", "pwritev", "pwritev2", "lseek", "truncate", "ftruncate", "fallocate",
    "fsync", "fdatasync", "rename", "renameat", "renameat2", "link", "linkat", "unlink", "unlinkat", "mmap", "msync",
)  # fmt: skip
RECORDING = ("-y", "-xx", "-s", "100000000", "-e", f"trace={','.join({*CALLS, *system_calls.CALLS})}")
LINE = re.compile(r"^(\d+) +(?:<\.\.\. \w+ resumed>)?(.*)$")
HEX = r"((?:\\x[0-9a-f]{2})*)"
FD = rf"(\d+)<{HEX}>"


class FileOp(NamedTuple):
    """A write of data at an offset, or (data None) a cut at that size. when: the number of its call in the trace."""

    at: int
    data: bytes | None
    when: int = 0

    def torn(self, cut: int) -> FileOp:
        """Of a write only so many bytes; of a cut, nothing."""
        return FileOp(self.at, (self.data or b"")[:cut], self.when)


class File:
    """One file: every operation on it, in order, and how many of them each sync made durable."""

    def __init__(self) -> None:
        self.ops: list[FileOp] = []
        # (the number of the call, how many operations were durable from then on).
        self.syncs: list[tuple[int, int]] = []
        self.size = 0

    @property
    def pending(self) -> list[FileOp]:
        """The changes after the last sync."""
        return self.ops[self.syncs[-1][1] if self.syncs else 0 :]

    def content(self, count: int, cut: int = 0) -> bytes:
        """With so many pending operations, and so many bytes of the next one."""
        there = len(self.ops) - len(self.pending) + count
        return made_of([*self.ops[:there], *(op.torn(cut) for op in self.ops[there : there + 1])])

    def add(self, op: FileOp) -> None:
        """One more operation."""
        self.ops.append(op)
        self.size = op.at if op.data is None else max(self.size, op.at + len(op.data) if op.data else 0)

    def sync(self, when: int = 0) -> None:
        """All of it is durable."""
        self.syncs.append((when, len(self.ops)))

    def durable_before(self, when: int) -> int:
        """How many operations were durable before this call."""
        return max((count for at, count in self.syncs if at < when), default=0)

    def done_before(self, when: int) -> int:
        """How many operations there were before this call."""
        return bisect_left(self.ops, when, key=attrgetter("when"))

    def safe_at(self, number: int) -> int | None:
        """The call that made this operation durable; none, if nothing did."""
        return next((at for at, count in self.syncs if count > number), None)


def made_of(ops: Iterable[FileOp]) -> bytes:
    """The content of a file after these."""
    content = bytearray()
    for op in ops:
        if op.data is None:
            del content[op.at :]
        if op.data is None or (op.data and len(content) < op.at):
            content.extend(bytes(op.at - len(content)))
        if op.data:
            content[op.at : op.at + len(op.data)] = op.data
    return bytes(content)


class Untold(Exception):
    """The trace has something that this replay does not understand: nothing can be claimed."""


class Files:
    """The files below a folder, as a trace of system calls leaves them."""

    def __init__(self, folder: Path) -> None:
        self._folder = f"{folder}/"
        self._at: dict[str, int] = {}  # position by descriptor
        self._append: set[str] = set()
        self.files: dict[str, File] = {}
        self.mapped: set[str] = set()  # written through memory: of these only what was written by calls is known
        self.names: list[tuple[int, dict[str, File]]] = [(0, {})]  # which files there are, from a call on
        self.now = 0

    def replay(self, trace: str) -> None:
        """Take every call of a trace that succeeded, in the order in which they ended."""
        for name, args, result in _calls(trace):
            self.now += 1
            if result >= 0 and (take := getattr(self, f"_{name}", None)) is not None:
                take(args, result)
                if self.files != self.names[-1][1]:
                    self.names.append((self.now, dict(self.files)))

    def named_before(self, when: int) -> dict[str, File]:
        """Which files there were before this call."""
        return next(files for at, files in reversed(self.names) if at < when or at == 0)

    def _openat(self, args: str, fd: int) -> None:
        folder, name = re.findall(rf"<{HEX}>", args), re.findall(rf'"{HEX}"', args)[0]
        path = _below(folder[0] if folder else "", name)
        if not path.startswith(self._folder) or "O_DIRECTORY" in args:
            return
        self._at[str(fd)] = 0
        self._append.discard(str(fd))
        if "O_APPEND" in args:
            self._append.add(str(fd))
        if "O_TRUNC" in args and self._file(path).size:
            self._file(path).add(FileOp(0, None, self.now))

    def _write(self, args: str, count: int) -> None:
        fd, path, data = self._written(args)
        if path:
            file = self._file(path)
            at = file.size if fd in self._append else self._at[fd]
            file.add(FileOp(at, data[:count], self.now))
            self._at[fd] = at + count

    def _pwrite64(self, args: str, count: int) -> None:
        _, path, data = self._written(args)
        if path:
            self._file(path).add(FileOp(int(args.rpartition(", ")[2]), data[:count], self.now))

    def _lseek(self, args: str, at: int) -> None:
        fd, path = self._file_of(args)
        if path:
            self._at[fd] = at

    def _ftruncate(self, args: str, _: int) -> None:
        path = self._file_of(args)[1]
        if path:
            self._file(path).add(FileOp(int(args.rpartition(", ")[2]), None, self.now))

    def _fsync(self, args: str, _: int) -> None:
        path = self._file_of(args)[1]
        if path in self.files:
            self.files[path].sync(self.now)

    _fdatasync = _fsync

    def _rename(self, args: str, _: int) -> None:
        self._renamed(*(_text(name) for name in re.findall(rf'"{HEX}"', args)))

    def _renameat(self, args: str, result: int) -> None:
        paths = [_below(*pair) for pair in re.findall(rf'<{HEX}>, "{HEX}"', args)]
        if len(paths) == 2:  # from, to: else one of them is not told
            self._renamed(*paths)
        else:
            self._unknown(args, result)

    def _renamed(self, source: str, target: str) -> None:
        if source.startswith(self._folder) and source in self.files:
            self.files[target] = self.files.pop(source)

    def _link(self, args: str, _: int) -> None:
        source, target = [_text(name) for name in re.findall(rf'"{HEX}"', args)]
        if source in self.files:
            self.files[target] = self.files[source]

    def _unlink(self, args: str, _: int) -> None:
        self.files.pop(_text(re.findall(rf'"{HEX}"', args)[-1]), None)

    def _unknown(self, args: str, _: int) -> None:
        if any(_text(name).startswith(self._folder) for name in re.findall(rf'[<"]{HEX}[>"]', args)):
            raise Untold(_text(re.findall(rf'[<"]{HEX}[>"]', args)[0]))

    _writev = _pwritev = _pwritev2 = _truncate = _fallocate = _renameat2 = _linkat = _creat = _unknown

    def _mmap(self, args: str, _: int) -> None:
        if "MAP_SHARED" in args and "PROT_WRITE" in args:
            self.mapped |= {_text(name) for name in re.findall(rf"<{HEX}>", args)}

    def _msync(self, args: str, _: int) -> None:
        raise Untold(f"msync({args}): what it syncs is not known")

    def _unlinkat(self, args: str, _: int) -> None:
        path = "/".join(_text(name) for name in re.findall(rf'[<"]{HEX}[>"]', args))
        self.files.pop(path, None)

    def _written(self, args: str) -> tuple[str, str, bytes]:
        fd, path = self._file_of(args)
        return fd, path, self.data_of(args) if path else b""

    def data_of(self, args: str) -> bytes:
        """The data of a write."""
        match = re.search(rf'"{HEX}"', args)
        return _bytes(match[1]) if match else b""

    def _file_of(self, args: str) -> tuple[str, str]:
        """The descriptor, and its path if it is one of ours and open for writing."""
        match = re.match(FD, args)
        path = _text(match[2]) if match else ""
        return (match[1], path) if match and path.startswith(self._folder) else ("", "")

    def _file(self, path: str) -> File:
        return self.files.setdefault(path, File())


def _calls(trace: str) -> Iterator[tuple[str, str, int]]:
    """Every finished call: its name, its arguments and what it gave."""
    begun: dict[str, str] = {}
    for line in trace.splitlines():
        match = LINE.match(line)
        if match is None:
            continue
        pid, text = match[1], begun.pop(match[1], "") + match[2] if "resumed>" in line else match[2]
        if text.endswith("<unfinished ...>"):
            begun[pid] = text.removesuffix("<unfinished ...>").rstrip()
            continue
        call = re.match(r"^(\w+)\((.*)\)\s+= (-?\d+)", text)
        if call is not None:
            yield call[1], call[2], int(call[3])


def _bytes(text: str) -> bytes:
    return bytes.fromhex(text.replace("\\x", ""))


def _below(folder: str, name: str) -> str:
    """The path of what is named below a folder, both as strace tells them."""
    path = _text(name)
    return path if path.startswith("/") else f"{_text(folder)}/{path}"


def _text(text: str) -> str:
    return _bytes(text).decode(errors="replace")
