"""A fair order among tenants: whose run a worker takes next. 10,000 ready runs of one tenant delay no other.

The tenant with the fewest runs at work comes first, and of several the one whose last turn is longest ago. The last free place
of a worker is for a tenant that has nothing at work. See decision 0078. Callers: `runtime.worker`. Keeps P11, P15.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable

from perdure.planes.execution.workers import FoundRun


class FairOrder:
    """The turns of one worker. several: it serves more than one tenant; for a single one every place is free."""

    __slots__ = ("_count", "_last", "_several")

    def __init__(self, *, several: bool) -> None:
        self._several = several
        self._count = 0
        self._last: dict[int, int] = {}

    def choose(
        self, found: Iterable[FoundRun], room: int, at_work: Counter[int], fits: Callable[[FoundRun], bool]
    ) -> list[FoundRun]:
        """The runs to take, as far as there is room. at_work: runs of each tenant; it counts those that are chosen.

        found: of each tenant in the order of that tenant. fits: whether a run can be taken beside those before it.
        """
        waiting: dict[int, deque[FoundRun]] = {}
        for each in found:
            waiting.setdefault(each.stream.tenant, deque()).append(each)
        chosen: list[FoundRun] = []
        while waiting and len(chosen) < room:
            tenant = min(waiting, key=lambda each: (at_work[each], self._last.get(each, 0)))
            if self._several and at_work[tenant] and len(chosen) == room - 1:
                break  # all that wait have something at work: the last place is for a tenant that has not
            run = waiting[tenant].popleft()
            if not waiting[tenant]:
                del waiting[tenant]
            if fits(run):
                chosen.append(run)
                self._note(tenant, at_work)
        return chosen

    def _note(self, tenant: int, at_work: Counter[int]) -> None:
        self._count += 1
        self._last[tenant] = self._count
        at_work[tenant] += 1
