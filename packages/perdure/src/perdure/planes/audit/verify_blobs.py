"""Blobs, verified: every address that a stream needs is there, and its content is what the address says.

Callers: `planes.audit.verify`. Each blob is read once in a run, however many events need it. Keeps P6.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from perdure.artifacts.tree import children
from perdure.errors import Damaged, Error, NotFound
from perdure.log.change import Stream
from perdure.model.records.integrity import ProblemKind
from perdure.planes.audit.rebuild import stored_rows
from perdure.planes.tables import ARTIFACTS, CHECKPOINTS
from perdure.stores.core import Reader
from perdure.stores.statements import Statements

Q = Statements("perdure.planes.audit", "verify.sql")

PAGE_REFS = 500

BlobProblem = tuple[ProblemKind, int | None, str, str]  # kind, seq, table, message
Outside = dict[bytes, int]  # address -> the first event that needs it


class BlobBits:
    """A set of row numbers, one bit each: small for millions of blobs."""

    def __init__(self) -> None:
        self._bits = bytearray()

    def __contains__(self, number: int) -> bool:
        place = number >> 3
        return place < len(self._bits) and bool(self._bits[place] & 1 << (number & 7))

    def add(self, number: int) -> bool:
        """Mark a row; whether it was not marked before."""
        place, bit = number >> 3, 1 << (number & 7)
        if place >= len(self._bits):
            self._bits.extend(bytes(place + 1 - len(self._bits)))
        fresh = not self._bits[place] & bit
        self._bits[place] |= bit
        return fresh


class SeenBlobs:
    """Which blobs were looked at in this run: for their content, and as nodes of a state tree."""

    def __init__(self) -> None:
        self.content = BlobBits()
        self.nodes = BlobBits()
        self.count = 0


def check_blobs(
    reader: Reader, stream: Stream, checked: SeenBlobs, problems: list[BlobProblem], outside: Outside
) -> None:
    """Check the blobs of a stream that lie in the database, in a snapshot; those outside are left to be
    checked.

    Findings go to the two lists at once: if the connection is lost and this runs again, it continues from there.
    """
    check = _Check(reader, stream, checked, problems, outside)
    for row in stored_rows(reader, CHECKPOINTS, stream.id):
        check.walk(row["root"], row["seq"])
    for row in stored_rows(reader, ARTIFACTS, stream.id):
        check.look(row["address"], row["seq"], "artifacts")
    for seq, address, number in _refs(reader, stream):
        if number is None or number not in checked.content:
            check.read(address, seq, "")


def check_outside(reader: Reader, stream: Stream, address: bytes, seq: int) -> list[BlobProblem]:
    """Check a blob in the artifact place, piece by piece. One that was collected meanwhile is no problem."""
    blobs = reader.blobs
    rows = reader.query(Q.blob_row, tenant=stream.tenant, address=address)
    if not rows:
        return []
    try:
        size = sum(len(piece) for piece in blobs.open(stream.tenant, address, rows[0][1:]))
    except Error as error:
        return [(_kind_of(error), seq, "", f"{error.message}: {address.hex()}")]
    if size != rows[0][1]:
        return [(ProblemKind.BLOB_ALTERED, seq, "blobs", f"the row says another size: {address.hex()}")]
    return []


def _refs(reader: Reader, stream: Stream) -> Iterator[tuple[Any, ...]]:
    seq, address = 0, b""
    while True:
        page = reader.query(
            Q.blob_refs_page,
            tenant=stream.tenant,
            stream=stream.id,
            seq=seq,
            address=address,
            limit=PAGE_REFS,
        )
        yield from page
        if len(page) < PAGE_REFS:
            return
        seq, address, _ = page[-1]


class _Check:
    """The blobs of one stream."""

    def __init__(
        self, reader: Reader, stream: Stream, checked: SeenBlobs, problems: list[BlobProblem], outside: Outside
    ) -> None:
        self._reader = reader
        self._tenant = stream.tenant
        self._checked = checked
        self._problems = problems
        self._outside = outside

    def look(self, address: str, seq: int, table: str) -> None:
        """Check a blob that a row names."""
        raw = self._address(address, seq, table)
        if raw is not None:
            self.read(raw, seq, table)

    def read(self, address: bytes, seq: int, table: str) -> None:
        """Check the content, unless it was looked at before; a blob in the place waits."""
        rows = self._reader.query(Q.blob_row, tenant=self._tenant, address=address)
        if not rows:
            self._add(ProblemKind.BLOB_MISSING, seq, table, f"the blob is missing: {address.hex()}")
            return
        number, *row = rows[0]
        if not self._checked.content.add(number):
            return
        self._checked.count += 1
        if row[2] is None:
            self._outside.setdefault(address, seq)
        else:
            self._content(address, tuple(row), seq, table)

    def walk(self, root: str, seq: int) -> None:
        """Check every node of a state tree; a node that was walked before, with all below it, is not walked
        again."""
        first = self._address(root, seq, "checkpoints")
        waiting = [] if first is None else [first]
        while waiting:
            waiting += self._below(waiting.pop(), seq)

    def _below(self, address: bytes, seq: int) -> list[bytes]:
        rows = self._reader.query(Q.blob_row, tenant=self._tenant, address=address)
        if not rows:
            self._add(
                ProblemKind.BLOB_MISSING,
                seq,
                "checkpoints",
                f"a node of the state is missing: {address.hex()}",
            )
            return []
        number, *row = rows[0]
        if not self._checked.nodes.add(number):
            return []
        self._checked.count += self._checked.content.add(number)
        node = self._content(address, tuple(row), seq, "checkpoints")
        if node is None:
            return []
        return self._guarded(lambda: children(node), address, seq, "checkpoints") or []

    def _content(self, address: bytes, row: tuple[Any, ...], seq: int, table: str) -> bytes | None:
        return self._guarded(lambda: self._reader.blobs.read(self._tenant, address, row), address, seq, table)

    def _guarded(self, task: Callable[[], Any], address: bytes, seq: int, table: str) -> Any:
        try:
            return task()
        except Error as error:
            self._add(_kind_of(error), seq, table, f"{error.message}: {address.hex()}")
            return None

    def _address(self, text: str, seq: int, table: str) -> bytes | None:
        try:
            return bytes.fromhex(text)
        except ValueError:
            self._add(ProblemKind.BLOB_MISSING, seq, table, "the row names no address")
            return None

    def _add(self, kind: ProblemKind, seq: int, table: str, message: str) -> None:
        self._problems.append((kind, seq, table, message))


def _kind_of(error: Error) -> ProblemKind:
    """Whether the blob is not there or not right. A place that cannot answer at all is not a finding."""
    if isinstance(error, Damaged) and not isinstance(error.__cause__, NotFound):
        return ProblemKind.BLOB_ALTERED
    if isinstance(error, (Damaged, NotFound)):
        return ProblemKind.BLOB_MISSING
    raise error
