"""Checks look and do nothing else: no stored text runs a program, blocks a reader, or makes a fresh memory stale."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure.boot import checking
from perdure.model.records.checks import Check, Unreadable, standing_of
from perdure.planes.memory.checks import from_stored

GIT = ("git", "-c", "user.name=a", "-c", "user.email=a@example.org")


def looked(check: Check, seconds: float = 5.0, **looking: Any) -> Any:
    how = checking.Looking(seconds=seconds, **looking)
    with perdure.open("memory://") as store:
        session = store.session("s")
        carrier = checking.Carrier(session._stream, (check,), time.time_ns() // 1000)
        ((outcome,),) = checking.judged(session._caller.core, session._caller.tenant, [carrier], how)
    return outcome


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    for command in (("init", "-q", "."), ("commit", "-q", "--allow-empty", "-m", "x"), ("branch", "fix-42")):
        subprocess.run([*GIT, *command], cwd=tmp_path, check=True)
    return tmp_path


def test_a_branch_holds_until_it_is_gone(repository: Path) -> None:
    check = perdure.GitRef("fix-42", folder=str(repository))
    assert looked(check).standing == "holds"
    assert looked(perdure.GitRef("fix-42", commit="0" * 40, folder=str(repository))).standing == "stale"
    subprocess.run([*GIT, "branch", "-q", "-D", "fix-42"], cwd=repository, check=True)
    assert (looked(check).standing, looked(check).why) == ("stale", "fix-42 is gone")
    assert looked(perdure.GitRef("--help", folder=str(repository))).standing == "stale"


def test_the_head_of_a_workspace_is_asked_for(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    commit, branch = checking.head_of(str(repository))
    assert len(commit) == 40
    assert branch
    assert checking.head_of(str(tmp_path_factory.mktemp("none"))) == ("", "")


def test_no_configuration_of_a_repository_runs_a_program(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = repository / "ran"
    trap = repository / "trap"
    trap.write_text(f"#!/bin/sh\ntouch {ran}\n")
    trap.chmod(0o755)
    hooks = repository / "hooks"
    hooks.mkdir()
    for name in ("reference-transaction", "post-checkout", "pre-auto-gc"):
        (hooks / name).symlink_to(trap)
    named = ("core.fsmonitor", "core.sshCommand", "core.pager", "core.editor", "core.askPass", "filter.x.clean", "diff.external",
             "core.alternateRefsCommand", "credential.helper", "pager.rev-parse", "alias.rev-parse", "gpg.program")  # fmt: skip
    for name in named:
        subprocess.run(
            [*GIT, "config", name, f"!{trap}" if name.startswith("alias") else str(trap)], cwd=repository, check=True
        )
    subprocess.run([*GIT, "config", "core.hooksPath", str(hooks)], cwd=repository, check=True)
    for name in ("GIT_SSH_COMMAND", "GIT_EXTERNAL_DIFF", "GIT_PAGER", "GIT_EDITOR"):
        monkeypatch.setenv(name, str(trap))
    monkeypatch.setenv("GIT_TRACE", str(ran))
    assert looked(perdure.GitRef("fix-42", folder=str(repository))).standing == "holds"
    assert checking.head_of(str(repository))[0]
    assert not ran.exists()


@pytest.mark.parametrize("path", [".", "", "bin:/nowhere", "{}"])
def test_a_program_in_the_folder_is_not_run_by_a_relative_path(
    path: str, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder comes from whoever wrote the check; a relative entry of PATH would name the programs that lie in it."""
    ran = repository / "ran"
    for place in (repository, repository / "bin"):
        place.mkdir(exist_ok=True)
        for name in ("git", "make"):
            (place / name).write_text(f"#!/bin/sh\n/bin/touch {ran}\n")
            (place / name).chmod(0o755)
    control = path == "{}"
    monkeypatch.chdir(repository)
    monkeypatch.setenv("PATH", path.format(repository))
    branch = looked(perdure.GitRef("fix-42", folder=str(repository)))
    command = looked(perdure.Command(("make",), folder=str(repository)), commands=[("make",)])
    assert ran.exists() is control  # the control: by its absolute path it is found and run
    if not control:
        assert {branch.standing, command.standing} == {"unknown"}


