"""Where a long thing is cut: boundaries that follow the content, never the position.

Two cutters, both pure and both part of the stored FORMAT (another rule gives the same state another root):
`cut_parts` groups the encoded elements of a list, map or index into runs, `cut_text` cuts a long string.
A boundary depends on the few bytes before it and on the boundary before, so an edit moves the boundaries near
it and those behind fall back into place: what did not change keeps its address. Called by `tree`.
Keeps P8 and P15.

Each cutter has a least size (few nodes), a likely size (what an edit costs) and a greatest size (what it
costs at worst: equal elements, or input made to have no boundary).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import count
from zlib import crc32

PARTS_MIN_BYTES = 512
PARTS_LIKELY_BYTES = 1_536
PARTS_MAX_BYTES = 6_144  # a run ends with the part that reaches it

SMALL_MIN_BYTES = 160  # of lists that are laid out part by part
SMALL_LIKELY_BYTES = 400  # an appended element rewrites about so much

TEXT_MIN_BYTES = 2_560  # a turn of two KB stays in one piece
TEXT_MAX_BYTES = 16_384
TEXT_WINDOW_BYTES = 32

MIXED_PARTS = 16  # so many parts shift an older one out, whatever their lengths

_WORD = 0xFFFF_FFFF
# The chance that a part ends a run is in proportion to its length: so many of 2**32 for each byte.
_PARTS_RATE = 2**32 // (PARTS_LIKELY_BYTES - PARTS_MIN_BYTES)
_SMALL_RATE = 2**32 // (SMALL_LIKELY_BYTES - SMALL_MIN_BYTES)
# Pairs of one of "gwGW7'" and one of " dhlptx048" (by low bits, so of any script): 0.6 to 2.6 % of any text.
_PAIR_CLASSES = bytes(1 if byte & 15 == 7 else 2 if byte & 3 == 0 else 0 for byte in range(256))
_PAIR = re.compile(b"\1\2")
_PAIR_LIMIT = 2**32 // 32  # one pair of 32 is a boundary, by the checksum of the window that it ends


def cut_parts(parts: Sequence[bytes]) -> Iterator[tuple[int, int]]:
    """Yield the runs `(start, stop)` that cover `parts`; none is empty, the last may be short.

    The mix is a rolling one: each part shifts older ones out, after 16 parts when they are tiny, 8 when
    small, 4 when not. One part alone would not do: a list of few distinct elements (flags, states) might have
    no boundary at all, and would then be cut by position.
    """
    return cut_runs(parts, PARTS_MIN_BYTES, _PARTS_RATE)


def cut_small(parts: Sequence[bytes], start: int = 0) -> Iterator[tuple[int, int]]:
    """Yield runs of a quarter of that size: for lists that grow by an element at a time (`parts`).

    start: a boundary that was found before; the runs from there on are those that cutting all of it gives.
    """
    return cut_runs(parts, SMALL_MIN_BYTES, _SMALL_RATE, start)


def cut_runs(parts: Sequence[bytes], least_bytes: int, rate: int, start: int = 0) -> Iterator[tuple[int, int]]:
    """Yield runs of at least so many bytes; rate: the chance to end, for each byte."""
    size = mix = 0
    for part in parts[max(0, start - MIXED_PARTS) : start]:
        mix = _mixed(mix, len(part), crc32(part))
    rest = parts[start:] if start else parts
    for place, length, check in zip(count(start + 1), map(len, rest), map(crc32, rest), strict=False):
        mix = ((mix << (2 if length < 16 else 4 if length < 128 else 8)) + check) & _WORD  # `_mixed`, in place
        size += length
        if size >= least_bytes and (mix < length * rate or size >= PARTS_MAX_BYTES):
            yield start, place
            start, size = place, 0
    if start < len(parts):
        yield start, len(parts)


def _mixed(mix: int, length: int, check: int) -> int:
    return ((mix << (2 if length < 16 else 4 if length < 128 else 8)) + check) & _WORD


def cut_text(text: bytes) -> Iterator[bytes]:
    """Yield the pieces of `text` in order; a cut may fall inside a character.

    Only candidate pairs are looked at (found by `re` in a translated copy), so no Python runs for each byte.
    """
    classes = text.translate(_PAIR_CLASSES)
    start = 0
    while len(text) - start > TEXT_MIN_BYTES:
        stop = _text_boundary(text, classes, start + TEXT_MIN_BYTES, start + TEXT_MAX_BYTES)
        yield text[start:stop]
        start = stop
    if start < len(text):
        yield text[start:]


def _text_boundary(text: bytes, classes: bytes, low: int, high: int) -> int:
    for pair in _PAIR.finditer(classes, low, high):
        stop = pair.end()
        if crc32(text[stop - TEXT_WINDOW_BYTES : stop]) < _PAIR_LIMIT:
            return stop
    return min(high, len(text))
