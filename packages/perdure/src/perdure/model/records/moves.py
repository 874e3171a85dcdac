"""Records of moves of a store from one database into another."""

from __future__ import annotations

import msgspec


class Held(msgspec.Struct, frozen=True):
    """Something that a living process holds: a run that it drives, an effect that it sends."""

    what: str
    holder: str


class Moved(msgspec.Struct, frozen=True):
    """A finished move, or with `dry_run` a preview of one. fenced: a process held something, so open work is in doubt."""

    source: str
    target: str
    streams: int
    events: int
    blobs: int
    held: list[Held]
    fenced: bool = False
    dry_run: bool = False
