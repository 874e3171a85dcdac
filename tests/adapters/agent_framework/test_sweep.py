"""kill -9 at every commit and send of Agent Framework: a tool is called once, a recorded answer is not paid for again.

Needs the environment that `make adapters` makes. A sample of the points of one mode; all points of all modes with PERDURE_ROUNDS.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from adapters.sweeping import FULL, pays_once, python_of, sweep, twice, wrong

PROGRAM = Path(__file__).with_name("sweep.py")
PYTHON = python_of("agent-framework")
pytestmark = pytest.mark.skipif(PYTHON is None, reason="agent-framework-core is not there: `make adapters` gets it")
ONCE = ["charged 5", "charged 7"]
MODES = ["again", "sqlite", "async", "stream", "unsafe", "unsafe-again", "files"]


@pytest.mark.parametrize("mode", MODES if FULL else MODES[:1])
def test_a_kill_at_every_point(mode: str, tmp_path: Path) -> None:
    found = sweep(PYTHON, PROGRAM, mode, tmp_path)
    assert sum(bool(case["killed"]) for case in found["cases"]) * 2 > len(found["cases"])
    # A message that is sent again is a new question to the model.
    assert wrong(found, ONCE, None if mode.endswith("again") else 2) == []


@pytest.mark.parametrize("mode", ["stock", "stock-again", "forgets", "no-barrier"] if FULL else ["stock"])
def test_control_it_is_called_twice(mode: str, tmp_path: Path) -> None:
    assert twice(sweep(PYTHON, PROGRAM, mode, tmp_path, most=0)) > 0


def test_the_example_of_the_page_is_killed_and_pays_once(tmp_path: Path) -> None:
    pays_once(PYTHON, "agent-framework.md", tmp_path)
