"""Workers as real processes, with real signals: what is killed goes on, what drains is given back, what is stale is silent."""

from __future__ import annotations

import os
import signal
import time
from typing import Any
from urllib.parse import urlsplit

import pytest

import perdure
from perdure.planes.execution import leases, steps
from runtime.crew import Scene, most_at_once, overlaps, scene, until
from runtime.worker_app import (
    aplod,
    astubborn,
    doze,
    inside,
    insist,
    killer,
    narrow,
    peek,
    plod,
    queue,
    stubborn,
    stumble,
    timely,
)


@pytest.fixture(params=["sqlite", "postgres"])
def url(request, tmp_path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/a.db"
    return request.getfixturevalue("postgres_url")


@pytest.fixture
def stage(url, tmp_path):
    with scene(url, tmp_path) as made:
        yield made


def total(steps: int) -> int:
    return steps * (steps - 1) // 2


def steps_of(handle) -> int:
    return len(handle._read(steps.steps))


# -- beginning -----------------------------------------------------------------------------------------------


def test_a_worker_that_is_killed_while_it_imports_its_program_is_followed_by_another(stage: Scene, tmp_path):
    crew = stage.crew(KILLED_ONCE=str(tmp_path / "killed"))
    assert (tmp_path / "killed").exists()
    assert stage.store.start(plod, 1, 0).result(timeout=60) == 0
    assert crew.logged("a worker died", status=-signal.SIGKILL, worker="none yet: it had not begun to work")


def test_agents_and_what_they_start_do_not_see_the_password_of_the_store(tmp_path, postgres_url):
    password = urlsplit(postgres_url).password
    with scene(postgres_url, tmp_path) as stage:
        stage.crew()
        assert stage.store.start(peek, f":{password}@").result(timeout=60) == [False] * 4
        assert stage.store.start(peek, "WITNESS").result(timeout=60) == [True, False, True, True]  # the control


# -- working -------------------------------------------------------------------------------------------------


def test_runs_of_both_colours_are_driven_and_sleepers_wake(stage: Scene):
    stage.crew(processes=2)
    handles = [stage.store.start(agent, 4, 0.01) for agent in (plod, aplod) for _ in range(5)]
    sleeper = stage.store.start(doze, "300ms")
    assert [each.result(timeout=60) for each in handles] == [total(4)] * 10
    assert sleeper.result(timeout=60) == "rested"
    assert "run.waiting" in stage.kinds(sleeper)


def test_logs_carry_the_run_and_its_parent(stage: Scene):
    crew = stage.crew()
    handle = stage.store.start(plod, 1, 0)
    handle.result(timeout=60)
    until(lambda: crew.logged("completed", run=handle.id, agent="plod", level="info"))
    assert crew.logged("taken", run=handle.id, token=1)


def test_logs_say_how_a_run_came_to_its_rest_and_nothing_of_what_it_said(stage: Scene):
    crew = stage.crew()
    failing, dozing = stage.store.start(stumble, "a secret"), stage.store.start(doze, "1h")
    until(lambda: crew.logged("failed", run=failing.id, level="warning", why="LookupError"))
    until(lambda: crew.logged("waiting", run=dozing.id, level="info", why="sleep"))
    [said] = crew.logged("its program raised", run=failing.id)
    assert "in stumble" in said["trace"]
    assert said["trace"].endswith(f"LookupError (its message: perdure show {failing.id}, or --log-level debug)")
    assert "a secret" not in crew.log.read_text()


def test_whoever_asks_for_it_gets_the_message_too(stage: Scene):
    crew = stage.crew("--log-level", "debug")
    failing = stage.store.start(stumble, "a secret")
    [said] = until(lambda: crew.logged("its program raised", run=failing.id))
    assert "a secret" in said["trace"].splitlines()[-1]


def test_limits_hold(stage: Scene):
    stage.crew("--concurrency", "4")
    gate = stage.folder / "gate"

    def most(handles: list[Any]) -> int:
        return most_at_once(stage.said(), {each.id for each in handles})

    few = [stage.store.start(narrow, 3, 0.05, str(gate)) for _ in range(6)]
    until(lambda: most(few) >= 2, "as many of them as may")  # before the others take their places
    many = [stage.store.start(aplod, 3, 0.05, str(gate)) for _ in range(8)]
    until(lambda: most(few + many) >= 4, "as many as may")
    gate.touch()
    for each in few + many:
        each.result(timeout=60)
    assert (most(few), most(few + many)) == (2, 4)  # reached, and not passed


def test_a_run_of_an_agent_that_nobody_knows_stays_ready_and_shows(stage: Scene):
    @perdure.agent(name="ghost")
    def ghost(run):
        return None

    stage.crew()
    handles = [stage.store.start(ghost) for _ in range(3)]
    other = stage.store.start(plod, 1, 0)
    assert other.result(timeout=60) == 0  # what nobody can drive is in nobody's way
    assert {each.refresh().status.value for each in handles} == {"ready"}
    shown = {each.agent: (each.known, each.ready) for each in stage.tree().queue}
    assert shown["ghost"] == (False, 3)
    assert shown["plod"] == (True, 0)


# -- dying ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("processes", [1, 2])
def test_a_killed_worker_loses_nothing_and_its_runs_go_on_at_once(stage: Scene, processes, capsys):
    crew = stage.crew(processes=processes)
    gate = stage.folder / "gate"
    handles = [stage.store.start(agent, 20, 0.05, str(gate)) for agent in (plod, aplod)]
    until(lambda: all(steps_of(each) >= 2 for each in handles))
    victim = stage.pid_of(handles[0].id)
    os.kill(victim, signal.SIGKILL)
    gate.touch()
    struck = time.monotonic()
    until(lambda: any("run.recovered" in stage.kinds(each) for each in handles))
    first = time.monotonic() - struck
    until(lambda: "run.recovered" in stage.kinds(handles[0]))
    said = f"recovery after SIGKILL, {processes} processes: the first run after {first:.2f} s"
    with capsys.disabled():
        print(f"\n{said}, this one after {time.monotonic() - struck:.2f} s")  # noqa: T201 - figures
    assert [each.result(timeout=60) for each in handles] == [total(20)] * 2
    assert handles[0].refresh().record.deaths == 0
    begun = [each.number for each in stage.said() if each.run == handles[0].id and each.what == "begin"]
    assert set(begun) == set(range(20))
    assert len(begun) <= 21  # only the step that was under way was done again
    assert overlaps(stage.said(), victim) == []
    until(lambda: len(crew.logged("started", role="worker")) == processes + 1, "the one that replaces it")


def test_a_worker_of_two_tenants_drives_both_and_a_killed_one_leaves_nothing_of_either(stage: Scene):
    with perdure.open(stage.url, tenant="other") as other:
        stage.crew("--also-tenant", "other")
        gate = stage.folder / "gate"
        handles = [store.start(agent, 5, 0.01, str(gate)) for store in (stage.store, other) for agent in (plod, aplod)]
        until(lambda: all(steps_of(each) >= 2 for each in handles))
        os.kill(stage.pid_of(handles[0].id), signal.SIGKILL)
        gate.touch()
        assert [each.result(timeout=60) for each in handles] == [total(5)] * 4
        assert all("run.recovered" in stage.kinds(each) for each in handles)


def test_all_runs_of_a_killed_worker_go_on_at_once_and_again(stage: Scene):
    stage.crew("--concurrency", "5", processes=2)  # so that each has five
    handles = [stage.store.start(agent, 400, 0.05) for agent in (plod, aplod) for _ in range(5)]
    killed = []
    for _ in range(2):  # the second time while those of the first are still suspects
        until(lambda: all(steps_of(each) >= 1 for each in handles))
        workers = [each for each in stage.tree().workers if each.about is not None and each.runs]
        victim = max((each for each in workers if not each.about.suspects), key=lambda each: len(each.runs))
        theirs = [held.run for held in victim.runs]
        killed.append(victim.about.pid)
        os.kill(killed[-1], signal.SIGKILL)
        until(lambda: _are_elsewhere(stage, theirs, killed[-1]))  # noqa: B023
        holders = {stage.pid_of(run) for run in theirs}
        assert len(holders) == 1  # together
        assert holders.isdisjoint(each.about.pid for each in workers)  # and beside no others
    assert overlaps(stage.said(), *killed) == []


def _are_elsewhere(stage: Scene, names: list[str], killed: int) -> bool:
    """Whether all these runs have begun a step after the last one of a process that was killed."""
    said = stage.said()
    last = max(each.at for each in said if each.pid == killed)
    return set(names) <= {each.run for each in said if each.at > last}


@pytest.mark.parametrize("how", ["exit", "kill"])
def test_a_run_that_kills_its_process_takes_nobody_with_it_and_is_parked(stage: Scene, how):
    crew = stage.crew()
    others = [stage.store.start(agent, 6, 0.05) for agent in (plod, aplod, aplod)]
    bad = stage.store.start(killer, how)
    with pytest.raises(perdure.Parked) as caught:
        bad.result(timeout=60)
    assert caught.value.facts["reason"] == "deaths"
    assert f"{leases.DEATHS_MAX} processes died with it" in caught.value.message
    assert [each.result(timeout=60) for each in others] == [total(6)] * 3
    assert stage.kinds(bad).count("run.recovered") == leases.DEATHS_MAX
    assert all(each.refresh().record.deaths == 0 for each in others)
    assert crew.program.poll() is None  # the supervisor did not take it for a worker that dies again and again
    assert stage.store.start(plod, 1, 0).result(timeout=60) == 0


# -- ending --------------------------------------------------------------------------------------------------


def test_sigterm_lets_go_on_what_ends_in_time(stage: Scene):
    crew, gate = stage.crew("--grace", "60s", processes=2), stage.folder / "gate"
    handles = [stage.store.start(agent, 2, 0.05, str(gate)) for agent in (plod, aplod)]
    until(lambda: all(steps_of(each) >= 1 for each in handles))
    crew.program.terminate()
    until(lambda: crew.logged("letting 1 runs continue for 60 s") or crew.logged("letting 2 runs continue for 60 s"))
    gate.touch()
    assert crew.program.wait(60) == 0
    assert {each.refresh().status.value for each in handles} == {"completed"}  # the time of grace was enough


def test_sigterm_gives_back_what_does_not_end_in_time(stage: Scene):
    first = stage.crew("--grace", "300ms", processes=2)
    handles = [stage.store.start(agent, 200, 0.1) for agent in (plod, aplod)]
    until(lambda: all(steps_of(each) >= 1 for each in handles))
    assert first.end() == 0
    assert {each.refresh().status.value for each in handles} == {"ready"}
    assert stage.tree().workers == ()
    stage.crew(HURRIED="1")
    assert [each.result(timeout=60) for each in handles] == [total(200)] * 2
    for each in handles:
        kinds = stage.kinds(each)
        assert "run.released" in kinds
        assert "run.recovered" not in kinds  # nobody died, so nobody is suspected
    assert overlaps(stage.said()) == []


@pytest.mark.parametrize("how", ["unclear", "unsent"])
def test_sigterm_gives_back_a_sync_agent_that_waits_for_its_next_attempt(stage: Scene, how):
    crew = stage.crew()
    handle = stage.store.start(insist, how)
    until(lambda: {"unclear": "effect.doubted", "unsent": "effect.absent"}[how] in stage.kinds(handle))
    assert crew.end() == 0
    assert handle.refresh().status.value == "ready"
    assert stage.kinds(handle)[-1] == "run.released"
    assert not crew.logged("1 runs do not stop: they continue elsewhere once this process is gone")


def test_sigterm_gives_back_a_sync_agent_that_waits_for_a_slot(stage: Scene, tmp_path):
    crew = stage.crew()
    there = tmp_path / "there"
    first, second = handles = [stage.store.start(queue, str(there)) for _ in range(2)]
    until(lambda: {each.run for each in stage.said() if each.number == 1} == {first.id, second.id})
    until(lambda: any("effect.dispatched" in stage.kinds(each) for each in handles))
    assert crew.end() == 0
    [waiting] = [each for each in handles if "effect.dispatched" not in stage.kinds(each)]
    there.touch()
    assert stage.kinds(waiting)[-1] == "run.released"


@pytest.mark.parametrize("how", ["apart", "bounded", "asked"])
def test_sigterm_gives_back_a_sync_agent_that_is_inside_a_call_that_can_be_left(stage: Scene, tmp_path, how):
    """An isolated tool is killed; one with a deadline, and a probe, are left to the end of their process."""
    crew, there = stage.crew(), tmp_path / "there"
    handle = stage.store.start(inside, how, str(there))
    until(stage.said)
    assert crew.end() == 0
    assert stage.kinds(handle)[-2:] == ["effect.doubted", "run.released"]
    [effect] = handle.effects()
    assert (effect.state, effect.record.quiet_at is not None) == ("in_doubt", how != "bounded")
    there.touch()
    stage.crew()
    assert handle.result(timeout=60) == "back"
    assert "run.recovered" not in stage.kinds(handle)  # nobody died, so nobody is suspected
    assert len(stage.said()) == 2
    [effect] = handle.effects()
    assert (effect.state, effect.record.attempt) == ("committed", 1 if how == "asked" else 2)


def test_a_sync_agent_that_does_not_come_back_is_freed_by_the_end_of_its_process(stage: Scene, tmp_path):
    first = stage.crew("--grace", "100ms")
    there = tmp_path / "there"
    handle = stage.store.start(stubborn, str(there))
    until(stage.said)
    assert first.end() == 0
    assert handle.refresh().status.value == "running"  # it could not be given back
    there.touch()
    stage.crew()
    assert handle.result(timeout=60) == "back"
    assert "run.recovered" in stage.kinds(handle)


def test_a_step_that_does_not_come_back_keeps_nobody(stage: Scene, tmp_path):
    first = stage.crew("--grace", "100ms")
    there = tmp_path / "there"
    handle = stage.store.start(astubborn, str(there))
    until(stage.said)
    assert first.end() == 0
    assert handle.refresh().status.value == "ready"  # it was given back
    assert first.logged("killed: it did not end") == []
    there.touch()
    stage.crew()
    assert handle.result(timeout=60) == "back"
    assert "run.recovered" not in stage.kinds(handle)


def test_workers_end_when_their_supervisor_is_killed(stage: Scene):
    crew = stage.crew("--grace", "100ms", processes=2)
    handle = stage.store.start(aplod, 2, 0.05, str(stage.folder / "gate"))
    until(lambda: steps_of(handle) >= 1)
    crew.end(signal.SIGKILL)
    until(lambda: not stage.tree().workers, "the end of its workers")
    assert handle.refresh().status.value == "ready"


# -- leases --------------------------------------------------------------------------------------------------


def test_a_worker_that_was_stopped_past_its_lease_writes_nothing_afterwards(stage: Scene):
    stage.crew("--lease", "2s")
    gate = stage.folder / "gate"
    handle = stage.store.start(plod, 12, 0.05, str(gate))
    until(lambda: steps_of(handle) >= 2)
    zombie = stage.pid_of(handle.id)
    os.kill(zombie, signal.SIGSTOP)
    gate.touch()
    stage.crew("--lease", "2s")
    assert handle.result(timeout=60) == total(12)
    before = stage.kinds(handle)
    os.kill(zombie, signal.SIGCONT)
    other = stage.store.start(plod, 1, 0)
    until(lambda: _holder_lives(stage, zombie))
    assert other.result(timeout=60) == 0
    assert stage.kinds(handle) == before
    assert before.count("run.completed") == 1
    places = [each.place for each in handle._read(steps.steps)]
    assert len(places) == len(set(places)) == 12


def _holder_lives(stage: Scene, pid: int) -> bool:
    return any(each.alive and each.about and each.about.pid == pid for each in stage.tree().workers)


def test_two_workers_never_run_one_run_at_once(stage: Scene):
    for _ in range(2):
        stage.crew("--concurrency", "5")
    handles = [stage.store.start(agent, 3, 0.02) for agent in (plod, aplod) for _ in range(10)]
    for each in handles:
        assert each.result(timeout=60) == total(3)
    said = stage.said()
    assert overlaps(said) == []
    assert len([each for each in said if each.what == "begin"]) == 3 * len(handles)  # and nothing twice
    assert {each.refresh().record.token for each in handles} == {1}


def test_control_without_the_fence_two_workers_in_one_run_are_caught(stage: Scene):
    for _ in range(2):
        stage.crew("--concurrency", "5", UNFENCED="1")
    for _ in range(5):
        stage.store.start(aplod, 400, 0.05)
    until(lambda: overlaps(stage.said()), "two workers in one run")


@pytest.mark.parametrize("off", ["3600", "-3600"])
def test_a_worker_whose_clock_is_an_hour_off_changes_nothing(postgres_url, tmp_path, off):
    with scene(postgres_url, tmp_path) as stage:
        stage.crew("--agent", "plod", "--agent", "doze", "--agent", "timely", CLOCK_OFF_SECONDS=off)
        stage.crew("--agent", "aplod", "--agent", "plod")
        handles = [stage.store.start(agent, 10, 0.05) for agent in (plod, aplod, timely)]
        sleeper = stage.store.start(doze, "500ms")
        assert [each.result(timeout=60) for each in handles] == [total(10)] * 3
        assert sleeper.result(timeout=60) == "rested"
        assert {each.refresh().record.token for each in handles} == {1}  # nobody took them from each other
        assert stage.kinds(sleeper).count("run.claimed") == 2  # it woke once, at its time
        assert overlaps(stage.said()) == []
