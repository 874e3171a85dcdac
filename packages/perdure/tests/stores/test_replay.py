"""Replaying streams into another store: the same chain, the same rows, or a refusal."""

from __future__ import annotations

import msgspec
import pytest

import perdure
from perdure.errors import Damaged, Invalid
from perdure.log.change import Stream
from perdure.log.table import TableClass
from perdure.planes.reading.lineage import ancestry
from perdure.planes.tables import ALL, RECORDED
from perdure.stores.replay import PAGE_EVENTS, Slice, replay
from perdure.stores.statements import Statement
from perdure.stores.tx import LOG
from perdure_testing.contract.sync.history import lived_in

FOLDED = [table for table in ALL if table.table_class is not TableClass.EPHEMERAL]


@pytest.fixture(params=["memory", "postgres"])
def target_url(request):
    return "memory:" if request.param == "memory" else request.getfixturevalue("postgres_store")


@pytest.fixture
def source(tmp_path):
    with perdure.open(f"sqlite:///{tmp_path}/source.db") as store:
        yield store


def ask(store, text, **params):
    return store._caller.core.read(lambda reads: reads.query(Statement("ask", "", text), **params), tenant=0)


def slices_of(reads, name):
    rows = reads.query(LOG.stream_by_name, tenant=reads.tenant, kind="session", name=name)
    line = ancestry(reads, Stream(*rows[0]))
    ends = [reads.query(LOG.stream_head, stream=line[0].id)[0][0], *(stream.fork_seq for stream in line[:-1])]
    return [Slice(stream, end) for stream, end in reversed(list(zip(line, ends, strict=True)))]


def load(source, target, name, change=lambda slices: slices):
    def run(reads):
        core, tenant = target._caller.core, target._caller.tenant
        return replay(reads, change(slices_of(reads, name)), core, tenant, RECORDED)

    return source._caller.read(run)


def chain(store, uid):
    rows = ask(
        store,
        "SELECT e.seq, e.kind, e.actor, e.at, e.hash, e.salt, e.body, e.tx "
        "FROM events e JOIN streams s ON s.id = e.stream "
        "WHERE s.uid = :uid ORDER BY e.seq",
        uid=bytes.fromhex(uid),
    )
    return [tuple(bytes(cell) if isinstance(cell, memoryview) else cell for cell in row) for row in rows]


def rows_of(store, table, uid):
    columns = ", ".join(f"t.{column}" for column in (*table.key, *table.columns))
    if not columns:
        return []
    text = f"SELECT {columns} FROM {table.name} t JOIN streams s ON s.id = t.stream WHERE s.uid = :uid"
    return sorted(ask(store, text, uid=bytes.fromhex(uid)), key=repr)


def test_the_chain_and_the_rows_are_the_same(source, target_url):
    session = lived_in(source)
    fork = session.fork(name="f")
    fork.say("user", "on")
    with perdure.open(target_url) as target:
        streams = load(source, target, "f")
        assert [stream.name for stream in streams] == ["a", "f"]
        for handle in (session, fork):
            assert chain(target, handle.uid) == chain(source, handle.uid)
            for table in FOLDED:
                assert rows_of(target, table, handle.uid) == rows_of(source, table, handle.uid), table.name
        assert load(source, target, "f") == streams  # again: nothing is added
        assert chain(target, fork.uid) == chain(source, fork.uid)
        assert target.session("f").get("branch") == "fix-1"
        target.session("f").say("user", "and it goes on")


def test_a_replay_goes_on_where_it_was_cut_off(source):
    session = source.session("a")
    source.atomic(lambda tx: [tx.session("a").emit("n.added", {"n": n}) for n in range(PAGE_EVENTS + 20)] and None)
    with perdure.open("memory:") as target:
        load(source, target, "a", lambda slices: [msgspec.structs.replace(slices[0], upto=7)])
        assert len(chain(target, session.uid)) == 7
        load(source, target, "a")
        assert chain(target, session.uid) == chain(source, session.uid)


@pytest.mark.parametrize("column", ["body", "salt", "hash", "commitment", "kind", "actor", "at", "seq"])
def test_an_event_that_was_tampered_with_is_refused(source, column):
    source.session("a").emit("n.added", {"n": 1})
    ask(source, "DROP TRIGGER events_fixed")
    value = {"kind": "'x.y'", "actor": "'eve'", "at": "at + 1", "seq": "seq + 1"}.get(column, "zeroblob(32)")
    ask(source, f"UPDATE events SET {column} = {value} WHERE seq = 2 RETURNING 1")
    with perdure.open("memory:") as target, pytest.raises(Damaged, match="seq"):
        load(source, target, "a")


def test_what_cannot_be_replayed_is_refused(source, tmp_path):
    source.session("a").fork(name="f")
    with perdure.open("memory:") as target:
        with pytest.raises(Invalid, match="after its parent"):
            load(source, target, "f", lambda slices: slices[1:])
        with pytest.raises(Invalid, match="nothing"):
            load(source, target, "a", lambda slices: [msgspec.structs.replace(slices[0], upto=0)])
    url = f"sqlite:///{tmp_path}/two.db"
    with perdure.open(url, tenant="one") as one, perdure.open(url, tenant="two") as two:
        load(source, one, "a")
        load(source, two, "a")  # a chain is one within a tenant
        assert one.verify().ok
