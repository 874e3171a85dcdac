"""A full disk: the subject's folder is a small file system of its own; later there is room again. Only where root may mount one.

A schedule `q%` leaves that share of what an undisturbed story uses. The mounts are the host's own: they go when it ends.
"""

from __future__ import annotations

import os
import random
import sys
import tempfile
from functools import cache
from pathlib import Path

from perdure.model import programs
from perdure_evaluate.recovery.faults.fault import Control, RecoveryFault
from perdure_evaluate.recovery.interface import Subject
from perdure_evaluate.recovery.story import LIVES_MAX, Story
from perdure_evaluate.recovery.tasks import RecoveryTask
from perdure_testing.disk import own_mounts, run

PAGE = 4096
ROOM_BYTES = 64 * 2**20
PROBE_SECONDS = 120.0


@cache
def missing() -> str:
    """Why no file system can be mounted here; nothing, if it can. Tried in a process of its own."""
    if not sys.platform.startswith("linux") or os.geteuid() != 0:
        return "only root can mount a small file system"
    tried = programs.run([sys.executable, "-m", __name__], env=os.environ, seconds=PROBE_SECONDS)
    return "" if tried.exit == 0 else "no file system can be mounted here"


def _mounted(story: Story) -> Path:
    """Put the subject on a file system of its own; returns the file that takes its room."""
    own_mounts()
    place = story.folder.parent
    run("mount", "-t", "tmpfs", "-o", f"size={ROOM_BYTES}", "none", str(place))
    story.make_folder()
    return place / "ballast"


def _usage(story: Story) -> int:
    """How many bytes an undisturbed story uses; found out once for a subject and a task."""
    mark = ("usage", story.case.subject, story.case.task)
    if mark not in story.ground.resources:
        other = Story(story.ground, story.case)
        place = _mounted(other).parent
        try:
            most = 0
            for _ in range(LIVES_MAX):
                life = other.live()
                most = max(most, used(place))
                if life.end != "waiting":
                    break
            story.ground.resources[mark] = most
        finally:
            run("umount", "-l", str(place))
            other.clear()
    return story.ground.resources[mark]


def fill(ballast: Path, room: int) -> None:
    """Take all the room of a file system but so much."""
    free = os.statvfs(ballast.parent)
    with ballast.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, max(free.f_bavail * free.f_frsize - room, PAGE))


def used(place: Path) -> int:
    """How many bytes of a file system are taken."""
    stat = os.statvfs(place)
    return (stat.f_blocks - stat.f_bfree) * stat.f_frsize


def _filled(story: Story, schedule: str) -> None:
    """Let it run into the end of the disk, twice, and then give it room."""
    room = _usage(story) * int(schedule.rstrip("%")) // 100 // PAGE * PAGE
    story.note = f"{room} bytes of room"
    ballast = _mounted(story)
    place = ballast.parent
    try:
        fill(ballast, room)
        live_twice(story)
        ballast.unlink()
        story.finish()
    finally:
        run("umount", "-l", str(place))


def live_twice(story: Story) -> None:
    """Two lives on a full disk, unless the first comes to its end."""
    for _ in range(2):
        life = story.live()
        if life.end == "done":
            break
        if life.end == "failed":
            life.at = "disk full"


def shares(task: RecoveryTask, seed: int) -> list[str]:
    """Shares of the room that is used, in an order of the seed."""
    rng = random.Random(f"{seed}/{task.name}/full")
    return [f"{share}%" for share in rng.sample(range(5, 100, 5), 19)]


def _unfit(subject: type[Subject], task: RecoveryTask) -> str:
    return "its disk is a server's: server-full" if subject.needs else "" if task.by_default else "too long"


FULL = RecoveryFault(
    name="full", about="the disk is full; later there is room again", schedules=shares, tell=_filled,
    control=Control("control-in-place", "relay-500", ("acknowledged_lost",)), missing=missing, unfit=_unfit,
)  # fmt: skip

if __name__ == "__main__":
    own_mounts()
    with tempfile.TemporaryDirectory() as _place:
        run("mount", "-t", "tmpfs", "none", _place)
        run("umount", _place)
