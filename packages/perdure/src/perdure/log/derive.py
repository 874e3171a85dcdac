"""Derived rows: what follows from an event and can be rebuilt from it at any time (references, tags, calls …).

A plane registers one pure function per recorded table; `tx.record` runs it as it writes, a rebuild runs it over the log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain

from perdure.log.event import Body
from perdure.log.fold import Step
from perdure.log.subjects import SUBJECTS, rows_of
from perdure.log.table import Row, Table, TableClass

Derived = tuple[Table, Row, bool]  # table, row (or at least its key), whether it goes
Deriver = Callable[[int, Body, Row | None, Row | None], Iterator[Derived]]  # seq, body, old row, new row

REFS = Table("refs", TableClass.DERIVED, ("seq", "target", "target_seq"), (), tenant=True)
BLOB_REFS = Table("blob_refs", TableClass.DERIVED, ("seq", "address"), (), tenant=True)

_derivers: dict[Table, Deriver] = {}
_from_calls: dict[Table, Deriver] = {}


def register(table: Table, deriver: Deriver) -> None:
    """Say what follows from changes of a recorded table."""
    _derivers[table] = deriver


def register_calls(table: Table, deriver: Deriver) -> None:
    """Say what follows from changes of a recorded table that name calls, where nothing follows from others."""
    _from_calls[table] = deriver


def derive(table: Table | None, seq: int, body: Body, done: Step | None) -> Iterator[Derived]:
    """Every derived row that one event makes or takes away; `done` is what it did to its row, if anything."""
    deriver = _derivers.get(table) or (_from_calls.get(table) if body.calls else None) if table is not None else None
    own = deriver(seq, body, done.old, done.new) if deriver and done else iter(())
    needed = chain(_needed(seq, body), own) if body.refs or body.blobs else own
    if body.subjects or (table is not None and table.about and done is not None and _speaks_of(done)):
        return chain(_subjects(table, seq, body, done), needed)
    return needed


def _speaks_of(done: Step) -> bool:
    row = done.new or done.old
    return row is not None and row["about"] is not None


def _subjects(table: Table | None, seq: int, body: Body, done: Step | None) -> Iterator[Derived]:
    """Whom an event speaks of."""
    old, new = (done.old, done.new) if done is not None else (None, None)
    of_seq = seq if table is None or done is None or table.key != ("seq",) else done.key[0]
    for row in rows_of(table, seq, body, old, new, of_seq):
        yield SUBJECTS, row, False


def _needed(seq: int, body: Body) -> Iterator[Derived]:
    """The things that an event of any table refers to."""
    for ref in dict.fromkeys(body.refs):
        yield REFS, {"seq": seq, "target": bytes.fromhex(ref.uid), "target_seq": ref.seq}, False
    for address in dict.fromkeys(body.blobs):
        yield BLOB_REFS, {"seq": seq, "address": bytes.fromhex(address)}, False
