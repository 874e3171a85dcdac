"""The knowledge about a run whose store was restored: what it did after the backup may be forgotten (docs/guarantees.md). Keeps
P3.

`leasing.claim` notes the last event from before the restore; it stands until the run ends or somebody vouches for it. Callers:
whoever sends, and who starts children.
"""

from __future__ import annotations

from perdure.log.change import Stream
from perdure.planes.tables import RUNS
from perdure.stores.statements import Statements
from perdure.stores.store import Reads
from perdure.stores.tx import EVENTS

Q = Statements("perdure.planes.recovery", "restored_runs.sql")


def is_known(reads: Reads, stream: Stream) -> bool:
    """Whether all external calls of a run are known here: no restore can have forgotten any of it."""
    row = reads.row(RUNS, stream)
    return row is not None and row["known_seq"] is None


def has_strayed(reads: Reads, stream: Stream, known_seq: int) -> bool:
    """Whether a run has found out anything anew since its store was restored: from there on it may mean to do what it had done
    before, with other words.
    """
    return bool(reads.query(Q.found_out_after, touches=[(EVENTS, stream.id)], stream=stream.id, after=known_seq))
