"""The session store tests of claude-agent-sdk, with `PerdureSessionStore` in the place of `InMemorySessionStore`."""

from __future__ import annotations

from typing import Any

import claude_agent_sdk
import claude_agent_sdk._internal.session_store as stock
import pytest
from plugged import Counting, url_for, used

from perdure.adapters.claude_agent import PerdureSessionStore

EXCEPT: dict[str, str] = {}


class InMemorySessionStore(PerdureSessionStore):
    """Made as the stock class is: each has a store of its own."""

    def __init__(self) -> None:
        used()
        super().__init__(url_for(":memory:"))

    def get_entries(self, key: Any) -> list[Any]:
        """As tests look into the stock class."""
        import asyncio  # noqa: PLC0415 - a loop may be running here
        from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415

        with ThreadPoolExecutor(1) as thread:
            return thread.submit(lambda: asyncio.run(self.load(key))).result() or []


def pytest_configure(config: pytest.Config) -> None:
    """Take the place of the stock class before any test module is imported."""
    for module in (claude_agent_sdk, stock):
        module.InMemorySessionStore = InMemorySessionStore  # type: ignore[attr-defined]
    config.pluginmanager.register(Counting(EXCEPT))
