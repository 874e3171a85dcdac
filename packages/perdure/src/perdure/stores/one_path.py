"""A file that is written to in place has one path. Under a second one it has a second WAL, or a second lock, and each side
writes over what the other acknowledged.

    mounted alone    into a container, say: the folder around it is another one there. Refused, whatever the URL says.
    hard links       each is a path. Refused too, unless `?links=ignore` says that nobody opens the others (`cp -al`).

A new store has two names for a moment; if a crash leaves them, that is no second path. Callers: `sqlite`, `schema_upgrade`
and `files`, when they open a file; with every commit a `held_files.FileLook` is asked, which costs no call. Keeps P1.
"""

from __future__ import annotations

import logging
import os
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

from perdure.model.instants import system_clock, to_datetime
from perdure.stores.held_files import FileLook
from perdure.stores.mounts import is_mount_point
from perdure.stores.store import Fault, FaultKind

log = logging.getLogger("perdure.store")

FACT = "links_ignored_since"
_LOOKED_AT_MAX = 20_000  # entries of folders that are searched for the other links
_MOUNTED = "is mounted alone: programs that have it by its other path would have a WAL and locks of their own"
_LINKED = "a program that opens it by another has a WAL and locks of its own, and each loses the other's writes"


def check(path: Path, *, links_ignored: bool) -> None:
    """Refuse a file or folder that has another path; nothing is opened. A file that is not there has none. Raises Fault."""
    look = FileLook(str(path))
    if look() is None:
        return
    if is_mount_point(path) if look.is_mount_point is None else look.is_mount_point:
        raise mounted_alone(path)
    if not links_ignored and has_links(path):
        raise linked(path)


def unfinished_copy(target: Path) -> Path:
    """Where a new file lies before it gets its name; while it gets it, and after a crash right then, it has both."""
    return target.with_name(f".{target.name}.unfinished") / target.name


def has_links(path: Path) -> bool:
    """Whether a file has another name than this one. The name that a new store is made under is taken away, if it is still there:
    its maker may have been killed.
    """
    if path.is_dir() or path.stat().st_nlink == 1:
        return False
    making = unfinished_copy(path.resolve())
    own = 1
    try:
        if making.samefile(path):
            own = 2
            making.unlink()
            own = 1
    except OSError:  # it is gone; or this process may only read, and lets it be
        pass
    return path.stat().st_nlink > own


def mounted_alone(path: Path) -> Fault:
    """The fault of a mount point."""
    hint = f"stop every program that writes to it (closing writes the WAL back), then mount the folder, {path.parent}"
    return Fault(FaultKind.REFUSED, f"{path} {_MOUNTED}", hint)


def linked(path: Path) -> Fault:
    """The fault of a file with several links. It names the others, as far as a short search finds them."""
    links = path.stat()
    others = [str(other) for other in islice(_others(path.resolve(), links), links.st_nlink - 1)]
    named = ", ".join(others) or "the others are not near it"
    hint = f"stop every writer and remove the others (find / -xdev -inum {links.st_ino}); copies are made by `perdure backup`"
    hint += "; if no program opens them, add ?links=ignore to the URL"
    return Fault(FaultKind.REFUSED, f"{path} has {links.st_nlink} links ({named}): {_LINKED}", hint)


def _others(path: Path, links: os.stat_result) -> Iterator[Path]:
    """The other names of a file in its folder, then around that."""
    above, looked_at = deque([path.parent, path.parent.parent]), 0
    seen: set[Path] = set()
    while above and looked_at < _LOOKED_AT_MAX:
        folder = above.popleft()
        if folder in seen:
            continue
        seen.add(folder)
        with suppress(OSError), os.scandir(folder) as entries:
            for entry in entries:
                looked_at += 1
                if entry.inode() == links.st_ino and Path(entry.path) != path and _is(entry, links):
                    yield Path(entry.path)
                elif entry.is_dir(follow_symlinks=False):
                    above.append(Path(entry.path))


def _is(entry: os.DirEntry[str], links: os.stat_result) -> bool:
    return os.path.samestat(entry.stat(follow_symlinks=False), links)


def ignored_since() -> str:
    """The fact that the store remembers when links are ignored from now on."""
    return to_datetime(system_clock()).isoformat(timespec="seconds")
