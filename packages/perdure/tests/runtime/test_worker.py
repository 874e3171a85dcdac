"""The rules of a worker, with a store that is played: what it takes, what it leaves, and how it ends."""

from __future__ import annotations

import asyncio
import contextlib
import threading

import pytest

from perdure.errors import Damaged, Invalid, Stale, Unavailable
from perdure.log.change import Stream
from perdure.model.records.runs import RunStatus
from perdure.planes.execution import leases, runs, workers
from perdure.planes.execution.leases import Company, Lease
from perdure.planes.execution.workers import FoundRun, Look
from perdure.runtime import log_context
from perdure.runtime import worker as module
from perdure.runtime.agent import Agent, Policy
from perdure.runtime.driver import Drive
from perdure.runtime.stopping import Leaving
from perdure.runtime.worker import Worker, WorkerSettings

ME = "0" * 32
ANY, FELLOWS, NOBODY = Company


def agent(name, *, limit=None, is_async=True):
    async def later(run): ...
    def now(run): ...

    return Agent(later if is_async else now, name, Policy(), timeout=None, limit=limit, workspace=None, pins={})


def found(name, agent="a", holder=None, suspect=False):
    uid = name.encode().ljust(16, b"_")
    return FoundRun(agent, holder, suspect, "mother", Stream(abs(hash(name)), uid, 1, "run", name, None, 0))


class Silence:
    """A watch that never hears anything."""

    def __init__(self):
        self._over = threading.Event()

    def wait(self, seconds):
        self._over.wait(min(seconds, 0.05))
        return False

    def rest(self, seconds):
        self._over.wait(seconds)

    def interrupt(self):
        self._over.set()

    def close(self):
        pass


class Desk:
    """A store that is played, as its caller: runs that are ready, suspects, and what becomes of each when it is driven."""

    epoch = 1

    def __init__(self, ready=(), suspects=()):
        self.core = self.liveness = self.heartbeat = self.engine = self
        self.holder, self.folder, self.actor, self.tenant = ME, None, "me", 1
        self.ready = list(ready)
        self.suspects = list(suspects)
        self.done: list[str] = []
        self.released: list[str] = []
        self.parked: dict[str, str] = {}
        self.at_work: set[str] = set()
        self.most: dict[frozenset[str], None] = {}
        self.company: dict[str, Company] = {}
        self.fails: dict[str, BaseException] = {}
        self.holding = asyncio.Event()
        self.holding.set()
        self.left: list[FoundRun] = []
        self.about = None
        self.looks = 0

    async def read(self, verb, *args):
        return await {workers.look: self.look, workers.holders: self.holders, workers.held_by: self.held_by}[verb](
            *args
        )

    borrow = read

    async def write(self, verb, *args, **kwargs):
        if verb is leases.fenced:
            lease, verb, *said = args
            args = [lease, *said]
        known = {
            workers.introduce: self.introduce, leases.claim: self.claim, runs.release: self.release, runs.park: self.park,
            workers.give_back: self.give_back,
        }  # fmt: skip
        return await known[verb](*args, **kwargs)

    async def work(self, task, *args):
        """Nothing is to be tidied here."""

    def begin(self):
        pass

    def hold(self, claim):
        pass

    def is_dead(self, holder):
        return False

    async def holders(self):
        return []

    async def introduce(self, holder, about, dead):
        self.about = about

    async def look(self, wanted, limit, is_dead, me):
        self.looks += 1
        ready = [each for each in self.ready if f'"{each.agent}"' in wanted.agents][:limit]
        return Look(ready, list(self.suspects), None, introduced=self.about is not None)

    async def claim(self, stream, *, holder, program, epoch, dead, company, **_versions):
        await asyncio.sleep(0)
        wanted = [each for each in (*self.ready, *self.suspects) if each.stream == stream]
        if not wanted:
            return None
        (found,) = wanted
        if found.stream.name in self.fails and isinstance(self.fails[found.stream.name], ConnectionError):
            del self.fails[found.stream.name]
            self.ready.remove(found)
            self.left.append(found)
            raise Unavailable("the answer was lost")
        for queue in (self.ready, self.suspects):
            if found in queue:
                queue.remove(found)
                self.company[found.stream.name] = company
                return Lease(found.stream, ME, 1, 1)
        return None

    async def drive(self, agent, lease):
        name = lease.stream.name
        self.at_work.add(name)
        self.most[frozenset(self.at_work)] = None
        try:
            assert log_context.current() == log_context.RunInLogs(name, agent.name, "mother")
            if name in self.fails:
                raise self.fails.pop(name)
            while not self.holding.is_set():
                if lease.leaving and not agent.is_async:
                    raise Leaving  # noqa: TRY301 - as a sync agent's next verb does
                await asyncio.sleep(0.001)
            await asyncio.sleep(0.001)
            self.done.append(name)
            return Drive(RunStatus.COMPLETED)
        except (asyncio.CancelledError, Leaving):
            self.released.append(name)
            raise
        finally:
            self.at_work.discard(name)

    async def release(self, lease):
        if self.fails.pop("release", None):
            raise Unavailable("still away")
        self.released.append(lease.stream.name)

    async def held_by(self, me):
        return list(self.left)

    async def give_back(self, stream, me):
        (found,) = [each for each in self.left if each.stream == stream]
        self.left.remove(found)
        self.ready.append(found)

    async def park(self, lease, reason, why):
        if self.fails.pop("park", None):
            raise Stale("somebody else's")
        self.parked[lease.stream.name] = why

    def watch(self, *, commits):
        return Silence()


