"""The workspace check: what a folder holds is seen without touching it, and a run does not go on in another one unnoticed."""

from __future__ import annotations

import hashlib
import os
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest

import perdure
from perdure.errors import Invalid, Parked, Waiting
from perdure.runtime import workspace
from perdure.runtime.workspace import PATHS_KEPT, KnownWorkspace, check, look

ENV = {
    **os.environ, "GIT_AUTHOR_NAME": "Ada", "GIT_AUTHOR_EMAIL": "ada@example.org", "GIT_COMMITTER_NAME": "Ada",
    "GIT_COMMITTER_EMAIL": "ada@example.org", "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1",
}  # fmt: skip


def git(folder: Path, *command: str) -> str:
    done = subprocess.run(["git", *command], cwd=folder, env=ENV, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def repository(folder: Path) -> Path:
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    (folder / "kept.py").write_text("1\n")
    (folder / ".gitignore").write_text("*.log\n")
    (folder / "sub").mkdir()
    (folder / "sub" / "deep.py").write_text("2\n")
    commit(folder)
    return folder


def commit(folder: Path) -> None:
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "x")


@pytest.fixture
def repo(tmp_path) -> Path:
    return repository(tmp_path / "repo")


def mark(repo: Path) -> str:
    return look(str(repo)).mark


# -- looking ------------------------------------------------------------------------------------------------


def test_a_clean_folder_is_its_commit(repo):
    found = look(str(repo))
    assert (found.state, found.head, found.tree, found.paths) == ("git", git(repo, "rev-parse", "HEAD"), "", {})


def change(repo: Path) -> None:
    (repo / "kept.py").write_text("3\n")


def add(repo: Path) -> None:
    (repo / "new.py").write_text("")


def delete(repo: Path) -> None:
    (repo / "kept.py").unlink()


def make_executable(repo: Path) -> None:
    (repo / "kept.py").chmod(0o755)


def make_a_link(repo: Path) -> None:
    (repo / "kept.py").unlink()
    (repo / "kept.py").symlink_to("nowhere")


def commit_nothing(repo: Path) -> None:
    git(repo, "commit", "-q", "--allow-empty", "-m", "y")


def nest(repo: Path) -> None:
    repository(repo / "nested")


@pytest.mark.parametrize("did", [change, add, delete, make_executable, make_a_link, commit_nothing, nest])
def test_a_difference_is_seen_and_gone_when_it_is_taken_back(repo, did):
    before, head = mark(repo), git(repo, "rev-parse", "HEAD")
    did(repo)
    assert mark(repo) != before
    git(repo, "reset", "-q", "--hard", head)
    git(repo, "clean", "-ffdq")
    assert mark(repo) == before


@pytest.mark.parametrize("name", ["new.py", "new\nline", "naïve", os.fsdecode(b"\xff\xfe")])
def test_what_an_untracked_file_holds_counts_whatever_it_is_called(repo, name):
    (repo / name).write_text("a")
    before = look(str(repo))
    (repo / name).write_text("b")
    after = look(str(repo))
    assert before.mark != after.mark
    assert list(before.paths) == list(after.paths)
    assert "\udcff" not in "".join(after.paths)


def test_in_a_nested_repository_too(repo):
    nest(repo)
    before = mark(repo)
    (repo / "nested" / "kept.py").write_text("other\n")
    assert mark(repo) != before


def test_what_is_ignored_or_only_staged_does_not_count(repo):
    (repo / "run.log").write_text("noise")
    assert look(str(repo)).tree == ""
    change(repo)
    add(repo)
    before = mark(repo)
    git(repo, "add", "-A")
    assert mark(repo) == before


def test_only_what_is_below_the_folder_counts(repo):
    before = mark(repo / "sub")
    change(repo)
    assert mark(repo / "sub") == before
    (repo / "sub" / "deep.py").write_text("3\n")
    assert mark(repo / "sub") != before
    assert list(look(str(repo / "sub")).paths) == ["sub/deep.py"]


def bytes_of(folder: Path) -> dict[str, str]:
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {str(path): f"{path.stat().st_mtime_ns} {hashlib.sha256(path.read_bytes()).hexdigest()}" for path in files}


