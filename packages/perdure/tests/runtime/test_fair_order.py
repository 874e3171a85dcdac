"""A fair order among tenants: many ready runs of one do not delay another. Claims are counted, never seconds (P11, P15)."""

from __future__ import annotations

import asyncio
from collections import Counter
from itertools import islice

import pytest

import perdure
from installed import stores_here
from perdure.errors import Invalid
from perdure.handles.aio.store import AsyncStore
from perdure.handles.colours import run_for
from perdure.handles.working import TENANTS_MAX, callers_of
from perdure.log.change import Stream
from perdure.planes.execution.workers import FoundRun
from perdure.runtime.callers import AsyncCaller
from perdure.runtime.fair_order import FairOrder
from perdure.runtime.worker import Worker, WorkerSettings
from perdure.stores.core import open_core

MANY = 40
PLACES = 4
BEGUN: list[str] = []
GATE: list[asyncio.Event] = []


@perdure.agent
async def takes_turns(run, who, *, waits=False):
    BEGUN.append(who)
    if waits:
        await GATE[0].wait()
    return who


@pytest.fixture(params=stores_here("memory", "sqlite", "postgres", "files"))
def store_url(request, tmp_path):
    urls = {"memory": lambda: "memory:", "sqlite": lambda: f"sqlite:///{tmp_path}/a.db",
            "files": lambda: f"files:///{tmp_path}/a", "postgres": lambda: request.getfixturevalue("postgres_store")}  # fmt: skip
    return urls[request.param]()


class OldestFirst(FairOrder):
    """The control: whoever was first in the queue comes first, and no place is kept."""

    def choose(self, found, room, at_work, fits):
        return [*islice(filter(fits, found), room)]


class Office:
    """A worker for two tenants of one store: `many` and `few`."""

    def __init__(self, url):
        BEGUN.clear()
        GATE[:] = [asyncio.Event()]
        self.core = open_core(url)
        self.many = AsyncCaller(self.core, "me", self.core.tenant_id("many"))
        (self.few,) = callers_of(self.many, ["few", "many", "few"])
        settings = WorkerSettings(PLACES, poll_seconds=0.05, grace_seconds=0.0)
        self.worker = Worker(self.many, {"takes_turns": takes_turns}, settings, run_for, also=[self.few])
        self.runs = []

    async def start(self, caller, who, count=1, **given):
        store = AsyncStore(caller, owner=False)
        self.runs += [await store.start(takes_turns, who, **given) for _ in range(count)]

    async def work(self, until):
        """Let it work until something is so; bounded."""
        task = asyncio.create_task(self.worker.run())
        try:
            async with asyncio.timeout(60):
                while not await until():  # noqa: ASYNC110 - played, not timed
                    await asyncio.sleep(0.01)
        finally:
            GATE[0].set()
            self.worker.stop()
            await task
            await self.worker.close()

    async def all_over(self):
        return all([(await each.refresh()).status == "completed" for each in self.runs])


async def _side_by_side(url, order=None):
    """Both have runs when the worker begins; gives the place of the small tenant's first run among all that began."""
    office = Office(url)
    if order is not None:
        office.worker._fair = order
    await office.start(office.many, "many", MANY)
    await office.start(office.few, "few", 2)
    await office.work(office.all_over)
    assert Counter(BEGUN) == {"many": MANY, "few": 2}
    return BEGUN.index("few")


def test_a_tenant_with_many_ready_runs_does_not_come_first(store_url):
    assert asyncio.run(_side_by_side(store_url)) < PLACES


def test_with_the_oldest_first_it_does(tmp_path):
    place = asyncio.run(_side_by_side(f"sqlite:///{tmp_path}/a.db", OldestFirst(several=True)))
    assert place >= MANY  # the control: the test above would not have passed


async def _latecomer(url, order=None, patience=3_000):
    """The other tenant's runs never end by themselves; gives how many of them began, and whether the latecomer's did."""
    office = Office(url)
    if order is not None:
        office.worker._fair = order
    await office.start(office.many, "many", MANY, waits=True)
    looks_left = [patience]

    async def looked():
        if len(office.runs) == MANY and BEGUN.count("many") >= PLACES - 1:
            await asyncio.sleep(0.1)  # whatever it would take beyond its share, it takes now
            await office.start(office.few, "few")
        looks_left[0] -= len(office.runs) > MANY
        return "few" in BEGUN or not looks_left[0]

    await office.work(looked)
    return BEGUN.count("many"), "few" in BEGUN


def test_a_place_is_left_for_a_tenant_that_has_nothing_at_work(store_url):
    begun, came = asyncio.run(_latecomer(store_url))
    assert (begun, came) == (PLACES - 1, True)


def test_with_the_oldest_first_none_is_left(tmp_path):
    begun, came = asyncio.run(_latecomer(f"sqlite:///{tmp_path}/a.db", OldestFirst(several=True), patience=50))
    assert (begun, came) == (PLACES, False)


# -- the rule alone ----------------------------------------------------------------------------------------------------


def found(tenant, number):
    return FoundRun(
        "a", None, False, None, Stream(tenant * 100 + number, bytes(16), tenant, "run", f"r{number}", None, 0)
    )


def taken(order, found, room, at_work=None, fits=lambda _run: True):
    return [
        (each.stream.tenant, each.stream.id % 100) for each in order.choose(found, room, Counter(at_work or {}), fits)
    ]


QUEUES = [*(found(1, n) for n in range(5)), *(found(2, n) for n in range(3)), found(3, 0)]


def test_the_fewest_at_work_come_first_then_the_longest_without_a_turn():
    order = FairOrder(several=True)
    assert taken(order, QUEUES, 6) == [(1, 0), (2, 0), (3, 0), (1, 1), (2, 1)]  # one place is left
    assert taken(order, QUEUES, 3, {1: 2, 2: 1}) == [(3, 0), (2, 0)]
    assert taken(order, QUEUES, 1) == [(1, 0)]
    assert taken(order, QUEUES, 1) == [(3, 0)], "the one with a turn longest ago"
    assert taken(order, QUEUES, 1, {1: 1, 2: 1, 3: 1}) == []


def test_a_run_that_does_not_fit_takes_no_turn():
    assert taken(FairOrder(several=True), QUEUES, 3, fits=lambda run: run.stream.tenant != 1) == [(2, 0), (3, 0)]


def test_a_single_tenant_has_every_place():
    assert len(taken(FairOrder(several=False), QUEUES[:5], 5, {1: 3})) == 5


def test_a_worker_serves_a_bounded_number_of_tenants(tmp_path):
    core = open_core(f"sqlite:///{tmp_path}/a.db")
    caller = AsyncCaller(core, "me", core.tenant_id("default"))
    assert len(callers_of(caller, [f"t{n}" for n in range(TENANTS_MAX - 1)])) == TENANTS_MAX - 1
    with pytest.raises(Invalid, match=str(TENANTS_MAX)):
        callers_of(caller, [f"t{n}" for n in range(TENANTS_MAX)])
    core.close()
