"""Every contract class on every store, in both colours."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from stores.files import rebuilt

HERE = Path(__file__).parent


@pytest.fixture(params=["memory", "sqlite", "postgres", "files"])
def store_url(request: pytest.FixtureRequest, tmp_path):
    urls = {"memory": lambda: "memory:", "sqlite": lambda: f"sqlite:///{tmp_path}/agent.db",
            "files": lambda: f"files:///{tmp_path}/agent",
            "postgres": lambda: request.getfixturevalue("postgres_store")}  # fmt: skip
    yield urls[request.param]()
    changes_rows_itself = "altered" in request.node.name
    if request.param == "files" and (tmp_path / "agent").is_dir() and not changes_rows_itself:
        rebuilt.check(tmp_path / "agent")  # whatever the contract does, the log alone gives the same tables


@pytest.fixture
def store_options(tmp_path):
    return {"artifacts": f"file://{tmp_path}/blobs"}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Async on files is for the long runs: its lane and its cache are those of SQLite. The summary counts what is left out."""
    if "PERDURE_ROUNDS" in os.environ:
        return
    ours = [item for item in items if item.path.is_relative_to(HERE)]  # the hook sees the items of all folders
    left_out = [item for item in ours if "::TestAsync" in item.nodeid and "[files" in item.nodeid]
    config.hook.pytest_deselected(items=left_out)
    gone = set(left_out)
    items[:] = [item for item in items if item not in gone]
