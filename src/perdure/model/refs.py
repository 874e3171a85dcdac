"""References: how one thing names another, on this store or any other."""

from __future__ import annotations

import msgspec


class Ref(msgspec.Struct, frozen=True, array_like=True):
    """A reference to an event of any stream: `uid` is the stream's, in hex."""

    uid: str
    seq: int
