"""PostgreSQL: races for heads, lost connections, lost replies, and what a bad address gets (P1, P3, P15)."""

from __future__ import annotations

import contextlib
import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

import perdure
from perdure.errors import Conflict, Invalid, ReadOnly, Refused, TimedOut, Unavailable
from perdure.log.change import Change, Op, Stream
from perdure.model import crash_points
from perdure.planes.conversation import sessions, turns
from perdure.stores import postgres
from perdure.stores.core import open_core
from perdure.stores.lane import Lane
from perdure.stores.postgres import PostgresEngine
from perdure.stores.postgres_faults import dial_fault
from perdure.stores.url import parse
from perdure_testing.faults import Cut, Proxy
from stores.verbs import (
    Called,
    Opened,
    append,
    begin,
    begin_and_append,
    count_turns,
    everything,
    impatient,
    opened,
    until,
)

psycopg = pytest.importorskip("psycopg")

pytestmark = pytest.mark.usefixtures("new_connections")

SEED = 20_260


@pytest.fixture
def proxy(postgres_store) -> Iterator[Proxy]:
    parts = urlsplit(postgres_store)
    with Proxy(str(parts.hostname), int(parts.port or 5432)) as proxy:
        yield proxy


@pytest.fixture
def proxied_url(postgres_store, proxy) -> str:
    return through(postgres_store, proxy)


def through(url: str, proxy: Proxy) -> str:
    return url.replace(f":{urlsplit(url).port}/", f":{proxy.port}/")


def plain(url: str) -> Any:
    """A connection of our own beside the store, in its schema."""
    address, _, schema = url.partition("?schema=")
    return psycopg.connect(address, autocommit=True, options=f"-c search_path={schema}")


# -- races --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("fixture", "count"), [("postgres_store", 200), ("system_postgres_url", 40)])
def test_two_stores_append_to_one_stream_and_nobody_hears_of_the_race(fixture, count, request):
    url = request.getfixturevalue(fixture)
    with opened(url) as one, opened(url) as two:
        stream = one.write(begin, "a")

        def some(store: Opened, who: str) -> list[int]:
            return [store.write(append, stream, f"{who}{number}") for number in range(count)]

        callers = [Called(some, one, "x"), Called(some, two, "y")]
        seqs = [seq for caller in callers for seq in caller.outcome()]
    assert sorted(seqs) == list(range(2, 2 * count + 2))
    stored = everything(url)
    assert len(stored) == 2 * count
    assert set(stored.values()) == {1}


def test_control_without_guard_and_unique_sequence_an_event_is_lost(postgres_store, monkeypatch):
    """Heads moved blindly, and the index that would have caught it dropped: both stores write sequence 2."""
    from perdure.stores import postgres

    blind = " AND %s::bigint IS NOT NULL AND %s::bytea IS NOT NULL"
    text = postgres._MOVE_HEAD.replace(" AND s.seq = %s AND s.hash = %s", blind)
    assert text != postgres._MOVE_HEAD
    monkeypatch.setattr(postgres, "_MOVE_HEAD", text)
    with opened(postgres_store) as one, opened(postgres_store) as two, plain(postgres_store) as admin:
        stream = one.write(begin, "a")
        admin.execute("DROP INDEX events_by_stream")
        assert [store.write(note, stream) for store in (two, one)] == [2, 2]


def note(tx: Any, stream: Stream) -> int:
    return tx.record(Change("thing.noted", stream, op=Op.NOTE))


def test_many_streams_in_opposite_order_show_no_deadlock(postgres_store):
    with opened(postgres_store) as one, opened(postgres_store) as two:
        streams = [one.write(begin, f"s{number}") for number in range(6)]

        def all_of_them(tx: Any, order: list[Stream], content: str) -> None:
            for stream in order:
                append(tx, stream, content)

        def some(store: Opened, order: list[Stream], who: str) -> None:
            for number in range(30):
                store.write(all_of_them, order, f"{who}{number}")

        callers = [Called(some, one, streams, "x"), Called(some, two, streams[::-1], "y")]
        for caller in callers:
            caller.outcome()
    assert set(everything(postgres_store).values()) == {6}


