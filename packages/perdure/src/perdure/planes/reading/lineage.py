"""Lineage: a fork reads its parent's fixed rows (turns, covers, checkpoints, artifacts, events) up to where
it began.

Read verbs walk the segments from the newest to the oldest, and most sessions have one. Keeps P8: nothing is
copied.

Mutable rows (sessions, entries, tasks, decisions) are restated in the fork by base events *with their
documents*, so that they are read from the own stream alone. Their document columns (`Table.documents`) then
point to those base events:

    entries.seq, sessions.goal_seq, sessions.pin_seq, tasks.note_seq, decisions.outcome_seq    join as ever
    tasks, decisions: the document that their insert held
        JOIN events e ON e.stream = t.stream AND e.seq = coalesce(t.doc_seq, t.seq)

`doc_seq` is null until a row is restated: verbs never set it. See `restate`, which serves forks and prune
alike.

A merge makes no fork of what both sides changed: theirs is a whole stream that stands beside ours, with the
same events under the same numbers up to where they parted, and says so in a note (`Beside`).
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from perdure.errors import Damaged
from perdure.log.change import Stream
from perdure.log.table import Table
from perdure.model.records.conversation import Origin
from perdure.planes.reading.body_reading import doc_of
from perdure.planes.reading.row_reading import stored_address, stored_as
from perdure.stores.batch import EVENTS, HISTORY
from perdure.stores.statements import Statements
from perdure.stores.store import Reads
from perdure.stores.tx import LOG

Q = Statements("perdure.planes.reading", "lineage.sql")

MAX_SEQ = 2**62
MERGED = "session.merged"  # as `interchange.merge` records it


class Segment(NamedTuple):
    """A part of a lineage: the events of one stream with first < seq <= last."""

    stream: int
    first: int
    last: int


def ancestry(reads: Reads, stream: Stream) -> list[Stream]:
    """The stream, its parent, its parent's parent … One statement, however many. Damaged when they lead
    nowhere, round in a circle, or to another tenant.
    """
    if stream.parent is None:
        return [stream]
    rows = reads.query(
        Q.lineage,
        touches=[(HISTORY, stream.parent)],
        parent=stream.parent,
        tenant=stream.tenant,
        fork_seq=stream.fork_seq,
    )
    parents = [Stream(*row) for row in rows]
    if not parents or parents[0].id != stream.parent or parents[-1].parent is not None:
        raise Damaged(
            "the stream that it was forked from is not there, or is no past of it", path=f"{stream.kind} {stream.name}"
        )
    return [stream, *parents]


def touching(table: Table, stream: Stream, holder: int) -> list[tuple[Table, int]]:
    """The tables that reading rows of `holder` for a stream touches: the own table, or history that does not change."""
    return [(table, holder) if holder == stream.id else (HISTORY, holder)]


def segments(reads: Reads, stream: Stream, upto: int = MAX_SEQ) -> list[Segment]:
    """The streams that hold this one's past, newest first, up to a sequence number."""
    spans = []
    last = upto
    for ancestor in ancestry(reads, stream):
        if last > ancestor.fork_seq:
            spans.append(Segment(ancestor.id, ancestor.fork_seq, last))
        last = min(last, ancestor.fork_seq)
    return spans


class MergeNote(msgspec.Struct, frozen=True):
    """The note of a stream that came by a merge: of which one it is another way on, after which event, and of which branch."""

    of: str
    after: int
    branch: str


def beside(reads: Reads, stream: Stream) -> MergeNote | None:
    """The stream that a stream stands beside since a merge. None: nothing, or it was only given another name."""
    about = {"tenant": stream.tenant, "kind": MERGED, "stream": stream.id}
    for (body,) in reads.query(Q.merged, touches=[(EVENTS, stream.id)], **about):
        if body is not None:
            noted = stored_as(MergeNote, doc_of(reads, body, MERGED), "note of a merge", MERGED)
            return noted if noted.of != stream.uid.hex() else None
    return None


def origin(reads: Reads, stream: Stream) -> Origin | None:
    """The stream that a stream continues: the one that it was forked from, or stands beside. None: it began by itself."""
    noted = beside(reads, stream)
    if noted is not None:
        rows = reads.query(LOG.stream_by_uid, uid=stored_address(noted.of, MERGED), tenant=stream.tenant)
        if rows or stream.parent is None:
            return Origin(Stream(*rows[0]).name if rows else None, noted.of, noted.after, noted.branch)
    if stream.parent is None:
        return None
    parent = ancestry(reads, stream)[1]
    return Origin(parent.name, parent.uid.hex(), stream.fork_seq)
