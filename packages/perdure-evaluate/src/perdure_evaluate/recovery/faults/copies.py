"""A store that becomes an older one: restored from a backup, or rewound with the folder that it lies in by version control.

A schedule `A<B`: killed at A, copied; continued until it is killed at B; then the copy takes its place. State that was
acknowledged in between is gone, and nobody is blamed for it. But the world has not gone back: what was done outside in between
was done.
"""

from __future__ import annotations

import random
import time

from perdure_evaluate.recovery.faults.fault import Control, RecoveryFault
from perdure_evaluate.recovery.interface import Subject
from perdure_evaluate.recovery.oracle import points_of
from perdure_evaluate.recovery.outside import git, needed
from perdure_evaluate.recovery.story import Story
from perdure_evaluate.recovery.tasks import RecoveryTask

SERIES = 60
BETWEEN = "<"


def _restored(story: Story, schedule: str) -> None:
    """The subject's own way of keeping and restoring a backup."""
    backup = str(story.top / "backup")
    story.errand("apart")
    if _until_first(story, schedule):
        story.errand("backup", backup)
        story.kept_at = time.monotonic()
        if _until_second(story, schedule):
            story.errand("restore", backup)
            _go_on(story)


def _rewound(story: Story, schedule: str) -> None:
    """The folder is a git work tree: committed at A, committed at B, and A checked out again."""
    if _until_first(story, schedule):
        git(story.folder, "init", "-q", "--template=", "-b", "main")
        first = _commit(story)
        story.kept_at = time.monotonic()
        if _until_second(story, schedule):
            _commit(story)
            git(story.folder, "checkout", "-q", first)
            _go_on(story)


def _go_on(story: Story) -> None:
    """A subject that is told that the world is further than the store knows accepts it as it is."""
    story.lost_at = time.monotonic()
    story.go_on()


def _commit(story: Story) -> str:
    git(story.folder, "add", "-A")
    git(story.folder, "commit", "-q", "--allow-empty", "-m", "as it is")
    return git(story.folder, "rev-parse", "HEAD").strip()


def _until_first(story: Story, schedule: str) -> bool:
    return story.strike(schedule.partition(BETWEEN)[0]).end == "killed"


def _until_second(story: Story, schedule: str) -> bool:
    return story.strike(schedule.partition(BETWEEN)[2]).end == "killed"


def _pairs(task: RecoveryTask, seed: int) -> list[str]:
    """Two boundaries in their order, some close to each other and some far apart."""
    points = points_of(task.name, seed)
    rng = random.Random(f"{seed}/{task.name}/copies")
    pairs = []
    for _ in range(SERIES):
        first = rng.randrange(len(points) - 1)
        last = rng.randrange(first + 1, min(len(points), first + rng.choice((6, 20, len(points)))))
        pairs.append(f"{points[first]}{BETWEEN}{points[last]}")
    return list(dict.fromkeys(pairs))


def _replaceable(subject: type[Subject], task: RecoveryTask) -> str:
    if subject.needs and subject.apart is Subject.apart:
        return "its store is one that all cases share"
    return "" if task.by_default else "too long"


def _in_a_folder(subject: type[Subject], task: RecoveryTask) -> str:
    return "its store lies in no folder" if subject.needs else _replaceable(subject, task)


BACKUP = RecoveryFault(
    "backup", "the store was restored from an older backup", _pairs, _restored,
    Control("control-trusting", "support", ("duplicates",)), unfit=_replaceable,
)  # fmt: skip
REWIND = RecoveryFault(
    name="rewind", about="the store was rewound by a version-control checkout", schedules=_pairs, tell=_rewound,
    control=Control("control-tracked", "support", ("duplicates",)), missing=needed, unfit=_in_a_folder,
)  # fmt: skip
