"""Blobs on disk: the contract, the layout, and what is in the way: links, foreign files, no room."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from artifacts.disk_places import ADDRESS, path_of
from artifacts.place_contract import TEXT, PlaceContract
from perdure.artifacts.disk import DiskPlace
from perdure.artifacts.place import Place
from perdure.errors import Damaged, Full, Invalid, NotFound, ReadOnly, Refused, Unavailable
from perdure.model.instants import system_clock


@pytest.fixture
def place(tmp_path: Path) -> DiskPlace:
    return DiskPlace(tmp_path / "new" / "blobs")


class TestDiskPlace(PlaceContract):
    def stored_form(self, place: Place, tenant: str, address: str) -> bytes:
        return path_of(place, tenant, address).read_bytes()

    def damage(self, place: Place, tenant: str, address: str, stored: bytes) -> None:
        path_of(place, tenant, address).write_bytes(stored)

    def age(self, place: Place, tenant: str, address: str) -> None:
        os.utime(path_of(place, tenant, address), (1, 1))


# The layout -----------------------------------------------------------------------------------------------


def test_nobody_else_may_read(place: DiskPlace) -> None:
    place.put("t1", [TEXT])
    found = path_of(place, "t1", ADDRESS)
    assert stat.S_IMODE(found.stat().st_mode) == 0o600
    for folder in (found.parent, found.parent.parent, place.root, place.root.parent):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_foreign_files_are_none_of_ours(place: DiskPlace) -> None:
    place.put("t1", [TEXT])
    for name in ("notes.txt", "ab", "t1/xyz", f"t1/{'0' * 64}", f"t1/{ADDRESS[:2]}/{'f' * 64}x", "Upper"):
        (place.root / name).write_bytes(b"x")
    (place.root / "t1" / ADDRESS[:2] / ("0" * 64 if ADDRESS[0] != "0" else "f" * 64)).write_bytes(b"astray")
    assert [address for address, _ in place.addresses("t1")] == [ADDRESS]
    assert place.sweep(system_clock() + 1) == 0


def test_a_relative_root_is_refused() -> None:
    with pytest.raises(Invalid):
        DiskPlace("blobs")


# Links and other things in the way ------------------------------------------------------------------------


def put_elsewhere(place: DiskPlace, tmp_path: Path) -> Path:
    """The very content that is asked for, but outside the place."""
    other = DiskPlace(tmp_path / "elsewhere")
    other.put("t1", [TEXT])
    place.put("t1", [b"something else"])
    return path_of(other, "t1", ADDRESS)


def test_a_link_at_the_address_is_not_followed(place: DiskPlace, tmp_path: Path) -> None:
    target = put_elsewhere(place, tmp_path)
    before = target.read_bytes()
    link = path_of(place, "t1", ADDRESS)
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(target)
    with pytest.raises(Damaged, match=ADDRESS):
        place.open("t1", ADDRESS)
    assert not place.exists("t1", ADDRESS)
    place.put("t1", [TEXT])  # replaces the link, not its target
    assert not link.is_symlink()
    assert place.read("t1", ADDRESS, len(TEXT)) == TEXT
    assert target.read_bytes() == before


@pytest.mark.parametrize("depth", [1, 2], ids=["fan-out", "tenant"])
def test_a_link_above_the_address_is_not_followed(place: DiskPlace, tmp_path: Path, depth: int) -> None:
    target = put_elsewhere(place, tmp_path)
    link, there = path_of(place, "t2", ADDRESS), target
    for _ in range(depth):
        link, there = link.parent, there.parent
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(there)
    asks: list[Callable[[], object]] = [
        lambda: place.open("t2", ADDRESS),
        lambda: place.delete("t2", ADDRESS),
        lambda: place.put("t2", [TEXT]),
    ]
    for ask in asks:
        with pytest.raises(Damaged):
            ask()
    assert target.exists()


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo], ids=["directory", "pipe"])
def test_what_is_not_a_file_is_damaged(place: DiskPlace, make: Callable[[Path], None]) -> None:
    place.put("t1", [TEXT])
    path_of(place, "t1", ADDRESS).unlink()
    make(path_of(place, "t1", ADDRESS))
    with pytest.raises(Damaged, match=ADDRESS):
        list(place.open("t1", ADDRESS))
    assert not place.exists("t1", ADDRESS)
    assert not place.delete("t1", ADDRESS)


# What the operating system says ---------------------------------------------------------------------------

SAID = {
    errno.ENOSPC: Full,
    errno.EDQUOT: Full,
    errno.EFBIG: Full,
    errno.EROFS: ReadOnly,
    errno.EACCES: Refused,
    errno.EPERM: Refused,
    errno.EIO: Unavailable,
    errno.EMFILE: Unavailable,
}


@pytest.mark.parametrize("call", ["write", "fsync", "rename", "mkdir", "lseek"])
@pytest.mark.parametrize("number", SAID, ids=errno.errorcode.get)
def test_errors_are_of_our_tree_and_leave_nothing(
    place: DiskPlace, monkeypatch: pytest.MonkeyPatch, call: str, number: int
) -> None:
    """The call is replaced by one that fails; a real full disk is below."""

    def fail(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as broken:
        broken.setattr(os, call, fail)
        with pytest.raises(SAID[number]) as caught:
            place.put("t1", [TEXT])
        assert type(caught.value) is SAID[number]
    assert not list(place.leftovers(system_clock() + 10_000_000))
    assert list(place.addresses("t1")) == []
    place.put("t1", [TEXT])
    assert place.read("t1", ADDRESS, len(TEXT)) == TEXT


def test_a_failed_sync_of_the_directory_is_no_success(place: DiskPlace, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file is visible already, and yet nothing may be acknowledged; the put after it syncs again."""
    place.put("t1", [b"the directories are there"])
    fsync = os.fsync

    def fail(fd: int) -> None:
        if stat.S_ISDIR(os.fstat(fd).st_mode):
            raise OSError(errno.EIO, "injected")
        fsync(fd)

    with monkeypatch.context() as broken:
        broken.setattr(os, "fsync", fail)
        for _ in range(2):
            with pytest.raises(Unavailable):
                place.put("t1", [TEXT])
    place.put("t1", [TEXT])
    assert place.read("t1", ADDRESS, len(TEXT)) == TEXT


