"""The event: a header, which is hashed, and a body, which can go. FORMAT 1, fixed for ever (docs/decisions/0001).

    commitment = sha256("perdure.body.1" ‖ 0x00 ‖ salt[16] ‖ body)
    hash       = sha256("perdure.event.1" ‖ 0x00 ‖ stream uid[16] ‖ seq u64 ‖ previous hash[32] ‖ instant i64 µs ‖ codec u16
                        ‖ commitment[32] ‖ len u16, kind ‖ len u16, table ‖ len u16, actor)        (integers big-endian)

The first event of a stream follows 32 zero bytes at sequence 1; the first event of a fork follows its parent's event: the
previous hash is that event's and the sequence continues from it. Body (codec 1): one JSON object, see `Body`. Codec 2 is a
sealed body: 0x02 ‖ len u8, name of its key (ASCII) ‖ sealed bytes. No version seals yet; a reader says which key it lacks.
Fields that differ between stores (tenant, names, integer ids, position, transaction id) are not in the header. Keeps P5, P6.
"""

from __future__ import annotations

import hashlib
import struct
from functools import lru_cache
from typing import Any

import msgspec

from perdure.errors import Damaged, Refused
from perdure.model.refs import Ref  # records name it too, and they come before the log

GENESIS = bytes(32)
SALT_BYTES = 16
CODEC_JSON = 1
CODEC_SEALED = 2

_BODY_DOMAIN = b"perdure.body.1\0"
_EVENT_DOMAIN = b"perdure.event.1\0"
_FIXED = struct.Struct(">16s16sQ32sqH32s")
_LENGTH = struct.Struct(">H")
assert len(_EVENT_DOMAIN) == 16


class Body(msgspec.Struct, omit_defaults=True):
    """The content of an event, apart from its header. Absent fields are empty.

    op: insert | set | delete | base (a base restates a whole row) | note (an event that changes no row)
    key: the row; empty on the insert into a sequenced table. set: columns and their new values.
    mark: a column that takes this event's sequence number, because this event holds a document of that row.
    doc: what is kept only here. doc_blob: its address when it is large. blobs: all addresses that this event needs.
    pin: digest of the software versions in force. calls: (id, tool) of the tool calls that a turn makes.
    v: body version, see `upcast`.
    """

    op: str = "insert"
    key: dict[str, Any] = {}
    set: dict[str, Any] = {}
    mark: str = ""
    doc: Any = None
    doc_blob: str = ""
    blobs: list[str] = []
    refs: list[Ref] = []
    subjects: list[str] = []
    derived_from: list[Ref] = []
    pin: str = ""
    calls: list[tuple[str, str]] = []
    v: int = 1


class Event(msgspec.Struct, frozen=True):
    """One event as stored. `salt` and `body` are None once the body was pruned or erased."""

    seq: int
    kind: str
    table: str
    actor: str
    at: int
    codec: int
    commitment: bytes
    hash: bytes
    salt: bytes | None
    body: bytes | None
    tx: bytes = b""
    position: int = 0
    stream: int = 0


encode_body = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Body).decode


def decode_body(data: bytes, path: str = "event") -> Body:
    """Read a body; hostile bytes give Damaged."""
    try:
        return _decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        key = key_named(data)
        if key is not None:
            hint = "upgrade perdure: this version opens no sealed body"
            raise Refused(f"the body is sealed with the key {key!r}", path=path, hint=hint) from None
        raise Damaged(f"the body is not readable: {error}", path=path) from None


def key_named(data: bytes) -> str | None:
    """The name of the key that seals a body (codec 2); None when it is not sealed. JSON never begins with its first byte."""
    length = data[1] if len(data) > 1 and data[0] == CODEC_SEALED else 0
    name = data[2 : 2 + length]
    return name.decode("ascii") if length and len(name) == length and name.isascii() else None


def commit_to(salt: bytes, body: bytes) -> bytes:
    """The commitment that stands for a body in the header."""
    return hashlib.sha256(_BODY_DOMAIN + salt + body).digest()


@lru_cache(maxsize=4096)
def _names(kind: str, table: str, actor: str) -> bytes:
    parts = [name.encode() for name in (kind, table, actor)]
    return b"".join(_LENGTH.pack(len(part)) + part for part in parts)


def hash_header(
    uid: bytes, seq: int, previous: bytes, kind: str, table: str, actor: str, at: int, codec: int, commitment: bytes
) -> bytes:
    """The hash of an event, which is what the next one follows."""
    fixed = _FIXED.pack(_EVENT_DOMAIN, uid, seq, previous, at, codec, commitment)
    return hashlib.sha256(fixed + _names(kind, table, actor)).digest()


def hash_event(uid: bytes, event: Event, previous: bytes) -> bytes:
    """The hash that a stored event should have after `previous`."""
    return hash_header(
        uid, event.seq, previous, event.kind, event.table, event.actor, event.at, event.codec, event.commitment
    )
