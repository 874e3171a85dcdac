"""Lock files: a file with a holder's name is locked as long as its process lives, and goes when it proves nothing any more."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from perdure.errors import Unavailable
from perdure.stores import liveness as module
from perdure.stores.liveness import OLD_SECONDS, Liveness

ME, OTHER, THIRD = "a" * 32, "b" * 32, "e" * 32
HOLD = """
import sys
from pathlib import Path
from perdure.stores.liveness import Liveness
liveness = Liveness(Path(sys.argv[1]), sys.argv[2])
liveness.begin()
print(1, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def folder(tmp_path) -> Path:
    return tmp_path / "a.db.live"


@pytest.fixture
def mine(folder):
    made = Liveness(folder, ME)
    made.begin()
    yield made
    made.end()


@pytest.fixture
def other(folder):
    """Another process that holds its lock; killed at the end, if it was not before."""
    command = [sys.executable, "-c", HOLD, str(folder), OTHER]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout.readline() == b"1\n"
        yield child
        child.kill()


def grow_old(folder: Path) -> None:
    for path in folder.iterdir():
        long_ago = path.stat().st_mtime - OLD_SECONDS - 1
        os.utime(path, (long_ago, long_ago))


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def is_held(path: Path) -> bool:
    """Whether somebody holds the lock of the file that has this name now."""
    with path.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def kill(child) -> None:
    child.kill()
    child.wait()


def test_whoever_lives_is_not_dead_and_whoever_was_killed_is(mine, other):
    assert not mine.is_dead(OTHER)
    kill(other)
    assert mine.is_dead(OTHER)
    assert not mine.is_dead(ME)
    assert not mine.is_dead("c" * 32)  # who has no file: nothing is proved
    assert not mine.is_dead("../a.db")


def test_a_clean_end_leaves_nothing(folder):
    made = Liveness(folder, ME)
    made.begin()
    made.begin()
    assert names(folder) == {ME}
    made.end()
    assert not folder.exists()


def test_who_ends_while_something_names_it_is_proved_to_be_gone(mine, folder):
    left = Liveness(folder, OTHER)
    left.begin()
    left.stay_named()
    assert not mine.is_dead(OTHER)
    left.end()
    assert mine.is_dead(OTHER)


# -- tidying -------------------------------------------------------------------------------------------------


def test_the_file_of_the_dead_goes_when_nothing_names_it(mine, other, folder):
    kill(other)
    assert mine.tidy(lambda: ()) == 0  # it is young
    grow_old(folder)
    assert mine.tidy(lambda: {OTHER}) == 0  # somebody may have to prove its death
    assert mine.tidy(lambda: None) == 0  # or nobody knows
    assert names(folder) == {ME, OTHER}
    assert mine.tidy(lambda: ()) == 1
    assert names(folder) == {ME}
    assert mine.tidy(lambda: ()) == 0


def test_the_file_of_the_living_stays_however_old(mine, other, folder):
    grow_old(folder)
    assert mine.tidy(lambda: ()) == 0
    assert names(folder) == {ME, OTHER}
    kill(other)
    assert mine.is_dead(OTHER)


@pytest.mark.usefixtures("other")
def test_control_without_the_proof_the_living_lose_theirs(mine, folder, monkeypatch):
    monkeypatch.setattr(Liveness, "is_dead", lambda _self, holder: holder != ME)
    grow_old(folder)
    assert mine.tidy(lambda: ()) == 1
    assert names(folder) == {ME}


def test_deaths_are_proved_before_it_is_asked_what_is_named(mine, other, folder):
    """Else a process that leases something in between, and dies, would lose its proof."""
    (folder / THIRD).touch()
    grow_old(folder)

    def needed():
        kill(other)
        return ()

    assert mine.tidy(needed) == 1
    assert names(folder) == {ME, OTHER}  # which lived when it was looked at
    assert mine.is_dead(OTHER)


def test_what_is_no_lock_file_stays_and_what_was_never_finished_goes(mine, folder):
    for name in ("README", "c" * 31, "d" * 32 + ".new"):
        (folder / name).touch()
    grow_old(folder)
    assert mine.tidy(lambda: ()) == 1
    assert names(folder) == {ME, "README", "c" * 31}


def test_somebody_elses_folder_is_left_alone(mine, other, folder):
    kill(other)
    grow_old(folder)
    folder.chmod(0o777)
    assert mine.tidy(lambda: ()) == 0
    folder.chmod(0o700)


def test_where_nothing_can_be_proved_there_is_nothing_to_tidy(tmp_path):
    assert Liveness(None, ME).tidy(lambda: ()) == 0
    assert Liveness(tmp_path / "none", ME).tidy(lambda: ()) == 0


# -- beginning beside somebody who tidies ----------------------------------------------------------------------


def test_a_file_never_has_a_holders_name_without_its_lock(folder, monkeypatch):
    seen = []
    rename = os.rename

    def look(name, *given, src_dir_fd, **more):
        seen.append((names(folder), module._can_be_locked(name, src_dir_fd)))
        rename(name, *given, src_dir_fd=src_dir_fd, **more)

    monkeypatch.setattr(os, "rename", look)
    made = Liveness(folder, ME)
    made.begin()
    assert seen == [({ME + ".new"}, False)]
    assert names(folder) == {ME}
    assert is_held(folder / ME)
    made.end()


def test_who_stood_still_before_it_had_its_lock_makes_another(folder, monkeypatch):
    flock, taken = fcntl.flock, []

    def stand_still(fd, how):
        if not taken and how == fcntl.LOCK_EX:
            taken.append(fd)
            grow_old(folder)
            assert Liveness(folder, OTHER).tidy(lambda: ()) == 1
        return flock(fd, how)

    monkeypatch.setattr(fcntl, "flock", stand_still)
    made = Liveness(folder, ME)
    made.begin()
    assert taken
    assert names(folder) == {ME}
    assert is_held(folder / ME)
    made.end()


def test_control_one_that_is_always_taken_away_is_said(folder, monkeypatch):
    def gone(*_names, **_given):
        next(folder.iterdir()).unlink()
        raise FileNotFoundError

    monkeypatch.setattr(os, "rename", gone)
    with pytest.raises(Unavailable, match="again and again"):
        Liveness(folder, ME).begin()


# -- the last to leave takes the folder along --------------------------------------------------------------------


def test_the_folder_stays_as_long_as_anybody_needs_it(mine, other, folder):
    mine.end()
    assert names(folder) == {OTHER}
    kill(other)
    left = Liveness(folder, THIRD)
    left.begin()
    left.end()
    assert names(folder) == {OTHER}  # its death may have to be proved
    grow_old(folder)
    assert left.tidy(lambda: ()) == 1
    assert not folder.exists()


@pytest.mark.parametrize(("owner", "call"), [(Path, "mkdir"), (Path, "lstat"), (os, "open")])
def test_who_begins_while_the_last_one_leaves_makes_the_folder_again(folder, monkeypatch, owner, call):
    """The folder vanishes right after it was made, looked at or opened: there is no file in it yet."""
    real, left = getattr(owner, call), []

    def then_leave(*args, **given):
        done = real(*args, **given)
        if not left:
            left.append(folder.rmdir())
        return done

    monkeypatch.setattr(owner, call, then_leave)
    made = Liveness(folder, ME)
    made.begin()
    assert left
    assert names(folder) == {ME}
    assert is_held(folder / ME)
    made.end()


def test_who_begins_beside_others_that_come_and_go_always_holds_what_has_its_name(folder):
    def come_and_go(holder: str) -> int:
        for _ in range(300):
            made = Liveness(folder, holder)
            made.begin()
            assert is_held(folder / holder)
            assert not Liveness(folder, THIRD).is_dead(holder)
            made.end()
        return 1

    with ThreadPoolExecutor(4) as threads:
        assert sum(threads.map(come_and_go, [f"{number:032x}" for number in range(4)])) == 4
    assert not folder.exists()


def test_control_without_trying_again_who_begins_beside_them_fails(folder, monkeypatch):
    monkeypatch.setattr(module, "_TRIES", 1)
    entered = module._entered

    @contextmanager
    def then_leave(path):
        with entered(path) as inside:
            path.rmdir()
            yield inside

    monkeypatch.setattr(module, "_entered", then_leave)
    with pytest.raises(Unavailable, match="again and again"):
        Liveness(folder, ME).begin()


@pytest.mark.parametrize("begins", [True, False])
def test_what_another_puts_in_the_place_of_a_folder_that_went_proves_nothing(folder, tmp_path, monkeypatch, begins):
    """In a temporary folder anybody may take the name that has become free."""
    folder.mkdir(mode=0o700)
    theirs, lstat, taken = tmp_path / "theirs", Path.lstat, []
    theirs.mkdir(mode=0o777)
    theirs.chmod(0o777)
    (theirs / OTHER).touch()

    def then_taken(path):
        found = lstat(path)
        if path == folder and not taken:
            taken.append(folder.rmdir())
            theirs.rename(folder)
        return found

    monkeypatch.setattr(Path, "lstat", then_taken)
    made = Liveness(folder, ME)
    if begins:
        made.begin()
        assert (made.folder, names(folder)) == (None, {OTHER})
    else:
        assert not made.is_dead(OTHER)
    assert taken
