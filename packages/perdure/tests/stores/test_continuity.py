"""Whether the database is still the one that was known: who notices, who raises the epoch, and who cannot (P3, P4).

Servers that are really taken back are in `faults/test_taken_back.py`. Here a store is told of another history, or loses events.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest

import perdure
from perdure.errors import Stale, Unavailable
from perdure.stores import postgres_session
from perdure.stores.core import Core, open_core
from perdure.stores.store import Fault, FaultKind, History
from perdure.stores.url import parse

psycopg = pytest.importorskip("psycopg")

pytestmark = pytest.mark.usefixtures("new_connections")


@pytest.fixture
def sql(postgres_store) -> Iterator[Any]:
    schema = parse(postgres_store).schema
    with psycopg.connect(
        parse(postgres_store).conninfo, autocommit=True, options=f"-c search_path={schema}"
    ) as connection:
        yield connection


def core_of(store: perdure.Store) -> Core:
    return store._caller.core


def meta(sql: Any) -> dict[str, str]:
    return dict(sql.execute("SELECT name, value FROM meta WHERE name IN ('epoch', 'server')").fetchall())


def hang_up(store: perdure.Store) -> None:
    """The connections are lost, as they are when a server dies."""
    core = core_of(store)
    core.lane._disconnect()
    core.close_idle(0)


def pretend(monkeypatch: pytest.MonkeyPatch, **says: Any) -> None:
    """New connections lead to a server that says this of itself."""
    look = postgres_session.AskedFor.look

    def pretended(session: Any, raw: Any, name: str) -> Any:
        found = look(session, raw, name)
        return found._replace(history=found.history._replace(**says))

    monkeypatch.setattr(postgres_session.AskedFor, "look", pretended)


@contextmanager
def opened(url: str, count: int) -> Iterator[list[perdure.Store]]:
    with ExitStack() as stack:
        yield [stack.enter_context(closing(perdure.open(url))) for _ in range(count)]


def test_a_store_says_of_which_history_it_is(postgres_store, sql):
    perdure.open(postgres_store).close()
    system = sql.execute("SELECT system_identifier FROM pg_control_system()").fetchone()[0]
    assert meta(sql) == {"epoch": "1", "server": f"{system}/1"}


def test_the_same_server_after_a_lost_connection_changes_nothing(postgres_store, sql):
    with perdure.open(postgres_store) as store:
        store.session("s").say("user", "one")
        hang_up(store)
        store.session("s").say("user", "two")
        assert core_of(store).epoch == 1
    assert meta(sql)["epoch"] == "1"


def test_of_many_who_reconnect_at_once_one_raises_the_epoch(postgres_store, sql, monkeypatch):
    with opened(postgres_store, 6) as stores:
        for number, store in enumerate(stores):
            store.session(f"s{number}").say("user", "before")
        pretend(monkeypatch, line=2)
        for store in stores:
            hang_up(store)
        threads = [
            threading.Thread(target=lambda at=at: stores[at].session(f"s{at}").say("user", "after"))
            for at in range(len(stores))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [core_of(store).epoch for store in stores] == [2] * 6
    assert meta(sql)["epoch"] == "2"
    assert meta(sql)["server"].endswith("/2")


def test_a_fresh_process_notices_by_what_the_store_says(postgres_store, sql, monkeypatch, caplog):
    perdure.open(postgres_store).close()
    pretend(monkeypatch, line=2)
    with caplog.at_level(logging.WARNING, "perdure.store"), perdure.open(postgres_store) as store:
        assert core_of(store).epoch == 2
    assert "may have lost" in caplog.text
    with perdure.open(postgres_store) as store:
        assert core_of(store).epoch == 2


def test_events_that_are_gone_are_noticed_on_the_same_time_line(postgres_store, sql):
    """A disk that was put back: the server says nothing of it. The process that knew better does, and the others hear of it."""
    with opened(postgres_store, 2) as (writer, other):
        other.session("o").say("user", "kept")
        writer.session("s").say("user", "kept")
        kept = sql.execute("SELECT seq, hash FROM streams WHERE name = 's'").fetchone()
        writer.session("s").say("user", "lost")
        with sql.transaction():
            sql.execute("SET LOCAL session_replication_role = replica")
            sql.execute("DELETE FROM turns WHERE (stream, seq) IN (SELECT id, seq FROM streams WHERE name = 's')")
            sql.execute("DELETE FROM events WHERE (stream, seq) IN (SELECT id, seq FROM streams WHERE name = 's')")
            sql.execute("UPDATE streams SET seq = %s, hash = %s WHERE name = 's'", kept)
        for store in (other, writer):
            hang_up(store)
        other.session("o").say("user", "nothing of mine is lost")
        assert core_of(other).epoch == 1
        writer.session("s").say("user", "after")
        assert core_of(writer).epoch == 2
        core_of(other).write(lambda tx: None, actor="me", tenant=0)
        other.beat()
        assert core_of(other).epoch == 2
        assert writer.verify().ok


def test_a_standby_for_which_commits_waited_takes_over_without_doubt(postgres_store, sql, monkeypatch):
    pretend(monkeypatch, synchronous=True)
    with perdure.open(postgres_store) as store:
        store.session("s").say("user", "one")
        pretend(monkeypatch, line=2, followed=True)
        hang_up(store)
        store.session("s").say("user", "two")
        assert core_of(store).epoch == 1
    assert meta(sql)["server"].endswith("/2")
    assert meta(sql)["epoch"] == "1"


@pytest.mark.parametrize("says", [{"followed": False}, {"followed": True, "system": "7"}])
def test_but_no_other_server_does(postgres_store, monkeypatch, says):
    """It came from a backup, or is of another system."""
    pretend(monkeypatch, synchronous=True)
    with perdure.open(postgres_store) as store:
        store.session("s").say("user", "one")
        pretend(monkeypatch, line=2, **says)
        hang_up(store)
        store.session("s").say("user", "two")
        assert core_of(store).epoch == 2


def test_a_server_that_was_replaced_is_not_used_again(postgres_store, monkeypatch):
    with perdure.open(postgres_store, timeout=0.5) as store:
        pretend(monkeypatch, line=3)
        hang_up(store)
        store.session("s").say("user", "on the new one")
        pretend(monkeypatch, line=1)
        hang_up(store)
        with pytest.raises(Unavailable, match="time line 1, and this process has seen 3"):
            store.session("s").say("user", "on the old one")
        with pytest.raises(Unavailable):
            store.session("s").turns()


def test_whoever_only_reads_changes_nothing(postgres_store, sql, monkeypatch, caplog):
    perdure.open(postgres_store).close()
    pretend(monkeypatch, line=2)
    with (
        caplog.at_level(logging.WARNING, "perdure.store"),
        perdure.open(postgres_store, read_only=True) as store,
    ):
        assert core_of(store).epoch == 1
    assert "another history" in caplog.text
    assert meta(sql)["server"].endswith("/1")


def test_a_standby_is_of_the_history_that_it_follows(postgres_store, monkeypatch, caplog):
    perdure.open(postgres_store).close()
    pretend(monkeypatch, line=None, recovers=True)
    with caplog.at_level(logging.WARNING), perdure.open(postgres_store, read_only=True) as store:
        assert core_of(store).epoch == 1
    assert not caplog.records


def test_a_role_that_may_not_ask_the_server_is_served_without(postgres_store, sql):
    """As on managed servers: then only those notice who ran through it."""
    parts = urlsplit(postgres_store)
    sql.execute("CREATE ROLE untold LOGIN SUPERUSER PASSWORD 'p'")
    try:
        sql.execute("REVOKE EXECUTE ON FUNCTION pg_walfile_name(pg_lsn) FROM PUBLIC")
        schema = parse(postgres_store).schema
        sql.execute("ALTER ROLE untold NOSUPERUSER")
        sql.execute(f"GRANT ALL ON SCHEMA {schema} TO untold")
        sql.execute(f"GRANT ALL ON ALL TABLES IN SCHEMA {schema} TO untold")
        sql.execute(f"GRANT ALL ON ALL SEQUENCES IN SCHEMA {schema} TO untold")
        url = postgres_store.replace(f"{parts.username}:{parts.password}@", "untold:p@")
        with perdure.open(url) as store:
            store.session("s").say("user", "one")
            hang_up(store)
            store.session("s").say("user", "two")
            assert core_of(store).engine.history_of(core_of(store).lane._connection) == History(None, None)
            assert core_of(store).epoch == 1
    finally:
        sql.execute("GRANT EXECUTE ON FUNCTION pg_walfile_name(pg_lsn) TO PUBLIC")
        sql.execute("DROP OWNED BY untold")
        sql.execute("DROP ROLE untold")


def test_an_effect_that_was_lost_is_not_taken_for_the_one_that_has_its_number(postgres_store, sql, monkeypatch):
    """What comes back from a call is said of the effect that was sent, and of no other."""

    def lose_and_take(what: str) -> str:
        stream, seq = sql.execute("SELECT stream, seq FROM effects WHERE key = 'mine'").fetchone()
        sql.execute("UPDATE effects SET key = 'theirs' WHERE stream = %s AND seq = %s", (stream, seq))
        pretend(monkeypatch, line=2)
        hang_up(store)
        return what

    with perdure.open(postgres_store) as store:
        with pytest.raises(Stale, match="look whether lose_and_take happened"):
            store.session("s").act(lose_and_take, "paid", key="mine")
        (found,) = store.effects()
        assert (found.key, found.state) == ("theirs", "dispatched")


def test_an_older_open_fails_as_the_database_does(postgres_store, monkeypatch):
    core = open_core(postgres_store)
    with closing(core):
        monkeypatch.setattr(
            core.engine, "look_back", lambda *_: (_ for _ in ()).throw(Fault(FaultKind.BROKEN, "no meta"))
        )
        pretend(monkeypatch, line=2)
        core.close_idle(0)
        core.lane._disconnect()
        with pytest.raises(perdure.Invalid, match="no meta"):
            core.write(lambda tx: None, actor="me", tenant=0)
