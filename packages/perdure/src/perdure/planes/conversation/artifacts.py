"""Artifacts: files that an agent made or was given, by name and version. The plane behind `attach artifacts
artifact`.

The content is a blob: stored once for a tenant, in the database while small, in the artifact place when
large. A large one is durable before its reference is committed (P1); its address is pinned while it is on its
way, so that a collection spares it. Keeps P6 (content is verified when read), P8, P10, P11 (an address of
another tenant is not found).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from mimetypes import MimeTypes
from pathlib import PurePath
from typing import Any, NamedTuple

from perdure.artifacts.local import Source, pieces_from, rejoined, split_at
from perdure.artifacts.place import ADDRESS
from perdure.errors import Conflict, Invalid, NotFound, TooLarge
from perdure.log.change import Change, Stream
from perdure.model.filters import ArtifactFilters, filter_params
from perdure.model.instants import SECOND_US, to_datetime
from perdure.model.limits import (
    BLOB_IN_DATABASE_MAX_BYTES,
    VALUE_MAX_BYTES,
    check_name,
    check_page,
)
from perdure.model.records.artifacts import ArtifactRecord
from perdure.model.refs import Ref
from perdure.planes import subjects
from perdure.planes.reading.durations import between
from perdure.planes.reading.lineage import MAX_SEQ, segments, touching
from perdure.planes.reading.paging import Page, decode_cursor, encode_cursor
from perdure.planes.reading.row_reading import stored_address, stored_instant
from perdure.planes.tables import ARTIFACTS, BLOB_PINS
from perdure.stores.blobs import BlobRow, Blobs
from perdure.stores.statements import Statements
from perdure.stores.store import Reads
from perdure.stores.tx import Tx

Q = Statements("perdure.planes.conversation", "artifacts.sql")

PIN_US = 24 * 3600 * SECOND_US  # how long a writer that died keeps a collection from what it had put
UNKNOWN_TYPE = "application/octet-stream"
_LISTED = "`perdure artifacts` lists them"
LEAST_DIGITS = 8  # of an address that is given by its beginning
BEGINNING = re.compile(f"[0-9a-f]{{{LEAST_DIGITS},64}}")
ALIKE_SHOWN = 20

_TYPES = MimeTypes(filenames=()).types_map[True]  # the ones that every machine has

# -- attaching -------------------------------------------------------------------------------------------


class Details(NamedTuple):
    """The details of an artifact besides its content, checked."""

    name: str
    media_type: str
    about: tuple[str, ...]


def describe(name: str, data: Source, media_type: str | None, about: Iterable[str]) -> Details:
    """Check what is said about an artifact, before anything is stored. A type that is not given follows the
    name."""
    check_name(name, "name")
    if media_type is None:
        media_type = _TYPES.get(PurePath(name).suffix.lower())
        media_type = media_type or ("text/plain" if isinstance(data, str) else UNKNOWN_TYPE)
    return Details(name, check_name(media_type, "media_type"), subjects.named(about))


def address_ahead(blobs: Blobs, data: Source) -> bytes | None:
    """The address of content that will go to the place, where it can be told without reading a stream."""
    if blobs.place is None or not isinstance(data, (bytes, bytearray, memoryview, str)):
        return None
    (content,) = pieces_from(data)
    return hashlib.sha256(content).digest() if len(content) > blobs.inside_max_bytes else None


def pin(tx: Tx, address: bytes, holder: str) -> None:
    """Spare an address from collection while its content is put into the place; `attach` takes the pin away."""
    tx.touch(BLOB_PINS, {"address": address, "holder": holder}, {"expires_at": tx.store_now() + PIN_US})


def take_in(blobs: Blobs, tenant: int, data: Source) -> BlobRow:
    """Store the content, streaming if it is large; returns the row that makes it a blob. Blocking work,
    outside the lane."""
    head, rest = split_at(pieces_from(data), BLOB_IN_DATABASE_MAX_BYTES)
    if blobs.place is not None and len(head) > BLOB_IN_DATABASE_MAX_BYTES:
        stored = blobs.place.put(blobs.partition(tenant), rejoined(head, rest))
        return tenant, bytes.fromhex(stored.address), stored.size, 0, None
    content, beyond = split_at(rejoined(head, rest), VALUE_MAX_BYTES)
    if len(content) > VALUE_MAX_BYTES or next(beyond, None):
        raise TooLarge(
            f"more than {VALUE_MAX_BYTES} bytes do not go into the database",
            path="data",
            hint="open the store with artifacts=",
        )
    return blobs.row_for(tenant, content)[1]


def attach(tx: Tx, stream: Stream, details: Details, row: BlobRow, holder: str) -> ArtifactRecord:
    """Record an artifact whose content was taken in; the same name again is a new version."""
    address = tx.keep_row(row)
    size = row[2]
    if row[4] is None:
        tx.touch(BLOB_PINS, {"address": row[1], "holder": holder}, None)
    columns = {
        "name": details.name, "media_type": details.media_type, "size": size, "address": address,
        "actor": tx.actor, "at": tx.now,
    }  # fmt: skip
    change = Change("artifact.attached", stream, ARTIFACTS, set=columns, blobs=[address], subjects=details.about)
    seq = tx.record(change)
    at = to_datetime(tx.now)
    return ArtifactRecord(
        seq=seq, session=stream.name, name=details.name, media_type=details.media_type, size=size, hash=address,
        at=at, actor=tx.actor, ref=stream.ref(seq),
    )  # fmt: skip


# -- reading ---------------------------------------------------------------------------------------------


def listing(
    reads: Reads,
    stream: Stream,
    name: str | None = None,
    *,
    about: str | None = None,
    limit: int = 50,
    after: str | None = None,
) -> Page[ArtifactRecord]:
    """The artifacts of a session, newest first, all versions, those of a fork's parents included."""
    limit = check_page(limit)
    if name is not None:
        check_name(name, "name")
    upto = MAX_SEQ if after is None else decode_cursor(after, 1)[0] - 1
    rows = _rows(reads, stream, name, upto, limit + 1, about)
    records = [_record(row) for row in rows[:limit]]
    return Page(records, encode_cursor(records[-1].seq) if len(rows) > limit else None)


