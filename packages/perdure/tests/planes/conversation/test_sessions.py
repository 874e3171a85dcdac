"""What the conversation costs, and who wins when two do the same at once."""

from __future__ import annotations

import threading
from collections import Counter

import pytest

from perdure.errors import Conflict, Error
from perdure.handles.opening import open as open_store
from perdure.log.event import decode_body
from perdure.model.records.conversation import Call
from perdure.planes.conversation import sessions
from perdure.stores.sqlite import SqliteConnection

WRITERS = 6


@pytest.fixture(params=["sqlite", "postgres"])
def url(request, tmp_path):
    return f"sqlite:///{tmp_path}/a.db" if request.param == "sqlite" else request.getfixturevalue("postgres_store")


def race(url, act):
    """Everybody at once, each with a store of their own; what they got, or the class of the error."""
    with open_store(url) as store:
        session = store.session("s")
        session.say("assistant", calls=[Call("c1", "t")])
    barrier = threading.Barrier(WRITERS)
    outcomes = []

    def run(number):
        with open_store(url) as store:
            session = store.session("s")
            barrier.wait()
            try:
                outcomes.append(act(store, session, number))
            except Error as error:
                outcomes.append(type(error).__name__)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(WRITERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return Counter(outcomes)


def test_one_key_is_one_turn(url):
    outcomes = race(url, lambda _store, session, _number: session.say("user", "x", key="k").seq)
    assert list(outcomes.values()) == [WRITERS]


def test_one_of_many_contents_takes_the_key(url):
    outcomes = race(url, lambda _store, session, number: session.say("user", number, key="k").content)
    assert outcomes.pop("KeyReused") == WRITERS - 1
    assert list(outcomes.values()) == [1]


def test_one_of_many_results_stands(url):
    outcomes = race(url, lambda _store, session, number: session.result("c1", number).content)
    assert outcomes.pop("KeyReused") == WRITERS - 1
    assert list(outcomes.values()) == [1]


def test_one_of_many_makes_a_call(url):
    outcomes = race(url, lambda _store, session, _number: len(session.say("assistant", calls=[Call("c2", "t")]).calls))
    assert outcomes == {1: 1, "Conflict": WRITERS - 1}


def test_one_of_two_ends_stands(url):
    ends = ["completed", "failed"]
    outcomes = race(url, lambda _store, session, number: session.close(ends[number % 2]))
    assert outcomes == {None: WRITERS // 2, "Conflict": WRITERS // 2}
    with open_store(url) as store:
        assert store.session("s").status in ends


def test_one_of_many_creates_a_session(url):
    outcomes = race(url, lambda store, _session, _number: store.session("new", title="t").uid)
    assert list(outcomes.values()) == [WRITERS]


def test_one_of_many_crossing_summaries_stands(url):
    def act(_store, session, number):
        seqs = [turn.seq for turn in session.turns(after=0)]
        session.summarise(seqs[2 + number % 2], "x", from_=seqs[1 + number % 2])

    with open_store(url) as store:
        for number in range(5):
            store.session("s").say("user", number)
    outcomes = race(url, act)
    assert outcomes[None] == WRITERS // 2
    assert outcomes["Conflict"] == WRITERS // 2


def test_later_events_carry_the_pin(tmp_path):
    with open_store(f"sqlite:///{tmp_path}/a.db") as store:
        session = store.session("s")
        session.say("user", "before")
        pins = session.pin(model="m-1")
        session.say("user", "after")
        store.session("s").say("user", "and after")
        raw = store._caller.core.engine.reader().raw
        bodies = raw.execute("SELECT body FROM events WHERE kind = 'turn.said' ORDER BY seq")
        assert [decode_body(body).pin for (body,) in bodies] == ["", pins.digest, pins.digest]


# -- cost ----------------------------------------------------------------------------------------------------


@pytest.fixture
def statements(monkeypatch):
    """The names of all reads that verbs do, on SQLite."""
    seen = []
    query, select_row = SqliteConnection.query, SqliteConnection.select_row

    def counted_query(connection, statement, params):
        seen.append(statement.name)
        return query(connection, statement, params)

    def counted_row(connection, table, *args):
        seen.append(table.name)
        return select_row(connection, table, *args)

    monkeypatch.setattr(SqliteConnection, "query", counted_query)
    monkeypatch.setattr(SqliteConnection, "select_row", counted_row)
    return seen


@pytest.fixture
def session(tmp_path):
    with open_store(f"sqlite:///{tmp_path}/a.db") as store:
        yield store.session("s")


def test_saying_something_reads_nothing(session, statements):
    session.say("user", "the first one writes down that this store attends the session")
    statements.clear()
    session.say("user", "x" * 1024)
    session.say("assistant", "y")
    assert statements == []
    session.say("user", "x", key="k")
    assert statements == ["turn_by_key"]  # the control: reads are counted


def test_the_last_turns_are_one_read(session, statements):
    session._caller.write(lambda tx: [sessions.mark_active(tx, session._stream)])
    for number in range(30):
        session.say("user", number)
    statements.clear()
    session.turns(last=20)
    assert statements == ["turns_back"]


PLANS = {
    "turns_back": ({"stream": 1, "first": 0, "last": 9, "limit": 20, "own": 1}, "PRIMARY KEY"),
    "turns_on": ({"stream": 1, "first": 0, "last": 9, "limit": 20, "rules": 1}, "turns_of_system"),
    "turn_by_key": ({"alone": 1, "key": "k"}, "turns_by_key"),
    "turn_by_call": ({"alone": 1, "call": "c", "maker": 1}, "turns_by_call"),
    "call_makers": ({"alone": 1, "call": "c"}, "PRIMARY KEY"),
    "calls_answered": ({"stream": 1, "first": 0, "last": 9}, "PRIMARY KEY"),
    "cover_before": ({"stream": 1, "last": 9, "before": 9}, "covers_by_range"),
    "session_header": ({"stream": 1, "now": 0}, "INTEGER PRIMARY KEY"),
    "session_by_name": ({"tenant": 1, "name": "s"}, "streams"),
}
PAGES = {
    "sessions_by_time": {},
    "sessions_by_status": {"status": "active", "state": "active"},
    "sessions_by_creator": {"creator": "me"},
    "tags_by_tag": {"label": "rare"},
}


@pytest.mark.parametrize("name", ["turn_by_key", "turn_by_call", "call_makers"])
def test_a_lineage_is_looked_through_by_indexes(session, name):
    params = {"stream": 1, "forked": 1, "key": "k", "call": "c", "last": 9, "maker": 1}
    steps = plan(session, name, params)
    assert not [step for step in steps if step.startswith("SCAN") and step not in ("SCAN line", "SCAN h")], steps


def plan(session, name, params):
    raw = session._caller.core.engine.reader().raw
    text = getattr(sessions.Q, name).text("sqlite", params)
    return [row[3] for row in raw.execute(f"EXPLAIN QUERY PLAN {text}", params)]


@pytest.mark.parametrize("name", PLANS)
def test_reads_go_by_an_index(session, name):
    params, index = PLANS[name]
    steps = plan(session, name, params)
    assert not [step for step in steps if step.startswith("SCAN") or "TEMP B-TREE FOR ORDER" in step], steps
    assert any(index in step for step in steps), steps


@pytest.mark.parametrize("index", PAGES)
def test_listings_go_by_an_index_in_their_order(session, index):
    params = {"tenant": 1, "limit": 50, "now": 0, "current": 1, "at": 5, "id": 5} | PAGES[index]
    steps = plan(session, "sessions_page", params)
    assert any(index in step for step in steps), steps
    assert not [step for step in steps if step.startswith("SCAN s")], steps
    assert sum("TEMP B-TREE FOR ORDER" in step for step in steps) <= ("CO-ROUTINE f" in steps), (
        steps
    )  # the page alone is sorted


def test_the_crashed_are_found_by_who_attended_them(session):
    steps = plan(session, "sessions_page", {"tenant": 1, "limit": 50, "now": 0, "crashed": 1})
    assert any("SCAN" not in step and step.startswith("SEARCH s ") for step in steps), steps


def test_summaries_keep_a_transcript_from_growing(session, statements):
    for number in range(40):
        session.say("user" if number % 2 else "assistant", str(number))
    last = session.turns(last=1)[0].seq
    session.summarise(last, "all of it")
    session.say("user", "and now?")
    statements.clear()
    assert len(session.transcript()) == 2
    assert statements.count("turns_on") <= 3
    with pytest.raises(Conflict):
        session.summarise(last - 1, "inside")
