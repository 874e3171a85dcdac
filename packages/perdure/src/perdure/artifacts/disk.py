"""Blobs as files on a local disk. Called through `place_from_url("file:///dir")`; POSIX only.

    ROOT/                        0700
      TENANT/                    0700
        tmp-32 hex digits        0600, a put in progress, or what is left of one that died: see `sweep`
        ab/                      0700, the first two digits of the addresses in it
          ab34...                0600, named by the whole address, in the packed form (see `compress`)

Keeps P1: content is written to the temporary file and synced, then renamed, then the directory is synced,
and the parent of every directory that may be new. Only then does `put` return and may a reference be
committed. After a crash at any point an address shows the whole content or nothing, and at most a temporary
file is left. Keeps P10 and P11: everything is opened below the directory above it, never through a link.

Content needs no lock, as a rename replaces a whole file by one of equal content. A `flock` on the fan-out
directory, held for two or three calls, keeps a collector from deleting what a put has just made young.
"""

from __future__ import annotations

import fcntl
import os
import re
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from perdure.artifacts.compress import unpack_stream
from perdure.artifacts.descriptors import (
    DIRECTORY,
    FILE,
    NEW_FILE,
    ROOT,
    directories_in,
    modified_us,
    names_in,
    opened,
    pieces_of,
    room,
    sync,
    translated,
    write_packed,
)
from perdure.artifacts.place import (
    ADDRESS,
    TENANT,
    Stored,
    check_address,
    check_tenant,
    name_of,
    verified,
)
from perdure.errors import Error, Invalid, NotFound, Refused, TimedOut, Unavailable
from perdure.model.crash_points import reach
from perdure.model.ids import new_uid

POINTS: Final = (
    "artifact.before_write",
    "artifact.before_sync",
    "artifact.after_sync",
    "artifact.before_rename",
    "artifact.after_rename",
    "artifact.after_put",
    "artifact.before_delete",
    "artifact.after_delete",
)
UNFINISHED: Final = "tmp-*"  # for those who list files
_TEMPORARY = re.compile(r"tmp-[0-9a-f]{32}", re.ASCII)
_FAN_OUT = re.compile(r"[0-9a-f]{2}", re.ASCII)


