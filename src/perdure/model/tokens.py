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

_UNIT = 20  # of one token: costs are whole numbers, so that sums are exact
_RUNS = re.compile(
    r"(?P<accented>[A-Za-z]*[\u00c0-\u024f\u1e00-\u1eff][A-Za-z\u00c0-\u024f\u1e00-\u1eff]*)"
    r"|(?P<mixed>(?<=[0-9A-Z])[a-z]{1,5}(?![a-z]))"  # in keys, hashes and encoded bytes
    r"|(?P<word> ?[a-z]+| [A-Z][a-z]+|(?<![A-Za-z0-9])[A-Z][a-z]+|[A-Z][a-z]{3,})"
    r"|(?P<capitals>[A-Z]{4,})"
    r"|(?P<spaces> +)"
    r"|(?P<lines>\n+ *)"
    r"|(?P<joined>[!-/:-@\[-`{-~]*[\"'(.<$@](?=[A-Za-z]{3}))"  # the last one mostly belongs to the word
    r"|(?P<signs>[!-/:-@\[-`{-~]+\n?)"
    r"|(?P<single>[\x00-\x7f])"
    r"|(?P<others>[^\x00-\x7f])"
)
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
    runs = Counter((run.lastgroup or "", run[0]) for run in _RUNS.finditer(text))
    return math.ceil(sum(count * _COSTS[kind](run) for (kind, run), count in runs.items()) / _UNIT)


def _word(run: str) -> int:
    letters = len(run) - (run[0] == " ")
    short = min(letters, _LONG_CHARS)
    pieces = 1 + max(0, math.ceil((short - _WORD_CHARS) / _PIECE_CHARS))
    return _UNIT * pieces + 13 * (letters - short)


def _accented(run: str) -> int:
    plain = sum(each.isascii() for each in run)
    western = max(run) < "\u0100"  # of western Europe
    return (11 if western else _UNIT) * plain + (26 if western else 40) * (len(run) - plain)


def _lines(run: str) -> int:
    indent = run.count(" ")
    return _UNIT * math.ceil((len(run) - indent) / 2) + _UNIT // 2 * math.ceil(indent / _SPACES)


def _signs(run: str) -> int:
    return 8 + 11 * len(run) - (8 if run[-1] == "\n" else 0)


def _character(run: str) -> int:
    code = ord(run)
    return 30 if run in _USUAL_SIGNS else next(cost for first, cost in reversed(_BLOCKS) if code >= first)


# The cost of a run of characters of each class: at most its bytes.
_COSTS: dict[str, Callable[[str], int]] = {
    "accented": _accented,
    "mixed": lambda run: max(_UNIT, 17 * len(run)),
    "word": _word,
    "capitals": lambda run: 9 * len(run),
    "spaces": lambda run: _UNIT * math.ceil(len(run) / _SPACES),
    "lines": _lines,
    "joined": lambda run: 11 * len(run) - 3,
    "signs": _signs,
    "single": lambda run: _UNIT * len(run),
    "others": _character,
}
