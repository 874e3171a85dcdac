"""A log that lost what this machine has seen of it is refused, and what the cache still has is written back (P1, P3, P13)."""

from __future__ import annotations

import json
import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

import perdure
from perdure.cli.main import cli
from perdure.handles import restoring
from perdure.model import crash_points
from perdure.runtime.callers import caller_of
from perdure.upkeep import health
from perdure_files.store import cache_check, cache_place, restore_from_cache
from perdure_files.store.engine import FilesEngine
from perdure_files.store.journal import LineLog
from perdure_files.store.layout import Layout
from stores.files import rebuilt

WORDS = [f"word {number} " + "x" * 200 for number in range(60)]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store of several segments, one of them packed, with forks, blobs and a tenant of its own."""
    monkeypatch.setattr(FilesEngine, "journal", lambda engine: LineLog(engine.layout, 12_000))
    place = tmp_path / "store"
    with perdure.open(f"files:///{place}") as store:
        for number, word in enumerate(WORDS):
            store.session(f"s{number % 3}").say("user", word)
        store.session("s0").fork(name="branch").say("user", "on a branch")
        store.session("s1").attach("x", b"content" * 20_000)
        store.session("s2").set("large", "y" * 20_000)
    with perdure.open(f"files:///{place}", tenant="other") as store:
        store.session("theirs").say("user", "of a tenant")
    assert len(Layout(place).numbers()) > 3
    return place


def url(folder: Path) -> str:
    return f"files:///{folder}"


def first(folder: Path) -> Path:
    return Layout(folder).files(1)[0]


def last(folder: Path) -> Path:
    layout = Layout(folder)
    return layout.segment(layout.numbers()[-1])


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def all_emptied(folder: Path) -> None:
    for path in (folder / "log").iterdir():
        emptied(path)


def cut(folder: Path, count: int) -> None:
    path = last(folder)
    path.write_bytes(path.read_bytes()[:-count])


def without_its_last_lines(folder: Path) -> None:
    path = last(folder)
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-2]))


def half_copied(folder: Path) -> None:
    for number in Layout(folder).numbers()[2:]:
        for path in Layout(folder).files(number):
            path.unlink()


LOSSES: dict[str, Callable[[Path], object]] = {
    "every segment is empty": all_emptied,
    "the first segment is empty": lambda folder: emptied(first(folder)),
    "the last segment is empty": lambda folder: emptied(last(folder)),
    "the last segment is zeros": lambda folder: last(folder).write_bytes(bytes(5_000)),
    "the last line is torn": lambda folder: cut(folder, 30),
    "the last lines are gone": without_its_last_lines,
    "the last segment is gone": lambda folder: last(folder).unlink(),
    "the last segment is renamed": lambda folder: last(folder).rename(last(folder).with_suffix(".bak")),
    "the first segment is gone": lambda folder: first(folder).unlink(),
    "a segment in between is gone": lambda folder: Layout(folder).files(2)[0].unlink(),
    "the folder is half copied": half_copied,
    "the log is gone": lambda folder: [path.unlink() for path in (folder / "log").iterdir()],
}
UNSEEN = {
    "the first segment is empty",
    "the first segment is gone",
    "a segment in between is gone",
}  # until the log is read


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize("loss", [loss for loss in LOSSES if loss not in UNSEEN])
def test_a_log_that_lost_its_end_is_refused_and_nothing_is_changed(folder, loss, read_only):
    LOSSES[loss](folder)
    before = seen(folder)
    with pytest.raises((perdure.Damaged, perdure.NotFound), match=r"the log (lost lines|is gone)") as told:
        perdure.open(url(folder), read_only=read_only)
    assert f"perdure restore --from-cache --dry-run --store files:///{folder}" in told.value.hint
    assert not health.examine(url(folder)).sound
    assert seen(folder) == before


def seen(folder: Path) -> dict[str, bytes]:
    found = {path for path in folder.rglob("*") if path.is_file() and path.suffix not in (".db-wal", ".db-shm")}
    return {str(path): path.read_bytes() for path in found}


@pytest.mark.parametrize("loss", LOSSES)
def test_what_the_cache_has_is_written_back(folder, loss):
    content = rebuilt.cached(folder)
    LOSSES[loss](folder)
    before = seen(folder)
    planned = restoring.from_cache(url(folder), dry_run=True)
    assert seen(folder) == before
    done = restoring.from_cache(url(folder))
    assert (planned.events, planned.segments) == (done.events, done.segments)
    assert not done.behind
    with perdure.open(url(folder)) as store:
        assert store.verify().ok
        assert caller_of(store).core.epoch == 1
    made, pieces = rebuilt.made_from_the_log(folder)
    assert not [piece for _, piece in pieces if piece.lost]
    assert made["events"]
    assert sorted(map(repr, made["events"])) == sorted(map(repr, content["events"]))
    assert restoring.from_cache(url(folder)).events == 0


@pytest.mark.parametrize("loss", ["every segment is empty", "the last line is torn", "a segment in between is gone"])
@pytest.mark.parametrize("point", ["files.written", "files.placed"])
def test_a_restore_that_dies_is_repeated(folder, loss, point):
    LOSSES[loss](folder)

    class Stopped(BaseException):
        pass

    def stop() -> None:
        raise Stopped

    disarm = crash_points.arm(point, stop)
    try:
        with pytest.raises(Stopped):
            restoring.from_cache(url(folder))
    finally:
        disarm()
    restoring.from_cache(url(folder))
    with perdure.open(url(folder)) as store:
        assert store.verify().ok
        assert [turn.content for turn in store.session("s0").turns(last=100)] == WORDS[::3]


def test_what_was_seen_after_the_caches_last_line_raises_the_epoch(folder):
    cache = Layout(folder).cache
    with perdure.open(url(folder)) as store:
        kept = cache.read_bytes()
        store.session("s0").say("user", "seen, and in no cache")
    cache.write_bytes(kept)
    for suffix in ("-wal", "-shm"):
        cache.with_name(cache.name + suffix).unlink(missing_ok=True)
    all_emptied(folder)
    assert restoring.from_cache(url(folder)).behind
    with perdure.open(url(folder)) as store:
        assert caller_of(store).core.epoch == 2
        assert store.verify().ok


def test_a_damaged_line_in_the_middle_is_said_not_to_come_back(folder):
    path = last(folder)
    lines = path.read_bytes().splitlines(keepends=True)
    lines[2] = b"?" * (len(lines[2]) - 1) + b"\n"
    path.write_bytes(b"".join(lines))
    with pytest.raises(perdure.Damaged, match="not all of the log could be restored"):
        restoring.from_cache(url(folder))


def test_control_a_restore_that_forgets_lines_is_caught(folder, monkeypatch):
    all_emptied(folder)
    missing = restore_from_cache.lines_from_tables.missing
    monkeypatch.setattr(restore_from_cache.lines_from_tables, "missing", lambda *args: [*missing(*args)][:-1])
    with pytest.raises(perdure.Damaged, match="not all of the log could be restored"):
        restoring.from_cache(url(folder))


def test_without_a_cache_of_ours_there_is_nothing_to_restore_from(folder):
    shutil.rmtree(Layout(folder).cache.parent)
    all_emptied(folder)
    with pytest.raises(perdure.Damaged, match="the log lost lines") as told:  # the head knows more
        perdure.open(url(folder))
    assert "--from-cache" not in told.value.hint
    with pytest.raises(perdure.NotFound, match="no cache of this user"):
        restoring.from_cache(url(folder))


def test_whoever_removes_what_is_known_of_it_goes_on_with_what_is_there(folder):
    without_its_last_lines(folder)
    shutil.rmtree(folder / ".perdure")
    with perdure.open(url(folder)) as store:
        assert caller_of(store).core.epoch == 2


def test_a_log_that_git_put_back_is_no_damage(folder):
    (folder / ".git").mkdir()
    without_its_last_lines(folder)
    with perdure.open(url(folder)) as store:
        assert caller_of(store).core.epoch == 2


def test_the_command_says_what_it_would_do_and_does_it(folder, capsys):
    all_emptied(folder)

    def told(*args: str) -> dict[str, object]:
        with pytest.raises(SystemExit) as ended:
            cli(["restore", "--from-cache", "--json", "--store", url(folder), *args])
        assert not ended.value.code
        return json.loads(capsys.readouterr().out)

    planned = told("--dry-run")
    assert planned["dry_run"]
    assert planned["events"]
    assert told() == {**planned, "dry_run": False}
    with perdure.open(url(folder)) as store:
        assert store.verify().ok


# -- the cache and the lines ---------------------------------------------------------------------------------------------


def test_verify_and_doctor_compare_the_cache_with_the_lines(folder):
    path = last(folder)
    with perdure.open(url(folder)) as store:
        lines = path.read_bytes().splitlines(keepends=True)
        at = next(number for number, line in enumerate(lines) if b'"content":"word' in line)
        lines[at] = lines[at].replace(b"word", b"wurd", 1)
        path.write_bytes(b"".join(lines))  # as long as it was, and the same at its end
        report = store.verify()
        assert "cache" in {problem.kind for problem in report.problems}
    assert "cache" in {each.check for each in health.examine(url(folder)).findings if each.severity == "error"}


def test_control_a_cache_that_agrees_has_no_such_finding(folder):
    engine = FilesEngine(url(folder), folder)
    engine.prepare()
    assert engine.contradictions() == []
    assert cache_check.compared({("blob", "default", b"a"): (1,)}, {}) == [
        "blob default 61 is in the cache and not in the lines of the log"
    ]


@pytest.mark.parametrize("planted", ["cache.db", "cache-" + "ab" * 16 + "/cache.db"])
def test_a_cache_that_came_with_git_is_not_used(folder, tmp_path, planted):
    """Somebody commits a cache that says otherwise than the log, and the mark that belongs to it."""
    other = tmp_path / "other"
    shutil.copytree(folder, other)
    with perdure.open(url(other)) as store:
        store.session("s0").say("user", "planted")
    clone = tmp_path / "clone"
    shutil.copytree(folder / "log", clone / "log")
    shutil.copytree(folder / "blobs", clone / "blobs")
    target = clone / ".perdure" / planted
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(Layout(other).cache, target)
    with perdure.open(url(clone), read_only=True) as store:
        assert "planted" not in [turn.content for turn in store.session("s0").turns(last=100)]
    with perdure.open(url(clone)) as store:
        assert store.verify().ok
        assert "planted" not in [turn.content for turn in store.session("s0").turns(last=100)]
        store.session("s0").say("user", "acknowledged")
    with perdure.open(url(clone)) as store:
        assert store.session("s0").turns(last=1)[0].content == "acknowledged"
    assert not target.exists()


def test_the_name_of_a_cache_is_known_to_nobody_else(folder, monkeypatch, tmp_path):
    ours = Layout(folder).cache
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "somebody"))
    assert Layout(folder).cache != ours
    assert Layout(folder).cache != Layout(folder).cache  # without a key there is none at all
    with perdure.open(url(folder)) as store:  # which makes one, and a cache under it
        assert caller_of(store).core.epoch == 1  # the head knows this log
    key = tmp_path / "somebody" / "perdure" / "key"
    assert (len(key.read_bytes()), stat.S_IMODE(key.stat().st_mode)) == (32, 0o600)
    assert Layout(folder).cache.exists()
    assert not ours.exists()


@pytest.mark.parametrize("how", ["a link", "short", "readable by others"])
def test_a_key_that_is_not_ours_alone_is_refused(folder, monkeypatch, tmp_path, how):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    key = tmp_path / "state" / "perdure" / "key"
    key.parent.mkdir(parents=True)
    key.write_bytes(b"k" * (16 if how == "short" else 32))
    key.chmod(0o644 if how == "readable by others" else 0o600)
    if how == "a link":
        key.rename(key.with_name("elsewhere"))
        key.symlink_to(key.with_name("elsewhere"))
    before = os.lstat(key)
    with monkeypatch.context() as patched:
        patched.setattr(cache_place, "keeps_folders", lambda _: False)  # no temporary folder that could do instead
        with pytest.raises(perdure.Refused, match="no place for the key") as told:
            perdure.open(url(folder))
    assert "XDG_STATE_HOME" in told.value.hint
    assert os.lstat(key).st_ino == before.st_ino
