"""Values of many scopes at once: of a scope, and of all scopes below it.

Scopes may form a tree by their names (`users`, `users.42`). A listing reads names only. The newest values are found by their
rows, and only those of the page that is asked for are read. Callers: adapters that keep a tree of namespaces. Keeps P8.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple

from perdure.model.instants import to_datetime
from perdure.planes.memory import values
from perdure.planes.reading.body_reading import doc_of, stored_value
from perdure.planes.reading.row_reading import stored_instant, stored_instant_or_none
from perdure.stores.statements import Statements
from perdure.stores.store import Reads
from perdure.stores.tx import Tx

Q = Statements("perdure.planes.memory", "across.sql")


class ScopeTree(NamedTuple):
    """A scope, and the scopes whose names begin with `below`."""

    first: str
    below: str

    @property
    def beyond(self) -> str | None:
        """The first name after all of them."""
        return values.after_prefix(self.below)


class HeldValue(NamedTuple):
    """A value of one of these scopes. place: where the page after it begins."""

    scope: str
    name: str
    value: Any
    updated_at: datetime
    expires_at: datetime | None
    now: datetime
    place: tuple[int, int, str]


def scopes(reads: Reads, tree: ScopeTree, *, after: str | None = None, limit: int) -> list[str]:
    """The names of scopes in a tree that hold a value now, in the order of their bytes."""
    rows = reads.query(
        Q.scopes_below, tenant=reads.tenant, first=tree.first, below=tree.below, beyond=tree.beyond, after=after, limit=limit
    )  # fmt: skip
    return [name for (name,) in rows]


def newest(reads: Reads, tree: ScopeTree, *, after: HeldValue | None = None, limit: int) -> list[HeldValue]:
    """The values of a tree, those that were set last first."""
    updated_at, stream, name = after.place if after else (None, None, None)
    rows = reads.query(
        Q.values_below, tenant=reads.tenant, first=tree.first, below=tree.below, beyond=tree.beyond, updated_at=updated_at,
        stream=stream, name=name, limit=limit,
    )  # fmt: skip
    return [_held(reads, row) for row in rows]


def _held(reads: Reads, row: tuple[Any, ...]) -> HeldValue:
    scope, stream, name, updated_at, expires_at, seq, body, now = row
    where = f"{scope} seq {seq}"
    return HeldValue(
        scope=scope,
        name=name,
        value=stored_value(doc_of(reads, body, where), where),
        updated_at=stored_instant(updated_at, where),
        expires_at=stored_instant_or_none(expires_at, where),
        now=to_datetime(now),
        place=(updated_at, stream, name),
    )


def sweep(tx: Tx, prefix: str, limit: int) -> int:
    """Take values away whose time has ended, in scopes whose names begin with a prefix. Returns how many."""
    ended = tx.query(Q.values_ended, tenant=tx.tenant, prefix=prefix, limit=limit)
    swept = 0
    for scope, name in ended:
        stream = tx.find_stream("scope", scope)
        swept += stream is not None and values.drop_ended(tx, stream, name)
    return swept
