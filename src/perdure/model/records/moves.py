"""Records of moves: a store that goes from one database into another."""

from __future__ import annotations

import msgspec


class Held(msgspec.Struct, frozen=True):
    """Something that a living process has: a run that it drives, an effect that it sends."""

    what: str
    holder: str


class Moved(msgspec.Struct, frozen=True):
    """A finished move, or with `dry_run` what one would do. fenced: somebody held something, and what was open is doubt."""

    source: str
    target: str
    streams: int
    events: int
    blobs: int
    held: list[Held]
    fenced: bool = False
    dry_run: bool = False
