"""A store to import into, the samples, and importing as a function."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure_agents.importers.file_import import import_files
from perdure_agents.importers.report import ImportReport

FOREIGN = Path(__file__).parents[3] / "tests" / "fixtures" / "foreign"

Take = Callable[..., ImportReport]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Any]:
    with perdure.open(f"sqlite:///{tmp_path}/into.db", actor="importer") as opened:
        yield opened


@pytest.fixture
def take(store: Any) -> Take:
    """Import files into the store."""

    def run(*paths: Path, **options: Any) -> ImportReport:
        return import_files(store, paths, **options)

    return run