def test_looking_changes_nothing(repo):
    change(repo)
    add(repo)
    os.utime(repo / "sub" / "deep.py", (1, 1))  # what makes `git status` refresh its index
    before = bytes_of(repo)
    look(str(repo))
    assert bytes_of(repo) == before


def test_control_a_plain_status_would_have_changed_the_index(repo):
    os.utime(repo / "sub" / "deep.py", (1, 1))
    before = bytes_of(repo)
    git(repo, "status")
    assert bytes_of(repo) != before


def test_many_paths_are_kept_in_part_and_compared_in_whole(repo):
    for number in range(PATHS_KEPT + 5):
        (repo / f"n{number:04}").write_text("")
    before = look(str(repo))
    assert (len(before.paths), before.count) == (PATHS_KEPT, PATHS_KEPT + 5)
    (repo / f"n{PATHS_KEPT + 4:04}").write_text("x")
    after = look(str(repo))
    assert after.mark != before.mark
    assert list(workspace.differences(before, after)) == ["and more"]


def test_before_the_first_commit(tmp_path):
    git(tmp_path, "init", "-q")
    (tmp_path / "a").write_text("a")
    assert (look(str(tmp_path)).head, list(look(str(tmp_path)).paths)) == ("", ["a"])


def test_where_there_is_nothing_to_compare_it_says_why(repo, tmp_path, monkeypatch):
    (tmp_path / "plain").mkdir()
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    assert look(str(tmp_path / "plain")).state == "no repository"
    assert look(str(tmp_path / "gone")).state == "no folder"
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert look(str(repo)).state == "no git"
    slow = tmp_path / "bin" / "git"
    slow.write_text("#!/bin/sh\nexec /bin/sleep 60\n")
    slow.chmod(0o755)
    found = look(str(repo), seconds=0.05)
    assert (found.state, found.why) == ("unknown", "git did not answer in time")


def test_variables_of_another_repository_do_not_lead_there(repo, tmp_path, monkeypatch):
    monkeypatch.setenv("GIT_DIR", str(repository(tmp_path / "other") / ".git"))
    assert look(str(repo)).head == git(repo, "-c", "core.bare=false", "--git-dir=.git", "rev-parse", "HEAD")


# -- runs ---------------------------------------------------------------------------------------------------


@perdure.tool(kind="idempotent")
def touch(path: str) -> None:
    Path(path).touch()


def agent(repo: Path, *, act: str = "", folder: bool = True) -> Any:
    @perdure.agent(name="worker", workspace=str(repo) if folder else None)
    def worker(run, start):
        if run.restored is None:
            run.checkpoint({"start": start})
        if act:
            run.act(touch, act)
        run.wait("go")
        return "done"

    return worker


@pytest.fixture
def store(tmp_path):
    with perdure.open(f"sqlite:///{tmp_path}/a.db", actor="ada") as opened:
        yield opened


def begun(store, worker) -> Any:
    """A run that has made its checkpoint, waits, and may go on at once."""
    with pytest.raises(Waiting):
        store.drive(worker, 1, key="k")
    (handle,) = store.runs()
    handle.signal("go")
    return handle


def test_in_the_same_folder_it_goes_on(store, repo):
    add(repo)
    handle = begun(store, agent(repo))
    assert store.drive(agent(repo), 1, key="k") == "done"
    assert handle.refresh().status == "completed"


def test_in_another_one_it_is_parked_with_the_difference(store, repo):
    handle = begun(store, agent(repo))
    before = git(repo, "rev-parse", "--short=12", "HEAD")
    commit_nothing(repo)
    change(repo)
    with pytest.raises(Parked, match=r"HEAD was .* changed: kept\.py") as error:
        store.drive(agent(repo), 1, key="k")
    assert before in str(error.value)
    assert git(repo, "rev-parse", "--short=12", "HEAD") in str(error.value)
    record = handle.refresh().record
    assert (record.status, record.reason, record.error.code) == ("parked", "workspace", "workspace")


