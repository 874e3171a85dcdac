"""The mounts that this process sees: which file system a path lies on, and whether a path is a mount point.

Only reads the system's own list; where there is none, nothing is known. Callers: `one_path`, `liveness`, doctor.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

NETWORK_KINDS = (
    "nfs",
    "cifs",
    "smb",
    "fuse.sshfs",
    "9p",
    "afs",
    "ceph",
    "glusterfs",
    "lustre",
    "fuse.s3fs",
    "fuse.rclone",
)
_ESCAPED = re.compile(r"\\([0-7]{3})")


def table() -> str:
    """The list of mounts; "" where there is none."""
    try:
        return Path("/proc/self/mounts").read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return ""


def _points(mounts: str) -> Iterator[tuple[str, str]]:
    """The place and the kind of each mount."""
    for line in mounts.splitlines():
        parts = line.split(" ")
        if len(parts) > 2:
            yield _ESCAPED.sub(lambda found: chr(int(found[1], 8)), parts[1]), parts[2]


def is_mount_point(path: Path) -> bool:
    """Whether a file or folder is one by the list."""
    real = str(path.resolve())
    return any(point == real for point, _ in _points(table()))


def filesystem_of(path: Path, mounts: str) -> str:
    """The kind of the file system that a path lies on; "" if that is not known."""
    best, kind = "", ""
    for point, its_kind in _points(mounts):
        if len(point) >= len(best) and path.is_relative_to(point):
            best, kind = point, its_kind
    return kind


def network_kind(path: Path) -> str:
    """The kind of the network file system that a path lies on; "" for a disk of this machine."""
    kind = filesystem_of(path.resolve(), table())
    return kind if kind.startswith(NETWORK_KINDS) else ""
