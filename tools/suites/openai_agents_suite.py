"""The session tests of openai-agents, with `PerdureSession` in the place of `SQLiteSession`."""

from __future__ import annotations

from typing import Any

import agents
import agents.memory
import agents.memory.sqlite_session
import pytest
from plugged import Counting, url_for, used

from perdure_adapters.openai_agents import PerdureSession

CONNECTIONS = "it looks into the connections and locks of the stock class"
ROWS = "it writes into, or reads, the tables of the stock class with sqlite3"
EXCEPT = {
    "test_sqlite_session_close_closes_worker_thread_connections": CONNECTIONS,
    "test_sqlite_session_reaps_connections_from_exited_worker_threads": CONNECTIONS,
    "test_sqlite_session_closes_retired_connections_before_the_next_allocation": CONNECTIONS,
    "test_sqlite_session_keeps_connections_of_live_worker_threads": CONNECTIONS,
    "test_sqlite_session_file_lock_is_shared_across_instances": CONNECTIONS,
    "test_sqlite_session_failed_add_items_releases_write_lock": ROWS,
    "test_sqlite_session_failed_clear_session_rolls_back": ROWS,
    "test_sqlite_session_failed_pop_item_releases_write_lock": ROWS,
    "test_sqlite_session_rollback_failure_evicts_connection": CONNECTIONS,
    "test_sqlite_session_close_retries_quarantined_connection": CONNECTIONS,
    "test_sqlite_session_post_commit_cancellation_propagates_after_known_outcome": CONNECTIONS,
    "test_sqlite_session_pop_item_skips_corrupt_most_recent": ROWS,
    "test_sqlite_session_pop_item_returns_none_after_dropping_only_corrupt_rows": ROWS,
    "test_sqlite_session_get_items_limit_skips_corrupt_newest_rows": ROWS,
    "test_sqlite_session_get_items_session_settings_limit_skips_corrupt_rows": ROWS,
    "test_suffix_transaction_rolls_back_failed_insert[sqlite]": ROWS,
    "test_cancelled_suffix_transaction_settles_before_newer_append[sqlite]": CONNECTIONS,
    "test_failed_encrypted_suffix_transaction_preserves_original_tokens[sqlite": ROWS,
    "test_encrypted_pop_authentication_is_atomic_with_concurrent_mutations": ROWS,
    "test_encrypted_pop_wrong_key_preserves_row_identity": ROWS,
    "test_settled_pop_failure_invalidates_response_chain": CONNECTIONS,
    "test_settled_clear_failure_invalidates_response_chain": CONNECTIONS,
}


class SQLiteSession(PerdureSession):
    """Made as the stock class is."""

    def __init__(
        self, session_id: str, db_path: Any = ":memory:", *_tables: str, session_settings: Any = None, **_named: str
    ) -> None:
        used(self)
        self.db_path = db_path
        super().__init__(session_id, url_for(db_path), session_settings=session_settings)


def pytest_configure(config: pytest.Config) -> None:
    """Take the place of the stock class before any test module is imported."""
    for module in (agents, agents.memory, agents.memory.sqlite_session):
        module.SQLiteSession = SQLiteSession  # type: ignore[attr-defined]
    config.pluginmanager.register(Counting(EXCEPT))
