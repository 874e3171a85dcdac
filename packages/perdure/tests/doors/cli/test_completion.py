"""Completion: a script for each shell, with the line that installs it; and what it then asks for, in a bash of its own."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import perdure
from doors.cli.content import clean_environment
from perdure.cli.completion import INSTALL


@pytest.mark.parametrize("shell", INSTALL)
def test_the_script_and_how_to_install_it(run, shell) -> None:
    result = run("completion", shell)
    assert result.exit_code == 0
    first, *script = result.stdout.splitlines()
    assert first == f"# {INSTALL[shell]}"
    assert "_PERDURE_COMPLETE" in "\n".join(script)


def test_an_unknown_shell(run) -> None:
    assert run("completion", "tcsh").exit_code == 2


@pytest.mark.parametrize(("line", "expected"), [("perdure ve", "verify"), ("perdure sessions --sta", "--status")])
def test_what_the_script_gets(line, expected) -> None:
    env = clean_environment(_PERDURE_COMPLETE="bash_complete", COMP_LINE=line)
    command = [sys.executable, "-c", "from perdure.cli.main import main; main()"]
    ran = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert f"plain,{expected}" in ran.stdout.splitlines()


@pytest.mark.parametrize("line", ["perdure se --st", "perdure nosuch x", "perdure runs --st", "perdure show 'a", None])
def test_nothing_that_goes_wrong_is_printed_into_the_line(line, tmp_path) -> None:
    (tmp_path / "perdure.toml").write_text("this is no TOML [[")
    words = {} if line is None else {"COMP_LINE": line}
    env = clean_environment(_PERDURE_COMPLETE="bash_complete", **words)
    command = [sys.executable, "-c", "from perdure.cli.main import main; main()"]
    ran = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")


# -- in bash -------------------------------------------------------------------------------------------------------

SHELL = """
eval "$(perdure completion bash)"
COMP_LINE=$1 COMP_POINT=${#1}
_perdure_completion perdure
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture
def completed(tmp_path: Path, runs_url):
    """What bash would put in place of the last word, or of what follows its last colon, where it breaks words."""
    if shutil.which("bash") is None:
        pytest.skip("there is no bash here")
    program = tmp_path / "bin" / "perdure"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m perdure "$@"\n')
    program.chmod(0o755)

    def complete(line: str) -> list[str]:
        env = clean_environment(PERDURE_STORE=runs_url)
        env["PATH"] = f"{program.parent}:{env['PATH']}"
        command = ["bash", "--norc", "-c", SHELL, "bash", line]
        ran = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
        assert (ran.returncode, ran.stderr) == (0, "")
        return ran.stdout.split("\n")[:-1] if ran.stdout.strip() else []

    return complete


def test_names_with_a_colon_are_completed_beyond_it(completed, runs_url) -> None:
    """Several asks share `run:`, so that is as far as the first stroke leads."""
    with perdure.open(runs_url, read_only=True) as store:
        asks = [ask.id for ask in store.asks()]
    assert len(asks) > 0
    assert sorted(completed("perdure answer ")) == sorted(asks)
    assert sorted(completed("perdure answer run:")) == sorted(ask.removeprefix("run:") for ask in asks)
    assert completed(f"perdure answer {asks[0][:-1]}") == [asks[0].removeprefix("run:")]
    assert completed("perdure answer no:") == []


def test_sessions_are_completed_where_they_are_named(completed, runs_url) -> None:
    with perdure.open(runs_url, actor="me") as store:
        store.session("an issue")
        store.session("an:other")
        run = store.runs()[0].id
    for command in ("show", "diff", "export", "views", "tail", "fork", "runs --session", "diff an"):
        assert sorted(completed(f"perdure {command} an")) == ["an:other", r"an\ issue"]
    assert completed(r"perdure show an\ is") == [r"an\ issue"]
    assert completed("perdure show an:") == ["other"]
    assert completed(f"perdure show {run}") == [run]
    assert completed(f"perdure fork run:{run}") == [run]  # a bare one would be taken for a session


def test_options_and_values_are_completed_too(completed) -> None:
    assert completed("perdure runs --status wa") == ["waiting"]
    assert completed("perdure runs --status=wa") == ["waiting"]
    assert completed("perdure settle x f") == ["failed"]
