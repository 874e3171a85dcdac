"""What the verbs for events return: events as people read them, and batches of the feed."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from perdure.model.kinds import is_reserved
from perdure.model.refs import Ref


class EventRecord(msgspec.Struct, frozen=True):
    """One event of the log. Emitted ones (`session.emit`) have no `table`; the others say what changed a row.

    session, uid: name and identity of the stream that holds it. data: what was emitted, or the document of
    the change. about: whom it is about. refs: what it refers to. body: all that it says, as plain JSON. ref:
    how others refer to it. emptied: its body was pruned or erased; the header stays.
    """

    seq: int
    kind: str
    table: str
    actor: str
    at: datetime
    data: Any
    about: tuple[str, ...]
    refs: tuple[Ref, ...]
    session: str
    uid: str
    ref: Ref
    body: dict[str, Any]
    emptied: bool = False

    @property
    def emitted(self) -> bool:
        """Whether `session.emit` made it."""
        return not self.table and not is_reserved(self.kind)


class FoldState(msgspec.Struct, frozen=True):
    """Where a fold has come to: its state, the last event that it holds, and how many were folded to get
    there.
    """

    state: Any
    seq: int
    folded: int
