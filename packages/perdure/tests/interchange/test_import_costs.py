"""What an import costs: memory for a page, and work for each event once, however deep its forks lie (P8)."""

from __future__ import annotations

import pytest

import perdure
from perdure.interchange import rehearsal
from perdure.stores import url
from perdure.stores.sqlite import SqliteConnection


def nested(folder, forks):
    """A bundle of a session, and of forks of which each continues the one before."""
    path = folder / f"{forks}.perdure"
    with perdure.open("memory:") as store:
        session = store.session("s0")
        session.say("user", "hello")
        for number in range(1, forks + 1):
            session = session.fork(name=f"s{number}")
            session.say("user", f"turn {number}")
        store.export(path, everything=True)
    return path


@pytest.fixture
def looked(monkeypatch):
    """How many rows SQLite gave, and how many statements asked."""
    counts = {"statements": 0, "rows": 0}
    query = SqliteConnection.query

    def counted(self, *args):
        rows = query(self, *args)
        counts["statements"] += 1
        counts["rows"] += len(rows)
        return rows

    monkeypatch.setattr(SqliteConnection, "query", counted)
    return counts


def imported(path, counts):
    counts.update(dict.fromkeys(counts, 0))
    with perdure.open("memory:") as store:
        store.import_(path)
    return dict(counts)


def test_nested_forks_cost_what_they_add(tmp_path, looked):
    few, many = (imported(nested(tmp_path, forks), looked) for forks in (20, 80))
    for what in few:
        assert many[what] < 4.4 * few[what], (what, few, many)


def test_control_reading_each_fork_with_its_past_costs_the_square(tmp_path, looked, monkeypatch):
    monkeypatch.setattr(rehearsal, "replace", lambda stream, **_: stream)
    few, many = (imported(nested(tmp_path, forks), looked) for forks in (20, 80))
    assert many["statements"] > 6 * few["statements"]


class Following:
    """As telemetry follows commits."""

    def __init__(self) -> None:
        self.most = 0

    def committed(self, events) -> None:
        self.most = max(self.most, len(events))


def test_an_import_holds_no_more_than_a_page_until_its_commit(tmp_path):
    path = tmp_path / "long.perdure"
    with perdure.open("memory:") as store:
        store.atomic(lambda tx: [tx.session("long").say("user", f"turn {number}") for number in range(5_000)])
        store.export(path, ["long"])
    with perdure.open(f"sqlite:///{tmp_path}/here.db") as store:
        following = store._caller.core.lane.observer = Following()
        assert store.import_(path).added == 5_001
        assert 0 < following.most < 20
        store.session("long").say("user", "mine")
        assert following.most < 20
        assert store.verify().ok


@pytest.mark.parametrize("most", [0, 64 * 1024**2])
def test_a_large_bundle_is_rehearsed_on_disk(tmp_path, monkeypatch, most):
    path, places, parse = nested(tmp_path, 2), [], url.parse
    monkeypatch.setattr(rehearsal, "IN_MEMORY_MAX_BYTES", most)
    monkeypatch.setattr(rehearsal.url, "parse", lambda place: places.append(place) or parse(place))
    with perdure.open("memory:") as store:
        places.clear()
        store.import_(path)
    assert [place == "memory:" for place in places] == [most > 0]
