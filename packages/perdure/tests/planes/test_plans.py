"""Query plans: statements of checkpoints, artifacts and collection look things up, they do not scan (P8)."""

from __future__ import annotations

import re

import apsw
import psycopg
import pytest

from perdure.handles.opening import open as open_store
from perdure.planes.audit import history as times
from perdure.planes.conversation import artifacts, feed, sessions
from perdure.planes.execution import decisions, tasks
from perdure.planes.memory import across, values
from perdure.planes.recovery import checkpoints
from perdure.planes.retention import collect
from perdure.stores.url import parse


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    path = tmp_path_factory.mktemp("plans") / "a.db"
    with open_store(f"sqlite:///{path}") as store:
        store.session("a").checkpoint(1)
    connection = apsw.Connection(str(path))
    yield connection
    connection.close()


def plan_of(database, statement, given=()):
    params = dict.fromkeys(re.findall(r":(\w+)", statement.source), 1)
    params |= {"addresses": "[]", **dict.fromkeys(given, 1)}
    optional = set(re.findall(r"\w+", " ".join(re.findall(r"--\? ([\w ]+)", statement.source)))) - set(given)
    text = statement.text("sqlite", {name: value for name, value in params.items() if name not in optional})
    return [row[3] for row in database.execute(f"EXPLAIN QUERY PLAN {text}", params)]


@pytest.mark.parametrize(
    ("statement", "given", "expected"),
    [
        (checkpoints.Q.checkpoint_last, (), "checkpoints_by_name (stream=? AND name=? AND seq>? AND seq<?)"),
        (checkpoints.Q.checkpoints_page, (), "PRIMARY KEY (stream=? AND seq>? AND seq<?)"),
        (checkpoints.Q.forks_of, (), "streams_by_parent (parent=?)"),
        (artifacts.Q.artifacts_page, (), "PRIMARY KEY (stream=? AND seq>? AND seq<?)"),
        (
            artifacts.Q.artifacts_page,
            ("name",),
            "artifacts_by_name (stream=? AND name=? AND seq>? AND seq<?)",
        ),
        (
            checkpoints.Q.checkpoints_page,
            ("name",),
            "checkpoints_by_name (stream=? AND name=? AND seq>? AND seq<?)",
        ),
        (artifacts.Q.artifacts_across, (), "artifacts_by_time (tenant=?"),
        (artifacts.Q.artifacts_across, ("media_type",), "artifacts_by_type (tenant=? AND media_type=?"),
        (artifacts.Q.artifacts_across, ("last_at",), "artifacts_by_time (tenant=? AND (at,stream,seq)<"),
        (artifacts.Q.artifact_by_address, (), "artifacts_by_address (tenant=? AND address=?)"),
        (collect.Q.roots_since, (), "SEARCH e USING INTEGER PRIMARY KEY (rowid>?)"),
        (collect.Q.blobs_unreferenced, (), "SEARCH b USING INTEGER PRIMARY KEY (rowid>?)"),
        (collect.Q.blobs_unreferenced, (), "SEARCH r USING COVERING INDEX blob_refs_by_address (address=?)"),
        (collect.Q.blobs_needed, (), "blob_refs_by_address (address=?)"),
        (feed.Q.feed_after, (), "SEARCH events USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"),
        (checkpoints.Q.saves_emptied, (), "events_emptied_bodies (stream=? AND seq>? AND seq<?)"),
        (tasks.Q.tasks_of_session, ("label",), "SEARCH g USING PRIMARY KEY (stream=? AND thing=? AND tag=?)"),
        (tasks.Q.tasks_ready, ("label",), "tags_open (stream=? AND tag=? AND priority>?)"),
        (tasks.Q.tasks_ready, ("label", "abandoned"), "tags_open (stream=? AND tag=? AND priority>?)"),
        (tasks.Q.tasks_ready, (), "SEARCH t USING INDEX tasks_open (stream=? AND status=?)"),
        (tasks.Q.task_by_key, (), "tasks_by_key (stream=? AND key=?)"),
        (artifacts.Q.addresses_between, (), "artifacts_by_address (tenant=? AND address>? AND address<?)"),
        (times.Q.events_emptied, (), "events_emptied_bodies (stream=? AND seq<?)"),
        (tasks.Q.tasks_of_store, ("label",), "tags_by_tag (tenant=? AND thing=? AND tag=?)"),
        (
            tasks.Q.tasks_of_store,
            ("label", "after_at"),
            "tags_by_tag (tenant=? AND thing=? AND tag=? AND (at,stream,id)<(?,?,?))",
        ),
        (decisions.Q.decisions_of_session, ("tag",), "SEARCH g USING PRIMARY KEY (stream=? AND thing=? AND tag=?)"),
        (decisions.Q.decisions_of_store, ("tag",), "tags_by_tag (tenant=? AND thing=? AND tag=?)"),
        (sessions.Q.sessions_page, ("label",), "tags_by_tag (tenant=? AND thing=? AND tag=?)"),
        (
            sessions.Q.sessions_page,
            ("label", "at", "id"),
            "tags_by_tag (tenant=? AND thing=? AND tag=? AND (at,stream)<(?,?))",
        ),
        (across.Q.scopes_below, (), "(tenant=? AND kind=? AND name>? AND name<?)"),
        (across.Q.scopes_below, ("after",), "(tenant=? AND kind=? AND name>? AND name<?)"),
        (across.Q.values_below, (), "(tenant=? AND kind=? AND name>? AND name<?)"),
        (across.Q.values_below, (), "SEARCH e USING PRIMARY KEY (stream=?)"),
        (across.Q.values_ended, (), "SEARCH e USING PRIMARY KEY (stream=?)"),
    ],
)
def test_a_statement_uses_its_index(database, statement, given, expected):
    plan = plan_of(database, statement, given)
    assert any(expected in step for step in plan), plan
    assert not any(re.match(r"SCAN (streams|events|blobs|blob_refs|checkpoints|artifacts)\b", step) for step in plan)