def work(desk, agents, until, isolate=None, **settings):
    """Let a worker work until something holds; returns how many runs were left behind."""

    async def main():
        worker = Worker(
            desk, {each.name: each for each in agents}, WorkerSettings(poll_seconds=0.01, **settings), seen, isolate
        )
        task = asyncio.create_task(worker.run())
        async with asyncio.timeout(60):
            while not until(worker):  # noqa: ASYNC110 - played, not timed
                await asyncio.sleep(0.001)
            if not task.done():
                worker.stop()
            return await task

    return asyncio.run(main())


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(module, "adrive", lambda caller, agent, lease, see: caller.drive(agent, lease))
    monkeypatch.setattr(module, "Watch", lambda engine, folder, commits: engine.watch(commits=commits))
    monkeypatch.setattr(module, "CANCEL_SECONDS", 0.2)
    monkeypatch.setattr(module, "AGAIN_SECONDS", (0.001, 0.001))


def seen(agent):
    raise AssertionError("a played run has no program")


def names(count, prefix="r"):
    return [f"{prefix}{number}" for number in range(count)]


class Chatter(Silence):
    """A watch that hears something all the time, and how long it was rested from."""

    def __init__(self):
        super().__init__()
        self.rests: list[float] = []

    def wait(self, seconds):
        return True

    def rest(self, seconds):
        self.rests.append(seconds)
        super().rest(min(seconds, 0.01))


def test_after_a_look_that_waited_for_the_store_it_rests_no_longer_than_it_looks_by_itself(monkeypatch):
    """It was deaf for twenty times the outage, and did not end meanwhile: its supervisor killed it."""
    watch, desk = Chatter(), Desk()
    monkeypatch.setattr(desk, "watch", lambda commits: watch)
    monkeypatch.setattr(module, "CALM_LOOKS", 1e9)
    work(desk, [agent("a")], lambda _: desk.looks > 3 and watch.rests)
    assert max(watch.rests) <= 0.01


class TestTaking:
    def test_it_takes_what_there_is_and_says_who_it_is(self):
        desk = Desk([found(name) for name in names(5)])
        assert work(desk, [agent("a")], lambda _: len(desk.done) == 5, concurrency=10, supervisor=7) == 0
        assert desk.about.agents == ("a",)
        assert desk.about.supervisor == 7
        assert set(desk.company.values()) == {ANY}

    def test_it_introduces_itself_again_when_others_have_forgotten_it(self):
        desk = Desk()
        forgotten = []

        def forget(_worker):
            if desk.looks >= 3 and not forgotten:
                forgotten.append(desk.about)
                desk.about = None
            return bool(forgotten) and desk.about is not None

        work(desk, [agent("a")], forget)
        assert desk.about == forgotten[0]

    def test_never_more_at_once_than_allowed(self):
        desk = Desk([found(name) for name in names(20)])
        work(desk, [agent("a")], lambda _: len(desk.done) == 20, concurrency=3)
        assert max(map(len, desk.most)) == 3

    def test_never_more_of_an_agent_than_its_limit_and_the_others_pass(self):
        ready = [found(name, "narrow") for name in names(6, "n")] + [found(name) for name in names(6)]
        desk = Desk(ready)
        work(desk, [agent("narrow", limit=2), agent("a")], lambda _: len(desk.done) == 12, concurrency=5)
        assert max(len([name for name in group if name[0] == "n"]) for group in desk.most) == 2
        assert max(map(len, desk.most)) == 5

    def test_what_another_took_meanwhile_is_no_trouble(self):
        desk = Desk([found(name) for name in names(3)])
        look = desk.look

        async def too_late(*about):
            seen = await look(*about)
            del desk.ready[1:2]
            return seen

        desk.look = too_late
        work(desk, [agent("a")], lambda _: len(desk.done) == 2)
        assert desk.done == ["r0", "r2"]

    @pytest.mark.parametrize("wrong", [{"concurrency": 0}, {"poll_seconds": 0}, {"grace_seconds": -1}])
    def test_settings_that_make_no_sense_are_refused(self, wrong):
        with pytest.raises(Invalid):
            Worker(Desk(), {}, WorkerSettings(**wrong), seen)


