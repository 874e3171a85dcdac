"""A database that goes away: the server of a subject is killed at a boundary and started again, or its last word is lost.

Each host has a PostgreSQL of its own for this, so that nobody else's case meets it. `restart`: the life stands still at a
boundary while every process of the server is killed; it continues when the server is back. `reply`: a proxy stands before the
server; the n-th reply that ends a transaction is lost, and the connection with it: it is committed, and nobody was told.
"""

from __future__ import annotations

import importlib.util
import random
from collections.abc import Iterator
from pathlib import Path

from perdure_evaluate.recovery.faults.fault import Control, RecoveryFault
from perdure_evaluate.recovery.faults.strikes import one_by_one
from perdure_evaluate.recovery.interface import Subject
from perdure_evaluate.recovery.oracle import points_of
from perdure_evaluate.recovery.story import LIVES_MAX, Story
from perdure_evaluate.recovery.tasks import RecoveryTask
from perdure_testing.faults import Between
from perdure_testing.postgres import HOST, PostgresServer, embedded_bin_dir, system_bin_dir

PARTS = 1000
SHARES = 100


def missing() -> str:
    """Why there is no server to strike; nothing, if there is."""
    if importlib.util.find_spec("psycopg") is None:
        return "psycopg is not installed"
    return "" if programs() else "no PostgreSQL is installed"


def programs() -> Path | None:
    """Where the programs of a server are."""
    return embedded_bin_dir() or system_bin_dir()


def unfit(subject: type[Subject], task: RecoveryTask) -> str:
    """Only those who keep their state on a server can lose it."""
    return "too long" if task.long else "" if subject.needs == "postgres" else "it has no server: its store is its own"


def own_server(story: Story) -> PostgresServer:
    """This host's, started when it is first needed. The subject is told of it."""
    resources = story.ground.resources
    if "server" not in resources:
        server = PostgresServer.start(story.ground.folder, bin_dir=programs())
        resources["server"] = story.ground.closing.enter_context(server)
    tell_of(story, resources["server"].url())
    return resources["server"]


def tell_of(story: Story, url: str) -> None:
    """Tell the subject which server is its own."""
    (story.folder / "server").write_text(url)


# -- restarted -------------------------------------------------------------------------------------------------------


def _restarted(story: Story, at: str) -> None:
    server = own_server(story)
    life = story.stop(at)
    if life is not None:
        server.kill()
        server.restart()
        story.add(life.wake())


RESTART = RecoveryFault(
    name="restart",
    about="the database is killed and started again while the process stands at a boundary",
    schedules=one_by_one,
    tell=_restarted,
    control=Control("control-unlogged", "support", ("acknowledged_lost",)),
    missing=missing,
    unfit=unfit,
)


# -- a lost reply ----------------------------------------------------------------------------------------------------


def _unheard(story: Story, schedule: str) -> None:
    """Lose the reply at this share of all that end a transaction, counted in an undisturbed story."""
    between = _between(story)
    replies = _replies_of(story)
    number, nth = replies[int(schedule.rstrip("‰")) * len(replies) // PARTS]
    story.note = f"reply number {nth} of life {number + 1}; {len(replies)} in all"
    for _ in zip(range(number + 1), _counted(story, between, {number: nth}), strict=False):
        pass


def _between(story: Story) -> Between:
    """The proxy before this host's server; the subject is told of it."""
    server, resources = own_server(story), story.ground.resources
    if "between" not in resources:
        resources["between"] = story.ground.closing.enter_context(Between(HOST, server.address.port))
    tell_of(story, server.url().replace(f":{server.address.port}/", f":{resources['between'].port}/"))
    return resources["between"]


def _replies_of(story: Story) -> list[tuple[int, int]]:
    """Every reply of an undisturbed story that ends a transaction, by life and number; found out once."""
    mark = ("replies", story.case.subject, story.case.task)
    if mark not in story.ground.resources:
        other = Story(story.ground, story.case)
        try:
            counts = list(_counted(other, _between(other), {}))
        finally:
            other.clear()
        story.ground.resources[mark] = [(life, nth) for life, count in enumerate(counts) for nth in range(1, count + 1)]
    return story.ground.resources[mark]


def _counted(story: Story, between: Between, cuts: dict[int, int]) -> Iterator[int]:
    """Live, and count the replies of each life from its first boundary on: before it, a life says what it believes."""
    first = points_of(story.case.task, story.ground.seed)[0]
    for number in range(LIVES_MAX):
        child = story.ground.lives.hold(story.order(at=first, how="stop"))
        child.begin()
        life = child.wait()
        if life.end == "stopped":
            between.cut_ended(cuts.get(number, 0))
            life = child.wake()
        count = between.cut_ended()
        life.at = "reply lost" if 0 < cuts.get(number, 0) <= count else ""
        story.add(life)
        yield count
        if life.end != "waiting":
            return


def _shares(task: RecoveryTask, seed: int) -> list[str]:
    rng = random.Random(f"{seed}/{task.name}/reply")
    return [f"{share}‰" for share in rng.sample(range(PARTS), SHARES)]


REPLY = RecoveryFault(
    name="reply", about="the database commits, and its reply is lost with the connection", schedules=_shares, tell=_unheard,
    control=Control("control-again", "support", ("duplicates",)), missing=missing, unfit=unfit,
)  # fmt: skip