@pytest.mark.parametrize(
    ("statement", "given"),
    [
        (tasks.Q.tasks_of_session, ("label",)),
        (tasks.Q.tasks_ready, ()),
        (tasks.Q.tasks_ready, ("label",)),
        (tasks.Q.tasks_ready, ("label", "abandoned")),
        (artifacts.Q.addresses_between, ()),
        (tasks.Q.tasks_of_store, ("label", "after_at")),
        (decisions.Q.decisions_of_session, ("tag",)),
        (decisions.Q.decisions_of_store, ("tag", "after_at")),
        (sessions.Q.sessions_page, ("label", "at", "id")),
        (feed.Q.feed_after, ()),
        (across.Q.scopes_below, ("after",)),
    ],
)
def test_a_page_comes_in_its_order_without_sorting(database, statement, given):
    plan = plan_of(database, statement, given)
    chosen_before = any(step.startswith("CO-ROUTINE") for step in plan)  # then only the page itself is sorted, once
    sorts = [step for step in plan if "TEMP B-TREE FOR ORDER" in step]  # terms that add nothing are no sort
    assert len(sorts) <= chosen_before, plan


@pytest.fixture
def crowded(postgres_store):
    """Many sessions with tasks, decisions and values; one label is rare."""
    stream = filled(postgres_store)
    address = parse(postgres_store)
    options = f"-c search_path={address.schema}"
    with psycopg.connect(address.conninfo, autocommit=True, options=options) as connection:
        connection.execute("ANALYZE")
        yield connection, stream


def filled(url):
    with open_store(url) as store:

        def fill(tx):
            for number in range(1000):
                session = tx.session(f"s{number}", labels=["common", *(["rare"] if number == 3 else [])])
                session.task("t", labels=["common", *(["rare"] if number == 3 else [])])
                session.decide("d", because="b", tags=["common", *(["rare"] if number == 3 else [])])
            for number in range(600):
                tx.session("s0").set(f"k{number:04}", number)
                tx.scope(f"tree/{number:04}").set("k", number)

        store.atomic(fill)
        return store.session("s0")._stream


POSTGRES = [
    (sessions.Q.sessions_page, {"label": "rare", "current": 1}, "tags_by_tag"),
    (tasks.Q.tasks_of_store, {"label": "rare"}, "tags_by_tag"),
    (decisions.Q.decisions_of_store, {"tag": "rare"}, "tags_by_tag"),
    (values.Q.entries_page, {"after": "k0300"}, "entries_pkey"),
    (across.Q.scopes_below, {"first": "tree/0300", "below": "tree/0300.", "beyond": "tree/0300/"}, "scopes_by_name"),
    (across.Q.values_below, {"first": "tree/0300", "below": "tree/0300.", "beyond": "tree/0300/"}, "scopes_by_name"),
]


def test_postgres_looks_things_up_too(crowded):
    connection, stream = crowded
    for statement, given, index in POSTGRES:
        own = {} if statement is across.Q.values_below else {"stream": stream.id}
        params = {"tenant": stream.tenant, **own, "limit": 10, "now": None, **given}
        plan = [row[0] for row in connection.execute(f"EXPLAIN {statement.text('postgres', params)}", params)]
        assert any(index in step for step in plan), plan
        assert not any(re.search(r"Seq Scan on (sessions|tasks|decisions|entries)", step) for step in plan), plan
        if index == "entries_pkey":
            assert not any("Sort" in step for step in plan), plan


@pytest.mark.parametrize("queries", [artifacts.Q, checkpoints.Q, collect.Q])
def test_every_named_statement_is_one(database, queries):
    for statement in queries:
        assert plan_of(database, statement)
