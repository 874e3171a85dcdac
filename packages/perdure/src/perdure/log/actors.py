"""Actors: the random name by which an event's header knows its writer, and the directory that says who that is.

A header is hashed and stays for ever, so no name of a person may stand in it. The directory is a recorded table of the
tenant's own stream: one row for each actor, written with the first event of that actor, and erasable (docs/decisions/0033). A
header that an older version wrote names its actor as it was given. Callers: `stores.tx` writes it, the planes show it.
"""

from __future__ import annotations

import re

from perdure.log.table import Table, TableClass

NAMED = "tenant.actor_named"
FORGOTTEN = "tenant.actor_forgotten"
RANDOM_BYTES = 8
ACTORS = Table("actors", TableClass.RECORDED, ("actor",), ("name", "seq"), tenant=True)

_RANDOM = re.compile(r"u_[0-9a-f]{16}")


def random_name(drawn: bytes) -> str:
    """The name that a header gets, out of random bytes."""
    return f"u_{drawn.hex()}"


def is_random(actor: str) -> bool:
    """Whether a header names its actor by a random name."""
    return _RANDOM.fullmatch(actor) is not None
