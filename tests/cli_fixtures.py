"""A store with content, and the command line as a function: `run`, and `ask` for --json."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from doors.cli.content import fill, fill_with_hostile_text
from doors.cli.run_content import fill_with_hostile_runs, fill_with_runs
from perdure.cli.main import cli

Run = Callable[..., Result]


@pytest.fixture(scope="session")
def originals(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Stores that are filled once; tests get copies."""
    folder = tmp_path_factory.mktemp("originals")
    fill(f"sqlite:///{folder}/agent.db")
    fill_with_hostile_text(f"sqlite:///{folder}/hostile.db")
    fill_with_runs(f"sqlite:///{folder}/runs.db")
    fill_with_hostile_runs(f"sqlite:///{folder}/hostile-runs.db")
    return folder


@pytest.fixture
def store_path(originals: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(originals / "agent.db", tmp_path / "filled.db"))


@pytest.fixture
def url(store_path: Path) -> str:
    return f"sqlite:///{store_path}"


@pytest.fixture
def hostile_url(originals: Path, tmp_path: Path) -> str:
    return f"sqlite:///{shutil.copy(originals / 'hostile.db', tmp_path / 'hostile.db')}"


@pytest.fixture
def runs_url(originals: Path, tmp_path: Path) -> str:
    return f"sqlite:///{shutil.copy(originals / 'runs.db', tmp_path / 'runs.db')}"


@pytest.fixture
def hostile_runs_url(originals: Path, tmp_path: Path) -> str:
    return f"sqlite:///{shutil.copy(originals / 'hostile-runs.db', tmp_path / 'hostile-runs.db')}"


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Run a command in this process, in a folder of its own, with nothing from the caller's environment."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))  # which is not there
    for name in ("PERDURE_STORE", "PERDURE_TENANT", "PERDURE_ACTOR", "PERDURE_DEBUG", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)

    def call(*words: object, **env: str) -> Result:
        return CliRunner(env=env).invoke(cli, [str(word) for word in words])

    return call


@pytest.fixture
def ask(run: Run) -> Callable[..., Any]:
    """Run a command with --json; what it printed, parsed."""

    def call(*words: object) -> Any:
        result = run(*words, "--json")
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    return call
