"""Import: a bundle becomes streams of this store. All is verified before anything is written, and then written in one commit.

    look      the container, the manifest, every line, every chain, every row that the events give, every blob
    rehearse  the whole import into an empty store: what a database, `verify` or a listing refuses is found before ours is touched
    compare   what the store has of these streams: the same beginning (then it grows, or stays), or a Conflict
    carry     large blobs to the artifact place: durable before the commit that needs them (P1); else they are orphans there
    write     one transaction: blobs, who imported what (`planes.imported`), events and rows; checked once more on the way in

Importing again changes nothing. Open work in a copy is nobody's here (docs/decisions/0014). Callers: the handles. Keeps P3,
P4, P6, P10 and P11 (the store says for which tenant, never the bundle).
"""

from __future__ import annotations

from perdure.log.actors import ACTORS
from perdure.planes.tables import ANCHORS, RUNS, SESSIONS

PAGE_BLOBS = 100
# Tables of which only a stream of this kind has a row.
_OWN = {
    "session": SESSIONS,
    "run": RUNS,
    "store": ANCHORS,
    "tenant": ACTORS,
}
