"""Docs are tests: every example of docs/tools.md runs as it stands there, twice, and its tables say what the code says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from perdure_agents.ready.files import write_file
from perdure_agents.ready.git import git_commit, git_push
from perdure_agents.ready.http_tool import http_request
from perdure_agents.ready.shell import shell
from test_docs import BLOCK, ROOT

PAGE = (ROOT / "docs" / "tools.md").read_text()
EXAMPLES = [text for language, text in BLOCK.findall(PAGE) if language == "python"]
IDENTITY = {"GIT_COMMITTER_NAME": "Ada", "GIT_COMMITTER_EMAIL": "ada@example.org", "GIT_CONFIG_GLOBAL": os.devnull}
SAYS = [
    "{'name': 'fix-42'}\n{'name': 'fix-42'}\n",
    "c1 7 None\nc2 paid 7 None\nc3 None NotFound: there is no tool 'fly'; there are pay, balance\n",
    "True\n",
    "1 tests\n\n",
    "{'number': 1}\n{'number': 2}\n",
    "{'booking': 7} {'booking': 7}\n[(7, 'a seat')]\n",
]


def run(folder: Path, text: str) -> subprocess.CompletedProcess[str]:
    (folder / "example.py").write_text(text)
    command = [sys.executable, "-W", "error", "example.py"]
    env = {**os.environ, **IDENTITY}
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False, timeout=120)


def test_there_is_an_answer_for_every_example() -> None:
    assert len(EXAMPLES) == len(SAYS)


@pytest.mark.parametrize(("text", "says"), list(zip(EXAMPLES, SAYS, strict=False)))
def test_the_example_runs(tmp_path: Path, text: str, says: str) -> None:
    done = run(tmp_path, text)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(says)


def test_run_again_it_makes_one_commit(tmp_path: Path) -> None:
    (text,) = [each for each in EXAMPLES if "git_commit" in each]
    for _ in range(2):
        done = run(tmp_path, text)
        assert done.returncode == 0, done.stderr
    counting = ["git", "-C", tmp_path / "remote.git", "rev-list", "--count", "main"]
    assert subprocess.run(counting, capture_output=True, text=True, check=True).stdout.strip() == "1"


def test_a_broken_example_would_be_noticed(tmp_path: Path) -> None:
    """The control."""
    assert run(tmp_path, EXAMPLES[0].replace("perdure.tool", "perdure.tooling")).returncode != 0


def test_the_table_names_every_tool_with_its_kind_and_parameters() -> None:
    rows = dict(re.findall(r"^\| `(\w+\(.*?\))` \| (\w+) \|", PAGE, re.MULTILINE))
    expected = {}
    for tool in (write_file, git_commit, git_push, shell, http_request):
        shown = [
            name if given.default is given.empty else f"{name}={given.default!r}"
            for name, given in tool.signature.parameters.items()
        ]
        first = [name for name, given in tool.signature.parameters.items() if given.kind is given.KEYWORD_ONLY][:1]
        at = list(tool.signature.parameters).index(first[0]) if first else None
        parts = shown if at is None else [*shown[:at], "*", *shown[at:]]
        expected[f"{tool.name}({', '.join(parts)})"] = tool.kind.value
    assert rows == expected
