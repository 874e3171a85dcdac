"""The folder of a files store: what is in git, and what is of this machine and can be made again.

    DIR/log/000001.jsonl        the log, in segments; all but the last may be `.jsonl.zst`
    DIR/blobs/                  blobs by their hash; its .gitignore leaves out what is not whole yet
    DIR/views/                  pages for people (see `perdure_files.views`)
    DIR/.gitattributes          git must not change the ends of lines
    DIR/.perdure/               ignored by git, by its own .gitignore
      lock                      held by whoever writes
      cache-HMAC/cache.db       the tables, rebuilt from the log at any time; only this user knows the name (`secret`)
      head                      how far the log went when this machine saw it last
      set-aside/                what could not be loaded
      *.partial                 what is being written; over/: what is being removed
      merge/                    a log with conflict marks, until it is merged; unmerged-N/ if not all of it could be

Files that come with git are hostile: all of them are read and written through `within`. Callers: `journal`, `engine`, `merge`.
"""

from __future__ import annotations

import re
import stat
from functools import cached_property
from pathlib import Path

from perdure.artifacts.compress import zstd
from perdure.artifacts.disk import UNFINISHED as UNFINISHED_BLOBS
from perdure.errors import Invalid, NotFound
from perdure.model.crash_points import reach
from perdure.model.ids import new_uid
from perdure.model.instants import SECOND_US, system_clock
from perdure.stores.atomic_files import sync
from perdure.stores.url import no_folder
from perdure_files.store import cache_place
from perdure_files.store.folder_access import BYTES_MAX, Within

SEGMENT_MAX_BYTES = 16 * 1024 * 1024
# The bound on what a packed segment unfolds into: events carry hashes and salts, which do not pack, so ours stay below a
# hundredth of that.
_UNPACKED_TIMES = 256
_UNPACKED_LEAST_BYTES = 1024 * 1024
_PIECE_BYTES = 64 * 1024
_WINDOW_LOG_MAX = 23  # 8 MiB
UNFINISHED_VIEW = "view."
_DEAD_US = 3600 * SECOND_US  # nobody writes one file for so long
_UNREADABLE = b"\n(the rest of this segment cannot be unpacked)\n"
_A_CACHE = re.compile(r"cache-[0-9a-f]{32}|\.?cache\.db.*")  # also those of before, which lay in `.perdure` itself
_NAME = re.compile(r"([0-9]{6,18})\.jsonl(\.zst)?")
_ATTRIBUTES = "log/* -text\nblobs/** binary\nviews/** text eol=lf -merge\n"


