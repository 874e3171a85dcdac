"""Sweeps of kills for frameworks that have an environment of their own: the program's side, and the test's side.

A program kills one life at each crash point (see `lives`), and prints what the outside world saw. A test runs it with the Python
of the framework's environment, which `make adapters` makes; it is skipped without it.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from adapters.lives import Life, points_of, sample, swept_at

ROOT = Path(__file__).resolve().parents[4]
FULL = "PERDURE_ROUNDS" in os.environ
ONCE = ["charged 5", "charged 7"]  # in one answer; the next one says that it is done
ANSWERS = 2
SLOW_SECONDS = 0.02


def happened(life: Life, line: str) -> bool:
    """Whether the outside world saw a line: what a probe, or a person, looks up."""
    path = life.folder / "seen"
    return path.exists() and line in path.read_text().splitlines()


def slowed(program: Callable[[Life], None]) -> Callable[[Life], None]:
    """A program on a slow disk."""

    def slow(life: Life) -> None:
        life.slow_seconds = SLOW_SECONDS
        program(life)

    return slow


def report(programs: Mapping[str, Callable[[Life], None]], mode: str, folder: str, most: str) -> None:
    """Kill a program at each of its points or some, and print the cases as JSON. Modes with "twice": two lives in a row die."""
    program = programs[mode]
    count = points_of(program, Path(folder) / "whole")
    cases = []
    numbers = sample(count, int(most) or None)
    for number, case in swept_at(program, Path(folder), numbers, 2 if "twice" in mode else 1):
        error = case.folder / "error"
        cases.append({
            "point": number, "killed": case.killed, "end": case.end, "charged": case.named("charged"),
            "error": error.read_text()[-1500:] if case.end and error.exists() else "", "answers": case.count("answer"),
            "unrecorded": case.unrecorded,
        })  # fmt: skip
    sys.stdout.write(json.dumps({"points": count, "cases": cases}))


class Sweeps(NamedTuple):
    """The sweeps of one framework: its program, whose agent charges two cards, and the Python that has the framework, if any."""

    name: str
    program: Path
    python: Path | None

    def run(self, mode: str, folder: Path, most: int = 8) -> dict[str, Any]:
        """Kill at so many points of a control, or with PERDURE_ROUNDS at all of them, and print what came of it."""
        found = self._sweep(mode, folder, most)
        tell("control", self.name, mode, counted(found))
        return found

    def check(self, mode: str, folder: Path) -> None:
        """Each card is charged once, and no recorded answer is paid for again. A busy machine may pass fewer points."""
        found = self._sweep(mode, folder, 8)
        tell("swept", self.name, mode, counted(found))
        assert sum(bool(case["killed"]) for case in found["cases"]) * 2 > len(found["cases"])
        assert wrong(found) == []

    def _sweep(self, mode: str, folder: Path, most: int) -> dict[str, Any]:
        assert self.python is not None
        return sweep(self.python, self.program, mode, folder, most)


def python_of(name: str, module: str) -> Path | None:
    """The Python that has a framework: this one, or that of the framework's environment; None if it was not made."""
    with contextlib.suppress(ModuleNotFoundError):  # of `google`, of which `google.adk` is a part
        if importlib.util.find_spec(module) is not None:
            return Path(sys.executable)
    spec = importlib.util.spec_from_file_location("adapters_tool", ROOT / "tools" / "adapters.py")
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    home = tool.place(name)
    return home / "bin" / "python" if (home / "installed").is_file() else None


def sweep(python: Path, program: Path, mode: str, folder: Path, most: int = 8) -> dict[str, Any]:
    """Run a program of sweeps in an environment; all points with PERDURE_ROUNDS."""
    command = [str(python), str(program), mode, str(folder), "0" if FULL or not most else str(most)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr[-3000:]
    return json.loads(ran.stdout)


def tell(what: str, name: str, mode: str, numbers: dict[str, int]) -> None:
    """Print a row of the table that `tools/kill_sweeps.py` shows. what: swept, or control, where something must happen twice."""
    sys.stdout.write(f"\n{what} {name} {mode}: {json.dumps(numbers)}\n")


def counted(found: dict[str, Any]) -> dict[str, int]:
    """What came of the cases. paid again: answers that a commit had kept, and asked for again; stranded: without an end."""
    cases = found["cases"]
    return {
        "points": len(cases), "killed": sum(bool(case["killed"]) for case in cases), "twice": twice(found),
        "lost": sum(not set(ONCE) <= set(case["charged"]) for case in cases), "paid again": sum(map(is_paid_again, cases)),
        "stranded": sum(bool(case["end"]) for case in cases), "unrecorded": sum(case["unrecorded"] for case in cases),
    }  # fmt: skip


def is_paid_again(case: dict[str, Any]) -> bool:
    """Whether a recorded answer was asked for again. One that no commit had kept when its process died nobody can know of."""
    return case["answers"] > ANSWERS + case["unrecorded"]


def wrong(found: dict[str, Any]) -> list[Any]:
    """The cases in which something was done twice, lost or not finished, or a recorded answer was paid for again."""
    return [
        case for case in found["cases"]
        if case["end"] or case["charged"] != ONCE or is_paid_again(case)
    ]  # fmt: skip


def twice(found: dict[str, Any]) -> int:
    """In how many cases something happened twice."""
    return sum(len(case["charged"]) > len(set(case["charged"])) for case in found["cases"])


def pays_once(python: Path, page: str, folder: Path) -> None:
    """The example of an adapter's page dies after it has paid; started again, it comes to its end and has paid once."""
    blocks = re.findall(
        r"^```python\n(.*?)^```$", (ROOT / "docs/adapters" / page).read_text(), re.MULTILINE | re.DOTALL
    )
    (text,) = [block for block in blocks if "--crash" in block]
    (folder / "payer.py").write_text(text)
    first = subprocess.run([python, "payer.py", "--crash"], cwd=folder, capture_output=True, check=False)
    assert first.returncode == -9, first.stderr
    second = subprocess.run([python, "payer.py"], cwd=folder, capture_output=True, text=True, check=False)
    assert second.returncode == 0, second.stderr
    assert (folder / "bank.txt").read_text().splitlines() == ["invoice-7"]
    assert second.stdout.strip() == "Done: paid invoice-7"
