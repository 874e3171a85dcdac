"""Tables as the log sees them: their class, their key and their columns.

Declared beside the plane that owns them; a contract test compares every declaration with the real schemas of every store.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

Row = dict[str, Any]


class TableClass(enum.StrEnum):
    """The changes that a table may see."""

    RECORDED = "recorded"  # changed by tx.record only; folded, verified, moved, exported
    DERIVED = "derived"  # rebuilt from recorded state at any time
    EPHEMERAL = "ephemeral"  # changed by tx.touch; neither verified nor moved


class Table(msgspec.Struct, frozen=True, eq=False):
    """One table. Every recorded row belongs to a stream: `stream` (and `tenant`, where listed) come from it and are never
    part of a change, because integer ids differ between stores.

    key: the columns that, after `stream`, identify a row. A table whose key is exactly ("seq",) is *sequenced*: its insert
    takes the sequence number of its own event.
    fixed: rows are never changed or deleted after their insert except by prune, so that a fork may read its parent's.
    once: columns that are said when a row is made, and never anew: writing a row that exists leaves them, and what indexes
    them, alone. Such a row is never deleted.
    yields: those of `once` that a copy may give up all the same (its key): rarely, so the row is then written as a new one.
    rowless: it has no rows at all and no table in the database: it is what its events (op note) say.
    documents: columns that point to the event which holds a document of the row. `doc_seq` is null while that is the event
    of the row's own `seq`; a base event that restates the document moves the pointer to itself (planes/reading/lineage).
    says_all: every change of a row says all of it, so that it needs none of the changes before it once those were pruned.
    announces: (column, value): whoever waits for rows with this value is woken by the very commit that writes one.
    about: a column that holds the subjects of a row, as JSON; it follows from the `subjects` of its events (`fold`).
    owns: the subjects of its row are those of everything in the stream (docs/decisions/0035).
    """

    name: str
    table_class: TableClass
    key: tuple[str, ...]
    columns: tuple[str, ...]  # all columns that are not implied and not in the key
    tenant: bool = False
    streamed: bool = True
    fixed: bool = False
    once: tuple[str, ...] = ()
    yields: tuple[str, ...] = ()
    documents: tuple[str, ...] = ()
    rowless: bool = False
    says_all: bool = False
    announces: tuple[str, str] | None = None
    owns: bool = False
    # These follow from the above, worked out once because every write asks for them:
    sequenced: bool = False  # an insert's key is the sequence number of its own event
    about: bool = False  # it has a column of that name
    implied: tuple[str, ...] = ()  # columns that the store fills in from the stream
    all_columns: tuple[str, ...] = ()  # implied, key and other columns, in the order in which rows are written

    def __post_init__(self) -> None:
        implied = (("stream",) if self.streamed else ()) + (("tenant",) if self.tenant else ())
        msgspec.structs.force_setattr(self, "sequenced", self.key == ("seq",))
        msgspec.structs.force_setattr(
            self, "about", "about" in self.columns and self.table_class is TableClass.RECORDED
        )
        msgspec.structs.force_setattr(self, "implied", implied)
        msgspec.structs.force_setattr(self, "all_columns", implied + self.key + self.columns)

    def key_of(self, row: Row) -> tuple[Any, ...]:
        """The key of a row, without its stream."""
        return tuple(row[column] for column in self.key)


_declared: dict[str, Table] = {}


def declare(tables: Iterable[Table]) -> dict[str, Table]:
    """Say which recorded tables there are, for a store that folds by itself (`stores/files`). Returns them by name."""
    _declared.update({table.name: table for table in tables if table.table_class is TableClass.RECORDED})
    return _declared


def declared() -> Mapping[str, Table]:
    """Every recorded table by its name. A store that would fold without them would lose what it reads."""
    if not _declared:
        raise AssertionError("the planes are not loaded")
    return _declared