def test_two_stores_create_the_same_session_at_once(postgres_store):
    with opened(postgres_store) as one, opened(postgres_store) as two:
        for number in range(20):
            start = threading.Barrier(2)

            def create(store: Opened, number: int = number, start: Any = start) -> int:
                start.wait()
                return store.write(begin, f"s{number}").id

            callers = [Called(create, store) for store in (one, two)]
            assert len({caller.outcome() for caller in callers}) == 1


# -- lost connections ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("fixture", "count"), [("postgres_store", 30), ("system_postgres_url", 8)])
def test_a_terminated_backend_is_not_noticed(fixture, count, request):
    url = request.getfixturevalue(fixture)
    rng = random.Random(SEED)
    with opened(url) as store, plain(url) as admin:
        stream = store.write(begin, "a")
        for number in range(count):
            if rng.random() < 0.5:
                kill_backends(admin, store.core)
            store.write(append, stream, number)
            assert store.read(count_turns, stream) == number + 1
    assert everything(url) == Counter(range(count))


def kill_backends(admin: Any, core: Any) -> None:
    """End every backend of this store, and nobody else's: the server is shared with other tests."""
    readers = [reader for reader, _ in core._idle]
    connections = [connection for connection in (core.lane._connection, *readers) if connection is not None]
    pids = [connection.raw.info.backend_pid for connection in connections if not connection.raw.closed]
    admin.execute("SELECT pg_terminate_backend(pid, 5000) FROM unnest(%s::int[]) AS pid", (pids,)).fetchall()


def test_a_backend_terminated_inside_the_transaction(postgres_store):
    with opened(postgres_store) as store, plain(postgres_store) as admin:
        store.write(begin, "a")

        def act() -> None:
            disarm()
            kill_backends(admin, store.core)

        for number in range(10):
            disarm = crash_points.arm("lane.before_commit", act)
            assert store.write(begin_and_append, f"s{number}", number) == 2
    assert everything(postgres_store) == Counter(range(10))


def test_the_server_is_killed_and_comes_back(private_postgres):
    url = private_postgres.url(schema="s")
    acked: list[int] = []
    with opened(url) as store:
        stream = store.write(begin, "a")
        halfway, back = threading.Event(), threading.Event()

        def write_on() -> None:
            for number in range(100_000):
                store.write(append, stream, number)
                acked.append(number)
                if number == 50:
                    halfway.set()
                if back.is_set():
                    return

        writer = Called(write_on)
        assert halfway.wait(60)
        private_postgres.kill()
        private_postgres.restart()
        back.set()
        writer.outcome()
        assert store.read(count_turns, stream) == len(acked)
    assert everything(url) == Counter(acked)


def test_a_server_that_says_that_it_is_coming_up_is_waited_for(private_postgres, monkeypatch):
    from perdure.stores import postgres

    url = private_postgres.url(schema="s")
    opened(url).__enter__().core.close()
    with _recovering(private_postgres):
        open_core(url).close()
    monkeypatch.setattr(postgres, "_COMING", re.compile("nothing is ever said like this"))
    assert any(_is_refused(private_postgres, url) for _ in range(20))  # control: without the rule one is refused
    monkeypatch.undo()
    open_core(url).close()  # a server is not stopped while it recovers


def test_who_is_cut_off_before_a_word_was_said_asks_again(postgres_store, proxy, proxied_url):
    """A server that begins to recover ends also those that it was about to tell so."""
    proxy.cut(Cut.BEFORE)
    open_core(proxied_url).close()
    assert proxy.cuts == 1


