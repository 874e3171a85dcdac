"""git_commit and git_push on real repositories: found by trailer and by hash, never forward over others' work."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from perdure.errors import Failed, InDoubt, Invalid, Unavailable
from perdure.model import crash_points
from perdure.model.records.effects import Absent, Happened, ToolKind, Unknown
from perdure_agents.ready import git
from perdure_agents.ready.files import write_file
from perdure_agents.ready.git import TRAILER, git_commit, git_push

IDENTITY = {f"GIT_{who}_{what}": "a@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}


@pytest.fixture(autouse=True)
def own_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    """No configuration but the defaults, and an identity."""
    for name, value in {**IDENTITY, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}.items():
        monkeypatch.setenv(name, value)


def said(folder: Path, *command: str) -> str:
    done = subprocess.run(["git", *command], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    folder = tmp_path / "repo"
    subprocess.run(["git", "init", "-q", "-b", "main", folder], check=True)
    return folder


@pytest.fixture
def remote(tmp_path: Path, repo: Path) -> Path:
    folder = tmp_path / "remote.git"
    subprocess.run(["git", "init", "-q", "--bare", "-b", "main", folder], check=True)
    said(repo, "remote", "add", "origin", str(folder))
    return folder


def commit(repo: Path, key: str = "k1", text: str = "one", **rest: Any) -> str:
    (repo / "a").write_text(text)
    return git_commit(str(repo), f"Say {text}", key=key, paths=["a"], **rest)["sha"]


def count(repo: Path) -> int:
    return int(said(repo, "rev-list", "--count", "--all"))


def probe(repo: object, key: str = "k1") -> Any:
    return git_commit.call(git_commit.probe, {"repo": str(repo), "message": "Say one", "paths": ["a"]}, key=key)


def probe_push(repo: Path, sha: str, remote: str = "origin", branch: str = "main") -> Any:
    return git_push.call(git_push.probe, {"repo": str(repo), "remote": remote, "branch": branch, "sha": sha}, key="k")


def test_their_declarations() -> None:
    assert [each.kind for each in (git_commit, git_push)] == [ToolKind.PROBED] * 2
    assert (git_commit.takes, git_push.takes) == ({"key"}, set())


# Commits -----------------------------------------------------------------------------------------------------


def test_the_probe_of_a_commit_in_all_its_answers(repo: Path, tmp_path: Path) -> None:
    assert isinstance(probe(repo), Absent)  # a repository without a commit
    sha = commit(repo)
    assert probe(repo) == Happened({"sha": sha})
    assert isinstance(probe(repo, "k"), Absent)  # the beginning of a key is another key
    assert isinstance(probe(repo, "k12"), Absent)
    assert isinstance(probe(tmp_path / "gone"), Unknown)
    (tmp_path / "plain").mkdir()
    assert isinstance(probe(tmp_path / "plain"), Unknown)


def test_a_commit_has_its_message_and_trailer(repo: Path) -> None:
    sha = commit(repo, author="Ada L <ada@example.org>")
    assert said(repo, "rev-parse", "main") == sha
    assert said(repo, "log", "-1", "--format=%an <%ae>|%B") == f"Ada L <ada@example.org>|Say one\n\n{TRAILER}: k1"


@pytest.mark.parametrize("key", ["a b", " lead", "ä/ö: 100%", "x" * 200, "[a-z]*", "a:b@c", "%20"])
def test_any_key_is_found_again(repo: Path, key: str) -> None:
    sha = commit(repo, key)
    assert probe(repo, key) == Happened({"sha": sha})
    assert isinstance(probe(repo, f"{key[:-1]}_"), Absent)


ODD_MESSAGES = [
    "Fix\n\nbody\n---\nmore", "Fix\n\n--- a/x\n+++ b/x", "Fix\n\n# a heading", "# only", "Fix\n\nConflicts:\n\ta",
    "Fix\n\n# ------------------------ >8 ------------------------\nfoo", "Fix\n\nA: b\n  folded", "A: b", "Fix\r\n\r\nx\r\n",
    "Fix\n\nSigned-off-by: A <a@example.org>\nand no trailer\nat all",
]  # fmt: skip


@pytest.mark.parametrize("message", ODD_MESSAGES)
def test_under_any_message_it_is_found_again(repo: Path, message: str) -> None:
    (repo / "a").write_text("x")
    made = git_commit(str(repo), message, key="k1", paths=["a"])
    assert probe(repo) == Happened(made)


def test_the_trailers_of_a_message_stay_one_block(repo: Path) -> None:
    (repo / "a").write_text("x")
    git_commit(str(repo), "Fix\n\nFixes: 7\n", key="k1", paths=["a"])
    assert said(repo, "log", "-1", "--format=%(trailers)") == f"Fixes: 7\n{TRAILER}: k1"


@pytest.mark.parametrize(
    "setting",
    ["trailer.separators=#", "core.commentChar=P", "i18n.logOutputEncoding=UTF-16", "trailer.ifexists=doNothing",
     "commit.cleanup=scissors", "log.showSignature=true", "color.ui=always"],
)  # fmt: skip
def test_under_any_configuration_it_is_found_again(repo: Path, setting: str) -> None:
    said(repo, "config", *setting.split("="))
    (repo / "a").write_text("x")
    made = git_commit(str(repo), "Ünï\n\nP: body", key="k1", paths=["a"])
    assert probe(repo) == Happened(made)


def test_it_is_found_on_another_branch_and_after_a_reset(repo: Path) -> None:
    commit(repo, "k0", "zero")
    sha = commit(repo)
    said(repo, "checkout", "-q", "-b", "other", "HEAD~1")
    assert probe(repo) == Happened({"sha": sha})
    said(repo, "branch", "-q", "-D", "main")
    assert probe(repo) == Happened({"sha": sha})  # in the reflog: it happened, and somebody took it back


def test_text_that_looks_like_a_trailer_is_none(repo: Path) -> None:
    (repo / "a").write_text("x")
    said(repo, "add", "a")
    said(repo, "commit", "-q", "-m", f"We write\n\n{TRAILER}: k1\n\ninto messages.\n\nSee: docs")
    assert isinstance(probe(repo), Absent)
    with pytest.raises(Invalid, match=TRAILER):
        git_commit(str(repo), f"x\n\n{TRAILER.lower()} : k9", key="k1", paths=["a"])


def test_only_the_paths_are_committed_also_new_and_deleted_ones(repo: Path) -> None:
    commit(repo, "k0", "zero")
    (repo / "staged").write_text("theirs")
    said(repo, "add", "staged")
    (repo / "a").unlink()
    (repo / "sub").mkdir()
    (repo / "sub" / "new").write_text("ours")
    (repo / "untracked").write_text("theirs")
    sha = git_commit(str(repo), "Move", key="k1", paths=["a", "sub"])["sha"]
    assert said(repo, "show", "--format=", "--name-status", sha).split() == ["D", "a", "A", "sub/new"]
    sha = git_commit(str(repo), "The rest", key="k2")["sha"]  # what is staged
    assert said(repo, "show", "--format=", "--name-status", sha).split() == ["A", "staged"]


def test_what_an_attempt_that_died_has_staged_is_committed(repo: Path) -> None:
    """A deletion that is staged is none that `git add` could stage once more; nor is what `git mv` left."""
    commit(repo, "k0", "zero")
    (repo / "b").write_text("b")
    git_commit(str(repo), "Add", key="k1", paths=["b"])
    said(repo, "rm", "-q", "b")
    said(repo, "mv", "a", "c")
    sha = git_commit(str(repo), "Tidy", key="k2", paths=["a", "b", "c"])["sha"]
    assert said(repo, "show", "--format=", "--name-status", "--no-renames", sha).split() == [
        "D",
        "a",
        "D",
        "b",
        "A",
        "c",
    ]


def test_nothing_to_commit_is_a_clear_no(repo: Path) -> None:
    commit(repo)
    with pytest.raises(Failed, match="nothing to commit"):
        git_commit(str(repo), "Again", key="k2", paths=["a"])
    with pytest.raises(Failed, match="did not match"):
        git_commit(str(repo), "Again", key="k2", paths=["gone"])
    assert count(repo) == 1


def test_hooks_hold(repo: Path) -> None:
    hook = repo / ".git" / "hooks" / "pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho no tabs here >&2; exit 1\n")
    hook.chmod(0o755)
    with pytest.raises(Failed, match="no tabs here"):
        commit(repo)
    assert isinstance(probe(repo), Absent)
    hook.unlink()  # the control
    assert commit(repo)


def test_a_hook_that_removes_the_trailer_loses_only_the_probe(repo: Path) -> None:
    hook = repo / ".git" / "hooks" / "commit-msg"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text('#!/bin/sh\necho plain > "$1"\n')
    hook.chmod(0o755)
    assert commit(repo) == said(repo, "rev-parse", "HEAD")
    assert isinstance(probe(repo), Absent)


def test_no_editor_and_no_terminal_is_waited_for(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_EDITOR", "sleep 600; false")
    monkeypatch.setenv("EDITOR", "sleep 600; false")
    said(repo, "config", "commit.verbose", "true")
    said(repo, "config", "trailer.ifexists", "doNothing")
    assert commit(repo)
    assert isinstance(probe(repo), Happened)


def test_another_repository_around_or_in_the_environment_is_not_taken(
    repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit(repo, "k0")
    inner = repo / "inner"
    inner.mkdir()
    (inner / "a").write_text("x")
    with pytest.raises(Failed, match="no git repository"):
        git_commit(str(inner), "x", key="k1", paths=["a"])
    monkeypatch.setenv("GIT_DIR", str(repo / ".git"))
    with pytest.raises(Failed, match="no git repository"):
        git_commit(str(inner), "x", key="k1", paths=["a"])
    assert count(repo) == 1


def kill_writing(repo: Path) -> str:
    """A `write_file` that is killed before its rename; the name of what it leaves."""
    script = f"from perdure_agents.ready.files import write_file; write_file('src/b', 'half', root={str(repo)!r})"
    env = {**os.environ, "PERDURE_CRASH_AT": "file.before_rename"}
    assert subprocess.run([sys.executable, "-c", script], env=env, check=False).returncode == -signal.SIGKILL
    (left,) = (each.name for each in (repo / "src").iterdir() if each.name.startswith(".perdure-"))
    return left


def test_what_a_killed_write_left_is_not_committed(repo: Path) -> None:
    (repo / "src").mkdir()
    (repo / "src" / "a").write_text("one")
    left = kill_writing(repo)
    git_commit(str(repo), "Say one", key="k1", paths=["src"])
    assert said(repo, "ls-tree", "-r", "--name-only", "HEAD") == "src/a"
    assert not (repo / "src" / left).exists()


def test_what_is_just_being_written_is_waited_for(repo: Path) -> None:
    def look() -> None:
        with pytest.raises(Unavailable, match=r"\.perdure-.* is just being written"):
            git_commit(str(repo), "Say one", key="k1", paths=["src"])

    disarm = crash_points.arm("file.before_rename", look)
    write_file("src/a", "one", root=str(repo))
    disarm()
    git_commit(str(repo), "Say one", key="k1", paths=["src"])
    assert said(repo, "ls-tree", "-r", "--name-only", "HEAD") == "src/a"


@pytest.mark.parametrize("known", [False, True])
def test_an_author_is_the_committer_where_git_knows_of_none(
    repo: Path, monkeypatch: pytest.MonkeyPatch, known: bool
) -> None:
    for name in IDENTITY:
        monkeypatch.delenv(name)
    said(repo, "config", "user.useConfigOnly", "true")
    if known:
        said(repo, "config", "user.name", "Bot")
        said(repo, "config", "user.email", "bot@example.org")
    commit(repo, author="Ada <ada@example.org>")
    committer = "Bot <bot@example.org>" if known else "Ada <ada@example.org>"
    assert said(repo, "log", "-1", "--format=%an <%ae>|%cn <%ce>") == f"Ada <ada@example.org>|{committer}"


@pytest.mark.parametrize("lock", ["index.lock", "HEAD.lock", "refs/heads/main.lock"])
def test_beside_another_git_it_is_doubt(repo: Path, lock: str) -> None:
    commit(repo, "k0", "zero")
    (repo / ".git" / lock).touch()
    with pytest.raises(InDoubt, match=lock) as refused:
        commit(repo)
    remove = refused.value.hint.partition("a crash left the lock: ")[2]
    subprocess.run(remove, shell=True, check=True)
    assert not (repo / ".git" / lock).exists()
    assert isinstance(probe(repo), Absent)
    assert commit(repo)


def test_a_no_after_the_branch_moved_is_a_yes(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Git can say no when the commit is made: when the index cannot be written afterwards."""
    real = git._git

    def grumbling(folder: Path, *command: str, **rest: Any) -> Any:
        ended = real(folder, *command, **rest)
        return ended._replace(exit=128) if "commit" in command else ended

    monkeypatch.setattr(git, "_git", grumbling)
    assert commit(repo) == said(repo, "rev-parse", "HEAD")


