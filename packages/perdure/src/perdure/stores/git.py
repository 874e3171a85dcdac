"""Asking git about a repository that may be hostile: an unpacked archive brings its own `.git/config`.

Git runs what a repository configures: filters when it compares or writes out files, hooks, monitors of the file system, programs
that fetch what a partial clone left out. So only plumbing is asked that reads the index, the refs and the objects and applies no
filter; nothing is fetched; and files are compared by who asks (`runtime.worktree`), never by git. Repositories inside a
repository are not entered. Callers: `runtime.worktree`, `stores.files.other_side`. Keeps P10 and P15.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

OUTPUT_MAX_BYTES = 512 * 1024**2
SAID_MAX_CHARS = 500
READING = frozenset({"cat-file", "config", "diff-index", "ls-files", "ls-tree", "rev-parse", "symbolic-ref"})
_QUIETLY = (
    "--no-optional-locks", "--no-pager", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null",
    "-c", "core.untrackedCache=false", "-c", "safe.bareRepository=explicit",
)  # fmt: skip
_NOTHING_FETCHED = {"GIT_NO_LAZY_FETCH": "1", "GIT_ALLOW_PROTOCOL": "", "GIT_TERMINAL_PROMPT": "0"}


class GitAnswer(NamedTuple):
    """The answer of git. status: its exit code; said: what it complained about."""

    status: int
    out: bytes
    said: str


def program() -> str:
    """The git of this machine. A relative entry of PATH is passed over: it would name a program in the folder that is
    looked at. FileNotFoundError if there is none.
    """
    places = [place for place in os.get_exec_path() if os.path.isabs(place)]  # noqa: PTH117 - no need for a Path each
    found = shutil.which("git", path=os.pathsep.join(places)) if places else None
    if found is None:
        raise FileNotFoundError("git is not installed here")
    return found


def ask(folder: Path, seconds: float, *command: str, given: bytes = b"") -> GitAnswer:
    """Ask git in a folder. FileNotFoundError: there is no git. subprocess.TimeoutExpired: it was killed at its deadline.
    OSError: it says more than anybody can read.
    """
    assert command[0] in READING, command[0]
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err, tempfile.TemporaryFile() as words:
        words.write(given)
        words.seek(0)
        done = subprocess.run(  # noqa: S603 - a list, never a shell's
            [program(), *_QUIETLY, *command], cwd=folder, env=_env(), stdin=words, stdout=out, stderr=err, check=False,
            timeout=max(seconds, 0.001), start_new_session=True,
        )  # fmt: skip
        if out.seek(0, os.SEEK_END) > OUTPUT_MAX_BYTES:
            raise OSError(f"git lists more than {OUTPUT_MAX_BYTES} bytes")
        out.seek(0)
        err.seek(0)
        said = err.read(4 * SAID_MAX_CHARS).decode(errors="replace").replace("\0", "").strip()
        return GitAnswer(done.returncode, out.read(), said[:SAID_MAX_CHARS])


def _env() -> dict[str, str]:
    """The user's own configuration holds (what is ignored, which folders are safe); no variable leads to another repository."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_") or "CONFIG" in name}
    return {**kept, **_NOTHING_FETCHED, "LC_ALL": "C"}
