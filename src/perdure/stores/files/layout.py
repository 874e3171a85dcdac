"""The folder of a files store: what is in git, and what is of this machine and can be made again.

    DIR/log/000001.jsonl        the log, in segments; all but the last may be `.jsonl.zst`
    DIR/blobs/                  blobs by their hash; its .gitignore leaves out what is not whole yet
    DIR/views/                  pages for people (see `perdure.interchange.views`)
    DIR/.gitattributes          git must not change the ends of lines
    DIR/.perdure/               ignored by git, by its own .gitignore
      lock                      held by whoever writes
      cache.db                  the tables, rebuilt from the log at any time
      head                      how far the log went when this machine saw it last
      set-aside/                what could not be loaded
      merge/                    a log with conflict marks, until it is merged; unmerged-N/ if not all of it could be

Callers: `journal`, `engine`, `merge`. Holds no state.
"""

from __future__ import annotations

import re
import shutil
from contextlib import suppress
from pathlib import Path

from perdure.artifacts.compress import zstd
from perdure.artifacts.disk import UNFINISHED as UNFINISHED_BLOBS
from perdure.errors import Invalid, NotFound
from perdure.model.instants import SECOND_US, system_clock
from perdure.model.points import reach
from perdure.stores.copies import new_file, sync
from perdure.stores.url import no_folder

SEGMENT_MAX_BYTES = 16 * 1024 * 1024
_UNPACKED_MAX_BYTES = 1024 * 1024 * 1024
_PIECE_BYTES = 64 * 1024
UNFINISHED_VIEW = "view."
_DEAD_US = 3600 * SECOND_US  # nobody writes one file for so long
_UNREADABLE = b"\n(the rest of this segment cannot be unpacked)\n"
_NAME = re.compile(r"([0-9]{6,18})\.jsonl(\.zst)?")
_ATTRIBUTES = "log/* -text\nblobs/** binary\nviews/** text eol=lf -merge\n"