class DiskPlace:
    """A `Place` below one directory, which is created by the first put."""

    touch_after_us = 0

    def __init__(self, root: Path | str, *, lock_seconds: float = 10.0) -> None:
        self.root = Path(root)
        if not self.root.is_absolute() or "\0" in str(root):
            raise Invalid("expected an absolute directory", path="url", hint="file:///dir")
        self.lock_seconds = lock_seconds
        self._settled: set[str] = set()  # directories whose entry in their parent this process has synced

    def put(self, tenant: str, source: Iterable[bytes]) -> Stored:
        """See `Place.put`. Also raises `ReadOnly`; the temporary file is removed whatever is raised."""
        with room(), self._writable_tenant(check_tenant(tenant)) as home, _temporary(home) as (name, fd):
            reach("artifact.before_write")
            stored = write_packed(fd, source)
            reach("artifact.before_sync")
            sync(fd, "put")
            reach("artifact.after_sync")
            stored = self._publish(tenant, home, name, stored)
        reach("artifact.after_put")
        return stored

    def open(self, tenant: str, address: str) -> Iterator[bytes]:
        """See `Place.open`."""
        content = self._content(check_tenant(tenant), check_address(address), None)
        next(content)
        return content

    def read(self, tenant: str, address: str, size: int) -> bytes:
        """See `Place.read`."""
        return b"".join(self._content(check_tenant(tenant), check_address(address), size))

    def exists(self, tenant: str, address: str) -> bool:
        """See `Place.exists`."""
        with self._fan_out(check_tenant(tenant), check_address(address)) as folder:
            return folder is not None and modified_us(folder, address) is not None

    def delete(self, tenant: str, address: str, *, before_us: int | None = None) -> bool:
        """See `Place.delete`."""
        with self._fan_out(check_tenant(tenant), check_address(address)) as folder:
            if folder is None or not self._unlink(folder, address, before_us):
                return False
            sync(folder, name_of(address))
        reach("artifact.after_delete")
        return True

    def addresses(self, tenant: str) -> Iterator[tuple[str, int]]:
        """See `Place.addresses`. One fan-out directory is held in memory at a time."""
        return self._addresses(check_tenant(tenant))

    def tenants(self) -> Iterator[str]:
        """See `Place.tenants`."""
        with opened(ROOT, self.root) as root:
            return iter([] if root is None else directories_in(root, TENANT))

    def sweep(self, before_us: int) -> int:
        """See `Place.sweep`. A put that has written nothing since then loses its file, and fails cleanly."""
        swept = 0
        for tenant, name in self.leftovers(before_us):
            with self._tenant(tenant) as home, translated("sweep"), suppress(FileNotFoundError):
                os.unlink(name, dir_fd=home)
                swept += 1
        return swept

    def leftovers(self, before_us: int) -> Iterator[tuple[str, str]]:
        """The temporary files that nobody has written to since that instant, as (tenant, name)."""
        for tenant in self.tenants():
            with self._tenant(tenant) as home:
                names = [] if home is None else _older(home, before_us)
            yield from ((tenant, name) for name in names)

    def _publish(self, tenant: str, home: int, name: str, stored: Stored) -> Stored:
        """Give the temporary file its address, unless an intact one is there, and make that durable."""
        digits = stored.address[:2]
        with self._created(home, digits, f"{tenant}/{digits}") as folder:
            existing_bytes = self._keep(folder, stored)
            if existing_bytes is None:
                self._rename(home, name, folder, stored.address)
            else:
                stored = Stored(stored.address, stored.size, existing_bytes)
                _unlink_quietly(home, name)
            # Also for one that was there: whoever renamed it may have died before this.
            sync(folder, name_of(stored.address))
        return stored

    def _rename(self, home: int, name: str, folder: int, address: str) -> None:
        reach("artifact.before_rename")
        with translated(name_of(address)), self._locked(folder):
            os.rename(name, address, src_dir_fd=home, dst_dir_fd=folder)
        reach("artifact.after_rename")

    def _keep(self, folder: int, stored: Stored) -> int | None:
        """Make an existing file young and verify it: its bytes on disk, or None when it must be replaced.

        Any fault in it is a reason to replace it: the new file is already on the disk.
        """
        with self._locked(folder):
            fd = _touched(folder, stored.address)
        if fd is None:
            return None
        try:
            for _ in _plain(fd, stored.address, stored.size):
                pass
            sync(fd, name_of(stored.address))
            return os.fstat(fd).st_size
        except Error:
            return None
        finally:
            os.close(fd)

    def _unlink(self, folder: int, address: str, before_us: int | None) -> bool:
        with translated(name_of(address)), self._locked(folder):
            put_us = modified_us(folder, address)
            if put_us is None or (before_us is not None and put_us >= before_us):
                return False
            reach("artifact.before_delete")
            os.unlink(address, dir_fd=folder)
        return True

    def _content(self, tenant: str, address: str, size: int | None) -> Iterator[bytes]:
        """Yield nothing once the file is open, so that `open` can raise at once; then the content."""
        with self._fan_out(tenant, address) as folder, opened(FILE, address, folder) as fd:
            if fd is None:
                raise NotFound("no such blob", path=name_of(address))
            yield b""
            yield from _plain(fd, address, size)

    def _addresses(self, tenant: str) -> Iterator[tuple[str, int]]:
        with self._tenant(tenant) as home:
            fan_outs = [] if home is None else directories_in(home, _FAN_OUT)
        for digits in fan_outs:
            yield from self._listed(tenant, digits)

    def _listed(self, tenant: str, digits: str) -> list[tuple[str, int]]:
        with self._fan_out(tenant, digits) as folder:
            if folder is None:
                return []
            files = [(name, modified_us(folder, name)) for name in names_in(folder, ADDRESS)]
        return [(name, put_us) for name, put_us in files if put_us is not None and name.startswith(digits)]

    @contextmanager
    def _writable_tenant(self, tenant: str) -> Iterator[int]:
        self._make_root()
        with opened(ROOT, self.root) as root:
            if root is None:
                raise Unavailable("the directory has just been removed", path=str(self.root))
            with self._created(root, tenant, tenant) as home:
                yield home

    def _make_root(self) -> None:
        """Create the root and whatever is missing above it, each entry durable before the next."""
        with translated(str(self.root)):
            missing = [folder for folder in (self.root, *self.root.parents) if not folder.exists()]
            for folder in reversed(missing):
                with suppress(FileExistsError):
                    folder.mkdir(mode=0o700)
                _sync_directory(folder.parent)
        if not missing and "" not in self._settled:
            with suppress(Refused):  # an operator's directory; what is above it need not be readable to us
                _sync_directory(self.root.parent)
        self._settled.add("")

    @contextmanager
    def _created(self, parent: int, name: str, key: str) -> Iterator[int]:
        """Open a directory, made if need be, and see to it once per process that its entry is durable."""
        with translated(key), suppress(FileExistsError):
            os.mkdir(name, 0o700, dir_fd=parent)
            self._settled.discard(key)
        with opened(DIRECTORY, name, parent) as fd:
            if fd is None:
                raise Unavailable("the directory has just been removed", path=key)
            # Not only when we made it: another process may have made it and died before its sync.
            if key not in self._settled:
                sync(parent, key)
                self._settled.add(key)
            yield fd

    @contextmanager
    def _tenant(self, tenant: str) -> Iterator[int | None]:
        with opened(ROOT, self.root) as root, opened(DIRECTORY, tenant, root) as home:
            yield home

    @contextmanager
    def _fan_out(self, tenant: str, address: str) -> Iterator[int | None]:
        with self._tenant(tenant) as home, opened(DIRECTORY, address[:2], home) as folder:
            yield folder

    @contextmanager
    def _locked(self, folder: int) -> Iterator[None]:
        """Hold the fan-out directory against other puts and deletes, waiting no longer than the deadline."""
        deadline = time.monotonic() + self.lock_seconds
        while not _try_lock(folder):
            if time.monotonic() > deadline:
                raise TimedOut(f"a directory stayed locked for {self.lock_seconds} s", path=str(self.root))
            time.sleep(0.002)
        try:
            yield
        finally:
            fcntl.flock(folder, fcntl.LOCK_UN)


