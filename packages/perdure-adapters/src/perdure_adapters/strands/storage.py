"""`PerdureStorage`: bytes under keys for Strands (snapshots, offloaded context, memory files), as values of one scope.

    scope strands.storage      KEY ─▶ bytes; a version each time that it is written

Keys are as the framework's own storages have them: slashes collapse, `..` and backslashes are refused.
"""

from __future__ import annotations

import builtins
import copy
from typing import Any

from strands.storage.search.keyword import KeywordSearchStrategy  # pyright: ignore[reportMissingImports]
from strands.storage.storage import _NAMESPACED, StorageSearchResult, _normalize_key, _normalize_prefix  # pyright: ignore[reportMissingImports]
from strands.types.exceptions import StorageError  # pyright: ignore[reportMissingImports]

from perdure.errors import Invalid
from perdure.handles.aio.values import AsyncValues
from perdure.handles.atomic import Atomic
from perdure.handles.listing import aevery, every
from perdure_adapters.shared_store import SharedStore

SCOPE = "strands.storage"


class PerdureStorage:
    """For `Agent(storage=…)` and `SnapshotSessionManager(storage=…)`. store: a URL or an open store.

    search_strategy: the framework's; by default words that a query and an entry share. A write is durable when it returns.
    """

    def __init__(self, store: Any, *, search_strategy: Any = None) -> None:
        self._shared = SharedStore(store)
        self._search_strategy = search_strategy
        self._prefix = ""

    async def write(self, key: str, data: bytes) -> None:
        """Store data under a key; the version before stays in the log. Raises StorageError for a key that cannot be kept."""
        name = _normalize_key(key)
        try:
            await (await self._values()).set(self._prefix + name, bytes(data))
        except Invalid as error:
            raise StorageError(f"Failed to write '{key}': {error}") from error
        if self._search_strategy is not None:
            try:
                await self._search_strategy.index(self, name, data)
            except Exception as error:
                raise StorageError(f"Wrote '{key}' but indexing failed") from error

    async def read(self, key: str) -> bytes | None:
        """The bytes of a key; None if it is not there."""
        name = _normalize_key(key)
        try:
            return await (await self._values()).get(self._prefix + name)
        except Invalid as error:
            raise StorageError(f"Failed to read '{key}': {error}") from error

    async def delete(self, key: str) -> None:
        """Let a key go. Idempotent."""
        name = _normalize_key(key)
        try:
            await (await self._values()).unset(self._prefix + name)
        except Invalid as error:
            raise StorageError(f"Failed to delete '{key}': {error}") from error

    async def list(self, query: str = "") -> builtins.list[str]:
        """The keys that begin with a text, sorted."""
        prefix = self._prefix + _normalize_prefix(query)
        values = await self._values()
        names = [entry.name async for entry in aevery(values.entries, prefix=prefix or None)]
        return sorted(name.removeprefix(self._prefix) for name in names)

    async def search(self, query: str) -> builtins.list[StorageSearchResult]:
        """The entries that answer a query, the best first, by the search strategy."""
        return await (self._search_strategy or KeywordSearchStrategy()).search(self, query)

    def namespace(self, prefix: str) -> PerdureStorage:
        """The entries below a prefix, as a storage of their own, of the same class and on the same store."""
        name = _normalize_prefix(prefix).rstrip("/")
        scoped = copy.copy(self)
        scoped._prefix = f"{self._prefix}{name}/" if name else self._prefix
        scoped._namespaced = _NAMESPACED  # type: ignore[attr-defined]
        return scoped

    def clear(self) -> None:
        """Let every entry go that this instance sees, in one commit."""
        self._shared.sync.atomic(self._clear)

    def close(self) -> None:
        """Let the store go, if it was opened here; with it those of `namespace`."""
        self._shared.close()

    async def _values(self) -> AsyncValues:
        return await self._shared.aio.scope(SCOPE)

    def _clear(self, tx: Atomic) -> None:
        values = tx.scope(SCOPE)
        for entry in [*every(values.entries, prefix=self._prefix or None)]:
            values.unset(entry.name)
