"""Two branches that both went on: the union of what they wrote; what both changed stands side by side (P3, P5, P6)."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

import perdure
from perdure.errors import Damaged, NotFound, Refused
from perdure.interchange import move as moving
from perdure.interchange.move import move, take_back
from perdure.model import crash_points
from perdure.model.limits import NAME_MAX_CHARS
from perdure.model.records.retention import Retention
from perdure.runtime.callers import caller_of
from perdure.stores.core import engine_for
from perdure.stores.schema_upgrade import raise_epoch
from perdure.stores.sqlite import SqliteConnection
from perdure.stores.store import Fault, FaultKind
from perdure.stores.url import parse
from perdure_files import merge as merging
from perdure_files.merge import merge
from perdure_files.store.engine import FilesEngine
from perdure_files.store.journal import LineLog
from perdure_files.store.layout import Layout
from perdure_files.store.line import FORMAT, Line, WrittenStore, names_of, written
from perdure_files.store.other_side import OtherSideLog, in_conflict
from stores.files import purging, rebuilt
from stores.files.in_git import commit, git, url

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is missing: there are no branches")


class Stopped(BaseException):
    """As a Ctrl-C would, and nobody else's."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A store with two branches: both went on with `both`, one with `mine`, the other with `yours` and a session of its own."""
    place = tmp_path / "store"
    with perdure.open(url(place)) as store:
        for name in ("both", "mine", "yours"):
            store.session(name).say("user", "common")
            store.session(name).set("count", 1)
    git(place, "init", "-q")
    commit(place, "common")
    git(place, "checkout", "-qb", "other")
    with perdure.open(url(place)) as store:
        store.session("both").say("user", "theirs")
        store.session("both").set("count", 3)
        store.session("both").task("their task").done("done")
        store.session("both").fork(name="twig").say("user", "on a twig")
        store.session("yours").say("user", "theirs alone")
        store.session("new").say("user", "x" * 20_000)
        store.session("same name").say("user", "theirs")
        store.scope("user:alice").set("colour", "red")
    commit(place, "theirs")
    git(place, "checkout", "-q", "main")
    with perdure.open(url(place)) as store:
        store.session("both").say("user", "ours")
        store.session("both").set("count", 2)
        store.session("mine").say("user", "ours alone")
        store.session("same name").say("user", "ours")
    commit(place, "ours")
    return place


def turns(store, name: str) -> list[str]:
    return [turn.content for turn in store.session(name).turns()]


def check(folder: Path, name: str) -> None:
    with perdure.open(url(folder)) as store:
        report = store.verify()
        assert report.ok, report
        assert turns(store, "both") == ["common", "ours"]
        assert turns(store, f"both@{name}") == ["common", "theirs"]
        assert store.session("both").get("count") == 2
        assert store.session(f"both@{name}").get("count") == 3
        assert store.session(f"both@{name}").tasks()[0].title == "their task"
        assert turns(store, f"twig@{name}") == ["common", "theirs", "on a twig"]
        assert turns(store, "mine") == ["common", "ours alone"]
        assert turns(store, "yours") == ["common", "theirs alone"]
        assert turns(store, "new") == ["x" * 20_000]
        assert turns(store, "same name") == ["ours"]
        assert turns(store, f"same name@{name}") == ["theirs"]
        assert store.scope("user:alice").get("colour") == "red"
        names = {session.name for session in store.sessions()}
        assert names == {
            "both",
            "mine",
            "yours",
            "new",
            "same name",
            f"both@{name}",
            f"twig@{name}",
            f"same name@{name}",
        }
    rebuilt.check(folder)


def test_a_ref_is_merged_and_what_both_changed_stands_side_by_side(folder):
    done = merge(url(folder), "other")
    assert {(each.name, each.now) for each in done.forked} == {
        ("both", "both@other"), ("twig", "twig@other"), ("same name", "same name@other"),
    }  # fmt: skip
    assert next(each for each in done.forked if each.name == "both").parted_after == 3
    assert done.added > 5
    check(folder, "other")


def test_what_stands_side_by_side_is_compared_from_where_it_parted(folder):
    merge(url(folder), "other")
    with perdure.open(url(folder)) as store:
        ours, theirs, twig = (store.session(name) for name in ("both", "both@other", "twig@other"))
        assert ours.origin() is None
        assert theirs.origin() == perdure.Origin("both", ours.uid, 3, "other")
        assert twig.origin() == perdure.Origin("both@other", theirs.uid, 7)
        assert store.session("same name@other").origin() is None
        for other, words in ((theirs, ["theirs"]), (twig, ["theirs", "on a twig"])):
            found = ours.diff(other)
            assert [turn.content for turn in found.turns_removed] == ["ours"]
            assert [turn.content for turn in found.turns_added] == words


