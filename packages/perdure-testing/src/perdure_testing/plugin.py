"""The pytest plugin that runs the contract on any store. pytest finds it by its entry point, under the name `perdure`.

The package that runs the suite defines one fixture, `store_url`, the URL of a new and empty store for each test. It may override
`store_options`, which are passed to `perdure.open` and `perdure.aopen`.
"""

from __future__ import annotations

from typing import Any

import pytest

from perdure_testing.openers import AsyncOpener, Opener


@pytest.fixture
def store_options() -> dict[str, Any]:
    """Options that the store under test is opened with, besides the clock of the suite."""
    return {}


@pytest.fixture
def opener(request: pytest.FixtureRequest, store_url: str, store_options: dict[str, Any]) -> Opener:
    """Opens the store under test, in the colour of the test class."""
    kind = AsyncOpener if request.cls is not None and request.cls.__name__.startswith("TestAsync") else Opener
    return kind(store_url, **store_options)
