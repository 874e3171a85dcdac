"""References: the names by which one thing refers to another, on this store or any other."""

from __future__ import annotations

import msgspec


class Ref(msgspec.Struct, frozen=True, array_like=True):
    """A reference to an event of any stream: `uid` is the stream's, in hex."""

    uid: str
    seq: int
