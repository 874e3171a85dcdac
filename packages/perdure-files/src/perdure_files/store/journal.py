"""The segments as one log: reading on from a mark, and appending, under one lock. The append is the commit point (P1).

A `Mark` says how far somebody has read: the last line and where it ends. A log that does not hold a mark was put back, or
replaced. Nobody appends without the lock, and nobody builds on a line that was not synced. A `Journal` belongs to one connection.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import itertools
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from perdure.artifacts.descriptors import flush
from perdure.errors import Damaged
from perdure.log.written import decode
from perdure.model.crash_points import reach
from perdure.stores.lane import CommitUnknown
from perdure.stores.one_path import linked
from perdure.stores.store import Fault, FaultKind
from perdure_files.store.folder_access import BYTES_MAX
from perdure_files.store.layout import SEGMENT_MAX_BYTES, Layout
from perdure_files.store.line import (
    END_BYTES,
    FORMAT,
    FoundLine,
    Line,
    Piece,
    WrittenStore,
    ends_with,
    lines_in,
    names_of,
    written,
)

_PAUSES = (0.0, 0.0002, 0.0005, 0.001, 0.002, 0.005)
_HEAD_BYTES = 160
_MISSING = "the segment is missing"
_LOOKED_AT = 4  # parts of a `look`: the folder's time and number, the file's number and size
_KINDS = {
    errno.ENOSPC: FaultKind.FULL, errno.EDQUOT: FaultKind.FULL, errno.EROFS: FaultKind.READ_ONLY,
    errno.EACCES: FaultKind.REFUSED, errno.EPERM: FaultKind.REFUSED, errno.ELOOP: FaultKind.REFUSED,
}  # fmt: skip
_TOO_MUCH = "do it in smaller ones, or move the store: perdure move files:///FOLDER sqlite:///FILE"
_REPLACED = "somebody else put other files there: open the store again"


class LogMark(msgspec.Struct, frozen=True):
    """How far a log was read. end: where its last line ends in that segment; scanned: how far there was nothing more."""

    segment: int = 1
    end: int = 0
    check: str = ""
    scanned: int = 0


START = LogMark()
Entry = tuple[int, FoundLine | Piece]  # with the number of its segment


def fault_of(error: OSError, path: Path) -> Fault:
    """The kind of a failure."""
    return Fault(_KINDS.get(error.errno or 0, FaultKind.IO), f"{path}: {error.strerror or error}")


def replaced(path: Path) -> Fault:
    """The log is not the one that was opened."""
    return Fault(FaultKind.DAMAGED, f"{path} was put back, moved or replaced while it was open", _REPLACED)


class _Opened(NamedTuple):
    """A segment that is written to. Which file it is cannot change while it is open."""

    number: int
    fd: int
    place: tuple[int, int]


class LineLog:
    """The log of one store, for one connection."""

    def __init__(
        self, layout: Layout, segment_max_bytes: int = SEGMENT_MAX_BYTES, *, links_ignored: bool = False
    ) -> None:
        self.layout = layout
        self._links_ignored = links_ignored
        self._segment_max_bytes = segment_max_bytes
        self._lock: int | None = None
        self._locked = False
        self._file: _Opened | None = None  # the segment that is written to
        self._head: int | None = None

    # -- the lock ------------------------------------------------------------------------------------------------------

    @property
    def locked(self) -> bool:
        """Whether this connection writes."""
        return self._locked

    def lock(self, seconds: float) -> None:
        """Wait for the lock; BUSY when somebody else holds it all the time."""
        deadline = time.monotonic() + seconds
        for attempt in itertools.count():
            if self.try_lock():
                return
            if time.monotonic() > deadline:
                raise Fault(FaultKind.BUSY, f"{self.layout.lock} is held by another process")
            time.sleep(_PAUSES[min(attempt, len(_PAUSES) - 1)])

    def try_lock(self) -> bool:
        """Take the lock if it is free."""
        try:
            if self._lock is None:
                self._lock = self.layout.within.open_file(self.layout.lock, os.O_RDWR | os.O_CREAT)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError as error:
            raise fault_of(error, self.layout.lock) from error
        self._locked = True
        return True

    def unlock(self) -> None:
        """Let others write. Calling it again does nothing."""
        if self._locked and self._lock is not None:
            self._locked = False
            fcntl.flock(self._lock, fcntl.LOCK_UN)

    def close(self) -> None:
        """Let everything go. The lock first: with its descriptor it would stay as long as a forked child has that too."""
        self.unlock()
        self.let_go()
        for fd in (self._lock, self._head):
            if fd is not None:
                os.close(fd)
        self._lock = self._head = None

    # -- looking -------------------------------------------------------------------------------------------------------

    def look(self, number: int) -> tuple[int, ...]:
        """Something that changes whenever the log may have: two stats. Empty when there is no such segment."""
        try:
            folder = os.stat(self.layout.log, follow_symlinks=False)  # noqa: PTH116 - in every commit
            file = os.stat(self.layout.segment(number), follow_symlinks=False)  # noqa: PTH116 - as above
        except OSError:
            return ()
        return folder.st_mtime_ns, folder.st_ino, file.st_ino, file.st_size

    def look_after(self, before: tuple[int, ...], was: LogMark, mark: LogMark) -> tuple[int, ...]:
        """The result of `look` after an append of our own, under the lock; `before` is the result before it."""
        if was.segment != mark.segment or len(before) != _LOOKED_AT:
            return self.look(mark.segment)
        return *before[:-1], mark.scanned

    def is_at(self, mark: LogMark) -> bool:
        """Whether there is nothing after a mark. That the log holds the mark is another question."""
        if max(self.layout.numbers(), default=1) != mark.segment:
            return False
        status = self.layout.within.status(self.layout.segment(mark.segment))
        size = len(self.layout.content(mark.segment)) if status is None else status.st_size
        return size == mark.scanned

    def holds(self, mark: LogMark) -> bool:
        """Whether the log continued from this mark: its last line stands where it stood, and speaks for all before it."""
        begin = max(mark.end - END_BYTES, 0)
        try:
            with self.layout.within.opened(self.layout.segment(mark.segment), os.O_RDONLY) as fd:
                tail, size = os.pread(fd, mark.end - begin, begin), os.fstat(fd).st_size
        except FileNotFoundError:
            data = self.layout.content(mark.segment)
            tail, size = data[begin : mark.end], len(data)
        return size >= mark.scanned and (mark.end == 0 or ends_with(tail, mark.check))

    # -- reading -------------------------------------------------------------------------------------------------------

    def read_on(self, mark: LogMark) -> Iterator[tuple[LogMark, list[Entry]]]:
        """Everything after a mark, a segment at a time, each with the mark after it. A torn end is left to `mend`."""
        checks, due = _Checks(self.layout, mark.check), mark.segment
        for number in [number for number in self.layout.numbers() if number >= mark.segment]:
            if number > due:
                mark = LogMark(number - 1, 0, mark.check, 0)
                yield mark, [(due, Piece(0, b"", _MISSING if number == due + 1 else f"{_MISSING}, up to {number - 1}"))]
            offset, due = mark.scanned if number == mark.segment else 0, number + 1
            data = self.layout.content(number, offset)
            entries = [(number, part) for part in lines_in(data, offset)]
            mark = _after(mark, number, offset + len(data), entries)
            yield mark, [*_with_gaps(entries, checks)]

    def mend(self, mark: LogMark) -> Piece | None:
        """Under the lock: make the log end with a whole line, so that it can be appended to. Returns the bytes that were torn
        off.

        A last line without its end gets it; what is no line goes. A packed segment is not appended to, and stays as it is.
        """
        path = self.layout.segment(mark.segment)
        data = self.layout.content(mark.segment, mark.scanned)
        if not data or data.endswith(b"\n") or not self.layout.exists(path):
            return None
        start = data.rfind(b"\n") + 1
        parts = [*lines_in(data[start:], mark.scanned + start)]
        with _faults(path), self.layout.within.opened(path, os.O_RDWR) as fd:
            if any(isinstance(part, FoundLine) for part in parts):
                os.pwrite(fd, b"\n", mark.scanned + len(data))
                flush(fd)
                return None
        return Piece(mark.scanned + start, data[start:], "torn: it was being written, and was never acknowledged")

    def cut(self, mark: LogMark, torn: Piece) -> None:
        """Take a torn end off, once it was set aside."""
        path = self.layout.segment(mark.segment)
        with _faults(path), self.layout.within.opened(path, os.O_RDWR) as fd:
            os.ftruncate(fd, torn.start)
            flush(fd)

    def sync(self, number: int) -> None:
        """Make what was read durable before anybody builds on it: whoever wrote it may have died before that."""
        path = self.layout.segment(number)
        if self.layout.exists(path):
            with _faults(path), self.layout.within.opened(path, os.O_RDWR) as fd:
                flush(fd, data_only=True)

    # -- appending -----------------------------------------------------------------------------------------------------

    def begin(self, store: WrittenStore, at: int) -> LogMark:
        """Begin a log that has no segment yet. Durable."""
        return self._new_segment(1, "", store, at)

    def append(self, mark: LogMark, lines: Sequence[Line], store: WrittenStore) -> LogMark:
        """Append these lines after a mark that nothing follows, in one write, and sync. Returns the mark after them.

        When it raises a Fault nothing was appended. Unknown: it could not be taken back, and may have been.
        """
        file = self._opened_segment(mark.segment) if mark.scanned < self._segment_max_bytes else None
        if file is None:
            mark = self.rotate(mark, store, lines[0].at)
            file = self._opened_segment(mark.segment)
            assert file is not None
        data, after = _joined(mark, lines)
        if after.scanned > BYTES_MAX:
            raise Fault(
                FaultKind.REFUSED, f"one transaction of {len(data)} bytes is more than a segment holds", _TOO_MUCH
            )
        path = self.layout.segment(mark.segment)
        reach("files.before_append")
        self._append(file.fd, path, data, mark.scanned)
        reach("files.synced")
        self._check_kept(file.place, path, after.scanned)
        return after

    def _append(self, fd: int, path: Path, data: bytes, size: int) -> None:
        try:
            _write_whole(fd, data)
            reach("files.appended")
            flush(fd, data_only=True)
        except OSError as error:
            fault = fault_of(error, path)
            try:
                os.ftruncate(fd, size)
                flush(fd, data_only=True)
            except OSError:
                raise CommitUnknown(fault) from error
            raise fault from error

    def _check_kept(self, place: tuple[int, int], path: Path, size: int) -> None:
        """Check that the appended lines stand in the file that has this name now, where they should. Unknown when somebody else
        changed the file, or can by another link.
        """
        try:
            status = os.stat(path, follow_symlinks=False)  # noqa: PTH116 - in every commit: a Path costs more than the call
        except OSError as error:
            raise replaced(path) from error
        if (status.st_dev, status.st_ino) != place:
            raise replaced(path)
        if status.st_size != size:
            raise CommitUnknown(replaced(path))
        if status.st_nlink > 1 and not self._links_ignored:
            raise CommitUnknown(linked(path))

    def _opened_segment(self, number: int) -> _Opened | None:
        """The segment that is written to; None when there is no such file."""
        if self._file is None or self._file.number != number:
            self._file = self._reopened(number)
        if self._file is not None and os.fstat(self._file.fd).st_nlink > 1 and not self._links_ignored:
            raise linked(self.layout.segment(number))
        return self._file

    def _reopened(self, number: int) -> _Opened | None:
        self.let_go()
        path = self.layout.segment(number)
        try:
            fd = self.layout.within.open_file(path, os.O_WRONLY | os.O_APPEND)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise fault_of(error, path) from error
        status = os.fstat(fd)
        return _Opened(number, fd, (status.st_dev, status.st_ino))

    def let_go(self) -> None:
        """Open the segment anew when it is written to next: it may be another file by now."""
        if self._file is not None:
            os.close(self._file.fd)
            self._file = None

    def rotate(self, mark: LogMark, store: WrittenStore, at: int) -> LogMark:
        """Begin the next segment, and pack the one before the last: what is looked at most stays plain."""
        new = self._new_segment(mark.segment + 1, mark.check, store, at)
        for number in self.layout.numbers():
            if number < mark.segment:
                with _faults(self.layout.segment(number)):
                    self.layout.pack(number)
        return new

    def _new_segment(self, number: int, prev: str, store: WrittenStore, at: int) -> LogMark:
        """A segment with its first line. A crash leaves it whole or not there."""
        data, check = written(Line(FORMAT, prev, at, store=store))
        path = self.layout.segment(number)
        with _faults(path):
            self.layout.place(path, data)
            self.layout.within.sync(self.layout.folder)
        reach("files.rotated")
        return LogMark(number, len(data) - 1, check, len(data))

    # -- the head ------------------------------------------------------------------------------------------------------

    def note(self, mark: bytes) -> None:
        """Say how far the log went, outside git. Not synced: it may say less than it could, never more."""
        try:
            if self._head is None:
                self._head = self.layout.within.open_file(self.layout.head, os.O_RDWR | os.O_CREAT)
            os.pwrite(self._head, mark.ljust(_HEAD_BYTES), 0)
        except OSError:
            return

    def noted(self) -> LogMark | None:
        """The last note; None when that cannot be told."""
        try:
            return decode(self.layout.within.beginning(self.layout.head, _HEAD_BYTES), LogMark, "head")
        except (OSError, Damaged):
            return None


def _joined(mark: LogMark, lines: Sequence[Line]) -> tuple[bytes, LogMark]:
    """The lines, each after the one before it, and the mark after them."""
    parts, check = [], mark.check
    for line in lines:
        data, check = written(msgspec.structs.replace(line, prev=check))
        parts.append(data)
    joined = b"".join(parts)
    size = mark.scanned + len(joined)
    return joined, LogMark(mark.segment, size - 1, check, size)


def _write_whole(fd: int, data: bytes) -> None:
    """In one write: what is cut short has met the end of the disk."""
    if os.write(fd, data) != len(data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class _Checks:
    """The checksums of the lines that were read; and, once a line follows none of them, of all that stand before it."""

    def __init__(self, layout: Layout, last: str) -> None:
        self._layout = layout
        self._seen = {last}
        self._searched = 0

    def follows(self, part: FoundLine, number: int) -> bool:
        """A line was read; whether the one that it names stands before it, in this segment or an earlier one."""
        is_known = part.line.prev in self._seen or self._stands(part.line.prev, number)
        self._seen.add(part.check)
        self._seen.update(part.line.was)  # one that was rewritten is known by what it was, too
        return is_known

    def _stands(self, check: str, number: int) -> bool:
        if self._searched < number:
            for segment in self._layout.numbers():
                if self._searched < segment <= number:
                    for raw in self._layout.content(segment).split(b"\n"):
                        self._seen.update(names_of(raw))
            self._searched = number
        return check in self._seen


def _with_gaps(entries: list[Entry], checks: _Checks) -> Iterator[Entry]:
    """The entries, and a piece wherever a line follows one that is not there."""
    for number, part in entries:
        if isinstance(part, FoundLine) and not checks.follows(part, number):
            yield number, Piece(part.start, b"", "lines are missing before this one")
        yield number, part


def _after(mark: LogMark, number: int, scanned: int, entries: list[Entry]) -> LogMark:
    """The mark after what was read. Bytes after the last line of a segment are passed over, once they were set aside."""
    lines = [part for _, part in entries if isinstance(part, FoundLine)]
    if lines:
        return LogMark(number, lines[-1].end, lines[-1].check, scanned)
    return LogMark(number, mark.end if number == mark.segment else 0, mark.check, scanned)


@contextlib.contextmanager
def _faults(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise fault_of(error, path) from error