def test_control_who_is_cut_off_every_time_is_told_soon():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        taken: list[int] = []

        def cut_off() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    taken.append(1)
                    connection.recv(8192)
                    connection.close()

        cutting = Called(cut_off)
        with pytest.raises(Unavailable, match="closed the connection"):
            open_core(
                f"postgresql://me@127.0.0.1:{listener.getsockname()[1]}/postgres?sslmode=disable&gssencmode=disable"
            )
        listener.shutdown(socket.SHUT_RDWR)
        cutting.outcome()
    assert len(taken) == 4


def _is_refused(server: Any, url: str) -> bool:
    """Whether a store cannot be opened while the server recovers; it may have done so before we get there."""
    with _recovering(server):
        try:
            open_core(url).close()
        except Unavailable:
            return True
    return False


@contextlib.contextmanager
def _recovering(server: Any) -> Iterator[None]:
    """The server while it recovers from the death of one of its processes: it takes nobody for a moment."""
    for _ in range(50):
        with contextlib.suppress(psycopg.OperationalError):
            _kill_one_of(server)
        if _refuses(server):
            yield
            return
    pytest.fail("the server was never seen to recover")


def _kill_one_of(server: Any) -> None:
    with psycopg.connect(server.url(), autocommit=True) as victim:
        victim.execute("CREATE TABLE IF NOT EXISTS big (x text)")
        victim.execute("INSERT INTO big SELECT repeat('x', 1000) FROM generate_series(1, 5000)")
        os.kill(victim.info.backend_pid, signal.SIGKILL)


def _refuses(server: Any) -> bool:
    try:
        psycopg.connect(server.url()).close()
    except psycopg.OperationalError as error:
        return "the database system is" in str(error)
    return False


def test_a_server_that_stays_away_is_an_error_after_the_deadline(private_postgres):
    url = private_postgres.url(schema="s")
    with opened(url) as store:
        stream = store.write(begin, "a")
        private_postgres.kill()
        with impatient(store, 0.5):
            with pytest.raises(Unavailable):
                store.write(append, stream, "never")
            with pytest.raises(Unavailable):
                store.read(count_turns, stream)
        private_postgres.restart()
        store.write(append, stream, "again")
        assert store.contents(stream) == ["again"]


def test_a_server_that_has_gone_silent_is_an_error_after_the_deadline(postgres_store, monkeypatch):
    """Nothing is closed, nothing answers: the wait itself must end."""
    from perdure.stores import postgres

    with opened(postgres_store) as store:
        stream = store.write(begin, "a")
    monkeypatch.setattr(postgres, "_ANSWER_SECONDS", 0.0)
    with plain(postgres_store) as admin:
        with opened(postgres_store) as store:
            store.write(begin, "a")
            admin.execute("BEGIN")
            admin.execute("LOCK TABLE streams")
            store.core.lane._connection.raw.execute("SET lock_timeout = 0; SET statement_timeout = 0")
            store.core.lane._connection.raw.wait_seconds = 1.0
            with pytest.raises(Unavailable), impatient(store):
                store.write(append, stream, "never")
            admin.execute("ROLLBACK")
            store.write(append, stream, "again")
    assert everything(postgres_store) == Counter(["again"])


# -- lost replies -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("fixture", "count"), [("postgres_store", 60), ("system_postgres_url", 10)])
def test_a_lost_reply_is_resolved_by_transaction_id(fixture, count, request):
    """At every request of a write, lost before, while and after the server acts: once, never twice."""
    url = request.getfixturevalue(fixture)
    parts = urlsplit(url)
    rng = random.Random(SEED)
    with Proxy(str(parts.hostname), int(parts.port or 0)) as proxy:
        with opened(through(url, proxy)) as store:
            stream = store.write(begin, "a")
            for number in range(count):
                proxy.cut(rng.choice([Cut.BEFORE, Cut.UNHEARD, Cut.REPLY, Cut.REPLY]), nth=rng.randint(1, 2))
                assert store.write(append, stream, number) == number + 2
            for number in range(count, count + 24):
                proxy.cut(rng.choice([Cut.BEFORE, Cut.UNHEARD, Cut.REPLY]), nth=rng.randint(1, 4))
                assert store.write(begin_and_append, f"s{number}", number) == 2
        assert proxy.cuts >= count  # the last of a write's requests is the one that commits
    assert everything(url) == Counter(range(count + 24))


