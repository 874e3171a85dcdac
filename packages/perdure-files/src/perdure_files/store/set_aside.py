"""Lines that could not be loaded: kept beside the store with their place and the reason, and listed by `verify` and `doctor`.

    .perdure/set-aside/000001-000000001234-ab12cd34.json    segment 1, from byte 1234 on; and which reason

Written when a log is read, before the cache that goes without it is committed; reading it again writes the same again. Pieces
that lie together and have one reason are one file, and so are neighbours that say nothing. Never in git: the bytes themselves
stay in the log, but for a torn end, and of more than a MiB of them only the first is kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

from perdure.errors import Damaged
from perdure.log.written import decode, encode
from perdure.model.records.integrity import Aside
from perdure_files.store.layout import Layout
from perdure_files.store.line import Piece, check_of

CONTENT_MAX_BYTES = 1024 * 1024  # of one stretch: the bytes themselves stay in the log
_FILE_MAX_BYTES = 16 * CONTENT_MAX_BYTES  # written as JSON a byte takes six at most
_ENDING = ".json"


class _Stretch(NamedTuple):
    segment: int
    pieces: list[Piece]

    def takes(self, segment: int, piece: Piece) -> bool:
        """Whether this piece continues where the stretch ends (one end of a line may lie between), or says as little as it."""
        last = self.pieces[-1]
        same = (segment, piece.reason, piece.lost) == (self.segment, last.reason, last.lost)
        return same and (not piece.lost or piece.start - (last.start + len(last.data)) <= 1)

    def as_aside(self) -> Aside:
        first = self.pieces[0]
        size = sum(len(piece.data) + 1 for piece in self.pieces) - 1
        data = b"\n".join(piece.data for piece in self._first_pieces())[:CONTENT_MAX_BYTES]
        text = data.decode("utf-8", errors="backslashreplace")
        return Aside(self.segment, first.start, size, first.reason, first.lost, text)

    def _first_pieces(self) -> Iterator[Piece]:
        room = CONTENT_MAX_BYTES
        for piece in self.pieces:
            if room > 0:
                yield piece
            room -= len(piece.data)


def gathered(pieces: Iterable[tuple[int, Piece]]) -> list[Aside]:
    """Pieces of segments, in order, as stretches."""
    stretches: list[_Stretch] = []
    for segment, piece in pieces:
        if stretches and stretches[-1].takes(segment, piece):
            stretches[-1].pieces.append(piece)
        else:
            stretches.append(_Stretch(segment, [piece]))
    return [stretch.as_aside() for stretch in stretches]


def keep(layout: Layout, asides: Iterable[Aside]) -> None:
    """Write down what was set aside. OSError from the disk."""
    for aside in asides:
        layout.within.make(layout.aside)
        name = f"{aside.segment:06}-{aside.offset:012}-{check_of(aside.reason.encode())[:8]}.json"
        layout.put_aside(layout.aside / name, msgspec.json.format(encode(aside)))


def listed(layout: Layout) -> list[Aside]:
    """Everything that was set aside, by place."""
    return [_read(layout, name) for name in layout.within.names(layout.aside) if name.endswith(_ENDING)]


def _read(layout: Layout, name: str) -> Aside:
    try:
        return decode(layout.within.read(layout.aside / name, most=_FILE_MAX_BYTES), Aside, name)
    except Damaged as error:
        return Aside(0, 0, 0, error.message, lost=True, content=name)
    except OSError as error:
        return Aside(0, 0, 0, error.strerror or str(error), lost=True, content=name)


def forget(layout: Layout) -> None:
    """Begin anew: the whole log is about to be read again."""
    for name in layout.within.names(layout.aside):
        if name.endswith(_ENDING):
            layout.within.unlink(layout.aside / name)
