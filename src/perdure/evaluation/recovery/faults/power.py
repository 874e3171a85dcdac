"""Power loss after a kill: of what was written and not synced, some prefix is there, and the write after it is torn.

The first life is traced until it is killed, at a boundary or in the middle of a call. `Files` replays the trace: for each file
what a sync has made durable, and the writes and truncations that came after its last sync, in order. A power loss keeps any
number of these and cuts the next one at any byte, for each file by itself; names (creations, renames, removals) are taken as
durable at once, in the subject's favour. What was written through a shared mapping alone is gone. If replaying everything does
not give the files that are there, nothing is claimed about the case.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from perdure.evaluation.recovery.faults import tracing
from perdure.evaluation.recovery.faults.fault import Control, Fault
from perdure.evaluation.recovery.interface import Subject
from perdure.evaluation.recovery.oracle import points_of
from perdure.evaluation.recovery.story import LIVES_MAX, Story
from perdure.evaluation.recovery.tasks import Task

CALLS = (
    "openat", "creat", "write", "pwrite64", "writev", "pwritev", "pwritev2", "lseek", "truncate", "ftruncate", "fallocate",
    "fsync", "fdatasync", "rename", "renameat", "renameat2", "link", "linkat", "unlink", "unlinkat", "mmap", "msync",
)  # fmt: skip
LINE = re.compile(r"^(\d+) +(?:<\.\.\. \w+ resumed>)?(.*)$")
HEX = r"((?:\\x[0-9a-f]{2})*)"
FD = rf"(\d+)<{HEX}>"
VARIANTS = 4


class Op(NamedTuple):
    """A write of data at an offset, or (data None) a cut at that size."""

    at: int
    data: bytes | None


class File:
    """One file: what is durable, and what came after its last sync."""

    def __init__(self) -> None:
        self.durable = b""
        self.pending: list[Op] = []

    def content(self, kept: int, cut: int = 0) -> bytes:
        """With so many pending operations, and so many bytes of the next one."""
        found = self.durable
        for op in self.pending[:kept]:
            found = _applied(found, op)
        if kept < len(self.pending) and (data := self.pending[kept].data) is not None:
            found = _applied(found, Op(self.pending[kept].at, data[:cut]))
        return found

    def sync(self) -> None:
        """All of it is durable."""
        self.durable, self.pending = self.content(len(self.pending)), []


def _applied(content: bytes, op: Op) -> bytes:
    if op.data is None:
        return content[: op.at].ljust(op.at, b"\0")
    return content[: op.at].ljust(op.at, b"\0") + op.data + content[op.at + len(op.data) :] if op.data else content


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

    def replay(self, trace: str) -> None:
        """Take every call of a trace that succeeded, in the order in which they ended."""
        for name, args, given in _calls(trace):
            if given >= 0 and (take := getattr(self, f"_{name}", None)) is not None:
                take(args, given)

    def _openat(self, args: str, fd: int) -> None:
        path = _text(re.findall(rf'"{HEX}"', args)[0])
        path = path if path.startswith("/") else f"{_text(re.findall(rf'<{HEX}>', args)[0])}/{path}"
        if not path.startswith(self._folder) or "O_DIRECTORY" in args:
            return
        self._at[str(fd)] = 0
        self._append.discard(str(fd))
        if "O_APPEND" in args:
            self._append.add(str(fd))
        if "O_TRUNC" in args and self._file(path).content(len(self._file(path).pending)):
            self._file(path).pending.append(Op(0, None))

    def _write(self, args: str, count: int) -> None:
        fd, path, data = self._written(args)
        if path:
            file = self._file(path)
            at = len(file.content(len(file.pending))) if fd in self._append else self._at[fd]
            file.pending.append(Op(at, data[:count]))
            self._at[fd] = at + count

    def _pwrite64(self, args: str, count: int) -> None:
        _, path, data = self._written(args)
        if path:
            self._file(path).pending.append(Op(int(args.rpartition(", ")[2]), data[:count]))

    def _lseek(self, args: str, at: int) -> None:
        fd, path = self._named(args)
        if path:
            self._at[fd] = at

    def _ftruncate(self, args: str, _: int) -> None:
        path = self._named(args)[1]
        if path:
            self._file(path).pending.append(Op(int(args.rpartition(", ")[2]), None))

    def _fsync(self, args: str, _: int) -> None:
        path = self._named(args)[1]
        if path in self.files:
            self.files[path].sync()

    _fdatasync = _fsync

    def _rename(self, args: str, _: int) -> None:
        source, target = [_text(each) for each in re.findall(rf'"{HEX}"', args)]
        if source.startswith(self._folder) and source in self.files:
            self.files[target] = self.files.pop(source)

    def _link(self, args: str, _: int) -> None:
        source, target = [_text(each) for each in re.findall(rf'"{HEX}"', args)]
        if source in self.files:
            self.files[target] = self.files[source]

    def _unlink(self, args: str, _: int) -> None:
        self.files.pop(_text(re.findall(rf'"{HEX}"', args)[-1]), None)

    def _unknown(self, args: str, _: int) -> None:
        if any(_text(each).startswith(self._folder) for each in re.findall(rf'[<"]{HEX}[>"]', args)):
            raise Untold(_text(re.findall(rf'[<"]{HEX}[>"]', args)[0]))

    _writev = _pwritev = _pwritev2 = _truncate = _fallocate = _renameat = _renameat2 = _linkat = _creat = _unknown

    def _mmap(self, args: str, _: int) -> None:
        if "MAP_SHARED" in args and "PROT_WRITE" in args:
            self.mapped |= {_text(each) for each in re.findall(rf"<{HEX}>", args)}

    def _msync(self, args: str, _: int) -> None:
        raise Untold(f"msync({args}): what it syncs is not known")

    def _unlinkat(self, args: str, _: int) -> None:
        path = "/".join(_text(each) for each in re.findall(rf'[<"]{HEX}[>"]', args))
        self.files.pop(path, None)

    def _written(self, args: str) -> tuple[str, str, bytes]:
        fd, path = self._named(args)
        found = re.findall(rf'"{HEX}"', args) if path else []
        return fd, path, _bytes(found[0]) if found else b""

    def _named(self, args: str) -> tuple[str, str]:
        """The descriptor, and its path if it is one of ours and open for writing."""
        found = re.match(FD, args)
        path = _text(found[2]) if found else ""
        return (found[1], path) if found and path.startswith(self._folder) else ("", "")

    def _file(self, path: str) -> File:
        return self.files.setdefault(path, File())


def _calls(trace: str) -> Iterator[tuple[str, str, int]]:
    """Every finished call: its name, its arguments and what it gave."""
    begun: dict[str, str] = {}
    for line in trace.splitlines():
        found = LINE.match(line)
        if found is None:
            continue
        pid, text = found[1], begun.pop(found[1], "") + found[2] if "resumed>" in line else found[2]
        if text.endswith("<unfinished ...>"):
            begun[pid] = text.removesuffix("<unfinished ...>").rstrip()
            continue
        call = re.match(r"^(\w+)\((.*)\)\s+= (-?\d+)", text)
        if call is not None:
            yield call[1], call[2], int(call[3])


def _bytes(text: str) -> bytes:
    return bytes.fromhex(text.replace("\\x", ""))


def _text(text: str) -> str:
    return _bytes(text).decode(errors="replace")


# -- the fault -------------------------------------------------------------------------------------------------------


RECORDING = ("-y", "-xx", "-s", "100000000", "-e", f"trace={','.join({*CALLS, *tracing.CALLS})}")


def _lost(story: Story, schedule: str) -> None:
    """Kill it, at a boundary or in the middle of a call, then leave of the unsynced writes what the variant says."""
    at, _, variant = schedule.rpartition("~")
    log = tracing.kill_at(story, int(at[:-1]), *RECORDING) if at.endswith("‰") else _kill_at_boundary(story, at)
    cut = _cut(story, log.read_text(), random.Random(f"{story.ground.seed}/{schedule}"), int(variant))
    story.note = "; ".join(filter(None, (story.note, cut)))


def _kill_at_boundary(story: Story, at: str) -> Path:
    log = story.top / "trace"
    for _ in range(LIVES_MAX):
        child = story.ground.lives.hold(story.order(at=at))
        with tracing.traced(child, "-o", str(log), "-A", *RECORDING):
            child.begin()
            life = story.add(child.wait())
        if life.end != "waiting":
            break
    return log


def _cut(story: Story, trace: str, rng: random.Random, variant: int) -> str:
    """Put every file into a state that a power loss may leave. Variant 0: nothing that was not synced is there."""
    files = Files(story.folder)
    files.replay(trace)
    said: list[str] = []
    for path, file in files.files.items():
        if path not in files.mapped and Path(path).read_bytes() != file.content(len(file.pending)):
            raise Untold(f"the trace does not explain {Path(path).name}")
        if file.pending:
            kept = 0 if variant == 0 else rng.randrange(len(file.pending))
            data = file.pending[kept].data or b""
            cut = rng.randrange(len(data)) if variant and data else 0
            Path(path).write_bytes(file.content(kept, cut))
            said.append(
                f"{Path(path).name}: {kept} of {len(file.pending)} unsynced operations, {cut} bytes of the next"
            )
    return "; ".join(said) or "nothing was unsynced"


def _variants(task: Task, seed: int) -> list[str]:
    """At every boundary, and at as many moments in between."""
    moments = [*points_of(task.name, seed), *tracing.shares(task, seed)]
    return [f"{moment}~{variant}" for moment in moments for variant in range(VARIANTS)]


def _unfit(subject: type[Subject], task: Task) -> str:
    return "its files are a server's: server-power" if subject.needs else tracing.unfit(subject, task)


POWER = Fault(
    "power", "power loss: what was not synced is gone, in part or torn", _variants, _lost,
    Control("control-unsynced", "support", ("acknowledged_lost",)), tracing.missing, _unfit,
)  # fmt: skip
