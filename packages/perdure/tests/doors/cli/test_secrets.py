"""A password goes through every command, and shows nowhere: not in what is said, written, logged or passed on (P10)."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import forked
from installed import commands_here

SECRET = "hunter2-canary"
URLS = [
    f"postgresql://me:{SECRET}@127.0.0.1:1/d", f"postgresql://127.0.0.1:1/d?pass%77ord={SECRET}", f"postgresql://me:{SECRET}",
    f"postgresql://me:x@{SECRET}@127.0.0.1/d", f"me:{SECRET}@h", f"postgresql://me:{SECRET}@[h/d",
    f"postgresql://me:{SECRET}@127.0.0.1:1/d?nosuch=1", f"sqlite:///a.db?artifacts=s3://key:{SECRET}@bucket",
]  # fmt: skip
WORDS = {  # what commands need besides a store
    "show": ["run:x"], "envelope": ["x"], "settle": ["run:x/1", "absent"], "answer": ["x", "y"], "resume": ["x"], "retry": ["x"],
    "cancel": ["x"], "unpark": ["x"], "pin": ["x"], "adopt": ["x"], "handover": ["x"], "import": ["x"], "diff": ["a", "b"],
    "apply": ["x"], "merge": ["x"], "backup": ["x"], "restore": ["x"], "fork": ["x"], "redo": ["x", "y"], "signal": ["x", "y"],
    "views": ["a"], "export": ["out", "--everything"], "start": ["x:y"], "worker": ["x:y"],
    "move": ["URL", "sqlite:///b.db"],
}  # fmt: skip
APART = {"evaluate", "conformance", "advise", "bench"}  # they make stores of their own


def commands() -> list[str]:
    return sorted(name for name in commands_here() if name not in APART)


def ran(folder: Path, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PERDURE")}
    return forked.run("-m", "perdure", *words, cwd=folder, env=kept | env)


def in_files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]


PROGRAM = """
import contextlib, io, json, os, sys
from click.testing import CliRunner
from perdure.cli.main import cli
found = []
for name, words, url in json.loads(sys.stdin.read()):
    for given, env in ((["--store", url], {}), ([], {"PERDURE_STORE": url})):
        words = [url if word == "URL" else word for word in words]
        result = CliRunner().invoke(cli, [name, *words, *given], env=env)
        trouble = repr(result.exception) if result.exception and not isinstance(result.exception, SystemExit) else ""
        if CANARY in result.output + trouble:
            found.append([name, url, result.output, trouble])
print(json.dumps(found))
"""


def test_no_command_shows_a_password(tmp_path):
    """Each command, with each URL as an option and from the environment; in one process, which imports what they need once."""
    cases = [(name, WORDS.get(name, []), url) for url in URLS for name in commands() if name != "worker"]
    program = PROGRAM.replace("CANARY", repr(SECRET))
    done = forked.run("-c", program, input=json.dumps(cases), cwd=tmp_path, timeout=300)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == []
    assert SECRET not in done.stderr
    assert in_files(tmp_path) == []


def test_init_writes_no_password(tmp_path):
    for url in URLS:
        done = ran(tmp_path, "init", "--store", url)
        assert done.returncode != 0
        assert SECRET not in done.stdout + done.stderr
    assert [path.name for path in tmp_path.iterdir()] == []


def test_a_move_and_its_seal_have_no_password(tmp_path):
    """The target is named in the source for as long as that exists."""
    source, target = (
        f"sqlite:///{tmp_path}/a.db",
        f"sqlite:///{tmp_path}/b.db?artifacts=s3%3A%2F%2Fkey%3A{SECRET}%40bucket",
    )
    assert ran(tmp_path, "init", "--store", source).returncode == 0
    done = ran(tmp_path, "move", source, target)
    assert SECRET not in done.stdout + done.stderr
    assert in_files(tmp_path) == []
