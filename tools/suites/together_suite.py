"""Our own tests of all frameworks in one process (adapters/together). Nothing is replaced, and nothing is left out."""

from __future__ import annotations

import pytest
from plugged import Counting

EXCEPT: dict[str, str] = {}


def pytest_configure(config: pytest.Config) -> None:
    """Count every test."""
    config.pluginmanager.register(Counting(EXCEPT, ours=True))
