"""One way for each of these: a process is started by `model.programs`, git is asked by `stores.git`, HTTP is spoken by
`model.http_client`. By the syntax of every module; whoever may do otherwise is named with the reason.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from sources import at_least, sources, within_package

PROCESSES = "model/programs.py"
STARTS = {
    *(f"subprocess.{name}" for name in ("Popen", "run", "call", "check_call", "check_output", "getoutput", "getstatusoutput")),
    *(f"asyncio.{name}" for name in ("create_subprocess_exec", "create_subprocess_shell")),
    *(f"os.{name}" for name in ("system", "popen", "posix_spawn", "posix_spawnp", "spawnv", "spawnvp", "spawnl", "spawnlp")),
    "pty.spawn",
}  # fmt: skip
MAY_START = {
    "perdure_evaluate/bench/booting.py": "a user's process is measured: its group and its standard streams are those of a user's",
    "perdure_evaluate/bench/reading.py": "as above",
    "perdure_evaluate/bench/running.py": "as above",
    "perdure_evaluate/bench/working.py": "workers that a benchmark kills on purpose",
    "perdure_evaluate/conformance/rig.py": "the server and the workers under test: the rig kills them, and they have no deadline",
    "perdure_evaluate/peers.py": "pip, which fetches for minutes, and whose words are shown meanwhile",
    "perdure_evaluate/recovery/faults/tracing.py": "strace, which ends with the life that it follows",
    "perdure_evaluate/recovery/run.py": "the lives under test, which the harness kills on purpose",
    "perdure_testing/faults.py": "the lives under test, as above",
    "perdure_testing/postgres.py": "a server for tests, initialised under an account of its own, guarded by a process of its own",
    "perdure_testing/postgres_guard.py": "the guard: a file that runs by itself, without this package",
    "perdure_testing/witness.py": "a server for tests, which ends with its owner",
}

GIT = "stores/git.py"

CLIENT = "model/http_client.py"
OPENERS = {"urlopen", "build_opener", "urlretrieve", "HTTPConnection", "HTTPSConnection", "HTTPHandler", "HTTPSHandler"}
CLIENTS = {"aiohttp", "httpcore", "httpx", "niquests", "pycurl", "requests", "treq", "urllib3"}


@pytest.fixture(scope="module")
def modules() -> dict[str, ast.Module]:
    trees = {within_package(path).as_posix(): ast.parse(path.read_bytes()) for path in sources(".py")}
    return {name: trees[name] for name in at_least(600, [*trees], "modules")}


def homes_of(tree: ast.Module) -> dict[str, str]:
    """The names that a module imports from others, each with its home."""
    return {
        alias.asname or alias.name: f"{node.module}.{alias.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    }


def name_of(node: ast.AST, homes: dict[str, str]) -> str:
    """The full name of something of another module, as it is written or imported."""
    match node:
        case ast.Attribute(value=ast.Name() | ast.Attribute()):
            return ast.unparse(node)
        case ast.Name():
            return homes.get(node.id, node.id)
        case _:
            return ""


def called_in(tree: ast.Module) -> list[str]:
    """The names of all that a module calls."""
    homes = homes_of(tree)
    return [name_of(node.func, homes) for node in ast.walk(tree) if isinstance(node, ast.Call)]


def used_in(tree: ast.Module) -> set[str]:
    """The names of all that a module calls, hands on or builds upon."""
    homes = homes_of(tree)
    return {name_of(node, homes) for node in ast.walk(tree) if isinstance(node, (ast.Attribute, ast.Name))}


def starts(tree: ast.Module) -> set[str]:
    return {*called_in(tree)} & STARTS


def asks_git(tree: ast.Module) -> bool:
    """Whether a command line that begins with git stands in it."""
    lines = [node for node in ast.walk(tree) if isinstance(node, (ast.List, ast.Tuple)) and node.elts]
    commands = [line for line in lines if isinstance(line.ctx, ast.Load)]
    return any(
        isinstance(line.elts[0], ast.Constant) and Path(str(line.elts[0].value)).name == "git" and len(line.elts) > 1
        and any(isinstance(each, (ast.Starred, ast.Name)) or getattr(each, "value", "") in GIT_WORDS for each in line.elts[1:])
        for line in commands
    )  # fmt: skip


GIT_WORDS = {"-c", "-C", "--no-pager", "rev-parse", "log", "status", "diff", "add", "commit", "init", "push", "show"}


def speaks_http(tree: ast.Module) -> set[str]:
    used = {name for name in used_in(tree) if name.rpartition(".")[2] in OPENERS}
    roots = {name.partition(".")[0] for name in imported(tree)}
    return {name for name in used if name.startswith(("http.client.", "urllib.request."))} | roots & CLIENTS


def imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module


def test_processes_are_started_by_one_function(modules: dict[str, ast.Module]) -> None:
    starting = {name for name, tree in modules.items() if starts(tree)}
    assert PROCESSES in starting
    assert starting - {PROCESSES} == MAY_START.keys(), "a name too few: whoever starts none needs no reason any more"
    assert called_in(modules[PROCESSES]).count("subprocess.Popen") == 1


def test_git_is_asked_by_one_module(modules: dict[str, ast.Module]) -> None:
    assert [name for name, tree in modules.items() if asks_git(tree)] == [GIT]


def test_http_is_spoken_by_one_client(modules: dict[str, ast.Module]) -> None:
    assert [name for name, tree in modules.items() if speaks_http(tree)] == [CLIENT]


@pytest.mark.parametrize(
    ("text", "look"),
    [
        ("import subprocess\nsubprocess.run(['x'])", starts),
        ("from subprocess import Popen as P\nP(['x'])", starts),
        ("import asyncio\nasync def f():\n    await asyncio.create_subprocess_exec('x')", starts),
        ("import os\nos.system('x')", starts),
        ("run(['git', *words])", asks_git),
        ("run(('/usr/bin/git', '-c', 'x'))", asks_git),
        ("COMMAND = ['git', 'rev-parse', 'HEAD']", asks_git),
        ("import httpx", speaks_http),
        ("def f():\n    from requests import get", speaks_http),
        ("import urllib.request\nurllib.request.urlopen(u)", speaks_http),
        ("from urllib.request import urlopen as o\no(u)", speaks_http),
        ("import http.client\nclass A(http.client.HTTPConnection): pass", speaks_http),
    ],
)
def test_control_another_way_is_seen(text: str, look: object) -> None:
    assert callable(look)
    assert look(ast.parse(text))


@pytest.mark.parametrize(
    ("text", "look"),
    [
        (
            "import subprocess\nPIPE = subprocess.PIPE\ntry:\n    pass\nexcept subprocess.TimeoutExpired:\n    pass",
            starts,
        ),
        ("KEYS = ('cwd', 'git', 'model')\nGIT, NONE = 'git', 'no git'", asks_git),
        ("from urllib.request import Request\nfrom http.client import HTTPResponse\nRequest(u)", speaks_http),
        ("from perdure.model.http_client import exchange\nexchange(r, 1, 1)", speaks_http),
    ],
)
def test_control_an_innocent_passes(text: str, look: object) -> None:
    assert callable(look)
    assert not look(ast.parse(text))
