"""Whose death somebody may yet have to prove: who has a run, an effect that may not be quiet, or a heartbeat (P4, P8)."""

from __future__ import annotations

import pytest

import perdure
from perdure.effects import ledger
from perdure.model.records.effects import EffectError
from perdure.model.records.workers import About
from perdure.planes.execution import leases, tasks, workers
from perdure.planes.recovery import locks, presence
from perdure_testing.clock import FakeClock
from planes.test_plans import database, plan_of  # noqa: F401 - a fixture

OTHER = "b" * 32


@perdure.agent(name="needing")
def needing(run):
    return None


@pytest.fixture(params=["sqlite", "postgres"])
def url(request, tmp_path):
    return f"sqlite:///{tmp_path}/a.db" if request.param == "sqlite" else request.getfixturevalue("postgres_store")


@pytest.fixture
def store(url):
    with perdure.open(url, clock=FakeClock()) as store:
        yield store


def is_needed(store, holder=OTHER):
    return holder in store._caller.read(presence.needed)


def test_who_has_a_run_until_another_takes_it(store):
    handle = store.start(needing)
    given = {"program": "p", "epoch": 0}
    store._caller.write(leases.claim, handle._stream, holder=OTHER, **given)
    store._caller.core.clocks.now.advance("1h")
    assert is_needed(store)
    store._caller.write(leases.claim, handle._stream, holder="c" * 32, **given)
    assert not is_needed(store)


def test_who_gave_a_sign_of_life(store):
    assert not is_needed(store)
    store._caller.write(presence.touch_holder, OTHER)
    assert is_needed(store)
    store._caller.core.clocks.now.advance("1h")
    assert not is_needed(store)


@pytest.mark.parametrize("quiet", [False, True])
def test_who_sent_something_for_any_tenant_until_it_is_settled_or_known_to_be_quiet(store, url, quiet):
    clock = store._caller.core.clocks.now
    with perdure.open(url, clock=clock, tenant="acme") as sender:
        session, holder = sender.session("s"), sender._caller.core.holder
        effect = session.begin("send", {}, key="k")
        effect.dispatch()
        clock.advance("1h")
        assert is_needed(store, holder)
        said = EffectError("Died", "")
        sender._caller.write(ledger.doubt, session._stream, effect.record.seq, 1, said, quiet=quiet)
        clock.advance("1h")
        assert is_needed(store, holder) is not quiet
        sender.effect(effect.id).settle(perdure.Happened(None), by="ada")
        clock.advance("1h")
        assert not is_needed(store, holder)


def test_too_many_are_not_told_apart(store, monkeypatch):
    store._caller.write(presence.touch_holder, OTHER)
    monkeypatch.setattr(presence, "NEEDED_MAX", 1)
    assert store._caller.read(presence.needed) is None


@pytest.mark.parametrize("expected", ["runs_by_holder", "effects_by_state (tenant=? AND state=?)"])
def test_plans(database, expected):  # noqa: F811
    plan = plan_of(database, presence.Q.holders_needed)
    assert any(expected in line for line in plan), plan


# -- heartbeats that are long over -----------------------------------------------------------------------------


def heartbeats(store):
    rows = store._caller.read(lambda reads: reads.query(presence.Q.holders_under, tenant=reads.tenant, prefix=""))
    return {holder for holder, _ in rows}


def forget_after(store, age):
    store._caller.core.clocks.now.advance(age)
    return store._caller.write(presence.forget_lapsed)


def test_a_heartbeat_that_is_long_over_is_forgotten_and_a_younger_one_is_not(store):
    store._caller.write(presence.touch_holder, OTHER)
    assert forget_after(store, "23h") == 0
    store._caller.write(presence.touch_holder, "c" * 32)
    assert forget_after(store, "2h") == 1
    assert heartbeats(store) == {"c" * 32}
    store._caller.write(presence.beat, OTHER, ())  # it was only stopped
    assert heartbeats(store) == {OTHER, "c" * 32}


def with_run(store):
    store._caller.write(leases.claim, store.start(needing)._stream, holder=OTHER, program="p", epoch=0)


def with_task(store):
    session = store.session("s")
    store._caller.write(tasks.claim, session._stream, session.task("t").id, ttl=None, holder=OTHER)


def with_lock(store):
    store._caller.write(presence.touch_holder, OTHER)
    store._caller.write(locks.acquire, store.session("s")._stream, "l", ttl="3d", holder=OTHER)


def with_worker(store):
    store._caller.write(workers.introduce, OTHER, About(pid=1, agents=(), concurrency=1))


def with_session(store):
    store._caller.write(presence.attend, store.session("s")._stream, OTHER, begin=True)


def with_effect(store):
    store._caller.write(presence.touch_holder, OTHER)
    session = store.session("s")
    effect = session.begin("send", {}, key="k")
    store._caller.write(
        ledger.begin_next_attempt, session._stream, effect.record.seq, ledger.Sender(OTHER, effect.record.epoch)
    )


@pytest.mark.parametrize("needs", [with_run, with_task, with_lock, with_worker, with_session, with_effect])
def test_a_heartbeat_that_something_names_stays(store, needs):
    needs(store)
    assert OTHER in heartbeats(store)
    forget_after(store, "2d")
    assert OTHER in heartbeats(store)


def test_a_session_that_ended_needs_no_heartbeat(store):
    with_session(store)
    store.session("s").close()
    forget_after(store, "2d")
    assert OTHER not in heartbeats(store)


def test_recover_forgets_heartbeats_of_its_own_tenant(store, url):
    clock = store._caller.core.clocks.now
    with perdure.open(url, clock=clock, tenant="acme") as other:
        for each in (store, other):
            each._caller.write(presence.touch_holder, OTHER)
        clock.advance("2d")
        store.recover()
        assert OTHER not in heartbeats(store)
        assert OTHER in heartbeats(other)
