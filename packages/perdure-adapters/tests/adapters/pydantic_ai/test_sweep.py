"""kill -9 at every point of an agent's run: a tool is called once, and an answer that is recorded is not paid for again.

A sample of the points; all of them, on SQLite and on files, with PERDURE_ROUNDS. The framework as it is serves as control.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from adapters.sweeping import FULL, Sweeps, twice, wrong
from installed import stores_here

pytest.importorskip(
    "pydantic_ai.durable_exec",
    reason="Pydantic AI is not here: pip install 'perdure[pydantic-ai]'",
    exc_type=ImportError,
)

SWEEPS = Sweeps("pydantic-ai", Path(__file__).with_name("sweep.py"), Path(sys.executable))


@pytest.mark.parametrize("mode", stores_here("sqlite", "files") if FULL else ["sqlite"])
def test_a_kill_at_every_point(mode: str, tmp_path: Path) -> None:
    SWEEPS.check(mode, tmp_path)


def test_control_the_framework_as_it_is_calls_twice_and_pays_twice(tmp_path: Path) -> None:
    found = SWEEPS.run("stock", tmp_path, most=0)
    assert found["cases"]
    assert len(wrong(found)) == twice(found) == len(found["cases"])


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
    page = Path(__file__).parents[5] / "docs" / "adapters" / "pydantic-ai.md"
    text = page.read_text().partition("```python\n")[2].partition("```\n")[0]
    assert example(tmp_path, text) == (["invoice-7"], "the model is asked\nDone: paid invoice-7\n")
