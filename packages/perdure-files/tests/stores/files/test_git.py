"""A log in git: put back, checked out, cloned, fast-forwarded: another world is noticed, nothing is simply done again (P3)."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import perdure
from mailing import SENT, mailing
from perdure.model import crash_points
from perdure.runtime.callers import caller_of
from perdure_files.store import engine
from perdure_files.store.journal import LineLog
from perdure_files.store.layout import Layout
from stores.files.in_git import commit, git, url

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is missing: nothing is put back by it")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    SENT.clear()
    place = tmp_path / "store"
    with perdure.open(f"files:///{place}") as store:
        store.session("a").say("user", "first")
    git(place, "init", "-q")
    commit(place, "first")
    return place


def contents(folder: Path) -> list[str]:
    with perdure.open(url(folder)) as store:
        assert store.verify().ok
        return [turn.content for turn in store.session("a").turns()]


def epoch(folder: Path) -> int:
    with perdure.open(url(folder)) as store:
        return caller_of(store).core.epoch


def say(folder: Path, *words: str) -> None:
    with perdure.open(url(folder)) as store:
        for word in words:
            store.session("a").say("user", word)


def test_only_the_log_its_blobs_and_how_git_is_to_treat_them_are_in_git(folder):
    with perdure.open(url(folder)) as store:
        store.session("a").attach("x", b"content")
    commit(folder, "more")
    tops = {name.partition("/")[0] for name in git(folder, "ls-files").split()}
    assert tops == {".gitattributes", "blobs", "log", "views"}
    assert git(folder, "status", "--porcelain") == ""


def test_a_blob_that_is_not_whole_is_not_in_git(folder):
    seen = []
    disarm = crash_points.arm(
        "artifact.before_rename", lambda: seen.append(git(folder, "status", "--porcelain", "-uall"))
    )
    try:
        with perdure.open(url(folder)) as store:
            store.session("a").attach("x", b"content")
    finally:
        disarm()
    assert seen == [""]


def test_a_diff_shows_what_was_said(folder):
    say(folder, "hello there")
    added = [line for line in git(folder, "diff").splitlines() if line.startswith("+{")]
    assert len(added) == 1
    assert '"content":"hello there"' in added[0]


@pytest.mark.parametrize("how", ["reset", "checkout", "stash"])
def test_a_log_that_was_put_back_is_noticed_and_goes_on(folder, how):
    say(folder, "second", "third")
    if how == "stash":
        git(folder, "stash")
    else:
        commit(folder, "second")
        git(folder, *(["reset", "-q", "--hard", "HEAD~1"] if how == "reset" else ["checkout", "-q", "HEAD~1"]))
    assert epoch(folder) == 2
    assert contents(folder) == ["first"]
    say(folder, "another second")
    assert contents(folder) == ["first", "another second"]
    assert epoch(folder) == 2


def test_a_branch_that_is_as_long_as_the_other_one_is_another_world_too(folder):
    git(folder, "checkout", "-qb", "other")
    say(folder, "one way..")
    commit(folder, "one")
    git(folder, "checkout", "-q", "main")
    say(folder, "the other")
    commit(folder, "two")
    before = epoch(folder)
    git(folder, "checkout", "-q", "other")
    assert contents(folder) == ["first", "one way.."]
    assert epoch(folder) > before


def test_a_clone_is_another_world(folder, tmp_path):
    commit_all = git(folder, "status", "--porcelain")
    assert commit_all == ""
    git(tmp_path, "clone", "-q", str(folder), "clone")
    assert contents(tmp_path / "clone") == ["first"]
    assert epoch(tmp_path / "clone") == 2
    assert epoch(folder) == 1


def test_what_a_clone_added_comes_back_by_a_fast_forward(folder, tmp_path):
    git(tmp_path, "clone", "-q", str(folder), "clone")
    say(tmp_path / "clone", "from the clone")
    commit(tmp_path / "clone", "more")
    git(folder, "pull", "-q", "--ff-only", str(tmp_path / "clone"), "main")
    assert contents(folder) == ["first", "from the clone"]
    assert epoch(folder) == 2  # the clone's: what was open here is of another world than what was done there


def test_a_deleted_cache_is_made_again_and_nothing_was_put_back(folder):
    say(folder, "second")
    for path in Layout(folder).cache.parent.glob("cache.db*"):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert contents(folder) == ["first", "second"]
    assert epoch(folder) == 1


def test_a_deleted_cache_and_a_log_that_was_put_back_are_noticed_by_the_head(folder):
    say(folder, "second")
    Layout(folder).cache.unlink()
    git(folder, "checkout", "-q", "--", "log")
    assert contents(folder) == ["first"]
    assert epoch(folder) == 2


def test_what_was_sent_in_the_lost_future_is_not_simply_sent_again(folder):
    with perdure.open(url(folder)) as store:
        with pytest.raises(perdure.Waiting):
            store.drive(mailing, key="k")
        store.answer(store.asks()[0].id, "yes")
    commit(folder, "answered")
    with perdure.open(url(folder)) as store:
        assert store.drive(mailing, key="k") == "mail"
    assert SENT == ["mail"]
    git(folder, "checkout", "-q", "--", "log")
    with perdure.open(url(folder)) as store:
        with pytest.raises(perdure.Waiting):  # a person is asked
            store.drive(mailing, key="k")
        assert store.effects(state="in_doubt")
    assert SENT == ["mail"]


def test_control_who_does_not_look_whether_the_log_was_put_back_sends_twice(folder, monkeypatch):
    def trusting(journal, facts, mark):
        return facts, mark

    monkeypatch.setattr(engine, "raised", trusting)
    monkeypatch.setattr("perdure.effects.rolled_back.notice", lambda _: False)
    with perdure.open(url(folder)) as store:
        with pytest.raises(perdure.Waiting):
            store.drive(mailing, key="k")
        store.answer(store.asks()[0].id, "yes")
    commit(folder, "answered")
    with perdure.open(url(folder)) as store:
        store.drive(mailing, key="k")
    git(folder, "checkout", "-q", "--", "log")
    with perdure.open(url(folder)) as store:
        store.drive(mailing, key="k")
    assert SENT == ["mail", "mail"]


def test_who_has_the_store_open_while_the_log_is_put_back_writes_nothing_more(folder):
    with perdure.open(url(folder)) as store:
        session = store.session("a")
        session.say("user", "second")
        git(folder, "checkout", "-q", "--", "log")
        with pytest.raises(perdure.Damaged, match="put back"):
            session.say("user", "third")
        with pytest.raises(perdure.Damaged, match="put back"):
            session.turns()
    assert contents(folder) == ["first"]


def test_a_checkout_of_a_time_before_the_store_is_no_reason_to_do_everything_again(folder):
    """An empty store would know of nothing that was done: an agent that is started on the wrong branch would do it once more."""
    say(folder, "second")
    git(folder, "rm", "-qr", "-f", "--", "log")
    with pytest.raises(perdure.NotFound, match="the log is gone"):
        contents(folder)
    git(folder, "reset", "-q", "--hard")
    assert contents(folder) == ["first"]
    assert epoch(folder) == 2


def test_crlf_by_git_does_not_happen(folder, tmp_path):
    git(tmp_path, "clone", "-q", "-c", "core.autocrlf=true", str(folder), "clone")
    assert b"\r" not in (tmp_path / "clone" / "log" / "000001.jsonl").read_bytes()


def test_a_reset_that_puts_back_the_beginning_of_a_packed_segment_loses_nothing(folder, monkeypatch):
    monkeypatch.setattr(engine.FilesEngine, "journal", lambda files: LineLog(files.layout, 4_000))
    say(folder, *map(str, range(40)))
    git(folder, "reset", "-q", "--hard")
    assert (folder / "log" / "000001.jsonl").exists()
    assert (folder / "log" / "000001.jsonl.zst").exists()
    with perdure.open(url(folder), read_only=True) as store:
        assert len(store.session("a").turns()) == 41
    say(folder, *map(str, range(40, 80)))
    shutil.rmtree(folder / ".perdure")
    assert contents(folder) == ["first", *map(str, range(80))]


def test_a_packed_segment_is_not_written_over_while_the_store_is_open(folder, monkeypatch):
    monkeypatch.setattr(engine.FilesEngine, "journal", lambda files: LineLog(files.layout, 4_000))
    with perdure.open(url(folder)) as store:
        for number in range(40):
            store.session("a").say("user", str(number))
        git(folder, "reset", "-q", "--hard")
        for number in range(40, 80):
            store.session("a").say("user", str(number))
    shutil.rmtree(folder / ".perdure")
    assert contents(folder) == ["first", *map(str, range(80))]
