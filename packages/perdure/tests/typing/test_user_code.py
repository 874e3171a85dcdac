"""Two type checkers pass on user code of both colours, and reject every mistake that is planted in it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
CHECKERS = {
    "basedpyright": ["--pythonpath", sys.executable, "--level", "error", str(HERE)],
    "mypy": ["--strict", "--python-executable", sys.executable, "--no-pretty", str(HERE)],
}
WRONG = re.compile(r"# wrong$")
SAID = re.compile(r"(\w+\.py):(\d+):.*\berror: ", re.MULTILINE)


def planted() -> set[tuple[str, int]]:
    """Where the mistakes are: file and line."""
    lines = ((path.name, path.read_text("utf-8").splitlines()) for path in HERE.glob("*_*sync.py"))
    return {(name, at) for name, text in lines for at, line in enumerate(text, 1) if WRONG.search(line)}


def said_by(checker: str, cache: Path) -> set[tuple[str, int]]:
    """What a checker finds in this folder. It runs once for all of it: that takes most of its time."""
    options = ["--cache-dir", str(cache)] if checker == "mypy" else []
    command = [sys.executable, "-m", checker, *options, *CHECKERS[checker]]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600, cwd=cache)
    assert done.returncode == 1, done.stdout + done.stderr
    found = {(file, int(line)) for file, line in SAID.findall(done.stdout)}
    return {each for each in found if each[0] != Path(__file__).name}


@pytest.mark.parametrize("checker", CHECKERS)
def test_mistakes_are_rejected_and_nothing_else_is(checker: str, tmp_path: Path) -> None:
    wrong, said = planted(), said_by(checker, tmp_path)
    assert len(wrong) > 100
    assert (sorted(wrong - said), sorted(said - wrong)) == ([], [])