def test_a_commit_past_its_deadline_is_killed_with_its_hooks(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hook = repo / ".git" / "hooks" / "pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\necho $$ > {repo}/new; mv {repo}/new {repo}/pid; sleep 600\n")
    hook.chmod(0o755)
    for seconds in (1.0, 10.0, 60.0):  # which a busy machine may need to begin
        monkeypatch.setattr(git, "_COMMIT_SECONDS", seconds)
        with pytest.raises(Failed, match="deadline") as refused:
            commit(repo)
        assert refused.value.code == "TimedOut"
        if (repo / "pid").exists():
            break
    wait_until_gone(int((repo / "pid").read_text()))
    assert isinstance(probe(repo), Absent)
    assert not (repo / ".git" / "index.lock").exists()  # it was asked to end before it was made to


COMMITTER = (
    "import sys; from perdure_agents.ready.git import git_commit\n"
    "git_commit(sys.argv[1], 'Say one', key='k1', paths=['a'])"
)


@pytest.mark.parametrize(("hook", "verdict"), [("pre-commit", Absent), ("post-commit", Happened)])
def test_killed_in_the_middle_the_probe_tells(repo: Path, hook: str, verdict: type) -> None:
    """SIGKILL to the caller and to git while a hook runs: before the branch moves, and after."""
    (repo / "a").write_text("one")
    path = repo / ".git" / "hooks" / hook
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\necho $PPID $$ > {repo}/pids.tmp; mv {repo}/pids.tmp {repo}/pids; sleep 600\n")
    path.chmod(0o755)
    with subprocess.Popen([sys.executable, "-c", COMMITTER, repo]) as caller:
        while not (repo / "pids").exists():
            assert caller.poll() is None
            time.sleep(0.01)
        caller.kill()
    pids = [int(each) for each in (repo / "pids").read_text().split()]
    os.killpg(pids[0], signal.SIGKILL)
    for each in pids:
        wait_until_gone(each)
    assert isinstance(probe(repo), verdict)
    path.unlink()
    (repo / ".git" / "index.lock").unlink(missing_ok=True)
    if verdict is Absent:
        commit(repo)
    assert count(repo) == 1


