"""The feed where it can go wrong: concurrent writers, late commits, two readers of one name, restores."""

from __future__ import annotations

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

import perdure
from perdure.errors import Stale
from perdure.planes.audit import subscriptions
from perdure.planes.conversation import feed
from perdure.stores.postgres import PostgresConnection
from perdure.stores.sqlite import SqliteConnection
from perdure.stores.statements import Statement
from perdure.stores.store import Fault, FaultKind
from perdure.upkeep import health
from perdure_testing.clock import FakeClock

PATIENCE = "60s"
COLUMNS = "(tenant, stream, seq, kind, tbl, actor, at, codec, tx, commitment, hash, salt, body)"


@pytest.fixture(params=["sqlite", "postgres"])
def url(request, tmp_path):
    return f"sqlite:///{tmp_path}/agent.db" if request.param == "sqlite" else request.getfixturevalue("postgres_store")


def ask(store, text):
    return store._caller.core.read(lambda reads: reads.query(Statement("ask", "", text)), tenant=0)


def read_until(store, count, cursor=None, limit=7):
    """Read the feed to the end of so many emitted events."""
    found = []
    while sum(event.emitted for event in found) < count:
        page = store.feed(cursor, limit=limit, wait=PATIENCE)
        assert page, "the feed never shows the rest"
        found += page
        cursor = page.next
    return found, cursor


def test_concurrent_writers_and_readers_lose_nothing(url):
    writers, each = 4, 25
    with perdure.open(url) as store:
        subscription = store.subscribe("s")
        seen, done = [], threading.Event()

        def write(number):
            with perdure.open(url) as mine:
                session = mine.session(f"s{number % 2}")
                for n in range(each):
                    session.emit("n.added", {"writer": number, "n": n})

        def consume():
            while len([e for e in seen if e.emitted]) < writers * each and not done.is_set():
                batch = subscription.next(limit=10, wait="1s")
                seen.extend(batch)
                batch.ack()

        with ThreadPoolExecutor(writers + 1) as pool:
            reader = pool.submit(consume)
            try:
                list(pool.map(write, range(writers)))
                reader.result(timeout=120)
            finally:
                done.set()
        emitted = [(e.data["writer"], e.data["n"]) for e in seen if e.emitted]
        assert sorted(emitted) == [(w, n) for w in range(writers) for n in range(each)]
        for session in ("s0", "s1"):  # and each stream in its own order
            seqs = [e.seq for e in seen if e.session == session]
            assert seqs == sorted(seqs)
        assert [(e.uid, e.seq) for e in read_until(store, writers * each)[0]] == [(e.uid, e.seq) for e in seen]


def connected(url):
    address, _, schema = url.partition("?schema=")
    return psycopg.connect(address, options=f"-c search_path={schema}")


class HeldBack:
    """A writer whose COMMIT takes its time: it has its position in the feed, but nobody sees it yet."""

    def __init__(self, url, store, session):
        self.raw = connected(url)
        stream, seq = ask(store, f"SELECT id, seq FROM streams WHERE name = '{session}'")[0]
        self.raw.execute(
            f"""INSERT INTO events {COLUMNS}
               SELECT tenant, stream, %s, 'late.one', '', 'late', at, codec, tx, commitment, hash, salt, body
               FROM events WHERE stream = %s AND seq = %s""",
            (seq + 1, stream, seq),
        )

    def commit(self):
        self.raw.commit()
        self.raw.close()


def naive(store, after):
    """How one must not do it: by position alone."""
    return ask(store, f"SELECT pos, kind FROM events WHERE pos > {after} AND tbl = '' ORDER BY pos")


def test_a_late_commit_is_not_skipped_on_postgresql(postgres_store):
    with perdure.open(postgres_store) as store:
        store.session("slow")
        quick = store.session("quick")
        first = quick.emit("quick.one")
        found, cursor = read_until(store, 1)
        assert first in found
        control = naive(store, 0)
        late = HeldBack(postgres_store, store, "slow")
        second = quick.emit("quick.two")  # committed, but after the position of the one that is not
        control += naive(store, control[-1][0])
        assert store.feed(cursor) == []
        assert store._caller.read(subscriptions.waiting, _subscribed_at_end(store)) is False
        late.commit()
        rest, _ = read_until(store, 2, cursor)
        assert [event.kind for event in rest] == ["late.one", "quick.two"]
        assert second in rest
        control += naive(store, control[-1][0])
        assert [kind for _, kind in control] == [
            "quick.one",
            "quick.two",
        ]  # the naive reader never sees `late.one`


def _subscribed_at_end(store):
    return store.subscribe("end", start="end").name


