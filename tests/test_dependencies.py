"""Each import from another distribution is declared in pyproject.toml: `deptry`, as in `make check`, and its control."""

from __future__ import annotations

import re
import subprocess
import sysconfig
from pathlib import Path

import pytest

from sources import ROOT

COMMANDS = [
    line.split()[1:] for line in re.findall(r"(?m)^\t(\.venv/bin/deptry .*)$", (ROOT / "Makefile").read_text("utf-8"))
]


def check(*words: str, folder: Path = ROOT) -> tuple[int, int, str]:
    """What deptry makes of a folder: its exit code, the files that it has read, its text."""
    deptry = Path(sysconfig.get_path("scripts"), "deptry")
    command = [deptry, "--no-ansi", "--config", ROOT / "pyproject.toml", *words]
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    (count,) = re.findall(r"Scanning (\d+) files?", ran.stderr)
    return ran.returncode, int(count), ran.stderr


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: words[-1])
def test_every_import_is_declared(words: list[str]) -> None:
    code, count, text = check(*words)
    assert code == 0, text
    assert count > 600


def test_control_an_import_that_is_declared_nowhere_is_seen(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("import msgspec\nimport httpcore\n")
    code, count, text = check("--ignore", "DEP002", ".", folder=tmp_path)
    assert (code, count) == (1, 1)
    assert "'httpcore' imported but" in text
    assert "msgspec" not in text.replace("'msgspec' is", "")
