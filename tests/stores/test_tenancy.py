"""Tenants in the schema: every table that holds a tenant's rows says whose they are, and none stops another (P11)."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path
from typing import Any

import pytest

import perdure
from furnished import furnish
from perdure.interchange.move import move
from perdure.model.records.retention import Retention
from perdure.stores.job import Job
from perdure_files.merge import merge
from planes.tampering import Intruder
from stores.test_schema import BOTH, Schema, postgres_schema, sqlite_schema
from stores.verbs import append, begin, opened

# What belongs to the store: who it is, what it is made of, and its tenants themselves (each row is one).
OF_THE_STORE = {"meta", "tables", "tenants"}


@pytest.fixture
def schema(request: pytest.FixtureRequest) -> Any:
    with opened(request.getfixturevalue(request.param)) as store:
        raw = store.core.engine.connect().raw
        yield postgres_schema(raw) if request.param == "postgres_store" else sqlite_schema(raw)
        raw.close()


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/agent.db"


def without_tenant(schema: Schema) -> set[str]:
    return {name for name, columns in schema.columns.items() if "tenant" not in columns} - OF_THE_STORE


@BOTH
def test_every_table_that_holds_rows_of_a_tenant_says_whose(schema):
    assert without_tenant(schema) == set()


@BOTH
def test_control_a_table_without_one_is_found(schema):
    del schema.columns["turns"]["tenant"]
    assert without_tenant(schema) == {"turns"}


def test_views_show_what_the_reader_may_see(postgres_store):
    with opened(postgres_store) as store:
        raw = store.core.engine.connect().raw
        views = dict(
            raw.execute(
                "SELECT relname::text, reloptions FROM pg_class "
                "WHERE relkind = 'v' AND relnamespace = current_schema()::regnamespace"
            ).fetchall()
        )
        raw.close()
    assert len(views) > 15
    assert {name for name, options in views.items() if options != ["security_invoker=true"]} == set()


@pytest.mark.parametrize("table", ["turns", "entries", "checkpoints", "refs", "blob_refs", "calls", "task_needs"])
def test_a_row_that_was_given_to_another_tenant_shows(tmp_path, table):
    url = f"sqlite:///{tmp_path}/a.db"
    with perdure.open(url) as store:
        furnish(store)
        assert store.verify().ok
    Intruder(url).run(f"UPDATE {table} SET tenant = 7")
    with perdure.open(url) as store:
        assert table in {problem.table for problem in store.verify().problems}


# -- one chain in two tenants ----------------------------------------------------------------------------------------------------


@pytest.fixture(params=["sqlite", "postgres", "files"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        return request.getfixturevalue("postgres_store")
    return f"sqlite:///{tmp_path}/two.db" if request.param == "sqlite" else f"files:///{tmp_path}/two"


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    with perdure.open(f"sqlite:///{tmp_path}/source.db", actor="alice") as source:
        session = source.session("a")
        for n in range(4):
            session.say("user", f"turn {n}")
        session.fork(name="b").say("user", "apart")
        source.export(tmp_path / "x.perdure", ["a", "b"])
    return tmp_path / "x.perdure"


def said(store: Any, name: str) -> list[Any]:
    return [turn.content for turn in store.session(name).turns()]


def test_two_tenants_import_the_same_bundle(url, bundle, tmp_path):
    for tenant in ("one", "two"):
        with perdure.open(url, tenant=tenant) as store:
            assert store.import_(bundle).added > 0
            assert store.import_(bundle).added == 0
            store.session("a").say("user", f"of {tenant}")
            store.session("b").say("user", f"fork of {tenant}")
    if url.startswith("files:"):
        shutil.rmtree(tmp_path / "two" / ".perdure")  # the cache: its lines alone must tell the two apart
    with perdure.open(url, tenant="one") as one, perdure.open(url, tenant="two") as two:
        for name, store in (("one", one), ("two", two)):
            assert said(store, "a") == [*(f"turn {n}" for n in range(4)), f"of {name}"]
            assert said(store, "b")[-2:] == ["apart", f"fork of {name}"]
        anchor = one.anchor()
        report = one.verify(anchor=anchor)
        assert report.ok, report.problems
        assert report.unnamed == []


def test_what_two_tenants_have_moves_and_is_merged_as_two(bundle, tmp_path):
    url, target = f"files:///{tmp_path}/two", f"sqlite:///{tmp_path}/moved.db"
    for tenant in ("one", "two"):
        with perdure.open(url, tenant=tenant) as store:
            store.import_(bundle)
    shutil.copytree(tmp_path / "two", tmp_path / "clone", ignore=shutil.ignore_patterns(".perdure"))
    for tenant in ("one", "two"):
        with perdure.open(f"files:///{tmp_path}/clone", tenant=tenant) as store:
            store.session("a").say("user", f"in the clone, {tenant}")
    merge(url, str(tmp_path / "clone"))
    move(url, target, actor="me")
    for tenant in ("one", "two"):
        with perdure.open(target, tenant=tenant) as store:
            assert said(store, "a")[-1] == f"in the clone, {tenant}"
            assert store.verify().ok


# -- one commit of two tenants ---------------------------------------------------------------------------------------------------


def test_jobs_of_two_tenants_in_one_batch_have_nothing_of_each_other(url):
    """A batch holds what its jobs wrote before it reaches the database: the wall stands there, too."""
    kept = b"of the first one alone"

    def look(tx: Any) -> tuple[bool, int, set[bytes]]:
        stream = begin(tx, "a")
        return stream.tenant == tx.tenant, append(tx, stream, "x"), tx.known([hashlib.sha256(kept).digest()])

    with opened(url) as store:
        tenants = store.tenant, store.core.tenant_id("other")
        keep, *looks = (Job(verb, (), {}, "me", each) for verb, each in ((lambda tx: tx.keep(kept), tenants[0]),
                                                                         (look, tenants[0]), (look, tenants[1])))  # fmt: skip
        store.core.lane._attempt([keep, *looks])
        assert keep.result == hashlib.sha256(kept).hexdigest()
        assert [job.result for job in looks] == [(True, 2, {hashlib.sha256(kept).digest()}), (True, 2, set())]


# -- nobody waits for another tenant ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("same", [False, True], ids=["another tenant", "control: the same tenant"])
def test_a_collection_or_a_prune_stops_only_its_own_tenant(postgres_store, same):
    with (
        perdure.open(postgres_store, tenant="one") as first,
        perdure.open(postgres_store, tenant="two", timeout=2.0) as second,
    ):
        first.session("s").say("user", "x" * 100)
        second.session("s").say("user", "y")
        connection = first._caller.core.engine.connect()
        connection.begin()
        tenant = second._caller.tenant if same else first._caller.tenant
        connection.claim_blobs(tenant)
        connection.raw.execute("INSERT INTO pruning (tenant) VALUES (%s)", (tenant,))
        try:
            if same:
                with pytest.raises(perdure.errors.Error):
                    second.session("s").set("large", "z" * 20_000)
            else:
                second.session("s").set("large", "z" * 20_000)
                second.session("s").close()
                assert second.retain(Retention(sessions=True), dry_run=False).streams
        finally:
            connection.rollback()
            connection.close()
