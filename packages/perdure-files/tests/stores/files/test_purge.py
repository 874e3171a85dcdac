"""What was pruned is in no file of a files store any more; killed anywhere, the log is whole and says the same (P1, P5, P6)."""

from __future__ import annotations

import os
import shutil
import signal
import threading
from collections import Counter
from pathlib import Path

import pytest

import forked
import perdure
from perdure.artifacts.compress import zstd
from perdure.cli.main import cli
from perdure.model import crash_points
from perdure.runtime.callers import caller_of
from perdure.stores.core import open_core
from perdure.stores.store import Fault, FaultKind
from perdure.upkeep import health
from perdure_files.store import folder_access, purge
from perdure_files.store.connection import FilesConnection
from perdure_files.store.engine import FilesEngine
from perdure_files.store.journal import START, LineLog, LogMark
from perdure_files.store.layout import Layout
from perdure_files.store.line import FORMAT, FoundLine, Line, Piece, written
from stores.files import purging, rebuilt
from stores.files.purging import check, copied, retained, state, talked, words_in

MANY, ONE = 6_000, 10_000_000  # so long are segments: then there are many of them, or one
in_many_segments = pytest.mark.parametrize("segment_bytes", [MANY], indirect=True)
in_one_segment = pytest.mark.parametrize("segment_bytes", [ONE], indirect=True)


@pytest.fixture(params=[MANY, ONE])
def segment_bytes(request) -> int:
    return request.param


@pytest.fixture
def url(tmp_path, monkeypatch, segment_bytes) -> str:
    monkeypatch.setattr(FilesEngine, "journal", lambda engine: LineLog(engine.layout, segment_bytes))
    talked(f"files:///{tmp_path}/store")
    return f"files:///{tmp_path}/store"


@pytest.fixture
def folder(tmp_path) -> Path:
    return tmp_path / "store"


@pytest.fixture
def emptied(url, monkeypatch) -> list[str]:
    """The words that went from the cache, and that still stand in the log."""
    with monkeypatch.context() as patched:
        patched.setattr(FilesEngine, "purge", lambda _engine: 0)
        return retained(url)


def purged(url: str) -> int:
    core = open_core(url)
    try:
        return core.engine.purge()
    finally:
        core.close()


# -- what goes ---------------------------------------------------------------------------------------------------------


@in_many_segments
def test_packed_segments_are_among_them(url, folder):
    words = retained(url)
    assert (folder / "log" / "000001.jsonl.zst").exists()
    assert not words_in(folder, words)


def test_no_file_holds_what_was_pruned_and_all_else_is_as_it_was(url, folder):
    words = retained(url)
    assert len(words) > purging.ROUNDS
    assert not words_in(folder, words)
    assert words_in(folder, ["secret-question-011"])
    kept = state(url)
    check(url, folder, kept)
    shutil.rmtree(folder / ".perdure")
    assert state(url)[1] == kept[1]


def test_nothing_holds_it_while_the_store_is_open_either(url, folder):
    with perdure.open(url) as store:
        store.session("a").turns()
        store.retain(purging.RULE, dry_run=False)
        assert not words_in(folder, ["secret-question-001", "secret-answer-003"])


def test_control_without_the_purge_the_words_stay(emptied, folder):
    assert words_in(folder, emptied) == {*emptied}


def test_control_a_cache_that_is_not_scrubbed_keeps_them(url, emptied, folder, monkeypatch):
    monkeypatch.setattr(purge.Q, "scrubbed", purge.Q.drained)
    purged(url)
    assert words_in(folder, emptied)


def test_only_lines_that_lost_something_change_and_they_say_what_they_were(url, emptied, folder):
    before = lines(folder)
    assert purged(url) == 0
    after = lines(folder)
    changed = [(old, new) for old, new in zip(before, after, strict=False) if old != new]
    assert len(after) <= len(before) + 1  # the head of a new segment
    assert changed
    for old, new in changed:
        assert new.line.was == [old.check]
        assert (new.line.prev, new.line.tx, new.line.at) == (old.line.prev, old.line.tx, old.line.at)
        for had, has in zip(old.line.events, new.line.events, strict=True):
            assert (had.hash, had.commitment, had.seq) == (has.hash, has.commitment, has.seq)
    assert any(not event.salt and not bytes(event.body) for _, new in changed for event in new.line.events)


