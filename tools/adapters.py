"""Runs the frameworks' own test suites with our adapters in the place of their classes, and prints a table.

    make adapters                                  every framework, on SQLite, files and PostgreSQL
    .venv/bin/python tools/adapters.py openai-agents --store sqlite

Each framework gets an environment of its own in .cache/adapters, with its pins and its own source release, whose tests are run.
If there is a newer version in the range that the adapter supports (pyproject.toml), its suite is run too, as NAME-newest.
The plugin that rebinds a class, and what it leaves out and why, is tools/suites/<name>_suite.py. A framework that cannot be had
is skipped, and the table says so.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import venv
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "packages" / "perdure-adapters"
SOURCES = [str(path) for path in sorted(ROOT.glob("packages/*/src"))]
TESTS = PACKAGE / "tests"
BESIDE = os.pathsep.join(
    map(str, (ROOT / "tests", *sorted(ROOT.glob("packages/*/tests"))))
)  # tests import helpers of each other
CACHE = ROOT / ".cache" / "adapters"
STORES = ("sqlite", "files", "postgres")
SECONDS = 3_600


class Framework(NamedTuple):
    """A framework. packages: its pins; source: where its tests are; tests: which of them; plugin: ours.

    source: a source release; git+URL@TAG, where the release carries no tests; "" where the tests are ours. PERDURE_SUITE_SOURCES
    may name a folder that has it already, under the framework's name. own: the folders of tests/adapters that need the framework,
    and run in its environment too. is_end: this version is an end of the range, and no newer one takes its place.
    """

    packages: tuple[str, ...]
    source: str
    tests: tuple[str, ...]
    plugin: str
    own: tuple[str, ...] = ()
    is_end: bool = False


OURS = ("apsw", "msgspec", "click", "rich", "backports.zstd", "psycopg[binary]", "pytest>=9", "pytest-asyncio")
AGENT_FRAMEWORK_TESTS = tuple(
    f"python/packages/core/tests/workflow/test_{name}.py"
    for name in ("checkpoint", "checkpoint_validation", "agent_executor", "request_info_event_rehydrate", "runner",
                 "sub_workflow", "workflow_agent", "workflow_observability", "functional_workflow")
)  # fmt: skip
# Append a line for each framework.
FRAMEWORKS = {
    "openai-agents": Framework(
        ("openai-agents==0.24.0", "httpx", "inline-snapshot", "sqlalchemy[asyncio]", "aiosqlite", "cryptography", "fastapi"),
        "openai-agents==0.24.0",
        ("tests/memory/test_session.py", "tests/memory/test_session_limit.py", "tests/memory/test_compaction_suffix.py",
         "tests/memory/test_compaction_model_visibility.py", "tests/memory/test_openai_responses_compaction_session.py",
         "tests/extensions/memory/test_encrypt_session.py", "tests/test_agent_runner.py", "tests/test_max_turns.py",
         "tests/test_soft_cancel.py"),
        "openai_agents_suite",
    ),
    "claude-agent": Framework(
        ("claude-agent-sdk==0.2.183", "trio"),
        "claude-agent-sdk==0.2.183",
        ("tests/test_session_store_conformance.py", "tests/test_transcript_mirror.py", "tests/test_session_summary.py",
         "tests/test_session_import.py", "tests/test_session_resume.py", "tests/test_session_helpers_store.py"),
        "claude_agent_suite",
    ),
    "langgraph-store": Framework(
        ("langgraph==1.2.22", "langgraph-checkpoint==4.3.2", "langgraph-checkpoint-sqlite==3.1.2"),
        "langgraph-checkpoint-sqlite==3.1.2",
        ("tests/test_store.py", "tests/test_async_store.py", "tests/test_ttl.py"),
        "langgraph_store_suite",
    ),
    "langgraph-runtime": Framework(
        ("langgraph==1.2.22", "langgraph-checkpoint==4.3.2", "langgraph-checkpoint-sqlite==3.1.2",
         "langgraph-checkpoint-postgres==3.2.0", "langchain==1.4.7", "psycopg-pool", "redis", "pytest-mock", "syrupy",
         "pycryptodome", "httpx", "pytest-xdist"),
        "langgraph==1.2.22",
        ("tests",),
        "langgraph_runtime_suite",
    ),
    # One environment for all: CrewAI cannot live in it (it takes openai, mcp and pydantic back).
    "together": Framework(
        ("langgraph==1.2.22", "langgraph-checkpoint==4.3.2", "langgraph-checkpoint-sqlite==3.1.2", "langchain==1.4.7",
         "openai-agents==0.24.0", "claude-agent-sdk==0.2.183", "google-adk==2.13.0", "pydantic-ai-slim==2.66.0",
         "strands-agents==1.62.0", "agent-framework-core==1.23.0"),
        "",
        ("packages/perdure-adapters/tests/adapters/together",),
        "together_suite",
    ),
    "strands": Framework(
        ("strands-agents==1.62.0", "moto[s3]"),
        "strands-agents==1.62.0",
        ("tests/strands/storage", "tests/strands/session/test_repository_session_manager.py",
         "tests/strands/session/test_snapshot_session_manager.py", "tests/strands/agent/test_agent.py",
         "tests/strands/agent/test_agent_storage.py", "tests/strands/test_tracking_id_history_invariant.py",
         "tests/strands/_context_manager", "tests/strands/vended_plugins/context_offloader"),
        "strands_suite",
        own=("strands",),
    ),
    "google-adk": Framework(
        ("google-adk==2.13.0", "sqlalchemy[asyncio]", "aiosqlite"),
        "git+https://github.com/google/adk-python@v2.0.0",
        ("tests/unittests/sessions", "tests/unittests/artifacts", "tests/unittests/memory"),
        "google_adk_suite",
        own=("google_adk",),
    ),
    # Its release carries no tests. Those of 1.13.0 run on both ends of the range; functional workflows were experimental then,
    # and their tests do not fit later versions (the stock class fails them too).
    "agent-framework": Framework(
        ("agent-framework-core==1.23.0", "opentelemetry-sdk", "mcp"),
        "git+https://github.com/microsoft/agent-framework@python-1.13.0",
        AGENT_FRAMEWORK_TESTS[:-1],
        "agent_framework_suite",
        own=("agent_framework",),
    ),
    "agent-framework-oldest": Framework(
        ("agent-framework-core==1.13.0", "opentelemetry-sdk", "mcp"),
        "git+https://github.com/microsoft/agent-framework@python-1.13.0",
        AGENT_FRAMEWORK_TESTS,
        "agent_framework_suite",
        own=("agent_framework",),
        is_end=True,
    ),
}  # fmt: skip


class NotToBeHad(Exception):
    """A package is not there, or its index cannot be reached."""


def supported() -> dict[str, str]:
    """The ranges of versions that the adapters support, by package: those of our extras."""
    extras = tomllib.loads((PACKAGE / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    return {each.partition(">")[0]: each for extra in extras.values() for each in extra if ">" in each}


def newest(found: Framework, version_of: Callable[[str], str]) -> Framework | None:
    """A framework at the newest version that is supported; None if that is the pinned one. Tests that no release carries stay."""
    if found.is_end:
        return None
    ranges = supported()
    pins = {each: each.partition("==")[0] for each in (*found.packages, found.source) if "==" in each}
    newer = {pin: f"{name}=={version_of(ranges[name])}" for pin, name in pins.items() if name in ranges}
    made = found._replace(
        packages=tuple(newer.get(each, each) for each in found.packages), source=newer.get(found.source, found.source)
    )
    return None if made == found else made


def newest_version(requirement: str) -> str:
    """The newest version of a package that fits a requirement, as the package index has it."""
    asking = ["install", "--dry-run", "--no-deps", "--ignore-installed", "--report", "-", requirement]
    try:
        told = _run([sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", "-q", *asking])
        return json.loads(told)["install"][0]["metadata"]["version"]
    except subprocess.CalledProcessError as error:
        raise NotToBeHad(_last_words(error)) from error


def place(name: str) -> Path:
    """Where the environment of a framework is; new pins are a new one."""
    found = FRAMEWORKS[name]
    mark = hashlib.sha256(repr((found.packages, found.source, OURS, sys.version)).encode()).hexdigest()[:12]
    return CACHE / f"{name}-{mark}"


def install(name: str) -> str:
    """Make its environment, if it is not there; returns why not, or nothing."""
    home, found = place(name), FRAMEWORKS[name]
    if (home / "installed").is_file():
        return ""
    try:
        venv.EnvBuilder(clear=True, with_pip=True, symlinks=True).create(home)
        python = str(home / "bin" / "python")
        pip = [python, "-m", "pip", "--disable-pip-version-check", "--no-input", "-q"]
        _run([*pip, "install", *found.packages, *OURS])
        site = next(home.glob("lib/python*/site-packages"))
        (site / "perdure-own.pth").write_text("\n".join([*SOURCES, ""]))
        (home / "installed").write_text("\n".join(found.packages))
    except (OSError, subprocess.CalledProcessError, StopIteration) as error:
        return _last_words(error)
    return ""


def fetch_source(name: str) -> str:
    """Get the source that has the framework's tests, if it is not there; returns why not, or nothing."""
    home, source = place(name), FRAMEWORKS[name].source
    if not source or any(path.is_dir() for path in (home / "source").glob("*")):
        return ""
    given = Path(os.environ.get("PERDURE_SUITE_SOURCES", os.devnull)) / name
    try:
        (home / "source").mkdir(exist_ok=True)
        if given.is_dir():
            shutil.copytree(given, home / "source" / name)
        elif source.startswith("git+"):
            url, _, tag = source.removeprefix("git+").partition("@")
            _run(["git", "clone", "-q", "--depth", "1", "--branch", tag, url, str(home / "source" / name)])
        else:
            pip = [str(home / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "--no-input", "-q"]
            _run([*pip, "download", "--no-deps", "--no-binary", ":all:", source, "-d", str(home / "source")])
            with tarfile.open(next((home / "source").glob("*.tar.gz"))) as archive:
                archive.extractall(home / "source", filter="data")
    except (OSError, subprocess.CalledProcessError, StopIteration) as error:
        return _last_words(error)
    return ""


def _run(command: list[str]) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def _last_words(error: Exception) -> str:
    said = getattr(error, "stderr", "") or str(error)
    return (said.strip().splitlines() or ["?"])[-1][:160]


def suite(name: str, store: str) -> dict[str, object]:
    """Run one suite on one store; its counts, and the names of what failed."""
    home, found = place(name), FRAMEWORKS[name]
    source = next(path for path in (home / "source").iterdir() if path.is_dir()) if found.source else ROOT
    report = home / f"report-{hashlib.sha256(store.encode()).hexdigest()[:8]}.json"
    report.unlink(missing_ok=True)
    tests = [test for test in found.tests if (source / test).exists()]
    paths = [ROOT / "tools" / "suites", *([] if found.source else [BESIDE])]
    outside = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    environment = {
        **outside, "PYTHONPATH": os.pathsep.join(map(str, paths)), "PERDURE_SUITE_STORE": store,
        "PERDURE_SUITE_REPORT": str(report), "OPENAI_AGENTS_DISABLE_TRACING": "1",
    }  # fmt: skip
    own = [] if found.source else ["-c", os.devnull, "--rootdir", str(TESTS), "--noconftest"]
    command = [
        str(home / "bin" / "python"),
        "-m",
        "pytest",
        "-q",
        *own,
        "-p",
        found.plugin,
        "-p",
        "no:cacheprovider",
        *tests,
    ]
    try:
        ended = subprocess.run(
            command, cwd=source, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False
        )
    except subprocess.TimeoutExpired:  # the suites after it are run all the same
        return {"failures": [f"not finished after {SECONDS} s"], "passed": 0, "failed": 1, "skipped": 0}
    if not report.is_file() or ended.returncode not in (0, 1):  # it broke off: what it counted is not all
        return {"failures": [(ended.stdout + ended.stderr).strip()[-400:]], "passed": 0, "failed": 1, "skipped": 0}
    return json.loads(report.read_text())


def own_tests(name: str) -> int:
    """Run our own tests of an adapter in the environment of its framework; how many suites of them failed."""
    home, failed = place(name), 0
    outside = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    for folder in FRAMEWORKS[name].own:
        command = [
            str(home / "bin" / "python"), "-m", "pytest", "-q", "-s", "-c", os.devnull, "--noconftest", "--rootdir",
            str(TESTS), "--import-mode=importlib", "-p", "no:cacheprovider", str(TESTS / "adapters" / folder),
        ]  # fmt: skip
        environment = {**outside, "PYTHONPATH": BESIDE}
        ended = subprocess.run(
            command, cwd=home, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False
        )
        print(*(line for line in ended.stdout.splitlines() if line.startswith(("swept ", "control "))), sep="\n")
        print(f"{name:16} our own: {(ended.stdout.strip().splitlines() or ['?'])[-1]}", flush=True)
        if ended.returncode:
            failed += 1
            print(ended.stdout[-4000:])
    return failed


def left_out(name: str) -> list[tuple[str, str]]:
    """The tests that a suite leaves out, each with its reason, read without importing the framework."""
    import ast  # noqa: PLC0415 - only here

    tree = ast.parse((ROOT / "tools" / "suites" / f"{FRAMEWORKS[name].plugin}.py").read_text())
    texts = {
        node.targets[0].id: node.value.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.targets[0], ast.Name)
    }
    listed = [
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == "EXCEPT"
    ]
    found = listed[0] if listed and isinstance(listed[0], ast.Dict) else ast.Dict([], [])
    return [
        (str(key.value), str(texts.get(getattr(value, "id", ""), getattr(value, "value", ""))))
        for key, value in zip(found.keys, found.values, strict=True)
        if isinstance(key, ast.Constant)
    ]


