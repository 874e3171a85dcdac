"""Real workers for tests: `perdure worker` in a process, what it logs, and what its agents say they did."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import perdure
from forked import Program
from perdure.handles.working import tree

HERE = Path(__file__).parent
PATIENCE_SECONDS = 60.0  # a bound, not a speed: these machines are shared


def until(check: Callable[[], Any], what: str = "") -> Any:
    """What a check gives as soon as it gives anything."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        found = check()
        if found:
            return found
        time.sleep(0.01)
    raise AssertionError(f"it did not come: {what or check}")


def whole_lines(path: Path) -> list[str]:
    """Those of a file that others write to, if it is there: its last line may not be written to its end yet."""
    return path.read_text().rpartition("\n")[0].splitlines() if path.exists() else []


class Said(NamedTuple):
    """One line of a witness."""

    at: int
    pid: int
    what: str
    run: str
    number: int


class Crew:
    """One `perdure worker`, with its children."""

    def __init__(self, url: str, folder: Path, *words: str, **env: str) -> None:
        self.folder = folder
        self.log = folder / "worker.log"
        usual = ["--log-json", "--poll", "200ms", "--grace", "100ms"]  # at its end a test waits for no run
        command = ["-m", "perdure", "worker", "worker_app", *usual, *words]
        environment = os.environ | {"PERDURE_STORE": url, "WITNESS": str(folder / "witness"), **env}
        with self.log.open("ab") as out:
            self.program = Program(*command, cwd=HERE, env=environment, stderr=out, stdout=out)

    def logged(self, message: str, **fields: Any) -> list[dict[str, Any]]:
        """The log records with this message and these fields."""
        lines = [json.loads(line) for line in whole_lines(self.log) if line.startswith("{")]
        return [each for each in lines if each["message"] == message and fields.items() <= each.items()]

    def end(self, number: int = signal.SIGTERM) -> int:
        """Send a signal to the supervisor and wait for its end."""
        self.program.send_signal(number)
        return self.program.wait(PATIENCE_SECONDS)

    def kill(self) -> None:
        """Whatever is left of it, when it was told to end."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.program.wait(30)
        self.program.kill()
        self.program.wait()


class Scene:
    """A store, the runs in it, and any number of crews."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url = url
        self.folder = folder
        self.store = perdure.open(url, actor="test")
        self.crews: list[Crew] = []

    def crew(self, *words: str, processes: int = 1, **env: str) -> Crew:
        """Start one, and wait until all its workers work."""
        folder = self.folder / f"crew{len(self.crews)}"
        folder.mkdir()
        made = Crew(self.url, folder, "--processes", str(processes), *words, **env)
        self.crews.append(made)
        until(lambda: made.program.poll() is not None or len(made.logged("working")) >= processes + 1, "a crew")
        assert made.program.poll() is None, made.log.read_text()
        return made

    def said(self) -> list[Said]:
        """What the agents of all crews said, in order."""
        found: list[Said] = []
        for crew in self.crews:
            for line in whole_lines(crew.folder / "witness"):
                at, pid, what, run, number = line.split()
                found.append(Said(int(at), int(pid), what, run, int(number)))
        return sorted(found)

    def tree(self) -> Any:
        """What `perdure workers` shows."""
        return tree(self.store)

    def pid_of(self, run: str) -> int:
        """The process that has a run, once somebody has it."""

        def find() -> int | None:
            for worker in self.tree().workers:
                if worker.about is not None and any(each.run == run for each in worker.runs):
                    return worker.about.pid
            return None

        return until(find, f"somebody who has run {run}")

    def kinds(self, handle: Any) -> list[str]:
        """The kinds of a run's events, in order."""
        page = self.store._caller.read(_kinds, handle._stream)
        return [kind for kind, _ in page]

    def close(self) -> None:
        """End all crews, at the same time."""
        for crew in self.crews:
            crew.program.terminate()
        for crew in self.crews:
            crew.kill()
        self.store.close()


def _kinds(reads: Any, stream: Any) -> list[tuple[str, int]]:
    from perdure.stores.tx import LOG

    rows = reads.query(LOG.events_page, stream=stream.id, after=0, upto=1 << 60, limit=10_000)
    return [(row[1], row[5 - 1]) for row in rows]


@contextlib.contextmanager
def scene(url: str, folder: Path) -> Iterator[Scene]:
    made = Scene(url, folder)
    try:
        yield made
    finally:
        made.close()


def overlaps(said: list[Said], *killed: int) -> list[tuple[Said, Said]]:
    """Two processes in the same run at once: a step of one begins while a step of another is under way.

    killed: processes that can no longer say that their steps have ended.
    """
    under_way: dict[str, dict[int, Said]] = {}
    found = []
    for each in said:
        here = under_way.setdefault(each.run, {})
        if each.what == "begin":
            found += [(other, each) for pid, other in here.items() if pid not in (each.pid, *killed)]
            here[each.pid] = each
        else:
            here.pop(each.pid, None)
    return found


def most_at_once(said: list[Said], runs: set[str]) -> int:
    """How many of these runs were inside a step at the same time."""
    inside: set[str] = set()
    most = 0
    for each in said:
        if each.run in runs:
            (inside.add if each.what == "begin" else inside.discard)(each.run)
            most = max(most, len(inside))
    return most
