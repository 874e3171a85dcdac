"""The store's writes on the user's own connection: with his transaction, or not at all; heads and chains stay right."""

from __future__ import annotations

import asyncio
import threading

import pytest

import perdure
from perdure.errors import Conflict, Invalid, KeyReused, Refused
from perdure.runtime.callers import AsyncCaller
from perdure.stores.url import parse

psycopg = pytest.importorskip("psycopg")


@pytest.fixture
def store(postgres_store):
    with perdure.open(postgres_store) as opened:
        opened.session("a")
        yield opened


@pytest.fixture
def connect(postgres_store):
    """Connections of the user's, as many as are wanted; a table of his that goes with the last."""
    opened = []

    def connect(**options):
        opened.append(psycopg.connect(parse(postgres_store).conninfo, **options))
        return opened[-1]

    with connect() as first:
        name = f"own_{parse(postgres_store).schema}"
        first.execute(f"CREATE TABLE public.{name} (id int PRIMARY KEY)")
    connect.table = f"public.{name}"
    yield connect
    for each in opened:
        each.close()
    with psycopg.connect(parse(postgres_store).conninfo) as last:
        last.execute(f"DROP TABLE public.{name}")


@pytest.fixture
def connection(connect):
    return connect()


def booked(store, connection, table: str, number: int = 7) -> object:
    def book(tx):
        effect = tx.session("a").begin("book", {"order": number}, key=f"k{number}")
        if not effect.settled:
            connection.execute(f"INSERT INTO {table} VALUES (%s)", (number,))
            effect.dispatch()
            effect.commit({"order": number, "long": "x" * 20_000})
        return effect.result

    return store.atomic(book, on=connection)["order"]


def found(store, connection, table: str) -> tuple[list[int], list[str]]:
    rows = [row[0] for row in connection.execute(f"SELECT id FROM {table} ORDER BY id").fetchall()]
    connection.rollback()
    return rows, [each.key for each in store.session("a").effects() if each.settled]


def test_with_his_commit_both_are_there_and_only_then(store, connection, connect):
    assert booked(store, connection, connect.table) == 7
    other = connect()
    assert found(store, other, connect.table) == ([], [])
    connection.commit()
    assert found(store, other, connect.table) == ([7], ["k7"])
    assert booked(store, connection, connect.table) == 7  # the stored result, and no row
    connection.commit()
    assert found(store, other, connect.table) == ([7], ["k7"])
    assert store.verify().ok


def test_with_his_rollback_neither_is(store, connection, connect):
    booked(store, connection, connect.table)
    connection.rollback()
    assert found(store, connection, connect.table) == ([], [])
    store.session("a").say("user", "the head is where it was")
    assert store.verify().ok


def test_a_savepoint_takes_both_back(store, connection, connect):
    booked(store, connection, connect.table, 1)
    with connection.transaction() as taken_back:
        booked(store, connection, connect.table, 2)
        raise psycopg.Rollback(taken_back)
    booked(store, connection, connect.table, 3)
    connection.commit()
    assert found(store, connection, connect.table) == ([1, 3], ["k1", "k3"])
    assert store.verify().ok


def test_his_settings_are_his_again(store, connect):
    connection = connect(
        row_factory=psycopg.rows.dict_row, cursor_factory=psycopg.ClientCursor, options="-c search_path=public,pg_temp"
    )
    shown = "SELECT current_setting('search_path') AS path, current_setting('lock_timeout') AS timeout"
    before = connection.execute(shown).fetchone()
    with connection.transaction():
        booked(store, connection, connect.table)
        assert connection.execute(shown).fetchone() == before == {"path": "public,pg_temp", "timeout": "0"}


def test_a_commit_that_would_not_wait_for_its_sync_does(store, connect):
    connection = connect(options="-c synchronous_commit=off")
    booked(store, connection, connect.table)
    assert connection.execute("SHOW synchronous_commit").fetchone() == ("on",)
    connection.rollback()
    assert connection.execute("SHOW synchronous_commit").fetchone() == ("off",)


