"""Histories: one story under one seed, from its beginning to the verdict; and the search for a seed that breaks something."""

from __future__ import annotations

import atexit
import contextlib
import shutil
import tempfile
import time
from collections.abc import Callable, Collection, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import perdure
from perdure_testing.scratch import scratch
from perdure_testing.simulation import Process
from perdure_testing.simulation.scheduler import Stuck
from perdure_testing.simulation.world import Moods
from proof.plain import Plain, Sessions
from proof.stage import STAGE, Stage
from proof.stories import Acts, Asked, Cuts, Haunted, Model, Pays, Restored, Sagas, Signals, Story
from proof.verdict import judge

STORIES: dict[str, type[Story]] = {
    each.name: each for each in (Acts, Pays, Haunted, Model, Asked, Sagas, Cuts, Signals, Restored, Sessions, Plain)
}

KIND = Moods(0, 0, 0, 0)
PREFIX = "perdure-proof-"


class History(NamedTuple):
    """What became of one story under one seed."""

    story: str
    seed: int
    wrong: list[str]
    digest: str
    mishaps: list[str]
    suppressed: frozenset[int]

    def __str__(self) -> str:
        schedule = [f"  #{i} {what}" for i, what in enumerate(self.mishaps) if not what.startswith("(")]
        said = [f"  {what}" for what in self.wrong]
        how = f"live({self.story!r}, {self.seed}, {sorted(self.suppressed)})"
        return "\n".join([f"{how}:", *said, "by:", *schedule])


@cache
def template() -> Path:
    """An empty store, to be copied."""
    until_the_end = contextlib.ExitStack()
    atexit.register(until_the_end.close)
    folder = until_the_end.enter_context(scratch(PREFIX))
    with perdure.open(f"sqlite:///{folder}/template.db"):
        pass
    return folder / "template.db"


@contextlib.contextmanager
def stage_for(name: str, seed: int, suppressed: Collection[int]) -> Iterator[Stage]:
    folder = Path(tempfile.mkdtemp(dir=template().parent))
    try:
        shutil.copy(template(), folder / "a.db")
        stage = Stage(folder / "a.db", seed, STORIES[name].rates, suppressed)
        STAGE.append(stage)
        with stage.machine.running():
            yield stage
    finally:
        STAGE.clear()
        shutil.rmtree(folder, ignore_errors=True)


def live(name: str, seed: int, suppressed: Collection[int] = ()) -> History:
    """Live through a story under a seed."""
    with stage_for(name, seed, suppressed) as stage:
        story = STORIES[name](stage)
        try:
            wrong = _lived(stage, story)
        except Stuck as error:
            wrong = [*stage.blames, f"stuck: {error}"]
        scheduler = stage.scheduler
        return History(name, seed, wrong, scheduler.digest(), scheduler.mishaps, frozenset(suppressed))


def _lived(stage: Stage, story: Story) -> list[str]:
    story.begin()
    stage.storm()
    story.after()
    verdict: list[str] = []

    def end(process: Process) -> None:
        story.calm(process)
        verdict.extend(judge(stage, process.store))

    stage.world.moods = KIND
    with stage.scheduler.calm():
        last = stage.process("last", end, mortal=False)
        stage.scheduler.run()
    broken = [f"{task.name}: {task.error!r}" for each in stage.machine.processes for task in each.tasks if task.error]
    last.store.close()
    return verdict + broken


def first_wrong(seeds: range, names: Collection[str] | None = None, until: float | None = None) -> History | None:
    """The first history that shows something wrong; None if all are as they should be."""
    for seed in seeds:
        for name in names or STORIES:
            if until is not None and time.monotonic() > until:
                return None
            found = live(name, seed)
            if found.wrong:
                return found
    return None


def shrunk(history: History, again: Callable[[str, int, Collection[int]], History] = live) -> History:
    """The same failure with as little going wrong as it needs: mishaps are left out, from the last on, while it still fails."""
    best = history
    for number in reversed(range(len(history.mishaps))):
        shorter = again(best.story, best.seed, best.suppressed | {number})
        if shorter.wrong:
            best = shorter
    return best
