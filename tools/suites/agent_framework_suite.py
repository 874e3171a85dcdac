"""The workflow tests of Agent Framework, with `PerdureCheckpointStorage` in the place of `InMemoryCheckpointStorage`.

Its tests keep classes of their own in states: those of the test modules are allowed when they are met.
"""

from __future__ import annotations

from typing import Any

import agent_framework
import agent_framework._workflows._checkpoint as stock
import pytest
from plugged import Counting, url_for, used

from perdure_adapters.agent_framework import PerdureCheckpointStorage
from perdure_adapters.agent_framework.encoding import Encoding, name_of

EXCEPT: dict[str, str] = {}


class OfTheTests(Encoding):
    """Allows the classes of the test modules."""

    def _name(self, cls: type, path: str) -> str:
        if "test_" in cls.__module__:
            self._known[name_of(cls)] = cls
        return super()._name(cls, path)

    def _class_name(self, value: Any, path: str) -> Any:
        if isinstance(value, type) and "test_" in value.__module__:
            self._known[name_of(value)] = value
        return super()._class_name(value, path)


class InMemoryCheckpointStorage(PerdureCheckpointStorage):
    """Made as the stock class is: each has a store of its own."""

    def __init__(self) -> None:
        used(self)
        super().__init__(url_for(":memory:"))
        self._encoding = OfTheTests()


def pytest_configure(config: pytest.Config) -> None:
    """Take the place of the stock class before any test module is imported."""
    for module in (agent_framework, stock):
        module.InMemoryCheckpointStorage = InMemoryCheckpointStorage  # type: ignore[attr-defined]
    config.pluginmanager.register(Counting(EXCEPT))
