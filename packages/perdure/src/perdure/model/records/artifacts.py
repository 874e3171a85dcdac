"""Records of artifacts, and of the collection of unused blobs."""

from __future__ import annotations

from datetime import datetime

import msgspec

from perdure.model.refs import Ref


class ArtifactRecord(msgspec.Struct, frozen=True):
    """One version of an artifact. `hash` is the sha256 of its content, in hex: equal content is stored once."""

    seq: int
    session: str
    name: str
    media_type: str
    size: int
    hash: str
    at: datetime
    actor: str
    ref: Ref


class CollectReport(msgspec.Struct, frozen=True):
    """The blobs that a collection removed, or with `dry_run` would remove.

    blobs, bytes: rows that nothing referred to, and the size of their content.
    files: files in the place of artifacts without a row.
    leftovers: remains of writes whose process died.
    addresses: of all blobs and files, in hex.
    """

    blobs: int
    bytes: int
    files: int
    leftovers: int
    addresses: tuple[str, ...]
    dry_run: bool
