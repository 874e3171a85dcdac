"""Nothing at all; SIGKILL at one boundary of the interface; SIGKILL in three lives after each other."""

from __future__ import annotations

import random

from perdure_evaluate.recovery.faults.fault import Control, RecoveryFault
from perdure_evaluate.recovery.oracle import points_of
from perdure_evaluate.recovery.story import Story
from perdure_evaluate.recovery.subjects import load
from perdure_evaluate.recovery.tasks import RecoveryTask

THRICE = 3
SERIES = 400


def _undisturbed(story: Story, schedule: str) -> None:
    """A life that nobody disturbs; how much it writes is counted on the way."""
    del schedule
    story.live(counting=load(story.case.subject).written)


def _struck(story: Story, schedule: str) -> None:
    """Killed in each life where the schedule says. A life that waits for a person is answered and continues first."""
    for at in schedule.split("+"):
        if story.strike(at).end == "done":
            return


def one_by_one(task: RecoveryTask, seed: int) -> list[str]:
    """Every boundary."""
    return list(points_of(task.name, seed))


def _in_series(task: RecoveryTask, seed: int) -> list[str]:
    """Three boundaries near each other, in their order: the second and third life die while they recover."""
    points = points_of(task.name, seed)
    rng = random.Random(f"{seed}/{task.name}/kills")
    places = {point: number for number, point in enumerate(points)}
    return list(dict.fromkeys("+".join(sorted(_near(rng, points), key=places.__getitem__)) for _ in range(SERIES)))


def _near(rng: random.Random, points: tuple[str, ...]) -> list[str]:
    at = rng.randrange(len(points))
    window = points[max(at - 6, 0) : at + 6]
    return [rng.choice(window) for _ in range(THRICE)]


BROKEN = Control("control-unrecorded", "support", ("duplicates",))
NONE = RecoveryFault("none", "nothing goes wrong: the ground of the figures", lambda *_: ["-"], _undisturbed, None)
KILL = RecoveryFault("kill", "SIGKILL at one boundary of the interface", one_by_one, _struck, BROKEN)
KILLS = RecoveryFault("kills", "SIGKILL in three lives after each other", _in_series, _struck, BROKEN)
