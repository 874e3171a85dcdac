"""Rows beside memory: a mapping that keeps so many entries, and lets the rest lie in a temporary database.

For folds of a stream of any length: keys and values are plain data. An entry that cannot lie there (a number that is too long)
stays in memory. Not for two threads. Caller: `planes.audit.rebuild`.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from typing import Any

import apsw
import msgspec

from perdure.stores.statements import Statement, Statements

Q = Statements("perdure.stores", "spilled.sql")
MOST = 50_000
PAGE = 1_000

_encode, _decode = msgspec.msgpack.encode, msgspec.msgpack.decode


class SpilledMapping(MutableMapping[tuple[Any, ...], Any]):
    """Entries by key; those that were set last are in memory."""

    __slots__ = ("_bound", "_database", "_recent")

    def __init__(self) -> None:
        self._recent: dict[tuple[Any, ...], Any] = {}
        self._database: apsw.Connection | None = None
        self._bound = MOST

    def __setitem__(self, key: tuple[Any, ...], value: Any) -> None:
        self._recent[key] = value
        if len(self._recent) > self._bound:
            self._spill()

    def __getitem__(self, key: tuple[Any, ...]) -> Any:
        if key in self._recent or self._database is None:
            return self._recent[key]
        for (row,) in self._ask(Q.get, key=_encode(key)):
            return _decode(row)
        raise KeyError(key)

    def __delitem__(self, key: tuple[Any, ...]) -> None:
        stood = self._recent.pop(key, None) is not None
        if self._database is not None:
            self._ask(Q.drop, key=_encode(key))
            stood = stood or self._database.changes() > 0
        if not stood:
            raise KeyError(key)

    def __len__(self) -> int:
        return sum(1 for _ in self) if self._database is not None else len(self._recent)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        yield from self._recent
        after = b""
        while self._database is not None:
            page = self._ask(Q.page, after=after, limit=PAGE)
            for key, _ in page:
                found = tuple(_decode(key))
                if found not in self._recent:
                    yield found
            if len(page) < PAGE:
                return
            after = page[-1][0]

    def _spill(self) -> None:
        if self._database is None:
            self._database = apsw.Connection("")  # a temporary file, which goes with it
            self._ask(Q.made)
        left: dict[tuple[Any, ...], Any] = {}
        with self._database:
            for key, value in self._recent.items():
                try:
                    self._ask(Q.put, key=_encode(key), row=_encode(value))
                except (OverflowError, TypeError):
                    left[key] = value
        self._recent = left
        self._bound = MOST + len(left)

    def _ask(self, statement: Statement, **params: Any) -> list[Any]:
        assert self._database is not None
        return list(self._database.execute(statement.text("sqlite", params), params))