def main(arguments: list[str] | None = None) -> int:
    """Run them, print the table; 1 if something failed."""
    parser = argparse.ArgumentParser(description="Run the suites of frameworks against our adapters.")
    parser.add_argument("frameworks", nargs="*", metavar="FRAMEWORK", help=", ".join(FRAMEWORKS))
    parser.add_argument("--store", action="append", choices=STORES, help="only on this store; may be given again")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.frameworks if name not in FRAMEWORKS]
    if unknown:
        parser.error(f"no framework {unknown[0]!r}; there are {', '.join(FRAMEWORKS)}")
    failed = 0
    print(f"{'framework':16} {'store':9} {'passed':>7} {'failed':>7} {'skipped':>8} {'left out':>9}")
    for name in options.frameworks or list(FRAMEWORKS):
        failed += run_framework(name, options.store or STORES)
        if has_newer(name):
            failed += run_framework(f"{name}-newest", options.store or STORES)
    return 1 if failed else 0


def has_newer(name: str) -> bool:
    """Whether a newer version of a framework is supported than the pinned one; then it is known as NAME-newest."""
    try:
        found = newest(FRAMEWORKS[name], newest_version)
    except NotToBeHad as error:
        print(f"{name:16} SKIPPED: its newest version cannot be had here: {error}")
        return False
    if found is not None:
        FRAMEWORKS[f"{name}-newest"] = found
        print(f"{name}-newest: {', '.join(sorted(set(found.packages) - set(FRAMEWORKS[name].packages)))}")
    return found is not None


