"""Power loss on a real filesystem: an ext4 image that is shut down, unflushed, while it is written to (P1).

Which acknowledgements can be believed. The loss (EXT4_IOC_SHUTDOWN, NOLOGFLUSH) sets a flag that every call checks
on entry, then aborts the journal; the flag is never cleared before the next mount. A sync that entered before the
flag and asks for its transaction after the abort finds it neither running nor committing, takes it for committed
and returns 0: a lie of this rig, which a machine without power could not tell. Only a sync that makes the file
longer needs a transaction; one that overwrites blocks is on the disk or fails. So an acknowledgement counts if

- AT_REST: the program stood still (all its threads were stopped) when the power went. No sync was under way, so each
  that returned 0 did so before: every acknowledgement counts, and nothing is forgiven;
- UNDER_WAY: the flag was not yet set after the write had returned. The program reads a file of the disk (which
  syncs nothing) before it says a word: if that works, the whole sync went by before the loss. What is not counted
  is at most one write of each writer, since whatever begins later fails.

`bare` shows that the rig keeps to this without us: its uncounted acknowledgements are lost now and then, the counted
never. Not shown: the loss of what a device has taken but not flushed; the image takes everything at once.
"""

from __future__ import annotations

import enum
import errno
import logging
import os
import random
import signal
from collections import Counter
from pathlib import Path

import pytest

from faults.writer import ROUNDS, SEED, writing
from forked import Program
from perdure.errors import Error
from perdure_testing import disk as disks
from perdure_testing.faults import strike_after
from stores.verbs import everything

log = logging.getLogger(__name__)


class Moment(enum.StrEnum):
    """What the program is doing when the power goes."""

    AT_REST = "at rest"
    UNDER_WAY = "under way"


class Disk(disks.Disk):
    """One with a store, and a file that tells whether the power is gone."""

    def __init__(self, folder: Path, kind: str = "sqlite") -> None:
        super().__init__(folder)
        self.witness = self.place / "witness"
        self.url = f"{kind}:///{self.place}/agent.db"
        with self.mounted():
            self.witness.write_text("here")


@pytest.fixture(params=["sqlite", "files"])
def disk(request, tmp_path) -> Disk:
    if os.geteuid():
        pytest.skip("only root can mount a filesystem to lose: power loss is not tested")
    try:
        disk = Disk(tmp_path, request.param)
        with disk.mounted():
            disk.lose_power()
    except OSError as error:
        pytest.skip(f"no filesystem can be lost here, so power loss is not tested: {error}")
    return disk


def said(disk: Disk, acks: int, moment: Moment, *program: str) -> list[str]:
    """All that a program said before the power went and until it found out, which must be its end."""

    def strike(running: Program) -> None:
        if moment is Moment.AT_REST:
            running.send_signal(signal.SIGSTOP)
            assert running.wait_stopped()  # returns when the last of its threads has left the kernel
        disk.lose_power()
        running.send_signal(signal.SIGCONT)

    with disk.mounted():
        lines, status = strike_after(writing(*program, PERDURE_WITNESS=str(disk.witness)), acks, strike)
    assert status == 1
    assert len(lines) >= acks
    return lines


def counted(lines: list[str], moment: Moment) -> set[str]:
    """The acknowledgements that can be believed: see above."""
    unsure = [line for line in lines if line.endswith("?")]
    assert max(Counter(line.rpartition(".")[0] for line in unsure).values(), default=0) <= 1
    return {line.rstrip("?") for line in lines if moment is Moment.AT_REST or line not in unsure}


@pytest.mark.parametrize("moment", Moment)
@pytest.mark.parametrize("acks", [1, 40, 300])
def test_what_was_acknowledged_survives_a_power_loss(disk, acks, moment):
    acked = counted(said(disk, acks, moment, disk.url, "one", "1000000"), moment)
    with disk.mounted():
        stored = everything(disk.url)
    assert acked <= set(stored)
    assert set(stored.values()) == {1}


@pytest.mark.parametrize("moment", Moment)
def test_power_losses_among_200_writers(disk, moment):
    """Again and again on the same store: each start recovers what the loss before it left."""
    rng = random.Random(SEED)
    acked: set[str] = set()
    for round_number in range(ROUNDS):
        lines = said(disk, rng.randint(1, 400), moment, disk.url, "crowd", f"{round_number}/")
        acked |= counted(lines, moment)
    with disk.mounted():
        stored = everything(disk.url)
    lost = acked - set(stored)
    log.info("%s: %d losses, %d acknowledged, %d stored, %d lost", moment, ROUNDS, len(acked), len(stored), len(lost))
    assert not lost
    assert set(stored.values()) == {1}


@pytest.mark.parametrize("moment", Moment)
@pytest.mark.parametrize(
    ("disk", "what"), [("sqlite", "normal"), ("sqlite", "loose"), ("files", "dull")], indirect=["disk"]
)
def test_control_without_syncs_acknowledged_writes_are_lost(disk, what, moment):
    acked = counted(said(disk, 40, moment, disk.url, what, "1000000"), moment)
    with disk.mounted():
        try:
            stored = set(everything(disk.url))
        except Error:
            stored = set()  # the whole database is gone
    assert acked - stored


# -- the rig itself -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("disk", ["sqlite"], indirect=True)
@pytest.mark.parametrize("moment", Moment)
def test_a_bare_sync_that_counts_is_never_lost(disk, moment):
    file = disk.place / "bare"
    uncounted = 0
    for _ in range(ROUNDS):
        lines = said(disk, 20, moment, str(file), "bare", "1000000")
        with disk.mounted():
            stored = set(file.read_bytes().replace(b"\0", b" ").decode().split())
            file.unlink()
        assert counted(lines, moment) <= stored
        uncounted += len({line.rstrip("?") for line in lines} - stored)
    log.info("%s: %d losses, %d syncs lost that returned 0 but do not count", moment, ROUNDS, uncounted)


@pytest.mark.parametrize("disk", ["sqlite"], indirect=True)
def test_the_witness_knows_of_the_loss(disk):
    with disk.mounted(), disk.witness.open("rb", buffering=0) as witness:
        assert os.pread(witness.fileno(), 1, 0) == b"h"
        disk.lose_power()
        with pytest.raises(OSError, match=os.strerror(errno.EIO)):
            os.pread(witness.fileno(), 1, 0)


@pytest.mark.parametrize("disk", ["sqlite"], indirect=True)
def test_only_a_mounted_disk_can_be_lost(disk):
    with pytest.raises(RuntimeError, match="is not mounted"):
        disk.lose_power()
