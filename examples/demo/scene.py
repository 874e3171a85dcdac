"""Where the demo takes place: a scratch folder with a clone and a bare remote for each agent, and the forge between them.

The story sets it up, and counts from here what is really there in the end. When it is left, nothing of it is: no folder, and no
process, whatever ended it.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import msgspec

from demo.order import DemoPlace
from demo.script import BRANCH, ENTRY, FILES
from perdure.errors import Unavailable

GIT_SECONDS = 30.0
GRACE_SECONDS = 2.0
REMOVE_SECONDS = 30.0
_PIPE = subprocess.PIPE


class DemoTally(msgspec.Struct, frozen=True):
    """The traces that one agent left in the outside world, counted there. requests: those that reached the forge, answered anew
    or not.
    """

    commits: int
    pulls: int
    comments: int
    entries: int
    requests: int


class Scene:
    """The folder, the processes and the forge of one demo."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.env = _environment()
        self._running: list[subprocess.Popen[bytes]] = []
        self._forge = ""
        self._starting = threading.Lock()  # a process that is being started meanwhile must end too
        self._stopped = False

    def start(self, module: str) -> subprocess.Popen[bytes]:
        """Start one of our own modules; it does not outlive the scene, and what lies in the current folder is no module of it."""
        command = [sys.executable, "-P", "-m", f"{__package__}.{module}"]
        with self._starting:
            if self._stopped:
                raise Unavailable("the demo is over", path="demo")
            with (self.folder / f"{module}.stderr").open("wb") as said:
                found = subprocess.Popen(command, env=self.env, stdin=_PIPE, stdout=_PIPE, stderr=said)  # noqa: S603
            self._running.append(found)
        return found

    def complaint(self, module: str) -> str:
        """The last line that a process of this module wrote on standard error."""
        lines = (self.folder / f"{module}.stderr").read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else "it said nothing"

    def open_forge(self) -> None:
        """Start the forge, once."""
        forge = self.start("forge")
        assert forge.stdout is not None
        line = forge.stdout.readline()
        if not line:
            raise Unavailable(f"the forge does not start: {self.complaint('forge')}", path="demo")
        self._forge = f"http://127.0.0.1:{json.loads(line)['port']}"

    def place(self, name: str) -> DemoPlace:
        """A clone with the bug, on a branch of its own, and its remote."""
        own = self.folder / name
        work, remote = own / "work", own / "remote.git"
        work.mkdir(parents=True)
        for path, content in FILES.items():
            (work / path).write_text(content)
        self._git(own, "init", "-q", "--bare", "-b", "main", "remote.git")
        self._git(work, "init", "-q", "-b", "main")
        self._git(work, "add", ".")
        self._git(work, "commit", "-q", "-m", "Prices")
        self._git(work, "push", "-q", str(remote), "main")
        self._git(work, "checkout", "-q", "-b", BRANCH)
        return DemoPlace(str(work), str(remote), f"{self._forge}/{name}", str(own))

    def tally(self, place: DemoPlace) -> DemoTally:
        """Count what is there: in the remote, and on the forge."""
        remote, commits, text = Path(place.remote), [], ""
        if self._git(remote, "branch", "--list", BRANCH):  # else nothing was pushed yet
            commits = self._git(remote, "rev-list", f"main..{BRANCH}").split()
            text = self._git(remote, "show", f"{BRANCH}:CHANGELOG.md")
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(place.forge, timeout=10) as answer:
            found = json.load(answer)
        return DemoTally(len(commits), found["pulls"], found["comments"], text.count(ENTRY), found["requests"])

    def _git(self, folder: Path, *command: str) -> str:
        done = subprocess.run(  # noqa: S603 - our own words
            ["git", *command], cwd=folder, env=self.env, capture_output=True, timeout=GIT_SECONDS, check=False  # noqa: S607
        )  # fmt: skip
        if done.returncode:
            raise Unavailable(f"git {command[0]}: {done.stderr.decode(errors='replace').strip()}", path="demo")
        return done.stdout.decode()

    def stop(self) -> None:
        """End what still runs: asked first, so that an agent can end what it has started itself; the forge last."""
        with self._starting:
            self._stopped = True
        for each in reversed(self._running):
            _end(each)


def _end(child: subprocess.Popen[bytes]) -> None:
    assert child.stdin is not None
    assert child.stdout is not None
    if child.poll() is None:
        child.send_signal(signal.SIGINT)
    with contextlib.suppress(OSError):
        child.stdin.close()
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(GRACE_SECONDS)
    child.kill()
    child.wait()
    child.stdout.close()  # not before it is dead: somebody may be reading


def _environment() -> dict[str, str]:
    """Nobody's configuration of git, no proxy, and no crash point but the story's own."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("GIT_", "PERDURE_", "PYTHONSAFE")) and not name.lower().endswith("_proxy")
    }
    who = {f"GIT_{role}_{what}": value for role in ("AUTHOR", "COMMITTER")
           for what, value in (("NAME", "Demo agent"), ("EMAIL", "agent@example.org"))}  # fmt: skip
    who["PYTHONPATH"] = str(Path(__file__).parents[1])  # where this package is
    return {**kept, **who, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "GIT_TERMINAL_PROMPT": "0"}


@contextlib.contextmanager
def scene() -> Iterator[Scene]:
    """A scene with its forge, until it is left. Unavailable if there is no git."""
    if shutil.which("git") is None:
        raise Unavailable("the demo needs git, and there is none", path="demo", hint="install git")
    folder = Path(tempfile.mkdtemp(prefix="perdure-demo-"))
    found = Scene(folder)
    with _ended_by_sigterm():
        try:
            found.open_forge()
            yield found
        finally:
            found.stop()
            _remove(folder)


def _remove(folder: Path) -> None:
    """Remove it; a git or a test of a killed agent may still be writing there for a moment."""
    until = time.monotonic() + REMOVE_SECONDS
    while folder.exists() and time.monotonic() < until:
        shutil.rmtree(folder, ignore_errors=True)
        if folder.exists():
            time.sleep(0.05)


@contextlib.contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """SIGTERM ends it as Ctrl-C does: by leaving, not by dropping everything."""
    try:
        before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    except ValueError:  # not the main thread: it is somebody else's to decide
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