def test_batches_survive_lost_replies(postgres_store, proxy, proxied_url):
    import asyncio

    async def main() -> None:
        with opened(proxied_url) as store:
            streams = [await store.submit(begin, f"s{number}") for number in range(20)]
            for round_number in range(10):
                proxy.cut(Cut.REPLY, nth=1 + round_number % 2)
                jobs = [store.submit(append, stream, f"{round_number}.{stream.name}") for stream in streams]
                await asyncio.gather(*jobs)

    asyncio.run(main())
    assert proxy.cuts >= 5
    stored = everything(postgres_store)
    assert len(stored) == 200
    assert set(stored.values()) == {1}


class GuessingLane(Lane):
    """The control: takes every COMMIT without a reply for one that did not happen."""

    def _was_committed(self, error, batch) -> bool:
        return False


def test_control_guessing_doubles(postgres_store, proxy, proxied_url):
    with opened(proxied_url) as store:
        swap_lane(store, GuessingLane)
        stream = store.write(begin, "a")
        for number in range(10):
            proxy.cut(Cut.REPLY, nth=1 + number % 2)
            store.write(append, stream, number)
    assert max(everything(postgres_store).values()) == 2


def swap_lane(store: Opened, kind: type[Lane]) -> None:
    old = store.core.lane
    store.core.lane = kind(old._engine, old._blobs, old._clocks, 30.0)
    old.close()


def late_request(proxy: Proxy, url: str) -> None:
    """A request reaches the server only after its sender gave up on it, asked, and began anew."""
    with opened(url) as store:
        stream = store.write(begin, "a")
        release = crash_points.arm(
            "lane.before_commit", lambda: release() or crash_points.arm("lane.before_commit", late)
        )

        def late() -> None:  # the second attempt is about to commit
            crash_points.arm("lane.before_commit", lambda: None)()
            proxy.release()

        proxy.cut(Cut.LATER)
        store.write(append, stream, "once")
        assert proxy.cuts == 1


def test_what_a_lost_connection_sent_cannot_happen_later(postgres_store, proxy, proxied_url):
    late_request(proxy, proxied_url)
    assert everything(postgres_store) == Counter(["once"])


def new_session_late(proxy: Proxy, url: str, timeout_seconds: float = 30.0) -> None:
    with opened(url, timeout_seconds=timeout_seconds) as store:
        store.write(begin, "a")
        asked = PostgresEngine.connect

        def connect(engine: PostgresEngine) -> Any:
            connection = asked(engine)
            if proxy.cuts:
                query = connection.query

                def query_then_release(statement: Any, params: Any) -> Any:
                    rows = query(statement, params)
                    if statement.name == "event_tx":
                        proxy.release()
                        settle(url)
                    return rows

                connection.query = query_then_release  # type: ignore[method-assign]
            return connection

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(PostgresEngine, "connect", connect)
            for nth in range(1, 6):
                proxy.cut(Cut.LATER, nth)
                store.write(begin_and_append, f"s{nth}", nth)


ACTIVE = (  # in this database: other tests have theirs on the same server
    "SELECT count(*) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname = current_database() AND "
    "application_name LIKE 'perdure-%' AND state = 'active'"
)


def settle(url: str) -> None:
    """Until no backend works on anything: what was released has had its effect."""
    with plain(url) as admin:
        until(lambda: not admin.execute(ACTIVE).fetchone()[0])


def test_a_new_session_is_not_begun_twice_by_a_late_request(postgres_store, proxy, proxied_url):
    """The request arrives between the question whether it was committed and the next attempt."""
    new_session_late(proxy, proxied_url)
    assert proxy.cuts >= 3
    assert everything(postgres_store) == Counter(range(1, 6))