class Layout:
    """The paths of one store."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.within = Within(folder)
        self.log = folder / "log"
        self.blobs = folder / "blobs"
        self.views = folder / "views"
        self.own = folder / ".perdure"
        self.lock = self.own / "lock"
        self.head = self.own / "head"
        self.aside = self.own / "set-aside"
        self._over = self.own / "over"  # files that are being removed
        self._segments: dict[int, Path] = {}

    @cached_property
    def cache(self) -> Path:
        """The tables. A user without a key has no cache yet, and this is a name that nobody has."""
        name = cache_place.name_for(self.folder, make=False) or f"cache-{new_uid().hex()}"
        return self.own / name / "cache.db"

    def make(self) -> None:
        """Make what is missing. The folder above must be there. Invalid for a link in it; OSError from the disk."""
        if not self.folder.parent.is_dir():
            raise NotFound(
                f"there is no folder {self.folder.parent}", path="store", hint=no_folder("files", self.folder)
            )
        self.folder.mkdir(mode=0o700, exist_ok=True)
        self.check_regular()
        for folder in (self.log, self.blobs, self.own):
            self.within.make(folder)
        cache_place.name_for(self.folder, make=True)
        self.__dict__.pop("cache", None)  # its name may be known only now
        self.within.make(self.cache.parent)
        self._write_once(self.own / ".gitignore", "*\n")
        self._write_once(self.blobs / ".gitignore", UNFINISHED_BLOBS + "\n")
        if not self.numbers():
            self._write_once(self.folder / ".gitattributes", _ATTRIBUTES)
            self.within.sync(self.folder)
            sync(self.folder.parent)

    def _write_once(self, path: Path, text: str) -> None:
        status = self.within.status(path)
        if status is None or not status.st_size:
            partial = self.own / f"{new_uid().hex()}.partial"  # many may do this at once
            self.within.place(path, text.encode(), partial, durable=False)

    def check(self) -> None:
        """Invalid where the folder should be and a file is."""
        if self.folder.is_file():
            hint = "name a folder; an SQLite file is opened as sqlite:///FILE"
            raise Invalid(f"{self.folder} is a file", path="store", hint=hint)

    def check_regular(self) -> None:
        """A file that comes with git may be a link, a device or a pipe. Invalid names it, before anything is read or written."""
        parts = (self.folder / ".gitattributes", self.log, self.blobs, self.blobs / ".gitignore", self.views, self.own)
        for path in parts:
            self._check_regular(path)
        for folder in (self.log, self.own):
            for name in self.within.names(folder):
                self._check_regular(folder / name)

    def _check_regular(self, path: Path) -> None:
        status = self.within.status(path)
        if status is None or stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode):
            return
        what = "a link" if stat.S_ISLNK(status.st_mode) else "no regular file"
        raise Invalid(f"{path} is {what}", path="store", hint="remove it: a files store follows no links")

    def numbers(self) -> list[int]:
        """The numbers of the segments that are there, in order."""
        return sorted({int(match[1]) for match in map(_NAME.fullmatch, self.within.names(self.log)) if match})

    def segment(self, number: int) -> Path:
        """The file of a segment while it is written to. The same object each time: a commit asks for it often."""
        path = self._segments.get(number)
        if path is None:
            path = self._segments[number] = self.log / f"{number:06}.jsonl"
        return path

    def packed(self, number: int) -> Path:
        """The file of a closed segment."""
        return self.log / f"{number:06}.jsonl.zst"

    def content(self, number: int, offset: int = 0) -> bytes:
        """The bytes of a segment from `offset` on. One that is not there is empty; one that is damaged says where it ends."""
        try:
            plain = self.within.read(self.segment(number), offset)
        except FileNotFoundError:
            return self._unpacked(number)[offset:]
        return plain if not self._packed_says_more(number) else self._unpacked(number)[offset:]

    def _packed_says_more(self, number: int) -> bool:
        """Whether git, or a crash, put back the beginning of a segment that was packed: then the packed file counts."""
        if not self.exists(self.packed(number)):
            return False
        plain, packed = self.within.read(self.segment(number)), self._unpacked(number)
        return len(packed) > len(plain) and packed.startswith(plain) and not packed.endswith(_UNREADABLE)

    def exists(self, path: Path) -> bool:
        """Whether something has this name."""
        return self.within.status(path) is not None

    def contradicted(self) -> list[int]:
        """The segments whose two forms say two things: of two branches that git put together, one had packed it."""
        return [number for number in self.numbers() if len(self.files(number)) > 1 and self._says_two_things(number)]

    def _says_two_things(self, number: int) -> bool:
        plain, packed = self.within.read(self.segment(number)), self._unpacked(number)
        return not (plain.startswith(packed) or packed.startswith(plain) or self.is_cut_short(packed))

    def files(self, number: int) -> list[Path]:
        """The files of a segment: one, or for a moment, or after a crash, both forms of it."""
        return [path for path in (self.segment(number), self.packed(number)) if self.exists(path)]

    def read(self, path: Path) -> bytes:
        """The content of one of these files, unpacked as far as it can be (`is_cut_short`)."""
        return self._unpacked(int(path.name.split(".")[0])) if path.suffix == ".zst" else self.within.read(path)

    def is_cut_short(self, data: bytes) -> bool:
        """Whether this is not all of a file: what follows could not be unpacked."""
        return data.endswith(_UNREADABLE)

    def put(self, path: Path, data: bytes) -> None:
        """Give one of these files another content, in its own form. As `place`."""
        self.place(path, zstd.compress(data) if path.suffix == ".zst" else data)

    def sweep_all(self) -> None:
        """Under the lock: remove all that is unfinished, also a file that another process writes just now; that process is told
        so.
        """
        for name in self.within.names(self.own):
            if name.endswith(".partial"):
                self.within.unlink(self.own / name)
        for path in self.cache.parent.glob("cache.db.new*"):
            path.unlink(missing_ok=True)
        self.sweep()

    def sweep(self) -> None:
        """Under the lock: remove what a crash left and nobody writes over, and caches that are not this user's.

        Views are written without the lock: theirs have an age.
        """
        for name in self.within.names(self.own):
            path = self.own / name
            if name.startswith(UNFINISHED_VIEW) and name.endswith(".partial"):
                status = self.within.status(path)
                if status is not None and system_clock() - status.st_mtime_ns // 1000 > _DEAD_US:
                    self.within.unlink(path)
            elif _A_CACHE.fullmatch(name) and name != self.cache.parent.name:
                self.within.remove(path)
        self.within.remove(self._over)

    def clear_up(self, folder: Path) -> None:
        """Remove a folder of our own: all of it is gone, or, before that, nothing. FileNotFoundError if there is none."""
        self.within.remove(self._over)
        self.within.rename(folder, self._over)
        self.within.remove(self._over)

    def _unpacked(self, number: int) -> bytes:
        """As much as can be unpacked. The rest is a line that is none: so it is set aside like any other (`line`)."""
        try:
            packed = self.within.read(self.packed(number))
        except FileNotFoundError:
            return b""
        return _unfolded(packed)

    def unite(self) -> None:
        """Under the lock: a segment that was packed, and whose beginning somebody put back, has one file again."""
        for number in self.numbers():
            if self.exists(self.segment(number)) and self._packed_says_more(number):
                self.within.unlink(self.segment(number))
                self.within.sync(self.log)

    def place(self, path: Path, data: bytes) -> None:
        """Give a file its content, durably and whole: after a crash the old content or the new. OSError from the disk.

        A file that is not whole yet lies where git does not look.
        """
        partial = self._partial(path)
        self.within.fill(partial, data)
        reach("files.written")
        self.within.rename(partial, path)
        reach("files.placed")

    def put_aside(self, path: Path, data: bytes) -> None:
        """Give a file its content, whole, which can be made again: nothing is synced."""
        self.within.place(path, data, self._partial(path), durable=False)

    def _partial(self, path: Path) -> Path:
        return self.own / f"{path.name}.partial"

    def pack(self, number: int) -> None:
        """Compress a segment that is closed. Atomic: after a crash there is the one file, the other, or both alike.

        A packed file that says something else is never written over.
        """
        plain, packed = self.segment(number), self.packed(number)
        if not self.exists(plain):
            return
        data = self.within.read(plain)
        if not self.exists(packed):
            small = zstd.compress(data)
            if _unfolded(small) != data:  # more than is unfolded again: it stays as it is
                return
            self.place(packed, small)
        if self._unpacked(number) == data or self._packed_says_more(number):
            self.within.unlink(plain)
            self.within.sync(self.log)


def _unfolded(packed: bytes) -> bytes:
    """The content of a packed segment, as far as it is sound, and in proportion to its own size."""
    unpacking = zstd.ZstdDecompressor(options={zstd.DecompressionParameter.window_log_max: _WINDOW_LOG_MAX})
    room, parts = min(BYTES_MAX, _UNPACKED_LEAST_BYTES + _UNPACKED_TIMES * len(packed)), list[bytes]()
    for start in range(0, len(packed), _PIECE_BYTES):
        try:
            parts.append(unpacking.decompress(packed[start : start + _PIECE_BYTES], room))
        except (zstd.ZstdError, EOFError):
            break
        room -= len(parts[-1])
        if room <= 0:
            break
    return b"".join(parts) if unpacking.eof else b"".join([*parts, _UNREADABLE])
