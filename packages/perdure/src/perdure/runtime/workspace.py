"""The workspace of an agent: what its folder held at a checkpoint, and whether it still does when the run continues.

A checkpoint notes the git HEAD, its branch and a digest of everything that differs from it, untracked files included, ignored
ones not. If that is another one at resume, the run is parked with the difference: a person restores the folder, or resumes the
run and thereby accepts what is there. Only what nobody of the run itself can have changed is judged: once it acted or had
children after its checkpoint, it is not. Looking changes nothing and runs nothing that the folder names (`worktree`). Callers:
`run.checkpoint` and the driving of runs. Keeps P10, P13 and P15.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from perdure.effects import ledger
from perdure.errors import Damaged, Parked
from perdure.log.change import Stream
from perdure.model.records.runs import WaitKind
from perdure.planes.execution import waits
from perdure.planes.reading.body_reading import doc_of
from perdure.planes.reading.row_reading import stored_fields
from perdure.planes.tables import RUNS
from perdure.runtime.worktree import GIT, UNKNOWN, Unclear, Worktree
from perdure.stores.store import Reads
from perdure.stores.tx import LOG

REASON = "workspace"  # why such a run is parked
LOOK_SECONDS = 30.0
PATHS_KEPT = 200
PATHS_SHOWN = 20
_HINT = (
    "restore the folder and `perdure resume` the run; or `perdure resume` it as it is, which accepts what is there now"
)


class Workspace(msgspec.Struct, frozen=True, omit_defaults=True):
    """The content of a folder. tree: a digest of all that differs from `head`; paths: the first of it, each with a digest of its
    own.

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
        """Its content, on whatever branch."""
        return f"{self.state} {self.head} {self.tree}"

    @property
    def mark(self) -> str:
        """The mark by which two looks are compared: what is committed next would land on another branch."""
        return f"{self.held} {self.branch}" if self.branch else self.held


# -- looking ---------------------------------------------------------------------------------------------------------------


def look(folder: str, seconds: float = LOOK_SECONDS) -> Workspace:
    """The present content of a folder. Never raises: what cannot be seen is said. Blocks, at most so long."""
    place = Path(folder).expanduser().absolute()
    try:
        return _looked(place, time.monotonic() + seconds)
    except Unclear as unclear:
        return Workspace(str(place), unclear.state, why=str(unclear))
    except OSError as error:
        return Workspace(str(place), UNKNOWN, why=str(error))


def _looked(place: Path, deadline: float) -> Workspace:
    tree = Worktree(place, deadline)
    head, branch = tree.head()
    found = {_text(path): tree.digest(path) for path in sorted(tree.changed(head))}
    whole = hashlib.sha256(b"perdure workspace 1\0")
    for path, digest in found.items():
        whole.update(f"{digest} {path}\0".encode())
    kept = {path: digest[:12] for path, digest in list(found.items())[:PATHS_KEPT]}
    digest = whole.hexdigest() if found else ""
    return Workspace(
        str(place), head=head, tree=digest, paths=kept, count=len(found), branch=_text(os.fsencode(branch))
    )


def _text(path: bytes) -> str:
    """A path as it can be kept and shown, whatever its bytes."""
    return path.decode("utf-8", "backslashreplace")


# -- comparing -------------------------------------------------------------------------------------------------------------


class KnownWorkspace(NamedTuple):
    """The store's knowledge of a run's workspace. accepted: the mark that a person resumed it with; acted: it may have changed
    the folder itself since.
    """

    then: Workspace | None
    accepted: str
    acted: bool


def last_known(reads: Reads, stream: Stream) -> KnownWorkspace:
    """The notes of the last checkpoint of a run, and what became of it since."""
    row = reads.row(RUNS, stream)
    if row is None or not row["cuts"]:
        return KnownWorkspace(None, "", acted=False)
    noted = _document(reads, stream, row["cut_seq"]).get("workspace")
    parked = _document(reads, stream, row["outcome_seq"])
    shown = parked if (parked.get("error") or {}).get("code") == REASON else {}
    then = None if noted is None else _workspace(noted, f"run {stream.name}")
    accepted = shown.get("found", "") if then is not None and shown.get("expected") == then.mark else ""
    return KnownWorkspace(then, accepted, acted=_acted(reads, stream, row["cut_seq"]))


def _acted(reads: Reads, stream: Stream, after: int) -> bool:
    children = [each for each in waits.waits(reads, stream, after) if each.kind is WaitKind.CHILD]
    return bool(children or ledger.effects(reads, stream, after=after, limit=1).whole())


def _document(reads: Reads, stream: Stream, seq: int | None) -> dict[str, Any]:
    rows = reads.query(LOG.event_by_seq, stream=stream.id, seq=seq) if seq else []
    where = f"run {stream.name} event {seq}"
    return stored_fields(doc_of(reads, rows[0][9], where), where) if rows else {}


def _workspace(noted: Any, where: str) -> Workspace:
    try:
        return msgspec.convert(noted, Workspace)
    except msgspec.ValidationError as error:
        raise Damaged(f"the stored data is no workspace: {error}", path=where) from None


def check(folder: str, known: KnownWorkspace) -> None:
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
    """The differences, for people."""
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
