"""docs/sql.md is a test: every view and column is described there, and every question runs on both databases."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import perdure
from perdure.stores.blueprint import own_views

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
