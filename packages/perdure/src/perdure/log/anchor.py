"""Anchors: a signed statement over all chain heads, to be kept elsewhere. With one, a cut tail or a lost stream shows (P6).

FORMAT 1 (integers big-endian)

    leaf    = sha256(0x00 ‖ stream uid[16] ‖ seq u64 ‖ hash[32]), sorted by uid, seq, hash
    node    = sha256(0x01 ‖ left ‖ right), split at the largest power of two below the count (as RFC 6962)
    root    = the last node; of one head its leaf, of none sha256("")
    signed  = "perdure.anchor.1" ‖ 0x00 ‖ store uid[16] ‖ epoch u64 ‖ instant i64 µs ‖ count u64 ‖ root[32]
    by Ed25519

Pure but for the signature, which needs the extra `crypto`. Callers: planes.integrity, and whoever keeps
anchors.
"""

from __future__ import annotations

import hashlib
import re
import struct
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import msgspec

from perdure.errors import Invalid, Refused

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

FORMAT = 1
ANCHOR_MAX_BYTES = 1024 * 1024 * 1024

_DOMAIN = b"perdure.anchor.1\0"
_LEAF = struct.Struct(">c16sQ32s")
_SIGNED = struct.Struct(">17s16sQqQ32s")
_SEQ_MAX = 2**62

AnchoredHead = tuple[str, int, str]  # stream uid, sequence, hash; both in hex


class Anchor(msgspec.Struct, frozen=True):
    """A statement of all chain heads of a store at one instant. `signature` and `key` (the public key's sha256) are empty when
    unsigned.
    """

    format: int
    store: str
    epoch: int
    at: int
    heads: list[AnchoredHead]
    root: str
    signature: str = ""
    key: str = ""

    def to_json(self) -> str:
        """Return the anchor as text. Keep it where the store's own administrators cannot change it."""
        return msgspec.json.encode(self).decode()

    @classmethod
    def from_json(cls, text: str | bytes) -> Anchor:
        """Read an anchor. Raises Invalid, with the path, for any text that `to_json` did not return."""
        if len(text) > ANCHOR_MAX_BYTES:
            raise Invalid(f"{len(text)} bytes are too many for an anchor", path="anchor")
        try:
            anchor = msgspec.json.decode(text, type=cls)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise Invalid(f"not an anchor: {error}", path="anchor") from None
        _check_shape(anchor)
        return anchor


def _check_shape(anchor: Anchor) -> None:
    if anchor.format != FORMAT:
        raise Invalid(f"unknown format {anchor.format}; this Perdure knows {FORMAT}", path="anchor.format")
    _check_hex(anchor.store, 16, "anchor.store")
    _check_hex(anchor.root, 32, "anchor.root")
    _check_number(anchor.epoch, 1, "anchor.epoch")
    _check_number(anchor.at, -_SEQ_MAX, "anchor.at")
    if anchor.signature or anchor.key:
        _check_hex(anchor.signature, 64, "anchor.signature")
        _check_hex(anchor.key, 32, "anchor.key")
    for place, (uid, seq, digest) in enumerate(anchor.heads):
        _check_hex(uid, 16, f"anchor.heads[{place}]")
        _check_hex(digest, 32, f"anchor.heads[{place}]")
        _check_number(seq, 1, f"anchor.heads[{place}]")
    if any(head > next_head for head, next_head in pairwise(anchor.heads)):  # two tenants may have one chain
        raise Invalid("the heads are not in order", path="anchor.heads")


def _check_hex(text: str, count: int, path: str) -> None:
    if not re.fullmatch(r"[0-9a-f]*", text, re.ASCII) or len(text) != 2 * count:
        raise Invalid(f"expected {count} bytes as lower-case hexadecimal digits", path=path)


def _check_number(number: int, least: int, path: str) -> None:
    if not least <= number < _SEQ_MAX:
        raise Invalid(f"{number} is out of range", path=path)


def leaf_hash(uid: bytes, seq: int, digest: bytes) -> bytes:
    """The leaf of one head."""
    return hashlib.sha256(_LEAF.pack(b"\0", uid, seq, digest)).digest()


def merkle_root(leaves: Sequence[bytes]) -> bytes:
    """The root over leaves, in their order."""
    if not leaves:
        return hashlib.sha256(b"").digest()
    if len(leaves) == 1:
        return leaves[0]
    split = 1 << (len(leaves) - 1).bit_length() - 1
    return hashlib.sha256(b"\1" + merkle_root(leaves[:split]) + merkle_root(leaves[split:])).digest()


