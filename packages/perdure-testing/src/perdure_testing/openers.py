"""Openers: how the contract suite gets at the store under test. A test opens it as often as it needs, also twice at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perdure.handles.opening import aopen
from perdure.handles.opening import open as open_store
from perdure_testing.clock import FakeClock

if TYPE_CHECKING:
    from perdure.handles.aio.store import AsyncStore
    from perdure.handles.sync.store import Store


class Opener:
    """Opens the store under test: `with opener() as store`. `shared` says whether a second open sees the first one's data."""

    def __init__(self, url: str, **options: Any) -> None:
        self.url = url
        self.clock = FakeClock()
        self.options: dict[str, Any] = {"clock": self.clock, **options}
        self.shared = not url.startswith("memory:")

    def __call__(self, **options: Any) -> Store:
        """Open it."""
        return open_store(self.url, **(self.options | options))


class AsyncOpener(Opener):
    """An opener for the async suite: `async with await opener() as store`."""

    async def __call__(self, **options: Any) -> AsyncStore:  # type: ignore[override]
        """Open it."""
        return await aopen(self.url, **(self.options | options))
