"""Stems of English words by Porter's rules (1980), so that `searching` finds `searched`.

One rule is that of Porter's later stemmer: y becomes i only after a consonant, so that `deploy` and `deployment` meet.

Callers: `model.words`. A stem is no word: it is only compared with other stems. Pure.
"""

from __future__ import annotations

import re

_CONSONANT = "[^aeiou]"  # y is a consonant at the beginning of a word and after a vowel
_VOWEL = "[aeiouy]"
_C, _V = f"{_CONSONANT}[^aeiouy]*", f"{_VOWEL}[aeiou]*"
_ONE = re.compile(f"({_C})?{_V}{_C}")  # at least one run of vowels followed by consonants
_TWO = re.compile(f"({_C})?{_V}{_C}{_V}{_C}")
_HAS_VOWEL = re.compile(f"({_C})?{_VOWEL}")
_SHORT = re.compile(f"{_C}{_VOWEL}[^aeiouwxy]$")
_DOUBLE = re.compile(r"([^aeiouylsz])\1$")

# Suffixes, longest first where one ends in another, and what stands for them.
_STEP_2 = (
    ("ational", "ate"), ("tional", "tion"), ("enci", "ence"), ("anci", "ance"), ("izer", "ize"), ("bli", "ble"), ("alli", "al"),
    ("entli", "ent"), ("eli", "e"), ("ousli", "ous"), ("ization", "ize"), ("ation", "ate"), ("ator", "ate"), ("alism", "al"),
    ("iveness", "ive"), ("fulness", "ful"), ("ousness", "ous"), ("aliti", "al"), ("iviti", "ive"), ("biliti", "ble"),
    ("logi", "log"),
)  # fmt: skip
_STEP_3 = (
    ("icate", "ic"), ("ative", ""), ("alize", "al"), ("iciti", "ic"), ("ical", "ic"), ("ful", ""), ("ness", ""),
)  # fmt: skip
_STEP_4 = re.compile("^(.+?)(al|ance|ence|er|ic|able|ible|ant|ement|ment|ent|ou|ism|ate|iti|ous|ive|ize|(?<=[st])ion)$")


def stem(word: str) -> str:
    """The stem of a lower-case ASCII word; a word of one or two letters is its own."""
    if len(word) < 3:
        return word
    first_y = word[0] == "y"
    word = _plural("Y" + word[1:] if first_y else word)
    word = _ending(word)
    if len(word) > 2 and word[-1] == "y" and word[-2] not in "aeiou":
        word = word[:-1] + "i"
    word = _replaced(_replaced(word, _STEP_2), _STEP_3)
    match = _STEP_4.match(word)
    if match and _TWO.match(match[1]):
        word = match[1]
    word = _without_last(word)
    return "y" + word[1:] if first_y else word


def _plural(word: str) -> str:
    if word.endswith(("sses", "ies")):
        return word[:-2]
    return word[:-1] if word[-1] == "s" and word[-2] != "s" else word


def _ending(word: str) -> str:
    """Without -eed, -ed and -ing, and mended afterwards: hopping is hop, hoping is hope."""
    if word.endswith("eed"):
        return word[:-1] if _ONE.match(word[:-3]) else word
    for suffix in ("ed", "ing"):
        if word.endswith(suffix) and _HAS_VOWEL.match(word[: -len(suffix)]):
            return _mended(word[: -len(suffix)])
    return word


def _mended(root: str) -> str:
    if root.endswith(("at", "bl", "iz")):
        return root + "e"
    if _DOUBLE.search(root):
        return root[:-1]
    return root + "e" if _SHORT.match(root) else root


def _replaced(word: str, suffixes: tuple[tuple[str, str], ...]) -> str:
    for suffix, other in suffixes:
        if word.endswith(suffix):
            root = word[: -len(suffix)]
            return root + other if _ONE.match(root) else word
    return word


def _without_last(word: str) -> str:
    if word[-1] == "e":
        root = word[:-1]
        if _TWO.match(root) or (_ONE.match(root) and not _SHORT.match(root)):
            word = root
    return word[:-1] if word.endswith("ll") and _TWO.match(word) else word
