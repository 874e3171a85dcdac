"""The other side of a merge: the lines of a log that continued from a common one, wherever they lie.

A folder is another clone; a git ref is taken out of git into a folder of its own first; and in the middle of a `git merge` they
stand in our own log, between the marks of the conflict. The process that takes them out of there has kept the file before: a
crash loses nothing. Callers: `interchange/merge.py`. Changes nothing but where it says so. Keeps P10: what is no valid line is
passed over.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import msgspec

from perdure.errors import Damaged, Invalid, NotFound, Refused, TooLarge, Unavailable
from perdure.log.event import GENESIS
from perdure.log.written import WrittenEvent, WrittenStream, event_read, from_hex, split_name
from perdure.stores import git, liveness
from perdure.stores.replay import follow
from perdure.stores.store import Head
from perdure_files.store.folder_access import Within
from perdure_files.store.journal import START, LineLog
from perdure_files.store.layout import Layout
from perdure_files.store.line import FoundLine, Line, WrittenStore, lines_in
from perdure_files.store.load import EPOCH_MAX

BY_REF = "git merge --abort; perdure merge BRANCH; commit it; git merge -s ours BRANCH"
GIT_SECONDS = 120.0
TAKEN_MAX_BYTES = 16 * 1024**3
TAKEN_AT_ONCE_BYTES = 64 * 1024**2
_ENTRY = re.compile(rb"100(?:644|755) blob (?P<oid>[0-9a-f]+) +(?P<size>[0-9]+)\t(?P<path>[^\0]+)\0")
_OURS, _BASE, _BETWEEN, _THEIRS = b"<<<<<<< ", b"|||||||", b"=======", b">>>>>>> "


class OtherSideLog(msgspec.Struct, frozen=True):
    """The lines of the other side, in their order: all of its log. blobs: where its blobs lie. alive: somebody is at work
    there.
    """

    name: str
    lines: list[Line]
    blobs: Path
    alive: bool = False

    @property
    def store(self) -> WrittenStore | None:
        """The identity that it gave last. An epoch that no store has is not believed."""
        stores = (line.store for line in reversed(self.lines) if line.store)
        return next((store for store in stores if store.epoch < EPOCH_MAX), None)

    def shares_a_past_with(self, other: OtherSideLog) -> bool:
        """Whether both began as one: they have a line in common, or, where damage took those, say that they are the same."""
        return bool(self._origins() & other._origins())

    def _origins(self) -> set[str]:
        """By what a log is known: the lines that others follow, and who it says that it is."""
        return {line.prev for line in self.lines if line.prev} | {line.store.uid for line in self.lines if line.store}


class SideTells(NamedTuple):
    """A side's account of each stream: how it begins, and its events as they follow each other. loose: of streams with an event
    that follows nothing, the first such event.
    """

    streams: dict[str, WrittenStream]
    events: dict[str, list[WrittenEvent]]
    loose: dict[str, int]


def account_of(lines: Iterable[Line]) -> SideTells:
    """The account of these lines, checked against the chains. An event said twice counts once."""
    account = SideTells({}, {}, {})
    for line in lines:
        account.streams.update({stream.uid: stream for stream in line.streams if stream.uid not in account.streams})
        for event in line.events:
            events = account.events.setdefault(event.stream, [])
            if _follows(account, event):
                events.append(event)
            elif not any(other.hash == event.hash for other in _numbered(events, event.seq)):
                account.loose.setdefault(event.stream, event.seq)
    return account


def _follows(account: SideTells, event: WrittenEvent) -> bool:
    """Whether an event continues from the last one that is known of its stream."""
    head = _head(account, event.stream)
    try:
        after = head and follow(split_name(event.stream, "events.stream")[0], event_read(event, "events"), head)
    except Damaged:
        return False
    return after is not None


def _head(account: SideTells, uid: str) -> Head | None:
    """Where a stream is; before its first event at nothing, or where it left its parent."""
    stream, events = account.streams.get(uid), account.events[uid]
    if events:
        return events[-1].seq, from_hex(events[-1].hash, 32, "events.hash")
    if stream is None or not stream.parent:
        return stream and (0, GENESIS)
    origin = _numbered(account.events.get(stream.parent, []), stream.fork)
    return (stream.fork, from_hex(origin[0].hash, 32, "events.hash")) if origin else None


def _numbered(events: list[WrittenEvent], seq: int) -> list[WrittenEvent]:
    """The event of a number, if it is there."""
    at = seq - events[0].seq if events else -1
    return events[at : at + 1] if at >= 0 else []


@contextmanager
def opened(ours: Layout, where: str, name: str = "") -> Iterator[OtherSideLog]:
    """Their side, from a folder or a git ref. NotFound when it is neither."""
    if (Path(where) / "log").is_dir():
        yield in_folder(Path(where).absolute(), name or Path(where).absolute().name)
        return
    with TemporaryDirectory(prefix="perdure-merge-") as folder:
        _take_out(ours.folder, where, Path(folder))
        yield in_folder(Path(folder), name or where)


def in_folder(folder: Path, name: str) -> OtherSideLog:
    """The log of a files store."""
    layout = Layout(folder)
    entries = [part for _, chunk in LineLog(layout).read_on(START) for _, part in chunk]
    lines = [part.line for part in entries if isinstance(part, FoundLine)]
    return OtherSideLog(name, lines, layout.blobs, liveness.is_anyone_alive(liveness.beside(layout.cache)))


def _take_out(folder: Path, ref: str, target: Path) -> None:
    """The log and the blobs of a tree, out of git, below the folder of the store. As objects: `git archive` would run the
    filters that the repository names.
    """
    if ref.startswith("-"):
        raise NotFound(f"there is no folder with a log at {ref}", path="theirs")
    listed = _ENTRY.finditer(_ask_git(folder, ref, "ls-tree", "-r", "-z", "-l", ref))
    files = [entry for entry in listed if _is_ours(entry["path"])]
    if sum(int(entry["size"]) for entry in files) > TAKEN_MAX_BYTES:
        raise TooLarge(f"{ref} has more than {TAKEN_MAX_BYTES} bytes", path="theirs", hint="name a clone of it instead")
    within = Within(target)
    for path, content in _contents(folder, ref, files):
        place = target / os.fsdecode(path)
        within.make(place.parent)
        within.fill(place, content, durable=False)
    if not (target / "log").is_dir():
        raise NotFound(f"{ref} has no log of a files store", path="theirs", hint="name a ref in which the store lies")


def _contents(folder: Path, ref: str, files: list[re.Match[bytes]]) -> Iterator[tuple[bytes, bytes]]:
    """Paths and what they hold; git is asked for some megabytes at a time."""
    while files:
        sizes = itertools.accumulate(int(file["size"]) for file in files)
        some = files[: max(1, sum(size <= TAKEN_AT_ONCE_BYTES for size in sizes))]
        output = _ask_git(folder, ref, "cat-file", "--batch", stdin=b"".join(file["oid"] + b"\n" for file in some))
        at = 0
        for file in some:
            at = output.index(b"\n", at) + 1
            yield file["path"], output[at : at + int(file["size"])]
            at += int(file["size"]) + 1
        files = files[len(some) :]


def _is_ours(path: bytes) -> bool:
    """Whether a path of a tree is one of a log or of blobs. A tree can say anything, also what leads elsewhere."""
    folder, *rest = path.split(b"/")
    return folder in (b"log", b"blobs") and bool(rest) and not {b"", b".", b".."} & set(rest)


def _ask_git(folder: Path, ref: str, *command: str, stdin: bytes = b"") -> bytes:
    try:
        answer = git.ask(folder, GIT_SECONDS, *command, stdin=stdin)
    except FileNotFoundError:
        raise NotFound(f"there is no folder with a log at {ref}, and no git to ask for a ref", path="theirs") from None
    except TimeoutError:
        raise Unavailable(f"git did not answer in {GIT_SECONDS:.0f} s", path="theirs") from None
    if answer.status:
        raise NotFound(f"neither a folder with a log nor a git ref: {ref}: {answer.complaint[:200]}", path="theirs")
    return answer.out


# -- in the middle of a `git merge` --------------------------------------------------------------------------------------


def from_conflict(
    layout: Layout, name: str, accept: Callable[[OtherSideLog, OtherSideLog], None]
) -> tuple[OtherSideLog, OtherSideLog]:
    """Their side of a log with conflict marks, and what was written since on top of both. Ours alone stays in the log. Under
    the lock of the store. accept: raises when theirs cannot be merged into ours; the log is as it was then.

    The files as they were are kept in `.perdure/merge/` until `conflict_is_over`: after a crash it begins again from them.
    Invalid when there is no conflict.
    """
    originals = layout.own / "merge"
    marked = [number for number in layout.numbers() if _has_marks(layout, number)]
    if not marked and not layout.exists(originals):
        raise Invalid("the log has no conflict marks", path="theirs", hint="name the other side: perdure merge REF")
    sides, ours = Sides(), dict[int, bytes]()
    for number in layout.numbers():
        file = originals / layout.segment(number).name
        before = len(sides.ours)
        data = layout.read(file) if number not in marked and layout.exists(file) else layout.content(number)
        if sides.go_on_in(data):
            raise Refused(f"{layout.segment(number).name} is of their side alone", path="log", hint=BY_REF)
        sides.read(data)
        ours[number] = b"".join(sides.ours[before:])
    name = name or sides.name or "theirs"
    _check_whole(sides.theirs)
    theirs = OtherSideLog(name, _lines(sides.theirs), layout.blobs)
    accept(OtherSideLog("ours", _lines(sides.ours), layout.blobs), theirs)
    if marked:
        _keep(layout, originals, marked)
    for number in marked:
        layout.place(layout.segment(number), ours[number])
    return theirs, OtherSideLog(name, _lines(sides.since), layout.blobs)


def _lines_with_checks(texts: list[bytes]) -> list[FoundLine]:
    return [part for part in lines_in(b"".join(texts), 0) if isinstance(part, FoundLine)]


def _lines(texts: list[bytes]) -> list[Line]:
    return [part.line for part in _lines_with_checks(texts)]


def _check_whole(theirs: list[bytes]) -> None:
    """Refuse a conflict of which git kept only ours in some file: a packed segment has no marks."""
    checks = {""}
    for part in _lines_with_checks(theirs):
        if part.line.prev not in checks:
            message = "their side is not all in the log: a line of theirs follows one that is not there"
            raise Refused(message, path="log", hint=BY_REF)
        checks.update((part.check, *part.line.was))


def in_conflict(layout: Layout) -> bool:
    """Whether git left a conflict in the log, or a merge of one was cut off."""
    marked = any(_has_marks(layout, number) for number in layout.numbers())
    return marked or layout.exists(layout.own / "merge") or bool(layout.contradicted())


def keep_conflict(layout: Layout) -> Path:
    """Put what git left where nothing takes it away: something in it was acknowledged, and could not be brought over."""
    numbers = itertools.count(1)
    place = next(path for number in numbers if not layout.exists(path := layout.own / f"unmerged-{number}"))
    layout.within.rename(layout.own / "merge", place)
    return place


def conflict_is_over(layout: Layout) -> None:
    """Everything is merged and durable: what git left is not needed any more. All at once: a part of it would be taken for
    a conflict that cannot be merged.
    """
    with suppress(FileNotFoundError):  # it was kept elsewhere (`keep_conflict`)
        layout.clear_up(layout.own / "merge")


def _has_marks(layout: Layout, number: int) -> bool:
    return layout.exists(layout.segment(number)) and b"\n" + _OURS in b"\n" + layout.content(number)


def _keep(layout: Layout, folder: Path, numbers: list[int]) -> None:
    layout.within.make(folder)
    for number in numbers:
        layout.place(folder / layout.segment(number).name, layout.content(number))


class Sides:
    """A log with conflict marks, taken apart: what we had and what they had, each in the order of the log, and what was written
    since, which follows the last mark and continues from both.
    """

    def __init__(self) -> None:
        self.ours: list[bytes] = []
        self.theirs: list[bytes] = []
        self.since: list[bytes] = []
        self.name = ""
        self._side = "shared"

    def read(self, data: bytes) -> None:
        """One segment more."""
        sides = {"ours": [self.ours], "theirs": [self.theirs], "base": [], "since": [self.since]}
        for line in data.splitlines(keepends=True):
            if not self._passes(line):
                for side in sides.get(self._side, [self.ours, self.theirs]):
                    side.append(line)

    def go_on_in(self, data: bytes) -> bool:
        """Whether a segment, which has no marks, continues with theirs alone. Lines written since raised the epoch first."""
        if self._side != "since" or self.since or b"\n" + _OURS in b"\n" + data:
            return False
        first = next((part.line for part in lines_in(data, 0) if isinstance(part, FoundLine)), None)
        theirs = _lines_with_checks(self.theirs)
        if first is None or not theirs or first.prev != theirs[-1].check:
            return False
        stores = [part.line.store for part in theirs if part.line.store]
        return not (first.store and stores and first.store.epoch > stores[-1].epoch)

    def _passes(self, line: bytes) -> bool:
        """Whether this is a mark; what follows it is on another side then."""
        if line.startswith(_OURS):
            self._side = "ours"
            self.ours += self.since  # it stands between two conflicts: both sides have it
            self.theirs += self.since
            self.since.clear()
        elif line.startswith(_BASE) and self._side == "ours":
            self._side = "base"
        elif line.startswith(_BETWEEN) and self._side in ("ours", "base"):
            self._side = "theirs"
        elif line.startswith(_THEIRS) and self._side == "theirs":
            self._side, self.name = "since", line[len(_THEIRS) :].decode(errors="replace").strip()
        else:
            return False
        return True
