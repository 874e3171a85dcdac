"""Measure what an import costs: the most memory of its process, and CPU time, by events and by nested forks.

`python tools/measure_import.py [--events 1000000] [--forks 50,100,200,400,800] [--source DIR]`. Each import is a process of its
own, into a new SQLite store. DIR is the `src` folder of another checkout. Prints one JSON line for each.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parents[1] / "packages" / "perdure" / "src"
TURNS = 500  # of a session, and in one commit
WRITE = """
import sys, perdure
folder, events, forks, turns = sys.argv[1], *map(int, sys.argv[2:])
with perdure.open(f"sqlite:///{folder}/source.db") as store:
    for number in range(events // (turns + 1)):
        store.atomic(lambda tx: [tx.session(f"s{number}").say("user", f"turn {at}: {'x' * 200}") for at in range(turns)])
    session = store.session("root")
    session.say("user", "hello")
    for number in range(forks):
        session = session.fork(name=f"f{number}")
        session.say("user", f"turn {number}")
    print(store.export(f"{folder}/bundle", everything=True).events)
"""
READ = """
import resource, sys, time, perdure
folder = sys.argv[1]
with perdure.open(f"sqlite:///{folder}/target.db") as store:
    before, cpu = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    store.import_(f"{folder}/bundle")
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, before, time.process_time() - cpu)
"""


def _run(source: Path, text: str, *words: object) -> list[str]:
    command = [sys.executable, "-c", text, *map(str, words)]
    return subprocess.run(
        command, env=os.environ | {"PYTHONPATH": str(source)}, check=True, capture_output=True, text=True
    ).stdout.split()


def imported(source: Path, events: int, forks: int) -> dict[str, Any]:
    """One import."""
    with tempfile.TemporaryDirectory() as folder:
        (count,) = _run(source, WRITE, folder, events, forks, TURNS)
        most, before, seconds = map(float, _run(source, READ, folder))
        size = (Path(folder) / "bundle").stat().st_size
    return {
        "source": str(source), "events": int(count), "forks": forks, "bundle MB": round(size / 1e6, 1),
        "most MB": round(most / 1024), "MB before": round(before / 1024), "CPU seconds": round(seconds, 2),
        "CPU ms an event": round(1e3 * seconds / int(count), 3), "load": os.getloadavg()[0],
    }  # fmt: skip


def main() -> None:
    """Read the command line, and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--forks", default="50,100,200,400,800")
    parser.add_argument("--source", type=Path, default=HERE)
    options = parser.parse_args()
    for forks in filter(None, options.forks.split(",")):
        print(json.dumps(imported(options.source, 0, int(forks))), flush=True)
    if options.events:
        print(json.dumps(imported(options.source, options.events, 0)), flush=True)


if __name__ == "__main__":
    main()
