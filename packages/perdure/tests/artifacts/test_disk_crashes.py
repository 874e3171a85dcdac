"""Blobs on disk: what survives a crash, and what happens when several act at once (P1)."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import forked
from artifacts.disk_places import ADDRESS, SRC, path_of
from artifacts.place_contract import TEXT
from perdure.artifacts.disk import POINTS, DiskPlace
from perdure.errors import Damaged, TimedOut, Unavailable
from perdure.model import crash_points
from perdure.model.instants import system_clock


@pytest.fixture
def place(tmp_path: Path) -> DiskPlace:
    return DiskPlace(tmp_path / "new" / "blobs")


# Order of syncs: P1 ---------------------------------------------------------------------------------------


class Recorder:
    """Logs what reaches the disk, by name: ("sync" | "rename" | "mkdir", path below the root)."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
        self.root = root
        self.log: list[tuple[str, str]] = []
        fsync, rename, mkdir = os.fsync, os.rename, os.mkdir

        def logged_fsync(fd: int) -> None:
            fsync(fd)
            self.note("sync", Path(f"/proc/self/fd/{fd}").readlink())

        def logged_rename(src: str, dst: str, *, src_dir_fd: int, dst_dir_fd: int) -> None:
            rename(src, dst, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)
            self.note("rename", Path(f"/proc/self/fd/{dst_dir_fd}").readlink() / dst)

        def logged_mkdir(path: str | Path, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
            mkdir(path, mode, dir_fd=dir_fd)
            parent = Path() if dir_fd is None else Path(f"/proc/self/fd/{dir_fd}").readlink()
            self.note("mkdir", parent / path)

        monkeypatch.setattr(os, "fsync", logged_fsync)
        monkeypatch.setattr(os, "rename", logged_rename)
        monkeypatch.setattr(os, "mkdir", logged_mkdir)

    def note(self, what: str, path: Path) -> None:
        name = os.path.relpath(path, self.root)
        self.log.append((what, "TMP" if "/tmp-" in name else name))


def missing_syncs(log: list[tuple[str, str]]) -> list[str]:
    """What a power cut right after this log could lose: the rule of the module, checked from outside."""
    renames = [name for what, name in log if what == "rename"]
    lost = [] if log.index(("sync", "TMP")) < log.index(("rename", renames[0])) else ["content"]
    for what, name in log:
        parent = os.path.dirname(name) or "."  # noqa: PTH120
        if what != "sync" and ("sync", parent) not in log[log.index((what, name)) :]:
            lost.append(name)
    return lost


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch, place: DiskPlace) -> Recorder:
    if sys.platform != "linux":
        pytest.skip("descriptors are named through /proc")
    place.root.parent.mkdir()
    return Recorder(monkeypatch, place.root.parent)


FAN_OUT = f"blobs/t1/{ADDRESS[:2]}"


def test_everything_is_synced_before_put_returns(place: DiskPlace, recorder: Recorder) -> None:
    place.put("t1", [TEXT])
    assert recorder.log == [
        ("mkdir", "blobs"),
        ("sync", "."),
        ("mkdir", "blobs/t1"),
        ("sync", "blobs"),
        ("sync", "TMP"),
        ("mkdir", FAN_OUT),
        ("sync", "blobs/t1"),
        ("rename", f"{FAN_OUT}/{ADDRESS}"),
        ("sync", FAN_OUT),
    ]
    assert missing_syncs(recorder.log) == []


@pytest.mark.parametrize(("forgotten", "lost"), [("TMP", "content"), (FAN_OUT, ADDRESS), ("blobs/t1", FAN_OUT)])
def test_a_forgotten_sync_is_noticed(place: DiskPlace, recorder: Recorder, forgotten: str, lost: str) -> None:
    """Control for the test above: each sync is left out in turn."""
    place.put("t1", [TEXT])
    log = [entry for entry in recorder.log if entry != ("sync", forgotten)]
    if forgotten == "TMP":
        log.append(("sync", "TMP"))  # too late
    assert lost in missing_syncs(log)[0]


def test_a_put_of_what_is_there_syncs_for_those_who_died(place: DiskPlace, recorder: Recorder) -> None:
    """Another process made everything and may have died before its syncs: a fresh one trusts none of it."""
    place.put("t1", [TEXT])
    recorder.log.clear()
    DiskPlace(place.root).put("t1", [TEXT])
    synced = {name for what, name in recorder.log if what == "sync"}
    assert synced == {"TMP", ".", "blobs", "blobs/t1", FAN_OUT, f"{FAN_OUT}/{ADDRESS}"}
    assert not any(what == "rename" for what, _ in recorder.log)


def test_delete_is_synced(place: DiskPlace, recorder: Recorder) -> None:
    place.put("t1", [TEXT])
    recorder.log.clear()
    place.delete("t1", ADDRESS)
    assert recorder.log == [("sync", FAN_OUT)]


