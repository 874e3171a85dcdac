"""How many tokens a text takes at most, without anybody's tokenizer: by the class of its characters.

    estimate("Login fails on Safari")     5

A pack must fit whatever model reads it, so the estimate errs upward: on whole packs it lies above what the tokenizers that can
be had offline give (docs/guide/boot.md has the table); a single line may be under. It is never above the length in UTF-8, which
bounds every byte-level tokenizer. The estimates of a text's lines never add up to less than the estimate of the text. Pure and
linear. Callers: `boot`.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable
from functools import lru_cache

_UNIT = 20  # of one token: costs are whole numbers, so that sums are exact
# Three groups, because what a run costs depends on its neighbours too: in keys, hashes and encoded bytes; signs whose last one
# mostly belongs to the word after them; and the rest, whose class its own characters tell (`_class_of`).
_RUNS = re.compile(
    r"((?<=[0-9A-Z])[a-z]{1,5}(?![a-z]))"
    r"|([!-/:-@\[-`{-~]*[\"'(.<$@](?=[A-Za-z]{3}))"
    r"|([A-Za-z]*[\u00c0-\u024f\u1e00-\u1eff][A-Za-z\u00c0-\u024f\u1e00-\u1eff]*"
    r"| ?[a-z]+| [A-Z][a-z]+|(?<![A-Za-z0-9])[A-Z][a-z]+|[A-Z][a-z]{3,}"
    r"| [A-Z]{2,}(?![A-Za-z0-9+/=])|(?<![A-Za-z0-9+/=])[A-Z]{2,}(?![A-Za-z0-9+/=])|[A-Z]{4,}"
    r"| +|\n+ *|[!-/:-@\[-`{-~]+\n?|[\x00-\x7f]|[^\x00-\x7f])"
)
_ACCENTED = re.compile("[\u00c0-\u024f\u1e00-\u1eff]")
_WORD_CHARS, _LONG_CHARS = 5, 12  # of a word that is one token; of one that is more than a word
_PIECE_CHARS = 3  # of each further token of a word
_SPACES = 4  # in a row, that are one token
_USUAL_SIGNS = "\u2013\u2014\u2018\u2019\u201c\u201d\u2026\u2022\u2192"
# The first character of a block, and what one of it costs. A character of no block costs its bytes.
_BLOCKS = (
    (0x0080, 30),
    (0x0250, 40),
    (0x0370, 26),  # Greek
    (0x0400, 18),  # Cyrillic
    (0x0530, 40),
    (0x0590, 24),  # Hebrew, Arabic
    (0x064B, 34),  # vowels of Arabic
    (0x0660, 24),
    (0x0700, 40),
    (0x0800, 60),
    (0x0900, 28),  # Devanagari
    (0x0980, 60),
    (0x0E00, 36),  # Thai
    (0x0E80, 60),
    (0x3000, 26),  # signs of Chinese and Japanese, kana
    (0x3100, 60),
    (0x4E00, 26),  # Chinese characters
    (0xA000, 60),
    (0xAC00, 30),  # Korean
    (0xD7B0, 60),
    (0xFF00, 26),  # wide forms
    (0xFFF0, 60),
    (0x10000, 80),
)


def estimate(text: str) -> int:
    """An upper estimate of the tokens of a text."""
    runs = Counter(_RUNS.findall(text))
    return math.ceil(sum(count * _cost_of(run) for run, count in runs.items()) / _UNIT)


@lru_cache(maxsize=20_000)
def _cost_of(run: tuple[str, str, str]) -> int:
    """The cost of a run: at most its bytes."""
    mixed, joined, rest = run
    if mixed:
        return max(_UNIT, 17 * len(mixed))
    if joined:
        return 11 * len(joined) - 3
    return _COSTS[_class_of(rest)](rest)


def _class_of(run: str) -> str:
    first, last = run[0], run[-1]
    if not run.isascii():
        return "accented" if len(run) > 1 or _ACCENTED.match(run) else "others"
    if first == "\n":
        return "lines"
    if run.isspace() and first == " ":
        return "spaces"
    if last.islower():
        return "word"
    if last.isupper() and len(run) > 1:
        return "shouted"
    return "single" if len(run) == 1 and (first.isalnum() or not first.isprintable()) else "signs"


def _word(run: str) -> int:
    letters = len(run) - (run[0] == " ")
    short = min(letters, _LONG_CHARS)
    pieces = 1 + max(0, math.ceil((short - _WORD_CHARS) / _PIECE_CHARS))
    return _UNIT * pieces + 13 * (letters - short)


def _accented(run: str) -> int:
    plain = sum(char.isascii() for char in run)
    western = max(run) < "\u0100"  # of western Europe
    return (11 if western else _UNIT) * plain + (26 if western else 40) * (len(run) - plain)


def _lines(run: str) -> int:
    indent = run.count(" ")
    return _UNIT * math.ceil((len(run) - indent) / 2) + _UNIT // 2 * math.ceil(indent / _SPACES)


def _signs(run: str) -> int:
    return 9 + 11 * len(run) - (8 if run[-1] == "\n" else 0)


def _shouted(run: str) -> int:
    """Keywords and constants; a longer row of capitals may be part of a key."""
    letters = len(run) - (run[0] == " ")
    return _UNIT + 7 * max(0, letters - 4) if letters <= _LONG_CHARS else 9 * letters


def _character(run: str) -> int:
    code = ord(run)
    return 30 if run in _USUAL_SIGNS else next(cost for first, cost in reversed(_BLOCKS) if code >= first)


_COSTS: dict[str, Callable[[str], int]] = {
    "accented": _accented,
    "word": _word,
    "shouted": _shouted,
    "spaces": lambda run: _UNIT * math.ceil(len(run) / _SPACES),
    "lines": _lines,
    "signs": _signs,
    "single": lambda _: _UNIT,
    "others": _character,
}