def root_of(heads: Sequence[AnchoredHead]) -> bytes:
    """The root over heads."""
    return merkle_root([leaf_hash(bytes.fromhex(uid), seq, bytes.fromhex(digest)) for uid, seq, digest in heads])


def make_anchor(
    store: str, epoch: int, at: int, heads: Sequence[tuple[bytes, int, bytes]], private_key_pem: bytes | None
) -> Anchor:
    """State these heads, signed if a key is given (Ed25519, PEM). Invalid for another key; Refused without
    the extra."""
    listed = sorted((uid.hex(), seq, digest.hex()) for uid, seq, digest in heads)
    anchor = Anchor(FORMAT, store, epoch, at, listed, root_of(listed).hex())
    if private_key_pem is None:
        return anchor
    key = _private_key(private_key_pem)
    signature = key.sign(_statement(anchor)).hex()
    return msgspec.structs.replace(anchor, signature=signature, key=_fingerprint(key.public_key()))


def faults_of(anchor: Anchor, public_key_pem: bytes | None) -> list[str]:
    """Why the anchor itself does not hold; nothing if it does. Without a key the signature is not looked
    at."""
    faults = []
    if root_of(anchor.heads).hex() != anchor.root:
        faults.append("its root is not the one of its heads")
    if public_key_pem is not None:
        key = _public_key(public_key_pem)
        if not anchor.signature:
            faults.append("it is not signed")
        elif _fingerprint(key) != anchor.key:
            faults.append("it was signed with another key")
        elif not _is_signed_by(anchor, key):
            faults.append("its signature does not hold")
    return faults


def _statement(anchor: Anchor) -> bytes:
    store, root = bytes.fromhex(anchor.store), bytes.fromhex(anchor.root)
    return _SIGNED.pack(_DOMAIN, store, anchor.epoch, anchor.at, len(anchor.heads), root)


def _is_signed_by(anchor: Anchor, key: Ed25519PublicKey) -> bool:
    from cryptography.exceptions import InvalidSignature  # noqa: PLC0415 - an extra

    try:
        key.verify(bytes.fromhex(anchor.signature), _statement(anchor))
    except InvalidSignature:
        return False
    return True


def _private_key(pem: bytes) -> Ed25519PrivateKey:
    from_pem, kind = _serialization().load_pem_private_key, _ed25519().Ed25519PrivateKey
    key = _loaded(lambda: from_pem(_as_bytes(pem, "private_key"), password=None), "private_key")
    if not isinstance(key, kind):
        raise Invalid("the key is not an Ed25519 key", path="private_key", hint="openssl genpkey -algorithm ed25519")
    return key


def _public_key(pem: bytes) -> Ed25519PublicKey:
    from_pem, kind = _serialization().load_pem_public_key, _ed25519().Ed25519PublicKey
    key = _loaded(lambda: from_pem(_as_bytes(pem, "public_key")), "public_key")
    if not isinstance(key, kind):
        raise Invalid("the key is not an Ed25519 key", path="public_key", hint="openssl pkey -pubout")
    return key


def _as_bytes(pem: object, path: str) -> bytes:
    if not isinstance(pem, bytes):
        raise Invalid(f"expected the bytes of a PEM file, got {type(pem).__name__}", path=path)
    return pem


def _loaded(load: Any, path: str) -> Any:
    from cryptography.exceptions import UnsupportedAlgorithm  # noqa: PLC0415 - an extra

    try:
        return load()
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise Invalid(f"not a usable PEM key: {error}", path=path) from None


def _fingerprint(key: Ed25519PublicKey) -> str:
    return hashlib.sha256(key.public_bytes_raw()).hexdigest()


def _serialization() -> Any:
    return _crypto("cryptography.hazmat.primitives.serialization")


def _ed25519() -> Any:
    return _crypto("cryptography.hazmat.primitives.asymmetric.ed25519")


def _crypto(module: str) -> Any:
    from importlib import import_module  # noqa: PLC0415 - beside its one use

    try:
        return import_module(module)
    except ImportError:
        raise Refused("signing anchors needs an extra", path="anchor", hint="pip install 'perdure[crypto]'") from None
