"""A file of a store has one path (P1): mounted alone, or with a second link, each side has a WAL or a lock of its own."""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
from pathlib import Path

import pytest

import forked
import perdure
from installed import needs
from perdure.errors import Error, Refused, Unavailable
from perdure.stores import held_files, liveness, mounts
from perdure.upkeep import health
from perdure.upkeep.findings import Severity
from perdure_testing.disk import own_mounts, run

WRITER = """
import sys, perdure
with perdure.open(sys.argv[1]) as store:
    for line in sys.stdin:
        try:
            store.session("a").say("user", line.strip())
            print("kept", flush=True)
        except perdure.Error as error:
            print(type(error).__name__, error, flush=True)
"""


def said(url: str) -> list[object]:
    with perdure.open(url) as store:
        return [turn.content for turn in store.session("a").turns(last=100)]


def say(url: str, text: str) -> None:
    with perdure.open(url) as store:
        store.session("a").say("user", text)


@contextlib.contextmanager
def mounted(source: Path, target: Path):
    """The one mounted on the other, in mounts of this process's own."""
    try:
        own_mounts()
        run("mount", "--bind", str(source), str(target))
    except OSError as error:
        pytest.skip(f"NOT TESTED HERE, mounts are not allowed: {error}")
    try:
        yield
    finally:
        run("umount", "--lazy", str(target))


def link_all(source: Path, target: Path) -> None:
    """What `cp -al` does."""
    shutil.copytree(source, target, copy_function=os.link)


@pytest.fixture(params=["statx", "no statx", "an old kernel"])
def look(request, monkeypatch):
    """Every way to look at a file."""
    if request.param == "no statx":
        monkeypatch.setattr(held_files, "_statx_call", lambda: None)
    if request.param == "an old kernel":
        monkeypatch.setattr(held_files, "_MOUNT_ROOT", 0)


@pytest.mark.usefixtures("look")
@pytest.mark.parametrize("read_only", [False, True])
def test_a_database_that_is_mounted_alone_is_refused(tmp_path, read_only):
    host, container = tmp_path / "host" / "agent.db", tmp_path / "container" / "my agent.db"
    for path in (host, container):
        path.parent.mkdir()
        path.touch()
    say(f"sqlite:///{host}", "one")
    with mounted(host, container):
        with pytest.raises(Refused, match="mounted alone") as refusal:
            perdure.open(f"sqlite:///{container}", read_only=read_only)
        assert "stop every program" in (refusal.value.hint or "")
        assert str(container.parent) in (refusal.value.hint or "")
        with pytest.raises(Refused, match="mounted alone"):
            perdure.open(f"sqlite:///{container}?links=ignore", read_only=read_only)
        link = container.with_name("link.db")
        link.symlink_to(container)
        with pytest.raises(Refused, match="mounted alone"):
            perdure.open(f"sqlite:///{link}", read_only=read_only)
    assert not [*container.parent.glob("*-wal")], "nothing was opened"
    assert said(f"sqlite:///{host}") == ["one"]


@pytest.mark.usefixtures("look")
def test_control_a_mounted_folder_is_as_any_other(tmp_path):
    (tmp_path / "host").mkdir()
    (tmp_path / "container").mkdir()
    say(f"sqlite:///{tmp_path}/host/agent.db", "one")
    with mounted(tmp_path / "host", tmp_path / "container"):
        say(f"sqlite:///{tmp_path}/container/agent.db", "two")
    assert said(f"sqlite:///{tmp_path}/host/agent.db") == ["one", "two"]


@pytest.mark.parametrize("read_only", [False, True])
def test_a_database_with_two_links_is_refused_and_the_other_is_named(tmp_path, read_only):
    first, second = tmp_path / "a" / "agent.db", tmp_path / "b" / "other.db"
    for path in (first, second):
        path.parent.mkdir()
    say(f"sqlite:///{first}", "one")
    second.hardlink_to(first)
    for path, other in ((first, second), (second, first)):
        with pytest.raises(Refused, match="has 2 links") as refusal:
            perdure.open(f"sqlite:///{path}", read_only=read_only)
        assert str(other) in str(refusal.value)
        assert "links=ignore" in (refusal.value.hint or "")
    second.unlink()
    assert said(f"sqlite:///{first}") == ["one"]


def test_a_link_that_is_made_while_a_store_is_open_ends_its_writes(tmp_path):
    path, backup = tmp_path / "agent.db", tmp_path / "backup.db"
    with perdure.open(f"sqlite:///{path}") as store:
        session = store.session("a")
        session.say("user", "one")
        backup.hardlink_to(path)
        with pytest.raises(Refused, match=r"backup\.db"):
            session.say("user", "two")
        backup.unlink()
        session.say("user", "three")
    assert said(f"sqlite:///{path}") == ["one", "three"]


def test_a_link_that_is_made_inside_a_commit_leaves_its_outcome_unknown(tmp_path, monkeypatch):
    path, backup = tmp_path / "agent.db", tmp_path / "backup.db"
    from perdure.stores.sqlite import SqliteConnection

    commit = SqliteConnection.commit

    def linked(connection: SqliteConnection) -> None:
        commit(connection)
        if not backup.exists():
            backup.hardlink_to(path)

    with perdure.open(f"sqlite:///{path}") as store:
        session = store.session("a")
        monkeypatch.setattr(SqliteConnection, "commit", linked)
        with pytest.raises(Unavailable, match="outcome is not known"):
            session.say("user", "two")
        monkeypatch.undo()


