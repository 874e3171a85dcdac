"""The user's own SQL in the store's transaction: his rows land with ours or not at all, and ours stay ours."""

from __future__ import annotations

import asyncio
import threading

import pytest

import perdure
from perdure.errors import Conflict, Invalid, Refused, Waiting
from perdure.stores.expected_schema import own_names
from perdure.stores.sqlite import SqliteConnection


@pytest.fixture
def store(tmp_path):
    with perdure.open(f"sqlite:///{tmp_path}/a.db") as opened:
        opened.atomic(lambda tx: tx.sql("CREATE TABLE rows (id INTEGER PRIMARY KEY, text TEXT)"))
        yield opened


def rows(store) -> list[tuple[object, ...]]:
    return store.atomic(lambda tx: tx.sql("SELECT id, text FROM rows ORDER BY id"))


def add(tx, number: int, text: str = "x") -> None:
    tx.sql("INSERT INTO rows VALUES (:id, :text)", {"id": number, "text": text})


def test_his_rows_and_ours_are_one_commit(store):
    def both(tx) -> int:
        add(tx, 7)
        return tx.session("a").say("user", "seven").seq

    assert store.atomic(both) == 2
    assert rows(store) == [(7, "x")]
    assert [turn.content for turn in store.session("a").turns()] == ["seven"]
    assert store.verify().ok


def test_if_it_fails_neither_is_there(store):
    def fail(tx) -> None:
        tx.session("a").say("user", "seven")
        add(tx, 7)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        store.atomic(fail)
    assert rows(store) == []
    assert not store.sessions()


def test_an_effect_on_his_rows_happens_once(store):
    def book(tx):
        effect = tx.session("a").begin("book", {"order": 7}, key="k")
        if not effect.settled:
            add(tx, 7)
            effect.dispatch()
            effect.commit({"order": 7})
        return effect.result

    assert [store.atomic(book) for _ in range(3)] == [{"order": 7}] * 3
    assert rows(store) == [(7, "x")]


def test_a_step_of_a_run_takes_his_rows_with_it(store):
    def agent(run):
        return run.atomic(lambda tx: add(tx, 7)), run.wait("go")

    with pytest.raises(Waiting):
        store.drive(agent, key="k")
    store.runs()[0].signal("go")
    assert store.drive(agent, key="k") == (None, None)  # and not once more at replay
    assert rows(store) == [(7, "x")]


