"""A backup of any store but PostgreSQL is restored as files too, whole or not at all; another file is called by its name."""

from __future__ import annotations

from pathlib import Path

import pytest

import perdure
from perdure.model import crash_points
from perdure.runtime.callers import caller_of
from perdure_files.store.layout import Layout
from stores.files import rebuilt


class Stopped(BaseException):
    """As a kill would."""


def filled(url: str) -> None:
    with perdure.open(url) as store:
        session = store.session("a", title="Fix login")
        for number in range(30):
            session.say("user", f"word {number}")
        session.set("small", "x" * 9_000)
        session.attach("large", b"content" * 30_000)
        session.task("something to do")
        session.fork(name="branch").say("user", "on a branch")
    with perdure.open(url, tenant="other") as store:
        store.session("theirs").set("x", "y" * 10_000)


@pytest.fixture(params=["files", "sqlite"])
def backup(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    url = f"{request.param}:///{tmp_path}/original"
    filled(url)
    with perdure.open(url) as store:
        store.backup(tmp_path / "kept.bak")
    return tmp_path / "kept.bak"


def test_a_backup_becomes_a_files_store_that_goes_on(backup, tmp_path):
    made = perdure.restore(backup, f"files:///{tmp_path}/restored")
    assert made.epoch == 2
    for _ in range(2):
        with perdure.open(made.url) as store:
            assert caller_of(store).core.epoch == 2
            assert store.verify().ok
            assert store.session("a").get("small") == "x" * 9_000
            assert store.session("a").artifacts()[0].read() == b"content" * 30_000
            assert store.session("branch").turns(last=1)[0].content == "on a branch"
        with perdure.open(made.url, tenant="other") as store:
            assert store.session("theirs").get("x") == "y" * 10_000
    with perdure.open(made.url) as store:
        assert store.session("a").say("user", "goes on").seq > 30
    rebuilt.check(tmp_path / "restored")


def test_nothing_is_restored_over_what_is_there(backup, tmp_path):
    target = tmp_path / "restored"
    target.mkdir()
    (target / "mine").write_text("kept")
    with pytest.raises(perdure.Conflict):
        perdure.restore(backup, f"files:///{target}")
    assert [path.name for path in target.iterdir()] == ["mine"]


@pytest.mark.parametrize("point", ["restore.loaded", "files.written", "files.placed"])
def test_a_restore_that_dies_leaves_no_store_and_is_repeated(backup, tmp_path, point):
    def stop() -> None:
        raise Stopped

    disarm = crash_points.arm(point, stop)
    try:
        with pytest.raises(Stopped):
            perdure.restore(backup, f"files:///{tmp_path}/restored")
    finally:
        disarm()
    assert not (tmp_path / "restored").exists()
    perdure.restore(backup, f"files:///{tmp_path}/restored")
    assert Layout(tmp_path / "restored").numbers() == [1]


@pytest.mark.parametrize("target", ["sqlite", "files"])
def test_a_bundle_is_called_one(tmp_path, target):
    url = f"sqlite:///{tmp_path}/original"
    filled(url)
    with perdure.open(url) as store:
        store.export(tmp_path / "sessions.perdure", sessions=["a"])
    with pytest.raises(perdure.Invalid, match=r"is not a backup, but perdure\.bundle") as told:
        perdure.restore(tmp_path / "sessions.perdure", f"{target}:///{tmp_path}/restored")
    assert "perdure import sessions.perdure" in told.value.hint
    assert not (tmp_path / "restored").exists()


def test_a_backup_of_postgresql_is_called_one(tmp_path, postgres_store):
    with perdure.open(postgres_store) as store:
        store.session("a").say("user", "x")
        store.backup(tmp_path / "kept.bak")
    with pytest.raises(perdure.Invalid, match="is a backup of PostgreSQL") as told:
        perdure.restore(tmp_path / "kept.bak", f"files:///{tmp_path}/restored")
    assert "perdure move" in told.value.hint
