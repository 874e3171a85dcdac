"""One stream rebuilt from its events: the recorded rows, the derived rows that follow, and where a store
differs from both.

Callers: `planes.audit.verify`. The same two functions that `tx.record` uses (`step`, `derive`) make the rows
here, so that there is one rule for what an event means. Keeps P5.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from perdure.errors import Damaged
from perdure.log.change import Stream
from perdure.log.derive import derive
from perdure.log.event import Body, Event, decode_body
from perdure.log.fold import step
from perdure.log.table import Row, Table, TableClass
from perdure.log.upcast import upcast
from perdure.planes import tables
from perdure.stores.dialect import rows_page
from perdure.stores.replay import Seen
from perdure.stores.spilled import SpilledMapping
from perdure.stores.store import Reads

PAGE_ROWS = 500

Key = tuple[Any, ...]


Expected: TypeAlias = tuple[Row, int]  # a row as the log gives it, and the last event that wrote it
Rows: TypeAlias = MutableMapping[Key, Expected]


class RowDifference(NamedTuple):
    """A row that is not as the log gives it. `stored` or `expected` is None when there is none."""

    table: Table
    key: Key
    seq: int | None
    stored: Row | None
    expected: Row | None

    def __str__(self) -> str:
        """The difference, without the values: a report may be shown to people who may not read them."""
        if self.stored is None:
            return f"the row {_key_text(self.key)} is missing"
        if self.expected is None:
            return f"the row {_key_text(self.key)} is not in the log"
        wrong = [name for name, value in self.expected.items() if self.stored.get(name) != value]
        return f"the row {_key_text(self.key)} differs in {', '.join(wrong)}"


def _key_text(key: Key) -> str:
    parts = [part.hex() if isinstance(part, bytes) else str(part) for part in key]
    return ", ".join(parts)[:120] or "of this stream"


class Rebuild:
    """The tables of one stream, event by event."""

    def __init__(self, recorded: dict[str, Table] = tables.RECORDED, translate: Seen | None = None) -> None:
        """translate: what events mean here, if the stream was imported (`planes/execution/imported`)."""
        self._recorded = recorded
        self._translate = translate
        self.rows: dict[Table, Rows] = {}
        self._pruned: set[str] = set()  # tables that have events without a body

    def add(self, event: Event) -> Body | None:
        """Apply one event; returns its body, or None if that is gone. Damaged when it cannot be read or
        applied."""
        if event.body is None:
            self._pruned.add(event.table)
            return None
        body = upcast(event, decode_body(event.body, f"seq {event.seq}"))
        try:
            self._apply(event, body)
        except (TypeError, ValueError, KeyError) as error:
            raise Damaged(f"its content cannot be applied: {error}", path=f"seq {event.seq}") from None
        return body

    def _apply(self, event: Event, body: Body) -> None:
        table = done = None
        if event.table:
            table = self._recorded.get(event.table)
            if table is None:
                raise Damaged(f"no table {event.table[:60]!r} is known", path=f"seq {event.seq}")
            body = self._translate(table, event.seq, body) if self._translate else body
            pruned = event.table in self._pruned
            done = step(table, body, event.seq, partial(self._row_now, table), pruned=pruned)
            if done is not None:
                self._put(table, done.key, done.new, event.seq)
        for derived, row, deleted in derive(table, event.seq, body, done):
            self._put(derived, derived.key_of(row), None if deleted else row, event.seq)

    def _row_now(self, table: Table, key: Key) -> Row | None:
        entry = self.rows[table].get(key) if table in self.rows else None
        return entry[0] if entry else None

    def _put(self, table: Table, key: Key, row: Row | None, seq: int) -> None:
        rows = self.rows.get(table)
        if rows is None:
            rows = self.rows[table] = SpilledMapping()
        if row is None:
            rows.pop(key, None)
        else:
            rows[key] = (row, seq)

    def rows_of(self, table: Table) -> Iterator[Row]:
        """The rows of a table that the log gives."""
        for expected in self.rows[table].values() if table in self.rows else ():
            yield expected[0]

    def differences(self, reads: Reads, stream: Stream, count: Callable[[Table], None]) -> Iterator[RowDifference]:
        """Where the store's rows of this stream differ, both ways: altered, missing, written past the log. Uses the rows up."""
        for table in CHECKED:
            waiting = self.rows.pop(table, {})
            for stored in stored_rows(reads, table, stream.id):
                count(table)
                key = table.key_of(stored)
                expected = waiting.pop(key, None)
                difference = _compare(table, key, stored, expected, stream)
                if difference is not None:
                    yield difference
            for key, expected in waiting.items():
                row, seq = expected
                yield RowDifference(table, key, seq, None, row)


CHECKED = tuple(table for table in tables.ALL if table.table_class is not TableClass.EPHEMERAL)


def _compare(table: Table, key: Key, stored: Row, expected: Expected | None, stream: Stream) -> RowDifference | None:
    if expected is None:
        seq = stored.get("seq")
        return RowDifference(table, key, seq if isinstance(seq, int) else None, stored, None)
    implied = {"stream": stream.id, "tenant": stream.tenant}
    row, seq = expected
    expected_row = {name: implied.get(name, row.get(name)) for name in table.all_columns}
    return None if stored == expected_row else RowDifference(table, key, seq, stored, expected_row)


def stored_rows(reads: Reads, table: Table, stream: int) -> Iterator[Row]:
    """Every row of a table that belongs to a stream, page by page."""
    after: dict[str, Any] = {}
    while True:
        page = reads.query(rows_page(table, first=not after), stream=stream, limit=PAGE_ROWS, **after)
        for values in page:
            yield dict(zip(table.all_columns, values, strict=True))
        if len(page) < PAGE_ROWS or not table.key:
            return
        after = {f"after_{name}": page[-1][table.all_columns.index(name)] for name in table.key}
