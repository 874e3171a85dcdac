"""The files engine: segments that rotate, writers that share one lock, appends that fail, a cache that falls behind (P1, P9)."""

from __future__ import annotations

import errno
import os
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import perdure
from forked import environment
from perdure.artifacts import descriptors
from perdure.model import crash_points
from perdure.runtime.callers import caller_of
from perdure.stores.core import Core, open_core
from perdure.stores.store import Fault, FaultKind
from perdure_files.store import journal
from perdure_files.store.connection import FilesConnection
from perdure_files.store.engine import FilesEngine
from perdure_files.store.journal import LineLog
from perdure_files.store.layout import Layout
from stores.files import rebuilt, shared_writer
from stores.verbs import append, begin, everything, impatient, opened


class Stopped(BaseException):
    """As a Ctrl-C would, and nobody else's."""


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"files:///{tmp_path}/store"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "store"


def lines(folder: Path) -> int:
    return sum(len(Layout(folder).content(number).splitlines()) for number in Layout(folder).numbers())


@pytest.mark.parametrize("read_only", [False, True])
def test_a_file_is_no_folder_of_a_store(url, folder, read_only):
    folder.write_bytes(b"SQLite format 3")
    with pytest.raises(perdure.Invalid, match="store is a file") as caught:
        open_core(url, read_only=read_only)
    assert caught.value.path == "store"
    assert "sqlite:///FILE" in caught.value.hint
    assert folder.read_bytes() == b"SQLite format 3"


def test_a_log_holds_a_mark_only_while_its_last_line_stands_there(url):
    """A log that was put back and grew again is as long, and is another one (P3)."""
    with opened(url) as store:
        store.write(append, store.write(begin, "a"), "x")
        connection = store.core.lane._connection
        assert isinstance(connection, FilesConnection)
        log, mark = connection._journal, connection._mark
        segment = log.layout.segment(mark.segment)
        whole = segment.read_bytes()
        another = whole.replace(mark.check.encode(), mark.check[::-1].encode())
        for data, holds in ((whole, True), (whole + whole, True), (another, False), (whole[:-1], False)):
            segment.write_bytes(data)
            assert log.holds(mark) is holds
        segment.write_bytes(whole)


# -- what is appended --------------------------------------------------------------------------------------------------


def test_one_transaction_is_one_line_and_what_is_ephemeral_is_in_none(url, folder):
    with perdure.open(url) as store:
        session = store.session("a")
        before = lines(folder)
        store.atomic(lambda tx: [tx.session("a").say("user", "1"), tx.session("b").say("user", "2")])
        assert lines(folder) == before + 1
        with session.lock("deploy", ttl="30s"):
            pass
        held = lines(folder)
        session.turns()
        caller_of(store).core.write(lambda tx: None, actor="me", tenant=1)
        assert lines(folder) == held


def test_tables_of_the_user_do_not_belong_into_a_cache(url):
    with perdure.open(url) as store, pytest.raises(perdure.Refused, match="needs a store in an SQLite file"):
        store.atomic(lambda tx: tx.sql("CREATE TABLE mine (x)"))


def test_segments_rotate_and_old_ones_are_packed(url, folder, monkeypatch):
    monkeypatch.setattr(journal, "SEGMENT_MAX_BYTES", 4_000)
    monkeypatch.setattr(FilesEngine, "journal", lambda engine: LineLog(engine.layout, 4_000))
    with opened(url) as store:
        stream = store.write(begin, "a")
        for number in range(40):
            store.write(append, stream, str(number))
    names = sorted(path.name for path in (folder / "log").iterdir())
    assert names[0] == "000001.jsonl.zst"
    assert names[-2:] == [f"{len(names) - 1:06}.jsonl", f"{len(names):06}.jsonl"]
    assert list(everything(url)) == [str(number) for number in range(40)]
    rebuilt.check(folder)
    shutil.rmtree(folder / ".perdure")
    assert len(everything(url)) == 40


def test_a_log_whose_last_segments_are_gone_goes_on_in_a_new_one(url, folder, monkeypatch):
    monkeypatch.setattr(FilesEngine, "journal", lambda engine: LineLog(engine.layout, 4_000))
    with opened(url) as store:
        stream = store.write(begin, "a")
        for number in range(40):
            store.write(append, stream, str(number))
    for path in (folder / "log").glob("*.jsonl"):
        path.unlink()
    (folder / ".git").mkdir()  # which does that, when it goes to another branch
    left = max(Layout(folder).numbers())
    with opened(url) as store:  # the log is not the one that was seen: another world
        assert store.core.epoch == 2
        stream = store.write(begin, "a")  # the cache was made anew, and its numbers are its own
        kept = len(store.contents(stream))
        assert 0 < kept < 40
        store.write(append, stream, "goes on")
        assert store.contents(stream) == [*map(str, range(kept)), "goes on"]
    assert Layout(folder).numbers()[-1] == left + 1
    with opened(url) as store:
        assert store.core.epoch == 2
    rebuilt.check(folder)


