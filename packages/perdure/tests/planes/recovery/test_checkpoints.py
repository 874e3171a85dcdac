"""Checkpoints: what they cost, and that the log still folds to the tables after a prune."""

from __future__ import annotations

import random
import string
import threading

import apsw
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from perdure.errors import Damaged, NotFound
from perdure.handles.opening import open as open_store
from perdure.log.fold import fold
from perdure.planes.audit import history as times
from perdure.planes.recovery import checkpoints
from perdure.planes.tables import CHECKPOINTS, RECORDED
from perdure.stores.sqlite import SqliteConnection
from perdure.stores.store import event_of
from perdure.stores.tx import LOG, Tx
from perdure_testing.contract.sync.checkpoints import grown
from planes.tampering import Intruder

ALPHABET = string.ascii_letters + string.digits + "  "


def events_of(session):
    def ask(reads, stream):
        return reads.query(LOG.events_page, stream=stream.id, after=0, upto=10**9, limit=10**6)

    return [event_of(row) for row in session._read(ask)]


def rows_of(session):
    return {
        one.seq: session._read(lambda reads, stream, seq=one.seq: reads.row(CHECKPOINTS, stream, seq))
        for one in session.checkpoints(limit=1000)
    }


def test_400_turns_with_a_checkpoint_each_take_less_than_5_mb(tmp_path):
    rng = random.Random(1)
    turns = []
    with open_store(f"sqlite:///{tmp_path}/a.db") as store:
        session = store.session("a")
        for _ in range(400):
            text = "".join(rng.choices(ALPHABET, k=2_000))
            session.say("user", text)
            turns.append({"role": "user", "content": text})
            session.checkpoint({"turns": turns})
        assert session.restore() == {"turns": turns}
    connection = apsw.Connection(f"{tmp_path}/a.db")
    connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    connection.close()
    assert sum(path.stat().st_size for path in tmp_path.iterdir() if path.is_file()) <= 5_000_000


def cost_of(session, state, monkeypatch) -> tuple[int, int, int]:
    """Statements, blobs and bytes of one checkpoint."""
    counts = [0, 0, 0]
    query, write = SqliteConnection.query, SqliteConnection.write

    def counted_query(self, *args):
        counts[0] += 1
        return query(self, *args)

    def counted_write(self, writes, *, commit):
        counts[0] += 1
        counts[1] += len(writes.blobs)
        counts[2] += sum(len(row[4]) for row in writes.blobs) + sum(len(event.body) for event in writes.events)
        return write(self, writes, commit=commit)

    with monkeypatch.context() as patch:
        patch.setattr(SqliteConnection, "query", counted_query)
        patch.setattr(SqliteConnection, "write", counted_write)
        session.checkpoint(state)
    return counts[0], counts[1], counts[2]


def test_statements_and_bytes_of_a_checkpoint_stay_flat(tmp_path, monkeypatch):
    """P8: ten times the history adds at most a level of the tree."""
    with open_store(f"sqlite:///{tmp_path}/a.db") as store:
        session = store.session("a")
        costs = {}
        for size in (60, 600):
            session.checkpoint(grown(size))
            each = [cost_of(session, grown(size + i), monkeypatch) for i in range(1, 11)]
            costs[size] = [sum(column) / len(each) for column in zip(*each, strict=True)]
        statements, blobs, size_bytes = zip(costs[60], costs[600], strict=True)
        assert statements[1] <= statements[0] + 2
        assert blobs[1] <= blobs[0] + 2
        assert size_bytes[1] <= size_bytes[0] * 1.6, "one index node more on the way, of at most 6 kB"


def test_after_a_prune_the_log_folds_to_the_tables(tmp_path):
    with open_store(f"sqlite:///{tmp_path}/a.db") as store:
        session = store.session("a")
        for i in range(6):
            session.checkpoint(i)
        session.prune_checkpoints(keep=2)
        folded = fold(RECORDED, events_of(session))
        stored = rows_of(session)
        assert set(folded.rows["checkpoints"]) == {(seq,) for seq in stored}
        for (seq,), row in folded.rows["checkpoints"].items():
            assert row.items() <= stored[seq].items()
        assert len(folded.emptied) == 4


def test_control_a_delete_of_what_never_was_is_damage(tmp_path):
    with open_store(f"sqlite:///{tmp_path}/a.db") as store:
        session = store.session("a")
        session.checkpoint(1)
        session.checkpoint(2)
        session.prune_checkpoints(keep=1)
        as_if_never = [event for event in events_of(session) if event.body is not None]
        with pytest.raises(Damaged, match="not there"):
            fold(RECORDED, as_if_never)


def test_large_prunes_go_in_pages(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoints, "PAGE_ROWS", 3)
    with open_store(f"sqlite:///{tmp_path}/a.db") as store:
        session = store.session("a")
        made = [session.checkpoint(i) for i in range(10)]
        report = session.prune_checkpoints(keep=2)
        assert report.pruned == tuple(one.seq for one in made[:8])
        assert report.kept == 2
        assert sum(event.kind == "log.pruned" for event in events_of(session)) == 3


