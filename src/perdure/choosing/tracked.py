"""Which files git has in its index: read from the file, because asking git runs what the repository configures.

Called by `inventory`. Keeps P10.
"""

from __future__ import annotations

import struct
from pathlib import Path

INDEX_MAX_BYTES = 64 * 1024 * 1024
POINTER, POINTER_MAX_BYTES = "gitdir: ", 4096
HEADER = struct.Struct(">4sII")
ENTRY_BYTES = 62  # stat data, hash (SHA-1) and flags, before the name
EXTENDED = 0x4000


def tracked(folder: Path) -> frozenset[str] | None:
    """The paths below this folder that the index of its repository has; None when that cannot be said.

    Cannot be said: no repository, an index of another version (4 shares prefixes), a damaged or a huge one.
    """
    inside = folder.absolute()
    root = next((place for place in (inside, *inside.parents) if (place / ".git").exists()), None)
    if root is None:
        return None
    try:
        names = _names(_read(_home(root / ".git") / "index", INDEX_MAX_BYTES))
    except (OSError, struct.error, ValueError):
        return None
    below = "" if inside == root else f"{inside.relative_to(root).as_posix()}/"
    return frozenset(name.removeprefix(below) for name in names if name.startswith(below))


def _home(git: Path) -> Path:
    """Where a repository keeps its index: in `.git`, or where that file says, as in a worktree."""
    if git.is_dir():
        return git
    said = _read(git, POINTER_MAX_BYTES).decode("utf-8", "surrogateescape")
    if not said.startswith(POINTER) or "\0" in said:
        raise ValueError("not a pointer to a repository")
    return git.parent / said.removeprefix(POINTER).strip()


def _read(path: Path, most_bytes: int) -> bytes:
    if not path.is_file() or path.stat().st_size > most_bytes:
        raise ValueError("not a file that we read")
    return path.read_bytes()


def _names(data: bytes) -> list[str]:
    magic, version, count = HEADER.unpack_from(data)
    if magic != b"DIRC" or version not in (2, 3) or count > len(data) // ENTRY_BYTES:
        raise ValueError("not an index that we read")
    names, at = [], HEADER.size
    for _ in range(count):
        flags = int.from_bytes(data[at + ENTRY_BYTES - 2 : at + ENTRY_BYTES], "big")
        begin = at + ENTRY_BYTES + (2 if version == 3 and flags & EXTENDED else 0)
        end = data.index(b"\0", begin)
        names.append(data[begin:end].decode("utf-8", "surrogateescape"))
        at += (end - at + 8) // 8 * 8
    return names