def test_control_a_lost_backend_that_is_not_ended_doubles(postgres_store, proxy, proxied_url, monkeypatch):
    from perdure.stores.postgres import PostgresConnection

    monkeypatch.setattr(PostgresConnection, "end", lambda *_: None)
    try:
        new_session_late(proxy, proxied_url, timeout_seconds=0.5)
    except Unavailable:
        return  # it holds its locks for ever: as bad
    assert max(everything(postgres_store).values()) == 2


# -- what a bad address gets --------------------------------------------------------------------------------


def test_wrong_password(postgres_url):
    parts = urlsplit(postgres_url)
    with pytest.raises(Refused, match="authentication") as caught:
        open_core(postgres_url.replace(f":{parts.password}@", ":wrong@"))
    assert caught.value.path == "store"
    assert "wrong" not in str(caught.value)


def test_no_such_database(postgres_url):
    with pytest.raises(Refused, match="does not exist") as caught:
        open_core(postgres_url.replace("/postgres?", "/nowhere?"))
    assert caught.value.path == "store"
    assert "createdb nowhere" in caught.value.hint


def test_refused_connection():
    with socket.socket() as taken:  # a port that nobody else gets meanwhile, and at which nobody listens
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        with pytest.raises(Unavailable, match="refused") as caught:
            open_core(f"postgresql://me@127.0.0.1:{port}/postgres")
    assert caught.value.path == "store"
    assert caught.value.hint == f"start the server, or correct host and port (tried 127.0.0.1, port {port})"


def test_a_host_that_never_answers_is_given_up_on():
    with socket.create_server(("127.0.0.1", 0)) as listener:  # takes the connection, says nothing
        with pytest.raises(Unavailable) as caught:
            open_core(f"postgresql://me@127.0.0.1:{listener.getsockname()[1]}/postgres", timeout_seconds=0.1)
    assert caught.value.path == "store"
    assert "firewalls on the way" in caught.value.hint


SAID_BY_LIBPQ = [  # as psycopg 3.3 and libpq 18 say it
    ("failed to resolve host 'db.exampel': [Errno -2] Name or service not known", Unavailable, "no such host: correct its name"),
    ("connection timeout expired", Unavailable, "firewalls on the way (tried db.exampel, port 6543)"),
    ('connection to server at "10.0.0.1", port 6543 failed: Connection timed out', Unavailable, "firewalls on the way"),
    ('connection to server at "10.0.0.1", port 6543 failed: Connection refused\n\tIs the server running?', Unavailable,
     "start the server, or correct host and port (tried db.exampel, port 6543)"),
    ('FATAL:  password authentication failed for user "ada"', Refused, "correct user or password; PGPASSWORD"),
    ("fe_sendauth: no password supplied", Refused, "correct user or password; PGPASSWORD"),
    ('FATAL:  database "agents" does not exist', Refused, "or make it: createdb agents"),
    ('FATAL:  role "ada" does not exist', Refused, "or make the role: createuser ada"),
    ('FATAL:  no pg_hba.conf entry for host "10.0.0.9", user "ada"', Refused, "see its pg_hba.conf"),
    ("received invalid response to SSL negotiation: H", Unavailable, "something else may answer there"),
    ("server does not support SSL, but SSL was required", Unavailable, "host, port and sslmode"),
]  # fmt: skip


@pytest.mark.parametrize(("said", "kind", "way_out"), SAID_BY_LIBPQ)
def test_a_connection_that_fails_names_the_next_step(said, kind, way_out) -> None:
    fault = dial_fault(
        psycopg.OperationalError(said), "host=db.exampel port=6543 user=ada password=sesame dbname=agents"
    )
    error = fault.as_error()
    assert type(error) is kind
    assert way_out in error.hint
    assert "sesame" not in str(error)
    assert "Is the server running" not in str(error)


