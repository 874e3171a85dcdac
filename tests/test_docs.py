"""Docs are tests: the README's example and commands run as they stand there, in an empty folder, by a new user."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(language: str) -> list[str]:
    return [text for found, text in BLOCK.findall(README) if found == language]


def run(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    env = {
        **os.environ,
        "PERDURE_STORE": "sqlite:///agent.db",
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False, timeout=120)


@pytest.fixture
def example(tmp_path: Path) -> Path:
    (example,) = blocks("python")
    (tmp_path / "example.py").write_text(example)
    done = run(tmp_path, sys.executable, "example.py")
    assert done.returncode == 0, done.stderr
    assert "Login fails on Safari" in done.stdout
    return tmp_path


def test_the_example_runs_and_a_second_run_adds_no_second_turn(example: Path) -> None:
    again = run(example, sys.executable, "example.py")
    assert again.returncode == 0, again.stderr
    assert again.stdout.count("Login fails on Safari") == 1


def test_every_command_runs(example: Path) -> None:
    commands = [line for text in blocks("") for line in text.splitlines() if line.startswith("perdure ")]
    assert len(commands) >= 4
    for line in commands:
        done = run(example, *line.split())
        assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"


def test_a_broken_example_would_be_noticed(tmp_path: Path) -> None:
    """The control: the same harness on an example with a name that does not exist."""
    (tmp_path / "example.py").write_text(blocks("python")[0].replace("session.say", "session.utter"))
    assert run(tmp_path, sys.executable, "example.py").returncode != 0
