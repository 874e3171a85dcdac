"""Actors: headers name them at random, the directory says who they are, and can forget it (P6)."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import apsw
import pytest

import perdure
from installed import stores_here
from perdure.interchange.move import move
from perdure.log.actors import is_random
from perdure.stores.core import open_core

ALICE = "alice@example.org"


@pytest.fixture(params=stores_here("sqlite", "postgres", "files"))
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        return request.getfixturevalue("postgres_store")
    return f"sqlite:///{tmp_path}/a.db" if request.param == "sqlite" else f"files:///{tmp_path}/a"


def headers(url: str) -> set[str]:
    core = open_core(url)
    try:
        connection = core.engine.connect()
        rows = [*connection.raw.execute("SELECT actor FROM events")]
        connection.close()
    finally:
        core.close()
    return {actor for (actor,) in rows}


def test_a_header_names_nobody_and_everything_else_shows_who_it_was(url):
    with perdure.open(url, actor=ALICE) as store:
        session = store.session("a")
        turn = session.say("user", "hello")
        session.set("k", 1)
        session.emit("app.noted", {"n": 1})
        assert turn.actor == session.turns()[0].actor == session.entry("k").actor == ALICE
        assert {event.actor for event in store.events()} == {event.actor for event in session.events()} == {ALICE}
        assert {event.actor for event in store.feed()} == {ALICE}
        assert len(store.events(actor=ALICE)) == len(store.events())
        assert session.at(2).turns()[0].actor == ALICE
        assert [hit.actor for hit in store.search("hello")] == [ALICE]
        assert {row["actor"] for row in store.query("SELECT actor FROM v_events")} == {ALICE}
        assert [record.name for record in store.actors()] == [ALICE]
        assert store.verify().ok
        assert store.verify().counts.plain_actors == 0
    assert len(headers(url)) == 1
    assert all(map(is_random, headers(url)))


def test_an_actor_is_introduced_once_whoever_comes_first(url):
    for _ in range(2):
        with perdure.open(url, actor=ALICE) as one, perdure.open(url, actor=ALICE) as two, perdure.open(url) as other:
            for n in range(3):
                one.session("a").say("user", str(n))
                two.session("b").say("user", str(n))
                other.session("a").say("user", str(n))
    with perdure.open(url) as store:
        assert sorted(record.name for record in store.actors()) == [ALICE, "me"]
        assert [event.kind for event in store.events(kind="tenant.*")].count("tenant.actor_named") == 2
    assert len(headers(url)) == 2


def test_what_is_not_committed_introduces_nobody(url):
    with perdure.open(url, actor=ALICE) as store:

        def fail(tx: Any) -> None:
            tx.session("a").say("user", "never")
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            store.atomic(fail)
        assert store.actors() == []
        store.session("a").say("user", "said")
        assert [record.name for record in store.actors()] == [ALICE]
        assert store.verify().ok


def test_the_directory_forgets_and_the_chain_still_verifies(url):
    with perdure.open(url, actor=ALICE) as store:
        store.session("a").say("user", "hello")
        assert store.forget_actor(ALICE) == 1
        shown = store.session("a").turns()[0].actor
        assert is_random(shown)
        assert store.actors() == []
        assert store.events(actor=ALICE) == []
        store.session("a").say("user", "again")
        assert [turn.actor for turn in store.session("a").turns()] == [shown, ALICE]  # under a new name
        assert len({turn.actor for turn in store.session("a").turns()}) == 2
        store.forget_actor(ALICE)
        report = store.verify()
        assert report.ok, report.problems
        assert len(report.unverifiable) == 2
        with pytest.raises(perdure.NotFound):
            store.forget_actor(ALICE)
        assert store._caller.core.engine.lingering() == 0  # of a files store: the lines that said it, too
    assert len(headers(url)) == 2


def test_names_travel_in_bundles_and_moves(url, tmp_path):
    with perdure.open(url, actor=ALICE) as store:
        store.session("a").say("user", "hello")
        store.export(tmp_path / "x.perdure", ["a"])
    with perdure.open("memory:", actor="bob") as other:
        other.import_(tmp_path / "x.perdure")
        assert other.session("a").turns()[0].actor == ALICE
        assert other.import_(tmp_path / "x.perdure").added == 0
        assert other.verify().ok
    target = f"sqlite:///{tmp_path}/moved.db"
    move(url, target, actor="bob")
    with perdure.open(target, actor=ALICE) as moved:
        assert moved.session("a").turns()[0].actor == ALICE
        moved.session("a").say("user", "on")
        assert [record.name for record in moved.actors()].count(ALICE) == 1


def test_what_was_forgotten_does_not_travel(tmp_path):
    with perdure.open(f"sqlite:///{tmp_path}/a.db", actor=ALICE) as store:
        store.session("a").emit("app.noted", {"n": 1})
        store.forget_actor(ALICE)
        store.export(tmp_path / "x.perdure", ["a"])
    with perdure.open("memory:") as other:
        other.import_(tmp_path / "x.perdure")
        assert is_random(other.session("a").events(emitted=True)[0].actor)


def test_chains_of_before_keep_their_names_and_are_counted(tmp_path):
    fixture = Path(__file__).parents[4] / "tests" / "fixtures" / "schema" / "0004.sql"
    connection = apsw.Connection(str(tmp_path / "old.db"))
    for _ in connection.execute(fixture.read_text("utf-8")):
        pass
    connection.close()
    url = f"sqlite:///{tmp_path}/old.db"
    with perdure.open(url, actor="me") as store:
        before = store.verify().counts
        assert 0 < before.plain_actors <= before.events
        session = store.session("main")
        session.say("user", "after")
        turns = session.turns()
        assert {turns[0].actor, turns[-1].actor} == {"me"}
        assert store.verify().counts.plain_actors == before.plain_actors
        both = store.events(actor="me", limit=1000)
        assert len(both) == len(store.events(limit=1000))
        assert turns[-1].seq in {event.seq for event in both if event.kind == "turn.said"}


def test_a_bundle_cannot_say_who_somebody_here_is(tmp_path):
    """What a tenant knows stays; what a bundle says of names that are none is refused."""
    with perdure.open(f"sqlite:///{tmp_path}/a.db", actor=ALICE) as store:
        store.session("a").emit("app.noted", {"n": 1})
        store.export(tmp_path / "x.perdure", ["a"])
        known = store.actors()
    shutil.copy(tmp_path / "a.db", tmp_path / "b.db")
    with perdure.open(f"sqlite:///{tmp_path}/b.db", actor=ALICE) as copy:
        copy.forget_actor(ALICE)
        copy.import_(tmp_path / "x.perdure")
        assert copy.actors() == []  # it has every event: nothing is new, and nobody is introduced
    assert known[0].name == ALICE
