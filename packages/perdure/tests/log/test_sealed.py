"""Room for sealed bodies: a reader that cannot open one says which key it lacks, and takes nothing else for one (P10)."""

from __future__ import annotations

import pytest

from perdure.errors import Damaged, Refused
from perdure.log.event import CODEC_SEALED, Body, decode_body, encode_body, key_named

SEALED = bytes([CODEC_SEALED, 3]) + b"k-1" + bytes(range(40))


def test_a_sealed_body_names_its_key():
    assert key_named(SEALED) == "k-1"
    with pytest.raises(Refused, match="k-1"):
        decode_body(SEALED)


@pytest.mark.parametrize(
    "data", [b"", b"\x02", b"\x02\x00abc", b"\x02\x09abc", b"\x02\x02\xff\xff", b"\x01\x03abc", b"{", b"null"]
)
def test_what_only_looks_like_one_is_damage(data):
    assert key_named(data) is None
    with pytest.raises(Damaged):
        decode_body(data)


def test_control_a_plain_body_is_none():
    assert key_named(encode_body(Body(doc={"a": 1}))) is None
