"""The archive of a PostgreSQL store: what a logical backup is written as, and how a hostile one is refused.

FORMAT 1: a zip file, every member stored as it is (never compressed: so none can unfold into more than the
file holds)

    manifest.json          see `Manifest`; written last
    tables/<name>.copy     one for each table: PostgreSQL's binary COPY of the columns that the manifest names

Members are read by the names of the manifest and streamed, never unpacked to disk; each is checked against
its sha256. Callers: backup and restore. Keeps P10.
"""

from __future__ import annotations

import hashlib
import re
import zipfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from perdure.errors import Damaged, Invalid

FORMAT = 1
KIND = "perdure.postgres"
MANIFEST = "manifest.json"
MANIFEST_MAX_BYTES = 4 * 1024 * 1024
MEMBERS_MAX = 500
PIECE_BYTES = 1024 * 1024

_NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}", re.ASCII)
_HEX = re.compile(r"[0-9a-f]+", re.ASCII)


class Member(msgspec.Struct, frozen=True):
    """One table in the archive."""

    table: str
    columns: list[str]
    rows: int
    size: int
    sha256: str


class Manifest(msgspec.Struct, frozen=True):
    """What the archive holds, of which store, at which instant (microseconds)."""

    format: int
    kind: str
    schema: int
    store: str
    epoch: int
    at: int
    note: str
    tables: list[Member]


def name_of(table: str) -> str:
    """The name of a table's member."""
    return f"tables/{table}.copy"


class ArchiveWriter:
    """Writes an archive, table by table; the manifest makes it complete."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive
        self.members: list[Member] = []

    def add(self, table: str, columns: list[str], pieces: Iterable[bytes], rows: Callable[[], int]) -> None:
        """Store a table; `rows` is asked after its last piece."""
        digest, size = hashlib.sha256(), 0
        with self._archive.open(_stored(name_of(table)), "w", force_zip64=True) as out:
            for piece in pieces:
                out.write(piece)
                digest.update(piece)
                size += len(piece)
        self.members.append(Member(table, columns, rows(), size, digest.hexdigest()))

    def finish(self, manifest: Manifest) -> None:
        """Write the manifest."""
        self._archive.writestr(_stored(MANIFEST), msgspec.json.format(msgspec.json.encode(manifest), indent=1))


def _stored(name: str) -> zipfile.ZipInfo:
    """A member without a date or an owner: equal content gives an equal archive."""
    return zipfile.ZipInfo(name)


@contextmanager
def writing(path: Path) -> Iterator[ArchiveWriter]:
    """A new archive in an empty file."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        yield ArchiveWriter(archive)


class ArchiveReader:
    """An archive that was looked through: its manifest is well formed and names exactly the members that are
    there."""

    def __init__(self, archive: zipfile.ZipFile, size: int) -> None:
        self._archive = archive
        members = _members(archive, size)
        self.manifest = _manifest(archive, members)
        _check_members(self.manifest, members)

    def pieces(self, member: Member) -> Iterator[bytes]:
        """The content of a table. Damaged, after the last piece, when it is not what the manifest says."""
        digest, size = hashlib.sha256(), 0
        with _zip_errors(), self._archive.open(name_of(member.table)) as source:
            while piece := source.read(PIECE_BYTES):
                digest.update(piece)
                size += len(piece)
                yield piece
        if size != member.size or digest.hexdigest() != member.sha256:
            raise Damaged("the content is not what the manifest says", path=name_of(member.table))


@contextmanager
def reading(path: Path) -> Iterator[ArchiveReader]:
    """An archive to restore from. Invalid when it is none, or one that no backup has written."""
    try:
        with _zip_errors():
            archive = zipfile.ZipFile(path)
    except Invalid as error:
        raise no_backup(path) from error
    with archive:
        yield ArchiveReader(archive, path.stat().st_size)


def no_backup(path: Path) -> Invalid:
    """What a file is told that is something else, or a backup of the other kind."""
    hint = "name another file; a backup of PostgreSQL is restored into PostgreSQL, one of SQLite into a file"
    return Invalid(f"{path.name} is not a backup that Perdure made", path=str(path), hint=hint)


@contextmanager
def _zip_errors() -> Iterator[None]:
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
        raise Invalid(f"not an archive of a backup: {error}", path="source") from None


def _members(archive: zipfile.ZipFile, size: int) -> dict[str, zipfile.ZipInfo]:
    """The members by name. What could lead outside, unfold or hide is refused by what is allowed at all."""
    found = archive.infolist()
    members = {info.filename: info for info in found}
    if len(found) > MEMBERS_MAX or len(members) != len(found):
        raise Invalid("too many members, or one name twice", path="source")
    for info in found:
        plain = info.compress_type == zipfile.ZIP_STORED and info.file_size == info.compress_size
        if not plain or info.flag_bits & 0x1:
            raise Invalid("a member is compressed or encrypted; a backup stores them plain", path="source")
    if sum(info.file_size for info in found) > size:
        raise Invalid("the members are larger than the archive", path="source")
    return members


def _manifest(archive: zipfile.ZipFile, members: dict[str, zipfile.ZipInfo]) -> Manifest:
    if MANIFEST not in members or members[MANIFEST].file_size > MANIFEST_MAX_BYTES:
        raise Invalid("there is no manifest of a backup in it", path="source")
    with _zip_errors():
        text = archive.read(MANIFEST)
    try:
        manifest = msgspec.json.decode(text, type=Manifest)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Invalid(f"the manifest is not readable: {error}", path=MANIFEST) from None
    if (manifest.format, manifest.kind) != (FORMAT, KIND):
        raise Invalid(f"unknown kind or format of archive; this Perdure reads {KIND} {FORMAT}", path=MANIFEST)
    if not (_HEX.fullmatch(manifest.store) and len(manifest.store) == 32 and 0 < manifest.epoch < 2**31):
        raise Invalid("the manifest names no store", path=MANIFEST)
    return manifest


def _check_members(manifest: Manifest, members: dict[str, zipfile.ZipInfo]) -> None:
    tables = [member.table for member in manifest.tables]
    names = [table for member in manifest.tables for table in (member.table, *member.columns)]
    if not all(_NAME.fullmatch(name) for name in names) or len(set(tables)) != len(tables):
        raise Invalid("the manifest names something that is no table or column", path=MANIFEST)
    if {name_of(table) for table in tables} | {MANIFEST} != members.keys():
        raise Invalid("the members are not those that the manifest names", path=MANIFEST)