def test_a_git_that_outlived_its_caller_and_the_next_make_one_commit(repo: Path) -> None:
    """The probe said Absent while the first was in its hook: both go on, and one lands."""
    commit(repo, "k0", "zero")
    (repo / "a").write_text("one")
    path = repo / ".git" / "hooks" / "pre-commit"
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\nmkdir {repo}/first || exit 0\nwhile ! test -e {repo}/go; do sleep 0.02; done\n")
    path.chmod(0o755)
    said(repo, "add", "a")
    script = COMMITTER.replace(", paths=['a']", "")
    with subprocess.Popen([sys.executable, "-c", script, repo]) as caller:
        while not (repo / "first").exists():
            assert caller.poll() is None
            time.sleep(0.01)
        assert isinstance(probe(repo), Absent)
        sha = git_commit(str(repo), "Say one", key="k1")["sha"]
        (repo / "go").touch()
        caller.wait()
    assert (count(repo), probe(repo)) == (2, Happened({"sha": sha}))


def wait_until_gone(pid: int) -> None:
    for _ in range(6_000):
        try:
            os.kill(pid, 0)
            if " Z " in Path(f"/proc/{pid}/stat").read_text():
                return
        except (ProcessLookupError, FileNotFoundError):
            return
        time.sleep(0.01)
    raise AssertionError(f"{pid} is still there")