def test_control_the_trap_works(repository: Path) -> None:
    ran = repository / "ran"
    trap = repository / "trap"
    trap.write_text(f"#!/bin/sh\ntouch {ran}\n")
    trap.chmod(0o755)
    subprocess.run([*GIT, "-c", f"core.fsmonitor={trap}", "status"], cwd=repository, check=True, capture_output=True)
    assert ran.exists()


@pytest.mark.parametrize("kind", ["pipe", "folder", "device", "huge"])
def test_what_is_no_regular_file_is_unknown_and_never_waited_for(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "odd"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "device":
        path = Path("/dev/zero")
    else:
        with path.open("wb") as file:
            file.truncate(checking.FILE_MAX_BYTES + 1)
    assert looked(perdure.FileHash(str(path), sha256="0" * 64, folder=str(tmp_path))).standing == "unknown"


def test_a_command_that_hangs_is_killed_with_all_that_it_began(tmp_path: Path) -> None:
    argv = ("sh", "-c", "sleep 1000 & echo $! > child; wait")
    check = perdure.Command(argv, folder=str(tmp_path))
    result = looked(check, seconds=1.0, commands=[argv])
    assert (result.standing, result.why) == ("unknown", "sh did not end in time")
    child = int((tmp_path / "child").read_text())
    deadline = time.monotonic() + 30  # a signal arrives when the system is ready for it
    while _lives(child):
        assert time.monotonic() < deadline


def _lives(pid: int) -> bool:
    """Whether a process runs: one that was killed and that nobody has asked for yet does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_a_command_runs_only_if_it_was_named_whole(tmp_path: Path) -> None:
    check = perdure.Command(("touch", "ran", "more"), folder=str(tmp_path))
    for allowed in ([], [("touch",)], [("touch", "ran")], [("touch", "ran", "more", "")]):
        assert looked(check, commands=allowed).standing == "unknown"
        assert not (tmp_path / "ran").exists()
    assert looked(check, commands=[("touch", "ran", "more")]).standing == "holds"
    assert looked(perdure.Command(("false",), folder=str(tmp_path)), commands=[("false",)]).standing == "stale"
    assert looked(perdure.Command(("false",), exit=1, folder=str(tmp_path)), commands=[("false",)]).standing == "holds"


def test_what_another_version_or_somebody_wrote_is_unknown() -> None:
    for stored in ({"check": "moon"}, {"check": "file"}, {"check": "age", "limit": 3}, 7, None, "x"):
        (check,) = from_stored([stored])
        assert isinstance(check, Unreadable)
        assert looked(check).standing == "unknown"
    assert from_stored("x") == (Unreadable(),)
    assert looked(perdure.Age("nonsense")).standing == "unknown"
    assert standing_of([]) == "unknown"


def test_time_that_is_over_leaves_the_rest_unknown(tmp_path: Path) -> None:
    made = tmp_path / "f"
    made.write_text("x")
    assert looked(perdure.FileHash(str(made), sha256="0" * 64), seconds=-1.0).standing == "unknown"


def test_a_thousand_fresh_memories_hold_and_planted_stale_ones_do_not(tmp_path: Path) -> None:
    """Of 1,000 memories over 50 files none is called stale; when 5 files change, their 100 are, and no other."""
    files = [tmp_path / f"f{i}" for i in range(50)]
    for file in files:
        file.write_text(file.name)
    with perdure.open("memory://") as store:
        scope = store.scope("project:acme")
        for number in range(1_000):
            scope.remember(f"memory {number}", checks=[perdure.FileHash(str(files[number % 50])), perdure.Age("30d")])
        assert {each.standing.value for each in store.checked()} == {"holds"}
        for file in files[:5]:
            file.write_text("changed")
        stale = {each.text for each in store.checked() if each.standing == "stale"}
        assert stale == {f"memory {number}" for number in range(1_000) if number % 50 < 5}