@pytest.mark.parametrize("point", ["files.rotated", "files.before_append"])
def test_a_crash_while_a_segment_begins_loses_nothing(url, folder, monkeypatch, point):
    monkeypatch.setattr(FilesEngine, "journal", lambda engine: LineLog(engine.layout, 1_500))

    def stop() -> None:
        raise Stopped

    said = 0
    with opened(url) as store:
        stream = store.write(begin, "a")
    for attempt in range(6):
        with opened(url) as store:
            disarm = crash_points.arm(point, stop) if attempt % 2 else (lambda: None)
            try:
                store.write(append, stream, str(said))
                said += 1
            except Stopped:
                pass
            finally:
                disarm()
    assert set(everything(url)) >= {str(number) for number in range(said)}
    rebuilt.check(folder)


# -- appends that fail -------------------------------------------------------------------------------------------------


class Disk:
    """The operating system, as the log uses it, on a disk that fails."""

    def __init__(self, **failing: Any) -> None:
        self.failing = failing

    def __getattr__(self, name: str) -> Any:
        return self.failing.get(name) or getattr(os, name)


def broken(number: int) -> Any:
    def fail(*_: Any) -> Any:
        raise OSError(number, os.strerror(number))

    return fail


def short(fd: int, data: bytes) -> int:
    return os.write(fd, data[: len(data) // 2])


@pytest.mark.parametrize(
    ("failing", "error"),
    [
        ({"write": broken(errno.ENOSPC)}, perdure.Full),
        ({"write": broken(errno.EIO)}, perdure.Unavailable),
        ({"write": short}, perdure.Full),
        ({"fdatasync": broken(errno.EIO)}, perdure.Unavailable),
        ({"write": short, "ftruncate": broken(errno.EIO)}, perdure.Unavailable),
    ],
)
def test_an_append_that_fails_is_never_acknowledged_and_leaves_a_log_that_goes_on(
    url, folder, monkeypatch, failing, error
):
    with opened(url) as store:
        stream = store.write(begin, "a")
        store.write(append, stream, "before")
        for module in (journal, descriptors):
            monkeypatch.setattr(module, "os", Disk(**failing))
        with pytest.raises(error):
            store.write(append, stream, "failed")
        monkeypatch.undo()
        store.write(append, stream, "after")
        assert store.contents(stream) == ["before", "after"]
    rebuilt.check(folder)


def test_what_could_not_be_taken_back_is_unknown_and_not_repeated(url, monkeypatch):
    with opened(url) as store:
        stream = store.write(begin, "a")
        failing = Disk(fdatasync=broken(errno.EIO), ftruncate=broken(errno.EIO))
        for module in (journal, descriptors):
            monkeypatch.setattr(module, "os", failing)
        with pytest.raises(perdure.Unavailable, match="outcome is not known"):
            store.write(append, stream, "perhaps")
        monkeypatch.undo()
        store.write(append, stream, "after")
        assert store.contents(stream) == ["perhaps", "after"]


def test_a_cache_that_cannot_be_committed_is_behind_and_what_was_appended_counts(url, folder, monkeypatch):
    with opened(url) as store:
        stream = store.write(begin, "a")
        put = FilesConnection._commit

        def failing(connection: FilesConnection) -> None:
            monkeypatch.setattr(connection._cache, "write", broken_cache)
            put(connection)

        def broken_cache(*_: Any, **__: Any) -> None:
            monkeypatch.undo()
            raise Fault(FaultKind.FULL, "the cache has no room")

        monkeypatch.setattr(FilesConnection, "_commit", failing)
        store.write(append, stream, "kept")
        assert store.contents(stream) == ["kept"]
        store.write(append, stream, "and on")
        assert store.contents(stream) == ["kept", "and on"]
    rebuilt.check(folder)


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is forbidden to root")
def test_a_log_that_may_not_be_read_is_an_error_of_ours(url, folder):
    with perdure.open(url) as store:
        store.session("a")
        (folder / "log" / "000001.jsonl").chmod(0)
        with pytest.raises(perdure.Error):
            store.session("a").say("user", "x")
        (folder / "log" / "000001.jsonl").chmod(0o600)


# -- several at once ---------------------------------------------------------------------------------------------------


def test_an_acknowledged_line_that_was_torn_is_not_called_one_that_never_was(url, folder):
    with perdure.open(url) as store:
        store.session("a").say("user", "acknowledged")
    log = folder / "log" / "000001.jsonl"
    log.write_bytes(log.read_bytes()[:-30])
    with pytest.raises(perdure.Damaged, match="now it ends within a line"):
        perdure.open(url)
    shutil.rmtree(folder / ".perdure")  # as the hint says, and as it is in a clone
    with perdure.open(url) as store:
        (found,) = store.verify().problems
        assert "torn: the rest of it is missing" in str(found)


def test_several_processes_write_one_log(url, folder):
    with opened(url):
        pass
    program = [sys.executable, shared_writer.__file__, url]
    writers = [subprocess.Popen([*program, str(number), "25"], env=environment()) for number in range(3)]
    assert [writer.wait(120) for writer in writers] == [0, 0, 0]
    stored = everything(url)
    assert set(stored) == {f"{name}.{number}" for name in range(3) for number in range(25)}
    assert set(stored.values()) == {1}
    rebuilt.check(folder)


def test_many_open_a_new_store_at_once(url):
    cores: list[Core] = []
    threads = [threading.Thread(target=lambda: cores.append(open_core(url))) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({core.uid for core in cores}) == 1
    for core in cores:
        core.close()


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize("cached", [False, True])
def test_a_store_whose_log_is_gone_is_not_replaced_by_an_empty_one(url, folder, read_only, cached):
    """Where the log was once, nothing begins anew by itself: the cache may be all that is left of it."""
    with perdure.open(url) as store:
        store.session("a").say("user", "the cache has it still")
    (folder / "log").rename(folder / "elsewhere")
    if not cached:
        for path in Layout(folder).cache.parent.glob("cache.db*"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    with pytest.raises(perdure.NotFound, match="the log is gone") as caught:
        perdure.open(url, read_only=read_only)
    assert str(folder / ".perdure") in caught.value.hint
    (folder / "elsewhere").rename(folder / "log")
    with perdure.open(url) as store:
        assert [turn.content for turn in store.session("a").turns()] == ["the cache has it still"]


def test_who_removes_what_was_made_from_a_log_that_is_gone_begins_anew(url, folder):
    with perdure.open(url) as store:
        store.session("a").say("user", "let it go")
    shutil.rmtree(folder / "log")
    shutil.rmtree(folder / ".perdure")
    with pytest.raises(perdure.NotFound, match="no store yet"):
        perdure.open(url, read_only=True)
    with perdure.open(url) as store:
        assert [*store.sessions()] == []


def test_a_reader_sees_what_a_writer_elsewhere_said(url):
    with opened(url) as one, opened(url) as other:
        stream = one.write(begin, "a")
        for number in range(5):
            one.write(append, stream, str(number))
            assert other.contents(stream)[-1] == str(number)


def test_who_waits_too_long_for_the_lock_is_told(url, folder):
    with opened(url) as store:
        store.write(begin, "a")
        held = LineLog(Layout(folder))
        held.lock(30.0)
        with pytest.raises(perdure.TimedOut), impatient(store):
            store.write(begin, "b")
        held.close()
        store.write(begin, "b")


# -- opening -----------------------------------------------------------------------------------------------------------


def test_a_store_is_read_without_a_cache_and_nothing_is_made(url, folder):
    with perdure.open(url) as store:
        store.session("a").say("user", "hello")
    shutil.rmtree(folder / ".perdure")
    with perdure.open(url, read_only=True) as store:
        assert store.session("a").turns()[0].content == "hello"
        with pytest.raises(perdure.ReadOnly):
            store.session("a").say("user", "no")
    assert not (folder / ".perdure").exists()


def test_reading_what_is_not_there_makes_nothing(url, folder):
    with pytest.raises(perdure.NotFound):
        perdure.open(url, read_only=True)
    assert not folder.exists()


def test_a_cache_that_is_no_database_is_made_again(url, folder):
    with perdure.open(url) as store:
        store.session("a").say("user", "hello")
    Layout(folder).cache.write_bytes(b"garbage" * 1_000)
    with perdure.open(url) as store:
        assert store.session("a").turns()[0].content == "hello"
        assert store.verify().ok


def test_a_parent_that_is_missing_is_said(tmp_path):
    with pytest.raises(perdure.NotFound, match=r"make it first; .* four slashes"):
        perdure.open(f"files:///{tmp_path}/no/where")


@pytest.mark.parametrize("scheme", ["files", "sqlite"])
def test_three_slashes_before_a_path_from_the_root_are_noticed(tmp_path, monkeypatch, scheme):
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    with pytest.raises(perdure.NotFound, match="there is no folder") as caught:
        perdure.open(f"{scheme}://{tmp_path}/store")
    meant = re.fullmatch(r"did you mean (\S+) \? .* four slashes", caught.value.hint)
    assert meant is not None
    perdure.open(meant[1]).close()
    assert (tmp_path / "store").exists()
