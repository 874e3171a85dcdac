"""Our WordPiece: the pieces that the vocabulary has, longest first; never an error, whatever the text is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.model.wordpiece import WordPiece

VOCABULARY = "[PAD]\n[UNK]\n[CLS]\n[SEP]\nget\n##user\n##name\nfails\ncafe\n.\n中\n##s\nun"
NUMBERS = {piece: i for i, piece in enumerate(VOCABULARY.splitlines())}


def pieces(text: str, **given: int) -> list[str]:
    names = VOCABULARY.splitlines()
    return [names[number] for number in WordPiece(VOCABULARY, **given).encode(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("getUserName fails.", ["get", "##user", "##name", "fails", "."]),
        ("Café", ["cafe"]),
        ("中get", ["中", "get"]),
        ("get\u200bs fails\0", ["get", "##s", "fails"]),
        ("zzz", ["[UNK]"]),
        ("x" * 101, ["[UNK]"]),
        ("[SEP]", ["[UNK]", "[UNK]", "[UNK]"]),  # what a text says is never a mark of ours
        ("", []),
    ],
)
def test_pieces(text: str, expected: list[str]) -> None:
    assert pieces(text) == ["[CLS]", *expected, "[SEP]"]


def test_what_is_too_long_is_cut() -> None:
    assert pieces("get " * 50, tokens_max=5) == ["[CLS]", "get", "get", "get", "[SEP]"]


@given(st.text())
def test_every_text_has_pieces(text: str) -> None:
    found = WordPiece(VOCABULARY, tokens_max=16).encode(text)
    assert (found[0], found[-1]) == (NUMBERS["[CLS]"], NUMBERS["[SEP]"])
    assert len(found) <= 16
