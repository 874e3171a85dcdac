"""Behind a pooler: the right store or none, whatever it drops of what was asked for (P1, P3, P9). decision 0037."""

from __future__ import annotations

from contextlib import closing
from typing import Any
from urllib.parse import quote, urlsplit

import pytest

import perdure
from perdure.errors import Refused
from perdure.stores import postgres_session, schema_upgrade
from perdure.stores.core import open_core
from perdure.stores.store import Fault
from perdure.stores.url import parse
from perdure.upkeep.findings import Severity
from perdure.upkeep.health import examine
from perdure_testing.faults import Cut, Proxy
from stores import pooler
from stores.pooler import pooled

psycopg = pytest.importorskip("psycopg")

pytestmark = [
    pytest.mark.usefixtures("new_connections"),
    pytest.mark.skipif(pooler.program() is None, reason=pooler.MISSING),
]

RESET = {"server_reset_query": "DISCARD ALL", "server_reset_query_always": "1"}
USUAL = [
    pytest.param({"pool_mode": mode, **settings}, id=f"{mode}-{name}")
    for mode in ("transaction", "session")
    for name, settings in {
        "plain": {},
        "ignoring": {"ignore_startup_parameters": "options,extra_float_digits"},
        "resetting": {"ignore_startup_parameters": "options", **RESET},
        "one": {"ignore_startup_parameters": "options", "default_pool_size": "1"} if mode == "transaction" else {},
        "preparing": {"ignore_startup_parameters": "options", "max_prepared_statements": "100"},
    }.items()
    if "max_prepared_statements" not in settings or (pooler.program() and pooler.version() >= (1, 21))
]


def tables(url: str, schema: str) -> int:
    with psycopg.connect(parse(url).conninfo) as connection:
        found = connection.execute("SELECT count(*) FROM pg_tables WHERE schemaname = %s", (schema,)).fetchone()
    assert found is not None
    return found[0]


def work(url: str) -> list[str]:
    """Make a store, or open it, and use what a store needs: turns, values, an effect, a search, a blob."""
    with perdure.open(url, timeout=30) as store:
        session = store.session("s")
        for number in range(8):  # more often than a driver needs to prepare a statement
            session.say("user", f"turn {number}")
        session.set("a", 1)
        session.attach("b", b"x" * 100_000)
        session.act(perdure.tool(kind="idempotent", name="ping")(lambda: "pong"), key="k")
        assert store.verify().ok
        return [turn.content for turn in session.turns(limit=100)]


@pytest.mark.parametrize("settings", USUAL)
def test_the_store_that_was_asked_for_is_made_and_opened(postgres_store, settings):
    before = tables(postgres_store, "public")
    with pooled(postgres_store, **settings) as url:
        said = work(url)
        assert said == [f"turn {number}" for number in range(8)]
    assert tables(postgres_store, "public") == before
    with perdure.open(postgres_store, read_only=True) as store:
        assert [turn.content for turn in store.session("s").turns(limit=100)] == said


