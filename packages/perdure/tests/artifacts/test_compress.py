"""Compression and the packed form: what goes in comes out, and nothing hostile gets further than an error."""

from __future__ import annotations

import random
import struct
import sys
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.artifacts import compress
from perdure.artifacts.compress import HEADER_BYTES, RAW, ZSTD, pack, pack_stream, unpack, unpack_stream
from perdure.errors import Damaged, Invalid, TooLarge

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

TEXT = b"the same words again and again, " * 500
NOISE = random.Random(3).randbytes(5000)
MIXED = st.one_of(st.binary(max_size=300), st.binary(min_size=1, max_size=9).map(lambda part: part * 500))


def packed_form(*pieces: bytes) -> bytes:
    payload: list[bytes] = []
    packed = pack_stream(pieces, payload.append)
    return packed.header + b"".join(payload)


def with_header(codec: int, size: int, payload: bytes, *, magic: bytes = b"PDB1", zero: bytes = bytes(3)) -> bytes:
    """A form made by somebody who knows the format: its checksum is right."""
    head = struct.pack(">4sB3sQ", magic, codec, zero, size)
    return head + struct.pack(">I", crc32(head, crc32(payload))) + payload


def unpacked(form: bytes, *, size: int | None = None, step: int = 1 << 20) -> bytes:
    pieces = [form[start : start + step] for start in range(0, len(form), step)]
    return b"".join(unpack_stream(pieces, path="blob:x", size=size))


@given(MIXED)
def test_pack_and_unpack(data: bytes) -> None:
    codec, stored = pack(data)
    assert unpack(codec, stored, len(data)) == data
    assert len(stored) <= len(data)


@given(st.lists(MIXED, max_size=5), st.integers(1, 50))
def test_the_packed_form(pieces: list[bytes], step: int) -> None:
    content = b"".join(pieces)
    assert unpacked(packed_form(*pieces), size=len(content), step=step) == content


def test_the_format_is_the_documented_one() -> None:
    """A form written by hand from the module's docstring; released files must stay readable."""
    assert packed_form(b"small") == with_header(RAW, 5, b"small")
    assert unpacked(with_header(ZSTD, len(TEXT), zstd.compress(TEXT))) == TEXT
    assert HEADER_BYTES == 20


def test_zstd_only_when_it_pays() -> None:
    assert pack(TEXT)[0] == ZSTD
    assert pack(NOISE) == (RAW, NOISE)
    assert pack(b"aaaa") == (RAW, b"aaaa")
    assert pack(b"") == (RAW, b"")


def test_a_large_value_in_one_frame_stays_readable() -> None:
    """The window that we accept is at least the one that we write."""
    data = random.Random(5).randbytes(1 << 16) * 320
    codec, stored = pack(data)
    assert codec == ZSTD
    assert unpack(codec, stored, len(data)) == data


# Hostile and damaged --------------------------------------------------------------------------------------


@pytest.mark.parametrize("announced", [0, 1, 1000, 1 << 20])
def test_a_decompression_bomb_stops_at_the_announced_size(announced: int) -> None:
    bomb = zstd.compress(bytes(64 << 20))
    assert len(bomb) < 10_000
    tracemalloc.start()
    with pytest.raises(Damaged, match="announced"):
        unpack(ZSTD, bomb, announced)
    with pytest.raises(Damaged, match="announced"):
        for _ in unpack_stream([with_header(ZSTD, announced, bomb)], path="blob:x"):
            pass
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes < 4 * (announced + (1 << 20))


def test_the_measure_sees_a_bomb_that_goes_off() -> None:
    """Control for the test above."""
    bomb = zstd.compress(bytes(64 << 20))
    tracemalloc.start()
    unpack(ZSTD, bomb, 64 << 20)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes > 64 << 20


def test_a_frame_that_wants_a_huge_window_is_refused() -> None:
    options: dict[int, int] = {zstd.CompressionParameter.window_log: 27}
    greedy = zstd.ZstdCompressor(options=options)
    frame = greedy.compress(NOISE) + greedy.flush()
    with pytest.raises(Damaged, match="zstd"):
        unpack(ZSTD, frame, len(NOISE))