@pytest.mark.parametrize(
    ("changed", "where"),
    [
        ({"repo": "relative"}, "repo"), ({"repo": "/a/../b"}, "repo"), ({"paths": ["-a"]}, "paths[0]"),
        ({"paths": ["a", "b\nc"]}, "paths[1]"), ({"paths": []}, "paths"), ({"paths": "a"}, "paths"),
        ({"message": " \n"}, "message"), ({"message": "a\0"}, "message"), ({"author": "Ada"}, "author"),
        ({"author": "-x <a@b>"}, "author"), ({"author": "A\n <a@b>"}, "author"), ({"key": "a\nb"}, "key"), ({"key": ""}, "key"),
    ],
)  # fmt: skip
def test_hostile_arguments_of_a_commit_are_refused(repo: Path, changed: dict[str, Any], where: str) -> None:
    (repo / "a").write_text("x")
    good: dict[str, Any] = {"repo": str(repo), "message": "x", "key": "k", "paths": ["a"]}
    with pytest.raises(Invalid) as refused:
        git_commit(**{**good, **changed})
    assert refused.value.path == where
    assert count(repo) == 0
    assert git_commit(**good)  # the control


def test_paths_are_no_patterns(repo: Path) -> None:
    for name in ("a", "b", "*"):
        (repo / name).write_text(name)
    sha = git_commit(str(repo), "The star", key="k1", paths=["*"])["sha"]
    assert said(repo, "show", "--format=", "--name-only", sha) == "*"
    with pytest.raises(Failed):
        git_commit(str(repo), "Magic", key="k2", paths=[":(glob)**"])