def lines(folder: Path) -> list[FoundLine]:
    entries = [each for _, found in LineLog(Layout(folder)).read_on(START) for _, each in found]
    assert not [each for each in entries if isinstance(each, Piece)]
    return [each._replace(start=0, end=0) for each in entries if isinstance(each, FoundLine)]


ROLES = [*enumerate(["user", "assistant"] * 3)]


def test_a_line_can_lose_one_body_after_the_other(tmp_path):
    url, folder = f"files:///{tmp_path}/store", tmp_path / "store"
    with perdure.open(url) as store:
        session = store.session("a")
        for word in ("secret", "later"):
            store.atomic(lambda tx, word=word: [tx.session("a").say(role, f"{word}-{n}") for n, role in ROLES])
        turns = session.turns(after=0, limit=100)
        for upto, gone in ((turns[2], "secret-1"), (turns[3], "secret-2")):
            session.summarise(upto=upto.seq, text="summary", from_=turns[0].seq)
            store.retain(perdure.Retention(turns=0), dry_run=False)
            assert not words_in(folder, [gone])
        store.session("a").say("user", "more")
    assert max(len(each.line.was) for each in lines(folder)) == 2
    rebuilt.check(folder)


def test_repeated_it_changes_nothing(url, folder):
    retained(url)
    before = {path.name: path.read_bytes() for path in (folder / "log").iterdir()}
    assert purged(url) == 0
    assert {path.name: path.read_bytes() for path in (folder / "log").iterdir()} == before


def test_of_a_line_after_the_mark_that_follows_a_rewritten_one_nothing_is_missing(url, folder):
    """A cache that is behind looks for what a line follows among all checksums that lines ever had."""
    behind = shutil.copytree(folder / ".perdure", folder.with_name("behind"))
    retained(url)
    with perdure.open(url) as store:
        store.session("a").say("user", "more")
        kept = caller_of(store).core.epoch
    shutil.rmtree(folder / ".perdure")
    shutil.copytree(behind, folder / ".perdure")
    with perdure.open(url) as store:
        assert caller_of(store).core.epoch >= kept
        assert store.verify().ok
    rebuilt.check(folder)


FOLLOWED = "a" * 32, "b" * 32


@pytest.mark.parametrize(("followed", "missing"), [*((each, 0) for each in FOLLOWED), ("c" * 32, 1)])
def test_a_line_that_git_brings_later_may_follow_any_checksum_that_a_line_before_the_mark_had(
    tmp_path, followed, missing
):
    layout = Layout(tmp_path)
    layout.make()
    rewritten, check = written(Line(FORMAT, "", was=[*FOLLOWED]))
    last, check = written(Line(FORMAT, check))
    late, _ = written(Line(FORMAT, followed))
    layout.segment(1).write_bytes(rewritten + last + late)
    size = len(rewritten + last)
    (_, entries), *_ = LineLog(layout).read_on(LogMark(1, size - 1, check, size))
    assert len([each for _, each in entries if isinstance(each, Piece)]) == missing


@in_many_segments
def test_a_log_without_some_bodies_is_read_once(url, folder, monkeypatch):
    """What a line follows is known from the lines before it; only where it is not, all of them are looked through again."""
    retained(url)
    seen: Counter[int] = Counter()
    content = Layout.content
    monkeypatch.setattr(
        Layout, "content", lambda layout, number, *more: (seen.update([number]), content(layout, number, *more))[1]
    )
    assert any(each.line.was for each in lines(folder))
    assert {*seen.values()} == {1}


# -- what is told ------------------------------------------------------------------------------------------------------


def said_by(capsys, *words: str) -> str:
    with pytest.raises(SystemExit) as ended:
        cli([*words])
    assert not ended.value.code
    out = capsys.readouterr()
    return out.out + out.err


