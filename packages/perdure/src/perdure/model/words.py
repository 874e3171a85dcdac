"""The words of a text, as they are searched for: one function of ours, so that every store finds the same (P9).

    words("getUserName fails in src/auth.py since v1.2.3")
    ['getusername', 'get', 'user', 'name', 'fail', 'src/auth.py', 'src', 'auth', 'py', 'sinc', 'v1.2.3', '1.2.3', 'v1']

Case and accents go, English words are stemmed, stop words are left out. A name of several parts (camelCase, snake_case, a
path, a version, an address) gives itself and its parts. Scripts without spaces give every two neighbouring characters.
Deterministic and linear. Callers: `planes.memory`. A change of what this gives raises VERSION: indexes are then made anew.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

from perdure.model.stems import stem

VERSION = 1
WORD_MAX_CHARS = 64  # longer ones are hashes, keys and encoded bytes, which nobody types
_KNOWN_MAX = 50_000  # tokens whose words are remembered

# Kana, Han, Hangul, Thai, Lao, Burmese, Khmer: written without spaces, or joined by endings.
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af"
    "\U00020000-\U0003ffff"
)
_MARKS = "\u0300-\u036f\u0591-\u05c7\u064b-\u065f\u0900-\u0dff"  # written on or around letters, and part of a word
_LETTER = rf"(?:[^\W_{_UNSPACED}]|[{_MARKS}])"
_JOINT = r"[._/\\:@#+\-]{1,3}"
_TOKEN = re.compile(rf"[{_UNSPACED}]+|_*{_LETTER}+(?:{_JOINT}{_LETTER}+)*(?:[+#]{{1,2}}(?!\w))?")
_CONTRACTED = re.compile(r"(?<=\w)['\u2019](?:s|t|re|ve|ll|d|m)\b", re.IGNORECASE)
_PART = re.compile(rf"{_LETTER}+")
_HUMPS = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|[0-9]+")
_IS_HUMPED = re.compile(r"[a-z0-9][A-Z]|[A-Z][A-Z][a-z]")
_NUMBERS = re.compile(r"[0-9]+(?:\.[0-9]+)+")
_ACCENTS = re.compile("[\u0300-\u036f\u0591-\u05c7\u064b-\u065f]")
_IS_UNSPACED = re.compile(f"[{_UNSPACED}]")

_STOP_WORDS = """
a about above after again against all am an and any are aren as at be because been before being below between
both but by can cannot could couldn did didn do does doesn doing don down during each few for from further had
hadn has hasn have haven having he her here hers herself him himself his how i if in into is isn it its itself
just let ll me more most must my myself no nor not now of off on once only or other ought our ours ourselves
out over own re same shan she should shouldn so some such than that the their theirs them themselves then
there these they this those through to too under until up ve very was wasn we were weren what when where which
while who whom why will with won would wouldn you your yours yourself yourselves
"""
STOP_WORDS = frozenset(_STOP_WORDS.split())

_words_by_token: dict[str, tuple[str, ...]] = {}


def words(text: str) -> list[str]:
    """Every word of a text in its order, repeated as often as it is said."""
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
    all_words: list[str] = []
    for token in _TOKEN.findall(_CONTRACTED.sub("", text)):
        token_words = _words_by_token.get(token)
        all_words += _remember(token) if token_words is None else token_words
    return all_words


def _remember(token: str) -> tuple[str, ...]:
    if len(_words_by_token) >= _KNOWN_MAX:
        _words_by_token.clear()
    token_words = _words_by_token[token] = tuple(word for word in _words_of(token) if 0 < len(word) <= WORD_MAX_CHARS)
    return token_words


def _words_of(token: str) -> Iterator[str]:
    if _IS_UNSPACED.match(token):
        return _pairs(token)
    parts = [part for run in _PART.findall(token) for part in _humps(run)]
    return _compound(token, parts) if len(parts) > 1 else _plain(token)


def _pairs(run: str) -> Iterator[str]:
    """Each character with the next one; one that stands alone as it is."""
    if len(run) == 1:
        yield run
    for start in range(len(run) - 1):
        yield run[start : start + 2]


def _humps(run: str) -> list[str]:
    return _HUMPS.findall(run) if run.isascii() and _IS_HUMPED.search(run) else [run]


def _compound(token: str, parts: list[str]) -> Iterator[str]:
    """A name of several parts: itself, the version in it, and each part that is more than a letter or digit."""
    full_name = _folded(token).strip("_")
    yield full_name
    yield from (number for number in _NUMBERS.findall(full_name) if number != full_name)
    for part in parts:
        if len(part) > 1:
            yield from _plain(part)


def _plain(word: str) -> Iterator[str]:
    folded = _folded(word).strip("_")
    if folded not in STOP_WORDS:
        yield stem(folded) if folded.isascii() and folded.isalpha() else folded


def _folded(word: str) -> str:
    """Without case and accents."""
    if word.isascii():
        return word.lower()
    bare = _ACCENTS.sub("", unicodedata.normalize("NFKD", word.casefold()))
    return unicodedata.normalize("NFC", bare)
