"""The examples that have a folder: run as they stand, killed at the boundaries on the way, and run again: nothing lost or twice.

`PERDURE_CRASH_AT=*:n` kills at the n-th crash point of any name. Without PERDURE_ROUNDS some of them are tried, spread over the
whole run; with it, every one.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import forked

EXAMPLES = Path(__file__).parent.parent / "examples"
TRIES = 5
COUNTING = """
import atexit, os, runpy, sys
from pathlib import Path
from perdure.model import crash_points
reached = []
crash_points.arm("*", lambda: reached.append(1))
atexit.register(lambda: Path(os.environ["REACHED"]).write_text(str(len(reached))))
del sys.argv[0]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
PROGRAMS: dict[str, tuple[str, ...]] = {
    "five_tasks": ("five_tasks.py", "--store", "sqlite"),
    "five_tasks-files": ("five_tasks.py", "--store", "files"),
    "session_json": ("after.py", "Hello", "Any news?", "Bye"),
    "coding_agent": ("coding_agent.py",),
    "support_agent": ("support_agent.py",),
    "support_agent-v2": ("support_agent.py", "--version", "2"),
    "research_agent": ("research_agent.py",),
}


def copied(name: str, folder: Path) -> Path:
    return Path(shutil.copytree(EXAMPLES / name.partition("-")[0], folder))


def run(folder: Path, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    return forked.run(*words, cwd=folder, env={**os.environ, **env}, timeout=300)


def result(done: subprocess.CompletedProcess[str]) -> list[str]:
    """What an example said; indented lines tell of times and sizes."""
    assert done.returncode == 0, done.stderr
    return [line for line in done.stdout.splitlines() if not line.startswith(" ")]


def killed(folder: Path, point: int, *words: str) -> bool:
    """Whether the example came to this boundary, and died there."""
    status = run(folder, *words, PERDURE_CRASH_AT=f"*:{point}").returncode
    assert status in (0, -9)
    return status == -9


def boundaries(name: str, tmp_path: Path) -> int:
    """How many there are in a run from the beginning."""
    place = tmp_path / "reached"
    result(run(copied(name, tmp_path / "counted"), "-c", COUNTING, *PROGRAMS[name], REACHED=str(place)))
    return int(place.read_text())


@pytest.mark.parametrize("name", PROGRAMS)
def test_killed_at_a_boundary_and_run_again_it_ends_alike(name: str, tmp_path: Path) -> None:
    expected = result(run(copied(name, tmp_path / "whole"), *PROGRAMS[name]))
    count = boundaries(name, tmp_path)
    sys.stdout.write(f"{name}: {count} boundaries\n")
    assert count > 5
    step = 1 if "PERDURE_ROUNDS" in os.environ else max(1, count // TRIES)
    for point in range(1, count + 1, step):
        folder = copied(name, tmp_path / f"at-{point}")
        assert killed(folder, point, *PROGRAMS[name])
        assert result(run(folder, *PROGRAMS[name])) == expected, point
        assert result(run(folder, *PROGRAMS[name])) == expected, point
        if name == "session_json":
            assert (folder / "outbox.txt").read_text().splitlines() == ["re: Hello", "re: Any news?", "re: Bye"]


def test_control_a_session_in_a_json_file_sends_twice(tmp_path: Path) -> None:
    words = ("before.py", "Hello", "Any news?", "Bye")
    twice = 0
    for point in range(1, 10):
        folder = copied("session_json", tmp_path / str(point))
        run(folder, *words, DIE_AT=str(point))
        run(folder, *words)
        sent = (folder / "outbox.txt").read_text().splitlines()
        twice += len(sent) > 3
    assert twice == 3  # once after each message that was sent and not yet written down


def test_tasks_that_go_on_from_what_another_process_did(tmp_path: Path) -> None:
    folder = copied("five_tasks", tmp_path / "x")
    few = result(run(folder, "five_tasks.py", "--tasks", "5"))
    assert '"commits": 5' in few[0]
    more = result(run(folder, "five_tasks.py", "--tasks", "60"))
    assert all('"commits": 60' in line for line in more)


def test_a_second_version_comes_to_tickets_of_the_first(tmp_path: Path) -> None:
    folder = copied("support_agent", tmp_path / "x")
    first = result(run(folder, "support_agent.py"))
    assert "[None, None, None]" in first[-1]
    assert first[0] == "waiting for bob"  # a run of version 1 is open: its customer went in mid-conversation
    killed(folder, 40, "support_agent.py", "--version", "2")
    second = result(run(folder, "support_agent.py", "--version", "2"))
    assert second[1:-1] == first[1:-1]  # the same tickets, and no reply twice
    assert second[0] == "{'said': 'It works, thanks', 'sentiment': 'fine'}"
    assert second[-1] == "['unhappy', 'fine', 'unhappy']"


def test_two_agents_on_one_customer_lose_nothing(tmp_path: Path) -> None:
    folder = copied("support_agent", tmp_path / "x")
    result(run(folder, "support_agent.py", "--version", "2"))
    shutil.rmtree(folder)
    folder = copied("support_agent", tmp_path / "x")
    with (
        forked.Program("support_agent.py", cwd=folder, stdout=subprocess.DEVNULL) as one,
        forked.Program("support_agent.py", cwd=folder, stdout=subprocess.DEVNULL) as other,
    ):
        assert (one.wait(300), other.wait(300)) == (0, 0)
    said = result(run(folder, "support_agent.py"))
    assert said[:2] == ["waiting for bob", "{'ada': ['t1', 't3'], 'bob': ['t2']}"]
    assert (said[2].count("t1"), said[2].count("Did that help?")) == (1, 1)
