"""A log that is shorter than this machine has seen it: put back by git, which is another world, or damage, which is refused.

The cache and the head say how far the log went (a `Mark`). A log that ends before a mark lost what was acknowledged, unless
somebody took it back on purpose. Git does that, and whole: what it leaves has lines, ends with a whole one and misses no segment
between others. Anything else (no line at all, half a line at the end, a hole, or no git in sight) is damage: an empty or shorter
store would do again what it has forgotten (P3). Nothing is changed then, and the cache, which may be all that is left, stays.
Callers: `engine`, when a store is opened. Keeps P1, P13.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from pathlib import Path

from perdure.errors import Damaged, NotFound
from perdure_files.store.journal import START, LineLog, LogMark
from perdure_files.store.layout import Layout
from perdure_files.store.line import FoundLine, lines_in


def check(journal: LineLog, all_marks: Iterable[LogMark | None]) -> None:
    """Refuse a log that lost what these marks say of it. NotFound when there is none at all, Damaged when a part is gone."""
    layout = journal.layout
    marks = [mark for mark in all_marks if mark is not None and mark != START]
    if not marks:
        return
    if not layout.numbers():
        raise NotFound(f"the log is gone: there is none in {layout.log}", path="store", hint=_way_out(layout))
    lost = [mark for mark in marks if _is_shorter(layout, mark)]
    if lost:
        what = _what_git_does_not_do(layout)
        if what:
            last = max(lost, key=lambda mark: (mark.segment, mark.end))
            where = f"{layout.segment(last.segment).name} went up to byte {last.end} when it was seen here last"
            raise Damaged(f"the log lost lines: {where}, and {what}", path="store", hint=_way_out(layout))


def _is_shorter(layout: Layout, mark: LogMark) -> bool:
    """Whether the log ends before a mark, or has no line. One that says something else there is another, as of another branch;
    one that holds the marked line, under the checksum that it has or had, was made shorter by retention.
    """
    if mark.segment not in layout.numbers():
        return True
    data = layout.content(mark.segment)
    parts = [part for part in lines_in(data, 0) if isinstance(part, FoundLine)]
    return not parts or (len(data) < mark.end and not any(mark.check in (part.check, *part.line.was) for part in parts))


def _what_git_does_not_do(layout: Layout) -> str:
    """Proof that a log was not put back by git; empty when it may have been."""
    numbers = layout.numbers()
    missing = sorted({*range(1, numbers[-1] + 1)} - {*numbers}) if numbers[-1] < _FAR_AWAY else [1]
    if missing:
        return f"now {layout.segment(missing[0]).name} is missing"
    parts = (part for number in numbers for part in lines_in(layout.content(number), 0))
    if not any(isinstance(part, FoundLine) for part in parts):
        return "now it has no line"
    if not layout.content(numbers[-1]).endswith(b"\n"):
        return "now it ends within a line"
    if not _in_git(layout.folder):
        return "there is no git around it that could have put it back"
    return ""


_FAR_AWAY = 1_000_000


def _in_git(folder: Path) -> bool:
    """Whether this is a folder of a working tree."""
    place = folder.absolute()
    return any((above / ".git").exists() for above in (place, *place.parents))


def _way_out(layout: Layout) -> str:
    ways = [
        "bring it back from git, another clone or a backup",
        f"remove {layout.own}, and the store continues from what is there, as after a restore",
    ]
    if layout.cache.exists():
        store = shlex.quote(f"files:///{layout.folder.absolute()}")
        ways.insert(
            0, f"the lines in the cache can be written back: perdure restore --from-cache --dry-run --store {store}"
        )
    return "; or ".join(ways)
