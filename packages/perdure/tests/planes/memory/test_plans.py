"""Query plans: what a search asks is looked up, never scanned, however large the index is (P8)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

import perdure
from perdure.planes.memory import checks, index, memories, search, vectors
from perdure.stores.statements import Statement

LISTS = {
    "weights": '[["a", 1.5]]',
    "shelves": '["turn"]',
    "streams": "[1]",
    "words": '["a"]',
    "stretches": "[[1, 1, 9]]",
    "places": '[[1, 1, 0, "turn"]]',
    "results": '["turn"]',
}
NUMBERS = dict.fromkeys(
    [
        "tenant",
        "average",
        "limit",
        "stream",
        "of_seq",
        "seq",
        "since",
        "shelf",
        "term",
        "last",
        "thing",
        "name",
        "in_stream",
        "tag",
        "about",
    ],
    1,
)


@pytest.fixture
def database(tmp_path: Path) -> Iterator[apsw.Connection]:
    path = tmp_path / "a.db"
    with perdure.open(f"sqlite:///{path}") as store:
        store.session("a").say("user", "x")
    connection = apsw.Connection(str(path))
    yield connection
    connection.close()


@pytest.mark.parametrize(
    ("statement", "given", "expected"),
    [
        (search.Q.texts_best, (), "SEARCH p USING PRIMARY KEY (tenant=? AND shelf=? AND term=?)"),
        (search.Q.texts_best, ("streams",), "SEARCH p USING PRIMARY KEY (tenant=? AND shelf=? AND term=? AND in_stream=?)"),
        (search.Q.texts_best, ("filtered", "since"), "SEARCH x USING PRIMARY KEY (in_stream=? AND seq=? AND part=? AND shelf=?"),
        (search.Q.texts_best, ("filtered", "tag"), "PRIMARY KEY (stream=? AND thing=? AND tag=? AND id=?)"),
        (search.Q.texts_best, ("filtered", "about"), "SEARCH who USING PRIMARY KEY (stream=? AND seq=? AND subject=?)"),
        (search.Q.texts_best, ("filtered", "results"), "SEARCH e USING INDEX events_by_stream (stream=? AND seq=?)"),
        (search.Q.texts_fitting, ("about",), "SEARCH x USING PRIMARY KEY (in_stream=? AND seq=? AND part=? AND shelf=?"),
        (vectors.Q.texts_about, (), "SEARCH x USING PRIMARY KEY (in_stream=? AND seq=?)"),
        (vectors.Q.texts_labelled, (), "SEARCH x USING PRIMARY KEY (in_stream=? AND seq=?)"),
        (search.Q.postings_newest, (), "PRIMARY KEY (tenant=? AND shelf=? AND term=? AND in_stream=? AND seq<?)"),
        (checks.Q.checks_get, (), "SEARCH c USING PRIMARY KEY (stream=? AND name=? AND thing=?)"),
        (checks.Q.checks_of_stream, (), "checks_by_time (stream=?)"),
        (checks.Q.checks_of_store, (), "checks_by_tenant (tenant=? AND"),
        (search.Q.texts_near, (), "SEARCH x USING PRIMARY KEY (in_stream=? AND seq>? AND seq<?)"),
        (search.Q.terms_counted, (), "SEARCH t USING PRIMARY KEY (tenant=? AND shelf=? AND term=?)"),
        (index.Q.texts_of_memory, (), "texts_of_memories (in_stream=? AND of_seq=?)"),
        (memories.Q.memory_by_key, ("key",), "memories_by_key (stream=? AND key=?)"),
        (memories.Q.memories_of_store, (), "memories_by_time (tenant=?"),
        (memories.Q.memories_of_store, ("kind",), "memories_by_kind (tenant=? AND kind=?"),
    ],
)  # fmt: skip
def test_it_is_looked_up(
    database: apsw.Connection, statement: Statement, given: tuple[str, ...], expected: str
) -> None:
    known = {**dict.fromkeys(given, 1), **NUMBERS, **LISTS}
    optional = {name for line in re.findall(r"--\? ([\w ]+)$", statement.source, re.MULTILINE) for name in line.split()}
    params = {name: value for name, value in known.items() if name in given or name not in optional}
    text = statement.text("sqlite", params)
    plan = [row[3] for row in database.execute(f"EXPLAIN QUERY PLAN {text}", params)]
    assert any(expected in line for line in plan), "\n".join(plan)
