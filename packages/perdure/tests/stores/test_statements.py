"""Named SQL: optional lines, parameters, overrides; and that no input ever becomes text (P10)."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.stores.statements import Statement, Statements, to_postgres
from sources import module_name, sources


def statement(source: str) -> Statement:
    return Statement("things_some", "some things.", source)


def test_optional_lines_come_with_their_parameters():
    some = statement("SELECT 1\n  WHERE a = :a --? a\n  AND b = :b AND c = :c --? b c\nLIMIT :n")
    assert some.text("sqlite", {"n": 1}) == "SELECT 1\nLIMIT :n"
    assert some.text("sqlite", {"n": 1, "a": None, "b": 1}) == "SELECT 1\nLIMIT :n"
    assert some.text("sqlite", {"n": 1, "a": 0}) == "SELECT 1\n  WHERE a = :a\nLIMIT :n"
    assert some.text("sqlite", {"n": 1, "b": 1, "c": 1}) == "SELECT 1\n  AND b = :b AND c = :c\nLIMIT :n"


def test_postgres_gets_its_own_parameters_and_clock():
    assert to_postgres("SELECT :a, x::text, '50%' WHERE y > :a_b") == "SELECT %(a)s, x::text, '50%%' WHERE y > %(a_b)s"
    assert "clock_timestamp" in to_postgres("SELECT :now")


def test_overrides_replace_the_text_for_one_database_only():
    some = statement("SELECT 1")
    some.overrides["postgres"] = ("why", "SELECT 2")
    assert some.text("sqlite", {}) == "SELECT 1"
    assert some.text("postgres", {}) == "SELECT 2"


@given(st.dictionaries(st.sampled_from("abc"), st.text() | st.integers() | st.none()))
def test_values_never_reach_the_text(params: dict[str, Any]):
    some = statement("SELECT 1\n  AND a = :a --? a\n  AND b = :b --? b")
    shapes = {some.text("sqlite", dict.fromkeys(given_names, 0)) for given_names in ("", "a", "b", "ab")}
    assert some.text("sqlite", params) in shapes


def test_a_name_that_is_not_there():
    with pytest.raises(AttributeError, match=r"log\.sql has no statement 'nothing'"):
        _ = Statements("perdure.stores", "log.sql").nothing


def sql_files() -> list[tuple[str, str]]:
    """Every file of named statements in the package."""
    paths = [path for path in sources(".sql") if "migrations" not in path.parts]
    return sorted((module_name(path.parent), path.name) for path in paths)


@pytest.mark.parametrize(("package", "file"), sql_files())
def test_every_statement_says_what_it_is(package, file):
    statements = list(Statements(package, file))
    assert statements
    for each in statements:
        assert re.fullmatch(r"[a-z][a-z0-9_]*", each.name)
        assert len(each.doc) > 8
        assert each.source
        for reason, text in each.overrides.values():
            assert len(reason) > 8, f"{each.name}: an override needs a reason"
            assert text


def test_the_files_are_found():
    assert ("perdure.stores", "log.sql") in sql_files()


@pytest.mark.parametrize(
    ("source", "spans"),
    [
        ("SELECT 1 WHERE a = :a AND b <> :b AND c > :now", False),
        ("SELECT 1 WHERE a = :a LIMIT :limit", True),
        ("SELECT 1 WHERE a >= :a", True),
        ("SELECT 1 WHERE (a, b) < (:a, :b) --? a", True),
    ],
)
def test_what_reads_a_range_is_told_from_what_looks_up_a_key(source, spans):
    assert statement(source).spans is spans
