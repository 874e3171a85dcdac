"""The wall around tenants inside PostgreSQL: what it lets through, and that every brick that is taken out is noticed (P11)."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from click.testing import CliRunner
from starlette.testclient import TestClient

import perdure
from doors.http.serving_kit import bearer, make_token
from perdure.cli.main import cli
from perdure.stores.postgres_wall import SETTING, WallState, check_wall, look, names_tenants
from perdure.upkeep import health
from perdure_server.http.app import make_app
from perdure_server.http.serving import Serving
from stores.walled_store import SCHEMA, walled

__all__ = ["walled"]


def test_the_application_works_behind_the_wall(walled) -> None:
    with perdure.open(walled.app, tenant="acme") as acme, perdure.open(walled.app, tenant="globex") as globex:
        session = acme.session("s")
        session.say("user", "another one", key="k")
        session.set("branch", "x" * 20_000)  # a blob
        session.task("t").claim("1h")
        session.remember("Tests run with make test")
        effect = session.begin("mail", {"a": 1}, key="e")
        effect.dispatch()
        effect.commit({"sent": True})
        assert acme.atomic(lambda tx: (tx.session("s").decide("A", because="b").seq, tx.session("n").name))[1] == "n"
        assert [hit.memory.text for hit in session.recall("how do tests run?")] == ["Tests run with make test"]
        assert [each.content for each in globex.session("s").turns()] == ["a secret of globex"]
        assert acme.query("SELECT count(*) AS n FROM v_turns") == [{"n": 2}]
        assert len(acme.feed(limit=1000)) > len(globex.feed(limit=1000))
        forked = session.fork(name="f")
        assert [turn.content for turn in forked.turns()] == ["a secret of acme", "another one"]
    with perdure.open(walled.keeper, tenant="acme") as store:
        assert store.verify().ok


def test_a_new_tenant_is_made_behind_the_wall(walled) -> None:
    with perdure.open(walled.app, tenant="third") as store:
        store.session("s").say("user", "hello")
    with perdure.open(walled.app, tenant="third", read_only=True) as store:
        assert len(store.session("s").turns()) == 1


def test_a_lost_connection_is_no_lost_history(walled) -> None:
    with perdure.open(walled.app, tenant="acme") as store:
        session = store.session("s")
        epoch = store._caller.core.epoch
        for number in range(3):
            session.say("user", f"{number}")
            with walled.connect(walled.root) as raw:
                raw.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = %s", (walled.roles.app,)
                )
        assert [turn.content for turn in session.turns(last=3)] == ["0", "1", "2"]
        assert store._caller.core.epoch == epoch


def test_sql_of_a_server_sees_the_tenants_that_its_transaction_names(walled) -> None:
    with walled.connect(walled.app) as raw:
        ids = dict(raw.execute("SELECT name, id FROM tenants").fetchall())
        assert raw.execute("SELECT count(*) FROM events").fetchone() == (0,)
        assert raw.execute("SELECT count(*) FROM v_events").fetchone() == (0,)
        with raw.transaction():
            raw.execute(names_tenants([ids["acme"]]))
            assert raw.execute("SELECT DISTINCT tenant FROM events").fetchall() == [(ids["acme"],)]
            assert raw.execute("SELECT count(*) FROM v_turns").fetchone() == (1,)
        assert raw.execute("SELECT count(*) FROM events").fetchone() == (0,)  # it is over, and so is the name
        raw.execute(f"BEGIN; {names_tenants([ids['acme']])}")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            raw.execute("INSERT INTO pruning (tenant) VALUES (%s)", (ids["globex"],))


def test_a_forgotten_predicate_in_a_read_shows_nothing_of_others(walled) -> None:
    with perdure.open(walled.app, tenant="acme") as store:
        found = store._caller.read(lambda reads: reads.connection._fetch("SELECT name, tenant FROM streams", ()))
        assert {tenant for _, tenant in found} == {store._caller.tenant}
    with perdure.open(walled.root, tenant="acme") as store:  # the control: without the wall it shows
        found = store._caller.read(lambda reads: reads.connection._fetch("SELECT name, tenant FROM streams", ()))
        assert len({tenant for _, tenant in found}) > 1


def test_the_wall_stands_for_the_application_alone(walled) -> None:
    assert walled.look(walled.app) == WallState(walled.roles.app, raised=True, gaps=[], sees_through=[])
    check_wall(walled.look(walled.app))
    for url, says in ((walled.root, "is a superuser"), (walled.keeper, "bypasses")):
        with pytest.raises(perdure.Refused, match=says):
            check_wall(walled.look(url))


def test_a_store_without_a_wall_is_said_to_have_none(postgres_store) -> None:
    with psycopg.connect(postgres_store.partition("?")[0], autocommit=True) as raw:
        with pytest.raises(perdure.Refused, match="is a superuser"):
            check_wall(look(raw, SCHEMA))
    with perdure.open(postgres_store) as store:
        assert not store._caller.read(lambda reads: reads.connection.walled)


BRICKS = {
    "a policy is gone": f"DROP POLICY perdure_tenant ON {SCHEMA}.turns",
    "the wall is off": f"ALTER TABLE {SCHEMA}.entries DISABLE ROW LEVEL SECURITY",
    "it is not forced": f"ALTER TABLE {SCHEMA}.effects NO FORCE ROW LEVEL SECURITY",
    "a view reads as its owner": f"ALTER VIEW {SCHEMA}.v_turns SET (security_invoker = false)",
    "a policy lets everything through": f"ALTER POLICY perdure_tenant ON {SCHEMA}.turns USING (true)",
    "a policy takes every write": f"ALTER POLICY perdure_tenant ON {SCHEMA}.turns WITH CHECK (true)",
    "another policy stands beside it": f"CREATE POLICY more ON {SCHEMA}.turns USING (true)",
    "a role was made owner": "GRANT {owner} TO {app}",
    "a role bypasses": "ALTER ROLE {app} BYPASSRLS",
    "a role is superuser": "ALTER ROLE {app} SUPERUSER",
}


@pytest.mark.parametrize("brick", BRICKS)
def test_each_brick_that_is_taken_out_is_noticed(walled, brick) -> None:
    with walled.connect(walled.root) as raw:
        raw.execute(BRICKS[brick].format(owner=walled.roles.owner, app=walled.roles.app))
    with pytest.raises(perdure.Refused, match="not walled off"):
        check_wall(walled.look(walled.app))


def test_every_table_with_a_tenant_has_its_policy(walled) -> None:
    with walled.connect(walled.root) as raw:
        tables = [name for (name,) in raw.execute(
            "SELECT table_name FROM information_schema.columns WHERE table_schema = %s AND column_name = 'tenant'"
            " AND table_name IN (SELECT tablename FROM pg_tables WHERE schemaname = %s)", (SCHEMA, SCHEMA)
        ).fetchall()]  # fmt: skip
        assert len(tables) > 25
        for table in tables:
            with raw.transaction(force_rollback=True):
                raw.execute(f"ALTER TABLE {SCHEMA}.{table} NO FORCE ROW LEVEL SECURITY")
                assert any(table in gap for gap in look(raw, SCHEMA).gaps), table
            with raw.transaction(force_rollback=True):
                raw.execute(f"DROP POLICY perdure_tenant ON {SCHEMA}.{table}")
                assert any(table in gap for gap in look(raw, SCHEMA).gaps), table


def test_control_a_session_that_keeps_its_tenant_is_what_we_never_do(walled) -> None:
    """Set for the session, the name would stay for whoever gets the connection next."""
    with walled.connect(walled.app) as raw:
        ids = dict(raw.execute("SELECT name, id FROM tenants").fetchall())
        raw.execute("SELECT set_config(%s, %s, false)", (SETTING, str(ids["acme"])))
        assert raw.execute("SELECT count(*) > 0 FROM events").fetchone() == (True,)
    assert ", true)" in names_tenants([1])
    with perdure.open(walled.app, tenant="acme") as store:
        store.session("s").say("user", "x")
        left = store._caller.read(lambda reads: reads.connection.raw.execute(
            "SELECT nullif(current_setting('perdure.tenants', true), '')").fetchone())  # fmt: skip
        assert left == (None,)


def test_doctor_tells_of_the_wall(walled) -> None:
    def told(url: str) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for each in health.examine(url).findings:
            if each.check == "tenants":
                found.setdefault(each.severity, []).append(each.says)
        return found

    assert told(walled.app) == {"ok": ["row-level security walls tenants off, and holds for this role"]}
    assert [*told(walled.keeper)] == ["warning"]
    with walled.connect(walled.root) as raw:
        raw.execute(BRICKS["it is not forced"])
    assert told(walled.app) == {"error": ["row-level security is not forced for effects"]}


def test_serve_refuses_a_role_that_sees_through(walled, postgres_store) -> None:
    ran = CliRunner().invoke(cli, ["serve", "--store", postgres_store])
    assert (ran.exit_code, "is a superuser" in ran.stderr) == (7, True)
    ran = CliRunner().invoke(cli, ["serve", "--store", walled.keeper])
    assert (ran.exit_code, "bypasses" in ran.stderr) == (7, True)


def test_only_postgresql_has_roles(tmp_path) -> None:
    with perdure.open(f"sqlite:///{tmp_path}/a.db"):
        pass
    ran = CliRunner().invoke(cli, ["migrate", "--roles", "--store", f"sqlite:///{tmp_path}/a.db"])
    assert (ran.exit_code, "only PostgreSQL" in ran.stderr) == (2, True)


def test_a_server_behind_the_wall_serves_many_tenants(walled) -> None:
    texts = {name: make_token(walled.app, name, "writer") for name in ("acme", "globex")}
    with TestClient(make_app(Serving(walled.app)), raise_server_exceptions=False) as http:
        with ThreadPoolExecutor(8) as threads:
            asked = [("acme", "globex")[number % 2] for number in range(40)]
            answers = threads.map(
                lambda name: (
                    http.post(
                        "/v1/sessions/s/turns", json={"role": "user", "content": name}, headers=bearer(texts[name])
                    ).status_code
                ),
                asked,
            )
            assert {*answers} == {201}
        for name in texts:
            turns = http.get("/v1/sessions/s/turns", headers=bearer(texts[name])).json()["items"]
            assert {turn["content"] for turn in turns} == {name, f"a secret of {name}"}
            assert len(turns) == 21
