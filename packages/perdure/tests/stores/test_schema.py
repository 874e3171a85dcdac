"""The tables as declared to the log against the real schemas, and every place where the databases differ.

An override is a text that exists twice: each is counted, so that the next one is a decision.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from perdure.log.table import Table, TableClass
from perdure.planes.tables import ALL
from perdure.stores.dialect import BLOB_COLUMNS, EVENT_COLUMNS, STREAM_COLUMNS, conflict_key, migration_for
from perdure.stores.migrate import migrations
from perdure.stores.postgres_types import COLUMN_TYPES
from perdure.stores.statements import Statements
from stores.test_statements import sql_files
from stores.verbs import opened

STATEMENT_OVERRIDES = 47  # raise it on purpose only, with the reason beside the statement
MIGRATION_LINES = 201  # half since 0005: the triggers of the index, in each database's language

LOG_COLUMNS = {"events": EVENT_COLUMNS, "streams": STREAM_COLUMNS, "blobs": BLOB_COLUMNS}
GENERATED = {"events": {"pos", "xid"}, "blobs": {"id"}}  # what the database fills in


class Schema:
    """What a real database says of itself: by table, its columns with types, its key, its class."""

    def __init__(self, columns: dict[str, dict[str, str]], keys: dict[str, set[str]], classes: dict[str, str]) -> None:
        self.columns = columns
        self.keys = keys
        self.classes = classes


def sqlite_schema(raw: Any) -> Schema:
    names = [
        name
        for (name,) in raw.execute("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
    ]
    info = {name: list(raw.execute("SELECT name, type, pk FROM pragma_table_info(?)", (name,))) for name in names}
    return Schema(
        {name: {column: kind for column, kind, _ in rows} for name, rows in info.items()},
        {name: {column for column, _, position in rows if position} for name, rows in info.items()},
        dict(raw.execute("SELECT name, class FROM tables")),
    )


def postgres_schema(raw: Any) -> Schema:
    columns: dict[str, dict[str, str]] = {}
    for table, column, kind in raw.execute(
        "SELECT table_name, column_name, data_type FROM information_schema.columns "
        "JOIN information_schema.tables USING (table_schema, table_name) "
        "WHERE table_schema = current_schema() AND table_type = 'BASE TABLE'"
    ).fetchall():
        columns.setdefault(table, {})[column] = kind
    keys: dict[str, set[str]] = {}
    for table, column in raw.execute(
        "SELECT c.relname, a.attname FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid "
        "JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = ANY ((i.indkey::int2[])[0:i.indnkeyatts - 1]) "
        "WHERE i.indisprimary AND c.relnamespace = current_schema()::regnamespace"
    ).fetchall():
        keys.setdefault(table, set()).add(column)
    return Schema(columns, keys, dict(raw.execute("SELECT name, class FROM tables").fetchall()))


@pytest.fixture
def schema(request) -> Iterator[Schema]:
    with opened(request.getfixturevalue(request.param)) as store:
        raw = store.core.engine.connect().raw
        yield postgres_schema(raw) if request.param == "postgres_store" else sqlite_schema(raw)
        raw.close()


@pytest.fixture
def sqlite_url(tmp_path) -> str:
    return f"sqlite:///{tmp_path}/agent.db"


BOTH = pytest.mark.parametrize("schema", ["sqlite_url", "postgres_store"], indirect=True)


@BOTH
def test_every_declaration_is_the_real_table(schema):
    for table in ALL:
        assert set(schema.columns[table.name]) == set(table.all_columns), table.name
        assert schema.keys[table.name] == set(conflict_key(table)), table.name


@BOTH
def test_every_table_has_the_class_that_it_is_declared_with(schema):
    declared = {table.name: str(table.table_class) for table in ALL}
    real = {name: kind for name, kind in schema.classes.items() if kind != "log"}
    assert declared == real
    assert set(schema.classes) == set(schema.columns)


@BOTH
def test_the_log_writes_every_column_of_its_own_tables(schema):
    for name, columns in LOG_COLUMNS.items():
        assert set(schema.columns[name]) - GENERATED.get(name, set()) == set(columns)


@pytest.mark.parametrize("schema", ["postgres_store"], indirect=True)
def test_column_types_are_those_of_the_database(schema):
    written = {table.name: table.all_columns for table in ALL} | LOG_COLUMNS
    for name, columns in written.items():
        for column in columns:
            assert (COLUMN_TYPES.get((name, column)) or COLUMN_TYPES[column]) == schema.columns[name][column], (
                name,
                column,
            )


@pytest.mark.parametrize("schema", ["sqlite_url"], indirect=True)
def test_sqlite_tables_are_strict(schema, sqlite_url):
    with opened(sqlite_url) as store:
        raw = store.core.engine.connect().raw
        text = "SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table' AND NOT strict"
        loose = [name for (name,) in raw.execute(f"{text} AND name NOT LIKE 'sqlite_%'")]
        raw.close()
    assert loose == []


def test_recorded_rows_belong_to_a_stream():
    assert all(table.streamed for table in ALL if table.table_class is TableClass.RECORDED)


def test_control_a_wrong_declaration_is_found(tmp_path):
    wrong = Table("turns", TableClass.RECORDED, ("seq",), ("role", "key"))
    with opened(f"sqlite:///{tmp_path}/agent.db") as store:
        raw = store.core.engine.connect().raw
        real = sqlite_schema(raw)
        raw.close()
    assert set(real.columns["turns"]) != set(wrong.all_columns)


# -- overrides ----------------------------------------------------------------------------------------------


def statement_overrides() -> list[str]:
    every = [each for package, file in sql_files() for each in Statements(package, file)]
    return sorted(f"{each.name} @{dialect}" for each in every for dialect in each.overrides)


def migration_overrides() -> list[str]:
    return [
        line for step in migrations() for line in step.text.splitlines() if re.search(r"-- @(sqlite|postgres)$", line)
    ]


def test_overrides_of_statements_are_counted():
    assert len(statement_overrides()) == STATEMENT_OVERRIDES, statement_overrides()


def test_lines_of_migrations_for_one_database_are_counted():
    assert len(migration_overrides()) == MIGRATION_LINES


def test_each_database_gets_its_own_lines_only():
    text = "a INTEGER, -- @sqlite\nb INTEGER, -- @postgres\nc BLOB\n) STRICT, WITHOUT ROWID;"
    assert migration_for("sqlite", text) == "a INTEGER,\nc BLOB\n) STRICT, WITHOUT ROWID;"
    assert migration_for("postgres", text) == "b BIGINT,\nc BYTEA\n);"
