"""The store tests of langgraph-checkpoint-sqlite, with `PerdureStore` in the place of `SqliteStore` and `AsyncSqliteStore`."""

from __future__ import annotations

import asyncio
from typing import Any

import langgraph.store.sqlite
import langgraph.store.sqlite.aio
import langgraph.store.sqlite.base
import pytest
from plugged import Counting, url_for, used

from perdure_adapters.langgraph import PerdureStore

TABLES = "it looks into the tables of the stock class with sqlite3"
SQL = "it is about SQL that the stock class builds; no part of a filter or namespace becomes SQL here"
LOOP = "it expects that sync calls fail in an event loop; here one object serves both"
EXCEPT = {
    "test_store.py::test_vector_store_initialization": TABLES,
    "test_nonnull_migrations": SQL,
    "test_escape_glob_literal": SQL,
    "test_namespace_match_pattern": SQL,
    "test_list_namespaces_prefix_uses_indexable_condition": SQL,
    "test_sql_injection_vulnerability": SQL,
    "test_no_running_loop": LOOP,
}


class SqliteStore(PerdureStore):
    """Made as the stock class is."""

    @classmethod
    def from_conn_string(cls, conn_string: str, **options: Any) -> Any:
        """A store of its own for each place that a test names."""
        made = cls(url_for(conn_string), **options)
        used(made)
        return made


class AsyncSqliteStore(SqliteStore):
    """Made as the stock class is; its setup and sweeping are awaited."""

    async def setup(self) -> None:  # type: ignore[override]
        """Nothing."""

    async def sweep_ttl(self) -> int:  # type: ignore[override]
        """In the event loop."""
        return await self.asweep_ttl()

    async def start_ttl_sweeper(self, sweep_interval_minutes: float | None = None) -> Any:  # type: ignore[override]
        """A task that ends with the sweeper."""
        return asyncio.wrap_future(super().start_ttl_sweeper(sweep_interval_minutes))

    async def stop_ttl_sweeper(self, timeout: float | None = None) -> bool:  # type: ignore[override] # noqa: ASYNC109 - theirs
        """In a thread: it waits."""
        return await asyncio.to_thread(super().stop_ttl_sweeper, timeout)


def pytest_configure(config: pytest.Config) -> None:
    """Take the place of the stock classes before any test module is imported."""
    for module in (langgraph.store.sqlite, langgraph.store.sqlite.base, langgraph.store.sqlite.aio):
        module.SqliteStore = SqliteStore  # type: ignore[attr-defined]
        module.AsyncSqliteStore = AsyncSqliteStore  # type: ignore[attr-defined]
    config.addinivalue_line("markers", "flaky(retries): theirs; here nothing is tried again")
    config.pluginmanager.register(Counting(EXCEPT))
