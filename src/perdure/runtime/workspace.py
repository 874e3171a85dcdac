"""The workspace of an agent: what its folder held at a checkpoint, and whether it still does when the run goes on (DESIGN §7).

A checkpoint notes the git HEAD, its branch and a digest of everything that differs from it, untracked files included, ignored
ones not. If that is another one at resume, the run is parked with the difference: a person restores the folder, or resumes the
run and thereby accepts what is there. Only what nobody of the run itself can have changed is judged: once it acted or had
children after its checkpoint, it is not. Git is only asked: index, objects and refs stay as they are. Callers: `run.checkpoint`
and the driving of runs. Keeps P13 and P15.
"""

from __future__ import annotations

import hashlib
import os
import stat
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from perdure.effects import ledger
from perdure.errors import Damaged, Parked
from perdure.log.change import Stream
from perdure.model.records.runs import WaitKind
from perdure.planes import waits
from perdure.planes.documents import doc_of
from perdure.planes.stored import stored_fields
from perdure.planes.tables import RUNS
from perdure.stores.store import Reads
from perdure.stores.tx import LOG

REASON = "workspace"  # why such a run is parked
GIT, NO_GIT, NO_FOLDER, NO_REPOSITORY, UNKNOWN = "git", "no git", "no folder", "no repository", "unknown"
LOOK_SECONDS = 30.0
PATHS_KEPT = 200
PATHS_SHOWN = 20
CHUNK_BYTES = 1 << 20
_HINT = (
    "restore the folder and `perdure resume` the run; or `perdure resume` it as it is, which accepts what is there now"
)
_QUIETLY = ("--no-optional-locks", "-c", "core.fsmonitor=false", "-c", "core.untrackedCache=false")
_STATUS = (
    "status",
    "--porcelain=v2",
    "--branch",
    "-z",
    "--untracked-files=all",
    "--no-renames",
    "--ignore-submodules=none",
)
_FIELDS_BEFORE_PATH = {b"1": 8, b"2": 9, b"u": 10, b"?": 1}  # of one line of `git status`
_NOBODY = "(initial)"  # what git calls HEAD before the first commit