class TestTrouble:
    def test_a_store_that_does_not_answer_is_asked_again(self):
        desk = Desk([found("r0")])
        look, times = desk.look, []

        async def away(*about):
            times.append(1)
            if len(times) < 4:
                raise Unavailable("away")
            return await look(*about)

        desk.look = away
        assert work(desk, [agent("a")], lambda _: desk.done) == 0

    def test_a_run_whose_end_could_not_be_written_is_given_back(self):
        desk = Desk([found("r0"), found("r1")])
        desk.fails = {"r0": Unavailable("away"), "release": True}
        work(desk, [agent("a")], lambda _: desk.released and desk.done)
        assert (desk.released, desk.done) == (["r0"], ["r1"])

    @pytest.mark.parametrize("error", [Damaged("what is stored is no step"), RuntimeError("a bug")])
    def test_a_run_that_cannot_even_be_driven_is_parked_with_its_reason(self, error):
        desk = Desk([found("r0"), found("r1")])
        desk.fails = {"r0": error}
        work(desk, [agent("a")], lambda _: desk.parked and desk.done)
        assert str(error) in desk.parked["r0"]

    def test_a_claim_whose_answer_was_lost_is_found_and_given_back(self):
        desk = Desk([found("r0")])
        desk.fails = {"r0": ConnectionError()}
        work(desk, [agent("a")], lambda _: desk.done)
        assert desk.left == []


def suspects(*groups, again=()):
    """Suspects: of several deaths, and some that are so for the second time."""
    first = [found(name, holder=f"dead{number}") for number, group in enumerate(groups) for name in group]
    return first + [found(name, holder="dead0", suspect=True) for name in again]


class TestSuspects:
    def alone(self, desk, asked=None, relieved=None, **settings):
        """A worker for suspects, until it ends by itself."""

        async def main():
            said = WorkerSettings(suspects_only=True, poll_seconds=0.01, **settings)
            worker = Worker(desk, {"a": agent("a")}, said, seen, asked, relieved or (lambda: None))
            return await asyncio.wait_for(worker.run(), 30)

        return asyncio.run(main())

    def test_processes_of_their_own_are_asked_for_one_for_each_death(self):
        asked = []
        found_ones = suspects(["s0", "s1"], ["t0"], again=["u0", "u1"])
        desk = Desk([found("r0")], [*found_ones, found("x", "unknown")])
        work(desk, [agent("a")], lambda _: asked and desk.done, isolate=asked.append)
        assert set(asked) == {4}  # not for the one that nobody here can drive
        assert desk.done == ["r0"]

    def test_control_what_is_taken_at_once_needs_none(self):
        asked = []
        desk = Desk([found("r0")], [found("s0")])
        look = desk.look

        async def taken_by_a_standby(*about):
            seen = await look(*about)
            desk.suspects.clear()
            return seen

        desk.look = taken_by_a_standby
        work(desk, [agent("a")], lambda _: desk.looks > 5 and desk.done, isolate=asked.append)
        assert asked == []

    @pytest.mark.parametrize("alone", [False, True])
    def test_no_process_is_started_for_one_that_is_pinned_to_a_program_that_is_not_here(self, alone):
        mine, asked = agent("a"), []
        pinned = found("s1", holder="dead")._replace(pinned="another")
        desk = Desk([found("r1")], [pinned])
        work(desk, [mine], lambda _: desk.looks > 20 and desk.done, isolate=None if alone else asked.append)
        assert (asked, desk.done) == ([], ["r1"])

    def test_control_one_that_is_pinned_to_the_program_that_is_here_is_seen_to(self):
        mine, asked = agent("a"), []
        desk = Desk([found("r1")], [found("s1", holder="dead")._replace(pinned=mine.program)])
        work(desk, [mine], lambda _: asked, isolate=asked.append)

    def test_without_one_they_wait_until_it_is_alone_and_nothing_joins_them(self):
        desk = Desk([found(name) for name in names(3)])
        desk.holding.clear()

        def arrive(_worker):
            if len(desk.at_work) == 3 and not desk.suspects:
                desk.suspects = suspects(["s0"], again=["s1"])
                desk.ready = [found("late")]
                desk.holding.set()
            return len(desk.done) == 6

        work(desk, [agent("a")], arrive)
        assert [group for group in desk.most if {"s0", "s1"} & group and len(group) > 1] == []
        assert desk.company == dict.fromkeys([*names(3), "late"], ANY) | {"s0": FELLOWS, "s1": NOBODY}
        assert desk.done[-1] == "late"

    def test_a_worker_for_suspects_takes_nothing_else_and_ends_by_itself(self):
        desk = Desk([found("r0")], suspects(["s0"], ["t0"]))
        asked = []
        assert self.alone(desk, asked.append) == 0  # by itself
        assert asked == [1]  # for the one that it could not take at once
        assert sorted(desk.done) == ["s0", "t0"]
        assert max(map(len, desk.most)) == 1
        assert desk.about.suspects

    def test_those_of_one_death_go_on_together_and_at_once(self):
        desk = Desk([], suspects(names(6, "s"), ["t0", "t1"]))
        asked = []
        self.alone(desk, asked.append, concurrency=10)
        assert asked[0] == 1
        together = {frozenset(names(6, "s")), frozenset(["t0", "t1"])}
        assert together <= set(desk.most)
        assert all(any(group <= each for each in together) for group in desk.most)  # and never with others
        assert set(desk.company.values()) == {FELLOWS}

    def test_control_those_that_are_so_again_go_on_one_by_one(self):
        desk = Desk([], suspects(again=names(6, "s")))
        asked = []
        self.alone(desk, asked.append, concurrency=10)
        assert asked[0] == 5
        assert max(map(len, desk.most)) == 1
        assert set(desk.company.values()) == {NOBODY}

    def test_no_more_of_them_at_once_than_allowed(self):
        desk = Desk([], suspects(names(6, "s")))
        self.alone(desk, concurrency=2)
        assert sorted(desk.done) == names(6, "s")
        assert max(map(len, desk.most)) == 2

    def test_a_standby_that_has_something_to_do_is_relieved_and_ends_with_it(self):
        desk = Desk([], suspects(["s0"], ["t0"]))
        relieved = []
        self.alone(desk, relieved=lambda: relieved.append(len(desk.done)), standby=True)
        assert relieved == [0]  # once, and before anything was done
        assert sorted(desk.done) == ["s0", "t0"]

    def test_control_a_standby_with_nothing_to_do_stays(self):
        desk = Desk()
        assert work(desk, [agent("a")], lambda _: desk.looks > 9, suspects_only=True, standby=True) == 0


