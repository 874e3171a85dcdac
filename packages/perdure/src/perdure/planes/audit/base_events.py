"""Restating a row: base events that say all of it, documents included, so that nothing before them is needed
for it.

A fork begins with these; prune writes them before it empties an event that still feeds a live row. The first document of a
row goes with the base event, each other one with an event of its own; the columns that point to documents then point to these
events. Callers: planes/audit/history, upkeep. Keeps P5.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from perdure.log.change import Change, Op, Stream
from perdure.log.event import Body
from perdure.log.table import Row, Table
from perdure.planes.tables import CHECKS, DECISIONS, EFFECTS, ENTRIES, MEMORIES, SESSIONS, TASKS, WAITS
from perdure.stores.tx import Tx

KINDS = {
    SESSIONS: "session.restated",
    ENTRIES: "value.restated",
    TASKS: "task.restated",
    DECISIONS: "decision.restated",
    EFFECTS: "effect.restated",
    WAITS: "ask.restated",
    MEMORIES: "memory.restated",
    CHECKS: "log.restated",
}

Bodies = Callable[[int], Body]  # the body of an event of the old stream, its document in place


def restate(tx: Tx, stream: Stream, table: Table, row: Row, bodies: Bodies) -> None:
    """Say the whole row again in this stream."""
    documents = [(column, bodies(seq)) for column, seq in pointers(table, row)]
    first = documents[0] if documents else ("", Body())
    tx.record(_change(stream, table, row, first, op=Op.BASE, set=values_of(table, row)))
    for document in documents[1:]:
        point_to(tx, stream, table, row, document)


def point_to(tx: Tx, stream: Stream, table: Table, row: Row, document: tuple[str, Body]) -> None:
    """Say one document of a row again, and point its column to where it is said."""
    tx.record(_change(stream, table, row, document, op=Op.SET, set={}))


def count(table: Table, row: Row) -> int:
    """How many events it takes."""
    return max(1, len(pointers(table, row)))


def pointers(table: Table, row: Row) -> list[tuple[str, int]]:
    """Which column of a row points to which event. A document that was never restated is in the event of the
    row's `seq`.
    """
    seqs = {column: row[column] for column in table.documents}
    if "doc_seq" in seqs and seqs["doc_seq"] is None:
        seqs["doc_seq"] = row["seq"]
    return [(column, seq) for column, seq in seqs.items() if seq is not None]


def values_of(table: Table, row: Row) -> dict[str, Any]:
    """The columns of a row that say something."""
    return {column: row[column] for column in table.columns if row[column] is not None}


def _change(stream: Stream, table: Table, row: Row, document: tuple[str, Body], **what: Any) -> Change:
    mark, body = document
    blobs = [address for address in body.blobs if address != body.doc_blob]
    return Change(
        KINDS[table],
        stream,
        table,
        key={column: row[column] for column in table.key},
        doc=body.doc,
        mark=mark,
        refs=body.refs,
        blobs=blobs,
        subjects=body.subjects,
        derived_from=body.derived_from,
        **what,
    )
