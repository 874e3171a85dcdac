"""The storage and session tests of strands-agents, with `PerdureStorage` in the place of `InMemoryStorage`, and
`PerdureSessionRepository` in that of the repository in memory that its tests bring.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest
import strands.storage
import strands.storage.in_memory_storage as stock
from plugged import Counting, url_for, used

from perdure_adapters.strands import PerdureSessionRepository, PerdureStorage

PRIVATE = "it writes into the private dictionary of the stock class"
EPHEMERAL = "it asks what a storage does that forgets everything with its process; ours does not"
EXCEPT = {
    "test_skips_keys_where_read_returns_none": PRIVATE,
    "test_save_includes_inline_stash_for_ephemeral_storage": EPHEMERAL,
    "test_save_omits_stash_when_empty": EPHEMERAL,
    "test_immutable_snapshot_includes_stash": EPHEMERAL,
    "test_ephemeral_detection_survives_namespacing": EPHEMERAL,
    "test_false_with_namespaced_in_memory_storage": EPHEMERAL,
}


class InMemoryStorage(PerdureStorage):
    """Made as the stock class is: each has a store of its own."""

    def __init__(self, *, search_strategy: Any = None) -> None:
        used(self)
        super().__init__(url_for(":memory:"), search_strategy=search_strategy)


class MockedSessionRepository(PerdureSessionRepository):
    """Made as the class of the tests is."""

    def __init__(self) -> None:
        used(self)
        super().__init__(url_for(":memory:"))


def pytest_configure(config: pytest.Config) -> None:
    """Take the place of the stock classes before any test module is imported."""
    for module in (strands.storage, stock):
        module.InMemoryStorage = InMemoryStorage  # type: ignore[attr-defined]
    sys.path.insert(0, str(Path.cwd()))
    importlib.import_module("tests.fixtures.mock_session_repository").MockedSessionRepository = MockedSessionRepository
    config.pluginmanager.register(Counting(EXCEPT))
