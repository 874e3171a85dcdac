"""Kills runs on one Python, continues them on another, and prints what the outside world saw, as a table.

    .venv/bin/python tools/python_upgrades.py                  every road between 3.11, 3.12 and 3.13, every point
    .venv/bin/python tools/python_upgrades.py --share 10       some of it
    .venv/bin/python tools/python_upgrades.py --old REF        runs that the Perdure of a commit began, which says no numbering

Their programs are those of packages/perdure/tests/runtime/regrouping.py, and none of them changes: a run that is parked is a
fault, and so is a call that happens twice. Each
Python gets an environment of its own in .cache/pythons, with what requirements/runtime.txt names.
Pythons are looked for on PATH and below PYENV_ROOT; without one of them nothing is shown, and the tool says so and fails.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import random
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple, Self

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "packages" / "perdure" / "src"
CACHE = ROOT / ".cache" / "pythons"
PROGRAMS = ROOT / "tests" / "runtime"
VERSIONS = ("3.11", "3.12", "3.13")
# A life in each, the last one without a death.
ROADS = (
    ("3.11", "3.12"), ("3.12", "3.13"), ("3.11", "3.13"), ("3.12", "3.11"), ("3.11", "3.12", "3.13"), ("3.13", "3.11", "3.12"),
)  # fmt: skip
GROUPINGS = (
    "wait_for",
    "waits",
    "gather",
    "task_group",
    "timeout",
    "deadline",
    "named",
    "children",
    "saga_of_branches",
)

sys.path.insert(0, str(PROGRAMS))
regrouping: Any = importlib.import_module("regrouping")


class NotToBeHad(Exception):
    """A Python, or what is to be installed in it, is not there."""


def interpreter(version: str) -> Path:
    """A Python of this version. NotToBeHad if there is none."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    places = [shutil.which(f"python{version}"), *sorted(pyenv.glob(f"{version}.*/bin/python"), reverse=True)]
    for place in filter(None, places):
        asked = [place, "-c", "import sys; print(*sys.version_info[:2], sep='.')"]
        if subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip() == version:
            return Path(place)
    raise NotToBeHad(f"there is no Python {version} on PATH or in {pyenv}")


def environment(version: str) -> Path:
    """The Python of an environment that has what Perdure needs; made if it is not there."""
    folder = CACHE / version
    python, whole = folder / "bin" / "python", folder / "installed"
    if not whole.exists():
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run([interpreter(version), "-m", "venv", folder], check=True)
        install = [
            "-m",
            "pip",
            "install",
            "--quiet",
            "--require-hashes",
            "--requirement",
            ROOT / "requirements" / "runtime.txt",
        ]
        done = subprocess.run([python, *install], capture_output=True, text=True, check=False)
        if done.returncode:
            raise NotToBeHad(f"Python {version} has no packages: {done.stderr.strip()[-500:]}")
        whole.touch()
    return python


class Lives:
    """A process of one Python, with one Perdure, that lives what it is told; each life is a process of its own."""

    def __init__(self, python: Path, source: Path) -> None:
        self._process = subprocess.Popen(
            [python, PROGRAMS / "regrouping.py", "serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env={**os.environ, "PYTHONPATH": str(source)},
        )  # fmt: skip

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def do(self, *what: Any) -> Any:
        """The result of a life; None if it died, as it was told to."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{json.dumps(what)}\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())


class Road(NamedTuple):
    """The Pythons of one run's lives."""

    versions: tuple[str, ...]
    lives: tuple[Lives, ...]

    def outcome(self, grouping: str, points: tuple[int, ...]) -> tuple[Any, str]:
        """The outcome of a run that is killed at these points, and what is wrong with it."""
        with regrouping.scratch() as folder:
            self.lives[0].do("live", folder, grouping, points[0])
            for life, point in zip(self.lives[1:-1], points[1:], strict=True):
                life.do("survive", folder, grouping, point)
            before = regrouping.seen_in(folder)
            ended = self.lives[-1].do("continued", folder, grouping)
            outcome = regrouping.Outcome(*ended, before, regrouping.seen_in(folder)[len(before) :])
        return outcome, regrouping.fault_of(regrouping.Case(grouping, grouping, points[0]), outcome)

    def cases(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        """Each grouping with each point of its first life; of a second death, one of the first few points."""
        for grouping in GROUPINGS:
            with regrouping.scratch() as folder:
                count = self.lives[0].do("live", folder, grouping, 0)
            for point in range(1, count + 1):
                yield grouping, (point, *(1 + (point + at) % 5 for at in range(len(self.lives) - 2)))


def travel(road: Road, share: float, seed: int) -> Counter[str]:
    """Live some percent of the cases of a road; what came of them."""
    found = [*road.cases()]
    counts: Counter[str] = Counter()
    for grouping, points in sorted(random.Random(seed).sample(found, max(1, round(len(found) * share / 100)))):
        outcome, fault = road.outcome(grouping, points)
        counts["cases"] += 1
        counts["faults"] += bool(fault)
        counts["twice"] += fault.startswith("twice")
        if fault:
            print(" → ".join(road.versions), grouping, points, fault, outcome, flush=True)
    return counts


def source_of(ref: str, folder: str) -> Path:
    """The source of Perdure as it was at a commit."""
    archive = Path(folder, "source.tar")
    below = SOURCE.relative_to(ROOT).as_posix()
    if not subprocess.run(["git", "ls-tree", ref, below], cwd=ROOT, check=True, capture_output=True).stdout:
        below = "src"  # from before the packages
    subprocess.run(["git", "archive", "--output", archive, ref, below], cwd=ROOT, check=True)
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
    return Path(folder, below)


def main() -> None:
    """Travel all roads; exit with 1 if anything was wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--share", type=float, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--old", metavar="REF", help="the first life of each run is lived by the Perdure of this commit"
    )
    options = parser.parse_args()
    total: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        first = source_of(options.old, folder) if options.old else SOURCE
        try:
            pythons = {version: environment(version) for version in VERSIONS}
        except NotToBeHad as error:
            sys.exit(f"{error}: nothing was shown")
        begins = {version: stack.enter_context(Lives(pythons[version], first)) for version in VERSIONS}
        goes_on = {version: stack.enter_context(Lives(pythons[version], SOURCE)) for version in VERSIONS}
        print(f"{'road':20} {'cases':>6} {'twice':>6} {'faults':>6}")
        for versions in (*ROADS, *(((version, version) for version in VERSIONS) if options.old else ())):
            road = Road(versions, (begins[versions[0]], *(goes_on[version] for version in versions[1:])))
            counts = travel(road, options.share, options.seed)
            total += counts
            print(f"{' → '.join(versions):20} {counts['cases']:6} {counts['twice']:6} {counts['faults']:6}", flush=True)
    print(f"{'all':20} {total['cases']:6} {total['twice']:6} {total['faults']:6}")
    if total["faults"]:
        sys.exit(1)


if __name__ == "__main__":
    main()
