"""Records of actors."""

from __future__ import annotations

import msgspec


class ActorRecord(msgspec.Struct, frozen=True):
    """An actor: `name` is the name that was given to `perdure.open`, `actor` the random name in the headers of events."""

    actor: str
    name: str
