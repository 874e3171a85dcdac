"""Migrations: under a lock, all or nothing, never in somebody else's database, never backwards."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import apsw
import pytest

import forked
import perdure
from perdure.errors import Conflict, Damaged, Error, NewerSchema, NotFound, Refused
from perdure.stores import migrate, schema_upgrade, sqlite, url
from perdure.stores.core import engine_for, open_core
from perdure.stores.migrate import Migration
from perdure.stores.sqlite import SqliteConnection, SqliteEngine, configured
from perdure.stores.store import Engine, Fault

ROOT = Path(__file__).parents[4]
FIXTURES = ROOT / "tests" / "fixtures" / "schema"
META = "CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL);"
STEPS = [
    Migration(1, "begin", META + "CREATE TABLE things (id INTEGER PRIMARY KEY, word TEXT NOT NULL);"),
    Migration(
        2,
        "more",
        "ALTER TABLE things ADD COLUMN size INTEGER NOT NULL DEFAULT 0; UPDATE things SET size = 7;",
    ),
    Migration(3, "again", "CREATE TABLE others (id INTEGER PRIMARY KEY); INSERT INTO others (id) VALUES (1);"),
]
BROKEN = [
    *STEPS[:2],
    Migration(3, "broken", "CREATE TABLE half (id INTEGER); INSERT INTO nowhere VALUES (1);"),
]


@pytest.fixture(params=["sqlite", "postgres"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    postgres = request.param == "postgres"
    where = request.getfixturevalue("postgres_url") if postgres else f"sqlite:///{tmp_path}/a.db"
    engine = engine_for(url.parse(where))
    yield engine
    engine.close()


@pytest.fixture
def file(tmp_path: Path) -> SqliteEngine:
    return SqliteEngine("", tmp_path / "a.db")


def ask(engine: Engine, text: str) -> list[tuple[Any, ...]]:
    connection: Any = engine.reader()
    try:
        return list(connection.raw.execute(text))
    finally:
        connection.close()


def copies(engine: SqliteEngine) -> list[Path]:
    assert engine.path is not None
    return sorted(engine.path.parent.glob(f"{engine.path.name}.schema*"))


# -- the real steps --------------------------------------------------------------------------------


def test_the_steps_are_numbered_without_a_gap() -> None:
    numbers = [step.number for step in migrate.migrations()]
    assert numbers == list(range(1, len(numbers) + 1))
    assert migrate.latest(migrate.migrations()) == numbers[-1]


def test_a_new_database_is_made_and_then_found(engine: Engine) -> None:
    assert [step.number for step in schema_upgrade.plan(engine)] == [step.number for step in migrate.migrations()]
    assert schema_upgrade.schema_of(engine, STEPS) == 0
    assert [*schema_upgrade.bring_up_to_date(engine)] == [*migrate.migrations()]
    identity = schema_upgrade.identity_of(engine)
    assert (len(identity.uid), identity.epoch, identity.partition) == (32, 1, identity.uid)
    assert schema_upgrade.bring_up_to_date(engine) == []
    assert schema_upgrade.plan(engine) == []
    assert schema_upgrade.identity_of(engine) == identity


def test_a_new_file_is_byte_for_byte_what_the_migrations_make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    schema_upgrade.bring_up_to_date(SqliteEngine("", tmp_path / "earlier.db"))  # the blank store is made by now
    uid = bytes(range(16))
    monkeypatch.setattr(schema_upgrade, "new_uid", lambda: uid)
    monkeypatch.setattr(migrate, "new_uid", lambda: uid)
    schema_upgrade.bring_up_to_date(SqliteEngine("", tmp_path / "new.db"))
    with closing(configured(apsw.Connection(":memory:"))) as raw:
        migrate.apply(schema_upgrade.SqliteScript(SqliteConnection(raw)), 0, migrate.migrations())
        migrated = raw.serialize("main")
    assert (tmp_path / "new.db").read_bytes() == migrated
    assert (tmp_path / "earlier.db").read_bytes() != migrated, "the control: another uid"


def test_stores_of_one_process_differ(tmp_path: Path) -> None:
    engines = [SqliteEngine("", tmp_path / "a.db"), SqliteEngine("", tmp_path / "b.db"), SqliteEngine("memory:", None),
               SqliteEngine("memory:", None)]  # fmt: skip
    for engine in engines:
        schema_upgrade.bring_up_to_date(engine)
    assert len({schema_upgrade.identity_of(engine).uid for engine in engines}) == len(engines)
    for engine in engines:
        engine.close()


# -- one connection to look and to read ----------------------------------------------------------------


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The flags of every connection to a file that is opened from now on."""
    seen: list[int] = []
    once = sqlite._opened_once

    def counted(path: Path, flags: int, *args: Any, **kwargs: Any) -> SqliteConnection:
        seen.append(flags)
        return once(path, flags, *args, **kwargs)

    monkeypatch.setattr(sqlite, "_opened_once", counted)
    return seen


