"""A run of OpenAI Agents is killed and continued: every payment once, no recorded answer asked for again. Stock pays twice.

Needs the environment that `make adapters` makes; skipped without it.
"""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
from pathlib import Path

import pytest

import perdure

ROOT = Path(__file__).resolve().parents[4]
PROGRAM = Path(__file__).with_name("openai_run.py")
_spec = importlib.util.spec_from_file_location("adapters_tool", ROOT / "tools" / "adapters.py")
adapters_tool = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(adapters_tool)

HOME = adapters_tool.place("openai-agents")
pytestmark = pytest.mark.skipif(
    not (HOME / "installed").is_file(), reason="openai-agents is not there: `make adapters` gets it"
)
ANSWERS = 3
FEW = (7, 17, 29)  # points of the quick run; all of them with PERDURE_ROUNDS


def live(mode: str, url: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [str(HOME / "bin" / "python"), str(PROGRAM), mode, url, str(folder)]
    own = {**os.environ, "OPENAI_AGENTS_DISABLE_TRACING": "1", **environment}
    own.pop("PYTHONPATH", None)
    return subprocess.run(command, env=own, capture_output=True, text=True, timeout=300, check=False)


def lines(folder: Path, name: str) -> list[str]:
    return (folder / name).read_text().split() if (folder / name).exists() else []


def answers_kept(url: str, path: Path) -> int:
    if not path.exists():
        return 0
    try:
        with perdure.open(url, read_only=True) as store:
            return len([each for each in store.effects(tool="openai.model") if each.state == "committed"])
    except perdure.NotFound:  # killed before the store had its tenant
        return 0


def survived(folder: Path, **first: str) -> bool:
    """Live once with a kill and then to the end; whether it was killed at all."""
    url = f"sqlite:///{folder}/agent.db"
    before = live("durable", url, folder, **first)
    killed = before.returncode == -signal.SIGKILL
    assert killed or before.returncode == 0, before.stderr
    kept, asked = answers_kept(url, folder / "agent.db"), len(lines(folder, "asked"))
    after = live("durable", url, folder)
    assert after.returncode == 0, after.stderr
    assert sorted(lines(folder, "world")) == ["a", "b", "c"]
    assert len(lines(folder, "asked")) - asked == ANSWERS - kept  # a recorded answer is not asked for again
    with perdure.open(url) as store:
        assert store.verify().ok
    return killed


def test_a_kill_inside_the_tool_pays_once(tmp_path):
    assert survived(tmp_path, KILL_IN_TOOL="1")


def test_control_stock_pays_twice(tmp_path):
    killed = live("stock", str(tmp_path / "stock.db"), tmp_path, KILL_IN_TOOL="1")
    assert killed.returncode == -signal.SIGKILL
    live("stock", str(tmp_path / "stock.db"), tmp_path)
    assert lines(tmp_path, "world").count("a") == 2


@pytest.mark.parametrize("point", FEW)
def test_a_kill_at_a_point_pays_once(tmp_path, point):
    survived(tmp_path, PERDURE_CRASH_AT=f"*:{point}")


@pytest.mark.skipif("PERDURE_ROUNDS" not in os.environ, reason="a long run: PERDURE_ROUNDS")
def test_a_kill_at_every_point_pays_once(tmp_path):
    point = 0
    while True:
        point += 1
        folder = tmp_path / str(point)
        folder.mkdir()
        if not survived(folder, PERDURE_CRASH_AT=f"*:{point}"):
            break
    assert point > 20