def run_framework(name: str, stores: Iterable[str]) -> int:
    """Run the suite of one framework on each store, then our own tests of its adapter; how many tests failed."""
    missing = install(name)
    if missing:
        print(f"{name:16} SKIPPED: it cannot be had here: {missing}")
        return 0
    missing = fetch_source(name)
    if missing:
        print(f"{name:16} SKIPPED: its own tests cannot be had here: {missing}")
    failed = sum(_report(name, store) for store in (() if missing else stores))
    return failed + own_tests(name)


def _report(name: str, store: str) -> int:
    if store != "postgres":
        counts = suite(name, store)
    else:
        sys.path[:0] = SOURCES
        server = importlib.import_module("perdure_testing.postgres").PostgresServer
        with tempfile.TemporaryDirectory() as folder, server.start(Path(folder), fsync=False) as running:
            counts = suite(name, running.url())
    out = left_out(name)
    numbers = f"{counts['passed']:>7} {counts['failed']:>7} {counts['skipped']:>8} {len(out):>9}"
    print(f"{name:16} {store:9} {numbers}", flush=True)
    for failure in counts["failures"] if isinstance(counts["failures"], list) else []:
        print(f"    failed: {failure}")
    if store == STORES[0]:
        for test, reason in out:
            print(f"    left out: {test}: {reason}")
    return int(str(counts["failed"]))


if __name__ == "__main__":
    raise SystemExit(main())