def test_a_link_in_their_tree_leads_nowhere(folder, tmp_path):
    """What a ref holds may come from anybody: a log that is a link to a file elsewhere is not read through it."""
    elsewhere = tmp_path / "elsewhere.jsonl"
    git(folder, "checkout", "-q", "other")
    segment = folder / "log" / "000001.jsonl"
    segment.rename(elsewhere)
    segment.symlink_to(elsewhere)
    commit(folder, "a link")
    git(folder, "checkout", "-q", "main")
    before = (folder / "log" / "000001.jsonl").read_bytes()
    with pytest.raises(NotFound, match="no log"):
        merge(url(folder), "other")
    assert (folder / "log" / "000001.jsonl").read_bytes() == before


def test_no_filter_of_the_repository_is_run(folder, tmp_path):
    """Taking a ref out of git is reading objects: an unpacked archive may bring a configuration of its own."""
    (folder / ".git" / "info").mkdir(exist_ok=True)
    (folder / ".git" / "info" / "attributes").write_text("* filter=x\n")
    git(folder, "config", "filter.x.smudge", f"touch {tmp_path}/sprung; cat")
    merge(url(folder), "other")
    assert not (tmp_path / "sprung").exists()
    check(folder, "other")


def test_merging_again_adds_nothing(folder):
    merge(url(folder), "other")
    before = (folder / "log" / "000001.jsonl").read_bytes()
    again = merge(url(folder), "other")
    assert (again.added, again.forked) == (0, [])
    assert (folder / "log" / "000001.jsonl").read_bytes() == before


def test_a_folder_is_merged_with_its_blobs(folder, tmp_path):
    git(tmp_path, "clone", "-q", "-b", "other", str(folder), "clone")
    merge(url(folder), str(tmp_path / "clone"), name="other")
    check(folder, "other")


def conflicted(folder: Path) -> None:
    done = subprocess.run(["git", "-c", "user.name=me", "-c", "user.email=m@e", "merge", "other"], cwd=folder,
                          capture_output=True, text=True, check=False)  # fmt: skip
    assert done.returncode
    assert b"<<<<<<<" in (folder / "log" / "000001.jsonl").read_bytes()


def test_a_conflict_that_git_left_is_merged(folder):
    conflicted(folder)
    merge(url(folder), None)
    check(folder, "other")
    assert b"<<<<<<<" not in (folder / "log" / "000001.jsonl").read_bytes()
    commit(folder, "merged")
    check(folder, "other")


def test_a_conflict_in_a_clone_that_nobody_opened_is_merged(folder):
    conflicted(folder)
    shutil.rmtree(folder / ".perdure")
    merge(url(folder), None)
    check(folder, "other")


def test_what_was_written_since_git_left_the_conflict_stays(folder):
    """It was acknowledged (P1), whether it goes on from ours, or from what only they wrote."""
    conflicted(folder)
    with perdure.open(url(folder)) as store:
        for name in ("mine", "both", "yours", "fresh"):
            store.session(name).say("user", "since")
    merge(url(folder), None)
    with perdure.open(url(folder)) as store:
        assert turns(store, "mine") == ["common", "ours alone", "since"]
        assert turns(store, "both") == ["common", "ours", "since"]
        assert turns(store, "yours") == ["common", "theirs alone", "since"]
        assert turns(store, "fresh") == ["since"]
        assert turns(store, "both@other") == ["common", "theirs"]
        assert store.verify().ok
    rebuilt.check(folder)


def cut_off(point: str, folder: Path) -> None:
    """Begin to merge the conflict in a log, and get no further than to this point."""

    def stop() -> None:
        raise Stopped

    disarm = crash_points.arm(point, stop)
    with pytest.raises(Stopped):
        merge(url(folder), None)
    disarm()


@pytest.mark.parametrize("point", ["files.before_append", "lane.before_commit"])
def test_a_merge_of_a_conflict_that_is_cut_off_begins_again(folder, point):
    conflicted(folder)
    cut_off(point, folder)
    merge(url(folder), None)
    check(folder, "other")


