"""A SQLite file whose schema somebody changed is refused before anything in it acts (P6, P10); users' own tables may stay."""

from __future__ import annotations

import tracemalloc

import apsw
import pytest

import perdure
from perdure.errors import Damaged, Refused
from perdure.model.limits import VALUE_MAX_BYTES
from perdure.stores import expected_schema
from perdure.stores.migrate import migrations

PLANTED = [
    "CREATE TRIGGER spy AFTER INSERT ON events BEGIN UPDATE effects SET state = 'committed'; END",
    "CREATE TRIGGER spy INSTEAD OF INSERT ON v_turns BEGIN SELECT 1; END",
    "DROP TRIGGER events_fixed; CREATE TRIGGER events_fixed BEFORE UPDATE ON events BEGIN SELECT 1; END",
    "DROP VIEW v_turns; CREATE VIEW v_turns AS SELECT 1 AS tenant",
    "ALTER TABLE holders RENAME TO hidden; CREATE VIEW holders AS SELECT * FROM hidden",
    "ALTER TABLE meta RENAME TO hidden; CREATE VIEW meta AS SELECT * FROM hidden",
    "ALTER TABLE turns ADD COLUMN extra TEXT",
    "CREATE TRIGGER events_moved BEFORE INSERT ON events BEGIN DELETE FROM effects; END",
]
OWN = [
    "CREATE TABLE mine (id INTEGER PRIMARY KEY, text TEXT)",
    "CREATE TABLE mine (id INTEGER); CREATE INDEX mine_by_id ON mine (id); CREATE VIEW v_mine AS SELECT * FROM mine",
    "CREATE TABLE mine (id INTEGER); CREATE TRIGGER mine_too AFTER INSERT ON mine BEGIN SELECT 1; END",
    "CREATE INDEX effects_of_mine ON effects (tenant, holder)",
    "ANALYZE",
    "DROP VIEW v_turns",
]


@pytest.fixture
def path(tmp_path):
    file = tmp_path / "a.db"
    with perdure.open(f"sqlite:///{file}") as store:
        store.session("a").say("user", "x")
    return file


def run(path, text: str) -> None:
    raw = apsw.Connection(str(path))
    raw.pragma("writable_schema", 1)
    raw.execute(text)
    raw.close()


@pytest.mark.parametrize("text", PLANTED)
@pytest.mark.parametrize("read_only", [False, True])
def test_what_was_planted_is_found_before_it_acts(path, text, read_only):
    run(path, text)
    before = path.read_bytes()
    with pytest.raises((Damaged, Refused), match=r"not that of a store|not a Perdure store"):
        perdure.open(f"sqlite:///{path}", read_only=read_only)
    assert path.read_bytes() == before


def test_the_digest_of_the_newest_schema_is_the_one_that_is_written_down():
    assert expected_schema.digest_of(expected_schema.blueprint(migrations()).values()) == expected_schema.NEWEST, (
        "write it into stores/expected_schema.py"
    )


def test_a_file_of_the_newest_schema_is_known_at_once(path, monkeypatch):
    monkeypatch.setattr(expected_schema, "_compare", None)
    perdure.open(f"sqlite:///{path}").close()


@pytest.mark.parametrize("text", OWN)
def test_what_users_made_for_themselves_stays(path, text):
    run(path, text)
    with perdure.open(f"sqlite:///{path}") as store:
        store.session("a").say("user", "y")
        assert store.verify().ok


def test_an_endless_view_in_the_place_of_a_table_is_not_read(path):
    numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"
    endless = f"{numbers} SELECT 'x' AS name, CAST(i AS TEXT) AS value FROM n"
    run(path, f"DROP TABLE meta; CREATE VIEW meta AS {endless}")
    with pytest.raises(Refused):
        perdure.open(f"sqlite:///{path}")


def test_a_blob_that_claims_to_be_enormous_is_not_unpacked(path):
    with perdure.open(f"sqlite:///{path}") as store:
        store.session("a").set("v", "y" * 20_000)
    from perdure.artifacts.compress import zstd

    bomb = zstd.compress(bytes(512 * 1024 * 1024))
    raw = apsw.Connection(str(path))
    raw.execute("UPDATE blobs SET size = ?, codec = 1, data = ?", (512 * 1024 * 1024, bomb))
    raw.close()
    with perdure.open(f"sqlite:///{path}") as store:
        tracemalloc.start()
        with pytest.raises(Damaged):
            store.session("a").get("v")
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < VALUE_MAX_BYTES
