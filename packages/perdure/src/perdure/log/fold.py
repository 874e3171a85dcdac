"""The generic reducer: folding events gives the tables (P5). Used by the lane, verify, time travel, forks and moves.

One rule for everybody: `step` finds the row that a body speaks of, and says what becomes of it. There is no reducer per
table, and one rule for what was pruned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from perdure.errors import Damaged
from perdure.log.change import Op
from perdure.log.event import Body, Event, decode_body
from perdure.log.subjects import with_subjects
from perdure.log.table import Row, Table
from perdure.log.upcast import upcast

Rows = dict[tuple[Any, ...], Row]

INSERT, SET, DELETE, BASE, _NOTE = Op  # names of this module: every write asks for them


def apply_body(table: Table, row: Row | None, body: Body, seq: int) -> Row | None:
    """The row after this body: None when it is gone. Damaged when the body cannot follow the row."""
    op = body.op
    if op in (INSERT, BASE):
        fresh = {**dict.fromkeys(table.columns), **body.key, **body.set}
        if table.sequenced and op == INSERT:
            fresh["seq"] = seq
    elif row is None:
        raise Damaged(f"{op} of a row of {table.name} that is not there", path=f"seq {seq}")
    elif op == DELETE and not table.once:
        return None
    elif op == SET:
        fresh = row | body.set
    else:
        raise Damaged(f"no operation on rows of {table.name}: {op[:40]!r}", path=f"seq {seq}")
    if body.mark:
        fresh[body.mark] = seq
    if body.subjects and table.about and op != BASE:  # a base event says the whole row itself
        fresh["about"] = with_subjects(fresh["about"], body.subjects)
    if row is not None and table.once:
        _check_once(table, row, fresh, seq)
    return fresh


def _check_once(table: Table, row: Row, fresh: Row, seq: int) -> None:
    """A column that is said once stays as it is: the store does not write it again (`Table.once`)."""
    for column in table.once:
        if fresh[column] != row[column] and column not in table.yields:
            raise Damaged(f"{column} of a row of {table.name} is said twice", path=f"seq {seq}")


def _key_in(table: Table, body: Body, seq: int) -> tuple[Any, ...]:
    """The key that a body names."""
    try:
        return tuple(body.key[column] for column in table.key)
    except KeyError as missing:
        raise Damaged(f"the key lacks {missing}", path=f"seq {seq}") from None


class Step(NamedTuple):
    """One event's effect on its row: the key, the row before, the row after."""

    key: tuple[Any, ...]
    old: Row | None
    new: Row | None


def step(
    table: Table, body: Body, seq: int, find: Callable[[tuple[Any, ...]], Row | None], *, pruned: bool = False
) -> Step | None:
    """Apply a body to the row that it speaks of, which `find` looks up by its key.

    None for a table without rows. pruned: whether an earlier event of this table has lost its body. Then None too, when the
    row is not there: what made it was pruned, and this event only says what became of it. A row that still stands is restated
    by a base event before that, unless each change says all of it (`Table.says_all`).
    """
    if table.rowless:
        return None
    inserts = body.op == INSERT
    begins = inserts and table.sequenced  # the row of this very event
    key = (seq,) if begins else _key_in(table, body, seq)
    old = None if begins else find(key)
    if old is None:
        if pruned and body.op in (SET, DELETE):
            if not (table.says_all and body.op == SET):
                return None
            body = msgspec.structs.replace(body, op=BASE)
    elif inserts:
        raise Damaged(f"the row {key} of {table.name} is made twice", path=f"seq {seq}")
    return Step(key, old, apply_body(table, old, body, seq))


class Fold:
    """The state of one stream's tables, event by event."""

    def __init__(self, tables: Mapping[str, Table]) -> None:
        self._tables = tables
        self.rows: dict[str, Rows] = {}
        self.emptied: list[int] = []  # events whose body is gone: what they said cannot be told any more
        self._pruned: set[str] = set()  # their tables

    def add(self, event: Event) -> Body | None:
        """Apply one event; returns its body, or None if that is gone."""
        if event.body is None:
            self.emptied.append(event.seq)
            self._pruned.add(event.table)
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
        done = step(table, body, event.seq, rows.get, pruned=event.table in self._pruned)
        if done is None:
            return
        if done.new is None:
            rows.pop(done.key, None)
        else:
            rows[done.key] = done.new

    def all_rows(self) -> Iterator[tuple[Table, Row]]:
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