# Pushes ------------------------------------------------------------------------------------------------------


def test_the_probe_of_a_push_in_all_its_answers(repo: Path, remote: Path, tmp_path: Path) -> None:
    first, second = commit(repo), commit(repo, "k2", "two")
    assert isinstance(probe_push(repo, first), Absent)  # no such branch
    git_push(str(repo), "origin", "main", first)
    assert probe_push(repo, first) == Happened({"sha": first, "branch": "main"})
    assert isinstance(probe_push(repo, second), Absent)  # the branch has another commit
    git_push(str(repo), "origin", "main", second)
    assert isinstance(probe_push(repo, first), Happened)  # an ancestor of what is there
    assert isinstance(probe_push(repo, second, remote=str(tmp_path / "gone.git")), Unknown)
    remote.rename(tmp_path / "moved.git")
    assert isinstance(probe_push(repo, second), Unknown)


def others_work(tmp_path: Path, remote: Path, *, upon: str | None) -> str:
    """Somebody else's clone pushes a commit, on top of `upon` or on a history of their own."""
    folder = tmp_path / f"theirs-{upon}"
    subprocess.run(["git", "clone", "-q", remote, folder], check=True, capture_output=True)
    if upon is None:
        said(folder, "checkout", "-q", "--orphan", "fresh")
    (folder / "theirs").write_text("x")
    said(folder, "add", "theirs")
    said(folder, "commit", "-q", "-m", "theirs")
    said(folder, "push", "-q", "--force", "origin", "HEAD:refs/heads/main")
    return said(folder, "rev-parse", "HEAD")


def test_what_others_pushed_on_top_is_fetched_and_told_apart(repo: Path, remote: Path, tmp_path: Path) -> None:
    sha = commit(repo)
    git_push(str(repo), "origin", "main", sha)
    others_work(tmp_path, remote, upon=sha)
    before = said(repo, "for-each-ref")
    assert isinstance(probe_push(repo, sha), Happened)
    assert git_push(str(repo), "origin", "main", sha) == {"sha": sha, "branch": "main"}  # rejected, and yet there
    assert said(repo, "for-each-ref") == before
    others_work(tmp_path, remote, upon=None)  # the control: a history without it
    assert isinstance(probe_push(repo, sha), Absent)


def test_it_is_looked_for_where_it_is_pushed_to(repo: Path, remote: Path, tmp_path: Path) -> None:
    """A remote that is fetched from elsewhere, or pushed to in several places."""
    first, second = commit(repo), commit(repo, "k2", "two")
    mirror = tmp_path / "mirror.git"
    subprocess.run(["git", "init", "-q", "--bare", "-b", "main", mirror], check=True)
    git_push(str(repo), "origin", "main", first)
    said(repo, "remote", "set-url", "--push", "origin", str(mirror))
    git_push(str(repo), "origin", "main", first)  # what it is fetched from has it already
    assert probe_push(repo, first) == Happened({"sha": first, "branch": "main"})
    git_push(str(repo), "origin", "main", second)
    assert git_push(str(repo), "origin", "main", first)["sha"] == first  # rejected, and yet there
    said(repo, "remote", "set-url", "--add", "--push", "origin", str(remote))
    assert isinstance(probe_push(repo, second), Absent)  # it is in one place of two
    git_push(str(repo), "origin", "main", second)
    assert [said(each, "rev-parse", "main") for each in (mirror, remote)] == [second] * 2
    remote.rename(tmp_path / "away.git")
    assert isinstance(probe_push(repo, second), Unknown)


