"""Lineage: a fork reads its parent's fixed rows (turns, covers, checkpoints, artifacts, events) up to where it began.

Read verbs walk the segments from the newest to the oldest, and most sessions have one. Keeps P8: nothing is copied.
"""

from __future__ import annotations

from typing import NamedTuple

from perdure.log.change import Stream
from perdure.stores.store import Reads
from perdure.stores.tx import LOG

MAX_SEQ = 2**62


class Segment(NamedTuple):
    """A part of a lineage: the events of one stream with first < seq <= last."""

    stream: int
    first: int
    last: int


def segments(reads: Reads, stream: Stream, upto: int = MAX_SEQ) -> list[Segment]:
    """The streams that hold this one's past, newest first, up to a sequence number."""
    found = []
    last = upto
    while True:
        if last > stream.fork_seq:
            found.append(Segment(stream.id, stream.fork_seq, last))
        if stream.parent is None:
            return found
        last = min(last, stream.fork_seq)
        stream = Stream(*reads.query(LOG.stream_by_id, id=stream.parent)[0])
