"""Reading a log into the cache, stopped or failing in the middle; and whoever else has a hand on the log (P1, P3, P5)."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path
from typing import Any

import apsw
import pytest

import perdure
from perdure.interchange.move import Q as BRING
from perdure.model import crash_points
from perdure.stores.core import open_core
from perdure.stores.sqlite import SqliteConnection
from perdure.stores.store import Fault, FaultKind
from perdure.upkeep.findings import Severity
from perdure.upkeep.health import examine
from perdure_files.store import connection as connections
from perdure_files.store.engine import FilesEngine
from perdure_files.store.journal import LineLog
from perdure_files.store.layout import Layout
from perdure_files.store.load import Loader
from stores.files import rebuilt
from stores.verbs import append, begin, everything, opened


class Stopped(BaseException):
    """As a Ctrl-C would, and nobody else's."""


def stop(*_: Any) -> Any:
    raise Stopped


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"files:///{tmp_path}/store"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "store"


def behind(url: str, folder: Path, count: int = 20) -> bytes:
    """A store whose cache is behind its log, as after a crash of the machine; the cache's bytes are returned too."""
    with opened(url) as store:
        stream = store.write(begin, "a")
        store.write(append, stream, "seen")
    cache = Layout(folder).cache.read_bytes()
    with opened(url) as store:
        for number in range(count):
            store.write(append, stream, str(number))
    put_back(folder, cache)
    return cache


def put_back(folder: Path, cache: bytes) -> None:
    for name in ("cache.db-wal", "cache.db-shm"):
        Layout(folder).cache.with_name(name).unlink(missing_ok=True)
    Layout(folder).cache.write_bytes(cache)


def epoch(url: str) -> int:
    with opened(url) as store:
        return store.core.epoch


# -- a cache that cannot be written ------------------------------------------------------------------------------------


def full_after(monkeypatch: pytest.MonkeyPatch, kind: FaultKind, *, gone: bool) -> None:
    """Let the disk of the cache fail at the second line; gone: SQLite has rolled everything back, as it does when full."""
    line, told = Loader._line, list[int]()

    def failing(loader: Loader, *args: Any) -> None:
        told.append(1)
        if len(told) > 1:
            if gone and loader._cache.raw.in_transaction:
                loader._cache.raw.execute("ROLLBACK")
            raise Fault(kind, "no more")
        line(loader, *args)

    monkeypatch.setattr(Loader, "_line", failing)


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("gone", [True, False])
@pytest.mark.parametrize("kind", [FaultKind.FULL, FaultKind.IO])
def test_a_cache_that_cannot_be_written_is_no_damage_of_the_log(url, folder, monkeypatch, kind, gone, known):
    behind(url, folder)
    if not known:
        Layout(folder).cache.unlink()
    full_after(monkeypatch, kind, gone=gone)
    with pytest.raises((perdure.Full, perdure.Unavailable)):
        epoch(url)
    monkeypatch.undo()
    assert not [*(folder / ".perdure").glob("set-aside/*")]
    assert epoch(url) == 1
    assert len(everything(url)) == 21
    rebuilt.check(folder)


def test_a_database_that_is_really_full_is_no_damage_of_the_log(url, folder, monkeypatch):
    behind(url, folder, 200)
    begin_cache = SqliteConnection.begin

    def small(connection: SqliteConnection) -> None:
        if connection.raw.filename:  # memory is not full
            connection.raw.pragma("cache_size", 2)
            connection.raw.pragma("max_page_count", connection.raw.pragma("page_count"))
        begin_cache(connection)

    monkeypatch.setattr(SqliteConnection, "begin", small)
    with pytest.raises(perdure.Full) as told:
        epoch(url)
    assert "read_only=True" in told.value.hint
    with perdure.open(url, read_only=True) as store:  # which needs no room
        assert store.verify().ok
    monkeypatch.undo()
    assert not [*(folder / ".perdure").glob("set-aside/*")]
    assert len(everything(url)) == 201
    rebuilt.check(folder)


# -- lost lines ----------------------------------------------------------------------------------------------------------


def lose_a_line(folder: Path) -> None:
    path = folder / "log" / "000001.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    del lines[-3]
    path.write_bytes(b"".join(lines))
    (folder / ".git").mkdir()  # else it is damage, and refused (test_shorter.py)