@pytest.mark.parametrize("sha", ["0" * 40, "1" * 40])
def test_what_is_no_commit_here_is_not_pushed(repo: Path, remote: Path, sha: str) -> None:
    """Git takes the hash of all zeros for: delete this branch."""
    made = commit(repo)
    git_push(str(repo), "origin", "fix", made)
    with pytest.raises(Failed, match="no commit"):
        git_push(str(repo), "origin", "fix", sha)
    assert said(remote, "rev-parse", "fix") == made


def test_it_never_overwrites_others_work(repo: Path, remote: Path, tmp_path: Path) -> None:
    sha = commit(repo)
    git_push(str(repo), "origin", "main", sha)
    theirs = others_work(tmp_path, remote, upon=sha)
    mine = commit(repo, "k2", "two")
    said(repo, "config", "remote.origin.push", "+refs/heads/*:refs/heads/*")
    with pytest.raises(Failed, match="rejected") as refused:
        git_push(str(repo), "origin", "main", mine)
    assert refused.value.code == "Rejected"
    assert said(remote, "rev-parse", "main") == theirs


def test_it_pushes_that_very_commit_and_nothing_else(repo: Path, remote: Path) -> None:
    first, second = commit(repo), commit(repo, "k2", "two")
    said(repo, "tag", "-a", "v1", "-m", "x", first)
    said(repo, "config", "push.followTags", "true")
    git_push(str(repo), "origin", "fix/1", first)
    assert said(remote, "for-each-ref", "--format=%(objectname) %(refname)") == f"{first} refs/heads/fix/1"
    assert said(repo, "rev-parse", "HEAD") == second


def test_a_remote_that_cannot_be_reached_was_sent_nothing(repo: Path, tmp_path: Path) -> None:
    sha = commit(repo)
    with pytest.raises(Unavailable, match="does not answer"):
        git_push(str(repo), str(tmp_path / "gone.git"), "main", sha)


def hook_of(remote: Path, name: str, script: str) -> None:
    path = remote / "hooks" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def test_what_the_remote_refuses_is_a_clear_no(repo: Path, remote: Path) -> None:
    hook_of(remote, "pre-receive", "echo not on a friday >&2; exit 1")
    sha = commit(repo)
    with pytest.raises(Failed, match="not on a friday"):
        git_push(str(repo), "origin", "main", sha)
    assert isinstance(probe_push(repo, sha), Absent)


def test_a_remote_that_breaks_off_is_doubt(repo: Path, remote: Path) -> None:
    hook_of(remote, "pre-receive", "kill -9 $PPID")
    sha = commit(repo)
    with pytest.raises(InDoubt):
        git_push(str(repo), "origin", "main", sha)


def test_a_remote_that_breaks_off_after_it_landed_is_a_yes(repo: Path, remote: Path) -> None:
    hook_of(remote, "post-receive", "kill -9 $PPID")
    sha = commit(repo)
    assert git_push(str(repo), "origin", "main", sha)["sha"] == sha
    assert said(remote, "rev-parse", "main") == sha


@pytest.mark.parametrize(
    ("changed", "where"),
    [
        ({"remote": "--upload-pack=touch x"}, "remote"), ({"remote": "a\nb"}, "remote"), ({"branch": "-d"}, "branch"),
        ({"branch": "a..b"}, "branch"), ({"branch": "a b"}, "branch"), ({"branch": "a:b"}, "branch"), ({"branch": ""}, "branch"),
        ({"sha": "HEAD"}, "sha"), ({"sha": "+" + "a" * 40}, "sha"), ({"remote": "https://u:p@example.org/x"}, "remote"),
    ],
)  # fmt: skip
def test_hostile_arguments_of_a_push_are_refused(repo: Path, remote: Path, changed: dict[str, Any], where: str) -> None:
    good = {"repo": str(repo), "remote": "origin", "branch": "main", "sha": commit(repo)}
    with pytest.raises(Invalid) as refused:
        git_push(**{**good, **changed})
    assert refused.value.path == where
    assert git_push(**good)["branch"] == "main"  # the control
