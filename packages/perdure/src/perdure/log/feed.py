"""The feed's cursor: a position in the order of all events of a store, opaque to who holds it.

It carries the store and its epoch: a restore raises the epoch, after which positions of before mean nothing.
Order is (xid, pos): on PostgreSQL positions are given out before commit, so the transaction comes first and
readers stop at the oldest one in flight; elsewhere xid is 0. Callers: planes/feed. Keeps P10, P15.
"""

from __future__ import annotations

import binascii
import hashlib
import struct
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import NamedTuple

from perdure.errors import Invalid, Stale

_FORMAT = struct.Struct(">BH4sQQQ")  # version, check, store, epoch, xid, pos: 31 bytes
_VERSION = 1
_MAX = 2**63 - 1


class Position(NamedTuple):
    """A place in the feed: after this event."""

    xid: int = 0
    pos: int = 0


def encode_cursor(store_uid: str, epoch: int, position: Position) -> str:
    """The cursor as a string."""
    store = hashlib.sha256(store_uid.encode()).digest()[:4]
    body = _FORMAT.pack(_VERSION, 0, store, epoch, *position)
    return urlsafe_b64encode(body[:1] + _check(body) + body[3:]).decode().rstrip("=")


def decode_cursor(text: object, store_uid: str, epoch: int, path: str = "after") -> Position:
    """The position of a cursor. Invalid when it is none; Stale when it is of another store or of before a
    restore.
    """
    version, check, store, theirs, xid, pos = _unpack(text, path)
    body = _FORMAT.pack(version, 0, store, theirs, xid, pos)
    if version != _VERSION or check != int.from_bytes(_check(body)) or max(xid, pos) > _MAX:
        raise _not_a_cursor(path)
    if store != hashlib.sha256(store_uid.encode()).digest()[:4] or theirs != epoch:
        raise stale(theirs, epoch, path)
    return Position(xid, pos)


def stale(theirs: int, epoch: int, path: str) -> Stale:
    """The refusal of a position from before a restore, with the way out."""
    return Stale(
        f"this cursor is from epoch {theirs}, and the store is in epoch {epoch}: it was restored, or it is another store",
        path=path,
        hint="start again: reset the subscription to 'beginning' or 'end', or read the feed without a cursor",
        epoch=epoch,
    )


def _unpack(text: object, path: str) -> tuple[int, int, bytes, int, int, int]:
    if type(text) is not str or len(text) > 64:
        raise _not_a_cursor(path)
    try:
        return _FORMAT.unpack(urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    except (binascii.Error, ValueError, struct.error):
        raise _not_a_cursor(path) from None


def _check(body: bytes) -> bytes:
    return hashlib.sha256(body).digest()[:2]


def _not_a_cursor(path: str) -> Invalid:
    return Invalid("this is not a cursor of the feed", path=path, hint="pass the `next` of a page of the feed")
