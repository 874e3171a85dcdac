"""What could not be loaded: kept beside the store with its place and the reason, and listed by `verify` and `doctor`.

    .perdure/set-aside/000001-000000001234-ab12cd34.json    segment 1, from byte 1234 on; and which reason

Written when a log is read, before the cache that goes without it is committed; reading it again writes the same again. Pieces
that lie together and have one reason are one file, and so are neighbours that say nothing. Never in git: the bytes themselves
stay in the log, but for a torn end.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import msgspec

from perdure.errors import Damaged
from perdure.log.written import decode, encode
from perdure.model.records.integrity import Aside
from perdure.stores.files.line import Piece, check_of


class _Stretch(NamedTuple):
    segment: int
    pieces: list[Piece]

    def takes(self, segment: int, piece: Piece) -> bool:
        """Whether this piece goes on where the stretch ends (one end of a line may lie between), or says as little as it."""
        last = self.pieces[-1]
        same = (segment, piece.reason, piece.lost) == (self.segment, last.reason, last.lost)
        return same and (not piece.lost or piece.start - (last.start + len(last.data)) <= 1)

    def kept(self) -> Aside:
        first = self.pieces[0]
        data = b"\n".join(piece.data for piece in self.pieces)
        text = data.decode("utf-8", errors="backslashreplace")
        return Aside(self.segment, first.start, len(data), first.reason, first.lost, text)


def gathered(pieces: Iterable[tuple[int, Piece]]) -> list[Aside]:
    """Pieces of segments, in order, as stretches."""
    stretches: list[_Stretch] = []
    for segment, piece in pieces:
        if stretches and stretches[-1].takes(segment, piece):
            stretches[-1].pieces.append(piece)
        else:
            stretches.append(_Stretch(segment, [piece]))
    return [stretch.kept() for stretch in stretches]


def keep(folder: Path, found: Iterable[Aside]) -> None:
    """Write down what was set aside. OSError from the disk."""
    for each in found:
        folder.mkdir(mode=0o700, exist_ok=True)
        name = f"{each.segment:06}-{each.offset:012}-{check_of(each.reason.encode())[:8]}.json"
        (folder / name).write_bytes(msgspec.json.format(encode(each)))


def listed(folder: Path) -> list[Aside]:
    """Everything that was set aside, by place."""
    if not folder.is_dir():
        return []
    return [_read(path) for path in sorted(folder.glob("*.json"))]


def _read(path: Path) -> Aside:
    try:
        return decode(path.read_bytes(), Aside, path.name)
    except Damaged as error:
        return Aside(0, 0, 0, error.message, lost=True, content=path.name)


def forget(folder: Path) -> None:
    """Begin anew: the whole log is about to be read again."""
    for path in folder.glob("*.json"):
        path.unlink(missing_ok=True)
