"""The session store tests of claude-agent-sdk, with `PerdureSessionStore` in the place of `InMemorySessionStore`."""

from __future__ import annotations

from typing import Any

import claude_agent_sdk
import claude_agent_sdk._internal.session_store as stock
import pytest
from plugged import Counting, url_for, used

from perdure.handles.listing import every
from perdure_adapters.claude_agent import PerdureSessionStore

LOOP = "it counts turns of the event loop, in which only a store in memory has answered"
MTIMES = "it writes into the private dictionary of instants of the stock class"
EXCEPT = {
    "test_load_concurrency_is_bounded": LOOP,
    "test_gap_fill_bounded_concurrency": LOOP,
    "test_eager_flush_mode_appends_per_frame_before_result": LOOP,
    "test_cancelled_after_mkdtemp_cleans_temp_dir": LOOP,
    "test_continue_picks_most_recent": MTIMES,
    "test_continue_skips_sidechain_sessions": MTIMES,
    "test_continue_tie_break_is_deterministic": MTIMES,
}


class InMemorySessionStore(PerdureSessionStore):
    """Made as the stock class is: each has a store of its own."""

    def __init__(self) -> None:
        used(self)
        super().__init__(url_for(":memory:"))

    def get_entries(self, key: Any) -> list[Any]:
        """As tests look into the stock class."""
        return self._load(key) or []

    @property
    def size(self) -> int:
        """How many main transcripts there are; of the stock class too."""
        return len(self._main())

    def clear(self) -> None:
        """Delete everything; of the stock class too."""
        for header in self._main():
            self._delete(self._get(header, "claude.key"))

    def _main(self) -> list[Any]:
        sessions = list(every(self._opened.sync.sessions))
        return [each for each in sessions if any(label.startswith("claude-project:") for label in each.labels)]


def pytest_configure(config: pytest.Config) -> None:
    """Take the place of the stock class before any test module is imported."""
    for module in (claude_agent_sdk, stock):
        module.InMemorySessionStore = InMemorySessionStore  # type: ignore[attr-defined]
    config.pluginmanager.register(Counting(EXCEPT))
