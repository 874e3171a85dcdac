"""Cases of workers, as real processes: how soon an idle one begins, and how soon another goes on when one is killed."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import perdure
from perdure.errors import Unavailable
from perdure.handles.working import tree
from perdure.planes.execution import steps
from perdure_evaluate.bench.case import Benchmark, Context, Figure, at_most, users_environment
from perdure_evaluate.bench.step_notes import begin, takeover

APP = "perdure_evaluate.bench.step_notes"
PATIENCE_SECONDS = 60.0
LOOK_SECONDS = 0.05
IDLE_SECONDS = (0.2, 0.3)  # how long a worker has nothing to do before the next start
RUNS = 10  # at work in the process that is killed
NS = 1e9


@contextlib.contextmanager
def _workers(url: str, folder: Path, processes: int) -> Iterator[subprocess.Popen[bytes]]:
    """A `perdure worker` with so many processes, until the end of the block; what it says goes into a file."""
    command = [sys.executable, "-m", "perdure", "worker", APP, "--processes", str(processes), "--grace", "1ms"]
    with (folder / "worker.log").open("wb") as out:
        worker = subprocess.Popen(command, env=users_environment() | {"PERDURE_STORE": url}, stdout=out, stderr=out)  # noqa: S603
    try:
        yield worker
    finally:
        worker.terminate()
        worker.wait()


def _until(check: Callable[[], Any], what: str) -> Any:
    """The first result of a check that is not nothing."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        result = check()
        if result:
            return result
        time.sleep(LOOK_SECONDS)
    raise Unavailable(f"it did not come within {PATIENCE_SECONDS:g} s: {what}", path="bench")


def _all_there(store: Any, processes: int) -> list[Any]:
    """The workers, once all of them and a standby live; else nothing."""
    workers = [worker for worker in tree(store).workers if worker.alive and worker.about is not None]
    return workers if len(workers) > processes else []


# -- beginning -------------------------------------------------------------------------------------------------


def _begun_ms(url: str, folder: Path, count: int) -> list[float]:
    """How long it took from each start to the first step in the idle worker, in milliseconds, sorted."""
    with perdure.open(url) as store, _workers(url, folder, 1):
        _until(lambda: _all_there(store, 1), "a worker")
        store.start(begin).result(timeout=PATIENCE_SECONDS)
        return sorted(_one_start_ms(store) for _ in range(count))


def _one_start_ms(store: Any) -> float:
    time.sleep(random.uniform(*IDLE_SECONDS))  # not always at the same point of its waiting
    started_ns = time.monotonic_ns()
    at_ns, _ = store.start(begin).result(timeout=PATIENCE_SECONDS)
    return (at_ns - started_ns) / NS * 1e3


def _begin(name: str, url: str, folder: Path, count: int, target_ms: float) -> list[Figure]:
    times_ms = _begun_ms(url, folder, count)
    detail = f"p50 of {count} starts; least {times_ms[0]:.3g}, most {times_ms[-1]:.3g} ms"
    return [
        at_most(f"from start to the first step in an idle worker, {name}", statistics.median(times_ms), target_ms, "ms", detail)
    ]  # fmt: skip


def begin_sqlite(context: Context) -> list[Figure]:
    """From `start` to the first step in an idle worker on SQLite."""
    with context.scratch() as folder:
        return _begin("SQLite", f"sqlite:///{folder}/bench.db", folder, context.count(50, 5), 50)


def begin_postgres(context: Context) -> list[Figure]:
    """Begin on PostgreSQL."""
    assert context.postgres is not None
    with context.scratch() as folder:
        return _begin("PostgreSQL", context.postgres, folder, context.count(50, 5), 20)


# -- going on --------------------------------------------------------------------------------------------------


def _taken_over_seconds(url: str, folder: Path) -> list[float]:
    """How long after the SIGKILL of their process each of its runs had done its next step in another, sorted."""
    with perdure.open(url) as store:
        handles = [store.start(takeover) for _ in range(RUNS)]
        with _workers(url, folder, 2):  # the first of them is ready before the second is started, and takes all
            _until(lambda: _all_there(store, 2), "two workers and a standby")
            _until(lambda: all(_steps(handle) for handle in handles), "a step of each run")
            victim = max(_all_there(store, 2), key=lambda worker: len(worker.runs))
            theirs = [handle for handle in handles if handle.id in {held.run for held in victim.runs}]
            seconds = _struck(victim.about.pid, theirs)
        for handle in handles:
            handle.cancel()
        return seconds


def _struck(pid: int, handles: list[Any]) -> list[float]:
    """Kill a process; when each of its runs did its next step elsewhere."""
    struck_ns = time.monotonic_ns()
    os.kill(pid, signal.SIGKILL)
    open_handles = {handle.id: handle for handle in handles}
    next_ns: dict[str, int] = {}

    def look() -> bool:
        for name in [*open_handles]:
            elsewhere = [at_ns for at_ns, by in _steps(open_handles[name]) if by != pid]
            if elsewhere:
                next_ns[name] = elsewhere[0]
                del open_handles[name]
        return not open_handles

    _until(look, "the next step of every run")
    return sorted((at_ns - struck_ns) / NS for at_ns in next_ns.values())


def _steps(handle: Any) -> list[list[int]]:
    """The notes of the steps of a run, in order."""
    return [note.value for note in handle._read(steps.steps)]


def _takeover(name: str, url: str, context: Context) -> list[Figure]:
    rounds: list[list[float]] = []
    for _ in range(context.count(3)):
        with context.scratch() as folder:
            rounds.append(_taken_over_seconds(url or f"sqlite:///{folder}/bench.db", folder))
    worst = max(rounds, key=lambda times: times[-1])
    detail = f"of {len(worst)} runs the first after {worst[0]:.2f} s, p50 {statistics.median(worst):.2f} s"
    detail += f"; the last in each round: {', '.join(f'{times[-1]:.2f}' for times in rounds)} s"
    return [
        at_most(f"after a worker's SIGKILL until all its runs did their next step, {name}", worst[-1], 1, "s", detail)
    ]


def takeover_sqlite(context: Context) -> list[Figure]:
    """Ten runs of a worker that is killed go on in others, on SQLite."""
    return _takeover("SQLite", "", context)


def takeover_postgres(context: Context) -> list[Figure]:
    """Take over on PostgreSQL."""
    assert context.postgres is not None
    return _takeover("PostgreSQL", context.postgres, context)


CASES = [
    Benchmark("begin", "from start to the first step in an idle worker, SQLite", begin_sqlite),
    Benchmark(
        "begin-postgres",
        "from start to the first step in an idle worker, PostgreSQL",
        begin_postgres,
        needs_postgres=True,
    ),
    Benchmark("takeover", "ten runs of a killed worker continue in others, SQLite", takeover_sqlite),
    Benchmark(
        "takeover-postgres",
        "ten runs of a killed worker continue in others, PostgreSQL",
        takeover_postgres,
        needs_postgres=True,
    ),
]
