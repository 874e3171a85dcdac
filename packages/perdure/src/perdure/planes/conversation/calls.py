"""Calls: which turn made a call, and whom that turn is about. A model may use an id again: the newest turn counts.

Callers: `turns`, and the ledger of effects. A call is derived from its turn; see `planes.tables`.
"""

from __future__ import annotations

from typing import NamedTuple

from perdure.log.change import Stream
from perdure.log.table import Table
from perdure.planes.reading.lineage import MAX_SEQ
from perdure.planes.tables import CALLS, TURNS
from perdure.stores.batch import HISTORY
from perdure.stores.statements import Statements
from perdure.stores.store import Reads

Q = Statements("perdure.planes.conversation", "sessions.sql")


def line_touches(stream: Stream, table: Table) -> list[tuple[Table, int]]:
    """The tables that a statement over a lineage looks at: also the rows of the streams, which may be new in this transaction.
    Older parents are written before their forks are.
    """
    own = (table, stream.id)
    return [own] if stream.parent is None else [own, (HISTORY, stream.id), (HISTORY, stream.parent)]


class MadeCall(NamedTuple):
    """The turn that made a call, and whom that turn is about, as a column says it."""

    seq: int
    about: str | None


def maker_of(reads: Reads, stream: Stream, call: str) -> int | None:
    """The sequence number of the newest turn that made a call, here or in what this session was forked from."""
    maker = call_of(reads, stream, call)
    return None if maker is None else maker.seq


def call_of(reads: Reads, stream: Stream, call: str) -> MadeCall | None:
    """A call of the newest turn that made it, here or in what this session was forked from."""
    return next(iter(_makers(reads, stream, call)), None)


def is_newest(reads: Reads, stream: Stream, call: str, since: int) -> bool:
    """Whether no turn made a call of this id after an event."""
    maker = maker_of(reads, stream, call)
    return maker is not None and maker < since


def is_repeated(reads: Reads, stream: Stream, call: str) -> bool:
    """Whether more than one turn made a call of this id."""
    return len(_makers(reads, stream, call)) > 1


def _makers(reads: Reads, stream: Stream, call: str) -> list[MadeCall]:
    forked = stream.parent is not None
    rows = reads.query(
        Q.call_makers,
        touches=[*line_touches(stream, CALLS), (TURNS, stream.id)],
        stream=stream.id,
        alone=None if forked else stream.id,
        forked=1 if forked else None,
        last=MAX_SEQ,
        call=call,
    )
    return [MadeCall(*row) for row in rows]
