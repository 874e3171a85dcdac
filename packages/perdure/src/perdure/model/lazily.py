"""Modules that are loaded when they are first used, so that a new process is back at work sooner (decision 0055).

A plane that most programs never touch is imported under TYPE_CHECKING, where checkers and `tests/test_layers.py` read it, and is
had from here when the program runs. Callers: the handles. A worker loads all of them before it takes a run.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any


class LazyModule:
    """Stands for a module. Every look goes to the module itself, so that a test may change what is in it."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module(self._name), name)


_promised: set[str] = set()  # modules by their names


def lazily(package: str, *names: str) -> list[LazyModule]:
    """These modules of a package, each loaded when something in it is first asked for."""
    _promised.update(f"{package}.{name}" for name in names)
    return [LazyModule(f"{package}.{name}") for name in names]


def load_all() -> None:
    """Load whatever is still to come: for a process that must not meet the code of a newer version halfway."""
    for name in sorted(_promised):
        import_module(name)