# Crashes --------------------------------------------------------------------------------------------------

CHILD = """
import sys
from perdure.artifacts.disk import DiskPlace
place, content = DiskPlace(sys.argv[1]), sys.stdin.buffer.read()
stored = place.put("t1", [content])
print("acknowledged", flush=True)
if sys.argv[2] == "delete":
    place.delete("t1", stored.address)
"""


def run_child(place: DiskPlace, crash_at: str, *, then: str = "stop") -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PERDURE_CRASH_AT": crash_at}
    return forked.run("-c", CHILD, str(place.root), then, input=TEXT.decode(), env=environment)


def assert_whole_or_absent(place: DiskPlace) -> None:
    for address, _ in place.addresses("t1"):
        assert place.read("t1", address, len(TEXT)) == TEXT


@pytest.mark.parametrize("existing", [None, b"", b"PDB1 damaged"], ids=["new", "zero-length", "damaged"])
@pytest.mark.parametrize("point", [point for point in POINTS if "delete" not in point])
def test_kill_at_every_point_of_a_put(place: DiskPlace, point: str, existing: bytes | None) -> None:
    if existing is not None:
        path_of(place, "t1", ADDRESS).parent.mkdir(parents=True)
        path_of(place, "t1", ADDRESS).write_bytes(existing)
    died = run_child(place, point)
    assert (died.returncode, died.stdout) == (-signal.SIGKILL, ""), died.stderr
    reopened = DiskPlace(place.root)
    if existing is None or point in {"artifact.after_rename", "artifact.after_put"}:
        assert_whole_or_absent(reopened)
    reopened.put("t1", [TEXT])
    assert reopened.read("t1", ADDRESS, len(TEXT)) == TEXT
    leftovers = list(reopened.leftovers(system_clock() + 1_000_000))
    assert len(leftovers) == (0 if point in {"artifact.after_rename", "artifact.after_put"} else 1)
    assert reopened.sweep(system_clock() + 1_000_000) == len(leftovers)
    assert reopened.read("t1", ADDRESS, len(TEXT)) == TEXT


@pytest.mark.parametrize("point", [point for point in POINTS if "delete" in point])
def test_kill_at_every_point_of_a_delete(place: DiskPlace, point: str) -> None:
    died = run_child(place, point, then="delete")
    assert (died.returncode, died.stdout) == (-signal.SIGKILL, "acknowledged\n"), died.stderr
    assert place.exists("t1", ADDRESS) == (point == "artifact.before_delete")
    assert_whole_or_absent(place)
    place.delete("t1", ADDRESS)
    place.put("t1", [TEXT])
    assert place.read("t1", ADDRESS, len(TEXT)) == TEXT


def test_the_child_ends_well_when_no_point_is_armed(place: DiskPlace) -> None:
    """Control: the kills above come from the points."""
    ended = run_child(place, "artifact.no_such_point", then="delete")
    assert (ended.returncode, ended.stdout) == (0, "acknowledged\n"), ended.stderr


def test_every_point_is_reached(place: DiskPlace) -> None:
    reached: list[str] = []
    disarm = [crash_points.arm(point, lambda point=point: reached.append(point)) for point in POINTS]
    try:
        place.put("t1", [TEXT])
        place.delete("t1", ADDRESS)
    finally:
        for off in disarm:
            off()
    assert tuple(reached) == POINTS


