"""Which files git has in its index: read from the file, because asking git runs what the repository configures.

Called by `inventory`. Keeps P10.
"""

from __future__ import annotations

import struct
from pathlib import Path

INDEX_MAX_BYTES = 64 * 1024 * 1024
HEADER = struct.Struct(">4sII")
ENTRY_BYTES = 62  # stat data, hash (SHA-1) and flags, before the name
EXTENDED = 0x4000
NAME_LENGTH = 0x0FFF


def tracked(folder: Path) -> frozenset[str] | None:
    """The paths in the index of the repository that begins in this folder; None when that cannot be said.

    Cannot be said: no repository here, an index of another version (4 shares prefixes), a damaged or a huge one.
    """
    try:
        data = _read(folder / ".git" / "index")
        return frozenset(_names(data)) if data else None
    except (OSError, struct.error, ValueError, UnicodeDecodeError):
        return None


def _read(path: Path) -> bytes:
    if not path.is_file() or path.is_symlink() or path.stat().st_size > INDEX_MAX_BYTES:
        return b""
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
