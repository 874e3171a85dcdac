"""Git, asked by one module. Most of it asks about a repository that may be hostile: an unpacked archive brings its `.git/config`.

Git runs what a repository configures: filters when it compares or writes out files, hooks, monitors of the file system, programs
that fetch what a partial clone left out. So `ask` takes only plumbing that reads the index, the refs and the objects and applies
no filter; nothing is fetched; and files are compared by who asks (`runtime.worktree`), never by git. Repositories inside a
repository are not entered. `work` is for the user's own repository, whose configuration, filters, hooks and signing are run.

Both find git by an absolute entry of PATH, in that very repository whatever variables say, without a terminal, a pager or an
editor, in a group of its own that is killed at its deadline, with bounded output. Callers: `runtime.worktree`, `boot.checking`,
`stores.files.other_side`; `effects.ready.git`, the recovery benchmark. Keeps P10 and P15.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from perdure.model import programs

OUTPUT_MAX_BYTES = 512 * 1024**2
COMPLAINT_MAX_CHARS = 500
READING = frozenset({"cat-file", "config", "diff-index", "ls-files", "ls-tree", "rev-parse", "symbolic-ref"})
_QUIETLY = (
    "--no-optional-locks", "--no-pager", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null",
    "-c", "core.untrackedCache=false", "-c", "core.alternateRefsCommand=", "-c", "safe.bareRepository=explicit",
)  # fmt: skip
_NOTHING_FETCHED = {"GIT_NO_LAZY_FETCH": "1", "GIT_ALLOW_PROTOCOL": "", "GIT_NO_REPLACE_OBJECTS": "1", "LC_ALL": "C"}
_UNATTENDED = {
    "GIT_TERMINAL_PROMPT": "0", "SSH_ASKPASS_REQUIRE": "never", "GIT_EDITOR": ":", "GIT_SEQUENCE_EDITOR": ":",
    "GIT_MERGE_AUTOEDIT": "no", "GIT_PAGER": "cat", "GIT_OPTIONAL_LOCKS": "0",
}  # fmt: skip
_ELSEWHERE = frozenset({  # they lead to another repository, or to other objects
    "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_COMMON_DIR", "GIT_DIR", "GIT_GRAFT_FILE", "GIT_IMPLICIT_WORK_TREE",
    "GIT_INDEX_FILE", "GIT_NAMESPACE", "GIT_OBJECT_DIRECTORY", "GIT_PREFIX", "GIT_REPLACE_REF_BASE", "GIT_SHALLOW_FILE",
    "GIT_WORK_TREE",
})  # fmt: skip


class GitAnswer(NamedTuple):
    """The answer of git. status: its exit code; complaint: what it wrote to standard error."""

    status: int
    out: bytes
    complaint: str


def ask(folder: Path, seconds: float, *command: str, stdin: bytes = b"") -> GitAnswer:
    """Ask git in a folder. FileNotFoundError: there is no git. TimeoutError: it was killed at its deadline.
    OSError: it says more than anybody can read.
    """
    assert command[0] in READING, command[0]
    # The user's own configuration holds: what is ignored, which folders are safe.
    own = {name: value for name, value in _environment().items() if not name.startswith("GIT_") or "CONFIG" in name}
    end = programs.run(
        ["git", *_QUIETLY, *command], cwd=str(folder), env={**own, **_UNATTENDED, **_NOTHING_FETCHED},
        seconds=max(seconds, 0.001), stdin=stdin, most_bytes=OUTPUT_MAX_BYTES, grace_seconds=0,
    )  # fmt: skip
    if end.too_much:
        raise OSError(f"git lists more than {OUTPUT_MAX_BYTES} bytes")
    if end.timed_out:
        raise TimeoutError("git did not answer in time")
    complaint = bytes(end.err)[: 4 * COMPLAINT_MAX_CHARS].decode(errors="replace").replace("\0", "").strip()
    return GitAnswer(end.status, bytes(end.out), complaint[:COMPLAINT_MAX_CHARS])


def work(
    folder: Path, seconds: float, *command: str, stdin: bytes = b"", most_bytes: int | None = None,
    env: Mapping[str, str] | None = None,
) -> programs.ProgramEnd:  # fmt: skip
    """Run git in the user's own repository, never in one around it, with all that its configuration names. OSError: there is no
    git. env: added to the environment. most_bytes: as of `programs.run`.
    """
    here = {
        **_environment(),
        **_UNATTENDED,
        "GIT_LITERAL_PATHSPECS": "1",
        "GIT_CEILING_DIRECTORIES": str(folder.parent),
    }
    return programs.run(
        ["git", *command], cwd=str(folder), env={**here, **(env or {})}, seconds=seconds, stdin=stdin,
        most_bytes=most_bytes,
    )  # fmt: skip


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in _ELSEWHERE}
