"""A type checker passes on user code of both colours, and catches what is wrong in it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


def check(*files: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "basedpyright", "--pythonpath", sys.executable, "--level", "error"]
    return subprocess.run([*command, *map(str, files)], capture_output=True, text=True, check=False, timeout=300)


def test_user_code_of_both_colours_is_typed() -> None:
    done = check(HERE / "user_sync.py", HERE / "user_async.py")
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("wrong", ["turn.seq.upper()", "session.say(7)", "session.utter('x')"])
def test_a_mistake_is_caught(tmp_path: Path, wrong: str) -> None:
    """The control: the checker does look."""
    (tmp_path / "wrong.py").write_text((HERE / "user_sync.py").read_text() + f"    {wrong}\n")
    assert check(tmp_path / "wrong.py").returncode != 0