def test_writing_in_place_would_be_noticed(place: DiskPlace) -> None:
    """Control: a place that writes under the final name shows a half file to the checks above."""
    place.put("t1", [TEXT])
    whole = path_of(place, "t1", ADDRESS).read_bytes()
    path_of(place, "t1", ADDRESS).write_bytes(whole[: len(whole) // 2])
    with pytest.raises(Damaged):
        assert_whole_or_absent(place)


# Sweep ----------------------------------------------------------------------------------------------------


def test_sweep_spares_the_young(place: DiskPlace) -> None:
    place.put("t1", [TEXT])
    old, young = (place.root / "t1" / f"tmp-{digit * 32}" for digit in "ab")
    for leftover in (old, young):
        leftover.write_bytes(b"half")
    os.utime(old, (1000, 1000))
    assert list(place.leftovers(1001 * 1_000_000)) == [("t1", old.name)]
    assert [place.sweep(1001 * 1_000_000), place.sweep(1001 * 1_000_000)] == [1, 0]
    assert young.exists()
    assert place.exists("t1", ADDRESS)


def test_a_put_whose_file_was_swept_fails_cleanly(place: DiskPlace) -> None:
    def source() -> Iterator[bytes]:
        yield TEXT
        assert place.sweep(system_clock() + 10_000_000) == 1

    with pytest.raises(Unavailable):
        place.put("t1", source())
    assert list(place.addresses("t1")) == []


# Together -------------------------------------------------------------------------------------------------


MANY = """
import sys
from perdure.artifacts.disk import DiskPlace
place, content = DiskPlace(sys.argv[1]), sys.argv[2].encode()
sys.stdin.readline()
for _ in range(10):
    print(place.put("t1", [content]).address)
"""


def start_child(place: DiskPlace) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", MANY, str(place.root), TEXT.decode()]
    environment = {**os.environ, "PYTHONPATH": str(SRC)}
    return subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def test_equal_content_from_many_processes(place: DiskPlace) -> None:
    children = [start_child(place) for _ in range(3)]
    printed = [child.communicate(b"go\n", timeout=60)[0] for child in children]
    assert {line for lines in printed for line in lines.decode().split()} == {ADDRESS}
    assert [child.returncode for child in children] == [0, 0, 0]
    assert place.read("t1", ADDRESS, len(TEXT)) == TEXT
    assert not list(place.leftovers(system_clock() + 10_000_000))


def test_a_reader_keeps_what_is_deleted_under_it(place: DiskPlace) -> None:
    noise = os.urandom(2_000_000)
    address = place.put("t1", [noise]).address
    pieces = place.open("t1", address)
    place.delete("t1", address)
    assert b"".join(pieces) == noise


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_a_reader_that_stops_early_holds_nothing(place: DiskPlace) -> None:
    address = place.put("t1", [os.urandom(2_000_000)]).address
    before = open_descriptors()
    for _ in range(5):
        next(place.open("t1", address))
        place.open("t1", address)
    assert open_descriptors() == before


def test_a_collector_between_rename_and_acknowledgement(place: DiskPlace) -> None:
    """An old file is chosen for deletion; the put replaces it at the very last moment: the new one stays."""
    place.put("t1", [TEXT])
    found = path_of(place, "t1", ADDRESS)
    found.write_bytes(b"damaged")
    os.utime(found, (1, 1))
    outcome: list[bool] = []
    disarm = crash_points.arm(
        "artifact.after_rename", lambda: outcome.append(place.delete("t1", ADDRESS, before_us=2_000_000))
    )
    try:
        place.put("t1", [TEXT])
    finally:
        disarm()
    assert outcome == [False]
    assert place.read("t1", ADDRESS, len(TEXT)) == TEXT


def test_a_lock_that_is_never_released_ends_in_an_error(place: DiskPlace) -> None:
    """P15: a stopped process that holds the lock makes puts fail in time, not hang."""
    place.put("t1", [TEXT])
    impatient = DiskPlace(place.root, lock_seconds=0.01)
    holder = os.open(path_of(place, "t1", ADDRESS).parent, os.O_RDONLY)
    try:
        fcntl.flock(holder, fcntl.LOCK_EX)
        for change in (lambda: impatient.put("t1", [TEXT]), lambda: impatient.delete("t1", ADDRESS)):
            with pytest.raises(TimedOut):
                change()
        assert impatient.read("t1", ADDRESS, len(TEXT)) == TEXT
    finally:
        os.close(holder)
    assert impatient.put("t1", [TEXT]).address == ADDRESS


@pytest.mark.parametrize("existing", [True, False])
def test_no_put_gets_between_a_collectors_look_and_its_delete(place: DiskPlace, existing: bool) -> None:
    """Else a put would be acknowledged, by touching or by renaming, and then deleted as old."""
    place.put("t1", [TEXT])
    impatient = DiskPlace(place.root, lock_seconds=0.01)
    said: list[str] = []

    def put() -> None:
        if not existing:
            path_of(place, "t1", ADDRESS).write_bytes(b"damaged")
        try:
            impatient.put("t1", [TEXT])
        except TimedOut as error:
            said.append(type(error).__name__)

    disarm = crash_points.arm("artifact.before_delete", put)
    try:
        assert place.delete("t1", ADDRESS)
    finally:
        disarm()
    assert said == ["TimedOut"]
    assert impatient.put("t1", [TEXT]).address == ADDRESS


def test_writes_that_come_back_short_are_continued(place: DiskPlace, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: write(fd, bytes(data)[:7]))
    stored = place.put("t1", [TEXT[:300]])
    assert place.read("t1", stored.address, 300) == TEXT[:300]


def test_no_put_renames_while_a_collector_looks(place: DiskPlace) -> None:
    place.put("t1", [TEXT])
    place.delete("t1", ADDRESS)
    impatient = DiskPlace(place.root, lock_seconds=0.01)
    collector = os.open(path_of(place, "t1", ADDRESS).parent, os.O_RDONLY)
    disarm = crash_points.arm("artifact.before_rename", lambda: fcntl.flock(collector, fcntl.LOCK_EX))
    try:
        with pytest.raises(TimedOut):
            impatient.put("t1", [TEXT])
    finally:
        disarm()
        os.close(collector)
    assert not place.exists("t1", ADDRESS)
    assert not list(place.leftovers(system_clock() + 10_000_000))