@pytest.mark.parametrize(
    ("codec", "stored", "size"),
    [
        (RAW, NOISE, len(NOISE) + 1),
        (RAW, NOISE, len(NOISE) - 1),
        (RAW, b"x", -1),
        (2, NOISE, len(NOISE)),
        (-1, NOISE, len(NOISE)),
        (ZSTD, b"", 0),
        (ZSTD, NOISE, len(NOISE)),
        (ZSTD, zstd.compress(TEXT)[:-1], len(TEXT)),
        (ZSTD, zstd.compress(TEXT) + b"x", len(TEXT)),
        (ZSTD, zstd.compress(TEXT) * 2, len(TEXT)),
        (ZSTD, zstd.compress(TEXT) * 2, 2 * len(TEXT)),
        (ZSTD, zstd.compress(TEXT), len(TEXT) + 1),
    ],
)
def test_what_is_not_right_is_damaged(codec: int, stored: bytes, size: int) -> None:
    with pytest.raises(Damaged) as caught:
        unpack(codec, stored, size, path="blob:y")
    assert caught.value.path == "blob:y"
    if size >= 0 and 0 <= codec < 256:
        with pytest.raises(Damaged):
            unpacked(with_header(codec, size, stored))


def test_a_header_that_is_not_ours_is_damaged() -> None:
    for form in (with_header(RAW, 1, b"x", magic=b"PDB2"), with_header(RAW, 2**64 - 1, b"x"), b"", b"PDB1"):
        with pytest.raises(Damaged):
            unpacked(form)
    with pytest.raises(Damaged, match="expected"):
        unpacked(packed_form(TEXT), size=len(TEXT) + 1)


def test_the_checksum_catches_what_zstd_does_not_look_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bit of the frame header that zstd ignores is flipped; without our checksum nobody would notice."""
    form = bytearray(packed_form(TEXT))
    form[HEADER_BYTES + 4] ^= 0b00010000
    with pytest.raises(Damaged, match="checksum"):
        unpacked(bytes(form))
    monkeypatch.setattr(compress, "crc32", lambda *_: struct.unpack_from(">I", form, 16)[0])
    assert unpacked(bytes(form)) == TEXT


@given(st.binary(max_size=200))
def test_any_bytes_give_content_or_damaged(junk: bytes) -> None:
    for form in (junk, with_header(RAW, len(junk), junk)[:100], with_header(ZSTD, 100, junk)):
        try:
            unpacked(form, step=7)
        except Damaged:
            continue


# What is put in -------------------------------------------------------------------------------------------


def test_what_is_not_bytes_is_refused() -> None:
    with pytest.raises(Invalid) as caught:
        packed_form(TEXT, "text")  # type: ignore[arg-type]
    assert caught.value.path == "source"


def test_wider_items_are_seen_as_bytes() -> None:
    assert packed_form(memoryview(TEXT).cast("I")) == packed_form(TEXT)  # type: ignore[arg-type]


def test_a_blob_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compress, "CONTENT_MAX_BYTES", 1000)
    packed_form(NOISE[:1000])
    with pytest.raises(TooLarge, match="1000"):
        packed_form(NOISE[:1000], b"x")


def test_a_compressor_that_is_used_again_gives_the_frames_of_a_new_one() -> None:
    draw = random.Random(4)
    contents = [draw.choice([TEXT, NOISE, b"x" * 90_000])[: draw.randrange(1, 90_000)] for _ in range(200)]
    expected = [zstd.compress(content) for content in contents]
    with ThreadPoolExecutor(3) as pool:
        packed = [*pool.map(pack, contents)]
    assert all(
        data == (frame if codec == ZSTD else content)
        for (codec, data), frame, content in zip(packed, expected, contents, strict=True)
    )
    assert {codec for codec, _ in packed} == {RAW, ZSTD}