def test_a_failing_job_takes_none_of_its_batch_with_it(store):
    """Several callers share a commit: the one that fails after its SQL ran has all of it rolled back, and they run again."""
    gate = threading.Barrier(9)

    def one(number: int) -> None:
        gate.wait()
        store.atomic(lambda tx: (add(tx, number), 1 / (number - 4)))

    def caught(number: int) -> None:
        with pytest.raises(ZeroDivisionError) if number == 4 else threading.Lock():
            one(number)

    threads = [threading.Thread(target=caught, args=(number,)) for number in range(9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [number for number, _ in rows(store)] == [0, 1, 2, 3, 5, 6, 7, 8]


def test_async_stores_too(tmp_path):
    async def main():
        async with perdure.aopen(f"sqlite:///{tmp_path}/b.db") as store:
            await store.atomic(lambda tx: tx.sql("CREATE TABLE rows (id INTEGER)"))
            await store.atomic(lambda tx: tx.sql("INSERT INTO rows VALUES (1)"))
            return await store.atomic(lambda tx: tx.sql("SELECT * FROM rows"))

    assert asyncio.run(main()) == [(1,)]


# -- what is refused ----------------------------------------------------------------------------------------

REFUSED = [
    "SELECT * FROM events", "SELECT count(*) FROM Streams", "SELECT * FROM main.effects", "SELECT * FROM v_events",
    "DELETE FROM effects", "REPLACE INTO events DEFAULT VALUES", "DROP TABLE events", "ALTER TABLE events ADD COLUMN x",
    "INSERT INTO rows SELECT id, name FROM streams", "UPDATE rows SET text = (SELECT hash FROM streams)",
    "CREATE TABLE copied AS SELECT * FROM meta", "EXPLAIN SELECT * FROM events", "CREATE INDEX i ON events (kind)",
    "CREATE TRIGGER t AFTER INSERT ON events BEGIN SELECT 1; END",
    "CREATE TRIGGER t AFTER INSERT ON rows BEGIN DELETE FROM events; END; INSERT INTO rows VALUES (1, '')",
    "CREATE VIEW v AS SELECT * FROM events; SELECT * FROM v", "CREATE TEMP TABLE events (x)", "CREATE TABLE temp.streams (x)",
    "CREATE TEMP VIEW events AS SELECT 1", "CREATE TEMP TRIGGER t AFTER INSERT ON events BEGIN SELECT 1; END",
    "CREATE TABLE child (x REFERENCES streams (id)); INSERT INTO child VALUES (1)", "CREATE VIRTUAL TABLE f USING fts5(x)",
    "ATTACH ':memory:' AS other", "DETACH main", "PRAGMA synchronous = OFF", "SELECT * FROM pragma_table_info('events')",
    "BEGIN", "COMMIT", "END", "ROLLBACK", "SAVEPOINT a", "RELEASE a", "ANALYZE", "REINDEX events", "SELECT * FROM dbstat",
    "SELECT seq, hash FROM streams WHERE id = 1", "SELECT seq, hash FROM streams WHERE id = ?",
]  # fmt: skip


@pytest.mark.parametrize("statement", REFUSED)
def test_what_is_not_his_is_refused_and_changes_nothing(store, statement):
    with pytest.raises(Refused, match=r"tx\.sql"):
        store.atomic(lambda tx: tx.sql(statement, (1,) if "?" in statement else ()))
    store.session("a").say("user", "the lane goes on")
    assert store.verify().ok


def test_control_without_the_judge_they_would_be_carried_out(store, monkeypatch):
    """The list would prove nothing if its statements failed by themselves."""
    monkeypatch.setattr("perdure.stores.user_sql._Judge.__call__", lambda *_: 0)
    for statement in ("SELECT * FROM events", "SELECT * FROM v_events", "CREATE TEMP TABLE events (x)", "SAVEPOINT a"):
        store.atomic(lambda tx: tx.sql(statement))  # noqa: B023 - run at once


ALLOWED = [
    "WITH RECURSIVE n(a) AS (SELECT 1 UNION ALL SELECT a + 1 FROM n WHERE a < 3) SELECT * FROM n",
    "SELECT value FROM json_each('[1, 2]')", "SELECT name FROM sqlite_schema", "ALTER TABLE rows ADD COLUMN more",
    "CREATE TABLE more (x INTEGER PRIMARY KEY AUTOINCREMENT, y UNIQUE); INSERT INTO more (y) VALUES (1); DROP TABLE more",
    "CREATE TABLE kept (events TEXT, streams TEXT); UPDATE kept SET events = streams", "CREATE INDEX rows_by_text ON rows (text)",
    "CREATE VIEW shown AS SELECT text FROM rows; SELECT * FROM shown",
    "CREATE TRIGGER t AFTER INSERT ON rows BEGIN UPDATE rows SET text = 'y'; END; INSERT INTO rows VALUES (1, 'x')",
    "INSERT INTO rows VALUES (5, 'x') ON CONFLICT (id) DO UPDATE SET text = excluded.text RETURNING id",
]  # fmt: skip


@pytest.mark.parametrize("statement", ALLOWED)
def test_his_own_tables_are_his(store, statement):
    store.atomic(lambda tx: tx.sql(statement))
    assert store.verify().ok


def test_what_the_database_refuses_is_an_error_of_the_tree_and_undoes_only_itself(store):
    def tried(tx) -> list[type]:
        add(tx, 1)
        found = []
        for statement, params in (("INSERT INTO rows VALUES (1, '')", ()), ("nonsense", ()), ("SELECT ?", (object(),)),
                                  ("SELECT ?", ()), (7, ())):  # fmt: skip
            try:
                tx.sql(statement, params)
            except perdure.Error as error:
                found.append(type(error))
        return found

    assert store.atomic(tried) == [Conflict, Invalid, Invalid, Invalid, Invalid]
    assert rows(store) == [(1, "x")]


def rolled_back(tx) -> None:
    add(tx, 1)
    tx.session("a").say("user", "not alone")
    try:
        tx.sql("INSERT OR ROLLBACK INTO rows VALUES (1, '')")
    except BaseException:  # whoever swallows it must not get the rest committed by itself
        return


def test_a_statement_that_rolls_everything_back_leaves_nothing(store):
    with pytest.raises(Invalid, match="rolled"):
        store.atomic(rolled_back)
    assert rows(store) == []
    assert not store.sessions()


def test_control_unless_the_write_looks_the_rest_is_committed_by_itself(store, monkeypatch):
    def careless(self, writes, *, commit):
        self._flush(writes)

    monkeypatch.setattr(SqliteConnection, "write", careless)
    store.atomic(rolled_back)
    monkeypatch.undo()
    assert store.sessions()


def test_there_must_be_an_sqlite_file(postgres_store):
    for url in ("memory:", postgres_store):
        with perdure.open(url) as store, pytest.raises(Refused, match="SQLite file") as error:
            store.atomic(lambda tx: tx.sql("SELECT 1"))
        assert "on=connection" in error.value.hint


def test_it_is_over_when_the_function_is(store):
    kept = []
    store.atomic(kept.append)
    with pytest.raises(Refused):
        kept[0].sql("SELECT 1")


def test_nothing_is_sent_inside(store):
    said = []
    with pytest.raises(Refused, match="no external system can be called inside"):
        store.atomic(lambda tx: tx.session("a").act(said.append, 1, key="k"))
    assert said == []


def test_all_that_the_store_has_is_known_by_name(store):
    names = {name for (name,) in store.atomic(lambda tx: tx.sql("SELECT lower(name) FROM sqlite_schema"))}
    assert {name for name in names if not name.startswith("sqlite_")} - own_names() == {"rows"}