def test_a_merge_that_is_killed_while_it_clears_up_is_over(tmp_path, monkeypatch):
    """Of two segments that git left in conflict one was still kept: the merge that was done was refused from then on."""
    monkeypatch.setattr(FilesEngine, "journal", lambda engine: LineLog(engine.layout, 3_000))
    place = tmp_path / "store"
    with perdure.open(url(place)) as store:
        store.session("both").say("user", "common")
    git(place, "init", "-q")
    commit(place, "common")
    for branch, words in (("other", "theirs"), ("main", "ours")):
        git(place, "checkout", "-q", *(["-b"] if branch == "other" else []), branch)
        with perdure.open(url(place)) as store:
            for number in range(6):
                store.session("both").say("user", f"{words} {number}")
        commit(place, words)
    conflicted(place)
    assert sum(b"<<<<<<<" in path.read_bytes() for path in (place / "log").iterdir()) > 1

    def stop(name: str, dir_fd: int, **_: object) -> None:
        below = os.open(name, os.O_RDONLY, dir_fd=dir_fd)
        os.unlink(min(os.listdir(below)), dir_fd=below)  # noqa: PTH208 - a descriptor
        os.close(below)
        raise Stopped

    with monkeypatch.context() as patched:
        patched.setattr(shutil, "rmtree", stop)
        with pytest.raises(Stopped):
            merge(url(place), None)
    assert not in_conflict(Layout(place))
    with perdure.open(url(place)) as store:
        assert turns(store, "both@other") == ["common", *(f"theirs {number}" for number in range(6))]
        assert store.verify().ok
    assert not [path.name for path in (place / ".perdure").iterdir() if "merge" in path.name]


def test_a_merge_is_told_though_its_cache_could_not_follow(folder, monkeypatch):
    """The append is the commit: on a disk that is full right after it the merge is done, and it was told as a bug."""

    def full(_connection: object) -> None:
        raise Fault(FaultKind.FULL, "the disk is full")

    with monkeypatch.context() as patched:
        disarm = crash_points.arm("files.synced", lambda: patched.setattr(SqliteConnection, "commit", full))
        done = merge(url(folder), "other")
        disarm()
    assert {each.now for each in done.forked} == {"both@other", "twig@other", "same name@other"}
    check(folder, "other")
    with moving._opened(url(folder)) as core:
        assert core.epoch == done.epoch


def test_what_was_written_since_a_merge_was_cut_off_stays(folder):
    conflicted(folder)
    cut_off("lane.before_commit", folder)
    with perdure.open(url(folder)) as store:
        store.session("fresh").say("user", "since")
    merge(url(folder), None)
    with perdure.open(url(folder)) as store:
        assert turns(store, "fresh") == ["since"]
        assert turns(store, "both@other") == ["common", "theirs"]
        assert store.verify().ok


def test_what_was_written_since_and_follows_nothing_any_more_is_told_and_kept(folder):
    """Twice somebody went on with one session: in the log with conflict marks, and after a merge of it was cut off."""
    conflicted(folder)
    with perdure.open(url(folder)) as store:
        store.session("mine").say("user", "since")
    cut_off("lane.before_commit", folder)
    with perdure.open(url(folder)) as store:
        store.session("mine").say("user", "after that")
    merged = merge(url(folder), None)
    ((_, why),) = merged.refused
    assert "another event has its number by now" in why
    kept = folder / ".perdure" / "unmerged-1"
    assert str(kept) in why
    assert b"since" in b"".join(path.read_bytes() for path in kept.iterdir())
    with perdure.open(url(folder)) as store:
        assert turns(store, "mine") == ["common", "ours alone", "after that"]
        assert store.verify().ok


def test_names_that_are_as_long_as_they_may_be_can_still_be_opened(tmp_path):
    place = branched(tmp_path)
    names = ["n" * NAME_MAX_CHARS, "n" * (NAME_MAX_CHARS - 1) + "m"]
    for branch in ("other", "main"):
        git(place, "checkout", "-q", branch)
        with perdure.open(url(place)) as store:
            for name in names:
                store.session(name).say("user", branch)
        commit(place, branch)
    done = merge(url(place), "other")
    assert {each.name for each in done.forked} == {*names}
    with perdure.open(url(place)) as store:
        assert [turns(store, each.now) for each in done.forked] == [["other"], ["other"]]


