"""PostgreSQL: what a role, a database, a URL or the environment set is heard, but for what the store stands on (P1, P3, P9)."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any
from urllib.parse import quote, urlsplit

import pytest

import perdure
from perdure.errors import NotFound, Refused
from perdure.stores.core import open_core
from perdure.stores.url import parse

psycopg = pytest.importorskip("psycopg")

pytestmark = pytest.mark.usefixtures("new_connections")


@pytest.fixture
def admin(postgres_store) -> Iterator[Any]:
    with psycopg.connect(parse(postgres_store).conninfo, autocommit=True) as connection:
        yield connection


Role = Callable[..., str]


@pytest.fixture
def role(postgres_store, admin) -> Iterator[Role]:
    """Gives the store's URL for a new role, which has these settings."""
    made = []

    def make(*settings: str, kind: str = "SUPERUSER") -> str:
        name = f"r_{random.SystemRandom().getrandbits(48):x}"
        admin.execute(f"CREATE ROLE {name} LOGIN {kind} PASSWORD 'p'")
        made.append(name)
        for setting in settings:
            admin.execute(f"ALTER ROLE {name} SET {setting}")
        parts = urlsplit(postgres_store)
        return postgres_store.replace(f"{parts.username}:{parts.password}@", f"{name}:p@")

    yield make
    for name in made:
        admin.execute(f"DROP OWNED BY {name}")
        admin.execute(f"DROP ROLE {name}")


def shown(url: str, name: str) -> set[str]:
    """What a setting is on every kind of connection that a store makes."""
    core = open_core(url)
    try:
        engine: Any = core.engine
        with closing(engine.connect()) as lane, closing(engine.reader()) as reader, closing(engine.ears()) as ears:
            return {raw.execute(f"SHOW {name}").fetchone()[0] for raw in (lane.raw, reader.raw, ears._raw)}
    finally:
        core.close()


FIRM = [
    ("default_transaction_isolation = 'serializable'", "default_transaction_isolation", "read committed"),
    ("default_transaction_isolation = 'repeatable read'", "transaction_isolation", "read committed"),
    ("default_transaction_read_only = on", "transaction_read_only", "off"),
    ("synchronous_commit = off", "synchronous_commit", "on"),
    ("client_encoding = 'LATIN1'", "client_encoding", "UTF8"),
    ("client_encoding = 'SQL_ASCII'", "client_encoding", "UTF8"),
    ("statement_timeout = '1ms'", "statement_timeout", "30s"),
    ("lock_timeout = '1ms'", "lock_timeout", "30s"),
]


@pytest.mark.parametrize(("setting", "name", "value"), FIRM)
def test_what_the_store_stands_on_is_so_whatever_the_role_says(role, setting, name, value):
    assert shown(role(setting), name) == {value}


def test_a_transaction_takes_as_long_as_it_takes_whatever_the_role_says(role, admin):
    """A snapshot of a large store, or a migration, was ended by the server, and its caller was told that it was Invalid."""
    if admin.info.server_version < 170000:
        pytest.skip("PostgreSQL knows no transaction_timeout before 17")
    assert shown(role("transaction_timeout = '300ms'"), "transaction_timeout") == {"0"}


def test_the_environment_changes_nothing_of_it(postgres_store, monkeypatch):
    monkeypatch.setenv("PGCLIENTENCODING", "LATIN1")
    monkeypatch.setenv("PGOPTIONS", "-c statement_timeout=1 -c work_mem=7MB")
    assert shown(postgres_store, "client_encoding") == {"UTF8"}
    assert shown(postgres_store, "statement_timeout") == {"30s"}
    assert shown(postgres_store, "work_mem") == {"7MB"}


def test_options_of_the_url_are_heard(postgres_store):
    url = f"{postgres_store}&options={quote('-c work_mem=7MB -c statement_timeout=1')}"
    assert shown(url, "work_mem") == {"7MB"}
    assert shown(url, "statement_timeout") == {"30s"}


@pytest.mark.parametrize("encoding", ["LATIN1", "SQL_ASCII"])
def test_any_name_can_be_written_whatever_the_encoding_of_the_client(role, encoding):
    with perdure.open(role(f"client_encoding = '{encoding}'")) as store:
        store.session("日本é").say("user", "日本é")
        assert [each.name for each in store.sessions()] == ["日本é"]


def test_many_write_one_stream_and_nobody_hears_of_the_race_whatever_the_isolation(role):
    url = role("default_transaction_isolation = 'serializable'")
    stores = [perdure.open(url) for _ in range(4)]
    troubles: list[BaseException] = []
    stores[0].session("a")

    def write(store: Any) -> None:
        try:
            for _ in range(10):
                store.session("a").say("user", "x" * 9000)
        except BaseException as error:
            troubles.append(error)

    threads = [threading.Thread(target=write, args=(store,)) for store in stores]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for store in stores:
        store.close()
    assert troubles == []


# -- rights ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("read_only", [False, True])
def test_a_role_that_may_not_use_the_schema_is_told_so(role, read_only):
    """It sees no schema at all: it was told that there is no store yet, or that nothing was selected to create in."""
    with pytest.raises(Refused, match="may not use the schema") as caught:
        open_core(role(kind=""), read_only=read_only)
    assert caught.value.path == "store"
    assert "GRANT" in caught.value.hint


def test_what_a_role_may_not_do_names_the_rights_that_it_needs(role, admin, postgres_store):
    url, schema = role(kind=""), parse(postgres_store).schema
    name = urlsplit(url).username
    admin.execute(f"GRANT USAGE ON SCHEMA {schema} TO {name}")
    with pytest.raises(Refused, match="permission denied") as caught:
        open_core(url)
    assert "GRANT" in caught.value.hint
    admin.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {name}")
    with perdure.open(url, read_only=True) as store:
        assert not [*store.sessions()]
    with perdure.open(url) as store, pytest.raises(Refused, match="permission denied") as caught:
        store.session("a")
    assert "GRANT" in caught.value.hint


def test_with_the_rights_that_are_named_it_works(role, admin, postgres_store):
    url, schema = role(kind=""), parse(postgres_store).schema
    name = urlsplit(url).username
    admin.execute(f"GRANT USAGE ON SCHEMA {schema} TO {name}")
    admin.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {name}")
    admin.execute(f"GRANT USAGE ON ALL SEQUENCES IN SCHEMA {schema} TO {name}")
    with perdure.open(url) as store:
        store.session("a").say("user", "x" * 9000)
        assert store.verify().problems == []


def test_where_there_is_no_schema_there_is_no_store_yet(role, postgres_store):
    nowhere = role(kind="").replace(parse(postgres_store).schema, "nowhere")
    with pytest.raises(NotFound, match="no store yet"):
        open_core(nowhere, read_only=True)
    with pytest.raises(Refused, match="permission denied") as caught:
        open_core(nowhere)
    assert "GRANT" in caught.value.hint
