"""Query plans: statements of checkpoints, artifacts and collection look things up, they do not scan (P8)."""

from __future__ import annotations

import re

import apsw
import pytest

from perdure.handles.opening import open as open_store
from perdure.planes import artifacts, checkpoints, collect


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
    optional = set(re.findall(r"--\? (\w+)", statement.source)) - set(given)
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
    ],
)
def test_a_statement_uses_its_index(database, statement, given, expected):
    plan = plan_of(database, statement, given)
    assert any(expected in step for step in plan), plan
    assert not any(re.match(r"SCAN (streams|events|blobs|blob_refs|checkpoints|artifacts)\b", step) for step in plan)


@pytest.mark.parametrize("queries", [artifacts.Q, checkpoints.Q, collect.Q])
def test_every_named_statement_is_one(database, queries):
    for statement in queries:
        assert plan_of(database, statement)
