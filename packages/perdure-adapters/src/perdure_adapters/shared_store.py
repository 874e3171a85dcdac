"""The open store of an adapter: given, or opened by a URL once for all objects of this process that name it.

Frameworks make one object for each conversation; they share one lane, one heartbeat and one set of threads. Callers: the
adapters.
"""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Any, Self

import perdure
from perdure.errors import Invalid
from perdure.handles.aio.store import AsyncStore
from perdure.handles.sync.store import Store

_mutex = threading.Lock()
_opened: dict[str, tuple[Store, int]] = {}


class SharedStore:
    """A store in both colours. One that was opened here by its URL is closed with the last object that uses it."""

    __slots__ = ("_url", "aio", "sync")

    def __init__(self, store: Any) -> None:
        self._url = store if isinstance(store, str) else None
        if isinstance(store, AsyncStore):
            self.sync, self.aio = store.sync, store
        elif isinstance(store, (str, Store)):
            self.sync = _open_once(store) if isinstance(store, str) else store
            self.aio = self.sync.aio
        else:
            raise Invalid(f"expected a URL or an open store, got {type(store).__name__}", path="store")

    def close(self) -> None:
        """Let it go. Calling it again does nothing."""
        url, self._url = self._url, None
        if url is None:
            return
        with _mutex:
            store, users = _opened.pop(url)
            if users > 1:
                _opened[url] = (store, users - 1)
        if users == 1:
            store.close()


class ClosedByBlock:
    """An object that a block closes, sync or async."""

    __slots__ = ()

    def close(self) -> None:
        """Let the store go."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _open_once(url: str) -> Store:
    with _mutex:
        store, users = _opened.get(url) or (perdure.open(url), 0)
        _opened[url] = (store, users + 1)
    return store
