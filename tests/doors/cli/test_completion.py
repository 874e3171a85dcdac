"""Completion: a script for each shell, with the line that installs it; and what it then asks for."""

from __future__ import annotations

import subprocess
import sys

import pytest

from doors.cli.content import clean_environment
from perdure.doors.cli.completion import INSTALL


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
    words = line.split()
    env = clean_environment(_PERDURE_COMPLETE="bash_complete", COMP_WORDS=line, COMP_CWORD=str(len(words) - 1))
    command = [sys.executable, "-c", "from perdure.doors.cli.main import main; main()"]
    ran = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert f"plain,{expected}" in ran.stdout.splitlines()
