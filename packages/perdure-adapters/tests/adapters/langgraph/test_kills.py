"""An agent of LangGraph is killed at commits and sends, in each durability, with a slow disk, resumed or sent its message again.

`lives` says what is counted. `make test` takes some points of each; PERDURE_ROUNDS=1 takes all of them. Keeps P2, P3, P4.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from adapters.sweeping import tell

pytest.importorskip("langgraph", reason="langgraph is not installed")
pytest.importorskip("langchain", reason="langchain is not installed")

LIVES = Path(__file__).parent / "lives.py"
SOME = [14, 22, 25, 28, 33]  # around the calls of the tools
ALL = bool(os.environ.get("PERDURE_ROUNDS"))


def swept(
    subject: str, durability: str, *, slow: bool = False, again: bool = False, points: list[int] | None = None
) -> dict:
    order = {
        "subject": subject,
        "durability": durability,
        "slow": slow,
        "again": again,
        "points": None if ALL else points,
    }
    done = subprocess.run([sys.executable, LIVES, json.dumps(order)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout)
    named = [durability, *["slow"] * slow, *["again"] * again]
    if subject != "perdure":
        named.insert(0, subject.replace(" ", "-"))
    is_swept = subject in ("perdure", "middleware") or (subject == "asks-itself" and not again)
    tell("swept" if is_swept else "control", "langgraph", "-".join(named), found)
    return found


MODES = [
    ("async", True, True),
    ("async", False, False),
    ("async", True, False),
    ("sync", False, False),
    ("sync", False, True),
]


@pytest.mark.parametrize("subject", ["perdure", "middleware"])
@pytest.mark.parametrize(("durability", "slow", "again"), MODES if ALL else MODES[:1])
def test_tools_are_called_and_answers_are_paid_once_wherever_it_is_killed(subject, durability, slow, again):
    found = swept(subject, durability, slow=slow, again=again, points=SOME)
    assert found["killed"] >= len(SOME) - 1
    assert (found["twice"], found["lost"], found["paid again"]) == (0, 0, 0)
    assert (found["early"], found["dropped"]) == (0, 0)


def test_tools_are_called_once_where_a_node_asks_the_model_itself():
    found = swept("asks-itself", "async", slow=True, points=SOME)
    assert (found["twice"], found["lost"], found["paid again"], found["dropped"]) == (0, 0, 0, 0)


@pytest.mark.skipif(
    not ALL, reason="PERDURE_ROUNDS=1: it shows what a node without ask_model pays, and no code of ours"
)
def test_control_a_node_that_asks_the_model_itself_pays_again_when_a_message_is_sent_again():
    found = swept("asks-itself", "async", slow=True, again=True, points=SOME)
    assert found["paid again"] > 0
    assert (found["twice"], found["lost"]) == (0, 0)


def test_control_without_the_barrier_it_is_called_twice():
    found = swept("no barrier", "async", slow=True, points=[*range(18, 34, 2)])
    assert found["twice"] > 0


def test_control_asked_before_its_checkpoint_is_durable_a_model_is_paid_again():
    found = swept("asks-early", "async", slow=True, points=[*range(10, 26, 2)])
    assert found["paid again"] > 0


def test_control_asked_anew_when_a_message_is_sent_again_a_model_is_paid_again():
    found = swept("asks-anew", "sync", again=True, points=[*range(20, 44, 4)])
    assert found["paid again"] > 0


@pytest.mark.parametrize("durability", ["async", "sync", "exit"] if ALL else ["exit"])
def test_control_stock_calls_it_twice(durability):
    found = swept("stock", durability, points=[*range(2, 9)])
    assert found["twice"] > 0
