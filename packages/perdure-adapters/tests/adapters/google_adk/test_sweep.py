"""kill -9 at every commit and send of an agent of Google ADK: a tool is called once, a recorded answer is not paid for again.

Needs the environment that `make adapters` makes. A sample of the points of one mode; all points of all modes with PERDURE_ROUNDS.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from adapters.sweeping import FULL, Sweeps, pays_once, python_of, twice, wrong

SWEEPS = Sweeps("google-adk", Path(__file__).with_name("sweep.py"), python_of("google-adk", "google.adk"))
pytestmark = pytest.mark.skipif(SWEEPS.python is None, reason="google-adk is not there: `make adapters` gets it")
MODES = [
    "again", "sqlite", "unsafe", "unsafe-again", "files", "slow", "slow-again", "streamed", "streamed-again", "twice",
    "unsafe-twice",
]  # fmt: skip


@pytest.mark.parametrize("mode", MODES if FULL else MODES[:1])
def test_a_kill_at_every_point(mode: str, tmp_path: Path) -> None:
    SWEEPS.check(mode, tmp_path)


@pytest.mark.parametrize("mode", ["stock", "stock-again", "forgets"] if FULL else ["stock"])
def test_control_it_is_called_twice(mode: str, tmp_path: Path) -> None:
    assert twice(SWEEPS.run(mode, tmp_path, most=0)) > 0


def test_control_a_message_sent_again_is_paid_for_again(tmp_path: Path) -> None:
    found = SWEEPS.run("asks-anew", tmp_path)
    assert twice(found) == 0
    assert wrong(found) != []


def test_the_example_of_the_page_is_killed_and_pays_once(tmp_path: Path) -> None:
    pays_once(SWEEPS.python, "google-adk.md", tmp_path)
