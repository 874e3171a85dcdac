"""A clock that is wrong: an hour ahead or behind, for the lives of a subject alone. The machine's and a server's stay right.

`clock`: a schedule `BOUNDARY@after+1h` kills it there, and it is resumed with that clock; with `@during` the clock moves while
the process stands there, which then continues. `skew`: a second process with that clock resumes the task while the first stands
at a boundary, as one on another machine does: a lease that is judged by the wrong clock is taken too early, or never.
"""

from __future__ import annotations

from collections.abc import Callable

from perdure_evaluate.recovery.faults.fault import Control, RecoveryFault
from perdure_evaluate.recovery.faults.races import take_over, unfit_without_lease
from perdure_evaluate.recovery.oracle import points_of
from perdure_evaluate.recovery.story import Story
from perdure_evaluate.recovery.tasks import RecoveryTask
from perdure_testing import wrong_clock

HOURS = {"+1h": 3600, "-1h": -3600}


def _followed(story: Story) -> Callable[[int], None]:
    """Give its lives a clock; returns what moves it."""
    path = story.top / "clock"
    wrong_clock.move(path, 0)
    story.clock = str(path)
    return lambda seconds: wrong_clock.move(path, seconds)


def _moved(story: Story, schedule: str) -> None:
    move = _followed(story)
    at, _, rest = schedule.partition("@")
    life = story.stop(at) if rest.startswith("during") else None
    if rest.startswith("after"):
        story.strike(at)
    move(HOURS[rest[-3:]])
    if life is not None:
        story.add(life.wake())


def _skewed(story: Story, schedule: str) -> None:
    move = _followed(story)
    first = story.stop(schedule[:-3])
    if first is not None:
        move(HOURS[schedule[-3:]])
        take_over(story)
        move(0)
        story.add(first.wake())


def _hours(task: RecoveryTask, seed: int) -> list[str]:
    ways = ("@after", "@during")
    return [f"{point}{way}{hour}" for point in points_of(task.name, seed) for way in ways for hour in HOURS]


def _skews(task: RecoveryTask, seed: int) -> list[str]:
    return [f"{point}{hour}" for point in points_of(task.name, seed)[:-1] for hour in HOURS]


CLOCK = RecoveryFault(
    name="clock",
    about="the clock is an hour ahead or behind from a boundary on, with a kill or without",
    schedules=_hours,
    tell=_moved,
    control=Control("control-stamped", "relay-5", ("acknowledged_lost",)),
    missing=wrong_clock.missing,
    unfit=lambda _subject, task: "too long" if task.long else "",
)
SKEW = RecoveryFault(
    name="skew",
    about="a second process, whose clock is an hour ahead or behind, resumes the task of one that is stopped",
    schedules=_skews,
    tell=_skewed,
    control=Control("control-leased", "relay-5", ("duplicates",)),
    missing=wrong_clock.missing,
    unfit=unfit_without_lease,
)
