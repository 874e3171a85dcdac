"""Actors as people read them."""

from __future__ import annotations

import msgspec


class ActorRecord(msgspec.Struct, frozen=True):
    """Who is meant by a random name: `actor` stands in the headers of events, `name` is what was given to `perdure.open`."""

    actor: str
    name: str
