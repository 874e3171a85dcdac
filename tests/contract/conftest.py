"""Every contract class on every store, in both colours."""

from __future__ import annotations

import asyncio
import inspect
import os

import pytest

from perdure.testing.openers import AsyncOpener, Opener
from stores.files import rebuilt


@pytest.fixture(params=["memory", "sqlite", "postgres", "files"])
def opener(request: pytest.FixtureRequest, tmp_path):
    urls = {"memory": lambda: "memory:", "sqlite": lambda: f"sqlite:///{tmp_path}/agent.db",
            "files": lambda: f"files:///{tmp_path}/agent",
            "postgres": lambda: request.getfixturevalue("postgres_store")}  # fmt: skip
    kind = AsyncOpener if request.cls.__name__.startswith("TestAsync") else Opener
    if request.param == "files" and kind is AsyncOpener and "PERDURE_ROUNDS" not in os.environ:
        pytest.skip("async on files is for the long runs (PERDURE_ROUNDS): lane and cache are those of SQLite")
    yield kind(urls[request.param](), artifacts=f"file://{tmp_path}/blobs")
    changes_rows_itself = "altered" in request.node.name
    if request.param == "files" and (tmp_path / "agent").is_dir() and not changes_rows_itself:
        rebuilt.check(tmp_path / "agent")  # whatever the contract does, the log alone gives the same tables


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function):
    """Run coroutine tests; an event loop of their own each."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = pyfuncitem._fixtureinfo.argnames
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True
