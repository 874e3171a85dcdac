"""Documents: what an event keeps besides its row, read back whether it lies in the body or in a blob."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from perdure.errors import Damaged, Invalid
from perdure.log.event import Body, decode_body
from perdure.log.upcast import BODY_VERSION, newer
from perdure.model.values import from_plain
from perdure.planes.reading.row_reading import stored_address
from perdure.stores.store import Reads

IN_DOCUMENT = ""  # the digest of a row that keeps it in its document, as every row does since schema 5 (decision 0034)


def marked(column: str | None, doc: Mapping[str, Any]) -> str:
    """The digest of what a row was made from: in its document, or in the row itself if that is older. "": it was erased."""
    return column or str(doc.get("digest") or "")


def body_of(reads: Reads, stored: bytes | None, path: str = "event") -> Body:
    """The body of an event with its document in place; an emptied body is an empty one."""
    body = inline_body(stored, path)
    if body.doc_blob:
        stored_address(body.doc_blob, path)
        body.doc = _decode(reads.blob(body.doc_blob), path)
    return body


def inline_body(stored: bytes | None, path: str = "event") -> Body:
    """The body of an event as it lies there; an emptied body is an empty one. NewerSchema if a newer Perdure wrote it."""
    if stored is None:
        return Body(op="note")
    body = decode_body(stored, path)
    if body.v > BODY_VERSION:
        raise newer(body, path)
    return body


def doc_of(reads: Reads, stored: bytes | None, path: str = "event") -> Any:
    """The document of an event, as plain data (see model.values for turning it into values)."""
    return body_of(reads, stored, path).doc


def stored_value(tree: Any, path: str = "event") -> Any:
    """The value of a stored tree. Damaged when the tree is none that we can have written."""
    try:
        return from_plain(tree, path)
    except Invalid as error:
        raise Damaged(f"the stored data is no value: {error.message}", path=error.path) from None


def _decode(data: bytes, path: str) -> Any:
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Damaged(f"the document is not readable: {error}", path=path) from None