@pytest.mark.parametrize("read_only", [False, True])
def test_a_store_is_read_by_the_connection_that_looked_at_it(
    tmp_path: Path, opened: list[int], *, read_only: bool
) -> None:
    there = f"sqlite:///{tmp_path}/a.db"
    with perdure.open(there) as store:
        store.session("a").say("user", "hello")
    opened.clear()
    with perdure.open(there, read_only=read_only) as store:
        assert [turn.content for turn in store.session("a").turns()] == ["hello"]
    assert len(opened) == 1
    if not read_only:
        assert [*tmp_path.glob("a.db-*")] == [], "the last connection takes the WAL away"


def test_a_file_that_is_not_in_wal_mode_yet_gets_a_reader_of_its_own(tmp_path: Path, opened: list[int]) -> None:
    there = f"sqlite:///{tmp_path}/a.db"
    perdure.open(there).close()
    with closing(apsw.Connection(f"{tmp_path}/a.db")) as raw:
        raw.pragma("journal_mode", "delete")
    opened.clear()
    with perdure.open(there) as store:
        assert len(opened) == 2  # the second switches it
        store.session("a").say("user", "hello")
        assert len(opened) == 3  # the lane
    with closing(apsw.Connection(f"{tmp_path}/a.db")) as raw:
        assert raw.pragma("journal_mode") == "wal"


@pytest.mark.parametrize("text", ["UPDATE meta SET value = '999' WHERE name = 'schema'", "DROP TABLE meta"])
@pytest.mark.parametrize("careful", [True, False])
def test_a_wal_that_is_not_for_this_version_stays_as_it_is(
    tmp_path: Path, text: str, monkeypatch: pytest.MonkeyPatch, *, careful: bool
) -> None:
    """A crash of its owner left a WAL, which whoever closes the file would move into it. The control does."""
    perdure.open(f"sqlite:///{tmp_path}/a.db").close()
    with closing(apsw.Connection(f"{tmp_path}/a.db")) as raw:
        raw.execute(text)
        for suffix in ("", "-wal"):
            (tmp_path / f"left.db{suffix}").write_bytes((tmp_path / f"a.db{suffix}").read_bytes())
    if not careful:
        monkeypatch.setattr(sqlite, "_without_checkpoint", SqliteConnection)
    before = [(tmp_path / f"left.db{suffix}").read_bytes() for suffix in ("", "-wal")]
    with pytest.raises(Refused):
        perdure.open(f"sqlite:///{tmp_path}/left.db")
    left = tmp_path / "left.db-wal"
    after = [(tmp_path / "left.db").read_bytes(), left.read_bytes() if left.exists() else b""]
    assert (after == before) is careful


def test_a_plan_makes_nothing(file: SqliteEngine) -> None:
    schema_upgrade.plan(file)
    assert file.path is not None
    assert [*file.path.parent.iterdir()] == []


# -- several steps ---------------------------------------------------------------------------------


