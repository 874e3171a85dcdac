"""A files store inside a git repository, for tests."""

from __future__ import annotations

import subprocess
from pathlib import Path


def git(folder: Path, *command: str) -> str:
    identity = ["-c", "user.name=me", "-c", "user.email=me@example.org", "-c", "init.defaultBranch=main"]
    done = subprocess.run(["git", *identity, *command], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout


def commit(folder: Path, what: str) -> None:
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", what)


def url(folder: Path) -> str:
    return f"files:///{folder}"
