from __future__ import annotations

import hashlib
import json
import sys

import msgspec
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from hypothesis import given
from hypothesis import strategies as st

from perdure.errors import Error, Invalid, Refused
from perdure.log.anchor import Anchor, faults_of, leaf_hash, make_anchor, merkle_root, root_of

STORE = "ab" * 16
HEADS = [(bytes([n] * 16), n + 1, bytes([n] * 32)) for n in (3, 1, 2)]


def private_pem(key) -> bytes:
    pem, pkcs8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    return key.private_bytes(pem, pkcs8, serialization.NoEncryption())


def public_pem(key) -> bytes:
    spki = serialization.PublicFormat.SubjectPublicKeyInfo
    return key.public_key().public_bytes(serialization.Encoding.PEM, spki)


KEY = ed25519.Ed25519PrivateKey.from_private_bytes(bytes(32))
OTHER = ed25519.Ed25519PrivateKey.from_private_bytes(bytes([1] * 32))


def signed() -> Anchor:
    return make_anchor(STORE, 2, 1_800_000_000_000_000, HEADS, private_pem(KEY))


def test_the_root_is_the_one_of_rfc_6962() -> None:
    def leaf(n: int) -> bytes:
        return leaf_hash(bytes([n] * 16), n, bytes(32))

    def node(left: bytes, right: bytes) -> bytes:
        return hashlib.sha256(b"\1" + left + right).digest()

    leaves = [leaf(n) for n in range(5)]
    assert merkle_root([]) == hashlib.sha256(b"").digest()
    assert merkle_root(leaves[:1]) == leaves[0]
    assert merkle_root(leaves[:3]) == node(node(leaves[0], leaves[1]), leaves[2])
    left = node(node(leaves[0], leaves[1]), node(leaves[2], leaves[3]))
    assert merkle_root(leaves) == node(left, leaves[4])


def test_an_anchor_survives_json() -> None:
    anchor = signed()
    again = Anchor.from_json(anchor.to_json())
    assert again == anchor
    assert [head[0] for head in again.heads] == sorted(head[0] for head in again.heads)
    assert faults_of(again, public_pem(KEY)) == []


def test_unsigned_is_allowed_and_said() -> None:
    anchor = make_anchor(STORE, 1, 0, HEADS, None)
    assert faults_of(anchor, None) == []
    assert faults_of(anchor, public_pem(KEY)) == ["it is not signed"]


def test_another_key_does_not_hold() -> None:
    assert faults_of(signed(), public_pem(OTHER)) == ["it was signed with another key"]


@pytest.mark.parametrize(
    "fields",
    [
        {"epoch": 3},
        {"at": 1},
        {"store": "cd" * 16},
        {"root": "00" * 32},
        {"signature": "00" * 64},
        {"heads": []},
    ],
)
def test_an_edited_anchor_does_not_hold(fields: dict) -> None:
    assert faults_of(msgspec.structs.replace(signed(), **fields), public_pem(KEY)) != []


def test_edited_heads_do_not_hold() -> None:
    anchor = signed()
    heads = [(uid, seq - 1, digest) for uid, seq, digest in anchor.heads]
    assert faults_of(msgspec.structs.replace(anchor, heads=heads), None) == ["its root is not the one of its heads"]
    forged = msgspec.structs.replace(anchor, heads=heads, root=root_of(heads).hex())
    assert faults_of(forged, public_pem(KEY)) == ["its signature does not hold"]


@pytest.mark.parametrize(
    "pem",
    [b"", b"nonsense", "text", public_pem(KEY), private_pem(ec.generate_private_key(ec.SECP256R1()))],
)
def test_other_keys_are_refused(pem) -> None:
    with pytest.raises(Invalid) as caught:
        make_anchor(STORE, 1, 0, HEADS, pem)
    assert caught.value.path == "private_key"


def test_a_locked_key_is_refused() -> None:
    lock = serialization.BestAvailableEncryption(b"x")
    locked = KEY.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, lock)
    with pytest.raises(Invalid):
        make_anchor(STORE, 1, 0, HEADS, locked)
    with pytest.raises(Invalid) as caught:
        faults_of(signed(), b"nonsense")
    assert caught.value.path == "public_key"


def test_without_the_extra_signing_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("cryptography")]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(Refused, match="pip install"):
        make_anchor(STORE, 1, 0, HEADS, b"key")
    assert make_anchor(STORE, 1, 0, HEADS, None).signature == ""


HOSTILE = {
    "format": [2, 0, "1", None, 1.5],
    "store": ["", "x" * 32, "AB" * 16, "ab" * 15, 7, "ab" * 16 + "\n"],
    "epoch": [0, -1, 2**63, 10**30, "1", True],
    "at": [2**63, "now"],
    "root": ["", "zz" * 32, "ab" * 31],
    "signature": ["00", "é" * 128],
    "key": ["", "00"],
    "heads": [
        {},
        [[]],
        [["ab" * 16, 1]],
        [["ab" * 16, 0, "ab" * 32]],
        [["ab" * 16, 2**63, "ab" * 32]],
        [["ab" * 16, 1, "ab"]],
        [["ab" * 16, 2, "ab" * 32], ["ab" * 16, 1, "ab" * 32]],
        [["ab" * 16, 1, "bb" * 32], ["ab" * 16, 1, "ab" * 32]],
        [["bb" * 16, 1, "ab" * 32], ["ab" * 16, 1, "ab" * 32]],
        "x",
        [None],
    ],
}


@pytest.mark.parametrize(("field", "value"), [(name, it) for name, values in HOSTILE.items() for it in values])
def test_a_hostile_anchor_is_refused(field: str, value) -> None:
    plain = json.loads(signed().to_json())
    with pytest.raises(Invalid) as caught:
        Anchor.from_json(json.dumps(plain | {field: value}))
    assert caught.value.path.startswith("anchor")


def test_two_tenants_may_have_one_chain() -> None:
    heads = [*HEADS, HEADS[0]]
    anchor = make_anchor(STORE, 1, 0, heads, None)
    assert Anchor.from_json(anchor.to_json()) == anchor
    assert len(anchor.heads) == len(HEADS) + 1
    assert faults_of(anchor, None) == []
    once = msgspec.structs.replace(anchor, heads=sorted(set(anchor.heads)))
    assert faults_of(once, None) == [
        "its root is not the one of its heads"
    ]  # how often it is named is part of the root


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "7", '"x"', "[" * 100_000, b"\xff\xfe", b'{"format":1}'])
def test_what_is_no_anchor_is_refused(text) -> None:
    with pytest.raises(Invalid):
        Anchor.from_json(text)


@given(st.binary(max_size=200))
def test_any_bytes_are_refused_with_an_error_of_the_tree(data: bytes) -> None:
    with pytest.raises(Error):
        Anchor.from_json(data)
