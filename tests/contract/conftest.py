"""Every contract class on every store, in both colours."""

from __future__ import annotations

import asyncio
import inspect

import pytest

from perdure.testing.openers import AsyncOpener, Opener


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def opener(request: pytest.FixtureRequest, tmp_path):
    urls = {"memory": lambda: "memory:", "sqlite": lambda: f"sqlite:///{tmp_path}/agent.db",
            "postgres": lambda: request.getfixturevalue("postgres_store")}  # fmt: skip
    kind = AsyncOpener if request.cls.__name__.startswith("TestAsync") else Opener
    return kind(urls[request.param](), artifacts=f"file://{tmp_path}/blobs")


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function):
    """Run coroutine tests; an event loop of their own each."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = pyfuncitem._fixtureinfo.argnames
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True