def test_others_wait_until_his_transaction_ends_and_then_go_on_from_there(store, connection, connect, postgres_store):
    booked(store, connection, connect.table)
    said = []
    writer = threading.Thread(target=lambda: said.append(store.session("a").say("user", "after it").seq))
    writer.start()
    with connect(autocommit=True) as watch:
        waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%streams%'"
        while watch.execute(waiting).fetchone() == (0,):
            assert not said
    connection.commit()
    writer.join()
    assert said == [5]  # opened, planned, dispatched, committed: and this
    assert store.verify().ok


def test_who_comes_too_late_begins_again(store, connection, connect):
    """His transaction has its number before somebody else's wrote to the stream: the feed's order would be broken."""
    connection.execute(f"INSERT INTO {connect.table} VALUES (1)")
    store.session("a").say("user", "meanwhile")
    with pytest.raises(Conflict, match="grew while") as error:
        booked(store, connection, connect.table)
    assert "whole transaction again" in error.value.hint
    with pytest.raises(psycopg.errors.InFailedSqlTransaction):  # so nothing of it can be committed by mistake
        connection.execute("SELECT 1")
    connection.rollback()
    booked(store, connection, connect.table)
    connection.commit()
    assert found(store, connection, connect.table) == ([7], ["k7"])
    assert store.verify().ok


