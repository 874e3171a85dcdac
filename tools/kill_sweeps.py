"""Kills an agent of each framework at every commit and every send, and prints what the outside world saw, as a table.

    .venv/bin/python tools/kill_sweeps.py                      all seven, every point of every mode: about half an hour
    .venv/bin/python tools/kill_sweeps.py strands --some       a few points of one

The sweeps are tests (tests/adapters); they run in the environment that has all frameworks (tools/adapters.py, "together"), and
each tells a row. A control is a variant without its protection. It is caught if something happened twice; asks-anew, if an answer
was paid for twice.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
from collections import Counter, deque
from typing import NamedTuple

import adapters

TESTS = adapters.TESTS
# The files of tests of each framework, and which of their tests.
SWEEPS = {
    "langgraph": (("langgraph/test_kills.py",), ""),
    "openai-agents": (("together/test_sweeps.py",), "openai_agents"),
    "google-adk": (("google_adk/test_sweep.py",), "kill or control"),
    "pydantic-ai": (("together/test_sweeps.py", "pydantic_ai/test_sweep.py"), "pydantic_ai and not example"),
    "claude-agent": (("together/test_sweeps.py",), "claude_agent or mirrored or forgets"),
    "strands": (("strands/test_sweep.py",), "kill or control"),
    "agent-framework": (("agent_framework/test_sweep.py",), "kill or control"),
}
NUMBERS = ("points", "killed", "twice", "lost", "paid again", "stranded", "unrecorded")
PAYS_AGAIN = "asks-"  # how controls are named by which nothing is done twice, and answers are paid for twice
ROW = re.compile(r"^(swept|control) (\S+) (\S+): (\{.*\})$", re.MULTILINE)
HEADER = f"{'framework':16} {' '.join(f'{name:>10}' for name in NUMBERS)}  controls caught (at how many points)"


class Row(NamedTuple):
    """The result of one sweep. numbers: by the names of NUMBERS."""

    what: str
    mode: str
    numbers: dict[str, int]

    @property
    def caught(self) -> int:
        """At how many points something was done twice; or paid for twice, where that is what the control does."""
        return self.numbers["paid again" if self.mode.startswith(PAYS_AGAIN) else "twice"]


def rows_in(text: str) -> list[Row]:
    """The rows that tests have told."""
    return [Row(what, mode, json.loads(numbers)) for what, _, mode, numbers in ROW.findall(text)]


def line_of(name: str, rows: list[Row]) -> str:
    """A line of the table: the sweeps added up, and each control with its points."""
    total: Counter[str] = Counter()
    for row in rows:
        total.update(row.numbers if row.what == "swept" else {})
    controls = [row for row in rows if row.what == "control"]
    each = ", ".join(f"{row.mode} {row.caught}/{row.numbers['points']}" for row in controls)
    caught = f"{sum(row.caught > 0 for row in controls)} of {len(controls)}"
    return f"{name:16} {' '.join(f'{total[number]:>10}' for number in NUMBERS)}  {caught} ({each})"


def sweep(name: str, *, some: bool, modes: bool) -> tuple[list[Row], str]:
    """Run the sweeps of a framework: their rows, and what pytest said if one failed. modes: print each row when it is there."""
    files, chosen = SWEEPS[name]
    command = [
        str(adapters.place("together") / "bin" / "python"), "-m", "pytest", "-q", "-s", "-c", os.devnull, "--noconftest",
        "--rootdir", str(TESTS), "--import-mode=importlib", "-p", "no:cacheprovider", "-k", chosen,
        *(str(TESTS / "adapters" / each) for each in files),
    ]  # fmt: skip
    outside = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    environment = {**outside, "PYTHONPATH": adapters.BESIDE, "PERDURE_SUITE_STORE": "sqlite", "PERDURE_ROUNDS": "1"}
    if some:
        del environment["PERDURE_ROUNDS"]
    rows: list[Row] = []
    lines: deque[str] = deque(maxlen=100)  # the last words, of a test that failed
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as running:
        for line in running.stdout or ():
            lines.append(line)
            for row in rows_in(line):
                rows.append(row)
                if modes:
                    print(f"    {row.what} {row.mode}: {json.dumps(row.numbers)}", flush=True)
    return rows, "".join(lines) if running.returncode else ""


def main(arguments: list[str] | None = None) -> int:
    """Run them, print the table; 1 if something was wrong or a control was not caught."""
    parser = argparse.ArgumentParser(description="Kill agents of each framework at every point.")
    parser.add_argument("frameworks", nargs="*", metavar="FRAMEWORK", help=", ".join(SWEEPS))
    parser.add_argument("--some", action="store_true", help="only a few points of one mode")
    parser.add_argument("--modes", action="store_true", help="a line for each mode too")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.frameworks if name not in SWEEPS]
    if unknown:
        parser.error(f"no framework {unknown[0]!r}; there are {', '.join(SWEEPS)}")
    missing = adapters.install("together")
    if missing:
        parser.exit(1, f"the frameworks cannot be had here: {missing}\n")
    print(HEADER)
    is_wrong = False
    for name in options.frameworks or SWEEPS:
        rows, failure = sweep(name, some=options.some, modes=options.modes)
        print(line_of(name, rows), flush=True)
        if failure or not rows:
            is_wrong = True
            print(failure or "no test was run")
    return int(is_wrong)


if __name__ == "__main__":
    raise SystemExit(main())
