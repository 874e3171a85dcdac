"""Lineages: forks of forks read in as many statements as the first one, and one that leads nowhere is damaged."""

from __future__ import annotations

import pytest

import perdure
from perdure.errors import Damaged, KeyReused
from perdure.model.refs import Ref
from perdure.stores.sqlite import SqliteConnection
from planes.tampering import Intruder


@pytest.fixture
def counted(monkeypatch):
    seen = []
    query = SqliteConnection.query

    def counting(connection, statement, params):
        seen.append(statement.name)
        return query(connection, statement, params)

    monkeypatch.setattr(SqliteConnection, "query", counting)
    return seen


def test_statements_do_not_grow_with_the_depth(tmp_path, counted):
    with perdure.open(f"sqlite:///{tmp_path}/a.db") as store:
        session = store.session("root")
        root = session.say("user", "x", key="k0")
        session.say("assistant", calls=[perdure.Call("c0", "t")])
        costs = []
        for depth in range(1, 21):
            session = session.fork(name=f"f{depth}")
            session.say("user", "y")
            counted.clear()
            session.say("user", "z", key=f"k{depth}")
            session.turns(last=1)
            costs.append(len(counted))
        assert set(costs) == {costs[0]}
        assert costs[0] <= 3
        assert session.say("user", "x", key="k0").seq == root.seq
        with pytest.raises(KeyReused):
            session.say("user", "other", key="k7")
        assert session.result("c0", 1).call == "c0"


def test_a_key_that_came_after_the_fork_is_another(tmp_path):
    with perdure.open(f"sqlite:///{tmp_path}/a.db") as store:
        session = store.session("root")
        session.say("user", "x")
        fork = session.fork(name="fork")
        later = session.say("user", "parent", key="k")
        assert fork.say("user", "own", key="k").content == "own"
        assert session.say("user", "parent", key="k") == later


@pytest.fixture(params=["sqlite", "postgres"])
def url(request, tmp_path):
    return f"sqlite:///{tmp_path}/a.db" if request.param == "sqlite" else request.getfixturevalue("postgres_store")


def test_parents_in_a_circle_are_damage(url):
    with perdure.open(url) as store:
        session = store.session("a")
        session.say("user", "hi")
        fork = session.fork(name="f")
        ids = {each.name: each._stream.id for each in (session, fork)}
    Intruder(url).run("UPDATE streams SET parent = ?, fork_seq = 1 WHERE id = ?", ids["f"], ids["a"])
    with perdure.open(url) as store:
        for name in ids:
            with pytest.raises(Damaged, match="forked from") as refused:
                store.session(name).turns()
            assert refused.value.path == f"session {name}"
        assert not store.verify().ok


def test_a_parent_of_another_tenant_is_damage(url):
    with perdure.open(url, tenant="a") as store, perdure.open(url, tenant="b") as other:
        session = store.session("a")
        session.say("user", "secret")
        fork = other.session("b").fork(name="f")
        Intruder(url).run("UPDATE streams SET parent = ? WHERE id = ?", session._stream.id, fork._stream.id)
        with pytest.raises(Damaged):
            other.session("f").turns()


def test_a_reference_into_another_tenant_stays_as_it_was_given(url):
    with perdure.open(url, tenant="a") as store, perdure.open(url, tenant="b") as other:
        session = store.session("a")
        session.say("user", "x")
        fork = session.fork(name="fork")
        given = Ref(fork.uid, 2)
        assert other.session("b").decide("d", because="b", refs=[given]).refs == (given,)
        inside = store.session("c").decide("d", because="b", refs=[given])
        assert inside.refs == (Ref(session.uid, 2),)  # the control: at home it is found