def test_steps_are_applied_from_where_the_database_is(engine: Engine) -> None:
    schema_upgrade.bring_up_to_date(engine, STEPS[:1])
    with schema_upgrade.changing(engine) as script:
        script.run("INSERT INTO things (id, word) VALUES (1, 'a')")
    assert [step.number for step in schema_upgrade.plan(engine, STEPS)] == [2, 3]
    assert [step.number for step in schema_upgrade.bring_up_to_date(engine, STEPS)] == [2, 3]
    assert ask(engine, "SELECT id, word, size FROM things") == [(1, "a", 7)]
    assert schema_upgrade.schema_of(engine, STEPS) == 3


def test_a_step_that_fails_leaves_all_as_it_was(engine: Engine) -> None:
    schema_upgrade.bring_up_to_date(engine, STEPS[:1])
    with pytest.raises(Fault):
        schema_upgrade.bring_up_to_date(engine, BROKEN)
    assert schema_upgrade.schema_of(engine, STEPS) == 1
    assert len(ask(engine, "SELECT * FROM things")) == 0
    schema_upgrade.bring_up_to_date(engine, STEPS)
    assert schema_upgrade.schema_of(engine, STEPS) == 3


def test_the_old_database_is_kept_as_a_copy(file: SqliteEngine) -> None:
    schema_upgrade.bring_up_to_date(file, STEPS[:1])
    with schema_upgrade.changing(file) as script:
        script.run("INSERT INTO things (id, word) VALUES (1, 'a')")
    assert copies(file) == []
    schema_upgrade.bring_up_to_date(file, STEPS)
    (copy,) = copies(file)
    assert copy.stat().st_mode & 0o777 == 0o600
    kept = SqliteEngine("", copy)
    assert schema_upgrade.schema_of(kept, STEPS) == 1
    assert ask(kept, "SELECT id, word FROM things") == [(1, "a")]


def test_a_newer_schema_is_refused_and_not_a_byte_changes(file: SqliteEngine) -> None:
    schema_upgrade.bring_up_to_date(file, STEPS)
    assert file.path is not None
    before = file.path.read_bytes()
    for attempt in (schema_upgrade.bring_up_to_date, schema_upgrade.plan, schema_upgrade.check_readable):
        with pytest.raises(NewerSchema) as caught:
            attempt(file, STEPS[:2])
        assert "3" in caught.value.message
        assert "2" in caught.value.message
        assert caught.value.path == "meta.schema"
    assert file.path.read_bytes() == before
    assert copies(file) == []


def test_a_newer_schema_is_refused_by_open(engine: Engine) -> None:
    schema_upgrade.bring_up_to_date(engine)
    with schema_upgrade.changing(engine) as script:
        script.query(migrate.Q.meta_put, name="schema", value="4711")
    for read_only in (False, True):
        with pytest.raises(NewerSchema, match="4711"):
            perdure.open(engine.url or f"sqlite:///{engine.path}", read_only=read_only)  # type: ignore[attr-defined]


def test_reading_only_an_older_schema_says_what_to_do(engine: Engine) -> None:
    schema_upgrade.bring_up_to_date(engine, STEPS[:2])
    with pytest.raises(Refused, match="migrate") as caught:
        schema_upgrade.check_readable(engine, STEPS)
    assert caught.value.path == "meta.schema"
    schema_upgrade.check_readable(engine, STEPS[:2])


def test_reading_only_what_is_not_there_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(NotFound) as caught:
        perdure.open(f"sqlite:///{tmp_path}/a.db", read_only=True)
    assert (caught.value.path, "a.db" in caught.value.message) == ("store", True)
    assert caught.value.hint
    assert [*tmp_path.iterdir()] == []
    (tmp_path / "a.db").touch()
    with pytest.raises(NotFound):
        perdure.open(f"sqlite:///{tmp_path}/a.db", read_only=True)