def test_who_finds_lines_lost_and_dies_has_raised_the_epoch(url, folder, monkeypatch):
    behind(url, folder)
    lose_a_line(folder)
    monkeypatch.setattr(FilesEngine, "connect", stop)  # whoever would raise it afterwards, and needs one
    with contextlib.suppress(Stopped):
        epoch(url)
    monkeypatch.undo()
    assert epoch(url) == 2
    assert epoch(url) == 2


def test_who_dies_right_after_the_epoch_rose_in_the_log_raises_it_again(url, folder):
    behind(url, folder)
    lose_a_line(folder)
    disarm = crash_points.arm("files.synced", stop)
    with pytest.raises(Stopped):
        epoch(url)
    disarm()
    assert epoch(url) == 3  # what was read before is read again: more is safe, less is not
    assert epoch(url) == 3


def test_who_has_the_store_open_raises_the_epoch_for_lost_lines_too(url, folder):
    cache = behind(url, folder)
    lose_a_line(folder)
    put_back(folder, cache)
    connection = FilesEngine(url, folder)._files(FilesEngine(url, folder).journal(), unsure=True)
    connection.begin()
    connection.rollback()
    connection.close()
    assert epoch(url) == 2


def test_control_a_connection_that_only_loads_leaves_the_epoch(url, folder, monkeypatch):
    behind(url, folder)
    lose_a_line(folder)
    monkeypatch.setattr(connections, "raised", lambda _, facts, mark: (facts, mark))
    assert epoch(url) == 1


def test_an_older_line_about_the_store_does_not_lower_the_epoch(url, folder):
    with opened(url) as store:
        store.write(begin, "a")
    path = folder / "log" / "000001.jsonl"
    first = path.read_bytes().splitlines(keepends=True)[0]
    Layout(folder).cache.unlink()
    (folder / ".perdure" / "head").unlink()
    assert epoch(url) == 2
    with path.open("ab") as file:
        file.write(first)
    assert epoch(url) == 2


# -- others ----------------------------------------------------------------------------------------------------------------


def test_a_torn_end_in_a_later_segment_than_the_mark_is_cut_off(url, folder, monkeypatch):
    monkeypatch.setattr(FilesEngine, "journal", lambda engine: LineLog(engine.layout, 4_000))
    behind(url, folder)
    last = Layout(folder).segment(Layout(folder).numbers()[-1])
    assert last.name != "000001.jsonl"
    with last.open("ab") as file:
        file.write(b'{"v":1,"prev":"torn')
    assert epoch(url) == 1  # it was never acknowledged: nothing is lost
    assert len(everything(url)) == 21
    rebuilt.check(folder)


def test_a_torn_end_is_kept_before_it_is_cut_off(url, folder, monkeypatch):
    """Killed in between it is there twice, and never nowhere."""
    behind(url, folder)
    with Layout(folder).segment(1).open("ab") as file:
        file.write(b"half-a-line")
    cut, kept = LineLog.cut, list[bool]()

    def look(*args: Any) -> None:
        kept.append(any("half-a-line" in path.read_text() for path in Layout(folder).aside.glob("*.json")))
        cut(*args)

    monkeypatch.setattr(LineLog, "cut", look)
    assert len(everything(url)) == 21
    assert kept == [True]
    assert b"half-a-line" not in Layout(folder).segment(1).read_bytes()


def test_what_another_one_wrote_is_synced_before_the_cache_has_it(url, folder, monkeypatch):
    """Whoever wrote it may have died before that: who builds on it must not lose what is below."""
    behind(url, folder)
    steps: list[str] = []
    sync, put_mark = LineLog.sync, connections.put_mark
    monkeypatch.setattr(LineLog, "sync", lambda *args: (steps.append("sync"), sync(*args))[1])
    monkeypatch.setattr(connections, "put_mark", lambda *args: (steps.append("cache"), put_mark(*args))[1])
    assert len(everything(url)) == 21
    assert steps == ["sync", "cache"]


@pytest.mark.parametrize("by", [-40, 40])
def test_a_log_that_somebody_else_changes_during_an_append_acknowledges_nothing(url, folder, by):
    with opened(url) as store:
        stream = store.write(begin, "a")
        store.write(append, stream, "before")
        path = folder / "log" / "000001.jsonl"

        def change() -> None:
            disarm()
            os.truncate(path, path.stat().st_size + by)

        disarm = crash_points.arm("files.before_append", change)
        with pytest.raises(perdure.Unavailable, match="put back, moved or replaced"):
            store.write(append, stream, "not acknowledged")
    assert list(everything(url)).count("not acknowledged") <= 1


