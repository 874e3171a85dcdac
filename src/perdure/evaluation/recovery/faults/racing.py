"""Two processes at the same task: the first is stopped at a boundary, a second one resumes it, then the first one wakes up."""

from __future__ import annotations

from perdure.evaluation.recovery.faults.fault import Control, Fault
from perdure.evaluation.recovery.oracle import points_of
from perdure.evaluation.recovery.story import Story
from perdure.evaluation.recovery.tasks import Task

ROUNDS_MAX = 6


def _raced(story: Story, at: str) -> None:
    """The second is answered by people as often as it waits; then the first goes on with what it has in mind."""
    first = story.stop(at)
    if first is None:
        return
    for _ in range(ROUNDS_MAX):
        if story.live(life=len(story.lives) + 1).end != "waiting":
            break
    story.add(first.wake())


def _boundaries(task: Task, seed: int) -> list[str]:
    """All but the last one: after it nothing is left to be done twice."""
    return list(points_of(task.name, seed))[:-1]


RACE = Fault(
    "race", "a second process resumes the task while the first is stopped; then the first goes on", _boundaries, _raced,
    Control("control-unshared", "relay-5", ("duplicates",)),
)  # fmt: skip