def test_the_epoch_rises_over_both(folder):
    with perdure.open(url(folder)) as store:
        before = caller_of(store).core.epoch
    done = merge(url(folder), "other")
    assert done.epoch > before


def test_the_epoch_rises_over_theirs_however_often_that_rose(folder, tmp_path):
    other = shutil.copytree(folder, tmp_path / "other")
    engine = engine_for(parse(url(other)))
    engine.prepare()
    theirs = 1
    for _ in range(3):
        theirs = raise_epoch(engine, theirs)
    with perdure.open(url(other)) as store:
        store.session("mine").say("user", "theirs")
    assert merge(url(folder), str(other)).epoch == theirs + 1


@pytest.mark.parametrize("epoch", [10**8, 2**50, 2**70])
def test_an_epoch_that_nobody_came_to_by_counting_does_not_hold_a_merge_up(folder, tmp_path, epoch):
    other = shutil.copytree(folder, tmp_path / "other")
    with perdure.open(url(other)) as store:
        store.session("mine").say("user", "theirs")
    last = Layout(other).segment(1)
    said = last.read_bytes().splitlines()[-1]
    facts = WrittenStore(uid="ab" * 16, epoch=epoch)
    last.write_bytes(last.read_bytes() + written(Line(FORMAT, next(names_of(said)), store=facts))[0])
    assert merge(url(folder), str(other)).added
    with perdure.open(url(folder)) as store:
        assert store.verify().ok
    rebuilt.check(folder)


def test_what_they_pruned_comes_without_its_body(folder, tmp_path, monkeypatch):
    """Also where it still stands in their lines: their purge was cut off."""
    other = shutil.copytree(folder, tmp_path / "other")
    purging.talked(url(other))
    monkeypatch.setattr(FilesEngine, "purge", lambda _engine: 0)
    words = purging.retained(url(other))
    assert purging.words_in(other, words) == {*words}
    merge(url(folder), str(other))
    assert purging.state(url(folder))[1] == purging.state(url(other))[1]
    monkeypatch.undo()
    with perdure.open(url(folder)) as store:
        assert store.verify().ok
        store.retain(purging.RULE, dry_run=False)
    assert not purging.words_in(folder, words)


def test_without_a_blob_of_theirs_nothing_is_merged(folder, tmp_path):
    other = shutil.copytree(folder, tmp_path / "other")
    with perdure.open(url(other)) as store:
        store.session("large").say("user", "x" * 20_000)
    with perdure.open(url(folder)) as store:
        before = store.verify().counts
    shutil.rmtree(other / "blobs")
    with pytest.raises(Damaged, match="a blob of theirs is not there"):
        merge(url(folder), str(other))
    with perdure.open(url(folder)) as store:
        assert store.verify().counts == before


@perdure.agent
def waiting(run: perdure.Run) -> str:
    return run.ask("?")


def test_a_run_that_both_went_on_with_is_not_doubled(tmp_path):
    place = tmp_path / "store"
    with perdure.open(url(place)) as store:
        store.start(waiting, key="k")
    git(place, "init", "-q")
    commit(place, "common")
    git(place, "checkout", "-qb", "other")
    for branch in ("other", "main"):
        git(place, "checkout", "-q", branch)
        with perdure.open(url(place)) as store:
            with pytest.raises(perdure.Waiting):
                store.drive(waiting, key="k")
            store.start(waiting, key="new")
        commit(place, branch)
    done = merge(url(place), "other")
    assert len(done.refused) == 2
    with perdure.open(url(place)) as store:
        assert len(store.runs()) == 2
        assert store.verify().ok


def test_control_a_merge_that_appends_their_lines_as_they_are_is_caught(folder, tmp_path):
    git(tmp_path, "clone", "-q", "-b", "other", str(folder), "clone")
    theirs = (tmp_path / "clone" / "log" / "000001.jsonl").read_bytes()
    with (folder / "log" / "000001.jsonl").open("ab") as log:
        log.write(theirs)
    with perdure.open(url(folder)) as store:
        with pytest.raises(
            perdure.Unavailable, match="nothing of this store"
        ):  # their lines name blobs that nobody brought
            store.verify()
        assert "both@other" not in {session.name for session in store.sessions()}


def test_what_is_no_other_side_is_said(folder):
    for where in ("nowhere", "--output=x", str(folder / "blobs")):
        with pytest.raises(perdure.NotFound):
            merge(url(folder), where)
    with pytest.raises(perdure.Invalid, match="no conflict"):
        merge(url(folder), None)
    with pytest.raises(perdure.Refused):
        merging.merge(f"sqlite:///{folder}/a.db", "other")