TEXT = st.characters(exclude_characters="\0", exclude_categories=["Cs"])
SMALL_STATES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.text(TEXT, max_size=3_000) | st.binary(max_size=50),
    lambda inner: st.lists(inner, max_size=20) | st.dictionaries(st.text(TEXT, max_size=10), inner, max_size=20),
    max_leaves=30,
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.lists(SMALL_STATES, min_size=2, max_size=6), st.integers(1, 3))
def test_any_kept_state_survives_prune_and_collection(states, keep):
    with open_store("memory:") as store:
        session = store.session("a")
        made = [(session.checkpoint(state).seq, state) for state in states]
        session.prune_checkpoints(keep=keep)
        store.collect(dry_run=False)
        for seq, state in made[-keep:]:
            assert session.restore(seq) == state
        assert len(session.checkpoints()) == min(keep, len(states))


# -- a prune and a fork at once ------------------------------------------------------------------------------


class Meeting:
    """A fork that begins inside a prune's transaction, after the prune has looked for forks."""

    def __init__(self, url, monkeypatch):
        self.url = url
        self.looks = 0
        self.look = checkpoints.forks_of
        self.fork = None
        self.thread = None
        monkeypatch.setattr(checkpoints, "forks_of", self.forks)

    def forks(self, reads, stream):
        found = self.look(reads, stream)
        self.looks += 1
        if self.looks == 2:
            self.thread = threading.Thread(target=self.make)
            self.thread.start()
            self.thread.join(1.0 if self.locked else None)
        return found

    def make(self):
        self.fork = self.other.session("s").fork(self.seqs[2], name="fork")

    def run(self, *, locked):
        self.locked = locked
        with open_store(self.url) as store, open_store(self.url) as self.other:
            session = store.session("s")
            self.seqs = [session.checkpoint({"n": n}).seq for n in range(5)]
            pruned = session.prune_checkpoints(keep=1).pruned
            self.thread.join()
            assert store.verify().ok
            try:
                return pruned, self.fork.restore()
            except NotFound as gone:
                return pruned, gone


def test_a_fork_that_meets_a_prune_waits_for_it_and_is_told(postgres_store, monkeypatch):
    pruned, found = Meeting(postgres_store, monkeypatch).run(locked=True)
    assert len(pruned) == 4
    assert "was pruned by event" in str(found)


def test_a_prune_that_comes_after_a_fork_spares_what_it_restores(postgres_store, monkeypatch):
    """The prune was planned before the fork; its transaction begins after it."""
    with open_store(postgres_store) as store:
        session = store.session("s")
        seqs = [session.checkpoint({"n": n}).seq for n in range(5)]
        doomed, _, forks = session._read(checkpoints.choose, keep=1)
        fork = session.fork(seqs[2], name="fork")
        pruned = session._write(checkpoints.prune, [seq for seq, _ in doomed], forks, keep=1)
        assert pruned == [seqs[0], seqs[1], seqs[3]]
        assert fork.restore() == {"n": 2}


def test_control_without_the_lock_the_fork_is_made_in_between(postgres_store, monkeypatch):
    monkeypatch.setattr(Tx, "lock", lambda self, stream: None)
    meeting = Meeting(postgres_store, monkeypatch)
    made = []
    make = meeting.make
    meeting.make = lambda: (make(), made.append(meeting.fork.restore()))
    _, found = meeting.run(locked=False)
    assert made == [{"n": 2}]  # it was acknowledged with its state
    assert found != {"n": 2}  # and lost it


def test_a_fork_from_now_that_a_prune_overtakes_begins_after_it(tmp_path, monkeypatch):
    """Planned, overtaken, made: neither order of the two would have left a fork that has lost its state."""
    with open_store(f"sqlite:///{tmp_path}/a.db") as store, open_store(f"sqlite:///{tmp_path}/a.db") as other:
        session = store.session("s")
        session.checkpoint({"n": 1})
        plan_fork = times.plan_fork
        waiting = [True]

        def overtaken(reads, stream, moment):
            found = plan_fork(reads, stream, moment)
            if waiting:
                waiting.pop()
                other.session("s").checkpoint({"n": 2})
                other.session("s").prune_checkpoints(keep=1)
            return found

        monkeypatch.setattr(times, "plan_fork", overtaken)
        assert session.fork(name="fork").restore() == {"n": 2}
        assert waiting == []
        assert store.verify().ok


def test_control_a_fork_that_nothing_overtakes_is_planned_once(tmp_path, monkeypatch):
    with open_store(f"sqlite:///{tmp_path}/a.db") as store:
        session = store.session("s")
        for number in range(3):
            session.checkpoint({"n": number})
        session.prune_checkpoints(keep=1)
        planned = []
        plan_fork = times.plan_fork
        monkeypatch.setattr(times, "plan_fork", lambda *args: planned.append(1) or plan_fork(*args))
        session.say("user", "x")
        assert session.fork(name="fork").restore() == {"n": 2}
        assert planned == [1]


def test_parents_in_a_circle_do_not_hold_a_prune_up_for_ever(tmp_path):
    url = f"sqlite:///{tmp_path}/a.db"
    with open_store(url) as store:
        session = store.session("a")
        for number in range(3):
            session.checkpoint(number)
        fork = session.fork(name="f")
        ids = session._stream.id, fork._stream.id
    Intruder(url).run("UPDATE streams SET parent = ?, fork_seq = 1 WHERE id = ?", ids[1], ids[0])
    with open_store(url) as store:
        core = store._caller.core
        connection = core._take()
        connection.raw.set_progress_handler(lambda: True, 10_000_000)  # the control: what would not end is interrupted
        assert checkpoints.forks_of(core._reader(connection, 1), session._stream) == {1, fork._stream.fork_seq}