def test_links_are_ignored_by_word_and_that_is_recorded(tmp_path):
    path = tmp_path / "live" / "agent.db"
    path.parent.mkdir()
    url = f"sqlite:///{path}"
    say(url, "one")
    link_all(path.parent, tmp_path / "backup")
    say(f"{url}?links=ignore", "two")
    shutil.rmtree(tmp_path / "backup")
    assert said(url) == ["one", "two"]
    for shown, severity in ((f"{url}?links=ignore", Severity.WARNING), (url, Severity.OK)):
        (finding,) = [each for each in health.examine(shown).findings if each.check == "links"]
        assert finding.severity is severity
        assert "links=ignore since 20" in finding.says


def test_an_option_that_says_anything_else_about_links_is_refused():
    with pytest.raises(perdure.Invalid, match="links=ignore"):
        perdure.open("sqlite:///a.db?links=2")


def test_two_processes_at_two_links_lose_nothing_that_was_acknowledged(tmp_path):
    """The one that has it open, and the one that comes by another path: neither has a write acknowledged."""
    path, other = tmp_path / "agent.db", tmp_path / "elsewhere"
    other.mkdir()
    say(f"sqlite:///{path}", "zero")
    pipes = {"stdin": -1, "stdout": -1}
    with forked.Program("-c", WRITER, f"sqlite:///{path}", **pipes) as program:
        program.stdin.write("one\n")
        program.stdin.flush()
        assert program.stdout.readline() == "kept\n"
        (other / "agent.db").hardlink_to(path)
        with pytest.raises(Refused):
            perdure.open(f"sqlite:///{other}/agent.db")
        program.stdin.write("two\n")
        program.stdin.close()
        assert program.stdout.readline().startswith("Refused")
        program.wait(60)
        program.stdin = None
    (other / "agent.db").unlink()
    assert said(f"sqlite:///{path}") == ["zero", "one"]


def test_a_store_whose_maker_was_killed_before_it_let_the_first_name_go_opens(tmp_path):
    path = tmp_path / "agent.db"
    say(f"sqlite:///{path}", "one")
    left = tmp_path / ".agent.db.unfinished"
    left.mkdir()
    (left / "agent.db").hardlink_to(path)
    assert said(f"sqlite:///{path}") == ["one"]


# -- files stores ------------------------------------------------------------------------------------------------------


@needs("perdure-files")
def test_a_log_with_two_links_is_refused_and_its_cache_is_made_anew(tmp_path):
    url = f"files:///{tmp_path}/state"
    say(url, "one")
    link_all(tmp_path / "state", tmp_path / "backup")
    with pytest.raises(Refused, match=r"000001\.jsonl has 2 links"):
        perdure.open(url)
    say(f"{url}?links=ignore", "two")
    shutil.rmtree(tmp_path / "backup")
    assert said(url) == ["one", "two"]


@needs("perdure-files")
def test_a_cache_with_two_links_is_made_anew(tmp_path):
    url = f"files:///{tmp_path}/state"
    say(url, "one")
    (cache,) = (tmp_path / "state" / ".perdure").glob("cache-*/cache.db")
    (tmp_path / "other.db").hardlink_to(cache)
    assert said(url) == ["one"]
    assert cache.stat().st_nlink == 1


@needs("perdure-files")
def test_a_segment_that_gets_a_link_while_it_is_written_to_is_noticed(tmp_path):
    with perdure.open(f"files:///{tmp_path}/state") as store:
        session = store.session("a")
        session.say("user", "one")
        (tmp_path / "other").hardlink_to(tmp_path / "state" / "log" / "000001.jsonl")
        with pytest.raises(Error, match="has 2 links"):
            session.say("user", "two")
        (tmp_path / "other").unlink()
        session.say("user", "three")
    assert said(f"files:///{tmp_path}/state") == ["one", "three"]


@needs("perdure-files")
@pytest.mark.parametrize("part", ["log", ".perdure", "log/000001.jsonl", ".perdure/lock"])
def test_a_part_of_a_files_store_that_is_mounted_alone_is_refused(tmp_path, part):
    host, container = tmp_path / "host", tmp_path / "container"
    say(f"files:///{host}", "one")
    shutil.copytree(host, container)
    with mounted(host / part, container / part), pytest.raises(Refused, match="mounted alone"):
        perdure.open(f"files:///{container}")


# -- network file systems ----------------------------------------------------------------------------------------------


def test_locks_that_lie_on_a_network_file_system_are_told_of(tmp_path, monkeypatch, caplog):
    table = f"server:/x {tmp_path} nfs4 rw 0 0\n"
    monkeypatch.setattr(mounts, "table", lambda: table)
    with caplog.at_level(logging.WARNING):
        say(f"sqlite:///{tmp_path}/agent.db", "one")
    assert [each for each in caplog.messages if "nfs4" in each and ".live" in each]
    found = {each.check: each for each in health.examine(f"sqlite:///{tmp_path}/agent.db").findings}
    assert found["locks"].severity is Severity.WARNING
    assert "nfs4" in found["locks"].says


def test_a_symbolic_link_to_the_file_leads_to_the_same_locks(tmp_path):
    real, link = tmp_path / "agent.db", tmp_path / "elsewhere.db"
    real.touch()
    link.symlink_to(real)
    assert liveness.folder_for(link, "", remote=False) == liveness.folder_for(real, "", remote=False)


def test_control_locks_on_this_machine_are_not_accused(tmp_path, caplog):
    with caplog.at_level(logging.WARNING):
        say(f"sqlite:///{tmp_path}/agent.db", "one")
    assert not caplog.messages
    assert "locks" not in {each.check for each in health.examine(f"sqlite:///{tmp_path}/agent.db").findings}