def test_reading_only_a_schema_that_is_not_there_is_not_found(postgres_url: str) -> None:
    with pytest.raises(NotFound) as caught:
        perdure.open(postgres_url, read_only=True)
    assert caught.value.path == "store"
    assert urlsplit(postgres_url).password not in str(caught.value)


# -- what is not ours ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "schema",
    [
        "CREATE TABLE customers (id INTEGER)",
        "CREATE TABLE meta (key TEXT, val TEXT)",
        "CREATE TABLE meta (name TEXT, value TEXT); INSERT INTO meta VALUES ('schema', '1')",
        "CREATE VIEW meta AS SELECT 1 AS name, 2 AS value",
    ],
)
def test_somebody_elses_database_is_refused_and_not_a_byte_changes(tmp_path: Path, schema: str) -> None:
    path = tmp_path / "theirs.db"
    connection = sqlite3.connect(path)
    connection.executescript(schema)
    connection.close()
    before = path.read_bytes()
    for read_only in (False, True):
        with pytest.raises(Refused, match="not a Perdure store") as caught:
            perdure.open(f"sqlite:///{path}", read_only=read_only)
        assert caught.value.hint
    assert path.read_bytes() == before
    assert [*tmp_path.iterdir()] == [path]


def test_a_schema_with_other_tables_is_refused(postgres_url: str) -> None:
    import psycopg

    address = url.parse(postgres_url)
    with psycopg.connect(address.conninfo, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {address.schema}")
        connection.execute(f"CREATE TABLE {address.schema}.customers (id int)")
        with pytest.raises(Refused, match="not a Perdure store"):
            perdure.open(postgres_url)
        found = connection.execute(
            "SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace WHERE nspname = %s",
            (address.schema,),
        ).fetchone()
    assert found == (1,)


def test_an_empty_schema_that_somebody_made_for_us_is_used(postgres_url: str) -> None:
    import psycopg

    address = url.parse(postgres_url)
    with psycopg.connect(address.conninfo, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {address.schema}")
    perdure.open(postgres_url).close()


@pytest.mark.parametrize(
    "content",
    [b"hello, this is a text file\n" * 100, b"\0" * 5000, b"x", b"SQLite format 3\0" + b"\xff" * 84],
)
def test_a_file_that_is_no_database_is_refused_and_stays(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.db"
    path.write_bytes(content)
    for read_only in (False, True):
        with pytest.raises((Damaged, Refused)):
            perdure.open(f"sqlite:///{path}", read_only=read_only)
    assert path.read_bytes() == content


def test_an_empty_file_becomes_a_store(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    path.touch()
    with perdure.open(f"sqlite:///{path}") as store:
        assert store.verify().ok


def test_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Error):
        perdure.open(f"sqlite:///{tmp_path}")


@pytest.mark.parametrize("value", ["", "0", "-1", "one", "1.5", "99999999999", "1; DROP TABLE meta"])
def test_a_schema_number_that_is_none_is_damage(file: SqliteEngine, value: str) -> None:
    schema_upgrade.bring_up_to_date(file, STEPS)
    with schema_upgrade.changing(file) as script:
        script.query(migrate.Q.meta_put, name="schema", value=value)
    with pytest.raises(Damaged) as caught:
        schema_upgrade.bring_up_to_date(file, STEPS)
    assert caught.value.path == "meta.schema"


@pytest.mark.parametrize(
    ("name", "value"),
    [("epoch", value) for value in ("", "0", "-1", "x", "1.5", "\u00b2", "\u0663", "9" * 5000)]
    + [("uid", value) for value in ("", "x", "../../elsewhere", "A" * 32)]
    + [("partition", value) for value in ("", "..", "../../elsewhere", "a/b")],
)
def test_a_store_that_does_not_say_who_it_is_is_damage(engine: Engine, name: str, value: str) -> None:
    schema_upgrade.bring_up_to_date(engine)
    with schema_upgrade.changing(engine) as script:
        script.query(migrate.Q.meta_put, name=name, value=value)
    with pytest.raises(Damaged) as caught:
        perdure.open(engine.url)
    assert caught.value.path == f"meta.{name}"


def test_so_is_one_that_forgets_it_while_it_is_open(engine: Engine) -> None:
    with perdure.open(engine.url) as store:
        store.feed()  # the control
        with schema_upgrade.changing(engine) as script:
            script.query(migrate.Q.meta_put, name="epoch", value="9" * 5000)
        with pytest.raises(Damaged) as caught:
            store.feed()
        assert caught.value.path == "meta.epoch"


@pytest.mark.parametrize("suffix", ["-wal", "-journal"])
def test_what_is_left_of_a_file_that_is_gone_is_not_poured_into_a_new_one(tmp_path: Path, suffix: str) -> None:
    """SQLite would take a WAL or journal beside a new file for its own, and write its pages into it."""
    path = tmp_path / "a.db"
    left = tmp_path / f"a.db{suffix}"
    left.write_bytes(b"the only copy of something")
    with pytest.raises(Conflict) as caught:
        perdure.open(f"sqlite:///{path}")
    assert left.name in caught.value.message
    assert [each.name for each in tmp_path.iterdir()] == [left.name]
    left.write_bytes(b"")  # the control: an empty one holds nothing
    perdure.open(f"sqlite:///{path}").close()


def test_a_wal_without_its_file_does_not_bring_an_old_store_back(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    program = f"import os, perdure; kept = perdure.open('sqlite:///{path}').session('old'); os._exit(0)"
    subprocess.run([sys.executable, "-c", program], check=True)
    path.unlink()
    with pytest.raises(Conflict, match=r"a\.db-wal"):
        perdure.open(f"sqlite:///{path}")


def test_a_corrupted_page_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    perdure.open(f"sqlite:///{path}").close()
    content = bytearray(path.read_bytes())
    content[4096 : 2 * 4096] = b"\xa5" * 4096  # the first page after the schema's own: `meta`
    path.write_bytes(content)
    with pytest.raises((Damaged, Refused)):
        perdure.open(f"sqlite:///{path}")
    assert path.read_bytes() == bytes(content)


# -- dying in the middle ---------------------------------------------------------------------------


MIGRATE = """
import sys
from collections.abc import Iterator
from pathlib import Path
sys.path[:0] = [{tests!r}]
from stores.test_migrate import STEPS
from perdure.stores import schema_upgrade
from perdure.stores.sqlite import SqliteEngine
schema_upgrade.bring_up_to_date(SqliteEngine("", Path(sys.argv[1])), STEPS)
"""
POINTS = [
    "migrate.locked",
    "copy.filled",
    "copy.published",
    "migrate.copied",
    "migrate.step",
    "migrate.step:2",
    "migrate.applied",
    "migrate.committed",
]


def run(program: str, *args: str, crash_at: str = "") -> subprocess.CompletedProcess[str]:
    environment = os.environ | ({"PERDURE_CRASH_AT": crash_at} if crash_at else {})
    return forked.run("-c", program, *args, env=environment)


@pytest.mark.parametrize("point", POINTS)
def test_a_migration_killed_at_any_point_is_clean_at_the_next_open(file: SqliteEngine, point: str) -> None:
    schema_upgrade.bring_up_to_date(file, STEPS[:1])
    with schema_upgrade.changing(file) as script:
        script.run("INSERT INTO things (id, word) VALUES (1, 'a')")
    killed = run(MIGRATE.format(tests=str(Path(__file__).parents[1])), str(file.path), crash_at=point)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert schema_upgrade.schema_of(file, STEPS) == (3 if point == "migrate.committed" else 1)
    schema_upgrade.bring_up_to_date(file, STEPS)
    assert schema_upgrade.schema_of(file, STEPS) == 3
    assert ask(file, "SELECT id, word, size FROM things") == [(1, "a", 7)]
    assert ask(file, "SELECT id FROM others") == [(1,)]
    assert not [path for path in copies(file) if path.name.endswith(".partial")]
    assert all(schema_upgrade.schema_of(SqliteEngine("", copy), STEPS) == 1 for copy in copies(file))
    assert copies(file)


def test_control_the_crash_points_are_on_the_way(file: SqliteEngine) -> None:
    """A point that no migration reaches would prove nothing: the process would live."""
    schema_upgrade.bring_up_to_date(file, STEPS[:1])
    lived = run(MIGRATE.format(tests=str(Path(__file__).parents[1])), str(file.path), crash_at="no.such.point")
    assert lived.returncode == 0, lived.stderr


# -- many at once ----------------------------------------------------------------------------------


OPEN = """
import os, sys, traceback
from perdure.stores.core import open_core
where, count, folder = sys.argv[1], int(sys.argv[2]), sys.argv[3]
gate, go = os.pipe()
children = []
for number in range(count):
    pid = os.fork()
    if pid == 0:
        os.close(go)
        os.read(gate, 1)  # returns when the parent lets go
        try:
            core = open_core(where)
            core.tenant_id("default")
            text = core.uid
            core.close()
        except BaseException:
            text = traceback.format_exc()
        with open(f"{folder}/{number}", "w") as out:
            out.write(text)
        os._exit(0)
    children.append(pid)
os.close(go)
for pid in children:
    os.waitpid(pid, 0)
"""


def opened_at_once(where: str, count: int, folder: Path) -> list[str]:
    """What each of many processes, let go at the same moment, says: the uid of the store, or its error."""
    folder.mkdir()
    ran = run(OPEN, where, str(count), str(folder))
    assert ran.returncode == 0, ran.stderr
    return [path.read_text() for path in folder.iterdir()]


def test_64_processes_open_a_new_file_at_once(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    said = opened_at_once(f"sqlite:///{home}/a.db", 64, tmp_path / "said")
    assert len(said) == 64
    assert len(set(said)) == 1, "\n".join(set(said))
    with perdure.open(f"sqlite:///{home}/a.db") as store:
        assert store.verify().ok
    assert [path.name for path in home.iterdir()] == ["a.db"]


def test_control_a_process_that_cannot_open_says_so(tmp_path: Path) -> None:
    said = opened_at_once("sqlite:///nowhere/at/all.db", 2, tmp_path / "said")
    assert all("NotFound" in text for text in said)


def test_8_processes_open_a_new_schema_at_once(postgres_url: str, tmp_path: Path) -> None:
    said = opened_at_once(postgres_url, 8, tmp_path / "said")
    assert (len(said), len(set(said))) == (8, 1), "\n".join(set(said))


# -- databases of every schema that was ever released ----------------------------------------------


def test_there_is_a_fixture_of_every_schema() -> None:
    assert [path.name for path in sorted(FIXTURES.glob("*.sql"))] == [
        f"{step.number:04}.sql" for step in migrate.migrations()
    ]


@pytest.mark.parametrize("fixture", sorted(FIXTURES.glob("*.sql")), ids=lambda path: path.stem)
def test_an_old_database_is_migrated_folded_and_clean(tmp_path: Path, fixture: Path) -> None:
    path = tmp_path / "old.db"
    connection = apsw.Connection(str(path))
    for _ in connection.execute(fixture.read_text("utf-8")):
        pass
    for table, rows in filled(connection).items():
        assert rows, f"{table} is empty in {fixture.name}: the fixture must use every table"
    connection.close()
    assert schema_upgrade.schema_of(SqliteEngine("", path)) == int(fixture.stem)
    with perdure.open(f"sqlite:///{path}") as store:
        report = store.verify()
        assert report.problems == []
        assert report.counts.rows > 20
        assert store.session("main").get("branch") == "fix-2"
    core = open_core(f"sqlite:///{path}")
    core.close()


def filled(connection: apsw.Connection) -> dict[str, int]:
    names = [name for (name,) in connection.execute("SELECT name FROM tables WHERE name <> 'pruning'")]
    return {name: connection.execute(f"SELECT count(*) FROM {name}").get for name in names}