def test_two_who_book_the_same_make_one_booking(store, connect):
    def book(number: int) -> None:
        with perdure.open(store._caller.core.engine.url) as own, connect() as connection:
            while True:
                try:
                    booked(own, connection, connect.table)
                    connection.commit()
                except Conflict:
                    connection.rollback()
                else:
                    return

    threads = [threading.Thread(target=book, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found(store, connect(), connect.table) == ([7], ["k7"])
    assert store.verify().ok


def test_what_the_function_raises_is_raised_and_nothing_of_it_was_sent(store, connection, connect):
    booked(store, connection, connect.table)
    with pytest.raises(KeyReused):
        store.atomic(lambda tx: tx.session("a").begin("book", {"order": 8}, key="k7"), on=connection)
    connection.commit()  # his transaction still stands: it is his to decide
    assert found(store, connection, connect.table) == ([7], ["k7"])


def test_a_swallowed_exception_leaves_nothing_of_the_function(store, connection, connect):
    """A read inside it brings what was written so far into the database: that half was committed with the user's transaction."""

    def book(tx):
        session = tx.session("a")
        session.say("user", "book it")
        effect = session.begin("book", {}, key="k")
        connection.execute(f"INSERT INTO {connect.table} VALUES (1)")
        effect.dispatch()
        assert len(session.turns()) == 1
        raise ValueError("full")

    connection.execute(f"INSERT INTO {connect.table} VALUES (2)")
    with pytest.raises(ValueError, match="full"):
        store.atomic(book, on=connection)
    connection.commit()
    assert store.session("a").turns() == []
    assert effects_of(store) == []
    assert connection.execute(f"SELECT id FROM {connect.table}").fetchall() == [(2,)]
    assert store.verify().ok


@pytest.mark.parametrize("reads", [False, True])
def test_what_was_recorded_in_a_part_that_is_undone_is_not_kept(store, connection, connect, reads):
    """The ledger said that it was done, and the user's row was gone."""

    def book(tx):
        effect = tx.session("a").begin("book", {}, key="k")
        with connection.transaction() as part:
            effect.dispatch()
            effect.commit(1)
            connection.execute(f"INSERT INTO {connect.table} VALUES (1)")
            if reads:
                assert [each.state for each in tx.session("a").effects()] == ["committed"]
            raise psycopg.Rollback(part)

    connection.execute(f"INSERT INTO {connect.table} VALUES (2)")
    with pytest.raises(Refused, match="a part of it"):
        store.atomic(book, on=connection)
    connection.commit()
    assert effects_of(store) == []
    booked(store, connection, connect.table)
    connection.commit()
    assert found(store, connection, connect.table) == ([2, 7], ["k7"])
    assert store.verify().ok


def test_what_a_part_that_is_undone_only_brought_into_the_database_is_missed(store, connection, connect):
    """Recorded before the part, flushed by a read inside it: it went with the part, and the function seemed to have worked."""

    def book(tx):
        session = tx.session("a")
        session.say("user", "book it")
        with connection.transaction() as part:
            assert len(session.turns()) == 1
            raise psycopg.Rollback(part)

    with pytest.raises(Refused, match="a part of it"):
        store.atomic(book, on=connection)
    connection.commit()
    assert store.session("a").turns() == []
    assert store.verify().ok


def test_a_function_may_hold_another_one(store, connection, connect):
    def book(tx):
        tx.session("a").say("user", "before")
        store.atomic(lambda inner: inner.session("b").say("user", "inside"), on=connection)
        with pytest.raises(KeyError):
            store.atomic(lambda inner: {}[inner.session("b").say("user", "undone").seq], on=connection)
        tx.session("a").say("user", "after")

    store.session("b")
    store.atomic(book, on=connection)
    connection.commit()
    said = {name: [turn.content for turn in store.session(name).turns()] for name in ("a", "b")}
    assert said == {"a": ["before", "after"], "b": ["inside"]}
    assert store.verify().ok


def test_a_checkpoint_in_it_keeps_a_collection_from_what_it_builds_on(store, connection, connect, postgres_store):
    """The lock was taken under the name of the user's schema, where no collection looks."""
    state = {"log": [f"entry {number} {'y' * 80}" for number in range(2_000)]}
    session = store.session("a")
    session.checkpoint(state)
    for number in range(2):
        session.checkpoint({"other": number})
    session.prune_checkpoints(keep=1)  # the nodes of the first are still there, and nothing needs them
    collected = threading.Event()

    def collect() -> None:
        with perdure.open(postgres_store) as other:
            other.collect(dry_run=False)
        collected.set()

    collector = threading.Thread(target=collect)
    waits = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"

    def save(tx) -> None:
        tx.session("a").checkpoint(state)
        collector.start()
        with connect(autocommit=True) as watch:
            while not collected.is_set() and watch.execute(waits).fetchone() == (0,):
                pass

    store.atomic(save, on=connection)
    connection.commit()
    collector.join()
    assert session.restore() == state
    assert store.verify().ok


def test_async_stores_take_a_sync_connection(postgres_store, connection, connect):
    async def main() -> None:
        async with perdure.aopen(postgres_store) as store:
            await store.session("a")

            def say(tx) -> None:
                connection.execute(f"INSERT INTO {connect.table} VALUES (1)")
                tx.session("a").say("user", "x")

            await store.atomic(say, on=connection)
            connection.commit()
            assert [turn.content for turn in await (await store.session("a")).turns()] == ["x"]

    asyncio.run(main())


# -- what is refused ----------------------------------------------------------------------------------------


def nothing(tx) -> None:
    tx.session("a").say("user", "x")


def test_it_must_be_a_transaction_that_can_be_committed(store, connect):
    with pytest.raises(Refused, match="commits each statement"):
        store.atomic(nothing, on=connect(autocommit=True))
    broken = connect()
    with pytest.raises(psycopg.Error):
        broken.execute("nonsense")
    with pytest.raises(Refused, match="no transaction that can still"):
        store.atomic(nothing, on=broken)
    for other in (object(), psycopg.AsyncConnection):
        with pytest.raises(Refused, match=r"psycopg\.Connection"):
            store.atomic(nothing, on=other)
    assert store.session("a").turns() == []


def test_it_must_be_the_database_of_the_store(store, connect, postgres_store):
    elsewhere = connect(dbname="template1")
    with pytest.raises(Refused, match="another database"):
        store.atomic(nothing, on=elsewhere)
    assert elsewhere.execute("SELECT 1").fetchone() == (1,)  # his transaction is unharmed
    store._caller.core.uid = "0" * 32
    with pytest.raises(Refused, match="another database"):
        store.atomic(nothing, on=connect())


@pytest.mark.parametrize("url", ["memory:", "sqlite:///{}/a.db"])
def test_other_stores_have_no_such_thing(tmp_path, url, connection):
    with perdure.open(url.format(tmp_path)) as store, pytest.raises(Refused, match="PostgreSQL") as error:
        store.atomic(nothing, on=connection)
    assert "tx.sql" in error.value.hint


def test_inside_there_is_no_sending_and_no_sql_of_ours(store, connection):
    with pytest.raises(Refused, match="no external system can be called"):
        store.atomic(lambda tx: tx.session("a").act(print, key="k"), on=connection)
    with pytest.raises(Refused, match="SQLite file"):
        store.atomic(lambda tx: tx.sql("SELECT 1"), on=connection)
    with pytest.raises(Invalid, match="plain function"):
        store.atomic(asyncio.sleep, on=connection)


def test_handles_are_over_with_the_function(store, connection):
    session = store.atomic(lambda tx: tx.session("a"), on=connection)
    with pytest.raises(Refused):
        session.say("user", "x")


# -- what his connection may be like ---------------------------------------------------------------------------------------


def effects_of(store) -> list[str]:
    return [str(effect.key) for effect in store.session("a").effects()]


def test_temporary_tables_of_his_stand_before_none_of_ours(store, connection, connect, postgres_store):
    schema = parse(postgres_store).schema
    for table in ("meta", "streams", "events", "sessions", "effects", "blobs"):
        connection.execute(f"CREATE TEMP TABLE {table} (LIKE {schema}.{table})")
    booked(store, connection, connect.table)
    connection.commit()
    assert effects_of(store) == ["k7"]
    assert connection.execute("SELECT count(*) FROM pg_temp.events").fetchone() == (0,)


@pytest.mark.parametrize("ends", ["commit", "rollback"])
def test_what_follows_the_end_of_his_transaction_is_not_written_into_the_next(store, connection, connect, ends):
    """His row was taken back, and the ledger said that it was done."""

    def book(tx):
        effect = tx.session("a").begin("book", {}, key="k")
        connection.execute(f"INSERT INTO {connect.table} VALUES (1)")
        getattr(connection, ends)()
        effect.dispatch()
        effect.commit(1)

    with pytest.raises(Refused, match="ended before the function did") as caught:
        store.atomic(book, on=connection)
    assert "after store.atomic" in caught.value.hint
    connection.rollback()
    assert effects_of(store) == []
    booked(store, connection, connect.table)
    connection.commit()
    assert effects_of(store) == ["k7"]


def test_a_part_that_is_undone_inside_takes_nothing_else_with_it(store, connection, connect):
    def book(tx):
        effect = tx.session("a").begin("book", {}, key="k")
        with pytest.raises(psycopg.errors.DivisionByZero), connection.transaction():
            connection.execute("SELECT 1 / 0")
        connection.execute(f"INSERT INTO {connect.table} VALUES (1)")
        effect.dispatch()
        effect.commit(1)

    store.atomic(book, on=connection)
    booked(store, connection, connect.table)
    connection.commit()
    assert effects_of(store) == ["k", "k7"]


def test_a_pipeline_with_statements_on_their_way(store, connection, connect):
    """It was told that its transaction could not be committed any more."""
    with connection.pipeline():
        connection.execute(f"INSERT INTO {connect.table} VALUES (1)")
        booked(store, connection, connect.table)
        connection.execute(f"INSERT INTO {connect.table} VALUES (2)")
    connection.commit()
    assert effects_of(store) == ["k7"]
    assert connection.execute(f"SELECT count(*) FROM {connect.table}").fetchone() == (3,)


def test_what_a_pipeline_has_not_heard_yet_is_his_own_error(store, connection, connect):
    connection.execute(f"INSERT INTO {connect.table} VALUES (1)")

    def book_after_a_mistake() -> None:
        with connection.pipeline():
            connection.execute(f"INSERT INTO {connect.table} VALUES (1)")
            booked(store, connection, connect.table)

    with pytest.raises(psycopg.errors.UniqueViolation):
        book_after_a_mistake()
    connection.rollback()
    assert effects_of(store) == []


@pytest.mark.parametrize("encoding", ["LATIN1", "SQL_ASCII"])
def test_his_connection_can_say_every_name(store, connect, encoding):
    with pytest.raises(Refused, match="cannot say every name") as caught:
        booked(store, connect(client_encoding=encoding), connect.table)
    assert "UTF8" in caught.value.hint


def test_a_closed_connection_is_called_so(store, connection, connect):
    connection.close()
    with pytest.raises(Refused, match="is closed"):
        booked(store, connection, connect.table)


# -- a sender and a claimer that live ----------------------------------------------------------------------------------------


def begun_elsewhere(url: str, key: str):
    """The effect as another process sees it that looks at it, as an actor with the same key does."""
    with perdure.open(url) as other:
        session = other.session("a")
        return session.begin("mail", {"to": "x"}, key=key, kind="keyed")


def test_a_sender_that_dispatched_in_a_transaction_of_the_users_lives(store, postgres_store, connection):
    """Nothing beat for it, so that others took it for silent at once, and sent its keyed effect again while it was at it."""
    send = lambda tx: tx.session("a").begin("mail", {"to": "x"}, key="k", kind="keyed").dispatch()  # noqa: E731
    assert store.atomic(send, on=connection).state == "dispatched"
    connection.commit()
    assert begun_elsewhere(postgres_store, "k").state == "dispatched"
    with perdure.open(postgres_store) as other:
        assert other.effects(in_doubt=True) == []
    assert store._caller.heartbeat.tick()  # and it goes on


def test_a_claimer_in_a_transaction_of_the_users_is_kept_alive(store, postgres_store, connection):
    task = store.session("a").task("x")
    store.session("a").close()
    store.atomic(lambda tx: tx.session("a").get_task(task.id).claim(), on=connection)
    connection.commit()
    assert store._caller.heartbeat.tick()
    with perdure.open(postgres_store) as other, pytest.raises(Conflict, match="claimed by"):
        other.session("a").get_task(task.id).claim()


def test_the_heartbeat_waits_for_no_transaction_of_the_users(store, connection):
    """The row is written before the function, by a commit of its own."""
    store.atomic(lambda tx: tx.session("a").begin("mail", {"to": "x"}, key="k", kind="keyed").dispatch(), on=connection)
    store.beat()
    connection.commit()


def test_a_sender_that_died_after_the_users_commit_is_found_out(postgres_store, connect):
    """The control: a heartbeat that nobody keeps up is no sign of life."""
    store = perdure.open(postgres_store)
    connection = connect()
    store.atomic(lambda tx: tx.session("a").begin("mail", {"to": "x"}, key="k", kind="keyed").dispatch(), on=connection)
    connection.commit()
    store.close()
    assert begun_elsewhere(postgres_store, "k").state == "in_doubt"


async def cancelled_and_committed(url: str, connection) -> list[str]:
    """A caller is cancelled in the middle of its function, twice, and commits all the same. Gives what is stored then."""
    inside, go = threading.Event(), threading.Event()

    def say_both(tx) -> None:
        tx.session("a").say("user", "first")
        tx.session("a").turns()  # brings it into the database
        inside.set()
        assert go.wait(60)
        tx.session("a").say("user", "second")

    async with perdure.aopen(url) as store:
        atomic = asyncio.ensure_future(store.atomic(say_both, on=connection))
        assert await asyncio.to_thread(inside.wait, 60)
        for _ in range(2):
            atomic.cancel()
            await asyncio.sleep(0)
        if atomic.done():
            connection.commit()
        go.set()
        with pytest.raises(asyncio.CancelledError):
            await atomic
        connection.commit()
        return [turn.content for turn in await (await store.session("a")).turns()]


def test_a_cancelled_function_is_not_left_in_the_middle(postgres_store, connection):
    assert asyncio.run(cancelled_and_committed(postgres_store, connection)) == ["first", "second"]


def test_control_one_that_is_left_keeps_its_first_half(postgres_store, connection, monkeypatch):
    monkeypatch.setattr(AsyncCaller, "finish", lambda self, task, *args: self.work(task, *args))
    assert asyncio.run(cancelled_and_committed(postgres_store, connection)) == ["first"]
