"""WordPiece: the numbers of a text's pieces, as BERT models want them. Pure Python, so that no tokenizer has to be installed.

    pieces = WordPiece(vocabulary)          # one piece a line; the line is its number
    pieces.encode("getUserName fails")      # [101, …, 102]

Lower case, without accents; punctuation and Chinese characters stand alone; a word is cut into the longest pieces that the
vocabulary has. Deterministic and linear in the text. Callers: `planes.memory.minilm`.
"""

from __future__ import annotations

import unicodedata

_WORD_MAX_CHARS = 100  # a longer one is unknown as a whole, as in the original
_KNOWN_MAX = 50_000  # words whose pieces are remembered
_READ_MAX_CHARS = 20_000  # of one text: far more than any model takes
_CHINESE = (
    (0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F), (0x2B740, 0x2B81F), (0x2B820, 0x2CEAF),
    (0xF900, 0xFAFF), (0x2F800, 0x2FA1F),
)  # fmt: skip


class WordPiece:
    """The pieces of one vocabulary."""

    def __init__(self, vocabulary: str, *, tokens_max: int = 256) -> None:
        self._numbers = {piece: i for i, piece in enumerate(vocabulary.splitlines())}
        self._unknown, self._begin, self._end = (self._numbers[name] for name in ("[UNK]", "[CLS]", "[SEP]"))
        self._tokens_max = tokens_max
        self._numbers_by_word: dict[str, list[int]] = {}

    def encode(self, text: str) -> list[int]:
        """The numbers of a text, between those of its beginning and its end; what is too long is cut."""
        numbers: list[int] = []
        for word in _spaced(text[:_READ_MAX_CHARS]).split():
            numbers += self._pieces(word)
            if len(numbers) >= self._tokens_max - 2:
                break
        return [self._begin, *numbers[: self._tokens_max - 2], self._end]

    def _pieces(self, word: str) -> list[int]:
        numbers = self._numbers_by_word.get(word)
        if numbers is None:
            if len(self._numbers_by_word) >= _KNOWN_MAX:
                self._numbers_by_word.clear()
            numbers = self._numbers_by_word[word] = self._cut(word)
        return numbers

    def _cut(self, word: str) -> list[int]:
        if len(word) > _WORD_MAX_CHARS:
            return [self._unknown]
        numbers: list[int] = []
        start = 0
        while start < len(word):
            for end in range(len(word), start, -1):
                number = self._numbers.get(("##" if start else "") + word[start:end])
                if number is not None:
                    break
            else:
                return [self._unknown]
            numbers.append(number)
            start = end
        return numbers


def _spaced(text: str) -> str:
    """Lower case, without accents and control characters, with a space around what stands alone."""
    if not text.isascii():
        text = "".join(f" {char} " if _is_chinese(char) else char for char in text if not _is_control(char))
        text = unicodedata.normalize("NFD", text.lower())
        text = "".join(char for char in text if unicodedata.category(char) != "Mn")
    else:
        text = "".join(char for char in text.lower() if not _is_control(char))
    return "".join(f" {char} " if _stands_alone(char) else char for char in text)


def _is_control(char: str) -> bool:
    if char in "\t\n\r":
        return False
    return char in ("\0", "\ufffd") or unicodedata.category(char) in ("Cc", "Cf", "Co", "Cs")


def _is_chinese(char: str) -> bool:
    code = ord(char)
    return any(first <= code <= last for first, last in _CHINESE)


def _stands_alone(char: str) -> bool:
    if char.isascii():
        return not char.isalnum() and not char.isspace() and char.isprintable()
    return unicodedata.category(char).startswith("P")
