"""A workspace that came from elsewhere: nothing that its repository names is run when it is looked at (P10)."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import perdure
from perdure.runtime.workspace import look
from runtime.test_workspace import commit, git, repository
from stores.files.in_git import git as plainly

Trap = Callable[[Path, Path], None]


def trapped(repo: Path, trap: Path, *settings: str, attributes: str = "") -> None:
    """A repository whose configuration names a program that leaves a trace, and that git has a reason to run."""
    for setting in settings:
        name, _, value = setting.partition("=")
        git(repo, "config", "--add", name, value.replace("TRAP", str(trap)))
    if attributes:
        (repo / ".gitattributes").write_text(attributes)
    (repo / "kept.py").write_text("4\n")  # as large as before: git has to read it
    os.utime(repo / "kept.py", (1, 1))


def clean_filter(repo: Path, trap: Path) -> None:
    trapped(repo, trap, "filter.x.clean=TRAP", attributes="* filter=x\n")


def filter_process(repo: Path, trap: Path) -> None:
    trapped(repo, trap, "filter.x.process=TRAP", "filter.x.required=true", attributes="* filter=x\n")


def filter_of_info(repo: Path, trap: Path) -> None:
    trapped(repo, trap, "filter.x.clean=TRAP")
    (repo / ".git" / "info").mkdir(exist_ok=True)
    (repo / ".git" / "info" / "attributes").write_text("* filter=x\n")


def filter_of_an_included_file(repo: Path, trap: Path) -> None:
    (repo / "more").write_text(f'[filter "x"]\n\tclean = {trap}\n')
    trapped(repo, trap, f"include.path={repo / 'more'}", attributes="* filter=x\n")


def monitor(repo: Path, trap: Path) -> None:
    trapped(repo, trap, "core.fsmonitor=TRAP", "core.untrackedCache=true")
    git(repo, "-c", "core.fsmonitor=true", "update-index", "--fsmonitor")


def hooks(repo: Path, trap: Path) -> None:
    trapped(repo, trap, f"core.hooksPath={repo / 'hooks'}")
    (repo / "hooks").mkdir()
    for name in ("post-index-change", "fsmonitor-watchman", "reference-transaction", "post-checkout", "pre-auto-gc"):
        (repo / "hooks" / name).symlink_to(trap)


def differs(repo: Path, trap: Path) -> None:
    settings = ("diff.external=TRAP", "diff.x.textconv=TRAP", "diff.x.command=TRAP", "core.pager=TRAP")
    trapped(repo, trap, *settings, "pager.status=TRAP", "pager.ls-files=TRAP", attributes="* diff=x\n")


def aliases(repo: Path, trap: Path) -> None:
    names = ("status", "rev-parse", "ls-files", "diff-index", "symbolic-ref", "config")
    trapped(repo, trap, *(f"alias.{name}=!TRAP" for name in names))


def asks_for_secrets(repo: Path, trap: Path) -> None:
    settings = ("credential.helper=!TRAP", "core.askPass=TRAP", "core.sshCommand=TRAP", "core.editor=TRAP")
    trapped(repo, trap, *settings, "gpg.program=TRAP", "core.gitProxy=TRAP", "log.showSignature=true")


def promises(repo: Path, trap: Path) -> None:
    """A partial clone that lacks the tree of its HEAD: git fetches it from the remote, by the program that that names."""
    other = repository(repo / "other")
    tree = git(repo, "rev-parse", "HEAD^{tree}")
    trapped(repo, trap, f"remote.origin.url={other}", "remote.origin.promisor=true", "remote.origin.uploadpack=TRAP",
            "extensions.partialClone=origin", "core.repositoryFormatVersion=1")  # fmt: skip
    (repo / ".git" / "objects" / tree[:2] / tree[2:]).unlink()
    git(repo, "update-index", "--force-remove", "kept.py")


def elsewhere(repo: Path, trap: Path) -> None:
    clean_filter(repo, trap)
    git(repo, "config", "core.worktree", str(trap.parent))


TRAPS = [
    clean_filter, filter_process, filter_of_info, filter_of_an_included_file, monitor, hooks, differs, aliases, asks_for_secrets,
    promises, elsewhere,
]  # fmt: skip


def itself(repo: Path) -> Path:
    return repo


def nested(repo: Path) -> Path:
    outer = repository(repo.parent / "outer")
    return Path(repo.rename(outer / "inner")).parent


def deep(repo: Path) -> Path:
    outer = repository(repo.parent / "outer")
    (outer / "a" / "b").mkdir(parents=True)
    repo.rename(outer / "a" / "b" / "inner")
    return outer / "a"


def submodule(repo: Path) -> Path:
    """Its gitlink stands in the index of the repository around it."""
    outer = nested(repo)
    head = plainly(outer / "inner", "-c", "core.fsmonitor=false", "rev-parse", "HEAD").strip()
    git(outer, "update-index", "--add", "--cacheinfo", f"160000,{head},inner")
    git(outer, "commit", "-qm", "submodule")
    return outer


def linked(repo: Path) -> Path:
    """Its git directory is named by a file, as in a linked working tree."""
    aside = repo.parent / "aside"
    (repo / ".git").rename(aside)
    (repo / ".git").write_text(f"gitdir: {aside}\n")
    return repo


@pytest.fixture
def trap(tmp_path) -> Path:
    (tmp_path / "trap").mkdir()
    script = tmp_path / "trap" / "run"
    script.write_text(f"#!/bin/sh\ntouch {tmp_path}/trap/sprung\n")
    script.chmod(0o755)
    return script


def sprung(trap: Path) -> bool:
    return (trap.parent / "sprung").exists()


@pytest.mark.parametrize("where", [itself, nested, deep, submodule, linked])
@pytest.mark.parametrize("setting", TRAPS)
def test_nothing_that_a_repository_names_is_run(tmp_path, trap, setting, where):
    repo = repository(tmp_path / "repo")
    setting(repo, trap)
    (trap.parent / "sprung").unlink(missing_ok=True)  # git may have run it while we set it up
    found = look(str(where(repo)))
    assert not sprung(trap)
    assert found.state in ("git", "unknown"), found


@pytest.mark.parametrize(
    "setting", [clean_filter, filter_process, filter_of_info, filter_of_an_included_file, promises]
)
def test_control_git_status_runs_it(tmp_path, trap, setting):
    repo = repository(tmp_path / "repo")
    setting(repo, trap)
    subprocess.run(["git", "status", "--porcelain"], cwd=repo, capture_output=True, check=False)
    assert sprung(trap)


def test_a_checkpoint_runs_nothing_of_an_unpacked_archive(tmp_path, trap):
    """What issue 15.23 showed: the filter of a repository in an archive that an agent unpacked."""
    repo = repository(tmp_path / "repo")
    clean_filter(repo, trap)
    outer = nested(repo)

    @perdure.agent(workspace=str(outer))
    def unpacks(run):
        if run.restored is None:
            run.checkpoint({"unpacked": True})
        return "done"

    with perdure.open(f"sqlite:///{tmp_path}/a.db") as store:
        assert store.drive(unpacks, key="k") == "done"
    assert not sprung(trap)


def test_a_program_called_git_in_the_folder_is_not_run(tmp_path, trap, monkeypatch):
    repo = repository(tmp_path / "repo")
    (repo / "git").symlink_to(trap)
    monkeypatch.chdir(repo)
    for path in ("", ".", ":/nowhere"):
        monkeypatch.setenv("PATH", path)
        assert look(str(repo)).state == "no git"
    assert not sprung(trap)


def test_a_plain_folder_that_is_laid_out_like_a_repository_is_none(tmp_path, trap):
    """A bare repository among the files of a clone: git would take it for one, with its configuration."""
    outer = repository(tmp_path / "outer")
    git(outer, "init", "-q", "--bare", "inner")
    git(outer / "inner", "config", "core.fsmonitor", str(trap))
    assert look(str(outer / "inner")).state == "unknown"
    assert look(str(outer)).state == "git"
    assert not sprung(trap)


def test_a_path_of_the_index_that_leads_out_is_not_read(tmp_path):
    """Through a folder that has become a link, and by a name that git itself would never add."""
    repo = repository(tmp_path / "repo")
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "deep.py").write_text("2\n")
    (repo / "sub" / "deep.py").unlink()
    (repo / "sub").rmdir()
    (repo / "sub").symlink_to(tmp_path / "secret")
    one = look(str(repo))
    (tmp_path / "secret" / "deep.py").write_text("3\n")
    assert look(str(repo)).mark == one.mark
    assert one.paths["sub/deep.py"] == "gone"
    index = (repo / ".git" / "index").read_bytes().replace(b"sub/deep.py", b"../../a/.py")
    (repo / ".git" / "index").write_bytes(index)
    assert look(str(repo)).state in ("unknown", "git")


def test_a_pipe_or_a_device_is_not_waited_for(tmp_path):
    repo = repository(tmp_path / "repo")
    (repo / "kept.py").unlink()
    os.mkfifo(repo / "kept.py")
    inner = repository(repo / "inner")
    os.mkfifo(inner / "pipe")
    (inner / "endless").symlink_to("/dev/zero")
    found = look(str(repo))
    assert (found.state, set(found.paths)) == ("git", {"kept.py", "inner/"})


# -- what is seen is what git would have said ---------------------------------------------------------------


def test_line_ends_and_large_files_as_git_keeps_them_are_no_difference(tmp_path):
    """Neither filter is run: what they would give is known."""
    repo = repository(tmp_path / "repo")
    (repo / "dos.txt").write_bytes(b"a\r\nb\r\n")
    (repo / "large.bin").write_bytes(b"\0" * 1000)
    (repo / ".gitattributes").write_text("*.txt text\n*.bin filter=lfs\n")
    git(repo, "config", "filter.lfs.clean", "printf 'version https://git-lfs.github.com/spec/v1\\noid sha256:%s\\nsize 1000\\n' "
        "$(sha256sum | cut -d' ' -f1)")  # fmt: skip
    commit(repo)
    for name in ("dos.txt", "large.bin"):
        os.utime(repo / name, (1, 1))
    assert look(str(repo)).paths == {}
    (repo / "large.bin").write_bytes(b"\1" * 1000)
    assert list(look(str(repo)).paths) == ["large.bin"]


def test_what_is_not_checked_out_or_not_to_be_looked_at_is_no_difference(tmp_path):
    repo = repository(tmp_path / "repo")
    git(repo, "update-index", "--skip-worktree", "kept.py")
    git(repo, "update-index", "--assume-unchanged", "sub/deep.py")
    (repo / "kept.py").unlink()
    (repo / "sub" / "deep.py").write_text("other\n")
    assert look(str(repo)).paths == {}


def test_a_touched_file_and_a_racy_one(tmp_path):
    """Its time changed and it did not; it changed and its size and time did not."""
    repo = repository(tmp_path / "repo")
    os.utime(repo / "kept.py", (1, 1))
    assert look(str(repo)).paths == {}
    git(repo, "add", "-A")
    (repo / "kept.py").write_text("9\n")
    assert list(look(str(repo)).paths) == ["kept.py"]


def test_a_submodule_that_was_never_fetched_is_no_difference(tmp_path):
    repo = repository(tmp_path / "repo")
    head = git(repo, "rev-parse", "HEAD")
    git(repo, "update-index", "--add", "--cacheinfo", f"160000,{head},lib")
    git(repo, "commit", "-qm", "submodule")
    (repo / "lib").mkdir()
    assert look(str(repo)).paths == {}
    (repo / "lib" / "new.py").write_text("1")
    assert list(look(str(repo)).paths) == ["lib"]


def test_a_large_nested_tree_is_told_by_sizes_and_times(tmp_path, monkeypatch):
    repo = repository(tmp_path / "repo")
    inner = repository(repo / "inner")
    monkeypatch.setattr("perdure.runtime.worktree.NESTED_READ_MAX_BYTES", 1)
    before = look(str(repo)).mark
    (inner / "kept.py").write_text("longer\n")
    assert look(str(repo)).mark != before
    monkeypatch.setattr("perdure.runtime.worktree.NESTED_MAX_FILES", 2)
    assert look(str(repo)).why == "there is too much to look at in the time"


def test_an_unmerged_path_counts(tmp_path):
    repo = repository(tmp_path / "repo")
    git(repo, "switch", "-qc", "other")
    for branch, text in (("other", "5\n"), ("main", "6\n")):
        git(repo, "switch", "-q", branch)
        (repo / "kept.py").write_text(text)
        commit(repo)
    subprocess.run(
        ["git", "-c", "user.name=a", "-c", "user.email=b", "merge", "-q", "other"],
        cwd=repo,
        capture_output=True,
        check=False,
    )
    assert "kept.py" in look(str(repo)).paths
