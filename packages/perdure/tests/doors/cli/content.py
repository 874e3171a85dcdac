"""What the tests of the command line share: a store with content, hostile text, the real process."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import perdure
from forked import Program

HOSTILE_NAME = "../../x'; DROP TABLE--<script>"
HOSTILE_TEXT = "[bold red]hi[/] \x1b[31mred \x1b]0;owned\x07 \x9b31m \u202egnp.exe \r overwritten"
TERMINAL_COMMANDS = ("\x1b[31m", "\x1b]0;", "\x07", "\x9b", "\u202e", "\r overwritten")


def fill(url: str) -> None:
    """Something of everything."""
    with perdure.open(url, actor="alice") as store:
        session = store.session("issue-42", title="Fix login", labels=["prod"], goal="Login works\non Safari")
        session.pin(model="m-1")
        turn = session.say("user", "Login fails on Safari", key="m1")
        session.say("assistant", "Let me look", calls=[perdure.Call("c1", "grep", {"q": "Safari"})])
        session.set("branch", "fix-42")
        session.decide("Use approach A", because="B breaks Safari", refs=[turn], tags=["auth"])
        first = session.task("Write the test", priority=1, labels=["release"])
        session.task("Ship it", needs=[first])
        session.emit("deploy.finished", {"sha": "abc"})
        session.attach("build.log", b"hello log", media_type="text/plain")
        session.checkpoint({"cursor": 7})
        done = store.as_("bob").session("done", labels=["old"])
        done.say("user", "Bye")
        done.close("completed")


def fill_with_hostile_text(url: str) -> None:
    """Text that would command a terminal, wherever text can be stored."""
    with perdure.open(url, actor=HOSTILE_NAME) as store:
        session = store.session(HOSTILE_NAME, title=HOSTILE_TEXT, goal=HOSTILE_TEXT, labels=[HOSTILE_NAME])
        session.say("user", HOSTILE_TEXT, key=HOSTILE_NAME)
        session.say("assistant", HOSTILE_TEXT, calls=[perdure.Call("c1", "[red]x", {HOSTILE_NAME: HOSTILE_TEXT})])
        session.decide(HOSTILE_TEXT, because=HOSTILE_TEXT, tags=[HOSTILE_NAME])
        session.task(HOSTILE_NAME, labels=[HOSTILE_NAME])
        session.emit("deploy.done", {HOSTILE_NAME: HOSTILE_TEXT})
        session.attach(HOSTILE_NAME, b"x", media_type="text/plain")


def tear(path: Path, holding: bytes, page_bytes: int = 4096) -> None:
    """Overwrite the last page of a database that holds these bytes."""
    pages = bytearray(path.read_bytes())
    start = pages.rindex(holding) // page_bytes * page_bytes
    pages[start : start + page_bytes] = b"\xff" * page_bytes
    path.write_bytes(pages)


def clean_environment(**extra: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PERDURE_", "NO_COLOR"))}
    return {**kept, **extra}


def started(*words: str) -> subprocess.Popen[bytes]:
    """The real thing, in a process of its own."""
    command = [sys.executable, "-m", "perdure", *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=clean_environment())


def on_a_terminal(*words: str, columns: int = 200, exit_code: int = 0, **env: str) -> str:
    """What a terminal of this width would get, byte by byte."""
    ours, theirs = pty.openpty()
    environment = clean_environment(TERM="xterm", COLUMNS=str(columns), **env)
    with Program("-m", "perdure", *words, stdout=theirs, stderr=subprocess.DEVNULL, env=environment) as process:
        os.close(theirs)
        shown = b""
        try:
            while piece := os.read(ours, 65536):
                shown += piece
        except OSError:  # how Linux says that the other end is closed
            pass
        os.close(ours)
        assert process.wait(60) == exit_code
    return shown.decode()
