"""A connection that is kept for the next store is as new, and only who asked for it has it."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from kept import KEPT
from perdure.stores.postgres import PostgresConnection, PostgresEngine
from perdure.stores.url import parse

STATE = """
SELECT current_setting('statement_timeout'), current_setting('search_path'),
  (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()),
  (SELECT count(*) FROM pg_prepared_statements), (SELECT count(*) FROM pg_listening_channels())"""
TRACES = """
SET statement_timeout = '7s'; SET search_path = pg_catalog; SELECT pg_advisory_lock(5); PREPARE one AS SELECT 1;
LISTEN news; NOTIFY news"""


@pytest.fixture
def engine(postgres_store: str) -> PostgresEngine:
    """Of a store that another test may have had before; what that left is not kept."""
    KEPT.forget(parse(postgres_store).conninfo)
    return engine_of(postgres_store)


def engine_of(url: str, timeout_seconds: float = 30.0) -> PostgresEngine:
    address = parse(url)
    return PostgresEngine(url, address.conninfo, address.schema, timeout_seconds)


def closed(connection: PostgresConnection) -> int:
    """Close it; returns which process of the server it had."""
    pid = pid_of(connection)
    connection.close()
    return pid


def pid_of(connection: PostgresConnection) -> int:
    return connection.raw.info.backend_pid


def ask(connection: PostgresConnection, text: str) -> Any:
    return connection.raw.execute(text).fetchone()


def test_the_next_one_gets_it_by_a_name_of_its_own(engine: PostgresEngine) -> None:
    first = engine.connect()
    name = ask(first, "SHOW application_name")
    pid = closed(first)
    second = engine.connect()
    assert ask(second, "SHOW application_name") != name
    assert closed(second) == pid


def test_control_it_is_not_kept_for_who_asks_for_another_store(postgres_url: str) -> None:
    engine = engine_of(postgres_url)
    assert closed(engine.connect()) != closed(engine.connect())


def test_who_wants_new_ones_gets_them(engine: PostgresEngine, new_connections: None) -> None:
    assert closed(engine.connect()) != closed(engine.connect())


def test_nothing_stays_of_what_was_done_on_it(engine: PostgresEngine) -> None:
    first = engine.connect()
    new = ask(first, STATE)
    first.raw.execute(TRACES)
    assert all(one != other for one, other in zip(ask(first, STATE), new, strict=True))  # the control: it would show
    pid = closed(first)
    second = engine.connect()
    assert pid_of(second) == pid
    assert ask(second, STATE) == new
    assert [*second.raw.notifies(timeout=0)] == []
    second.close()


def test_who_closed_it_has_it_no_more(engine: PostgresEngine) -> None:
    first = engine.connect()
    first.close()
    second = engine.connect()
    assert first.raw.closed
    with pytest.raises(psycopg.OperationalError, match="closed"):
        first.raw.execute("SELECT 1")
    first.close()
    assert ask(second, "SELECT 1") == (1,)
    second.close()


def test_two_at_once_have_two(engine: PostgresEngine) -> None:
    first, second = engine.connect(), engine.connect()
    assert closed(first) != closed(second)


def test_one_with_other_settings_is_another(engine: PostgresEngine) -> None:
    pid = closed(engine.connect())
    assert closed(engine_of(engine.url, 20).connect()) != pid


def test_one_that_is_in_the_middle_of_something_is_closed(engine: PostgresEngine) -> None:
    first = engine.connect()
    first.raw.execute("BEGIN")
    pid = closed(first)
    assert closed(engine.reader()) != pid


def test_one_that_died_is_not_handed_out(engine: PostgresEngine) -> None:
    first, admin = engine.connect(), engine.connect()
    pid = closed(first)
    assert ask(admin, f"SELECT pg_terminate_backend({pid}, 5000)") == (True,)
    second = engine.connect()
    assert pid_of(second) != pid
    assert ask(second, "SELECT 1") == (1,)
    admin.close()
    second.close()


def test_not_more_are_kept_than_a_server_has_room_for(engine: PostgresEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kept.IDLE_MAX", 0)
    assert closed(engine.connect()) != closed(engine.connect())
