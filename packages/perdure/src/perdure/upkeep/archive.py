"""The archive of a PostgreSQL store: what a logical backup is written as, and how a hostile one is refused.

FORMAT 1: a pack (`packing`: a zip file, every member stored as it is)

    manifest.json          see `Manifest`; written last
    tables/<name>.copy     one for each table: PostgreSQL's binary COPY of the columns that the manifest names

Members are read by the names of the manifest and streamed, never unpacked to disk; each is checked against
its sha256. Callers: backup and restore. Keeps P10.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from perdure.errors import Invalid
from perdure.upkeep.zip_container import PackedMember, Packer, ZipPack, packing, unpacking

FORMAT = 1
KIND = "perdure.postgres"
MANIFEST = "manifest.json"
MANIFEST_MAX_BYTES = 4 * 1024 * 1024
MEMBERS_MAX = 500
_ANY_MEMBERS_MAX = 10_000_000
_SQLITE, _ZIP = b"SQLite format 3\0", b"PK\x03\x04"

_NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}", re.ASCII)
_HEX = re.compile(r"[0-9a-f]+", re.ASCII)


class ArchiveTable(msgspec.Struct, frozen=True):
    """One table in the archive."""

    table: str
    columns: list[str]
    rows: int
    size: int
    sha256: str


class ArchiveManifest(msgspec.Struct, frozen=True):
    """The contents of the archive, of which store, at which instant (microseconds)."""

    format: int
    kind: str
    schema: int
    store: str
    epoch: int
    at: int
    note: str
    tables: list[ArchiveTable]


def name_of(table: str) -> str:
    """The name of a table's member."""
    return f"tables/{table}.copy"


class ArchiveWriter:
    """Writes an archive, table by table; the manifest makes it complete."""

    def __init__(self, packer: Packer) -> None:
        self._packer = packer
        self.members: list[ArchiveTable] = []

    def add(self, table: str, columns: list[str], pieces: Iterable[bytes], rows: Callable[[], int]) -> None:
        """Store a table; `rows` is asked after its last piece."""
        packed = self._packer.add(name_of(table), pieces)
        self.members.append(ArchiveTable(table, columns, rows(), packed.size, packed.sha256))

    def finish(self, manifest: ArchiveManifest) -> None:
        """Write the manifest."""
        self._packer.add(MANIFEST, [msgspec.json.format(msgspec.json.encode(manifest), indent=1)])


@contextmanager
def writing(path: Path) -> Iterator[ArchiveWriter]:
    """A new archive in an empty file."""
    with packing(path) as packer:
        yield ArchiveWriter(packer)


class ArchiveReader:
    """An archive that was looked through: its manifest is well formed and names exactly the members that are
    there."""

    def __init__(self, pack: ZipPack) -> None:
        self._pack = pack
        self.manifest = _manifest(pack)
        _check_members(self.manifest, pack)

    def pieces(self, member: ArchiveTable) -> Iterator[bytes]:
        """The content of a table. Damaged, after the last piece, when it is not what the manifest says."""
        return self._pack.pieces(name_of(member.table), PackedMember(member.size, member.sha256))


@contextmanager
def reading(path: Path) -> Iterator[ArchiveReader]:
    """An archive to restore from. Invalid when it is none, or one that no backup has written."""
    with unpacking(path, MEMBERS_MAX, no_backup) as pack:
        yield ArchiveReader(pack)


def no_backup(path: Path) -> Invalid:
    """The error for a file that is no backup, or one of the other kind: it says what the file is, and the command for it."""
    what, hint = _kind_of(path)
    return Invalid(f"{path.name} {what}", path=str(path), hint=hint)


def _kind_of(path: Path) -> tuple[str, str]:
    with path.open("rb") as file:
        begins = file.read(len(_SQLITE))
    if begins == _SQLITE:
        what = "is not a backup that Perdure made of PostgreSQL, but an SQLite database"
        return (
            what,
            "if it is a backup of SQLite or files: restore it as sqlite:///FILE, then `perdure move` it to PostgreSQL",
        )
    if not begins.startswith(_ZIP):
        return "is not a backup that Perdure made", "name another file"
    kind = _kind_in_manifest(path)
    if kind == KIND:
        return "is a backup of PostgreSQL", "restore it into PostgreSQL, then `perdure move` it to another store"
    if kind.startswith("perdure."):
        return f"is not a backup, but {kind}", f"if it is a bundle: perdure import {shlex.quote(path.name)}"
    return "is an archive, but not a backup that Perdure made", "name another file"


def _kind_in_manifest(path: Path) -> str:
    """The kind that a pack names; nothing when it is none of ours."""
    try:
        with unpacking(path, _ANY_MEMBERS_MAX, lambda _: Invalid("no pack")) as pack:
            if not 0 <= pack.size(MANIFEST) <= MANIFEST_MAX_BYTES:
                return ""
            return msgspec.json.decode(pack.read(MANIFEST), type=_Kind).kind
    except (Invalid, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return ""


class _Kind(msgspec.Struct, frozen=True):
    kind: str = ""


def _manifest(pack: ZipPack) -> ArchiveManifest:
    if not 0 <= pack.size(MANIFEST) <= MANIFEST_MAX_BYTES:
        raise Invalid("there is no manifest of a backup in it", path="source")
    try:
        manifest = msgspec.json.decode(pack.read(MANIFEST), type=ArchiveManifest)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Invalid(f"the manifest is not readable: {error}", path=MANIFEST) from None
    if (manifest.format, manifest.kind) != (FORMAT, KIND):
        raise Invalid(f"unknown kind or format of archive; this Perdure reads {KIND} {FORMAT}", path=MANIFEST)
    if not (_HEX.fullmatch(manifest.store) and len(manifest.store) == 32 and 0 < manifest.epoch < 2**31):
        raise Invalid("the manifest names no store", path=MANIFEST)
    return manifest


def _check_members(manifest: ArchiveManifest, pack: ZipPack) -> None:
    tables = [member.table for member in manifest.tables]
    names = [table for member in manifest.tables for table in (member.table, *member.columns)]
    if not all(_NAME.fullmatch(name) for name in names) or len(set(tables)) != len(tables):
        raise Invalid("the manifest names something that is no table or column", path=MANIFEST)
    if {name_of(table) for table in tables} | {MANIFEST} != pack.names:
        raise Invalid("the members are not those that the manifest names", path=MANIFEST)
