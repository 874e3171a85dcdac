"""Collection beside a writer in flight, and after a writer that was killed."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import pytest
from psycopg.pq import TransactionStatus

import forked
from perdure.artifacts import tree
from perdure.errors import Damaged
from perdure.handles.opening import open as open_store
from perdure.model.instants import SECOND_US, system_clock
from perdure.planes.recovery import checkpoints
from perdure.planes.retention import collect
from perdure.stores.postgres import PostgresConnection
from perdure_testing.contract.sync.artifacts import LARGE
from perdure_testing.contract.sync.checkpoints import grown
from perdure_testing.contract.sync.collection import make_garbage, make_old

DAY_US = 86_400 * SECOND_US


@pytest.fixture(params=["sqlite", "postgres"])
def url(request, tmp_path):
    return f"sqlite:///{tmp_path}/a.db" if request.param == "sqlite" else request.getfixturevalue("postgres_store")


def race_a_writer_in_flight(url: str, seconds: float) -> None:
    """A transaction builds on garbage and is slow to commit; a collector that marked before wants to sweep
    meanwhile. seconds: how long it is given for that."""
    with open_store(url) as writer, open_store(url) as collector:
        states = make_garbage(writer)
        writer.session("b")
        marks, dead = collector._caller.read(collect.find_dead)
        builds, swept = threading.Event(), threading.Event()

        def slow(tx):
            tx.session("b").checkpoint(states[1])
            builds.set()
            swept.wait(seconds)  # a sweep that did not wait for us would be over by then

        def sweep():
            builds.wait(60)
            collector._caller.write(collect.sweep, marks, dead)
            swept.set()

        thread = threading.Thread(target=sweep)
        thread.start()
        writer.atomic(slow)
        thread.join(60)
        assert swept.is_set()
        assert writer.session("b").restore() == states[1]


def test_a_writer_in_flight_is_waited_for(url):
    race_a_writer_in_flight(url, 0.7)


def test_control_without_the_lock_postgres_loses_nodes(postgres_store, monkeypatch):
    monkeypatch.setattr(PostgresConnection, "share_blobs", lambda self, tenant: None)
    monkeypatch.setattr(PostgresConnection, "claim_blobs", lambda self, tenant: None)
    with pytest.raises(Damaged):
        race_a_writer_in_flight(postgres_store, 60)


def test_the_blobs_are_claimed_until_the_commit(postgres_store):
    """Also by a transaction that has written nothing yet."""

    def claim(tx):
        tx.claim_blobs()
        return tx._batch.connection.raw.info.transaction_status

    with open_store(postgres_store) as store:
        assert store._caller.write(claim) == TransactionStatus.INTRANS


def test_many_writers_and_collectors_at_once(url):
    """Sessions keep saving the same few states, pruning to one; collectors run all the time. Nothing kept is
    ever lost."""
    errors: list[BaseException] = []
    with open_store(url) as first, open_store(url) as second:
        done = threading.Event()

        def write(store, name):
            session = store.session(name)
            try:
                for i in range(12):
                    state = grown(2 + i % 3)
                    session.checkpoint(state)
                    session.prune_checkpoints(keep=1)
                    assert session.restore() == state
            except BaseException as error:
                errors.append(error)

        def collecting():
            try:
                while not done.is_set():
                    second.collect(dry_run=False)
            except BaseException as error:
                errors.append(error)

        writers = [threading.Thread(target=write, args=(s, f"s{i}")) for i, s in enumerate([first, first, second])]
        collector = threading.Thread(target=collecting)
        for thread in [*writers, collector]:
            thread.start()
        for thread in writers:
            thread.join()
        done.set()
        collector.join()
        assert errors == []
        for i in range(3):
            assert first.session(f"s{i}").restore() == grown(4)


ATTACH = """
import sys
from perdure.handles.opening import open
from perdure_testing.contract.sync.artifacts import LARGE
with open(sys.argv[1], artifacts=sys.argv[2]) as store:
    session = store.session("a")
    session.attach("x", iter([LARGE]) if sys.argv[3] == "stream" else LARGE)
