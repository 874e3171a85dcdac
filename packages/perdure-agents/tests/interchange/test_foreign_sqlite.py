"""Somebody else's SQLite file: read, and left exactly as it is, whatever is in it."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest

from perdure.errors import Damaged, Error
from perdure.stores.statements import Statement
from perdure_agents.importers.foreign_sqlite import ForeignFile, is_sqlite


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "theirs.db"
    connection = apsw.Connection(str(path))
    connection.pragma("journal_mode", "wal")
    connection.execute("CREATE TABLE a (x, y TEXT DEFAULT CURRENT_TIMESTAMP); INSERT INTO a VALUES (1, 'one')")
    connection.execute("CREATE VIEW v AS SELECT 1 AS x; CREATE VIRTUAL TABLE f USING fts5(t)")
    connection.close()
    return path


def asked(text: str) -> Statement:
    return Statement("test", "", text)


def test_tables_are_those_that_hold_rows(file: Path) -> None:
    with ForeignFile(file) as foreign:
        assert foreign.tables["a"] == {"x", "y"}
        assert not {"v", "f"} & set(foreign.tables)
        assert foreign.query(asked("SELECT x, y FROM a WHERE x = :x"), x=1) == [(1, "one")]


def test_nothing_is_left_beside_it(file: Path) -> None:
    before = {path.name: path.read_bytes() for path in file.parent.iterdir()}
    with ForeignFile(file) as foreign:
        foreign.query(asked("SELECT x FROM a"))
        assert {path.name: path.read_bytes() for path in file.parent.iterdir()} == before
    assert {path.name: path.read_bytes() for path in file.parent.iterdir()} == before


def test_what_is_still_in_its_wal_is_read(file: Path) -> None:
    writer = apsw.Connection(str(file))
    writer.execute("INSERT INTO a VALUES (2, 'two')")
    with ForeignFile(file) as foreign:
        assert len(foreign.query(asked("SELECT x FROM a"))) == 2
    writer.close()


@pytest.mark.parametrize(
    "text",
    [
        "INSERT INTO a VALUES (3, '')", "DELETE FROM a", "PRAGMA journal_mode = DELETE", "ATTACH ':memory:' AS b",
        "SELECT load_extension('x')", "SELECT hex(zeroblob(10))", "CREATE TABLE b (x)", "SELECT * FROM pragma_database_list",
    ],
)  # fmt: skip
def test_only_select_is_allowed(file: Path, text: str) -> None:
    with ForeignFile(file) as foreign, pytest.raises(Error):
        foreign.query(asked(text))


def test_what_is_no_database(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"SQLite format 3\0" + b"\1" * 5000)
    assert is_sqlite((tmp_path / "x").read_bytes())
    assert not is_sqlite(b"{}")
    with pytest.raises(Damaged):
        ForeignFile(tmp_path / "x")
