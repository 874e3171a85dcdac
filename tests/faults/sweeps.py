"""The ground on which the story is swept: a witness, and a store for each case.

A case is lived until it is over: killed once or more, then left alone. `Outcome` says what the witness saw that should not be.
SIGKILL takes nothing from the kernel, so SQLite files lie in memory where there is such a folder; power loss is shown elsewhere.
"""

from __future__ import annotations

import itertools
import math
import os
import random
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import perdure
from faults import forks, sweep_agent
from faults.forks import Ended, Order, Report
from faults.writer import SEED
from perdure_testing.witness import Witness

SHARE = min(int(os.environ.get("PERDURE_ROUNDS", "0")), 100)  # of all points, in percent
FULL = SHARE > 0
PREFIX = "perdure-sweep-"
LIVES_MAX = 6
LANE = ("lane.before_commit", "lane.after_commit")
Point = tuple[str, int]


class Outcome(NamedTuple):
    """What became of one case. twice, lost: what arrived too often, and never; error: why it came to no end."""

    case: str
    twice: list[str]
    lost: list[str]
    error: str
    kills: int
    settled: list[str]

    @property
    def wrong(self) -> bool:
        return bool(self.twice or self.lost or self.error)


class Ground:
    """Cases on one kind of store. folder: for files; url: of the PostgreSQL schema, if it is one."""

    _numbers = itertools.count()  # over all grounds: they may share a witness

    def __init__(self, folder: Path, witness: Witness, url: str | None, kind: str = "sqlite") -> None:
        self.witness = witness
        self._folder = folder
        self._url = url
        self.kind = kind
        with perdure.open(url or f"{kind}:///{folder}/template.db"):
            pass

    def case(self, **options: Any) -> Order:
        """A fresh case: a file or a folder of its own, or runs of its own in the one schema."""
        name = f"c{next(self._numbers):05}"
        if self._url is None:
            copy = shutil.copy if self.kind == "sqlite" else shutil.copytree
            copy(self._folder / "template.db", self.path(name))
        url = self._url or f"{self.kind}:///{self.path(name)}"
        return Order(url=url, case=name, port=self.witness.port, **options)

    def path(self, case: str) -> Path:
        return self._folder / f"{case}.db"

    @property
    def url(self) -> str | None:
        """The one store of all cases, if there is one."""
        return self._url

    def outcome(self, order: Order, last: Ended, kills: int) -> Outcome:
        """What is to be said about a case that is over."""
        twice, lost = sweep_agent.judge(order.case, order.chapter, self.witness.arrived(order.case))
        wanted = sweep_agent.result(order.case, order.chapter)
        error = last.report.error or ("" if last.report.result == wanted else f"{last.report.result} for {wanted}")
        if self._url is None and not (twice or lost or error):
            verify(order.url)
            for path in self._folder.glob(f"{order.case}.db*"):
                path.unlink() if path.is_file() else shutil.rmtree(path)
        return Outcome(order.case, twice, lost, error, kills, last.report.settled)

    def killed(self, first: Order, *then: Point) -> Outcome:
        """Live a case: killed where its order says, then at further points, one life each, then to its end."""
        orders = [first, *(remade(first, at=point) for point in then), *[remade(first, at=None)] * LIVES_MAX]
        for kills, order in enumerate(orders):
            ended = forks.run(order)
            if ended.how == "exit":
                return self.outcome(first, ended, kills)
        raise AssertionError(f"{first.case} is killed again and again")


def remade(order: Order, **changed: Any) -> Order:
    return Order(**{**{name: getattr(order, name) for name in order.__struct_fields__}, **changed})


# -- which points -------------------------------------------------------------------------------------------------


def counted(swept: Ground, **options: Any) -> Report:
    """A life that nobody disturbs: which points it reaches, how often, and what it commits."""
    order = swept.case(counting=True, **options)
    ended = forks.run(order)
    assert not swept.outcome(order, ended, 0).wrong, ended
    return ended.report


def every_point(report: Report) -> list[Point]:
    return [(name, nth) for name, times in report.points.items() for nth in range(1, times + 1)]


def first_points(report: Report) -> list[Point]:
    """The first time of each point, and the first commit of each kind of event, from both sides."""
    commits = {kind: number for number, kinds in reversed([*enumerate(report.commits, 1)]) for kind in kinds}
    firsts = [(name, 1) for name in report.points if name not in LANE]
    return firsts + [(name, number) for number in sorted(set(commits.values())) for name in LANE]


def arrivals(report: Report, *tools: str) -> list[Point]:
    """Each time something of these tools has just arrived, and nothing says so yet: between its dispatch and its commit."""
    return [("tool.told", nth) for nth, (_, tool) in enumerate(report.told, 1) if tool in tools]


def sampled(swept: Ground, points: list[Any], count: int) -> list[Any]:
    """So many by the seed, others on each store, fewer where a life takes longer; in a full sweep their share, if more."""
    least = count if swept.url is None else max(count // 4, 2)
    some = max(least, math.ceil(len(points) * SHARE / 100)) if FULL else least
    return points if some >= len(points) else random.Random(f"{swept.kind} {SEED}").sample(points, some)


# -- what must hold ------------------------------------------------------------------------------------------------


def verified(swept: Ground) -> None:
    """The chain and the tables agree (P5, P6): in the one store of all cases; a file of its own is verified with its case."""
    if swept.url is not None:
        verify(swept.url)


def verify(url: str) -> None:
    with perdure.open(url) as store:
        report = store.verify()
        assert report.ok, report


def wrong(outcomes: Iterable[Outcome]) -> list[Outcome]:
    return [each for each in outcomes if each.wrong]
