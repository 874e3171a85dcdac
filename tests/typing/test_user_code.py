"""A type checker passes on user code of both colours, and catches what is wrong in it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def check(*files: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "basedpyright", "--pythonpath", sys.executable, "--level", "error"]
    return subprocess.run([*command, *map(str, files)], capture_output=True, text=True, check=False, timeout=300)


def test_user_code_of_both_colours_is_typed() -> None:
    done = check(HERE / "user_sync.py", HERE / "user_async.py")
    assert done.returncode == 0, done.stdout


SYNC = [
    "turn.seq.upper()",
    "session.say(7)",
    "session.say('robot', 'x')",
    "session.close('banana')",
    "session.transcript('banana')",
    "session.utter('x')",
    "session.gaol = 'x'",
    "perdure.Sesion",
]
ASYNC = ["session.goal = 'x'", "await session.say('robot', 'x')", "perdure.aopn('memory:')"]


def test_mistakes_are_caught(tmp_path: Path) -> None:
    """The control: the checker does look, at every one of them."""
    files = [mistaken(tmp_path / f"sync_{i}.py", "user_sync.py", 4, wrong) for i, wrong in enumerate(SYNC)]
    files += [mistaken(tmp_path / f"async_{i}.py", "user_async.py", 8, wrong) for i, wrong in enumerate(ASYNC)]
    said = check(*files).stdout
    assert [file.read_text().splitlines()[-1] for file in files if f"{file.name}:" not in said] == []


def mistaken(path: Path, right: str, indent: int, wrong: str) -> Path:
    path.write_text((HERE / right).read_text() + " " * indent + wrong + "\n")
    return path
