"""Changes between two lives: of the program, of the workspace, or of a note by somebody else.

A life that says that something is wrong has done right: people put it back as it was and say so (`mended`), and it has to come
to its end from there. One that continues must come to the right end.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from pathlib import Path

from perdure_evaluate.recovery import program_edits
from perdure_evaluate.recovery.faults.fault import Control, RecoveryFault
from perdure_evaluate.recovery.interface import Remembering, Subject
from perdure_evaluate.recovery.lives import Life
from perdure_evaluate.recovery.oracle import foretell, operations_of, points_of
from perdure_evaluate.recovery.outside import WORK_TREE, git, needed
from perdure_evaluate.recovery.story import Story
from perdure_evaluate.recovery.tasks import RecoveryTask

SAMPLE = 240  # schedules of a long task
AMENDED = {"goal": "another", "limit": 7}
SEPARATOR = "~"
TOUCHED = {  # targets of a change: a step that is renamed or taken out must leave the end of the task as it is
    "renamed": ("step", "act"),
    "inserted": ("step", "act", "note"),
    "removed": ("note",),
}
STILL = ("before", "worked", "recorded")  # no effect is under way there


# -- the program -------------------------------------------------------------------------------------------------


def _reprogrammed(story: Story, schedule: str) -> None:
    """Killed at a boundary, and continued by a changed program; the old one is put back if that is refused."""
    at, _, edit = schedule.rpartition(SEPARATOR)
    if story.strike(at).end != "done":
        story.go_on(edit=edit)


def _edits(task: RecoveryTask, seed: int) -> list[str]:
    """At every boundary one change of each kind, of an operation that was reached by then."""
    rng = random.Random(f"{seed}/{task.name}/program")
    edits = [
        f"{at}{SEPARATOR}{kind}.{rng.choice(names)}"
        for at, reached in _reached(task, seed)
        for kind in program_edits.KINDS
        if (names := [name for name, verb in reached.items() if verb in TOUCHED[kind]])
    ]
    return rng.sample(edits, SAMPLE) if task.long and len(edits) > SAMPLE else edits


def _reached(task: RecoveryTask, seed: int) -> Iterator[tuple[str, dict[str, str]]]:
    """Every boundary but the last, with the operations that were begun before it; a note only if it was kept."""
    verbs = operations_of(task.name, seed)
    names = list(verbs)
    for at in points_of(task.name, seed)[:-1]:
        name, _, phase = at.rpartition(":")
        upto = names.index(name) + (phase == "recorded" or verbs[name] != "note")
        yield at, {operation: verbs[operation] for operation in names[:upto]}


def _is_short(_: type[Subject], task: RecoveryTask) -> str:
    return "" if task.by_default else "too long"


PROGRAM = RecoveryFault(
    "program", "the program was changed between crash and resume", _edits, _reprogrammed,
    Control("control-unnamed", "relay-5", ("wrong", "acknowledged_lost")), unfit=_is_short,
)  # fmt: skip


# -- the workspace -----------------------------------------------------------------------------------------------


class Tree:
    """The work tree of a story: changed by somebody, and put back."""

    def __init__(self, story: Story) -> None:
        self.place = story.top / "outside" / WORK_TREE
        self._copy = story.top / "as-it-was"
        self._known = {name for life in story.lives for name in self._done_in(life)}

    @staticmethod
    def _done_in(life: Life) -> set[str]:
        return {ack.name for ack in life.acks if ack.verb == "act"}

    def keep(self) -> None:
        """Remember how it is."""
        shutil.copytree(self.place, self._copy)

    def put_back(self, life: Life) -> None:
        """As it was, unless the life had done something in it before it said so."""
        if self._done_in(life) <= self._known:
            shutil.rmtree(self.place)
            shutil.copytree(self._copy, self.place)

    def edited(self) -> None:
        """Somebody writes into the file that was written last."""
        for file in sorted(self._files(), key=lambda file: file.stat().st_mtime_ns)[-1:]:
            file.write_text(file.read_text() + "MINE = True\n")

    def committed(self) -> None:
        """Somebody commits something else on top."""
        (self.place / "notes.txt").write_text("mine\n")
        git(self.place, "add", "notes.txt")
        git(self.place, "commit", "-q", "-m", "somebody/else")

    def dropped(self) -> None:
        """Somebody takes out the last commit, and all that was not committed."""
        if git(self.place, "log", "-2", "--format=%H", ok=(0, 128)).count("\n") > 1:
            git(self.place, "reset", "-q", "--hard", "HEAD~1")
        git(self.place, "clean", "-q", "-f", "-d")

    def _files(self) -> Iterator[Path]:
        return (file for file in self.place.iterdir() if file.is_file())


def _disturbed(story: Story, schedule: str) -> None:
    """Killed at a boundary; somebody changes the work tree; it is continued. The tree is put back if that is refused."""
    at, _, what = schedule.rpartition(SEPARATOR)
    if story.strike(at).end == "done":
        return
    tree = Tree(story)
    tree.keep()
    {"edited": tree.edited, "committed": tree.committed, "dropped": tree.dropped}[what]()
    story.go_on(tree.put_back)


def _disturbances(task: RecoveryTask, seed: int) -> list[str]:
    """Between the first write and the push, where no effect is under way: it might have changed the work tree itself."""
    points = points_of(task.name, seed)
    writes = [name for name, effect in foretell(task, seed).effects.items() if effect.kind == "write"]
    if not writes:
        return []
    first, last = points.index(f"{writes[0]}:recorded"), points.index("push:before")
    still = [at for at in points[first : last + 1] if at.rpartition(":")[2] in STILL]
    return [f"{at}{SEPARATOR}{what}" for at in still for what in ("edited", "committed", "dropped")]


WORKSPACE = RecoveryFault(
    name="workspace", about="somebody changed the work tree between crash and resume", schedules=_disturbances, tell=_disturbed,
    control=Control("control-unwatched", "coding", ("wrong", "lost")), missing=needed,
    unfit=lambda _subject, task: "" if task.git else "it has no workspace",
)  # fmt: skip


# -- what was written down ---------------------------------------------------------------------------------------


def _overtaken(story: Story, schedule: str) -> None:
    """Stopped or killed at a boundary; somebody else changes a note; then it continues."""
    at, _, how = schedule.rpartition(SEPARATOR)
    child = story.stop(at) if how == "stop" else None
    if child is not None or story.strike(at).end == "killed":
        story.amend("plan", AMENDED)
    if child is not None:
        story.add(child.wake())


def _before_it_is_read(task: RecoveryTask, seed: int) -> list[str]:
    """From where the note stands until it is read."""
    points = points_of(task.name, seed)
    if _can_be_amended(Remembering, task):
        return []
    between = points[points.index("plan:recorded") : points.index("plan-read:before") + 1]
    return [f"{at}{SEPARATOR}{how}" for at in between for how in ("stop", "kill")]


def _can_be_amended(subject: type[Subject], task: RecoveryTask) -> str:
    if subject.amend is Subject.amend:
        return "nobody else can change its notes"
    return "" if "plan-read" in operations_of(task.name, 0) else "it reads no note"


STALE = RecoveryFault(
    "stale", "somebody else changes a note while its reader is stopped or dead", _before_it_is_read, _overtaken,
    Control("control-cached", "handover", ("stale",)), unfit=_can_be_amended,
)  # fmt: skip