def test_doctor_and_retain_say_what_is_left(url, emptied, capsys):
    assert "still stand in lines of the log" in " ".join(f.says for f in health.examine(url).findings)
    words = ["retain", "--turns", "0", "--store", url]
    assert "still stand in lines" in said_by(capsys, *words)
    assert "still stand in lines" not in said_by(capsys, *words, "--apply")
    assert "still stand" not in " ".join(f.says for f in health.examine(url).findings)
    assert "still stand in lines" not in said_by(capsys, *words)


@in_many_segments
def test_a_damaged_file_is_not_written_anew_and_what_it_holds_is_counted(url, emptied, folder):
    packed = folder / "log" / "000001.jsonl.zst"
    data = cut_short(Layout(folder).read(packed))
    packed.write_bytes(data)
    left = purged(url)
    assert left == sum(purge.lingering(Layout(folder), gone_of(url)).values()) > 0
    assert packed.read_bytes() == data


def cut_short(content: bytes) -> bytes:
    """Packed, and all but the last line of it can be unpacked."""
    packing, last = zstd.ZstdCompressor(), content[:-1].rfind(b"\n") + 1
    first = packing.compress(content[:last], packing.FLUSH_BLOCK)
    return first + packing.compress(content[last:], packing.FLUSH_FRAME)[:-2]


def gone_of(url: str) -> frozenset[str]:
    core = open_core(url)
    try:
        return core.read(lambda reads: purge.gone_of(reads.connection), tenant=0)
    finally:
        core.close()


# -- killed anywhere ---------------------------------------------------------------------------------------------------


def killed_at(url: str, point: str, segment_bytes: int, how: str = "") -> bool:
    """Whether a purge in a process of its own was killed there."""
    program = ("-m", "stores.files.purging", url, str(segment_bytes), how)
    ran = forked.run(*program, env=forked.environment(PERDURE_CRASH_AT=point))
    assert ran.returncode in (0, -signal.SIGKILL), ran.stderr
    return ran.returncode != 0


def test_killed_anywhere_the_log_says_the_same_and_the_next_one_ends_it(url, emptied, folder, segment_bytes):
    kept, kills = state(url), 0
    while True:
        one, copy = copied(folder, f"copy{kills}")
        if not killed_at(one, f"*:{kills + 1}", segment_bytes):
            break
        kills += 1
        check(one, copy, kept)
        assert purged(one) == 0
        assert not words_in(copy, emptied)
        check(one, copy, kept)
    assert kills > 6


def test_control_a_file_that_is_written_in_its_place_is_torn(url, emptied, folder, segment_bytes):
    kept = state(url)
    one, copy = copied(folder, "copy")
    assert killed_at(one, "files.written:2", segment_bytes, "torn")
    with pytest.raises(AssertionError):
        check(one, copy, kept)


@in_one_segment
def test_control_without_settled_marks_it_is_taken_for_a_log_that_was_put_back(url, emptied, monkeypatch):
    epoch, said = state(url)
    monkeypatch.setattr(purge.Purge, "_settle", lambda *_: None)
    purged(url)
    (Path(url.removeprefix("files:///")) / ".git").mkdir()
    assert state(url) == (epoch + 1, said)


# -- what is durable before what ---------------------------------------------------------------------------------------


class Traced:
    """Which files were synced and renamed, in their order."""

    def __init__(self, monkeypatch) -> None:
        self.steps: list[tuple[str, str]] = []
        flushed, renamed = folder_access.flush, os.rename

        def flush(fd: int) -> None:
            self.steps.append(("sync", Path(f"/proc/self/fd/{fd}").readlink().name))
            flushed(fd)

        def rename(name: str, to: str, *, src_dir_fd: int, dst_dir_fd: int) -> None:
            self.steps.append(("replace" if to in os.listdir(dst_dir_fd) else "rename", to))
            renamed(name, to, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)

        monkeypatch.setattr(folder_access, "flush", flush)
        monkeypatch.setattr(os, "rename", rename)

    def check(self) -> None:
        """No file gets a name before it is synced, nor is one replaced before the head stands behind it; then the folder is."""
        assert ("sync", "head") in self.steps[: self.steps.index(next(s for s in self.steps if s[0] == "replace"))]
        for at, (what, name) in enumerate(self.steps):
            if what != "sync":
                assert self.steps[at - 1] == ("sync", f"{name}.partial")
                assert self.steps[at + 1] == ("sync", "log")


