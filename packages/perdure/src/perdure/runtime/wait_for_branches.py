"""Branches of `asyncio.wait_for` in runs that began before a run's record said how its branches are numbered.

Python 3.11 makes a task of what `wait_for` waits for, and so did the run's numbering; later Pythons wait in place. Such a run
keeps the numbering that its records show: whichever came first, the record in the next branch or the one at the next place.
Where nothing is recorded it is that of the present Python. Newer runs count `wait_for` as a part of its caller's branch
(docs/decisions/0141).
Callers: `places`. Keeps P13.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import FrameType

from perdure.runtime.places import Branch, is_wait_for

MAKES_A_TASK = sys.version_info < (3, 12)  # whether this Python's wait_for does
Began = Callable[[str, str], tuple[float, float]]  # `Journal.began`


class Wraps:
    """Which calls of `wait_for` are branches of their own, in one drive of a run."""

    __slots__ = ("_began", "_branches")

    def __init__(self, began: Began) -> None:
        self._began = began
        self._branches: dict[FrameType, Branch] = {}  # kept with its frame, which is known by its identity

    def makes_branch(self, branch: Branch) -> bool:
        """Whether the task that `wait_for` makes now is a branch. Later Pythons make one only to cancel it at once."""
        return not MAKES_A_TASK or self._is_branch(branch)

    def _is_branch(self, branch: Branch) -> bool:
        at_place, in_branch = self._began(*branch.following)
        return MAKES_A_TASK if at_place == in_branch else in_branch < at_place

    def branch_here(self, branch: Branch) -> Branch:
        """The branch of the running code: that of its task, or of a `wait_for` in it that has none of its own in this Python."""
        if MAKES_A_TASK:
            return branch
        for frame in reversed([*_waiting()]):
            if frame not in self._branches:
                self._branches[frame] = branch.child() if self._is_branch(branch) else branch
            branch = self._branches[frame]
        return branch


def _waiting() -> Iterator[FrameType]:
    """The calls of `wait_for` around the running code, in its task, the innermost first."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_globals.get("__name__") != "asyncio.events":
        if is_wait_for(frame) and frame.f_locals.get("timeout") is not None:
            yield frame
        frame = frame.f_back
