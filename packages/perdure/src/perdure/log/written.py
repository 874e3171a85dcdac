"""Events and streams as JSON that people can read: the one form in which they leave a database.

Used by the files store (a line of its log) and by bundles. An event's body is embedded as the very text that was hashed, so
`git diff` shows what was said and the chain still verifies. Streams go by uid, tenants by name: integer ids are a store's own.
Reading is hostile: whatever is not exactly this form is Damaged (P10). The hashes are checked by who loads (`stores.replay`).
"""

from __future__ import annotations

from typing import Any

import msgspec

from perdure.errors import Damaged
from perdure.log.change import Stream
from perdure.log.event import CODEC_JSON, Event

_GONE = msgspec.Raw()


class WrittenStream(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A stream as it is written down; `parent` and `fork` (a sequence number) are set on forks. For `uid` see `name_of`."""

    uid: str
    tenant: str
    kind: str
    name: str
    parent: str = ""
    fork: int = 0


class WrittenEvent(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """An event as it is written down. `salt` and `body` are absent once the body is gone."""

    stream: str
    seq: int
    kind: str
    table: str
    actor: str
    at: int
    tx: str
    commitment: str
    hash: str
    codec: int = CODEC_JSON
    salt: str = ""
    body: msgspec.Raw = _GONE


def name_of(uid: bytes, tenant: str = "") -> str:
    """How a text names a stream: by its uid. Two tenants may have one chain: the later of them is named with its tenant."""
    return f"{uid.hex()}@{tenant}" if tenant else uid.hex()


def split_name(name: str, path: str) -> tuple[bytes, str]:
    """The uid that such a name has, and the tenant, if it says one."""
    uid, _, tenant = name.partition("@")
    return from_hex(uid, 16, path), tenant


def stream_written(stream: Stream, name: str, tenant: str, parent: str = "") -> WrittenStream:
    """A stream in the form that every store reads. `name` and `parent` are names as `name_of` makes them."""
    return WrittenStream(name, tenant, stream.kind, stream.name, parent, stream.fork_seq)


def event_written(stream_name: str, event: Event) -> WrittenEvent:
    """An event in the form that every store reads. Damaged when its body could not be found again in a line."""
    return WrittenEvent(
        stream=stream_name, seq=event.seq, kind=event.kind, table=event.table, actor=event.actor, at=event.at,
        tx=event.tx.hex(), commitment=event.commitment.hex(), hash=event.hash.hex(), codec=event.codec,
        salt=(event.salt or b"").hex(), body=_embedded(event),
    )  # fmt: skip


def emptied(written: WrittenEvent) -> WrittenEvent:
    """This event once its body is gone."""
    return msgspec.structs.replace(written, salt="", body=_GONE)


def _embedded(event: Event) -> msgspec.Raw:
    """The body's own text. Only one that is JSON in one line can be embedded: other text would break the line open."""
    body = event.body
    if body is None:
        return _GONE
    if event.codec != CODEC_JSON or b"\n" in body or b"\r" in body:
        raise Damaged(f"a body of codec {event.codec} cannot be written as a line", path=f"seq {event.seq}")
    return msgspec.Raw(body)


def event_read(written: WrittenEvent, path: str) -> Event:
    """The event that was written down; Damaged names the field that cannot be one. Its hash is not checked here."""
    body = bytes(written.body) or None
    if (body is None) != (not written.salt) or body == b"null":
        raise Damaged("a body and its salt go together", path=f"{path}.salt")
    if not 1 <= written.seq < 2**63 or not -(2**63) <= written.at < 2**63 or written.codec != CODEC_JSON:
        raise Damaged("a number is out of range", path=f"{path}.seq")
    commitment, digest, tx, salt = _digests(written, path)
    return Event(
        seq=written.seq, kind=written.kind, table=written.table, actor=written.actor, at=written.at,
        codec=written.codec, commitment=commitment, hash=digest, salt=salt or None, body=body, tx=tx,
    )  # fmt: skip


def _digests(written: WrittenEvent, path: str) -> tuple[bytes, bytes, bytes, bytes]:
    """All that is hexadecimal, read at once: a log of a hundred thousand events is read while somebody waits."""
    text = written.commitment + written.hash + written.tx + written.salt
    if (
        len(written.commitment) == 64
        and len(written.hash) == 64
        and len(written.tx) == 32
        and len(written.salt) in (0, 32)
    ):
        try:
            read = bytes.fromhex(text)
        except ValueError:
            read = b""
        if read.hex() == text:
            return read[:32], read[32:64], read[64:80], read[80:]
    return (
        from_hex(written.commitment, 32, f"{path}.commitment"), from_hex(written.hash, 32, f"{path}.hash"),
        from_hex(written.tx, 16, f"{path}.tx"), from_hex(written.salt, 16, f"{path}.salt") if written.salt else b"",
    )  # fmt: skip


def from_hex(text: str, size: int, path: str) -> bytes:
    """So many bytes, written in lower-case hex and no other way: one value has one form."""
    try:
        data = bytes.fromhex(text)
    except ValueError:
        data = b""
    if len(data) != size or data.hex() != text:
        raise Damaged(f"expected {size * 2} lower-case hexadecimal digits", path=path)
    return data


encode = msgspec.json.Encoder().encode


def decode(data: bytes | str, kind: Any, path: str) -> Any:
    """Read one of these forms; Damaged says what is wrong with it."""
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Damaged(f"not what is written here: {error}", path=path) from None