def _try_lock(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _sync_directory(folder: Path) -> None:
    with opened(ROOT, folder) as fd:
        if fd is not None:
            sync(fd, str(folder))


@contextmanager
def _temporary(home: int) -> Iterator[tuple[str, int]]:
    """A new file of our own; when the block fails, it is gone."""
    name = f"tmp-{new_uid().hex()}"
    with translated("put"):
        fd = os.open(name, NEW_FILE, 0o600, dir_fd=home)
    try:
        yield name, fd
    except BaseException:
        _unlink_quietly(home, name)
        raise
    finally:
        os.close(fd)


def _unlink_quietly(home: int, name: str) -> None:
    # A file that cannot be removed now is removed by a sweep; the put's own outcome stands.
    with suppress(OSError):
        os.unlink(name, dir_fd=home)


def _touched(folder: int, address: str) -> int | None:
    """Open the existing file and make it young; None when there is none that we may touch."""
    try:
        fd = os.open(address, FILE, dir_fd=folder)
    except OSError:
        return None
    try:
        os.utime(fd)
    except OSError:
        os.close(fd)
        return None
    return fd


def _plain(fd: int, address: str, size: int | None) -> Iterator[bytes]:
    where = name_of(address)
    return verified(address, unpack_stream(pieces_of(fd, where), path=where, size=size))


def _older(home: int, before_us: int) -> list[str]:
    dated = [(name, modified_us(home, name)) for name in names_in(home, _TEMPORARY)]
    return [name for name, written_us in dated if written_us is not None and written_us < before_us]