"""


def attach_and_die(url: str, tmp_path: Path, kind: str) -> None:
    environment = {**os.environ, "PERDURE_CRASH_AT": "artifact.after_put"}
    ran = forked.run("-c", ATTACH, url, f"file://{tmp_path}/blobs", kind, env=environment)
    assert ran.returncode == -signal.SIGKILL, ran.stderr


@pytest.mark.parametrize("kind", ["stream", "bytes"])
def test_a_writer_killed_between_put_and_commit_leaves_an_orphan_that_is_collected(url, tmp_path, kind):
    attach_and_die(url, tmp_path, kind)
    later = {"clock": lambda: system_clock() + 2 * DAY_US, "artifacts": f"file://{tmp_path}/blobs"}
    with open_store(url, **later) as store:
        assert store.session("a").artifacts() == []
        assert store.collect(dry_run=False).files == 0, "it is young: its writer might be alive"
        make_old(store)
        assert store.collect().files == 1
        assert store.collect(dry_run=False).files == 1
        assert [path for path in (tmp_path / "blobs").rglob("*") if path.is_file()] == []
        record = store.session("a").attach("x", LARGE)
        assert store.artifact(record.hash).read() == LARGE


def test_what_a_killed_writer_had_pinned_is_spared_for_a_day(url, tmp_path):
    attach_and_die(url, tmp_path, "bytes")
    with open_store(url, artifacts=f"file://{tmp_path}/blobs") as store:
        make_old(store)
        assert store.collect(dry_run=False).files == 0


def leave_parents_without_children(tx, dead):
    """A sweep that was cut off between its pages, or met a root that was saved and pruned since it looked: some nodes stay, and
    what they lead to is gone."""
    tx.claim_blobs()
    leaves = {blob.address for blob in dead if not tree.children(tx.fetch([blob.address])[blob.address])}
    tx.drop_blobs(sorted(leaves))
    return len(leaves), len(dead)


def save_over_a_half_swept_tree(url: str) -> None:
    with open_store(url) as store:
        states = make_garbage(store)
        _, dead = store._caller.read(collect.find_dead)
        gone, all_of_them = store._caller.write(leave_parents_without_children, dead)
        assert 0 < gone < all_of_them
        session = store.session("b")
        for state in [*states, states[0]]:
            session.checkpoint(state)
            assert session.restore() == state
        assert store.verify().ok


def test_a_save_trusts_no_node_whose_children_may_be_gone(url):
    save_over_a_half_swept_tree(url)


def test_control_a_save_that_trusts_every_stored_node_is_caught(url, monkeypatch):
    def trusting(growing, root, shared, known):
        needed = growing.needed(root, shared | known(growing.nodes.keys()))
        return {address: growing.nodes[address] for address in needed - known(needed)}, set()

    monkeypatch.setattr(tree.Growing, "unknown", trusting)
    with pytest.raises(Damaged):
        save_over_a_half_swept_tree(url)


def save_what_was_prepared_over_a_base_that_went(url: str, *, asks_for_base: bool) -> None:
    """Between preparing and saving, the base is pruned and half swept: shared nodes stand, and their children are gone."""
    with open_store(url) as store:
        session = store.session("b")
        session.checkpoint(grown(40))
        state = {**grown(40), "note": "one more"}
        prepared = session._read(checkpoints.prepare, checkpoints.freeze(state))
        session.checkpoint("another")
        session.prune_checkpoints(keep=1)
        _, dead = store._caller.read(collect.find_dead)
        gone, all_of_them = store._caller.write(leave_parents_without_children, dead)
        assert 0 < gone < all_of_them
        session._write(checkpoints.save, prepared if asks_for_base else prepared._replace(base=None))
        assert session.restore() == state


def test_a_save_asks_whether_its_base_still_stands(url):
    save_what_was_prepared_over_a_base_that_went(url, asks_for_base=True)


def test_control_a_save_that_does_not_ask_for_its_base_is_caught(url):
    with pytest.raises(Damaged):
        save_what_was_prepared_over_a_base_that_went(url, asks_for_base=False)


def test_a_root_that_was_saved_and_pruned_while_others_sweep(url):
    """It was not there when the collector looked, and nothing names it when the collector sweeps."""
    with open_store(url) as store:
        states = make_garbage(store)
        marks, dead = store._caller.read(collect.find_dead)
        session = store.session("b")
        grown_on = {**states[1], "note": "a new root over old nodes"}
        session.checkpoint(grown_on)
        session.checkpoint("another")
        session.prune_checkpoints(keep=1)
        store._caller.write(collect.sweep, marks, dead)
        session.checkpoint(grown_on)
        assert session.restore() == grown_on


def test_an_attached_file_that_looks_like_a_node_is_not_trusted(url):
    """Anybody can attach the bytes of a node (P10): what it leads to was never stored."""
    state = grown(9)
    planted = tree.save(state, lambda _: set())
    inner = [node for node in planted.nodes.values() if node[:1] == b"I" or tree.children(node)]
    with open_store(url) as store:
        session = store.session("a")
        for number, node in enumerate(inner):
            session.attach(f"file-{number}", node)
        session.checkpoint(state)
        assert session.restore() == state