def test_a_merge_that_is_cut_off_right_after_its_commit_has_raised_the_epoch(folder):
    with perdure.open(url(folder)) as store:
        before = caller_of(store).core.epoch
    log = folder / "log" / "000001.jsonl"

    def stop() -> None:
        if b"session.merged" in log.read_bytes():
            raise Stopped

    disarm = crash_points.arm("lane.after_commit", stop)
    with pytest.raises(Stopped):
        merge(url(folder), "other")
    disarm()
    check(folder, "other")
    with perdure.open(url(folder)) as store:
        assert caller_of(store).core.epoch > before
    rebuilt.check(folder)


def test_a_segment_that_one_branch_closed_is_refused_with_a_way_that_works(tmp_path):
    place = tmp_path / "store"
    with perdure.open(url(place)) as store:
        store.session("both").say("user", "common")
    git(place, "init", "-q")
    commit(place, "common")
    git(place, "checkout", "-qb", "other")
    with perdure.open(url(place)) as store:
        store.session("both").say("user", "theirs")
    commit(place, "theirs")
    git(place, "checkout", "-q", "main")
    with perdure.open(url(place)) as store:
        store.session("both").say("user", "ours")
    packed = Layout(place)
    packed.place(packed.segment(2), b"")
    packed.pack(1)
    with perdure.open(url(place)) as store:
        store.session("both").say("user", "ours again")
    commit(place, "ours")
    with pytest.raises(subprocess.CalledProcessError):
        git(place, "merge", "other")
    assert packed.contradicted() == [1]
    for where in (None, "other"):
        with pytest.raises(perdure.Refused, match="git merge --abort"):
            merge(url(place), where)
    git(place, "merge", "--abort")
    merge(url(place), "other")
    commit(place, "merged")
    git(place, "merge", "-q", "-s", "ours", "other")
    git(tmp_path, "clone", "-q", str(place), "clone")
    with perdure.open(url(tmp_path / "clone")) as store:
        assert turns(store, "both") == ["common", "ours", "ours again"]
        assert turns(store, "both@other") == ["common", "theirs"]
        assert store.verify().ok


