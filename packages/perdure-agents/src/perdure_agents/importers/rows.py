"""Rows of other people's databases: in pages, and their texts and JSON, whatever bytes are there.

Callers: the formats that are SQLite files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec

from perdure.errors import Damaged, Invalid, Unavailable
from perdure.stores.statements import Statement
from perdure_agents.importers.foreign_sqlite import ForeignFile
from perdure_agents.importers.items import Item, LeftOut, Remark
from perdure_agents.importers.sources import Source

ReadRow = Callable[[tuple[Any, ...]], Iterator[Item | Remark]]


class Tables:
    """An open file of a source."""

    def __init__(self, foreign: ForeignFile, source: Source) -> None:
        self.foreign = foreign
        self.source = source

    def place(self, table: str, row: object) -> str:
        """Where a row stands, for people."""
        return f"{self.source.name}:{table}:{row}"

    def pages(self, statement: Statement, after: dict[str, Any], **params: Any) -> Iterator[tuple[Any, ...] | LeftOut]:
        """All rows of a statement that gives a page. after: where it begins; its names are those of the first columns.

        Where the file is damaged the rows end with a remark: what comes behind cannot be read. A row with a text that is none
        costs no other.
        """
        begun: set[tuple[Any, ...]] = set()
        while True:
            place = self.place(statement.name, list(after.values()))
            try:
                rows, broken = self.foreign.readable(statement, **after, **params)
            except (Damaged, Unavailable) as error:
                yield LeftOut(place, f"the rest cannot be read: {error.message}")
                return
            if broken:
                yield LeftOut(place, f"{broken} of the rows that follow: their text is no UTF-8")
            yield from rows
            if not rows:
                return
            after = dict(zip(after, rows[-1], strict=False))
            if tuple(after.values()) in begun:  # a damaged index gives any order
                yield LeftOut(place, "the rest cannot be read: its rows lead in a circle")
                return
            begun.add(tuple(after.values()))

    def items_of(
        self, statement: Statement, after: dict[str, Any], read: ReadRow, **params: Any
    ) -> Iterator[Item | Remark]:
        """The result of a function for each of these rows, and the remarks."""
        for row in self.pages(statement, after, **params):
            yield from [row] if isinstance(row, LeftOut) else read(row)


def as_json(data: object) -> Any:
    """A column of JSON as what it is. Invalid when it is none."""
    raw = data if isinstance(data, bytes) else str(data).encode("utf-8", "replace")
    try:
        return msgspec.json.decode(raw.decode("utf-8", "replace").encode())
    except (msgspec.MsgspecError, RecursionError) as error:
        raise Invalid(f"broken JSON: {str(error)[:80]}") from None


def as_text(data: object) -> str:
    """A column of text; nothing for NULL."""
    if data is None:
        return ""
    return data.decode("utf-8", "replace") if isinstance(data, bytes) else str(data)


def instant_of(seconds: object) -> str:
    """An instant that is kept as seconds since 1970, as text; texts as they are."""
    if isinstance(seconds, (int, float)) and not isinstance(seconds, bool):
        try:
            return datetime.fromtimestamp(seconds, UTC).isoformat()
        except (OverflowError, ValueError, OSError):
            return str(seconds)
    return as_text(seconds)