class Workspace(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a folder held. tree: a digest of all that differs from `head`; paths: the first of it, each with a digest of its own.

    state: "git", or why there is nothing to compare; `why` says more. branch: "" if it was not noted.
    """

    folder: str
    state: str = GIT
    head: str = ""
    tree: str = ""
    paths: dict[str, str] = {}
    count: int = 0  # of all paths that differ
    why: str = ""
    branch: str = ""

    @property
    def held(self) -> str:
        """What was in it, on whatever branch."""
        return f"{self.state} {self.head} {self.tree}"

    @property
    def mark(self) -> str:
        """What two looks are compared by: what is committed next would land on another branch."""
        return f"{self.held} {self.branch}" if self.branch else self.held


# -- looking ---------------------------------------------------------------------------------------------------------------


class _Unclear(Exception):
    """Why the folder cannot be compared."""

    def __init__(self, state: str, why: str) -> None:
        super().__init__(why)
        self.state = state


def look(folder: str, seconds: float = LOOK_SECONDS) -> Workspace:
    """What a folder holds now. Never raises: what cannot be seen is said. Blocks, at most so long."""
    place = Path(folder).expanduser().absolute()
    try:
        return _looked(place, time.monotonic() + seconds)
    except _Unclear as unclear:
        return Workspace(str(place), unclear.state, why=str(unclear))
    except OSError as error:
        return Workspace(str(place), UNKNOWN, why=str(error))


def _looked(place: Path, deadline: float) -> Workspace:
    if not place.is_dir():
        raise _Unclear(NO_FOLDER, "there is no such folder")
    top = Path(os.fsdecode(_git(place, deadline, "rev-parse", "--show-toplevel").removesuffix(b"\n")))
    head, branch, changed = _status(_git(place, deadline, *_STATUS, "--", "."))
    found = {_text(path): _digest(top / os.fsdecode(path), deadline) for path in sorted(changed)}
    tree = hashlib.sha256(b"perdure workspace 1\0")
    for path, digest in found.items():
        tree.update(f"{digest} {path}\0".encode())
    kept = {path: digest[:12] for path, digest in list(found.items())[:PATHS_KEPT]}
    digest = tree.hexdigest() if found else ""
    return Workspace(str(place), head=head, tree=digest, paths=kept, count=len(found), branch=branch)


def _git(place: Path, deadline: float, *command: str) -> bytes:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_") or "CONFIG" in name}
    try:
        done = subprocess.run(  # noqa: S603 - a list, never a shell's
            ["git", *_QUIETLY, *command], cwd=place, env=kept | {"LC_ALL": "C"}, capture_output=True, check=False,  # noqa: S607
            stdin=subprocess.DEVNULL, timeout=max(deadline - time.monotonic(), 0.001), start_new_session=True,
        )  # fmt: skip
    except FileNotFoundError:
        raise _Unclear(NO_GIT, "git is not installed here") from None
    except subprocess.TimeoutExpired:
        raise _Unclear(UNKNOWN, "git did not answer in time") from None
    said = done.stderr.decode(errors="replace").replace("\0", "").strip()[:500]
    if done.returncode == 0:
        return done.stdout
    raise _Unclear(NO_REPOSITORY if "not a git repository" in said else UNKNOWN, said)


def _status(said: bytes) -> tuple[str, str, set[bytes]]:
    """HEAD, its branch, and the paths that differ from it, of what `git status` said."""
    head, branch, changed = "", "", set()
    lines = iter(said.split(b"\0"))
    for line in lines:
        kind, _, rest = line.partition(b" ")
        if kind == b"#" and rest.startswith(b"branch.oid "):
            head = rest.removeprefix(b"branch.oid ").decode()
        elif kind == b"#" and rest.startswith(b"branch.head "):
            branch = _text(rest.removeprefix(b"branch.head "))
        elif kind in _FIELDS_BEFORE_PATH:
            changed.add(line.split(b" ", _FIELDS_BEFORE_PATH[kind])[-1])
            if kind == b"2":
                next(lines)
    return "" if head == _NOBODY else head, branch, changed


def _digest(path: Path, deadline: float) -> str:
    """What stands at a path, whatever it is. A repository inside is looked at like this one."""
    if time.monotonic() > deadline:
        raise _Unclear(UNKNOWN, "there is too much to look at in the time")
    try:
        found = path.lstat()
        if stat.S_ISDIR(found.st_mode):
            return hashlib.sha256(look(str(path), deadline - time.monotonic()).held.encode()).hexdigest()
        return _hashed(path, found.st_mode, deadline).hexdigest()
    except FileNotFoundError:
        return "gone"
    except PermissionError:
        return "unreadable"


def _hashed(path: Path, mode: int, deadline: float) -> Any:
    digest = hashlib.sha256(f"{stat.S_IFMT(mode)} {bool(mode & stat.S_IXUSR)} ".encode())
    if stat.S_ISLNK(mode):
        digest.update(os.fsencode(path.readlink()))
    elif stat.S_ISREG(mode):
        with path.open("rb") as file:
            while data := file.read(CHUNK_BYTES):
                digest.update(data)
                if time.monotonic() > deadline:
                    raise _Unclear(UNKNOWN, "there is too much to look at in the time")
    return digest


def _text(path: bytes) -> str:
    """A path as it can be kept and shown, whatever its bytes."""
    return path.decode("utf-8", "backslashreplace")


# -- comparing -------------------------------------------------------------------------------------------------------------


class Known(NamedTuple):
    """What the store knows of a run's workspace. accepted: the mark that a person resumed it with; acted: it may have changed
    the folder itself since.
    """

    then: Workspace | None
    accepted: str
    acted: bool


def last_known(reads: Reads, stream: Stream) -> Known:
    """What the last checkpoint of a run noted, and what became of it since."""
    row = reads.row(RUNS, stream)
    if row is None or not row["cuts"]:
        return Known(None, "", acted=False)
    noted = _document(reads, stream, row["cut_seq"]).get("workspace")
    parked = _document(reads, stream, row["outcome_seq"])
    shown = parked if (parked.get("error") or {}).get("code") == REASON else {}
    then = None if noted is None else _workspace(noted, f"run {stream.name}")
    accepted = shown.get("found", "") if then is not None and shown.get("expected") == then.mark else ""
    return Known(then, accepted, acted=_acted(reads, stream, row["cut_seq"]))


def _acted(reads: Reads, stream: Stream, after: int) -> bool:
    children = [each for each in waits.waits(reads, stream, after) if each.kind is WaitKind.CHILD]
    return bool(children or ledger.effects(reads, stream, after=after, limit=1))


def _document(reads: Reads, stream: Stream, seq: int | None) -> dict[str, Any]:
    rows = reads.query(LOG.event_by_seq, stream=stream.id, seq=seq) if seq else []
    where = f"run {stream.name} event {seq}"
    return stored_fields(doc_of(reads, rows[0][9], where), where) if rows else {}


def _workspace(noted: Any, where: str) -> Workspace:
    try:
        return msgspec.convert(noted, Workspace)
    except msgspec.ValidationError as error:
        raise Damaged(f"what is stored is no workspace: {error}", path=where) from None


def check(folder: str, known: Known) -> None:
    """Parked, with the difference, if the folder is not as the last checkpoint left it and nobody has accepted that."""
    then = known.then
    if then is None or then.state != GIT or known.acted:
        return
    now = look(folder)
    if not then.branch:  # noted by an earlier version
        now = msgspec.structs.replace(now, branch="")
    if now.mark not in (then.mark, known.accepted):
        raise Parked(
            f"the workspace {now.folder} is not as the last checkpoint left it: {'; '.join(differences(then, now))}",
            path="workspace", hint=_HINT, reason=REASON, expected=then.mark, found=now.mark,
        )  # fmt: skip


def differences(then: Workspace, now: Workspace) -> Iterator[str]:
    """What is different, for people."""
    if now.state != GIT:
        yield f"{now.state} ({now.why})"
        return
    if then.head != now.head:
        yield f"HEAD was {then.head[:12] or 'nothing'} and is {now.head[:12] or 'nothing'}"
    if then.branch != now.branch:
        yield f"the branch was {then.branch} and is {now.branch}"
    changed = [path for path in now.paths if then.paths.get(path) != now.paths[path]]
    changed += [f"{path} (as in HEAD now)" for path in then.paths if path not in now.paths]
    if changed:
        yield f"changed: {', '.join(changed[:PATHS_SHOWN])}"
    if len(changed) > PATHS_SHOWN or max(then.count, now.count) > PATHS_KEPT:
        yield "and more"
