"""The session tests of openai-agents, with `PerdureSession` in the place of `SQLiteSession`."""

from __future__ import annotations

from typing import Any

import agents
import agents.memory
import agents.memory.sqlite_session
import pytest
from plugged import Counting, url_for, used

from perdure.adapters.openai_agents import PerdureSession

EXCEPT: dict[str, str] = {}


class SQLiteSession(PerdureSession):
    """Made as the stock class is."""

    def __init__(
        self, session_id: str, db_path: Any = ":memory:", sessions_table: str = "", messages_table: str = "",
        session_settings: Any = None,
    ) -> None:  # fmt: skip
        used()
        self.db_path = db_path
        super().__init__(session_id, url_for(db_path), session_settings=session_settings)


def pytest_configure(config: pytest.Config) -> None:
    """Take the place of the stock class before any test module is imported."""
    for module in (agents, agents.memory, agents.memory.sqlite_session):
        module.SQLiteSession = SQLiteSession  # type: ignore[attr-defined]
    config.pluginmanager.register(Counting(EXCEPT))