class TestEnding:
    def test_what_ends_in_time_is_let_go_on(self):
        desk = Desk([found("r0")])
        desk.holding.clear()

        def told(worker):
            if desk.at_work:
                worker.stop()
                asyncio.get_running_loop().call_later(0.05, desk.holding.set)
                return True
            return False

        # `work` says stop a second time, which ends the grace: say it here alone
        async def main():
            worker = Worker(desk, {"a": agent("a")}, WorkerSettings(poll_seconds=0.01, grace_seconds=30), seen)
            task = asyncio.create_task(worker.run())
            while not told(worker):  # noqa: ASYNC110 - played, not timed
                await asyncio.sleep(0.001)
            return await task

        assert asyncio.run(main()) == 0
        assert (desk.done, desk.released) == (["r0"], [])

    @pytest.mark.parametrize("is_async", [True, False])
    def test_the_rest_is_given_back(self, is_async):
        desk = Desk([found("r0")])
        desk.holding.clear()
        work(desk, [agent("a", is_async=is_async)], lambda _: desk.at_work, grace_seconds=0)
        assert (desk.done, desk.released) == ([], ["r0"])

    def test_said_twice_there_is_no_grace(self):
        desk = Desk([found("r0")])
        desk.holding.clear()

        def twice(worker):
            if desk.at_work:
                worker.stop()
            return bool(desk.at_work)

        work(desk, [agent("a")], twice, grace_seconds=1000)
        assert desk.released == ["r0"]

    def test_what_does_not_come_back_is_counted(self):
        desk = Desk([found("r0")])
        stuck = asyncio.Event()

        async def drive(agent, lease):
            desk.at_work.add("r0")
            while not stuck.is_set():
                with contextlib.suppress(asyncio.CancelledError):
                    await stuck.wait()

        desk.drive = drive

        async def main():
            worker = Worker(
                desk, {"a": agent("a", is_async=False)}, WorkerSettings(poll_seconds=0.01, grace_seconds=0), seen
            )
            task = asyncio.create_task(worker.run())
            while not desk.at_work:  # noqa: ASYNC110 - played, not timed
                await asyncio.sleep(0.001)
            worker.stop()
            left = await task
            stuck.set()
            return left

        assert asyncio.run(main()) == 1
