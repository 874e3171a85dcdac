"""Lock files: a file with a holder's name is locked as long as its process lives, and goes when it proves nothing any more."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from perdure.errors import Unavailable
from perdure.stores import living as module
from perdure.stores.living import OLD_SECONDS, Living

ME, OTHER, THIRD = "a" * 32, "b" * 32, "e" * 32
HOLD = """
import sys
from pathlib import Path
from perdure.stores.living import Living
living = Living(Path(sys.argv[1]), sys.argv[2])
living.begin()
print(1, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def folder(tmp_path) -> Path:
    return tmp_path / "a.db.live"


@pytest.fixture
def mine(folder):
    made = Living(folder, ME)
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
    made = Living(folder, ME)
    made.begin()
    made.begin()
    assert names(folder) == {ME}
    made.end()
    assert names(folder) == set()


def test_who_ends_while_something_names_it_is_proved_to_be_gone(mine, folder):
    left = Living(folder, OTHER)
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
    monkeypatch.setattr(Living, "is_dead", lambda _self, holder: holder != ME)
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
    assert Living(None, ME).tidy(lambda: ()) == 0
    assert Living(tmp_path / "none", ME).tidy(lambda: ()) == 0


# -- beginning beside somebody who tidies ----------------------------------------------------------------------


def test_a_file_never_has_a_holders_name_without_its_lock(folder, monkeypatch):
    seen = []
    rename = Path.rename

    def look(path, target):
        seen.append((names(folder), module._can_be_locked(path)))
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", look)
    made = Living(folder, ME)
    made.begin()
    assert seen == [({ME + ".new"}, False)]
    assert names(folder) == {ME}
    assert not module._can_be_locked(folder / ME)
    made.end()


def test_who_stood_still_before_it_had_its_lock_makes_another(folder, monkeypatch):
    flock, taken = fcntl.flock, []

    def stand_still(fd, how):
        if not taken and how == fcntl.LOCK_EX:
            taken.append(fd)
            grow_old(folder)
            assert Living(folder, OTHER).tidy(lambda: ()) == 1
        return flock(fd, how)

    monkeypatch.setattr(fcntl, "flock", stand_still)
    made = Living(folder, ME)
    made.begin()
    assert taken
    assert names(folder) == {ME}
    assert not module._can_be_locked(folder / ME)
    made.end()


def test_control_one_that_is_always_taken_away_is_said(folder, monkeypatch):
    def gone(_path, _target):
        next(folder.iterdir()).unlink()
        raise FileNotFoundError

    monkeypatch.setattr(Path, "rename", gone)
    with pytest.raises(Unavailable, match="again and again"):
        Living(folder, ME).begin()