class Layout:
    """The paths of one store."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder / "log"
        self.blobs = folder / "blobs"
        self.views = folder / "views"
        self.own = folder / ".perdure"
        self.cache = self.own / "cache.db"
        self.lock = self.own / "lock"
        self.head = self.own / "head"
        self.aside = self.own / "set-aside"
        self._over = self.own / "over"  # what is being removed
        self._segments: dict[int, Path] = {}

    def make(self) -> None:
        """Make what is missing. The folder above must be there. Invalid for a link in it; OSError from the disk."""
        if not self.folder.parent.is_dir():
            raise NotFound(
                f"there is no folder {self.folder.parent}", path="store", hint=no_folder("files", self.folder)
            )
        self._check_links()
        for folder in (self.folder, self.log, self.blobs, self.own):
            folder.mkdir(mode=0o700, exist_ok=True)
        _write_once(self.own / ".gitignore", "*\n")
        _write_once(self.blobs / ".gitignore", UNFINISHED_BLOBS + "\n")
        if not self.numbers():
            _write_once(self.folder / ".gitattributes", _ATTRIBUTES)
            sync(self.folder)
            sync(self.folder.parent)

    def check(self) -> None:
        """Invalid where the folder should be and a file is."""
        if self.folder.is_file():
            hint = "name a folder; an SQLite file is opened as sqlite:///FILE"
            raise Invalid(f"{self.folder} is a file", path="store", hint=hint)

    def _check_links(self) -> None:
        """Whatever comes with git may be a link: what we write would go where it leads. Invalid names it."""
        parts = (self.folder / ".gitattributes", self.log, self.blobs, self.blobs / ".gitignore", self.views, self.own)
        for path in (*parts, *self.log.glob("*"), *self.own.glob("*")):
            if path.is_symlink():
                raise Invalid(f"{path} is a link", path="store", hint="remove it: a store of files writes through none")

    def numbers(self) -> list[int]:
        """The numbers of the segments that are there, in order."""
        try:
            names = [path.name for path in self.log.iterdir()]
        except FileNotFoundError:
            return []
        return sorted({int(found[1]) for found in map(_NAME.fullmatch, names) if found})

    def segment(self, number: int) -> Path:
        """The file of a segment while it is written to. The same object each time: a commit asks for it often."""
        found = self._segments.get(number)
        if found is None:
            found = self._segments[number] = self.log / f"{number:06}.jsonl"
        return found

    def packed(self, number: int) -> Path:
        """The file of a closed segment."""
        return self.log / f"{number:06}.jsonl.zst"

    def content(self, number: int, offset: int = 0) -> bytes:
        """The bytes of a segment from `offset` on. One that is not there is empty; one that is damaged says where it ends."""
        try:
            with self.segment(number).open("rb") as file:
                file.seek(offset)
                plain = file.read()
        except FileNotFoundError:
            return self._unpacked(number)[offset:]
        return plain if not self._packed_says_more(number) else self._unpacked(number)[offset:]

    def _packed_says_more(self, number: int) -> bool:
        """Whether git, or a crash, put back the beginning of a segment that was packed: then the packed file counts."""
        if not self.packed(number).exists():
            return False
        plain, packed = self.segment(number).read_bytes(), self._unpacked(number)
        return len(packed) > len(plain) and packed.startswith(plain) and not packed.endswith(_UNREADABLE)

    def contradicted(self) -> list[int]:
        """The segments whose two forms say two things: of two branches that git put together, one had packed it."""
        return [number for number in self.numbers() if len(self.files(number)) > 1 and self._says_two_things(number)]

    def _says_two_things(self, number: int) -> bool:
        plain, packed = self.segment(number).read_bytes(), self._unpacked(number)
        return not (plain.startswith(packed) or packed.startswith(plain) or self.is_cut_short(packed))

    def files(self, number: int) -> list[Path]:
        """The files of a segment: one, or for a moment, or after a crash, both forms of it."""
        return [path for path in (self.segment(number), self.packed(number)) if path.exists()]

    def read(self, path: Path) -> bytes:
        """The content of one of these files, unpacked as far as it can be (`is_cut_short`)."""
        return self._unpacked(int(path.name.split(".")[0])) if path.suffix == ".zst" else path.read_bytes()

    def is_cut_short(self, data: bytes) -> bool:
        """Whether this is not all of a file: what follows could not be unpacked."""
        return data.endswith(_UNREADABLE)

    def put(self, path: Path, data: bytes) -> None:
        """Give one of these files another content, in its own form. As `place`."""
        self.place(path, zstd.compress(data) if path.suffix == ".zst" else data)

    def sweep(self) -> None:
        """Under the lock: remove what a crash left unfinished, and what somebody else writes just now: he is told so."""
        for path in (*self.own.glob("*.partial"), *self.own.glob("cache.db.new*")):
            path.unlink(missing_ok=True)
        shutil.rmtree(self._over, ignore_errors=True)

    def sweep_dead(self) -> None:
        """Under the lock: remove what a crash left unfinished. Views are written without it, so theirs have an age."""
        for path in self.own.glob(f"{UNFINISHED_VIEW}*.partial"):
            with suppress(FileNotFoundError):
                if system_clock() - path.stat().st_mtime_ns // 1000 > _DEAD_US:
                    path.unlink()
        shutil.rmtree(self._over, ignore_errors=True)

    def clear_up(self, folder: Path) -> None:
        """Remove a folder of our own: all of it is gone, or, before that, nothing. FileNotFoundError if there is none."""
        shutil.rmtree(self._over, ignore_errors=True)
        folder.rename(self._over)
        sync(self.own)
        shutil.rmtree(self._over, ignore_errors=True)

    def _unpacked(self, number: int) -> bytes:
        """As much as can be unpacked. What cannot be is a line that is none: so it is set aside like any other (`line`)."""
        try:
            packed = self.packed(number).read_bytes()
        except FileNotFoundError:
            return b""
        unpacking, parts, size = zstd.ZstdDecompressor(), [], 0
        for start in range(0, len(packed), _PIECE_BYTES):
            try:
                parts.append(unpacking.decompress(packed[start : start + _PIECE_BYTES], _UNPACKED_MAX_BYTES - size))
            except (zstd.ZstdError, EOFError):
                break
            size += len(parts[-1])
        return b"".join(parts) if unpacking.eof else b"".join([*parts, _UNREADABLE])

    def unite(self) -> None:
        """Under the lock: a segment that was packed, and whose beginning somebody put back, has one file again."""
        for number in self.numbers():
            if self.segment(number).exists() and self._packed_says_more(number):
                self.segment(number).unlink()
                sync(self.log)

    def place(self, path: Path, data: bytes) -> None:
        """Give a file its content, durably and whole: after a crash the old content or the new. OSError from the disk.

        What is not whole yet lies where git does not look.
        """
        partial = self.own / f"{path.name}.partial"
        partial.unlink(missing_ok=True)
        new_file(partial)
        partial.write_bytes(data)
        sync(partial)
        reach("files.written")
        partial.rename(path)
        reach("files.placed")
        sync(path.parent)

    def pack(self, number: int) -> None:
        """Compress a segment that is closed. Atomic: after a crash there is the one file, the other, or both alike.

        A packed file that says something else is never written over.
        """
        plain, packed = self.segment(number), self.packed(number)
        if not plain.exists():
            return
        data = plain.read_bytes()
        if not packed.exists():
            self.place(packed, zstd.compress(data))
        if self._unpacked(number) == data or self._packed_says_more(number):
            plain.unlink()
            sync(self.log)


def _write_once(path: Path, text: str) -> None:
    if not path.exists() or not path.stat().st_size:
        path.write_text(text, encoding="utf-8")
