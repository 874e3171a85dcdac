"""A loop of one's own over the network: effects that the client carries out, what differs between two points, forks of runs."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import perdure
from doors.http.serving_kit import LiveServer
from forked import Program
from hostile_http import ANSWER_IS_LOST, IS_LOST, PASSES, HostileProxy
from perdure.errors import Conflict, KeyReused, NotFound, Refused, Unavailable
from perdure.model.instants import SECOND_US, instant_us
from perdure.runtime.callers import Caller
from remote.test_store import address_of, make_token, port_of, server, url

__all__ = ["server", "url"]


@pytest.fixture
def store(url: str, server: LiveServer) -> Iterator[perdure.Store]:
    with perdure.open(address_of(server), token=make_token(url)) as opened:
        yield opened


def test_an_effect_of_the_client_is_planned_dispatched_and_committed(store, url) -> None:
    session = store.session("s")
    effect = session.begin("open_pr", {"repo": "acme/api"}, kind="keyed", key="pr-42", about=["customer:7"])
    assert (effect.state, effect.settled) == ("planned", False)
    assert effect.dispatch().state == "dispatched"
    assert effect.commit({"number": 7}).result == {"number": 7}
    again = session.begin("open_pr", {"repo": "acme/api"}, kind="keyed", key="pr-42")
    assert (again.id, again.settled, again.result) == (effect.id, True, {"number": 7})
    with pytest.raises(KeyReused):
        session.begin("open_pr", {"repo": "other"}, kind="keyed", key="pr-42")
    with perdure.open(url, read_only=True) as local:
        assert [(each.id, each.state) for each in local.effects(about="customer:7")] == [(effect.id, "committed")]


def test_of_two_who_dispatch_one_does(store) -> None:
    session = store.session("s")
    first = session.begin("send", key="k").dispatch()
    with pytest.raises(Conflict):
        session.begin("send", key="k").dispatch()
    failed = first.fail(ValueError("no"))
    assert failed.record.error == perdure.EffectError("ValueError", "no")


def test_an_effect_that_answers_a_call_leaves_its_result(store) -> None:
    session = store.session("s")
    call = perdure.Call("c1", "send", {"to": "x"})
    session.say("user", "go")
    session.say("assistant", "sending", calls=[call])
    session.begin("send", {"to": "x"}, call=call).dispatch().commit("sent")
    assert [turn.content for turn in session.turns()][-1] == "sent"
    assert session.pending().calls == ()


def test_a_client_that_is_gone_leaves_doubt_to_a_person(store) -> None:
    """Nobody can prove the death of a process elsewhere: it stays dispatched, and a person says what became of it."""
    session = store.session("s")
    session.begin("send", key="k").dispatch()
    found = session.begin("send", key="k")
    assert found.state == "dispatched"
    with pytest.raises(Conflict):
        found.settle(perdure.Absent())
    assert found.settle(perdure.Absent(), force=True).state == "planned"


SERVER = """
import sys, time
sys.path.insert(0, sys.argv[2])
from doors.http.serving_kit import LiveServer
from forked import Program
with LiveServer(sys.argv[1]) as server:
    print(server.address, flush=True)
    time.sleep(600)