def test_the_feed_uses_its_index_on_postgresql(postgres_store):
    with perdure.open(postgres_store) as store:
        store.session("a")
        with connected(postgres_store) as raw:
            raw.execute(
                f"""INSERT INTO events {COLUMNS}
                   SELECT e.tenant, e.stream, 100 + g.n, e.kind, '', 'a', e.at, 1, e.tx, e.commitment, e.hash,
                     e.salt, e.body
                   FROM events e, generate_series(1, 30000) AS g (n)"""
            )
            raw.execute("ANALYZE events")
        params = {
            "tenant": store._caller.tenant,
            "xid": 10,
            "pos": 1,
            "end_xid": 2**40,
            "end_pos": 1,
            "limit": 10,
        }
        text = "EXPLAIN " + feed.Q.feed_after.overrides["postgres"][1]
        plan = store._caller.read(lambda reads: reads.query(Statement("plan", "", text), **params))
        found = "\n".join(row[0] for row in plan)
        assert "events_by_xid" in found
        assert "Sort" not in found


def test_a_stream_comes_in_order_even_if_its_writer_had_its_transaction_id_early(postgres_store):
    """A transaction that wrote elsewhere first has an older id than one that was quicker in this stream."""
    with perdure.open(postgres_store) as store, perdure.open(postgres_store) as other:
        store.session("elsewhere")
        shared = other.session("shared")
        attempts = []

        def slow(tx):
            tx.session("elsewhere").emit("n.added")
            tx.session("elsewhere").events()  # brings the write into the database: the transaction has its id now
            if not attempts:
                shared.emit("quick.one")
            attempts.append(1)
            tx.session("shared").emit("slow.one")

        store.atomic(slow)
        assert len(attempts) == 2  # it was run again, with a new id
        found, _ = read_until(store, 3)
        assert [e.kind for e in found if e.session == "shared" and e.emitted] == ["quick.one", "slow.one"]
        assert [e.seq for e in found if e.session == "shared"] == [1, 2, 3]


def test_of_many_who_ask_at_once_one_gets_the_batch(url):
    with perdure.open(url) as store:
        store.session("a").emit("n.added")
        read_until(store, 1)
        stores = [perdure.open(url) for _ in range(4)]
        try:
            for _ in range(5):
                barrier = threading.Barrier(4)

                def take(mine, barrier=barrier):
                    subscription = mine.subscribe("shared")
                    barrier.wait()
                    return subscription.next()

                with ThreadPoolExecutor(4) as pool:
                    batches = [batch for batch in pool.map(take, stores) if batch]
                assert len(batches) == 1
                store.subscribe("shared").reset("beginning")
        finally:
            for mine in stores:
                mine.close()


def test_of_many_acknowledgements_one_moves_and_the_rest_do_nothing(url):
    with perdure.open(url) as store, perdure.open(url) as other:
        store.session("a").emit("n.added")
        read_until(store, 1)
        batch = store.subscribe("s").next()
        twin = type(batch)(other._caller, "s", subscriptions.Delivery(batch.events, batch._token))
        barrier = threading.Barrier(2)

        def ack(which):
            barrier.wait()
            which.ack()

        with ThreadPoolExecutor(2) as pool:
            assert list(pool.map(ack, [batch, twin])) == [None, None]
        assert not store.subscribe("s").next()
        rows = ask(store, "SELECT token, about FROM subscriptions")
        assert [tuple(row) for row in rows] == [(1, '{"acked":[1]}')]


@pytest.fixture
def losing_a_reply(monkeypatch):
    """The next commit is durable, but its reply never comes."""

    def arm():
        for kind in (PostgresConnection, SqliteConnection):
            monkeypatch.setattr(kind, "write", losing(kind, kind.write))

    def losing(kind, write):
        def lost(connection, writes, *, commit):
            write(connection, writes, commit=commit)
            if commit and writes:
                monkeypatch.setattr(kind, "write", write)
                raise Fault(FaultKind.LOST, "the reply was lost")

        return lost

    return arm


def test_an_acknowledgement_whose_reply_was_lost_is_one(url, losing_a_reply):
    with perdure.open(url) as store:
        store.session("a").emit("n.added")
        read_until(store, 1)
        subscription = store.subscribe("s")
        batch = subscription.next()
        losing_a_reply()
        batch.ack()
        assert not subscription.next()


def test_a_batch_whose_reply_was_lost_is_delivered_at_once(url, losing_a_reply):
    with perdure.open(url) as store:
        store.session("a").emit("n.added")
        read_until(store, 1)
        subscription = store.subscribe("s")
        losing_a_reply()
        batch = subscription.next(limit=1)
        assert len(batch) == 1
        assert not subscription.next()  # the control: to anybody else it is under way
        batch.ack()
        assert len(subscription.next()) == 1


def test_after_a_restore_positions_of_before_are_stale_and_reset_is_the_way_out(tmp_path):
    url = f"sqlite:///{tmp_path}/agent.db"
    with perdure.open(url, clock=FakeClock()) as store:
        session = store.session("a")
        session.emit("n.added")
        cursor = store.feed().next
        subscription = store.subscribe("s")
        batch = subscription.next()
        ask(store, "UPDATE meta SET value = '2' WHERE name = 'epoch' RETURNING 1")  # what a restore does
        for refused in (lambda: store.feed(cursor), subscription.next, batch.ack):
            with pytest.raises(Stale) as stale:
                refused()
            assert "beginning" in stale.value.hint
        subscription.reset("beginning")
        assert list(subscription.next()) == list(batch)
        assert store.feed() == list(batch)


