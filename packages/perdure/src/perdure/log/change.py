"""A change: what one call of `tx.record` says. It becomes one row written and one event appended, in one transaction."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any

import msgspec

from perdure.log.table import Table
from perdure.model.refs import Ref


class Op(enum.StrEnum):
    """The effect of an event on its row; the generic reducer in `fold` knows no others."""

    INSERT = "insert"
    SET = "set"
    DELETE = "delete"
    BASE = "base"  # restates a whole row, so that earlier events may be emptied and forks can start
    NOTE = "note"  # changes no row


class Stream(msgspec.Struct, frozen=True):
    """A stream as a handle knows it: nothing here ever changes. `parent` and `fork_seq` are set on forks."""

    id: int
    uid: bytes
    tenant: int
    kind: str
    name: str
    parent: int | None = None
    fork_seq: int = 0

    def ref(self, seq: int) -> Ref:
        """A reference to one of this stream's events that holds on every store."""
        return Ref(self.uid.hex(), seq)


class Change(msgspec.Struct, frozen=True):
    """One change of recorded state, or (op note, no table) one event that changes no row.

    `set` holds column values, `doc` what is kept in the event alone, `mark` the column that points to that event.
    """

    kind: str
    stream: Stream
    table: Table | None = None
    op: Op = Op.INSERT
    key: dict[str, Any] = {}
    set: dict[str, Any] = {}
    doc: Any = None
    mark: str = ""
    refs: Sequence[Ref] = ()
    blobs: Sequence[str] = ()
    subjects: Sequence[str] = ()
    derived_from: Sequence[Ref] = ()
    calls: Sequence[tuple[str, str]] = ()
