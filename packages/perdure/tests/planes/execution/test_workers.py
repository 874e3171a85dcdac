"""What workers find and what people see of them: nothing that is not theirs, and no scans (P8)."""

from __future__ import annotations

import pytest

import perdure
from perdure.effects import ledger
from perdure.effects.ledger import Intent, Sender
from perdure.log.change import Stream
from perdure.model.records.effects import Rule, ToolKind
from perdure.model.records.workers import About
from perdure.planes.execution import leases, runs, steps, workers
from perdure.planes.execution.leases import Company
from perdure.planes.recovery import presence
from perdure_testing.clock import FakeClock
from planes.test_plans import database, plan_of  # noqa: F401 - a fixture

ME, OTHER = "a" * 32, "b" * 32
ANY, FELLOWS, NOBODY = Company
BOTH = workers.drivable(["one", "two"], ["p1"])


@perdure.agent(name="one")
def one(run):
    return None


@perdure.agent(name="two")
def two(run):
    return None


@perdure.agent(name="tw")
def tw(run):
    return None


@pytest.fixture(params=["sqlite", "postgres"])
def store(request, tmp_path):
    url = f"sqlite:///{tmp_path}/a.db" if request.param == "sqlite" else request.getfixturevalue("postgres_store")
    with perdure.open(url, clock=FakeClock()) as store:
        yield store


@pytest.fixture
def look(store):
    def call(what=BOTH, limit=100, dead=()):
        return store._caller.read(workers.look, what, limit, lambda holder: holder in dead, ME)

    return call


def claim(store, handle, holder=OTHER, **given):
    return store._caller.write(leases.claim, handle._stream, holder=holder, program="p1", epoch=0, **given)


def named(found):
    return [each.stream.name for each in found]


def test_runs_of_these_agents_oldest_first(store, look):
    clock = store._caller.core.clocks.now
    started = []
    for agent in (two, one, tw, one):
        started.append(store.start(agent))
        clock.advance(1)
    assert named(look().takeable) == [started[number].id for number in (0, 1, 3)]
    assert named(look(limit=1).takeable) == [started[0].id]
    assert look(limit=0).takeable == []
    assert look(workers.drivable(["t", "o|n", "|"], [])).takeable == []


def test_a_pinned_run_is_only_for_its_program(store, look):
    handle = store.start(one)
    handle.pin("p1")
    assert named(look().takeable) == [handle.id]
    assert look(workers.drivable(["one"], ["p2"])).takeable == []


def test_what_is_pinned_to_a_program_that_nobody_who_lives_has_is_stranded(store):
    def stranded():
        return [each.run for each in store._caller.read(workers.stranded)]

    free, ready, sleeping = store.start(one), store.start(one), store.start(one)
    store._caller.write(
        leases.fenced, claim(store, sleeping), runs.wait, "sleep", 5_000_000 + store._caller.core.clocks.now()
    )
    for handle in (ready, sleeping):
        handle.pin("p1")
    assert stranded() == [ready.id]
    store._caller.core.clocks.now.advance(5)
    assert stranded() == [ready.id, sleeping.id]
    store._caller.write(workers.introduce, OTHER, About(1, ("one",), 1, programs=("p1",)))
    assert stranded() == []
    store._caller.core.clocks.now.advance("2h")
    assert stranded() == [ready.id, sleeping.id]
    assert free.status == "ready"


def test_waiting_runs_come_when_they_are_due_and_until_then_it_is_said_how_long(store, look):
    handle = store.start(one)
    lease = claim(store, handle)
    due = store._caller.core.clocks.now() + 5_000_000
    store._caller.write(leases.fenced, lease, runs.wait, "sleep", due)
    assert (look().takeable, look().wake_left_us) == ([], 5_000_000)
    store._caller.core.clocks.now.advance(5)
    assert (named(look().takeable), look().wake_left_us) == ([handle.id], None)


def test_runs_of_the_dead_and_the_lapsed_are_suspects(store, look):
    handle = store.start(one)
    assert claim(store, handle)
    assert look().suspects == []
    assert named(look(dead=[OTHER]).suspects) == [handle.id]
    store._caller.core.clocks.now.advance("61s")
    assert named(look().suspects) == [handle.id]
    mine = store.start(one)
    claim(store, mine, ME)
    assert named(look(dead=[ME]).suspects) == [handle.id]  # one's own are never