def test_waiting_wakes_up_when_something_comes(url):
    with perdure.open(url) as store, perdure.open(url) as other:
        subscription = store.subscribe("s", start="end")
        with ThreadPoolExecutor(1) as pool:
            batch = pool.submit(subscription.next, 10, PATIENCE)
            event = other.session("a").emit("n.added")
            found = list(batch.result(timeout=90))
            while event not in found:  # the session's own first event may have come alone
                store.subscribe("s").reset("beginning")
                found = list(subscription.next(wait=PATIENCE))


def test_a_consumer_that_is_killed_between_taking_and_acknowledging_loses_nothing(url):
    """The batch comes again, once its lease has passed, with a count; another consumer is not held up meanwhile."""
    program = f"""
import os, signal, perdure
batch = perdure.open({url!r}).subscribe("s").next(limit=2, lease="2s")
print(*[event.seq for event in batch], flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    with perdure.open(url) as store:
        session = store.session("a")
        for _ in range(3):
            session.emit("n.added")
        read_until(store, 3)
        subscription = store.subscribe("s", consumers=2)
        killed = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
        )
        assert (killed.returncode, killed.stdout.split()) == (-9, ["1", "2"]), killed.stderr
        seen = {event.seq: event for event in subscription.follow(wait="8s")}
        assert sorted(seen) == [1, 2, 3, 4]
        assert store._caller.read(subscriptions.waiting, "s") is False


def test_many_consumers_of_one_name_handle_every_event_once(url):
    with perdure.open(url) as store:
        session = store.session("a")
        made = [session.emit("n.added").seq for _ in range(60)]
        read_until(store, 60)
        store.subscribe("s", kinds=["n.*"], consumers=3)

        def consume(_):
            with perdure.open(url) as mine:
                return [event.seq for event in mine.subscribe("s").follow(limit=4, wait="1s", lease="60s")]

        with ThreadPoolExecutor(3) as pool:
            handled = list(pool.map(consume, range(3)))
        assert sorted(seq for each in handled for seq in each) == made


def test_what_is_passed_over_is_passed_over_in_pieces(tmp_path, monkeypatch):
    monkeypatch.setattr(subscriptions, "SIFTED_AT_ONCE", 5)
    with perdure.open(f"sqlite:///{tmp_path}/agent.db") as store:
        session = store.session("a")
        for _ in range(21):  # after two others: one introduces the actor, one opens the session
            session.emit("n.added")
        rare = [session.emit("rare.one") for _ in range(2)]
        subscription = store.subscribe("s", kinds=["rare.*"])
        assert list(subscription.next()) == rare[:1]  # a piece ends between them
        assert not store.subscribe("t", kinds=["never.*"]).next()


def test_an_empty_answer_names_what_holds_back_the_feed_on_postgresql(postgres_store, caplog):
    with perdure.open(postgres_store) as store:
        session = store.session("a")
        session.emit("n.added")
        read_until(store, 1)
        subscription = store.subscribe("s", start="end")
        with connected(postgres_store) as foreign:
            foreign.execute("SET application_name = 'nightly report'")
            foreign.execute("SELECT pg_current_xact_id()")
            session.emit("n.added")
            says = f"process {foreign.info.backend_pid} (nightly report, idle in transaction)"
            for _ in range(200):  # other work on the same server may be older for a while
                batch = subscription.next(wait="50ms")
                assert not batch
                if says in (batch.held_by or ""):
                    break
            assert says in (batch.held_by or "")
            assert store.feed_held_by() is not None
            assert "nightly report" in caplog.text
            told = [finding.says for finding in health.examine(postgres_store).findings if finding.check == "feed"]
            assert "nightly report" in told[0]
        assert len(subscription.next(wait=PATIENCE)) == 1


def test_acknowledging_an_empty_answer_takes_nothing_from_anybody() -> None:
    """Its token is 0, and so is that of what waits to be delivered again: two events went, and nobody had seen them."""
    with perdure.open("memory:") as store:
        session = store.session("a")
        numbers = [session.emit("x.y", {"n": number}).data["n"] for number in range(6)]
        store.subscribe("r", kinds=["x.y"], consumers=2)
        write = store._caller.write
        first, second = (write(subscriptions.take, "r", limit) for limit in (4, 1))
        write(subscriptions.give_back, "r", first.token)
        again = write(subscriptions.take, "r", 2)  # the other two of the first batch wait
        nothing = write(subscriptions.take, "r", 2)
        assert (nothing.events, nothing.token) == ((), 0)
        for batch in (nothing, second, again):
            write(subscriptions.acknowledge, "r", batch.token)
        seen = [event.data["n"] for batch in (second, again) for event in batch.events]
        while rest := write(subscriptions.take, "r").events:
            seen += [event.data["n"] for event in rest]
        assert sorted(seen) == numbers