@pytest.mark.parametrize("misread", ["host=ada port=sesame", "host=ada port=4711 dbname=sesame@db/agents"])
def test_a_password_that_was_read_as_a_port_is_not_shown(misread) -> None:
    said = "failed to resolve host 'ada': [Errno -2] Name or service not known"
    hint = dial_fault(psycopg.OperationalError(said), misread).hint
    assert hint == "no such host: correct its name (tried ada)"


def test_an_address_that_nobody_has_is_named(tmp_path) -> None:
    """The whole way, with a real libpq: where it was tried, the cause and the next step, for a host, a port and a socket."""
    for place, says in (
        ("ada:sesame@no-such-host.invalid:6543/agents", "tried no-such-host.invalid, port 6543"),
        (f"/agents?host={tmp_path}&port=6543", f"tried {tmp_path}, port 6543"),
    ):
        with pytest.raises(Unavailable, match="the database does not answer") as caught:
            open_core(f"postgresql://{place}")
        assert says in caught.value.hint
        assert "sesame" not in str(caught.value)


def test_an_unknown_setting_in_the_address(postgres_url):
    with pytest.raises(Invalid, match="colour") as caught:
        open_core(f"{postgres_url}&colour=red")
    assert caught.value.path == "store"
    assert "\n" not in str(caught.value)


def test_a_password_that_cannot_be_read_is_not_repeated():
    with pytest.raises(Invalid) as caught:
        open_core("postgresql://me:sec%zzret@h/d")
    assert caught.value.path == "store"
    assert "ret" not in str(caught.value)


def test_a_socket(postgres_server, postgres_store):
    """As libpq users write it: no host in front, the folder of the socket behind."""
    parts, sockets = urlsplit(postgres_store), postgres_server.sockets
    query = f"host={sockets}&port={parts.port}&user={parts.username}&password={parts.password}&{parts.query}"
    with opened(f"postgresql://{parts.path}?{query}") as store:
        store.write(begin_and_append, "a", "x")
    assert everything(postgres_store) == Counter(["x"])


def test_a_role_that_may_not_create_a_schema(postgres_url):
    with plain(postgres_url) as admin:
        role = f"r_{random.SystemRandom().getrandbits(48):x}"
        admin.execute(f"CREATE ROLE {role} LOGIN PASSWORD 'p'")
        try:
            parts = urlsplit(postgres_url)
            with pytest.raises(Refused) as caught:
                open_core(postgres_url.replace(f"{parts.username}:{parts.password}@", f"{role}:p@"))
            assert caught.value.path == "store"
        finally:
            admin.execute(f"DROP ROLE {role}")


def test_a_read_only_store_refuses_to_write(postgres_store):
    with opened(postgres_store) as store:
        stream = store.write(begin, "a")
    with opened(postgres_store, read_only=True) as store:
        assert store.read(count_turns, stream) == 0
        with pytest.raises(ReadOnly) as caught:
            store.write(append, stream, "x")
        assert caught.value.path == "store"
        assert "standby" in caught.value.hint


def test_a_read_that_a_standby_cancels_is_tried_again(postgres_store):
    """What it replays may need a row version gone that is being read: 40001, and the next look gets through."""
    cancelled = iter([True, False])

    def read(reader: Any) -> int:
        if next(cancelled):
            reader.connection._fetch(
                "DO $$ BEGIN RAISE EXCEPTION 'conflict with recovery' USING ERRCODE = '40001'; END $$", ()
            )
        return 1

    with opened(postgres_store) as store:
        assert store.read(read) == 1


def test_who_met_a_standby_looks_for_the_primary(postgres_store):
    """During a failover its connection had led to one: every later write was refused, until the program was started anew."""
    with opened(postgres_store) as store:
        stream = store.write(begin, "a")
        store.core.lane._connection.raw.execute("SET default_transaction_read_only = on")
        store.write(append, stream, "x")
    assert everything(postgres_store) == Counter(["x"])


