"""Peers: other people's frameworks that are evaluated beside us, each installed on demand into an environment of its own.

Callers: the evaluation, which lives its lives in a peer's interpreter, and its door. Nothing is installed
beside Perdure. An environment is named by its pins and its interpreter, so new pins are a new one; what a peer brings comes first
on its path, and ours, by PERDURE_OWN_PATH, last: only what it lacks is taken from us. A peer that is not there is skipped with
the command that gets it, never passed.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
import subprocess
import sys
import venv
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from perdure.errors import Invalid, Unavailable
from perdure.model import siblings

Tell = Callable[[str], None]

# The packages that a program of ours stands on.
OWN = ("perdure", *(name.replace("-", "_") for name in siblings.OURS), "apsw", "msgspec", "backports")
ROAD = "import os, sys; sys.path.extend(filter(None, os.environ.get('PERDURE_OWN_PATH', '').split(os.pathsep)))\n"
ASIDE = ("PYTHONPATH", "PYTHONHOME", "PIP_USER", "PIP_TARGET", "PIP_PREFIX", "PIP_REQUIRE_VIRTUALENV")
RETRIES = "2"  # of pip: without a network it should say so soon
ERROR_CHARS = 300


class Peer(msgspec.Struct, frozen=True):
    """A framework. packages: its pins; modules: what its programs import, so that lives can be forked after it."""

    packages: tuple[str, ...]
    modules: tuple[str, ...] = ()


PEERS = {
    "langgraph": Peer(
        ("langgraph==1.2.20", "langgraph-checkpoint-sqlite==3.1.2"),
        ("langgraph.func", "langgraph.graph", "langgraph.types", "langgraph.checkpoint.sqlite"),
    ),
    "dbos": Peer(("dbos==3.3.0",), ("dbos", "sqlalchemy.dialects.sqlite", "dbos._sys_db_sqlite")),
    "openai-agents": Peer(("openai-agents==0.24.0",), ("agents", "agents.memory", "openai.types.responses")),
    "pydantic-ai": Peer(
        ("pydantic-ai-slim==2.66.0",), ("pydantic_ai", "pydantic_ai.models.function", "pydantic_ai.durable_exec")
    ),
    "google-adk": Peer(
        ("google-adk==2.13.0",),
        (
            "google.adk.runners",
            "google.adk.agents",
            "google.adk.apps.app",
            "google.adk.sessions.sqlite_session_service",
            # It loads these at its first run, for half a second: at each life, if its host has not.
            "google.adk.flows.llm_flows.auto_flow",
            "google.adk.auth.auth_preprocessor",
            "google.adk.models.google_llm",
            "google.adk.tools.agent_tool",
            "google.adk.memory.in_memory_memory_service",
            "google.adk.workflow._workflow",
        ),
    ),
    "strands": Peer(("strands-agents==1.62.0",), ("strands", "strands.models", "strands.session")),
    "agent-framework": Peer(("agent-framework-core==1.23.0",), ("agent_framework",)),
}


def peer(name: str) -> Peer:
    """One of them. Invalid for what is none."""
    if name not in PEERS:
        raise Invalid(f"no peer {name[:80]!r}; there are {', '.join(PEERS)}", path="peer")
    return PEERS[name]


def place(name: str) -> Path:
    """Where a peer's environment is or would be: in PERDURE_CACHE, else in the user's cache."""
    pins = [*peer(name).packages, sys.version, sys.base_prefix]
    return _cache() / "peers" / f"{name}-{hashlib.sha256(repr(pins).encode()).hexdigest()[:12]}"


def _cache() -> Path:
    if own := os.environ.get("PERDURE_CACHE"):
        return Path(own).absolute()
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache").absolute() / "perdure"
    except RuntimeError:
        raise Invalid("there is no home folder to keep peers in", path="peers", hint="set PERDURE_CACHE") from None


def installed(name: str) -> bool:
    """Whether it is there, whole: an installation that was cut off is not."""
    return (place(name) / "installed").is_file()


def python(name: str) -> Path:
    """Its interpreter."""
    return place(name) / "bin" / "python"


def environment() -> dict[str, str]:
    """The environment of a program of ours in a peer's interpreter: it finds us behind what the peer brings."""
    own = [entry for entry in sys.path if any((Path(entry) / name).is_dir() for name in OWN)]
    return {**_clean(), "PERDURE_OWN_PATH": os.pathsep.join(os.path.abspath(entry) for entry in own)}  # noqa: PTH100


def _clean() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in ASIDE}


# -- getting one -------------------------------------------------------------------------------------------------


def install(name: str, tell: Tell) -> None:
    """Make a peer's environment, if it is not there: from the package index that pip is set to use. Idempotent; one at a time.

    tell is called with a line now and then. After a crash it is made anew. Raises Unavailable with pip's own words.
    """
    with _exclusively(name):
        if not installed(name):
            tell(f"{name}: {', '.join(peer(name).packages)} into {place(name)}; this is done once")
            _make(name, tell)


def _make(name: str, tell: Tell) -> None:
    try:
        venv.EnvBuilder(clear=True, with_pip=not _has_pip(), symlinks=True).create(place(name))
        _pip(name, tell)
        site = next(place(name).glob("lib/python*/site-packages"))
        (site / "perdure-own.pth").write_text(ROAD)
        (place(name) / "installed").write_text("".join(f"{package}\n" for package in peer(name).packages))
    except (OSError, subprocess.CalledProcessError) as error:
        raise Unavailable(f"no environment could be made in {place(name)}: {error}", path=name) from error


def _has_pip() -> bool:
    """Whether our own pip can fill it, so that it needs none."""
    return importlib.util.find_spec("pip") is not None


def _pip(name: str, tell: Tell) -> None:
    """Fill it, and tell which package is fetched."""
    own = str(python(name))
    pip = [sys.executable, "-m", "pip", "--python", own] if _has_pip() else [own, "-m", "pip"]
    options = ["--no-input", "--disable-pip-version-check", "--retries", RETRIES]
    errors: list[str] = []
    command = [*pip, "install", *options, *peer(name).packages]
    with subprocess.Popen(  # noqa: S603 - our own words
        command, env=_clean(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as program:  # fmt: skip
        assert program.stdout is not None
        for line in program.stdout:
            errors += [line.strip()] if line.startswith("ERROR") else []
            if line.startswith(("Collecting ", "Installing ")):
                tell(f"{name}: {line.strip()[:80]}")
    if program.returncode:
        last = errors[-1] if errors else f"pip ended with {program.returncode}"
        raise Unavailable(f"{name} could not be installed: {last[:ERROR_CHARS]}", path="peers",
                          hint="it needs a package index: is there a network?")  # fmt: skip


@contextmanager
def _exclusively(name: str) -> Iterator[None]:
    path = place(name).with_suffix(".lock")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = path.open("w")
    except OSError as error:
        raise Unavailable(
            f"nothing can be kept in {path.parent}: {error}", path="peers", hint="set PERDURE_CACHE"
        ) from error
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def lacking(name: str, how: str, *, tell: Tell | None = None) -> str:
    """Why a peer cannot be used; nothing, if it can. how: the command that gets it; tell: get it now, if it is not there."""
    try:
        if tell is not None:
            install(name, tell)
        return "" if installed(name) else f"{name} is not installed; `{how}` gets it"
    except Unavailable as error:
        return str(error)