def rotating(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """Segments are closed after so many bytes."""
    monkeypatch.setitem(FilesEngine.__init__.__kwdefaults__, "segment_max_bytes", size)


def both_talked(tmp_path: Path, theirs: int, ours: int) -> Path:
    """A store in the middle of a `git merge`; they have a session `first`, and both went on with `common`."""
    place = branched(tmp_path)
    for branch, count in (("other", theirs), ("main", ours)):
        git(place, "checkout", "-q", branch)
        with perdure.open(url(place)) as store:
            store.session(f"first of {branch}").say("user", branch)
            for number in range(count):
                store.session("common").say("user", f"{branch} {number}")
        commit(place, branch)
    with pytest.raises(subprocess.CalledProcessError):
        git(place, "merge", "other")
    return place


@pytest.mark.parametrize(("size", "theirs", "ours"), [(9_000, 20, 3), (4_000, 20, 20)],
                         ids=["they began a segment", "both packed one"])  # fmt: skip
def test_a_conflict_that_does_not_hold_all_of_theirs_is_refused_with_a_way_that_works(
    tmp_path, monkeypatch, size, theirs, ours
):
    rotating(monkeypatch, size)
    place = both_talked(tmp_path, theirs, ours)
    before = {path.name: path.read_bytes() for path in (place / "log").iterdir()}
    with pytest.raises(Refused, match="git merge --abort"):
        merge(url(place), None)
    assert {path.name: path.read_bytes() for path in (place / "log").iterdir()} == before
    git(place, "merge", "--abort")
    assert merge(url(place), "other").refused == []
    with perdure.open(url(place)) as store:
        assert store.verify().ok
        assert len(turns(store, "common")) == 1 + ours
        assert turns(store, "common@other") == ["common", *(f"other {number}" for number in range(theirs))]
        assert turns(store, "first of other") == ["other"]


@pytest.mark.parametrize(("theirs", "ours"), [(3, 20), (20, 20)], ids=["we began a segment", "both did"])
def test_a_conflict_over_several_segments_is_merged(tmp_path, monkeypatch, theirs, ours):
    rotating(monkeypatch, 9_000)
    place = both_talked(tmp_path, theirs, ours)
    assert Layout(place).numbers() == [1, 2]
    assert merge(url(place), None).refused == []
    with perdure.open(url(place)) as store:
        assert store.verify().ok
        assert len(turns(store, "common")) == 1 + ours
        assert len(turns(store, "common@other")) == 1 + theirs
    rebuilt.check(place)


def test_what_follows_nothing_in_their_log_is_told_and_no_history_is_made_up_of_it(folder, tmp_path):
    other = shutil.copytree(folder, tmp_path / "other")
    with perdure.open(url(other)) as store:
        for text in ("kept", "lost", "after it"):
            store.session("both").say("user", text)
    with perdure.open(url(folder)) as store:
        store.session("both").say("user", "ours again")
    lines = (other / "log" / "000001.jsonl").read_bytes().splitlines(keepends=True)
    (other / "log" / "000001.jsonl").write_bytes(b"".join(line for line in lines if b'"lost"' not in line))
    done = merge(url(folder), str(other))
    assert [what for what, why in done.refused if "follows nothing" in why] == ["session both"]
    with perdure.open(url(folder)) as store:
        assert turns(store, "both@other") == ["common", "ours", "kept"]
        assert store.verify().ok


def pruned(url: str, folder: Path) -> None:
    """Let all but the newest checkpoint go, and the blobs that only the others had, which are no longer young."""
    for path in (folder / "blobs").rglob("*"):
        os.utime(path, (1, 1))
    with perdure.open(url) as store:
        assert store.retain(Retention(checkpoints=1), dry_run=False).blobs


def test_a_conflict_from_which_git_took_blobs_that_one_side_keeps_is_refused_with_a_way_that_works(tmp_path):
    place = tmp_path / "store"
    with perdure.open(url(place)) as store:
        for number in range(2):
            store.session("saved").checkpoint({"text": str(number) * 20_000})
    git(place, "init", "-q")
    commit(place, "common")
    git(place, "checkout", "-qb", "other")
    with perdure.open(url(place)) as store:
        store.session("theirs").say("user", "theirs")
    commit(place, "theirs")
    git(place, "checkout", "-q", "main")
    pruned(url(place), place)
    commit(place, "ours")
    with pytest.raises(subprocess.CalledProcessError):
        git(place, "merge", "other")
    with pytest.raises(Refused, match="git merge --abort"):
        merge(url(place), None)
    assert not (place / ".perdure" / "merge").exists()
    git(place, "merge", "--abort")
    merge(url(place), "other")
    with perdure.open(url(place)) as store:
        assert turns(store, "theirs") == ["theirs"]
        assert store.session("saved").restore() == {"text": "1" * 20_000}
        assert store.verify().ok


# -- what one side imported ------------------------------------------------------------------------------------------------


def bundle_of(tmp_path: Path, name: str) -> Path:
    """A session of another store with a run that is not over."""
    path = tmp_path / f"{name}.perdure"
    with perdure.open(f"sqlite:///{tmp_path}/{name}.db") as source:
        source.session(name).say("user", f"from {name}")
        source.start(waiting, key=name, session=name)
        source.export(path, [name])
    return path


def checked_copies(place: Path) -> dict[str, str | None]:
    """The sessions of all runs by their keys, each of which is a copy that nobody may drive; as the log has it too."""
    with perdure.open(url(place)) as store:
        report = store.verify()
        assert report.ok, report
        runs = [handle.record for handle in store.runs()]
        assert {run.reason for run in runs} == {"imported"}
        found = {str(run.key): run.session for run in runs}
    rebuilt.check(place)
    return found


@pytest.mark.parametrize("both", [False, True], ids=["one side", "both sides"])
def test_what_they_imported_is_a_copy_here_too(tmp_path, both):
    place = branched(tmp_path)
    with perdure.open(url(place)) as store:
        store.import_(bundle_of(tmp_path, "theirs"), names={"theirs": "mapped"})
    commit(place, "theirs")
    git(place, "checkout", "-q", "main")
    if both:
        with perdure.open(url(place)) as store:
            store.import_(bundle_of(tmp_path, "ours"))
        commit(place, "ours")
    merge(url(place), "other")
    assert checked_copies(place) == {"theirs": "mapped"} | ({"ours": "ours"} if both else {})
    assert merge(url(place), "other").added == 0
    checked_copies(place)


def test_what_both_imported_under_two_names_keeps_ours(tmp_path):
    place, bundle = branched(tmp_path), bundle_of(tmp_path, "same")
    with perdure.open(url(place)) as store:
        store.import_(bundle, names={"same": "mapped"})
    commit(place, "theirs")
    git(place, "checkout", "-q", "main")
    with perdure.open(url(place)) as store:
        store.import_(bundle)
    merge(url(place), "other")
    assert checked_copies(place) == {"same": "same"}
    with perdure.open(url(place)) as store:
        assert turns(store, "same") == ["from same"]


def test_what_they_imported_under_a_name_that_is_taken_here_is_a_copy_with_another(tmp_path):
    place = branched(tmp_path)
    with perdure.open(url(place)) as store:
        store.import_(bundle_of(tmp_path, "theirs"), names={"theirs": "taken"})
    commit(place, "theirs")
    git(place, "checkout", "-q", "main")
    with perdure.open(url(place)) as store:
        store.session("taken").say("user", "ours")
    merge(url(place), "other")
    checked_copies(place)
    with perdure.open(url(place)) as store:
        assert turns(store, "taken") == ["ours"]
        assert turns(store, "taken@other") == ["from theirs"]


def test_what_they_imported_from_here_is_no_copy_here(tmp_path):
    """And stays one there, when ours is merged there."""
    place, bundle = branched(tmp_path), tmp_path / "ours.perdure"
    git(place, "checkout", "-q", "main")
    with perdure.open(url(place)) as store:
        store.session("ours").say("user", "ours")
        handle = store.start(waiting, key="ours", session="ours")
        store.export(bundle, ["ours"])
    commit(place, "ours")
    git(place, "checkout", "-q", "other")
    with perdure.open(url(place)) as store:
        store.import_(bundle)
    commit(place, "theirs")
    for here, there, reason in (("main", "other", None), ("other", "main", "imported")):
        git(place, "checkout", "-q", here)
        merge(url(place), there)
        with perdure.open(url(place)) as store:
            report = store.verify()
            assert report.ok, report
            assert store.run(handle.id).record.reason == reason
        rebuilt.check(place)
        commit(place, f"merged {there}")


def test_a_copy_that_both_went_on_with_stands_side_by_side(tmp_path):
    place, bundle = branched(tmp_path), bundle_of(tmp_path, "same")
    git(place, "checkout", "-q", "main")
    with perdure.open(url(place)) as store:
        store.import_(bundle)
    commit(place, "both")
    git(place, "checkout", "-q", "-B", "other")
    for branch in ("other", "main"):
        git(place, "checkout", "-q", branch)
        with perdure.open(url(place)) as store:
            store.session("same").say("user", branch)
        commit(place, branch)
    merge(url(place), "other")
    checked_copies(place)
    with perdure.open(url(place)) as store:
        assert turns(store, "same") == ["from same", "main"]
        assert turns(store, "same@other") == ["from same", "other"]


def branched(tmp_path: Path) -> Path:
    """A store on a branch `other` that has said nothing yet that main has not."""
    place = tmp_path / "store"
    with perdure.open(url(place)) as store:
        store.session("common").say("user", "common")
    git(place, "init", "-q")
    commit(place, "common")
    git(place, "checkout", "-qb", "other")
    return place


def test_a_fork_whose_checkpoint_they_pruned_says_so_and_gives_no_older_one(tmp_path):
    """They do not know our fork; the body of the event is still here, and its row is gone."""
    place = tmp_path / "store"
    with perdure.open(url(place)) as store:
        session = store.session("main")
        session.checkpoint({"at": 1})
        session.checkpoint({"at": 2})
    git(place, "init", "-q")
    commit(place, "common")
    git(place, "checkout", "-qb", "other")
    with perdure.open(url(place)) as store:
        store.session("main").checkpoint({"at": 3})
        store.retain(Retention(checkpoints=1), dry_run=False)
    commit(place, "theirs")
    git(place, "checkout", "-q", "main")
    with perdure.open(url(place)) as store:
        store.session("main").fork(name="fork").say("user", "ours")
        assert store.session("fork").restore() == {"at": 2}
    merge(url(place), "other")
    with perdure.open(url(place)) as store:
        with pytest.raises(NotFound, match="pruned"):
            store.session("fork").restore()
        assert store.session("main").restore() == {"at": 3}
        assert store.verify().ok
    rebuilt.check(place)


# -- another store -----------------------------------------------------------------------------------------------------------


def another_store(place: Path) -> str:
    """A store of its own, with a run that somebody may drive there."""
    with perdure.open(url(place)) as store:
        return store.start(waiting, key="theirs").id


def test_a_store_that_began_by_itself_is_not_merged_for_it_may_drive_its_runs(folder, tmp_path):
    run = another_store(tmp_path / "another")
    before = (folder / "log" / "000001.jsonl").read_bytes()
    with pytest.raises(Refused, match="another store") as caught:
        merge(url(folder), str(tmp_path / "another"))
    assert "perdure export" in str(caught.value.hint)
    assert (folder / "log" / "000001.jsonl").read_bytes() == before
    bundle = tmp_path / "theirs.perdure"
    with perdure.open(url(tmp_path / "another")) as theirs, perdure.open(url(folder)) as ours:
        theirs.export(bundle, runs=[run])
        ours.import_(bundle)
        assert ours.run(run).record.reason == "imported"


def test_a_clone_in_which_somebody_is_at_work_is_not_merged(folder, tmp_path):
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", str(folder), str(clone))
    with perdure.open(url(clone)) as store:
        sending = store.session("s").begin("send", key="k").dispatch()
        with pytest.raises(Refused, match="at work in their clone") as told:
            merge(url(folder), str(clone))
        assert told.value.path == "theirs"
        sending.commit("sent")
    assert merge(url(folder), str(clone)).added  # the control: nobody is, any more


def test_control_without_the_look_its_runs_are_ready_on_both_sides(folder, tmp_path, monkeypatch):
    run = another_store(tmp_path / "another")
    monkeypatch.setattr(OtherSideLog, "shares_a_past_with", lambda *_: True)
    merge(url(folder), str(tmp_path / "another"))
    with perdure.open(url(folder)) as ours, perdure.open(url(tmp_path / "another")) as theirs:
        assert {store.run(run).record.status.value for store in (ours, theirs)} == {"ready"}


def test_a_conflict_of_two_stores_in_one_place_is_refused_and_stays(tmp_path):
    """Each of two branches began one: git finds a conflict in the first line."""
    place = tmp_path / "store"
    place.mkdir()
    git(place, "init", "-q")
    (place / "README").write_text("common")
    commit(place, "common")
    git(place, "branch", "-q", "other")
    for branch in ("other", "main"):
        git(place, "checkout", "-q", branch)
        another_store(place)
        commit(place, branch)
        shutil.rmtree(place / ".perdure")
    conflicted(place)
    before = (place / "log" / "000001.jsonl").read_bytes()
    with pytest.raises(Refused, match="another store"):
        merge(url(place), None)
    assert (place / "log" / "000001.jsonl").read_bytes() == before


def test_a_clone_brings_back_a_log_that_lost_its_first_lines(folder, tmp_path):
    """And with them who it was, and its cache: the lines that are left say that it began as theirs did."""
    git(tmp_path, "clone", "-q", str(folder), "clone")
    segment = folder / "log" / "000001.jsonl"
    segment.write_bytes(b"".join(segment.read_bytes().splitlines(keepends=True)[2:]))
    shutil.rmtree(folder / ".perdure")
    merge(url(folder), str(tmp_path / "clone"))
    with perdure.open(url(folder)) as store:
        assert turns(store, "mine") == ["common", "ours alone"]


# -- what was moved away -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("conflict", [False, True], ids=["a ref", "a conflict"])
def test_what_was_moved_away_is_not_merged_before_it_is_taken_back(folder, tmp_path, conflict):
    other = tmp_path / "other"
    git(tmp_path, "clone", "-q", "-b", "other", str(folder), "other")
    move(url(other), f"sqlite:///{tmp_path}/target.db", actor="me")
    commit(other, "moved")
    git(folder, "fetch", "-q", str(other), "+other:refs/heads/moved")
    if conflict:
        git(folder, "branch", "-qf", "other", "moved")
        conflicted(folder)
    before = (folder / "log" / "000001.jsonl").read_bytes()
    with pytest.raises(Refused, match="moved to sqlite"):
        merge(url(folder), None if conflict else "moved")
    assert (folder / "log" / "000001.jsonl").read_bytes() == before
    if conflict:
        git(folder, "merge", "--abort")
    take_back(url(other), actor="me")
    merge(url(folder), str(other))
    check(folder, "other")