def test_without_the_look_another_store_is_made_beside_it(postgres_store, monkeypatch):
    """The control: what was so before. Neither is compared, neither repaired."""
    look = postgres_session.AskedFor.look
    monkeypatch.setattr(postgres_session.AskedFor, "look", lambda *about: look(*about)._replace(direct=True))
    monkeypatch.setattr(schema_upgrade, "_check_schema", lambda *_: None)
    here = "postgresql://" + postgres_store.partition("://")[2]
    with psycopg.connect(parse(here).conninfo, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA IF NOT EXISTS beside")
        connection.execute("CREATE ROLE pooled LOGIN SUPERUSER PASSWORD 'p'")
        connection.execute("ALTER ROLE pooled SET search_path = beside")
        user = parse(here).conninfo.partition("://")[2].partition("@")[0]
        try:
            with pooled(
                here.replace(user, "pooled:p"), pool_mode="transaction", ignore_startup_parameters="options"
            ) as url:
                perdure.open(url).close()
            assert tables(here, "beside") > 0
        finally:
            connection.execute("DROP SCHEMA beside CASCADE")
            connection.execute("DROP ROLE pooled")


def test_what_another_client_left_behind_is_not_in_force(postgres_store):
    """In transaction mode a SET stays on the server connection for whoever comes next."""
    settings = {"pool_mode": "transaction", "ignore_startup_parameters": "options", "default_pool_size": "1"}
    with pooled(postgres_store, **settings) as url:
        work(url)
        with psycopg.connect(parse(url).conninfo, autocommit=True, prepare_threshold=None) as other:
            store = perdure.open(url)
            with closing(store):
                store.session("s").say("user", "before")
                other.execute("SET search_path = public")
                other.execute("SET statement_timeout = 1")
                other.execute("SET synchronous_commit = off")
                other.execute("SET default_transaction_read_only = on")
                store.session("s").say("user", "after")
                store.session("new").say("user", "as well")
                assert [turn.content for turn in store.session("s").turns(last=2)] == ["before", "after"]
    with perdure.open(postgres_store, read_only=True) as store:
        assert store.session("new").turns()[0].content == "as well"


def in_force(connection: Any, name: str) -> str:
    return connection._fetch(f"SHOW {name}", ())[0][0]


@pytest.mark.parametrize("mode", ["transaction", "session"])
def test_each_transaction_has_what_was_asked_for(postgres_store, mode):
    asked = quote("-c work_mem=5MB --seq-page-cost=2")
    with pooled(postgres_store, pool_mode=mode, ignore_startup_parameters="options") as url:
        core = open_core(f"{url}&options={asked}")
        with closing(core):
            engine: Any = core.engine
            with closing(engine.connect()) as lane, closing(engine.reader()) as reader:
                for connection in (lane, reader):
                    found = {name: in_force(connection, name) for name in ("statement_timeout", "lock_timeout", "work_mem",
                             "seq_page_cost", "synchronous_commit", "transaction_isolation", "client_encoding")}  # fmt: skip
                    assert found == {
                        "statement_timeout": "30s", "lock_timeout": "30s", "work_mem": "5MB", "seq_page_cost": "2",
                        "synchronous_commit": "on", "transaction_isolation": "read committed", "client_encoding": "UTF8",
                    }  # fmt: skip
                    assert connection.raw.info.transaction_status.name == "IDLE"


def test_a_pooler_without_transactions_is_refused_with_its_setting(postgres_store):
    with (
        pooled(postgres_store, pool_mode="statement", ignore_startup_parameters="options") as url,
        pytest.raises(Refused, match="pool_mode = transaction") as refused,
    ):
        perdure.open(url)
    assert refused.value.path == "store"
    assert tables(postgres_store, "public") == 0


def test_options_that_are_no_settings_are_refused_behind_a_pooler(postgres_store):
    with (
        pooled(postgres_store, pool_mode="session", ignore_startup_parameters="options") as url,
        pytest.raises(perdure.Invalid, match="pooler"),
    ):
        perdure.open(f"{url}&options={quote('-P')}")


@pytest.mark.parametrize("settings", [None, {"pool_mode": "transaction", "ignore_startup_parameters": "options"}])
def test_the_doctor_says_what_a_pooler_takes_away(postgres_store, settings):
    if settings is None:
        (found,) = [each for each in examine(postgres_store).findings if each.check == "pooler"]
        assert found.severity is Severity.OK
        return
    with pooled(postgres_store, **settings) as url:
        (found,) = [each for each in examine(url).findings if each.check == "pooler"]
    assert found.severity is Severity.WARNING
    for word in ("LISTEN", "prepared statements", "timeouts"):
        assert word in found.says


def test_a_worker_behind_a_pooler_hears_nothing_and_looks_by_itself(postgres_store):
    with pooled(postgres_store, pool_mode="transaction", ignore_startup_parameters="options") as url:
        core = open_core(url)
        engine: Any = core.engine
        with closing(core), pytest.raises(Fault, match="through a pooler"):
            engine.ears()


def test_a_commit_whose_reply_was_lost_behind_a_pooler_is_resolved(postgres_store):
    """The backend of a lost connection is found by its name, which each transaction brings."""
    cuts = [Cut.BEFORE, Cut.UNHEARD, Cut.REPLY, Cut.ENDED] * 3
    with pooled(postgres_store, pool_mode="transaction", ignore_startup_parameters="options") as url:
        parts = urlsplit(url)
        with Proxy(str(parts.hostname), int(parts.port or 0)) as proxy:
            through = url.replace(f":{parts.port}/", f":{proxy.port}/")
            with perdure.open(through) as store:
                session = store.session("s")
                session.say("user", "before")
                for number, how in enumerate(cuts):
                    proxy.cut(how, 1 if how is Cut.ENDED else 1 + number // 4)  # BEGIN, flush, COMMIT
                    session.say("user", f"turn {number}")
                proxy.cut(Cut.BEFORE, 0)
                said = [turn.content for turn in session.turns(limit=20)]
            assert said == ["before", *(f"turn {number}" for number in range(len(cuts)))]
            assert proxy.cuts == len(cuts)
