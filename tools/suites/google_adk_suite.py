"""The tests of Google ADK for its services, with ours in the place of `SqliteSessionService`, of the artifact services and of
`InMemoryMemoryService`.
"""

from __future__ import annotations

import importlib
from typing import Any

import pytest
from plugged import Counting, url_for, used

from perdure.adapters.google_adk import PerdureArtifactService, PerdureMemoryService, PerdureSessionService

PRIVATE = "it looks into the private dictionaries or tables of the stock class"
BACKEND = "it is about a service of Google Cloud, or a database of the framework's own"
DRIFT = "it asks for what the framework did before 2.0; its own class does not do that any more"
EXCEPT = {
    "GCS": BACKEND,
    "DATABASE": BACKEND,
    "test_session_state[": DRIFT,
    "test_create_new_session_will_merge_states[": DRIFT,
    "test_add_session_to_memory": PRIVATE,
    "test_add_session_with_no_events": PRIVATE,
}


class SqliteSessionService(PerdureSessionService):
    """Made as the stock class is."""

    def __init__(self, db_path: Any = ":memory:", **_named: Any) -> None:
        used(self)
        super().__init__(url_for(":memory:" if db_path == ":memory:" else db_path))


class InMemorySessionService(SqliteSessionService):
    """Made as the stock class is."""

    def __init__(self) -> None:
        super().__init__()


class InMemoryArtifactService(PerdureArtifactService):
    """Made as the stock classes are: each has a store of its own."""

    def __init__(self, root_dir: Any = ":memory:") -> None:
        used(self)
        super().__init__(url_for(root_dir))


class InMemoryMemoryService(PerdureMemoryService):
    """Made as the stock class is."""

    def __init__(self) -> None:
        used(self)
        super().__init__(url_for(":memory:"))


PLACES = {
    SqliteSessionService: ("google.adk.sessions.sqlite_session_service",),
    InMemorySessionService: ("google.adk.sessions.in_memory_session_service", "google.adk.sessions"),
    InMemoryArtifactService: ("google.adk.artifacts.in_memory_artifact_service", "google.adk.artifacts"),
    InMemoryMemoryService: ("google.adk.memory.in_memory_memory_service", "google.adk.memory"),
}


def pytest_configure(config: pytest.Config) -> None:
    """Take the place of the stock classes before any test module is imported."""
    for ours, modules in PLACES.items():
        for module in modules:
            setattr(importlib.import_module(module), ours.__name__, ours)
    config.pluginmanager.register(Counting(EXCEPT))
