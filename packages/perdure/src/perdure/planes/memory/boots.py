"""Manifests of the last boots of a session: what they showed. Ephemeral, so that a boot moves no position.

Callers: `boot`.
"""

from __future__ import annotations

from collections.abc import Iterable

from perdure.log.change import Stream
from perdure.planes.memory import memories
from perdure.planes.tables import BOOTS
from perdure.stores.statements import Statements
from perdure.stores.store import Reads
from perdure.stores.tx import Tx

Q = Statements("perdure.planes.memory", "boots.sql")

KEPT = 20  # manifests of a session


def keep(tx: Tx, stream: Stream, manifest: str, used: Iterable[tuple[Stream, int]]) -> int:
    """Keep the manifest of a boot, and count the memories in it as read; returns its number."""
    rows = tx.query(Q.boots_newest, touches=[(BOOTS, stream.id)], stream=stream.id, limit=1)
    number = rows[0][0] + 1 if rows else 1
    tx.touch(BOOTS, {"number": number}, {"made_at": tx.now, "manifest": manifest}, stream)
    if number > KEPT:
        tx.touch(BOOTS, {"number": number - KEPT}, None, stream)
    memories.count_uses(tx, used)
    return number


def manifests(reads: Reads, stream: Stream, limit: int = KEPT) -> list[tuple[int, str]]:
    """The manifests that are kept, the newest first, each with its number."""
    rows = reads.query(Q.boots_newest, touches=[(BOOTS, stream.id)], stream=stream.id, limit=limit)
    return [(number, manifest) for number, manifest in rows]