def test_a_lost_race_writes_nothing_into_the_users_log(postgres_store, caplog):
    """In a pipeline psycopg warned of each: "error ignored terminating <psycopg.Pipeline …>", with host and user."""
    large = "x" * 9000  # a blob: several statements
    with opened(postgres_store) as one, opened(postgres_store) as other:
        stream = one.write(begin, "a")
        for number in range(4):
            one.write(append, stream, f"{large}{number}a")
            other.write(append, stream, f"{large}{number}b")
    assert [record.getMessage() for record in caplog.records if record.name.startswith("psycopg")] == []


# -- a process that is stopped --------------------------------------------------------------------------------

STOPPED = """
import os, signal, sys
import psycopg
import perdure
from perdure.stores import postgres
postgres.IDLE_MS = int(sys.argv[3])
store = perdure.open(sys.argv[1])
session = store.session("s")
before, execute = sys.argv[2], psycopg.Connection.execute
def stopping(connection, text, *rest, **how):
    global before
    if before and before in str(text):
        before = ""
        os.kill(os.getpid(), signal.SIGSTOP)
    return execute(connection, text, *rest, **how)
psycopg.Connection.execute = stopping
postgres.BoundedConnection.execute = stopping
session.say("user", "stopped" + "x" * 9000, key="k")
store.close()
"""


def write_beside_a_stopped_one(url: str, before: str, idle_ms: int, timeout_seconds: float) -> None:
    """A process is stopped before it sends a statement of its commit; another one writes in the same session meanwhile."""
    with perdure.open(url) as store:
        store.session("s").say("user", "first")
    with subprocess.Popen([sys.executable, "-c", STOPPED, url, before, str(idle_ms)]) as stopped:
        try:
            until(
                lambda: "T (stopped)" in Path(f"/proc/{stopped.pid}/status").read_text() or stopped.poll() is not None
            )
            core = open_core(url, timeout_seconds=timeout_seconds)
            with contextlib.closing(core):
                tenant = core.tenant_id("default")
                session, _ = core.read(sessions.find_session, "s", tenant=tenant)
                core.write(turns.say, session, "user", "meanwhile", actor="me", tenant=tenant)
        finally:
            stopped.send_signal(signal.SIGCONT)
            assert stopped.wait(60) == 0
    with perdure.open(url, read_only=True) as store:
        said = [turn.content[:7] for turn in store.session("s").turns(limit=10)]
        heard = [event.seq for event in store.feed(limit=100) if event.kind == "turn.said"]
    assert sorted(said) == ["first", "meanwhi", "stopped"]
    assert len(heard) == 3


@pytest.mark.parametrize("before", ["BEGIN", "WITH ", "COMMIT"])
def test_a_process_that_is_stopped_in_its_commit_holds_nobody_up(postgres_store, before):
    """It held the head of its stream, and the feed, for as long as it was stopped. Woken, it finds out that it lost its
    connection, asks what became of the commit, and writes once.
    """
    write_beside_a_stopped_one(postgres_store, before, 200, 30.0)


def test_control_without_the_bound_it_does(postgres_store):
    with pytest.raises(TimedOut):
        write_beside_a_stopped_one(postgres_store, "COMMIT", 0, 1.0)


def test_what_is_written_without_a_lock_is_one_message(postgres_store):
    """So there is nothing in between: no BEGIN, no COMMIT."""
    with perdure.open(postgres_store) as store:
        session = store.session("s")
        session.say("user", "first")
        raw = store._caller.core.lane._connection.raw
        sent = []
        execute = raw.execute
        raw.execute = lambda text, *rest, **how: (sent.append(text), execute(text, *rest, **how))[1]
        session.say("user", "second", key="k")
        session.set("a", 1)
        del raw.execute
    assert not [text for text in sent if text.startswith(("BEGIN", "COMMIT"))]
    assert sum(text.startswith("WITH ") for text in sent) == 2


# -- deadlines, broken keys and foreign clusters ----------------------------------------------------------------


