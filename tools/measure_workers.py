"""Measure workers on PostgreSQL: short runs for each CPU-second, rollbacks and deadlocks, by the number of workers.

`python tools/measure_workers.py [--workers 1,2,4,8] [--runs 2500] [--source DIR …]`. Each round has a server of its own, on which
all runs are ready before the workers begin; their start is not measured. DIR is the `src` folder of another checkout, to be
measured in the same session: rounds of the checkouts alternate. Prints one JSON line a round, with the load of the machine.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from perdure_testing.postgres import PostgresServer

HERE = Path(__file__).resolve().parents[1] / "packages" / "perdure" / "src"
APP = """
import asyncio, sys
import perdure

@perdure.agent(name="short")
async def short(run: perdure.AsyncRun, number: int) -> int:
    return await run.step(once, number)

def once(number: int) -> int:
    return number

async def start(url: str, count: int) -> None:
    async with await perdure.aopen(url) as store:
        for first in range(0, count, 200):
            await asyncio.gather(*(store.start(short, number) for number in range(first, min(count, first + 200))))

if __name__ == "__main__":
    asyncio.run(start(sys.argv[1], int(sys.argv[2])))
"""
STATS = "SELECT xact_rollback, deadlocks FROM pg_stat_database WHERE datname = current_database()"
LOOK_SECONDS = 0.1
GIVE_UP_SECONDS = 1_800.0
TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds(belongs: Callable[[list[str]], bool]) -> float:
    """The CPU time of some processes and of their children that have ended. belongs: chooses them by the parts of their stat."""
    ticks = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parts = stat.read_text(encoding="utf-8").rpartition(")")[2].split()
        except OSError:
            continue
        if belongs(parts):
            ticks += sum(map(int, parts[11:15]))
    return ticks / TICKS


def until(check: Callable[[], Any]) -> None:
    """Wait for it."""
    deadline = time.monotonic() + GIVE_UP_SECONDS
    while not check():
        if time.monotonic() > deadline:
            raise SystemExit("gave up")
        time.sleep(LOOK_SECONDS)


@contextmanager
def working(url: str, folder: Path, environment: dict[str, str], count: int) -> Iterator[int]:
    """A `perdure worker` with so many processes, in a session of its own, whose number it gives."""
    command = [sys.executable, "-m", "perdure", "worker", "short_runs", "--processes", str(count)]
    with (folder / "worker.log").open("wb") as out:
        started = subprocess.Popen(
            command,
            env=environment | {"PERDURE_STORE": url},
            cwd=folder,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
    try:
        yield started.pid
    finally:
        started.terminate()
        started.wait()


class Round:
    """One number of workers of one checkout, on a server of its own."""

    def __init__(self, source: Path, workers: int, runs: int) -> None:
        self._source, self._workers, self._runs = source, workers, runs
        self._connections = 0

    def play(self) -> dict[str, Any]:
        """Gives the figures."""
        with tempfile.TemporaryDirectory() as name, PostgresServer.start(Path(name) / "server") as server:
            folder = Path(name)
            (folder / "short_runs.py").write_text(APP, encoding="utf-8")
            environment = os.environ | {"PYTHONPATH": f"{self._source}:{folder}"}
            url = server.url(schema="w")
            start = [sys.executable, str(folder / "short_runs.py"), url, str(self._runs)]
            subprocess.run(start, env=environment, check=True)
            with psycopg.connect(server.url(), autocommit=True, options="-c search_path=w") as raw:
                raw.execute("UPDATE runs SET agent = 'held'")  # nobody takes them before all workers are there
                with working(url, folder, environment, self._workers) as session:
                    until(lambda: self._count(raw, "workers") > self._workers)
                    return self._measured(raw, session, int((server.data / "postmaster.pid").read_text().split()[0]))

    def _measured(self, raw: psycopg.Connection[Any], session: int, postmaster: int) -> dict[str, Any]:
        def sample() -> tuple[float, float, float, int, int]:
            workers = cpu_seconds(lambda parts: parts[3] == str(session))
            database = cpu_seconds(lambda parts: parts[1] == str(postmaster)) + self._of_ended(postmaster)
            (found,) = raw.execute(STATS).fetchall()
            return time.monotonic(), workers, database, found[0], found[1]

        before = sample()
        raw.execute("UPDATE runs SET agent = 'short'")
        until(lambda: self._is_over(raw))
        seconds, cpu, server_cpu, rollbacks, deadlocks = (b - a for a, b in zip(before, sample(), strict=True))
        return {
            "source": str(self._source), "workers": self._workers, "runs": self._runs,
            "runs per CPU-second of workers": round(self._runs / cpu, 1),
            "runs per CPU-second with the server's": round(self._runs / (cpu + server_cpu), 1),
            "runs per second": round(self._runs / seconds, 1), "rollbacks per run": round(rollbacks / self._runs, 4),
            "deadlocks": deadlocks, "most connections": self._connections, "load": os.getloadavg()[0],
        }  # fmt: skip

    @staticmethod
    def _of_ended(postmaster: int) -> float:
        parts = Path(f"/proc/{postmaster}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        return sum(map(int, parts[13:15])) / TICKS

    def _is_over(self, raw: psycopg.Connection[Any]) -> bool:
        found = raw.execute("SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'perdure-%'").fetchone()
        self._connections = max(self._connections, found[0] if found else 0)
        return self._count(raw, "runs WHERE status = 'completed'") >= self._runs

    @staticmethod
    def _count(raw: psycopg.Connection[Any], rows: str) -> int:
        found = raw.execute(f"SELECT count(*) FROM {rows}".encode()).fetchone()
        return 0 if found is None else found[0]


def main() -> None:
    """Read the command line, and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", default="1,2,4,8")
    parser.add_argument("--runs", type=int, default=2_500)
    parser.add_argument("--source", type=Path, action="append", default=[])
    options = parser.parse_args()
    for workers in map(int, options.workers.split(",")):
        for source in (HERE, *options.source):
            print(json.dumps(Round(source, workers, options.runs).play()), flush=True)


if __name__ == "__main__":
    main()
