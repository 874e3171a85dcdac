"""A file that a store holds: no second SQLite library in this process takes it, or its WAL, unnoticed (P1)."""

from __future__ import annotations

import contextlib
import logging
import sqlite3
import threading

import pytest

import forked
import perdure
from faults.second_library import attach
from perdure.errors import Refused
from perdure.stores import held_files
from perdure.stores.tx import LOG


def said(store) -> list[object]:
    return [turn.content for turn in store.session("a").turns(last=100)]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "my agent.db"


@pytest.fixture
def store(path):
    with perdure.open(f"sqlite:///{path}") as opened:
        yield opened


def names(path):
    yield path
    yield str(path)
    yield str(path).encode()
    yield str(path.parent / "." / path.name)


def test_pythons_own_library_is_refused_while_the_store_is_open(store, path, monkeypatch):
    for name in names(path):
        with pytest.raises(Refused, match="open as a store"):
            sqlite3.connect(name)
    for uri in (path.as_uri(), f"{path.as_uri()}?mode=ro", f"{path.as_uri()}?immutable=1"):
        with pytest.raises(Refused, match=r"store\.query"):
            sqlite3.connect(uri, uri=True)
    monkeypatch.chdir(path.parent)
    with pytest.raises(Refused):
        sqlite3.connect(path.name)
    link = path.with_name("link.db")
    link.symlink_to(path)
    with pytest.raises(Refused):
        sqlite3.connect(link)


def test_other_files_and_closed_stores_are_nobodys_business(store, path, tmp_path):
    sqlite3.connect(":memory:").close()
    sqlite3.connect(tmp_path / "other.db").close()
    store.close()
    with contextlib.closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT count(*) FROM v_turns").fetchone() == (0,)


def test_the_cache_of_a_files_store_is_held_too(tmp_path):
    with perdure.open(f"files:///{tmp_path}/state") as store:
        store.session("a").say("user", "x")
        with pytest.raises(Refused):
            sqlite3.connect(store._caller.core.engine.path)


def test_another_process_may_read_it(store, path):
    store.session("a").say("user", "one")
    text = "import sqlite3, sys; print(sqlite3.connect(sys.argv[1]).execute('SELECT count(*) FROM v_turns').fetchone())"
    done = forked.run("-c", text, str(path))
    assert done.stdout.strip() == "(1,)"
    store.session("a").say("user", "two")
    assert said(store) == ["one", "two"]


def test_a_wal_that_was_taken_away_is_noticed_and_nothing_is_lost(store, path, caplog):
    session = store.session("a")
    for number in range(5):
        session.say("user", str(number))
        attach(str(path))  # which takes our locks and removes the WAL
        assert len(session.turns()) == number + 1  # a reader is there too
    assert said(store) == ["0", "1", "2", "3", "4"]
    assert any(
        "another SQLite library" in record.message for record in caplog.records if record.levelno == logging.WARNING
    )
    with perdure.open(f"sqlite:///{path}") as again:
        assert said(again) == ["0", "1", "2", "3", "4"]
        assert again.verify().ok


def test_all_stores_on_the_file_come_back(store, path):
    with perdure.open(f"sqlite:///{path}") as second:
        for number in range(4):
            (store, second)[number % 2].session("a").say("user", str(number))
            attach(str(path))
        assert said(store) == said(second) == ["0", "1", "2", "3"]


def test_a_reader_that_is_in_use_is_waited_for(store, path):
    session = store.session("a")
    session.say("user", "one")
    reading, go = threading.Event(), threading.Event()

    def hold(reads):
        with reads.snapshot():
            reads.query(LOG.stream_head, stream=1)
            reading.set()
            go.wait(10)

    core = store._caller.core
    thread = threading.Thread(target=lambda: core.read(hold, tenant=0))
    thread.start()
    reading.wait(10)
    attach(str(path))
    go.set()
    session.say("user", "two")
    thread.join()
    assert said(store) == ["one", "two"]


def test_control_without_the_look_it_is_lost(store, path, monkeypatch):
    session = store.session("a")
    session.say("user", "one")
    connection = store._caller.core.lane._connection
    monkeypatch.setattr(connection, "_wal", None)
    attach(str(path))
    session.say("user", "two")  # acknowledged, and in a file without a name
    with contextlib.closing(sqlite3.connect(":memory:")) as other:
        other.execute("ATTACH ? AS other", (str(path),))
        assert other.execute("SELECT count(*) FROM other.turns").fetchone() == (1,)


def test_stores_that_come_and_go_are_no_second_library(path, caplog):
    perdure.open(f"sqlite:///{path}").close()

    def come_and_go(name: int) -> None:
        for number in range(10):
            with perdure.open(f"sqlite:///{path}") as opened:
                opened.session(f"s{name}").say("user", str(number))

    threads = [threading.Thread(target=come_and_go, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with perdure.open(f"sqlite:///{path}") as opened:
        assert opened.query("SELECT count(*) AS n FROM v_turns") == [{"n": 40}]
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


def test_a_closed_store_is_forgotten(path):
    perdure.open(f"sqlite:///{path}").close()
    assert held_files.place_of(str(path)) not in held_files._files


@pytest.mark.parametrize("statx", [True, False], ids=["statx", "no statx"])
def test_a_wal_is_known_by_the_same_place_whoever_looks(tmp_path, monkeypatch, statx):
    if not statx:
        monkeypatch.setattr(held_files, "_statx_call", lambda: None)
    file = tmp_path / "é.db-wal"
    assert held_files.FileLook(str(file))() is None
    file.touch()
    first = held_files.FileLook(str(file))()
    assert first == held_files.place_of(str(file)) == (file.stat().st_dev, file.stat().st_ino)
    (tmp_path / "other").touch()
    (tmp_path / "other").rename(file)
    assert held_files.FileLook(str(file))() != first