@pytest.mark.parametrize("switch", [("switch", "-qc", "other"), ("switch", "-q", "--detach")])
def test_on_another_branch_it_would_commit_there(store, repo, switch):
    """At the same commit: until then nobody had noticed."""
    handle = begun(store, agent(repo))
    git(repo, *switch)
    with pytest.raises(Parked, match="the branch was main and is"):
        store.drive(agent(repo), 1, key="k")
    git(repo, "switch", "-q", "main")
    handle.resume()
    assert store.drive(agent(repo), 1, key="k") == "done"


def test_a_checkpoint_that_noted_no_branch_is_compared_without(repo):
    then = look(str(repo))
    old = msgspec.structs.replace(then, branch="")
    git(repo, "switch", "-qc", "other")
    check(str(repo), KnownWorkspace(old, "", acted=False))
    with pytest.raises(Parked):
        check(str(repo), KnownWorkspace(then, "", acted=False))
    change(repo)
    with pytest.raises(Parked, match=r"left it: changed: kept\.py \(") as parked:
        check(str(repo), KnownWorkspace(old, "", acted=False))
    check(str(repo), KnownWorkspace(old, parked.value.facts["found"], acted=False))


def test_when_the_folder_is_restored_it_goes_on(store, repo):
    handle = begun(store, agent(repo))
    change(repo)
    with pytest.raises(Parked):
        store.drive(agent(repo), 1, key="k")
    git(repo, "checkout", "-q", "--", ".")
    handle.resume()
    assert store.drive(agent(repo), 1, key="k") == "done"


def test_who_resumes_it_accepts_what_was_shown_and_nothing_else(store, repo):
    handle = begun(store, agent(repo))
    change(repo)
    with pytest.raises(Parked):
        store.drive(agent(repo), 1, key="k")
    add(repo)  # after the person had looked
    store.as_("bob").run(handle.id).resume()
    with pytest.raises(Parked, match=r"new\.py"):
        store.drive(agent(repo), 1, key="k")
    store.as_("bob").run(handle.id).resume()
    assert store.drive(agent(repo), 1, key="k") == "done"
    said = [(each.kind, each.actor) for each in store.feed() if each.kind in ("run.parked", "run.resumed")]
    assert said == [("run.parked", "ada"), ("run.resumed", "bob")] * 2


def test_a_folder_that_is_gone_is_a_difference(store, repo):
    begun(store, agent(repo))
    repo.rename(repo.with_name("elsewhere"))
    with pytest.raises(Parked, match="no folder"):
        store.drive(agent(repo), 1, key="k")
    assert store.runs()[0].resume().status == "ready"


def test_what_the_run_did_itself_is_not_held_against_it(store, repo):
    worker = agent(repo, act=str(repo / "made.py"))
    begun(store, worker)
    assert store.drive(worker, 1, key="k") == "done"


def test_where_nothing_was_known_nothing_is_compared(store, tmp_path):
    plain = tmp_path / "plain"
    plain.mkdir()
    handle = begun(store, agent(plain))
    (plain / "new").touch()
    assert store.drive(agent(plain), 1, key="k") == "done"
    assert handle.refresh().status == "completed"


def test_control_without_a_workspace_nobody_notices(store, repo):
    begun(store, agent(repo, folder=False))
    change(repo)
    assert store.drive(agent(repo, folder=False), 1, key="k") == "done"


def test_async_agents_too(tmp_path, repo):
    import asyncio

    @perdure.agent(name="later", workspace=str(repo))
    async def later(run):
        if run.restored is None:
            await run.checkpoint({})
        await run.wait("go")

    async def main() -> None:
        async with perdure.aopen(f"sqlite:///{tmp_path}/b.db") as store:
            with pytest.raises(Waiting):
                await store.drive(later, key="k")
            (handle,) = await store.runs()
            await handle.signal("go")
            change(repo)
            with pytest.raises(Parked, match=r"kept\.py"):
                await store.drive(later, key="k")
            await handle.resume()
            await store.drive(later, key="k")

    asyncio.run(main())


def test_what_is_no_folder_is_refused_when_it_is_declared():
    for wrong in (7, "a\0b"):
        with pytest.raises(Invalid, match="path of a folder"):
            perdure.agent(workspace=wrong)(lambda run: None)
