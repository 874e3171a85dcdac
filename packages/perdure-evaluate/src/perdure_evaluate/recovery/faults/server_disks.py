"""The disk of a database: it loses power, or it is full. Both are real here: the server lies on a small file system of its own.

`server-power`: an ext4 in a file is shut down with nothing flushed when the life was killed; the server is killed, the file
system is mounted again, and both recover. `server-full`: as `full`, for the server. Only where root may mount. The mounts are the
host's own, and so are the servers: one for each of the two.
"""

from __future__ import annotations

import os
import sys
import tempfile
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import NamedTuple

from perdure.model import programs
from perdure_evaluate.recovery import SCRATCH
from perdure_evaluate.recovery.faults import disk, servers
from perdure_evaluate.recovery.faults.fault import Control, RecoveryFault
from perdure_evaluate.recovery.faults.strikes import one_by_one
from perdure_evaluate.recovery.story import LIVES_MAX, Story
from perdure_testing.disk import Disk, own_mounts, run
from perdure_testing.postgres import PostgresServer
from perdure_testing.scratch import scratch

DISK_BYTES = 512 * 2**20
# Data that a commit does not sync is not synced soon after it by chance; and a log that takes no more room than it needs.
SETTINGS = {"wal_writer_delay": "10s", "min_wal_size": "32MB", "max_wal_size": "64MB"}


class Placed(NamedTuple):
    """A server, and what it lies on."""

    server: PostgresServer
    place: Path
    disk: Disk | None = None


def _placed(story: Story, name: str) -> Placed:
    """This host's server on such a disk, made when it is first needed. The subject is told of it."""
    resources = story.ground.resources
    if name not in resources:
        own_mounts()
        resources[name] = _started(story.ground.closing, lossy=name == POWER.name)
    servers.tell_of(story, resources[name].server.url())
    return resources[name]


def _started(closing: ExitStack, *, lossy: bool) -> Placed:
    folder = closing.enter_context(scratch(SCRATCH))
    folder.chmod(0o755)  # the server is nobody's
    lost = Disk(folder, DISK_BYTES) if lossy else None
    place = lost.place if lost else folder / "disk"  # below: the folder shows its lock
    if lost:
        lost.mount()
    else:
        place.mkdir()
        run("mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES},mode=755", "none", str(place))
    closing.callback(run, "umount", "-l", str(place))
    server = closing.enter_context(PostgresServer.start(place, bin_dir=servers.programs(), settings=SETTINGS))
    if place not in server.data.parents:
        raise OSError(f"the server's files are not on {place}")
    return Placed(server, place, lost)


# -- power loss ------------------------------------------------------------------------------------------------------


@cache
def _missing() -> str:
    """Why no file system can be lost here, or no server be started on one. Tried in a process of its own."""
    if why := servers.missing() or disk.missing():
        return why
    tried = programs.run([sys.executable, "-m", __name__], env=os.environ, seconds=disk.PROBE_SECONDS)
    return "" if tried.exit == 0 else "no ext4 file system can be made, mounted and shut down here"


def _lost(story: Story, at: str) -> None:
    """Nothing of the life is under way when the power goes: whatever it was told before counts."""
    placed = _placed(story, POWER.name)
    assert placed.disk is not None
    story.strike(at)
    placed.disk.lose_power()
    placed.server.kill()
    placed.disk.unmount()
    placed.disk.mount()
    placed.server.restart()


POWER = RecoveryFault(
    name="server-power",
    about="the machine of the database loses its power: what was not synced is gone",
    schedules=one_by_one,
    tell=_lost,
    control=Control("control-unflushed", "support", ("acknowledged_lost",)),
    missing=_missing,
    unfit=servers.unfit,
)


# -- no room ---------------------------------------------------------------------------------------------------------


def _filled(story: Story, schedule: str) -> None:
    """Let the server run into the end of its disk for two lives, then give it room; if it gave up, it is started again."""
    placed = _placed(story, FULL.name)
    room = _usage(story, placed) * int(schedule.rstrip("%")) // 100
    story.note = f"{room} bytes of room"
    ballast = placed.place / "ballast"
    try:
        disk.fill(ballast, room)
        disk.live_twice(story)
    finally:
        ballast.unlink(missing_ok=True)
        _revive(placed.server)


def _usage(story: Story, placed: Placed) -> int:
    """How many bytes an undisturbed story takes on the server, when others were there before it; found out once."""
    mark = ("server usage", story.case.subject, story.case.task)
    if mark not in story.ground.resources:
        for _ in range(2):
            before = disk.used(placed.place)
            other = Story(story.ground, story.case)
            servers.tell_of(other, placed.server.url())
            for _ in range(LIVES_MAX):
                if other.live().end != "waiting":
                    break
            other.clear()
            story.ground.resources[mark] = max(disk.used(placed.place) - before, disk.PAGE)
    return story.ground.resources[mark]


def _revive(server: PostgresServer) -> None:
    import psycopg  # noqa: PLC0415 - not needed by who only looks what there is

    try:
        psycopg.connect(server.url(), connect_timeout=5).close()
    except psycopg.OperationalError:
        server.restart()


FULL = RecoveryFault(
    name="server-full", about="the disk of the database is full; later there is room again", schedules=disk.shares, tell=_filled,
    control=Control("control-deaf", "relay-500", ("acknowledged_lost",)),
    missing=lambda: servers.missing() or disk.missing(), unfit=servers.unfit,
)  # fmt: skip


if __name__ == "__main__":
    own_mounts()
    with tempfile.TemporaryDirectory() as _folder:
        _disk = Disk(Path(_folder))
        with _disk.mounted():
            _disk.lose_power()