def test_what_is_renamed_was_synced_and_the_marks_before_that(url, emptied, monkeypatch):
    traced = Traced(monkeypatch)
    purged(url)
    traced.check()


@pytest.mark.parametrize("forgotten", ["head", ".partial", "log"])
def test_control_a_sync_that_is_forgotten_is_caught(url, emptied, monkeypatch, forgotten):
    traced = Traced(monkeypatch)
    purged(url)
    traced.steps = [step for step in traced.steps if step[0] != "sync" or not step[1].endswith(forgotten)]
    with pytest.raises((AssertionError, IndexError)):
        traced.check()


def test_the_mark_is_synced_with_the_cache(url, emptied, monkeypatch):
    """A cache that a loss of power takes back must not stand in a segment that was replaced."""
    found: list[int] = []
    real = purge.put_mark
    monkeypatch.setattr(
        purge, "put_mark", lambda cache, mark: (found.append(cache.raw.pragma("synchronous")), real(cache, mark))[1]
    )
    purged(url)
    assert found == [2]


# -- beside others -----------------------------------------------------------------------------------------------------


def purged_in_the_middle_of_a_commit(url: str) -> list[Exception]:
    """Somebody is about to append when the purge comes; returns what became of the purge."""
    found: list[Exception] = []
    other = FilesEngine(url, Path(url.removeprefix("files:///")), timeout_seconds=0.05)

    def act() -> None:
        disarm()
        try:
            other.purge()
        except (Fault, perdure.Error) as error:
            found.append(error)

    with perdure.open(url) as store:
        session = store.session("a")
        disarm = crash_points.arm("files.before_append", act)
        session.say("user", "in the middle")
    return found


def test_nobody_else_writes_while_a_file_is_replaced(url, emptied, folder):
    (error,) = purged_in_the_middle_of_a_commit(url)
    assert isinstance(error, Fault)
    assert error.kind is FaultKind.BUSY
    assert words_in(folder, ["in the middle"])
    check(url, folder, state(url))
    assert purged(url) == 0
    check(url, folder, state(url))


@in_one_segment
def test_control_without_the_lock_it_is_caught(url, emptied, monkeypatch):
    """Also without settling, which waits for whoever writes to the cache: the file is replaced under an append."""
    monkeypatch.setattr(LineLog, "lock", lambda journal, _seconds: journal.try_lock())
    monkeypatch.setattr(purge.Purge, "_settle", lambda *_: None)
    with pytest.raises(perdure.Error, match="replaced while it was open"):
        purged_in_the_middle_of_a_commit(url)


def test_who_has_the_store_open_goes_on_and_nothing_is_lost(url, emptied, folder):
    with perdure.open(url) as store, perdure.open(url) as reader:
        session, seen = store.session("a"), reader.session("a")
        seen.turns()
        thread = threading.Thread(target=lambda: [session.say("user", f"n{n}") for n in range(60)])
        thread.start()
        assert purged(url) == 0
        thread.join()
        assert [turn.content for turn in seen.turns(last=60)] == [f"n{n}" for n in range(60)]
        assert caller_of(store).core.epoch == 1
    assert not words_in(folder, emptied)
    check(url, folder, state(url))


# -- a disk that takes no more ---------------------------------------------------------------------------------------------------


def test_a_cache_that_cannot_be_scrubbed_is_an_error_of_the_store_and_purged_the_next_time(
    url, folder, emptied, monkeypatch
):
    """It was told as a bug, in SQLite's own words."""
    made = FilesEngine._files

    def watched(engine: FilesEngine, journal: LineLog, *, unsure: bool) -> FilesConnection:
        connection = made(engine, journal, unsure=unsure)
        crash_points.arm("purge.settled", lambda: connection.raw.set_progress_handler(lambda: True, 1))
        return connection

    with monkeypatch.context() as patched:
        patched.setattr(FilesEngine, "_files", watched)
        with pytest.raises(perdure.Error):
            retained(url)
    crash_points.arm("purge.settled", lambda: None)()
    assert purged(url) == 0
    assert not words_in(folder, emptied)
