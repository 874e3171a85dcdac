"""Make the project's virtual environment, `.venv`, if it is not there yet or no longer fits.

Called by the Makefile with a Python that is new enough: `python tools/bootstrap.py runtime|dev`. The packages come from
`requirements/*.txt`, each with the digests of its files, which `tools/lock.py` makes from the pyproject.toml of each package.
A stamp with the digest of both makes the second call take no time.
"""

from __future__ import annotations

import contextlib
import fcntl
import getpass
import hashlib
import os
import re
import subprocess
import sys
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

TOP = Path(__file__).resolve().parent.parent
VENV = TOP / ".venv"
PROJECTS = (TOP / "pyproject.toml", *sorted(TOP.glob("packages/*/pyproject.toml")))
LEVELS = ("runtime", "dev")  # each includes the ones before it
ELSEWHERE = re.compile(r"\b(?<!extra-)index-url=|\bno-index=")  # pip may look there and nowhere else


def main(level: str) -> None:
    """Return when the environment holds what `level` needs; exit with a message when it cannot be made."""
    check_writable(TOP)
    if is_fresh(level):
        return
    with exclusively():
        if not is_fresh(level):
            install(level)


def is_fresh(level: str) -> bool:
    """Whether this level, or one that includes it, was installed here from the same pyproject.toml files."""
    fitting = LEVELS[LEVELS.index(level) :]
    return python().exists() and any(read(stamp(name)) == fingerprint() for name in fitting)


def fingerprint() -> str:
    """Names what was installed and where."""
    locks = b"".join(lock.read_bytes() for lock in sorted((TOP / "requirements").glob("*.txt")))
    return hashlib.sha256(b"".join(path.read_bytes() for path in PROJECTS) + locks + place().encode()).hexdigest()


def place() -> str:
    """Names the checkout and the interpreter: a moved or copied environment still points at its old place."""
    return f"{TOP}\n{python().resolve()}\n"


def python() -> Path:
    """The environment's interpreter."""
    return VENV / "bin" / "python"


def stamp(level: str) -> Path:
    """The file that remembers a finished installation."""
    return VENV / f"installed-{level}"


def read(path: Path) -> str:
    """A small file's text; nothing if there is none."""
    return path.read_text() if path.exists() else ""


def install(level: str) -> None:
    """Make or mend the environment and fill it; the stamp comes last, so a broken attempt is made again."""
    print(f"filling .venv ({level}); this is done once for each pyproject.toml", flush=True)
    if not python().exists() or read(VENV / "made-for") != place():
        with told("cannot make .venv"):
            venv.EnvBuilder(clear=True, with_pip=True, symlinks=True).create(VENV)
            (VENV / "made-for").write_text(place())
    locked = ("--require-hashes", "--requirement", f"requirements/{level}.txt")
    members = (word for path in PROJECTS[1:] for word in ("--editable", str(path.parent.relative_to(TOP))))
    ours = ("--no-deps", "--no-build-isolation", *members)  # built by what was just installed
    if not installed_by_uv(locked, ours):
        with told("pip could not install what requirements/ names"):
            pip("install", "--quiet", *locked)
            pip("install", "--quiet", *ours)
    stamp(level).write_text(fingerprint())


def installed_by_uv(*requirements: tuple[str, ...]) -> bool:
    """Whether uv, which takes a tenth of the time, has installed all of it. A user who told pip where to look is served by
    pip."""
    command = [VENV / "bin" / "uv", "pip", "install", "--quiet", "--python", python()]
    try:
        settings = pip("config", "list", stdout=subprocess.PIPE).stdout.decode()
        if ELSEWHERE.search(settings):
            return False
        pip("install", "--quiet", "--require-hashes", "--requirement", "requirements/uv.txt")
        for each in requirements:
            subprocess.run([*command, *each], cwd=TOP, env={**os.environ, "UV_SYSTEM_CERTS": "1"}, check=True)
    except (OSError, subprocess.CalledProcessError):
        print("uv could not do it; with pip, then", flush=True)
        return False
    return True


def pip(*arguments: str, **how: Any) -> subprocess.CompletedProcess[bytes]:
    """Run the environment's pip in the checkout. CalledProcessError when it fails."""
    return subprocess.run([python(), "-m", "pip", *arguments], cwd=TOP, check=True, **how)


def check_writable(top: Path) -> None:
    """Exit with a way out if the checkout belongs to somebody else or is read-only."""
    for folder in (top, VENV):
        if folder.exists() and not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
            owner = folder.stat().st_uid
            sys.exit(
                f"{folder} cannot be written by {user()} (it belongs to user id {owner}, or is read-only).\n"
                "Clone the repository into a folder of your own and run make there."
            )


def user() -> str:
    """The user's name, also where the system has none."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"user id {os.getuid()}"


@contextlib.contextmanager
def exclusively() -> Iterator[None]:
    """Let only one process at a time make the environment."""
    lock_file = TOP / ".cache" / "bootstrap.lock"
    with told("cannot lock the checkout"):
        lock_file.parent.mkdir(exist_ok=True)
        lock = lock_file.open("w")
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def told(what: str) -> Iterator[None]:
    """Turn what the world can do to us into one line."""
    try:
        yield
    except (OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"{what}: {error}")


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in LEVELS:
        sys.exit(f"usage: bootstrap.py {'|'.join(LEVELS)}")
    main(sys.argv[1])