def test_a_forked_child_does_not_keep_the_lock_of_a_connection_that_was_closed(url, folder):
    with opened(url) as store:
        stream = store.write(begin, "a")
        journal = FilesEngine(url, folder).journal()
        journal.lock(1.0)
        child = os.fork()
        if not child:
            signal.pause()
        try:
            journal.close()
            other = FilesEngine(url, folder).journal()
            assert other.try_lock()
            other.close()
            store.write(append, stream, "goes on")
        finally:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


def test_an_epoch_whose_append_has_no_known_outcome_is_an_error_of_ours(url, folder, monkeypatch):
    with opened(url) as store:
        store.write(begin, "a")
    Layout(folder).cache.unlink()
    (folder / ".perdure" / "head").unlink()

    def failing(*_: Any) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fdatasync", failing)
        patched.setattr(os, "ftruncate", failing)
        with pytest.raises(perdure.Unavailable):
            epoch(url)
    assert epoch(url) >= 2


def test_what_killed_writers_of_views_left_is_removed_and_what_is_being_written_is_not(url, folder):
    behind(url, folder)
    dead, alive = (folder / ".perdure" / f"view.{name}.partial" for name in ("dead", "alive"))
    for path in (dead, alive):
        path.write_text("half a page")
    os.utime(dead, (0, 0))
    with opened(url):
        assert (dead.exists(), alive.exists()) == (False, True)


# -- a cache that is damaged ------------------------------------------------------------------------------------------


def damage(folder: Path) -> None:
    """Garbage in the pages where the events begin, and what finds them."""
    path = Layout(folder).cache
    with contextlib.closing(apsw.Connection(str(path))) as raw:
        pages = [
            page for (page,) in raw.execute("SELECT rootpage FROM sqlite_schema WHERE tbl_name = 'events'") if page
        ]
        size = raw.pragma("page_size")
        raw.pragma("wal_checkpoint", "truncate")
    with path.open("r+b") as file:
        for page in pages:
            file.seek((page - 1) * size)
            file.write(b"\xa5" * size)


@pytest.mark.parametrize("while_open", [True, False])
def test_a_cache_that_turns_out_to_be_damaged_is_made_anew_by_who_opens_the_store_next(url, folder, while_open):
    """A worker that is started again must not meet it for ever, and nobody is sent to a backup: the log has it all."""
    behind(url, folder)
    before, was = everything(url), epoch(url)
    if not while_open:
        damage(folder)
    with opened(url) as store:
        if while_open:
            damage(folder)
        with pytest.raises(perdure.Damaged, match="open the store again") as told:
            store.core.read(lambda reads: reads.query(BRING.events_count), tenant=0)
    assert "restore" not in told.value.hint
    assert everything(url) == before
    assert epoch(url) == was
    rebuilt.check(folder)


def test_who_only_looks_removes_nothing_and_says_what_to_remove(url, folder):
    behind(url, folder)
    with opened(url):
        pass
    damage(folder)
    with contextlib.closing(open_core(url, read_only=True)) as core, pytest.raises(perdure.Damaged) as told:
        core.read(lambda reads: reads.query(BRING.events_count), tenant=0)
    assert Layout(folder).cache.exists()
    assert f"rm {Layout(folder).cache}" in told.value.hint
    fixes = {finding.fix for finding in examine(url).findings if finding.severity is Severity.ERROR}
    assert fixes
    assert all(f"rm {Layout(folder).cache}" in fix for fix in fixes)


def test_control_a_cache_that_somebody_else_made_meanwhile_is_not_removed(url, folder, tmp_path):
    behind(url, folder)
    cache = Layout(folder).cache
    with opened(url) as store:
        damage(folder)
        cache.rename(tmp_path / "damaged")
        cache.write_bytes(b"another")
        with contextlib.suppress(perdure.Error):
            store.core.read(lambda reads: reads.query(BRING.events_count), tenant=0)
        assert cache.read_bytes() == b"another"


def test_a_cache_that_is_gone_while_the_store_is_open_is_said_to_be(url, folder):
    behind(url, folder)
    with opened(url) as store:
        Layout(folder).cache.unlink()
        with pytest.raises(Fault, match="while it was open") as told:
            store.core.engine.connect()
    assert "open the store again" in told.value.hint