def test_the_length_of_a_lease_is_a_setting_of_the_open_store(store, look):
    object.__setattr__(store._caller.core, "clocks", store._caller.core.clocks)
    lane = store._caller.core.lane
    lane._clocks = lane._clocks._replace(lease_us=5_000_000)
    handle = store.start(one)
    assert claim(store, handle)
    store._caller.core.clocks.now.advance("4s")
    assert look().suspects == []
    store._caller.core.clocks.now.advance("2s")
    assert named(look().suspects) == [handle.id]


class TestDeaths:
    def die(self, store, handle, company=NOBODY):
        """Whoever has it dies, and another one takes it."""
        before = handle.refresh().record.holder
        return claim(store, handle, ME if before == OTHER else OTHER, dead=[before], company=company)

    def test_who_only_lost_sight_of_it_has_not_died(self, store):
        handle = store.start(one)
        claim(store, handle)
        for _ in range(leases.DEATHS_MAX + 1):
            assert claim(store, handle, OTHER, dead=[OTHER], company=ANY)
        assert (handle.refresh().record.deaths, handle.record.suspect) == (0, False)

    def test_what_is_only_begun_is_no_progress(self, store):
        handle = store.start(one)
        claim(store, handle)
        for deaths in range(leases.DEATHS_MAX - 1):
            lease = self.die(store, handle)
            intent = Intent("t", ToolKind.IDEMPOTENT, str(deaths), "d", {}, Rule())
            store._caller.write(leases.fenced, lease, ledger.begin_first_attempt, intent, Sender(lease.holder, 0))
            assert handle.refresh().record.deaths == deaths

    def test_suspects_go_on_among_their_fellows_once_and_then_alone(self, store):
        handle = store.start(one)
        assert claim(store, handle, company=ANY)
        assert self.die(store, handle, ANY) is None
        assert self.die(store, handle, FELLOWS)
        assert handle.refresh().record.suspect
        assert self.die(store, handle, ANY) is None
        assert self.die(store, handle, FELLOWS) is None  # its fellows are not taken down again and again
        assert self.die(store, handle, NOBODY)

    def test_deaths_without_progress_count_from_the_second_on(self, store):
        handle = store.start(one)
        claim(store, handle, company=ANY)
        lease = self.die(store, handle, FELLOWS)
        assert handle.refresh().record.deaths == 0  # it was not alone: nobody knows whose fault it was
        lease = self.die(store, handle)
        assert handle.refresh().record.deaths == 1
        store._caller.write(leases.fenced, lease, steps.done, {"place": "0//1", "name": "a", "digest": ""})
        lease = self.die(store, handle)
        assert handle.refresh().record.deaths == 1  # it got on: the count begins anew
        for deaths in range(2, leases.DEATHS_MAX):
            assert self.die(store, handle)
            assert handle.refresh().record.deaths == deaths
        assert self.die(store, handle) is None
        assert (handle.refresh().status.value, handle.record.reason) == ("parked", "deaths")

    @pytest.mark.parametrize("company", [FELLOWS, NOBODY])
    def test_who_came_to_rest_is_cleared(self, store, company):
        handle = store.start(one)
        claim(store, handle)
        lease = self.die(store, handle, company)
        store._caller.write(leases.fenced, lease, runs.release)
        assert not handle.refresh().record.suspect
        assert claim(store, handle, company=ANY)


class TestWorkers:
    def test_they_are_written_down_until_they_leave(self, store, look):
        about = About(7, ("one",), 10)
        assert not look().introduced
        store._caller.write(workers.introduce, ME, about)
        assert look().introduced
        store._caller.write(workers.leave, ME)
        assert store._caller.read(workers.holders) == []

    def test_those_that_are_gone_are_forgotten(self, store):
        for holder in (OTHER, "c" * 32):
            store._caller.write(workers.introduce, holder, About(7, (), 1))
        store._caller.write(workers.introduce, ME, About(8, (), 1), ["c" * 32])
        assert store._caller.read(workers.holders) == [ME, OTHER]
        store._caller.core.clocks.now.advance("61s")
        store._caller.write(workers.introduce, ME, About(8, (), 1))
        assert store._caller.read(workers.holders) == [ME]

    def test_a_run_that_a_worker_has_without_knowing_is_given_back_once(self, store):
        handle = store.start(one)
        claim(store, handle, ME)
        assert named(store._caller.read(workers.held_by, ME)) == [handle.id]
        assert not store._caller.write(workers.give_back, handle._stream, OTHER)
        assert store._caller.write(workers.give_back, handle._stream, ME)
        assert handle.refresh().status.value == "ready"
        assert not store._caller.write(workers.give_back, handle._stream, ME)

    def test_who_drives_without_being_a_worker_is_shown_too(self, store):
        handle = store.start(one)
        claim(store, handle)
        (shown,) = store._caller.read(workers.tree, lambda _: False).workers
        assert (shown.holder, shown.about, shown.alive, shown.runs[0].run) == (OTHER, None, True, handle.id)
        (shown,) = store._caller.read(workers.tree, lambda _: True).workers
        assert not shown.alive


