"""kill -9 at every point of an agent's run: a tool is called once, and an answer that is recorded is not paid for again.

A sample of the points; all of them, on SQLite and on files, with PERDURE_ROUNDS. The framework as it is serves as control.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip(
    "pydantic_ai.durable_exec",
    reason="Pydantic AI is not here: pip install 'perdure[pydantic-ai]'",
    exc_type=ImportError,
)

FULL = "PERDURE_ROUNDS" in os.environ
ONCE = ["charged 5", "charged 7"]


def sweep(folder: Path, url: str, mode: str) -> dict[str, Any]:
    program = str(Path(__file__).with_name("sweep.py"))
    most = "0" if FULL or mode == "stock" else "8"
    ran = subprocess.run(
        [sys.executable, program, str(folder), url, most, mode], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    return json.loads(ran.stdout)


def wrong(case: dict[str, Any]) -> bool:
    """An answer that no commit had kept when its process died is asked for again: nobody can know of it."""
    answers = {2, 3} if case["unrecorded"] else {2}
    return bool(case["end"]) or case["charged"] != ONCE or case["answers"] not in answers


@pytest.mark.parametrize(
    "kind", ["sqlite", pytest.param("files", marks=pytest.mark.skipif(not FULL, reason="PERDURE_ROUNDS"))]
)
def test_a_kill_at_every_point(kind: str, tmp_path: Path) -> None:
    report = sweep(tmp_path, f"{kind}:///{{}}/agent.db", "perdure")
    # On a busy machine a life may pass fewer points than the counted one, and ends by itself: it must be right, too.
    assert sum(bool(case["killed"]) for case in report["cases"]) * 2 > len(report["cases"])
    assert [case for case in report["cases"] if wrong(case)] == []


def test_control_the_framework_as_it_is_calls_twice_and_pays_twice(tmp_path: Path) -> None:
    report = sweep(tmp_path, "", "stock")
    assert report["cases"]
    assert all(wrong(case) and len(case["charged"]) > 2 for case in report["cases"])


# -- the page ----------------------------------------------------------------------------------------------------------


def example(folder: Path, text: str) -> tuple[list[str], str]:
    """The example of the page, killed inside its tool and then run again; the bank's book, and what the second life printed."""
    (folder / "payer.py").write_text(text)
    first = subprocess.run([sys.executable, "payer.py", "--crash"], cwd=folder, capture_output=True, check=False)
    assert first.returncode == -9, first.stderr
    second = subprocess.run([sys.executable, "payer.py"], cwd=folder, capture_output=True, text=True, check=False)
    assert second.returncode == 0, second.stderr
    return (folder / "bank.txt").read_text().splitlines(), second.stdout


def test_the_example_of_the_page_pays_once_and_asks_once_more(tmp_path: Path) -> None:
    page = Path(__file__).parents[3] / "docs" / "adapters" / "pydantic-ai.md"
    text = page.read_text().partition("```python\n")[2].partition("```\n")[0]
    assert example(tmp_path, text) == (["invoice-7"], "the model is asked\nDone: paid invoice-7\n")
