"""The bytes that a tenant has stored, counted without reading everything again (decision 0079). Keeps P8, P15.

A count continues where the last one ended: it costs what was written since. Each part of it looks at a bounded number of rows, so
that the first count of a large tenant is many short reads. Callers: the HTTP door.
"""

from __future__ import annotations

from typing import NamedTuple

from perdure.stores.statements import Statements
from perdure.stores.store import Reads

Q = Statements("perdure.planes.access", "usage.sql")

STEP = 50_000  # positions that one part of a count looks at


class Usage(NamedTuple):
    """A count so far: its bytes, the last event and blob that are in it, and whether it has reached the end."""

    bytes: int = 0
    pos: int = 0
    blob: int = 0
    complete: bool = False


NOTHING = Usage()


def count(reads: Reads, so_far: Usage = NOTHING) -> Usage:
    """Count on. Bodies of events and blobs as they were written: what was pruned, erased or collected since stays in it until
    a new count.
    """
    last_pos, last_blob = reads.query(Q.usage_ends, tenant=reads.tenant, pos=so_far.pos, blob=so_far.blob)[0]
    end_pos = min(last_pos or so_far.pos, so_far.pos + STEP)
    end_blob = min(last_blob or so_far.blob, so_far.blob + STEP)
    span = {"pos": so_far.pos, "end_pos": end_pos, "blob": so_far.blob, "end_blob": end_blob}
    bodies, blobs = reads.query(Q.usage_between, tenant=reads.tenant, **span)[0]
    complete = end_pos == (last_pos or end_pos) and end_blob == (last_blob or end_blob)
    return Usage(so_far.bytes + int(bodies) + int(blobs), end_pos, end_blob, complete)
