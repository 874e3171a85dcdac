"""The runtime tests of langgraph (whole graphs), with `PerdureSaver` in the place of `SqliteSaver` and `AsyncSqliteSaver`.

The graphs of the tests hold classes of their own, so the saver gets the serializer that the stock savers have.
"""

from __future__ import annotations

import os
from typing import Any

os.environ.setdefault("NO_DOCKER", "true")  # theirs: no servers that only their own compose file starts

import langgraph.checkpoint.sqlite
import langgraph.checkpoint.sqlite.aio
import pytest
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from plugged import Counting, url_for, used

from perdure.adapters.langgraph import PerdureSaver

DRIFT = "the stock saver fails it too, with this version of langchain-core"
SECONDS = "it compares elapsed seconds, or the order that sleeps give: on a busy machine it fails now and then, with any saver"
EXCEPT = {
    "test_weather_subgraph": DRIFT,
    "test_stream_subgraphs_during_execution": SECONDS,
    "test_imp_nested": SECONDS,
}


class SqliteSaver(PerdureSaver):
    """Made as the stock class is."""

    @classmethod
    def from_conn_string(cls, conn_string: str, **options: Any) -> Any:
        """A store of its own for each place that a test names."""
        made = cls(url_for(conn_string), serde=JsonPlusSerializer(), **options)
        used(made)
        return made


# Before any test module is imported, and the conftest of the tests, which comes before `pytest_configure`.
langgraph.checkpoint.sqlite.SqliteSaver = SqliteSaver  # type: ignore[misc]
langgraph.checkpoint.sqlite.aio.AsyncSqliteSaver = SqliteSaver  # type: ignore[misc]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Only tests on the replaced savers: the others never see ours."""
    items[:] = [item for item in items if "sqlite" in item.nodeid]


def pytest_configure(config: pytest.Config) -> None:
    """Count."""
    config.pluginmanager.register(Counting(EXCEPT))
