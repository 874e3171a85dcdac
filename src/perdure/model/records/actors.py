"""Actors as people read them."""

from __future__ import annotations

import msgspec


class ActorRecord(msgspec.Struct, frozen=True):
    """An actor: `actor` is the random name in the headers of events, `name` the one that was given to `perdure.open`."""

    actor: str
    name: str
