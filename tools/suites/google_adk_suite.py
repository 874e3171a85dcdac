"""The tests of Google ADK for its services, with ours in the place of `SqliteSessionService`, of the artifact services and of
`InMemoryMemoryService`.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest
from plugged import Counting, url_for, used

from perdure_adapters.google_adk import PerdureArtifactService, PerdureMemoryService, PerdureSessionService

PRIVATE = "it looks into the private dictionaries or tables of the stock class"
PLACE = (
    "it asks where the stock class puts its files, and which paths it refuses for that; ids and names are no paths here"
)
SLASH = (
    "its version of the framework refuses any slash in an id; the installed one does not, and ids are told apart here"
)
BACKEND = "it is about a service of Google Cloud, or a database of the framework's own"
OTHERS = ("vertex_ai", "firestore", "redis", "gcs", "v0_storage", "pickle", "windows")
EXCEPT = {
    "GCS": BACKEND,
    "DATABASE": BACKEND,
    "test_add_session_to_memory": PRIVATE,
    "test_add_session_with_no_events": PRIVATE,
    "test_add_events_to_memory": PRIVATE,
    "test_append_event_when_session_is_same_ref_as_storage_session": PRIVATE,
    "test_sqlite_session_service_": PLACE,
    "[has/slash]": SLASH,
    "[back\\\\slash]": SLASH,
    "test_file_metadata_camelcase": PLACE,
    "test_file_list_artifact_versions": PLACE,
    "test_file_save_artifact_rejects_out_of_scope_paths": PLACE,
    "test_file_save_artifact_rejects_absolute_path_within_scope": PLACE,
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

    async def list_artifact_versions(self, **asked: Any) -> Any:
        """The tests know the scheme of the stock class."""
        return [_as_stock(each) for each in await super().list_artifact_versions(**asked)]

    async def get_artifact_version(self, **asked: Any) -> Any:
        """As above."""
        return _as_stock(await super().get_artifact_version(**asked))


def _as_stock(found: Any) -> Any:
    uri = found and found.canonical_uri.replace("perdure://", "memory://")
    return found and found.model_copy(update={"canonical_uri": uri})


class FileArtifactService(InMemoryArtifactService):
    """Made as the stock class is."""


class InMemoryMemoryService(PerdureMemoryService):
    """Made as the stock class is."""

    def __init__(self) -> None:
        used(self)
        super().__init__(url_for(":memory:"))


PLACES = {
    SqliteSessionService: ("google.adk.sessions.sqlite_session_service",),
    InMemorySessionService: ("google.adk.sessions.in_memory_session_service", "google.adk.sessions"),
    InMemoryArtifactService: ("google.adk.artifacts.in_memory_artifact_service", "google.adk.artifacts"),
    FileArtifactService: ("google.adk.artifacts.file_artifact_service", "google.adk.artifacts"),
    InMemoryMemoryService: ("google.adk.memory.in_memory_memory_service", "google.adk.memory"),
}


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Modules about other services: they need packages that only those need, and never see ours."""
    return True if any(word in collection_path.name for word in OTHERS) else None


def pytest_configure(config: pytest.Config) -> None:
    """Take the place of the stock classes before any test module is imported."""
    for ours, modules in PLACES.items():
        for module in modules:
            setattr(importlib.import_module(module), ours.__name__, ours)
    config.pluginmanager.register(Counting(EXCEPT))
