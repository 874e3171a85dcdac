"""The generic reducer: folding events gives the tables (P5). Used by the lane, verify, time travel, forks and moves.

One rule for everybody: `apply_body` turns a row and a body into the next row. There is no reducer per table.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from perdure.errors import Damaged
from perdure.log.change import Op
from perdure.log.event import Body, Event, decode_body
from perdure.log.table import Row, Table
from perdure.log.upcast import upcast

Rows = dict[tuple[Any, ...], Row]


def apply_body(table: Table, row: Row | None, body: Body, seq: int) -> Row | None:
    """The row after this body: None when it is gone. Damaged when the body cannot follow the row."""
    op = body.op
    if op in (Op.INSERT, Op.BASE):
        fresh = dict.fromkeys(table.columns)
        fresh.update(body.key)
        fresh.update(body.set)
        if table.sequenced and op == Op.INSERT:
            fresh["seq"] = seq
    elif row is None:
        raise Damaged(f"{op} of a row of {table.name} that is not there", path=f"seq {seq}")
    elif op == Op.DELETE:
        return None
    elif op == Op.SET:
        fresh = row | body.set
    else:
        raise Damaged(f"unknown operation {op[:40]!r}", path=f"seq {seq}")
    if body.mark:
        fresh[body.mark] = seq
    return fresh


def key_in(table: Table, body: Body, seq: int) -> tuple[Any, ...]:
    """The key of the row that a body speaks of."""
    if table.sequenced and body.op == Op.INSERT:
        return (seq,)
    try:
        return tuple(body.key[column] for column in table.key)
    except KeyError as missing:
        raise Damaged(f"the key lacks {missing}", path=f"seq {seq}") from None


class Fold:
    """The state of one stream's tables, event by event."""

    def __init__(self, tables: Mapping[str, Table]) -> None:
        self._tables = tables
        self.rows: dict[str, Rows] = {}
        self.emptied: list[int] = []  # events whose body is gone: what they said cannot be told any more

    def add(self, event: Event) -> Body | None:
        """Apply one event; returns its body, or None if that is gone."""
        if event.body is None:
            self.emptied.append(event.seq)
            return None
        body = upcast(event, decode_body(event.body, f"seq {event.seq}"))
        if event.table:
            self._apply(event, body)
        return body

    def _apply(self, event: Event, body: Body) -> None:
        table = self._tables.get(event.table)
        if table is None:
            raise Damaged(f"no table {event.table[:60]!r} is known", path=f"seq {event.seq}")
        rows = self.rows.setdefault(table.name, {})
        key = key_in(table, body, event.seq)
        if body.op == Op.DELETE and self.emptied and key not in rows:
            return  # what made the row was pruned, and this event says so
        row = apply_body(table, rows.get(key), body, event.seq)
        if row is None:
            rows.pop(key, None)
        else:
            rows[key] = row

    def each(self) -> Iterator[tuple[Table, Row]]:
        """Every row that stands now."""
        for name, rows in self.rows.items():
            for row in rows.values():
                yield self._tables[name], row


def fold(tables: Mapping[str, Table], events: Iterable[Event]) -> Fold:
    """Fold events from the beginning of a stream."""
    state = Fold(tables)
    for event in events:
        state.add(event)
    return state