def test_a_lock_that_is_held_past_the_deadline(postgres_store):
    with opened(postgres_store) as store, plain(postgres_store) as admin:
        stream = store.write(begin, "a")
        store.core.lane._connection.raw.execute("SET lock_timeout = 300")
        admin.execute("BEGIN")
        admin.execute("LOCK TABLE streams")
        with pytest.raises(TimedOut) as caught, impatient(store):
            store.write(append, stream, "x")
        admin.execute("ROLLBACK")
        assert caught.value.path == "store"
        assert caught.value.hint
        assert store.write(append, stream, "y") == 2
    assert everything(postgres_store) == Counter(["y"])


def test_a_broken_unique_key_is_a_conflict(postgres_store):
    with opened(postgres_store) as store:
        stream = store.write(begin, "a")
        store.write(append, stream, "x", "key")
        with pytest.raises(Conflict):
            store.write(append, stream, "y", "key")


def test_a_database_moved_by_a_dump_is_not_written_to(postgres_store):
    """Its events carry transaction ids that this cluster will give out in years: the feed would wait for them."""
    with opened(postgres_store) as store:
        stream = store.write(begin, "a")
        store.write(append, stream, "x")
    with plain(postgres_store) as admin:
        admin.execute("SET session_replication_role = replica")
        admin.execute("UPDATE events SET xid = (xid::text::bigint + 4000000000)::text::xid8")
    with pytest.raises(Refused, match="another cluster") as caught:
        open_core(postgres_store)
    assert caught.value.path == "store"
    assert "back it up" in caught.value.hint
    with opened(postgres_store, read_only=True) as store:
        assert store.read(count_turns, stream) == 1


WARNS = """CREATE FUNCTION warn() RETURNS trigger LANGUAGE plpgsql AS
  $$ BEGIN RAISE WARNING USING errcode = '57P01', message = 'Warten beendet'; RETURN NULL; END $$;
CREATE TABLE warned (it int);
CREATE CONSTRAINT TRIGGER warn AFTER INSERT ON warned DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION warn();
CREATE CONSTRAINT TRIGGER warn AFTER INSERT ON turns DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION warn()"""
NEVER_CONFIRMED = "INSERT INTO warned VALUES (1) RETURNING it"


@pytest.fixture
def warning_commits(postgres_store) -> str:
    """A store in which each commit of a turn comes with a warning."""
    perdure.open(postgres_store).close()
    with psycopg.connect(parse(postgres_store).conninfo, options="-c search_path=perdure") as connection:
        connection.execute(WARNS)
    return postgres_store


def test_a_commit_with_a_warning_is_asked_for_on_another_connection(warning_commits):
    """Whatever the warning says: the server may have stopped waiting for a standby."""
    with perdure.open(warning_commits) as store:
        session = store.session("s")
        before = store._caller.core.lane._connection
        session.say("user", "one")
        assert store._caller.core.lane._connection is not before
        assert [turn.content for turn in session.turns()] == ["one"]


def test_what_no_commit_of_ours_confirms_stays_unknown(warning_commits, monkeypatch):
    with perdure.open(warning_commits, timeout=0.3) as store:
        session = store.session("s")
        session.say("user", "zero")
        confirms = postgres.CONFIRM
        monkeypatch.setattr(postgres, "CONFIRM", NEVER_CONFIRMED)
        for _ in range(2):  # a repetition finds the turn, and is no success yet
            with pytest.raises(Unavailable, match="may have been written"):
                session.say("user", "one", key="k")
        monkeypatch.setattr(postgres, "CONFIRM", confirms)
        session.say("user", "one", key="k")
        assert [turn.content for turn in session.turns()] == ["zero", "one"]


def test_a_standby_is_not_asked_what_became_of_a_commit(warning_commits, monkeypatch):
    with perdure.open(warning_commits, timeout=0.3) as store:
        session = store.session("s")
        history = store._caller.core.engine.history_of
        monkeypatch.setattr(
            store._caller.core.engine, "history_of", lambda each: history(each)._replace(recovers=True, line=None)
        )
        with pytest.raises(Unavailable, match="a standby answers"):
            session.say("user", "one")
