"""Which packages are installed where tests run: what needs another one is skipped without it, and the reason names it.

In the workspace all are installed, and nothing is skipped. `tools/prove_packages.py` runs the tests of each package with its own
wheel and those of the siblings that it declares.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from perdure.cli.main import COMMANDS, GROUP
from perdure.model.siblings import declared

STORES = {"files": "perdure-files"}  # kinds of stores that another package brings


def needs(package: str) -> pytest.MarkDecorator:
    """Skip a test where a package is not installed. A package is known by what it declares: a store, or commands."""
    packages = {point.package for group in ("perdure.stores", GROUP) for point in declared(group).values()}
    return pytest.mark.skipif(package not in packages, reason=f"needs {package}")


def stores_here(*cases: Any) -> list[Any]:
    """The cases of a test or a fixture, each with the kind or URL of a store; those of a store that is not here are skipped."""
    return [pytest.param(*_words(case), marks=[needs(STORES[kind]) for kind in _kinds(case)]) for case in cases]


def commands_here() -> list[str]:
    """The commands that are installed: those of the core, and those that siblings declare."""
    installed = declared(GROUP)
    return [name for name, (home, _) in COMMANDS.items() if not _is_package(home) or name in installed]


def for_command(name: str) -> list[pytest.MarkDecorator]:
    """The marks of a case that runs a command: skipped where the package is not installed that brings it."""
    home = COMMANDS[name][0] if name in COMMANDS else ""
    return [needs(home)] if _is_package(home) else []


def _is_package(home: str) -> bool:
    return home.startswith("perdure-")


def _words(case: Any) -> Sequence[Any]:
    return case if isinstance(case, tuple) else (case,)


def _kinds(case: Any) -> set[str]:
    words = {word.partition(":")[0] for word in _words(case) if isinstance(word, str)}
    return words & set(STORES)