def test_an_existing_file_that_cannot_be_read_is_replaced(place: DiskPlace, monkeypatch: pytest.MonkeyPatch) -> None:
    place.put("t1", [TEXT])
    before = path_of(place, "t1", ADDRESS).stat().st_ino
    keep = path_of(place, "t1", ADDRESS).open("rb")  # so that its number is not given away again
    with keep, monkeypatch.context() as broken:

        def fail(fd: int, count: int) -> bytes:
            raise OSError(errno.EIO, "injected")

        broken.setattr(os, "read", fail)
        place.put("t1", [TEXT])
        with pytest.raises(Unavailable):
            place.read("t1", ADDRESS, len(TEXT))
    assert path_of(place, "t1", ADDRESS).stat().st_ino != before
    assert place.read("t1", ADDRESS, len(TEXT)) == TEXT


@contextmanager
def tiny_disk(folder: Path) -> Iterator[Path]:
    """A real file system of 1 MiB; mounting one needs root."""
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder], capture_output=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip("cannot mount a tmpfs here: the full disk is only tested with a replaced os.write")
    try:
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True)


def test_a_full_disk(tmp_path: Path) -> None:
    with tiny_disk(tmp_path / "tiny") as folder:
        place = DiskPlace(folder / "blobs")
        place.put("t1", [TEXT])
        noise = os.urandom(2 * 1024 * 1024)
        with pytest.raises(Full) as caught:
            place.put("t1", [noise])
        assert caught.value.path == "artifacts"
        assert "free some space" in caught.value.hint
        assert not list(place.leftovers(system_clock() + 10_000_000))
        assert place.read("t1", ADDRESS, len(TEXT)) == TEXT
        assert place.put("t1", [noise[:500_000]]).size == 500_000  # room is back, without reopening
        assert place.delete("t1", ADDRESS)


def test_a_read_only_disk(tmp_path: Path) -> None:
    with tiny_disk(tmp_path / "tiny") as folder:
        place = DiskPlace(folder / "blobs")
        place.put("t1", [TEXT])
        subprocess.run(["mount", "-o", "remount,ro", folder], check=True)
        for change in (lambda: place.put("t1", [b"new"]), lambda: place.delete("t1", ADDRESS)):
            with pytest.raises(ReadOnly):
                change()
        assert place.read("t1", ADDRESS, len(TEXT)) == TEXT


def test_nothing_is_created_by_reading(place: DiskPlace) -> None:
    with pytest.raises(NotFound):
        place.open("t1", ADDRESS)
    assert not place.exists("t1", ADDRESS)
    assert list(place.tenants()) == []
    assert place.sweep(system_clock()) == 0
    assert not place.root.exists()
