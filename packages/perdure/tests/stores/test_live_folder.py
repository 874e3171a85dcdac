"""The folder of the lock files: what is not ours alone proves nothing, and what cannot be used is said with the way out."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

import perdure
from perdure.errors import Error
from perdure.stores import liveness as module
from perdure.stores.liveness import Liveness, folder_for

ME, OTHER = "a" * 32, "b" * 32


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "a.db.live"


@pytest.fixture
def dead(folder):
    """A folder with the file of one who is dead: whoever trusts the folder believes it."""
    folder.mkdir(mode=0o700)
    (folder / OTHER).touch()
    return folder


def test_the_control_in_a_folder_of_our_own_a_free_lock_is_a_death(dead):
    assert Liveness(dead, ME).is_dead(OTHER)


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702, 0o1777])
def test_where_others_may_write_nothing_is_proved(dead, mode):
    dead.chmod(mode)
    made = Liveness(dead, ME)
    assert not made.is_dead(OTHER)
    made.begin()
    assert (made.folder, made.lock()) == (None, ())


def test_a_folder_of_somebody_else_proves_nothing(dead, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: dead.stat().st_uid + 1)
    assert not Liveness(dead, ME).is_dead(OTHER)


def test_a_link_in_its_place_proves_nothing(dead, tmp_path):
    link = tmp_path / "link.live"
    link.symlink_to(dead)
    made = Liveness(link, ME)
    assert not made.is_dead(OTHER)
    made.begin()
    assert made.folder is None


def test_a_folder_that_is_not_there_proves_nothing(folder):
    assert not Liveness(folder, ME).is_dead(OTHER)


def test_a_folder_is_made_for_us_alone_whatever_the_umask(folder):
    before = os.umask(0)
    try:
        made = Liveness(folder, ME)
        made.begin()
    finally:
        os.umask(before)
    assert folder.stat().st_mode & 0o777 == 0o700
    made.end()


# -- databases elsewhere ---------------------------------------------------------------------------------------


def temp_of(path: Path, mode: int, monkeypatch: pytest.MonkeyPatch) -> None:
    path.mkdir()
    path.chmod(mode)
    monkeypatch.setattr(tempfile, "tempdir", str(path))


@pytest.mark.parametrize(
    ("mode", "safe"), [(0o1777, True), (0o700, True), (0o755, True), (0o777, False), (0o770, False)]
)
def test_a_temporary_folder_where_others_may_rename_ours_is_not_used(tmp_path, monkeypatch, mode, safe):
    temp_of(tmp_path / "tmp", mode, monkeypatch)
    found = folder_for(None, "ab" * 16, remote=True)
    assert (found is not None) is safe
    assert found is None or found.parent == tmp_path / "tmp"  # nothing between it and what the system protects


@pytest.mark.parametrize("url", ["postgres", "sqlite"])
def test_nothing_is_left_when_the_last_one_has_closed_the_store(request, tmp_path, monkeypatch, url):
    temp_of(tmp_path / "tmp", 0o700, monkeypatch)
    where = f"sqlite:///{tmp_path}/tmp/a.db" if url == "sqlite" else request.getfixturevalue("postgres_store")
    with perdure.open(where) as last:
        with perdure.open(where) as first:
            last.drive(nothing, key="last")
            first.drive(nothing, key="first")
            folder = first._caller.core.liveness.folder
            assert names(folder) == {store._caller.core.holder for store in (first, last)}
        assert names(folder) == {last._caller.core.holder}
    assert names(tmp_path / "tmp") == (set() if url == "postgres" else {"a.db", "a.db.live"})


def names(folder: Path) -> set[str]:
    """Of processes: how far the store had come stays noted (`rollback_guard`)."""
    return {path.name for path in folder.iterdir()} - {"tide", ".gitignore"}


# -- what cannot be used ---------------------------------------------------------------------------------------


@perdure.tool
def send():
    return 1


@perdure.agent
def nothing(run):
    return 1


@pytest.mark.parametrize(
    "use", [lambda store: store.drive(nothing, key="k"), lambda store: store.session("s").act(send, key="k")]
)
def test_a_file_in_its_place_is_said(tmp_path, use):
    (tmp_path / "a.db.live").touch()
    with perdure.open(f"sqlite:///{tmp_path}/a.db") as store, pytest.raises(Error) as error:
        use(store)
    assert (error.value.path, "a.db.live" in str(error.value)) == ("store.live", True)
    assert "only this user" in error.value.hint


def test_what_the_disk_says_is_an_error_of_ours(folder, monkeypatch):
    def full(*_args, **_given):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module.os, "open", full)
    with pytest.raises(perdure.Full, match="No space left"):
        Liveness(folder, ME).begin()