"""


@contextmanager
def served(url: str) -> Iterator[perdure.Store]:
    """A store over the network, whose server is killed at the end."""
    with Program("-c", SERVER, url, str(Path(__file__).parents[1]), stdout=subprocess.PIPE) as program:
        address = program.stdout.readline().strip()
        with perdure.open(address, token=make_token(url)) as store:
            yield store
            program.kill()
            program.wait()


def test_a_claim_of_a_client_outlives_its_server(url) -> None:
    """It was free as soon as the server was gone: two clients worked at one task, each within its time."""
    with perdure.open(url) as made:
        made.session("s").task("deploy")
    with served(url) as store:
        claimed = store.session("s").claim_next(ttl="1h")
    claimed_us = instant_us(claimed.record.changed_at, 0)
    with perdure.open(url, clock=lambda: claimed_us + 3_000 * SECOND_US) as later:
        assert [each.abandoned for each in later.session("s").tasks()] == [False]  # after 50 minutes
        assert later.session("s").claim_next(ttl="1h") is None
    with perdure.open(url, clock=lambda: claimed_us + 3_700 * SECOND_US) as later:
        assert later.session("s").claim_next(ttl="1h").id == claimed.id


def test_a_store_whose_client_sends_is_not_moved(store, url, tmp_path) -> None:
    store.session("s").begin("send", key="k").dispatch()
    with pytest.raises(Refused, match="effect send"):
        perdure.move(url, f"sqlite:///{tmp_path}/b.db", actor="mover")


def test_the_death_of_the_server_proves_nothing_about_the_client(url) -> None:
    """The client may still be about to send: after a probe that said Absent it was sent a second time."""
    sent: list[str] = []

    @perdure.tool(probe=perdure.Absent, lands_within=0)
    def charge() -> None:
        sent.append("by another")

    with perdure.open(url) as made:
        made.session("s")
    with served(url) as store:
        effect = store.session("s").begin("charge", kind="probed", key="k").dispatch()
    with perdure.open(url) as local:
        assert [each.id for each in local.effects(in_doubt=True)] == [effect.id]
        found = local.session("s").begin("charge", kind="probed", key="k").record
        assert (found.state, found.quiet_at) == ("in_doubt", None)
        assert "no sign of life" in found.error.message
        with pytest.raises(perdure.InDoubt):
            local.session("s").act(charge, key="k")
        assert sent == []
        assert local.effect(effect.id).settle(perdure.Happened(1)).state == "committed"


@pytest.mark.parametrize("trouble", [ANSWER_IS_LOST, IS_LOST], ids=["answers", "requests"])
def test_each_is_said_once_whatever_breaks(url, server, trouble) -> None:
    fates = HostileProxy(port_of(server), lambda number, _: PASSES if number % 2 else trouble)
    with fates as way, perdure.open(way.url, token=make_token(url)) as store:
        store.session("s").begin("send", key="k").dispatch().commit(1)
    with perdure.open(url, read_only=True) as store:
        made = [each.kind for each in store.feed(limit=1_000) if each.kind.startswith("effect.")]
    assert made == ["effect.planned", "effect.dispatched", "effect.committed"]


def test_what_needs_a_function_or_one_commit_is_refused(store) -> None:
    @perdure.tool(kind="idempotent", timeout=3)
    def declared_far_away() -> None: ...

    session = store.session("s")
    with pytest.raises(Refused, match="a function"):
        session.begin(declared_far_away, key="k")
    with pytest.raises(Refused, match="one commit"):
        session.begin("send", key="k").dispatch().commit(1, checkpoint={"n": 1})
    assert session.begin("send", key="k").state == "dispatched"


def test_the_difference_between_two_points_and_a_fork(store, url) -> None:
    session = store.session("s")
    session.set("branch", "main")
    turn = session.say("user", "hello")
    session.set("branch", "fix")
    session.say("assistant", "on it")
    fork = session.fork(at=turn.seq, name="other")
    fork.set("branch", "third")
    found = session.at(turn.seq).diff(session), session.diff(fork), session.diff(session)
    with perdure.open(url, read_only=True) as local:
        mine, theirs = local.session("s"), local.session("other")
        assert found == (mine.at(turn.seq).diff(mine), mine.diff(theirs), mine.diff(mine))
    assert [(each.name, each.before, each.after) for each in found[0].values] == [("branch", "main", "fix")]
    assert found[2].same


@perdure.agent(name="forked-from-afar")
def forked(run: perdure.Run, start: int) -> int:
    return run.step(abs, start) + run.step(abs, -start)


def test_a_run_is_forked_and_compared(store, url) -> None:
    with perdure.open(url) as local:
        assert local.drive(forked, -4, key="k") == 8
        handle = next(iter(local.runs()))
    run = store.run(handle.id)
    first = run.steps()[0]
    fork = run.fork(first.place, 10)
    assert (fork.record.status, fork.record.what_if.run) == ("ready", run.id)
    with perdure.open(url) as local:
        assert local.drive(forked, -4, key=fork.record.key) == 14 if fork.record.key else True
        assert run.diff(fork) == local.run(run.id).diff(local.run(fork.id))
    with pytest.raises(NotFound):
        run.fork("nowhere", 1)


@pytest.mark.parametrize("verb", ["commit", "fail"])
def test_an_outcome_in_hand_is_kept_while_the_server_is_away(url, server, verb, monkeypatch) -> None:
    """It was refused as a thing that cannot be done over the network. Control: with nothing kept it is told as unavailable."""
    is_away = False
    way = HostileProxy(port_of(server), lambda *_: IS_LOST if is_away else PASSES)
    pauses: list[float] = []

    def turn(store: perdure.Store, *, away: bool) -> None:
        nonlocal is_away
        is_away = away
        store._caller.core._connections._timeout_seconds = 0.1 if away else 30.0

    with way, perdure.open(way.url, token=make_token(url), keep=0) as store:
        monkeypatch.setattr(
            Caller, "pause", lambda _, seconds, _check: pauses.append(seconds) or turn(store, away=len(pauses) < 3)
        )
        effect = store.session("s").begin("send", key="lost").dispatch()
        turn(store, away=True)
        with pytest.raises(Unavailable, match="does not answer"):
            effect.commit(1)
        assert pauses == []
        turn(store, away=False)
        store._caller.core.keep_seconds = 600.0
        effect = store.session("s").begin("send", key="k").dispatch()
        turn(store, away=True)
        ended = effect.commit({"n": 1}) if verb == "commit" else effect.fail("no")
        assert ended.state == ("committed" if verb == "commit" else "failed")
    assert pauses == [0.1, 0.5, 1.0]


def test_an_outcome_is_about_the_attempt_that_was_dispatched(store, url) -> None:
    """It may come late, after a person let another program send it anew: that one's outcome is still to come."""
    first = store.session("s").begin("send", key="k").dispatch()
    store.effect(first.id).settle(perdure.Absent(), force=True)
    second = store.session("s").begin("send", key="k").dispatch()
    assert first.commit("of the first").state == "dispatched"
    assert second.commit("of the second").result == "of the second"
    with perdure.open(url, read_only=True) as local:
        assert [each.result for each in local.session("s").effects()] == ["of the second"]
