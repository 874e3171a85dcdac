"""Blobs as the log uses them: small ones in the database, large ones in the artifact place, each once for a tenant.

A blob in the place is durable before its row is committed (P1); what never got a row is an orphan and is collected later.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from perdure.artifacts.compress import RAW, pack, unpack
from perdure.artifacts.place import RESTORE, Place, name_of
from perdure.errors import Damaged, NotFound, Refused, Unavailable
from perdure.model.limits import BLOB_IN_DATABASE_MAX_BYTES, INLINE_MAX_BYTES, VALUE_MAX_BYTES

DOCUMENT_MIN_BYTES = INLINE_MAX_BYTES // 2  # the rest of the body counts too when a document is found too large for it

BlobRow = tuple[int, bytes, int, int, bytes | None]  # BLOB_COLUMNS


class Blobs:
    """Makes and reads blob rows. `owner` keeps stores that share one place apart, a restored copy from its original too."""

    def __init__(
        self, place: Place | None, owner: str, inside_max_bytes: int = BLOB_IN_DATABASE_MAX_BYTES, *, plain_text: bool = False
    ) -> None:  # fmt: skip
        self.place = place
        self._plain_text = plain_text  # a document is stored as it is, so that SQL can read it
        self.elsewhere: str | None = None  # a place that the store has, and that it was not given
        self.inside_max_bytes = inside_max_bytes  # larger blobs go to the place; -1: all do
        self._owner = owner

    def partition(self, tenant: int) -> str:
        """The name under which a tenant's blobs lie in the place."""
        return f"{self._owner}-{tenant}"

    def row_for(self, tenant: int, data: bytes) -> tuple[bytes, BlobRow]:
        """The address of these bytes and the row that keeps them; a large one is put into the place first, durably."""
        address = hashlib.sha256(data).digest()
        if (self.place is not None or self.elsewhere) and len(data) > self.inside_max_bytes:
            self._outside(address).put(self.partition(tenant), [data])
            return address, (tenant, address, len(data), 0, None)
        codec, packed = (RAW, data) if self._plain_text and _is_document(data) else pack(data)
        return address, (tenant, address, len(data), codec, packed)

    def takes_over(self, size: int, codec: int) -> bool:
        """Whether a row that another store packed can stand here as it is: inside the database, and compressed as here."""
        if size > self.inside_max_bytes:
            return False
        return size <= DOCUMENT_MIN_BYTES or (codec == RAW) == self._plain_text

    def read(self, tenant: int, address: bytes, row: tuple[Any, ...] | None) -> bytes:
        """The bytes of a blob row (size, codec, data), verified. Damaged names the address."""
        size, codec, packed = _standing(address, row)
        if packed is None:
            return self._read_outside(tenant, address, size)
        path = name_of(address.hex())
        if size > VALUE_MAX_BYTES:  # no more was ever put inside: whoever says so wants it to be unpacked (P10)
            raise Damaged(f"{size:,} bytes are more than a database keeps", path=path, hint=RESTORE)
        data = unpack(codec, bytes(packed), size, path=path)
        if hashlib.sha256(data).digest() != address:
            raise Damaged("the stored bytes are not the ones that were written", path=path, hint=RESTORE)
        return data

    def open(self, tenant: int, address: bytes, row: tuple[Any, ...] | None) -> Iterator[bytes]:
        """Read a blob piece by piece; a large one never stands in memory. Damaged comes before the last piece."""
        if _standing(address, row)[2] is not None:
            return iter([self.read(tenant, address, row)])
        with self._expected(address):
            return self._outside(address).open(self.partition(tenant), address.hex())

    def _read_outside(self, tenant: int, address: bytes, size: int) -> bytes:
        with self._expected(address):
            return self._outside(address).read(self.partition(tenant), address.hex(), size)

    def _outside(self, address: bytes) -> Place:
        if self.place is not None:
            return self.place
        where = self.elsewhere
        hint = (
            f"open it with artifacts={where!r}, or with ?artifacts={where} in its URL"
            if where
            else "open it with artifacts=…"
        )
        said = f"the large blobs of this store lie at {where}" if where else "the blob lies in an artifact place"
        raise Refused(f"{said}, which was not given", path=name_of(address.hex()), hint=hint)

    def is_held(self) -> bool:
        """Whether the place that was given has anything of this store."""
        return self.place is not None and any(each.startswith(self._owner) for each in self.place.tenants())

    @contextmanager
    def _expected(self, address: bytes) -> Iterator[None]:
        """A row names the place. If the blob is not there, it was lost; if nothing of this store does, it is elsewhere."""
        try:
            yield
        except NotFound as error:
            path = name_of(address.hex())
            if not self.is_held():
                hint = "is it mounted? Open the store with artifacts=… if they lie elsewhere; restore a backup if they are lost"
                raise Unavailable("the artifact place has nothing of this store", path=path, hint=hint) from error
            raise Damaged("the blob is missing from the artifact place", path=path, hint=RESTORE) from error


def _is_document(data: bytes) -> bool:
    """Whether this may be the document of an event: text, of a size at which one becomes a blob."""
    if len(data) <= DOCUMENT_MIN_BYTES:
        return False
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _standing(address: bytes, row: tuple[Any, ...] | None) -> tuple[Any, ...]:
    """The caller found the address in an event: a row that is not there was lost."""
    if row is None:
        raise Damaged("the blob is missing", path=name_of(address.hex()), hint=RESTORE)
    return row
