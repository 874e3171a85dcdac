"""Lives of a program that is killed at every crash point, one forked process each: for the sweeps of the adapters.

A program here imports its framework once, and forks a process for each life, so that a life takes milliseconds. `Life` is what
a life is told: its folder, and a line for each thing that the outside world sees. `swept` kills one life at each point, lives on
until there is no kill left, and says what the outside world saw. SIGKILL takes nothing from the kernel: no line is lost.
"""

from __future__ import annotations

import contextlib
import importlib
import multiprocessing
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

from perdure.model import crash_points

LIVES_MAX = 5
RECORDED = "lane.after_commit"


class Life:
    """One process's view. kill_at: the number of the crash point at which it dies; 0: none."""

    def __init__(self, folder: Path, kill_at: int = 0) -> None:
        self.folder = folder
        self.kill_at = kill_at
        self.reached = 0
        self.unrecorded = False  # a model has answered, and no commit has followed yet
        self.slow_seconds = 0.0  # how long a commit takes more

    def see(self, *words: object) -> None:
        """Let the outside world see something: a line that lasts."""
        with (self.folder / "seen").open("a") as out:
            out.write(" ".join(map(str, words)) + "\n")

    def answered(self) -> None:
        """A model has answered, for money."""
        self.unrecorded = True
        self.see("answer")

    def at(self, name: str) -> None:
        """A crash point was reached."""
        if name == RECORDED:
            self.unrecorded = False
            time.sleep(self.slow_seconds)
        self.reached += 1
        if self.reached == self.kill_at:
            self.see("killed", name, "unrecorded" if self.unrecorded else "recorded")
            os.kill(os.getpid(), signal.SIGKILL)


class _Every(dict[str, Any]):
    """Arms every crash point, and tells which one was reached."""

    def __init__(self, life: Life) -> None:
        super().__init__({"*": None})
        self.life = life

    def get(self, name: str, default: Any = None) -> Any:
        return lambda: self.life.at(name)


class Swept(NamedTuple):
    """The calls that the outside world saw in one case. killed: by which point; end: the last life's exit code."""

    folder: Path
    seen: list[str]
    killed: str
    end: int

    def count(self, what: str) -> int:
        return sum(line.split()[0] == what for line in self.seen)

    def named(self, what: str) -> list[str]:
        return sorted(line for line in self.seen if line.split()[0] == what)

    @property
    def unrecorded(self) -> int:
        """How often it died between a model's answer and the commit that keeps it: nobody can know of that answer."""
        return sum(line.startswith("killed") and line.endswith("unrecorded") for line in self.seen)


def live(program: Callable[[Life], None], folder: Path, kill_at: int = 0) -> int:
    """One life in a process of its own; gives its exit code, negative for a signal."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    code = 1
    try:
        life = Life(folder, kill_at)
        crash_points._armed = _Every(life)
        program(life)
        (folder / "points").write_text(str(life.reached))
        (folder / "modules").write_text("\n".join(sys.modules))
        code = 0
    except BaseException:
        (folder / "error").write_text(traceback.format_exc())
    finally:
        os._exit(code)


def points_of(program: Callable[[Life], None], folder: Path) -> int:
    """How many crash points a life passes that nobody kills."""
    folder.mkdir()
    if live(program, folder):
        raise AssertionError((folder / "error").read_text())
    for module in (
        (folder / "modules").read_text().splitlines()
    ):  # what a life loads when it needs it: once for all lives
        with contextlib.suppress(Exception):
            importlib.import_module(module)
    return int((folder / "points").read_text())


def swept_at(
    program: Callable[[Life], None], folder: Path, numbers: Iterable[int], kills: int = 1
) -> Iterable[tuple[int, Swept]]:
    """The case of each of these points, as many at once as there are cores: a life mostly waits."""
    with multiprocessing.get_context("fork").Pool(initializer=_working.append, initargs=(program,)) as pool:
        yield from pool.imap(_case, [(folder, number, kills) for number in numbers])


_working: list[Callable[[Life], None]] = []  # the program of this process of the pool


def _case(asked: tuple[Path, int, int]) -> tuple[int, Swept]:
    folder, number, kills = asked
    return number, swept(_working[-1], folder / str(number), number, kills)


def swept(program: Callable[[Life], None], folder: Path, kill_at: int, kills: int = 1) -> Swept:
    """A case that is killed at one point, and then lived to its end. kills: how many lives in a row die there."""
    folder.mkdir()
    end = live(program, folder, kill_at)
    for _ in range(kills - 1):
        end = live(program, folder, kill_at) if end else 0
    for _ in range(LIVES_MAX):
        if end == 0:
            break
        end = live(program, folder)
    path = folder / "seen"
    seen = path.read_text().splitlines() if path.exists() else []
    killed = next((line.split()[1] for line in seen if line.startswith("killed")), "")
    return Swept(folder, seen, killed, end)


def sample(count: int, most: int | None) -> Iterable[int]:
    """The numbers of points, evenly chosen if there are more than may be tried."""
    if most is None or count <= most:
        return range(1, count + 1)
    return sorted({1 + round(each * (count - 1) / (most - 1)) for each in range(most)})
