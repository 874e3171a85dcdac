"""Measure what the mark costs a `say`: the newest event, noted outside the store (docs/decisions/0147).

`python tools/measure_mark.py [--rounds 600] [--turns 10]`. Rounds with and without the mark alternate in one process, on SQLite
and on PostgreSQL at full sync. Prints one JSON line for each: the first quartiles of CPU (of this process) and of wall time,
which other programs of the machine disturb least, and by how much the mark adds to them.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import perdure
from perdure.stores.rollback_guard import RollbackGuard
from perdure_testing.postgres import PostgresServer


def said(session: perdure.Session, turns: int) -> tuple[float, float]:
    """The microseconds of a turn: of CPU, and in all."""
    wall, cpu = time.perf_counter(), time.process_time()
    for number in range(turns):
        session.say("user", f"turn {number}")
    return (time.process_time() - cpu) / turns * 1e6, (time.perf_counter() - wall) / turns * 1e6


def measured(url: str, rounds: int, turns: int) -> dict[str, Any]:
    """The figures of one store."""
    found: dict[bool, list[tuple[float, float]]] = {True: [], False: []}
    note = RollbackGuard.note
    with perdure.open(url) as store:
        session = store.session("long")
        said(session, turns)
        for number in range(2 * rounds):
            marks = bool(number % 2)
            RollbackGuard.note = note if marks else lambda *_: None  # type: ignore[method-assign]
            found[marks].append(said(session, turns))
    RollbackGuard.note = note  # type: ignore[method-assign]
    (cpu, wall), (bare_cpu, bare_wall) = (
        [statistics.quantiles(column)[0] for column in zip(*found[marks], strict=True)] for marks in (True, False)
    )
    return {
        "store": url.partition(":")[0], "CPU µs": round(cpu, 1), "CPU µs without": round(bare_cpu, 1),
        "wall µs": round(wall, 1), "wall µs without": round(bare_wall, 1), "CPU, more": round(cpu / bare_cpu - 1, 4),
        "wall, more": round(wall / bare_wall - 1, 4), "load": os.getloadavg()[0],
    }  # fmt: skip


def main() -> None:
    """Read the command line, and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=600)
    parser.add_argument("--turns", type=int, default=10)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, PostgresServer.start(Path(folder) / "server") as server:
        os.environ["XDG_STATE_HOME"] = folder
        for url in (f"sqlite:///{folder}/agent.db", server.url(schema="m")):
            print(json.dumps(measured(url, options.rounds, options.turns), ensure_ascii=False), flush=True)


if __name__ == "__main__":
    main()