def found_runs(count):
    return [
        workers.FoundRun("one", None, False, None, Stream(at, at.to_bytes(16), 1, "run", f"r{at}"))
        for at in range(count)
    ]


def orders(count, workers_count, room):
    """The first runs that each of several workers would claim of so many, all looking at the same moment."""
    runs_found = found_runs(count)
    looks = [workers.Look(runs_found, [], None, True, 0, place, workers_count) for place in range(workers_count)]
    return [[run.stream.id for run in look.in_own_order(runs_found, room)] for look in looks]


class TestWhoClaimsWhat:
    def test_workers_that_look_at_the_same_moment_claim_different_runs(self):
        chosen = [order[:10] for order in orders(100, 4, room=10)]
        assert len({run for runs_chosen in chosen for run in runs_chosen}) == 40

    def test_control_without_shares_all_claim_the_same(self):
        chosen = [order[:10] for order in orders(100, 1, room=10) * 4]
        assert len({run for runs_chosen in chosen for run in runs_chosen}) == 10

    def test_workers_with_nothing_of_their_own_claim_different_runs(self):
        """The share of a worker that takes nothing is left: all claimed its oldest, and waited for each other."""
        theirs = list(orders(400, 8, room=25))[7][:50]  # the share of the last
        left = [run for run in found_runs(400) if run.stream.id in theirs]
        chosen = [workers.Look(left, [], None, True, 0, place, 8).in_own_order(left, 25)[:4] for place in range(7)]
        assert len({run.stream.id for runs_chosen in chosen for run in runs_chosen}) > 18  # of 28 that were wanted

    def test_a_worker_with_nothing_of_its_own_takes_any(self):
        for order in orders(3, 8, room=10):
            assert sorted(order) == [0, 1, 2]

    def test_a_run_whose_worker_is_busy_is_overtaken_by_a_few_only(self):
        (first, *_) = orders(1_000, 8, room=1)
        assert (
            first.index(7) < 8 * workers.OVERTAKING
        )  # the share of the busiest: after the others of the oldest, before the rest

    def test_a_look_counts_the_living_workers_alone(self, store, look):
        for holder in (ME, OTHER):
            store._caller.write(workers.introduce, holder, About(1, ("one",), 1, 0, False, ()))
        assert (look().place, look().workers) == (0, 2)
        store._caller.write(presence.leave, OTHER, [])
        assert (look().place, look().workers) == (0, 1)

    def test_a_look_counts_no_worker_that_takes_suspects_only(self, store, look):
        """A standby: what belonged to it was left for all the others to want at once."""
        for holder, suspects in ((ME, False), (OTHER, True)):
            store._caller.write(workers.introduce, holder, About(1, ("one",), 1, 0, suspects, ()))
        assert (look().place, look().workers) == (0, 1)


@pytest.mark.parametrize(
    ("statement", "given", "expected"),
    [
        ("runs_takeable", (), "runs_of_agents (tenant=? AND status=? AND agent=?)"),
        ("runs_takeable", ("due",), "runs_of_agents (tenant=? AND status=? AND agent=? AND wake_at<?)"),
        ("runs_held_by", (), "runs_by_holder (holder=?)"),
        ("holders_of_runs", (), "runs_open (tenant=? AND status=?)"),
        ("wake_left", (), "runs_open (tenant=? AND status=? AND wake_at>?)"),
        ("runs_running", (), "runs_open (tenant=? AND status=?)"),
        ("runs_counted", (), "COVERING INDEX runs_of_agents (tenant=? AND status=?)"),
        ("runs_parked", (), "runs_by_status (tenant=? AND status=?)"),
    ],
)
def test_plans(database, statement, given, expected):  # noqa: F811
    plan = plan_of(database, getattr(workers.Q, statement), given)
    assert any(expected in line for line in plan), plan
