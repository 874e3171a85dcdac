"""docs/sql.md is a test: every view and column is described there, and every question runs on both databases."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import perdure
from perdure.stores.expected_schema import own_views

PAGE = (Path(__file__).parent.parent / "docs" / "sql.md").read_text()
QUESTIONS = re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL)
COMMON = {"tenant", "session", "stream_kind", "stream"}


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def store(request, tmp_path):
    urls = {"memory": "memory:", "sqlite": f"sqlite:///{tmp_path}/a.db"}
    with perdure.open(urls.get(request.param) or request.getfixturevalue("postgres_store")) as opened:
        session = opened.session("a")
        session.set("v", {"status": "good", "more": "x" * 9_000})
        session.begin("pay", {"sum": 7}, key="k").dispatch()
        yield opened


@pytest.mark.parametrize("text", QUESTIONS)
def test_a_question_runs(store, text):
    assert isinstance(store.query(text), list)


def test_there_are_questions():
    assert len(QUESTIONS) >= 7


def described() -> dict[str, set[str]]:
    rows = re.findall(r"^\| `(v_\w+)` \|[^|]*\| (.*) \|$", PAGE, re.MULTILINE)
    return {view: set(re.findall(r"`(\w+)`", text)) for view, text in rows}


def test_every_view_and_column_is_described(tmp_path):
    from perdure.stores.sqlite import opened_to_read

    path = tmp_path / "a.db"
    perdure.open(f"sqlite:///{path}").close()
    raw = opened_to_read(path).raw
    said = described()
    assert set(said) == set(own_views())
    for view in said:
        columns = {name for _, name, *_ in raw.execute(f"SELECT * FROM pragma_table_info('{view}')")} - COMMON
        assert columns == (said["v_effects"] if view == "v_all_effects" else said[view] - {"v_effects"}) - COMMON, view
    raw.close()


def test_the_key_that_was_sent_is_shown(store):
    (effect,) = store.effects()
    (row,) = store.query("SELECT key, sent_key FROM v_effects")
    assert row == {"key": "k", "sent_key": effect.sent_key}


def test_a_large_document_is_found_by_what_it_says(store):
    assert store.query("SELECT name FROM v_entries WHERE doc ->> 'status' = 'good'") == [{"name": "v"}]
    asked = "SELECT count(*) AS n FROM v_entries WHERE doc_blob IS NOT NULL AND (doc IS NULL OR doc ->> 'unreadable' IS NOT NULL)"
    assert store.query(asked) == [{"n": 0}]


def test_every_program_reads_large_documents_on_postgresql_and_none_is_missed_in_silence(postgres_store, tmp_path):
    from typing import Any

    import psycopg

    from perdure.stores.url import parse

    with perdure.open(postgres_store, artifacts=f"file://{tmp_path}/place") as store:
        for name, size in (("inside", 20_000), ("outside", 200_000), ("older", 30_000)):
            store.session("a").set(name, {"status": "good", "more": "x" * size})
        with psycopg.connect(parse(postgres_store).conninfo) as connection:
            raw: Any = connection
            raw.execute(f'SET search_path TO "{parse(postgres_store).schema}"')
            raw.execute("UPDATE blobs SET codec = 1 WHERE size BETWEEN 30000 AND 40000")  # as it was stored before
            raw.execute("SET search_path TO pg_catalog")
            view = f'"{parse(postgres_store).schema}".v_entries'
            rows = raw.execute(
                f"SELECT name, doc ->> 'status', doc ->> 'unreadable', doc_blob FROM {view} ORDER BY 1"
            ).fetchall()
            raw.rollback()
    assert [(name, said) for name, said, *_ in rows] == [("inside", "good"), ("older", None), ("outside", None)]
    assert [None, f"SQL cannot read its blob: {rows[1][3]}", f"SQL cannot read its blob: {rows[2][3]}"] == [
        row[2] for row in rows
    ]


def test_a_large_document_that_was_moved_to_postgresql_can_be_read_there(postgres_url, tmp_path):
    from perdure.interchange.move import move

    url = f"sqlite:///{tmp_path}/a.db"
    with perdure.open(url) as store:
        store.session("a").set("v", {"status": "good", "more": "x" * 9_000})
    move(url, postgres_url, actor="me")
    with perdure.open(postgres_url) as store:
        assert store.query("SELECT name FROM v_entries WHERE doc ->> 'status' = 'good'") == [{"name": "v"}]
