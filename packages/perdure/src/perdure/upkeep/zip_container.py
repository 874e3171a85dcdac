"""Packs: zip files of plain members, the one container in which backups and bundles travel.

Every member is stored as it is, never compressed: none can unfold into more than the file holds, and equal content gives equal
bytes, whatever library writes it (no date, no owner, one system). Members are read by names that the reader expects and are
streamed, never unpacked to disk; each is checked against its size and sha256. Callers: `archive`, bundles. Keeps P10.
"""

from __future__ import annotations

import hashlib
import stat
import zipfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import IO, NamedTuple

from perdure.errors import Damaged, Invalid

PIECE_BYTES = 1024 * 1024
_UNIX = 3  # zip's number for the system that made it; fixed, so that every system makes the same bytes


class PackedMember(NamedTuple):
    """The content of a member."""

    size: int
    sha256: str


class Packer:
    """Writes a pack, member by member."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive

    def add(self, name: str, pieces: Iterable[bytes]) -> PackedMember:
        """Store a member, piece by piece."""
        info = zipfile.ZipInfo(name)
        info.create_system = _UNIX
        digest, size = hashlib.sha256(), 0
        with self._archive.open(info, "w", force_zip64=True) as out:
            for piece in pieces:
                out.write(piece)
                digest.update(piece)
                size += len(piece)
        return PackedMember(size, digest.hexdigest())


@contextmanager
def packing(path: Path) -> Iterator[Packer]:
    """A new pack in an empty file."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        yield Packer(archive)


class ZipPack:
    """A pack that was looked through: its members are plain, each is there once, and they fit into the file."""

    def __init__(self, archive: zipfile.ZipFile, size: int, members_max: int) -> None:
        self._archive = archive
        self._members = _members(archive, size, members_max)
        self._open: set[IO[bytes]] = set()

    def close(self) -> None:
        """Let go of members that somebody began to read and left: their file would stay open."""
        for source in self._open:
            source.close()

    @property
    def names(self) -> frozenset[str]:
        """The names of the members."""
        return frozenset(self._members)

    def size(self, name: str) -> int:
        """How many bytes a member has; -1 if there is none."""
        return self._members[name].file_size if name in self._members else -1

    def read(self, name: str) -> bytes:
        """A small member, whole. The caller has looked at its size."""
        with zip_errors():
            return self._archive.read(name)

    def pieces(self, name: str, packed: PackedMember) -> Iterator[bytes]:
        """The content of a member. Damaged, after the last piece, when it is not what was packed."""
        digest, size = hashlib.sha256(), 0
        with zip_errors(), self._archive.open(name) as source:
            self._open.add(source)
            while piece := source.read(PIECE_BYTES):
                digest.update(piece)
                size += len(piece)
                yield piece
        self._open.discard(source)
        if (size, digest.hexdigest()) != packed:
            raise Damaged("the content is not what the manifest says", path=name)


@contextmanager
def unpacking(path: Path, members_max: int, foreign: Callable[[Path], Invalid]) -> Iterator[ZipPack]:
    """A pack to read from. Invalid when it is none; `foreign` says what a file is told that is something else."""
    try:
        with zip_errors():
            archive = zipfile.ZipFile(path)
    except Invalid as error:
        raise foreign(path) from error
    with archive, closing(ZipPack(archive, path.stat().st_size, members_max)) as pack:
        yield pack


@contextmanager
def zip_errors() -> Iterator[None]:
    """The errors of a file that is no sound zip, as Invalid."""
    try:
        yield
    except (
        zipfile.BadZipFile,
        zipfile.LargeZipFile,
        NotImplementedError,
        EOFError,
        OSError,  # an offset before the start
        RuntimeError,
        ValueError,
    ) as error:
        raise Invalid(f"not an archive that Perdure made: {error}", path="source") from None


def _members(archive: zipfile.ZipFile, size: int, most: int) -> dict[str, zipfile.ZipInfo]:
    """The members by name. Only listed features are allowed, so names that lead elsewhere, bombs and hidden members are
    refused.
    """
    infos = archive.infolist()
    members = {info.filename: info for info in infos}
    if len(infos) > most or len(members) != len(infos):
        raise Invalid("too many members, or one name twice", path="source")
    for info in infos:
        _check_plain(info)
    if sum(info.file_size for info in infos) > size:
        raise Invalid("the members are larger than the archive", path="source")
    return members


def _check_plain(info: zipfile.ZipInfo) -> None:
    plain = info.compress_type == zipfile.ZIP_STORED and info.file_size == info.compress_size
    if not plain or info.flag_bits or info.comment:
        raise Invalid(
            "a member is compressed, encrypted or annotated; members are stored plain", path=info.filename[:200]
        )
    if stat.S_IFMT(info.external_attr >> 16) not in (0, stat.S_IFREG) or info.is_dir():
        raise Invalid("a member is no plain file", path=info.filename[:200])
