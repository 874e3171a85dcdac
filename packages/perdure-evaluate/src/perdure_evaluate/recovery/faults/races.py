"""Two processes at the same task: the first is stopped at a boundary, a second one resumes it, then the first one wakes up.

`race`: at once. `stop`: when the lease of the first is over, so that the second one takes the task from it.
"""

from __future__ import annotations

import time

from perdure_evaluate.recovery.faults.fault import Control, RecoveryFault
from perdure_evaluate.recovery.interface import Subject
from perdure_evaluate.recovery.oracle import points_of
from perdure_evaluate.recovery.story import Story
from perdure_evaluate.recovery.tasks import RecoveryTask

ROUNDS_MAX = 6
LEASE_SECONDS = 1.0
PAST_SECONDS = 1.5 * LEASE_SECONDS


def _raced(story: Story, at: str) -> None:
    """The second is answered by people as often as it waits; then the first continues with what it has in mind."""
    first = story.stop(at)
    if first is None:
        return
    for _ in range(ROUNDS_MAX):
        if story.live(life=len(story.lives) + 1).end != "waiting":
            break
    story.add(first.wake())


def _overdue(story: Story, at: str) -> None:
    """Sleep past the lease of the first."""
    (story.folder / "lease").write_text(str(LEASE_SECONDS))
    first = story.stop(at)
    if first is None:
        return
    time.sleep(PAST_SECONDS)
    take_over(story)
    story.add(first.wake())


def take_over(story: Story) -> None:
    """A second one continues as far as it can while the first one sleeps. Calls that it may still send are not denied."""
    for _ in range(ROUNDS_MAX):
        life = story.live(life=len(story.lives) + 1)
        denied = [name for name in life.doubts if not story.inbox[name]["happened"]]
        for name in denied:
            del story.inbox[name]
        if life.end != "waiting" or denied:
            break


def unfit_without_lease(subject: type[Subject], task: RecoveryTask) -> str:
    """A subject that takes no lease cannot lose it."""
    return "too long" if task.long else "" if subject.leases else "it takes no lease: the same as race"


def _boundaries(task: RecoveryTask, seed: int) -> list[str]:
    """All but the last one: after it nothing is left to be done twice."""
    return list(points_of(task.name, seed))[:-1]


RACE = RecoveryFault(
    "race", "a second process resumes the task while the first is stopped; then the first continues", _boundaries, _raced,
    Control("control-unshared", "relay-5", ("duplicates",)),
)  # fmt: skip
STOP = RecoveryFault(
    "stop", "a process is stopped past its lease, another one takes its task, then the first continues", _boundaries, _overdue,
    Control("control-leased", "relay-5", ("duplicates",)), unfit=unfit_without_lease,
)  # fmt: skip