def _rows(
    reads: Reads, stream: Stream, name: str | None, upto: int, limit: int, about: str | None = None
) -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = []
    for part in segments(reads, stream, upto):
        if len(rows) < limit:
            rows += reads.query(
                Q.artifacts_page,
                touches=touching(ARTIFACTS, stream, part.stream),
                **part._asdict(),
                name=name,
                about=subjects.wanted_here(reads, part.stream, about),
                limit=limit - len(rows),
            )
    return rows


def newest(reads: Reads, stream: Stream, name: str) -> ArtifactRecord:
    """The newest version of an artifact; NotFound when the session has none of this name."""
    rows = _rows(reads, stream, check_name(name, "name"), MAX_SEQ, 1)
    if not rows:
        raise NotFound(f"{stream.kind} {stream.name!r} has no artifact {name!r}", path="name")
    return _record(rows[0])


def across(reads: Reads, asked: ArtifactFilters) -> Page[ArtifactRecord]:
    """The artifacts of all sessions of a tenant, newest first."""
    limit = check_page(asked.limit)
    last = decode_cursor(asked.after, 3) if asked.after is not None else (None, None, None)
    rows = reads.query(
        Q.artifacts_across, tenant=reads.tenant, limit=limit + 1, last_at=last[0], last_stream=last[1], last_seq=last[2],
        **{**filter_params(asked), **between(reads, asked.since, asked.until)._asdict()},
    )  # fmt: skip
    return Page([_record(row) for row in rows[:limit]], _cursor(rows[limit - 1]) if len(rows) > limit else None)


def _cursor(row: tuple[Any, ...]) -> str:
    return encode_cursor(row[6], row[9], row[0])  # at, stream, seq


def by_address(reads: Reads, address: str) -> ArtifactRecord:
    """The newest artifact with this content; NotFound when this tenant has none, whoever else may. The first digits of the
    address will do; Conflict when several begin so.
    """
    if type(address) is not str or BEGINNING.fullmatch(address) is None:
        message = f"expected a sha256 in lower-case hexadecimal, at least {LEAST_DIGITS} digits of it"
        raise Invalid(message, path="hash", hint=_LISTED)
    rows = reads.query(Q.artifact_by_address, tenant=reads.tenant, address=_full_address(reads, address))
    if not rows:
        raise NotFound(f"there is no artifact {address}", path="hash", hint=_LISTED)
    return _record(rows[0])


def _full_address(reads: Reads, digits: str) -> str:
    """The address that begins so; the digits themselves when none does."""
    if ADDRESS.fullmatch(digits):
        return digits
    # No digit comes after f.
    rows = reads.query(Q.addresses_between, tenant=reads.tenant, low=digits, high=f"{digits}g", limit=ALIKE_SHOWN + 1)
    addresses = [address for (address,) in rows]
    if len(addresses) > 1:
        count = f"{len(addresses)}" if len(addresses) <= ALIKE_SHOWN else f"more than {ALIKE_SHOWN}"
        message = f"{count} artifacts begin with {digits}: {', '.join(addresses[:ALIKE_SHOWN])}"
        raise Conflict(message, path="hash", hint="give more digits")
    return addresses[0] if addresses else digits


def _record(row: tuple[Any, ...]) -> ArtifactRecord:
    seq, session, name, media_type, size, address, at, actor, uid, _stream = row
    ref = Ref(bytes(uid).hex(), seq)
    when = stored_instant(at, f"{session} seq {seq}")
    stored_address(address, f"{session} seq {seq}")
    return ArtifactRecord(
        seq=seq, session=session, name=name, media_type=media_type, size=size, hash=address, at=when, actor=actor,
        ref=ref,
    )  # fmt: skip


def content(reads: Reads, address: str) -> bytes:
    """The whole content, verified."""
    return reads.blob(address)


def pieces(reads: Reads, address: str) -> Iterator[bytes]:
    """The content piece by piece; Damaged comes before the last one."""
    return reads.open_blob(address)


def next_piece(rest: Iterator[bytes]) -> bytes:
    """The next piece of a content, b"" at its end. Blocking work."""
    return next(filter(None, rest), b"")
