"""A read verb that asks twice sees one state, whoever writes in between; one that asks once begins nothing."""

from __future__ import annotations

import pytest

import perdure
from perdure.planes.conversation import pending
from perdure.planes.execution import tasks
from perdure.stores.core import Reader
from perdure.stores.postgres import PostgresConnection
from perdure.stores.sqlite import SqliteConnection


@pytest.fixture(params=["sqlite", "postgres"])
def url(request, tmp_path):
    return f"sqlite:///{tmp_path}/a.db" if request.param == "sqlite" else request.getfixturevalue("postgres_store")


@pytest.fixture
def overtaken(monkeypatch):
    """Do something right after a statement was answered, once."""

    def arm(name, act):
        query, waiting = Reader.query, [act]

        def watched(reader, statement, **params):
            rows = query(reader, statement, **params)
            if statement.name == name and waiting:
                waiting.pop()()
            return rows

        monkeypatch.setattr(Reader, "query", watched)

    return arm


@pytest.fixture
def two(url):
    with perdure.open(url) as store, perdure.open(url, actor="other") as other:
        session = store.session("a")
        session.say("user", "go")
        session.say("assistant", calls=[perdure.Call("c1", "t")])
        yield session, other.session("a")


def answer_and_ask_on(session):
    session.result("c1", 42)
    session.say("assistant", calls=[perdure.Call("c2", "t")])


def test_what_is_pending_is_of_one_state(two, overtaken):
    mine, theirs = two
    overtaken("turns_back", lambda: answer_and_ask_on(theirs))
    assert [call.id for call in mine.pending().calls] == ["c1"]
    assert [call.id for call in mine.pending().calls] == ["c2"]


def test_control_without_a_snapshot_it_is_of_none(two, overtaken):
    mine, theirs = two
    overtaken("turns_back", lambda: answer_and_ask_on(theirs))
    assert mine._read(pending.pending.__wrapped__) is None  # there was always something to wait for


def test_what_is_ready_is_shown_once(url, overtaken):
    with perdure.open(url) as store, perdure.open(url) as other:
        session = store.session("a")
        session.task("one")
        task = other.session("a").tasks()[0]
        overtaken("tasks_ready", lambda: task.claim(ttl="1s"))
        assert [each.title for each in session.ready()] == ["one"]
        assert session._read(tasks.ready) == []


@pytest.mark.parametrize("read", ["turns", "get", "entries", "tasks", "decisions", "status"])
def test_a_single_query_begins_nothing(two, monkeypatch, read):
    mine, _ = two
    begun = []
    for kind in (SqliteConnection, PostgresConnection):
        begin = kind.begin_reading
        monkeypatch.setattr(kind, "begin_reading", lambda self, begin=begin: begun.append(1) or begin(self))
    verbs = {
        "turns": lambda: mine.turns(last=20),
        "get": lambda: mine.get("x"),
        "entries": mine.entries,
        "tasks": mine.tasks,
        "decisions": mine.decisions,
        "status": lambda: mine.status,
    }
    verbs[read]()
    assert begun == []
    mine.pending()
    assert begun == [1]  # the control


def test_in_memory_and_in_the_past_and_inside_atomic_it_works():
    with perdure.open("memory:") as store:
        session = store.session("a")
        turn = session.say("user", "go")
        assert session.pending().turn == turn
        assert session.at(turn.seq).pending().turn == turn
        assert store.atomic(lambda tx: tx.session("a").pending()).turn == turn


def test_events_across_kinds_are_of_one_state(url, overtaken):
    """Every kind is asked for by itself: what happens meanwhile must not show in one of them only."""
    with perdure.open(url) as store, perdure.open(url, actor="other") as other:
        session = store.session("a")
        kinds = ("app.done", "late.done")
        for kind in kinds:
            session.emit(kind)
        theirs = other.session("a")
        overtaken("events_across", lambda: [theirs.emit(kind) for kind in kinds])
        assert [event.kind for event in store.events(emitted=True)] == ["late.done", "app.done"]
        assert len(store.events(emitted=True)) == 4  # the control: they were there in the middle of the first
