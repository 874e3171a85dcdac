"""SQL on the command line: rows as a table or as JSON, and nothing can be changed with it."""

from __future__ import annotations

import pytest


def test_rows_as_json(ask, runs_url) -> None:
    found = ask(
        "query", "SELECT state, count(*) AS n FROM v_effects GROUP BY state ORDER BY state", "--store", runs_url
    )
    assert found == {"items": [{"state": "failed", "n": 1}, {"state": "in_doubt", "n": 2}]}


def test_the_key_that_was_sent_is_the_same_everywhere(ask, run, runs_url) -> None:
    listed = {item["id"]: item["sent_key"] for item in ask("effects", "--store", runs_url)["items"]}
    asked = "SELECT stream_kind || ':' || stream || '/' || seq AS id, sent_key FROM v_effects"
    assert {row["id"]: row["sent_key"] for row in ask("query", asked, "--store", runs_url)["items"]} == listed
    name = next(iter(ask("effects", "--in-doubt", "--store", runs_url)["items"]))["id"]
    assert listed[name] in run("settle", name, "absent", "--dry-run", "--store", runs_url).stdout


def test_parameters_and_tables(run, ask, runs_url) -> None:
    text = "SELECT tool, :n AS n FROM v_effects WHERE tool = :tool LIMIT 1"
    words = ("--param", "tool=send", "--param", "n=7", "--store", runs_url)
    assert ask("query", text, *words) == {"items": [{"tool": "send", "n": 7}]}
    assert run("query", text, *words).stdout.split() == ["tool", "n", "send", "7"]


@pytest.mark.parametrize("text", ["DELETE FROM turns", "SELECT 1; SELECT 2", "ATTACH 'x' AS y"])
def test_it_only_reads(run, runs_url, text) -> None:
    done = run("query", text, "--store", runs_url)
    assert done.exit_code == 7
    assert "docs/sql.md" in done.stderr


def test_no_rows(run, runs_url) -> None:
    assert "no rows" in run("query", "SELECT seq FROM v_turns WHERE seq = 0", "--store", runs_url).stderr


def test_a_table_that_has_a_view_names_it(run, runs_url) -> None:
    asked = run("query", "SELECT * FROM sessions", "--store", runs_url)
    assert asked.exit_code == 7
    assert "sql: the table sessions is not for queries (read the view v_sessions" in asked.stderr
    hidden = run("query", "SELECT * FROM blobs", "--store", runs_url)  # the control: one without a view
    assert "v_blobs" not in hidden.stderr
    assert "sql: the table blobs is not for queries (read the views" in hidden.stderr
