"""Schemas that are handed out again are as new: no row stays, and none that somebody changed is handed out."""

from __future__ import annotations

import contextlib
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

import perdure
from perdure_testing.postgres import PostgresAddress
from schemas import Schema, Schemas

psycopg = pytest.importorskip("psycopg")

CHANGES = [
    "ALTER TABLE events DISABLE TRIGGER events_guard",
    "CREATE OR REPLACE FUNCTION events_guard() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'",
    "ALTER TABLE turns ADD COLUMN extra TEXT",
    "ALTER TABLE turns ALTER COLUMN role DROP NOT NULL",
    "CREATE TABLE own (n int)",
    "DROP VIEW v_turns",
    "DROP INDEX turns_of_system",
    "ALTER TABLE tenants ADD CONSTRAINT short CHECK (length(name) < 10)",
]


@pytest.fixture(scope="module")
def own(postgres_server: PostgresAddress):
    """Schemas that no test of another module uses."""
    with Schemas.on(postgres_server) as schemas:
        yield schemas


def schema_of(url: str) -> str:
    return parse_qs(urlsplit(url).query)["schema"][0]


def ask(url: str, text: str) -> Any:
    with psycopg.connect(
        url.partition("?")[0], autocommit=True, options=f"-c search_path={schema_of(url)}"
    ) as connection:
        ran = connection.execute(text)
        return ran.fetchall() if ran.description else None


def is_there(url: str, asked: str) -> bool:
    return bool(ask(asked, f"SELECT 1 FROM pg_database WHERE datname = '{urlsplit(url).path[1:]}'"))


RELATIONS = (
    "SELECT relname, relkind FROM pg_class WHERE relkind IN ('r', 'S') AND relnamespace = current_schema::regnamespace"
)


def content(url: str) -> dict[str, Any]:
    """Everything but who it is."""
    columns = {"r": "*", "S": "last_value, is_called"}
    found = {
        name: sorted(map(str, ask(url, f"SELECT {columns[kind]} FROM {name}"))) for name, kind in ask(url, RELATIONS)
    }
    return found | {"meta": sorted(ask(url, "SELECT name FROM meta"))}


def test_the_next_one_gets_a_new_store(own: Schemas) -> None:
    with own.store() as first:
        new, uid = content(first), ask(first, "SELECT value FROM meta WHERE name = 'uid'")
        with perdure.open(first) as store:
            store.session("s").say("user", "x" * 20_000)
        assert content(first) != new  # the control: it would show
    with own.store() as second:
        assert second == first
        assert content(second) == new
        assert ask(second, "SELECT value FROM meta WHERE name = 'uid'") != uid
        with perdure.open(second) as store:
            assert [*store.sessions()] == []
            assert store.verify().ok


def test_an_image_comes_back_exactly(own: Schemas) -> None:
    def write(url: str) -> None:
        with perdure.open(url) as store:
            store.session("s").say("user", "hello")
        seen.append(content(url))

    seen: list[dict[str, Any]] = []
    image = own.image(write)
    for _ in range(2):
        with own.store(image) as url:
            assert content(url) == seen[0]
            with perdure.open(url) as store:
                assert store.verify().ok
                store.session("s").say("user", "more")


@pytest.mark.parametrize("change", CHANGES)
def test_one_that_was_changed_is_handed_out_no_more(own: Schemas, change: str) -> None:
    with own.store() as first:
        ask(first, change)
    with own.store() as second:
        assert second != first
    assert not is_there(first, second)
    assert is_there(second, second)  # the control


def test_control_without_a_look_at_the_catalogue_it_is_handed_out_again(own: Schemas, monkeypatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(Schema, "is_worn", lambda _: False)
        with own.store() as first:
            ask(first, CHANGES[0])
    with own.store() as second:
        assert second == first


def test_two_at_once_are_two(own: Schemas) -> None:
    with own.store() as first, own.store() as second:
        assert first != second


def test_one_that_was_used_often_goes(own: Schemas, monkeypatch) -> None:
    with own.store() as first:
        pass
    with own.store() as second:
        assert second == first  # the control
        monkeypatch.setattr("schemas.USES_MAX", 1)
    with own.store() as third:
        assert third != first


def test_who_is_still_connected_shows(own: Schemas, monkeypatch) -> None:
    monkeypatch.setattr("schemas.PATIENCE_SECONDS", 0)
    with contextlib.ExitStack() as left, pytest.raises(psycopg.errors.ObjectInUse), own.store() as first:
        left.enter_context(psycopg.connect(first.partition("?")[0]))
    with own.store() as second:
        assert second != first


def test_who_is_about_to_go_is_waited_for(own: Schemas, monkeypatch) -> None:
    with contextlib.ExitStack() as going:
        with own.store() as first:
            going.enter_context(psycopg.connect(first.partition("?")[0]))
            monkeypatch.setattr("schemas.time.sleep", lambda _: going.close())
        with own.store() as second:
            assert second == first
