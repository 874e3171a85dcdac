"""What may be shown: no text commands a terminal, and harmless text stays as it is."""

from __future__ import annotations

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from perdure.model.display import shortened, visible, visible_lines

ANY_TEXT = st.text(st.characters(codec=None))  # surrogates, too


@given(ANY_TEXT)
def test_what_is_shown_is_printable(text) -> None:
    assert visible(text).isprintable()
    assert all(line.isprintable() for line in visible_lines(text))


@given(ANY_TEXT, st.integers(2, 50))
def test_what_is_shortened_is_short_and_printable(text, most) -> None:
    assert len(shortened(text, most)) <= most
    assert shortened(text, most).isprintable()


@given(st.text(st.characters(categories=["L", "N", "P", "S"])))
def test_harmless_text_is_untouched(text) -> None:
    assert visible(text) == text


def test_control_characters_are_named() -> None:
    assert visible("a\x1b[31m\x9b\u202e\n\ud800") == "a\\x1b[31m\\x9b\\u202e\\n\\ud800"
    assert visible_lines("a\tb\r\nc\rd") == ["a   b", "c\\rd"]
    assert shortened("a\n  b", 10) == "a b"
    assert shortened("abcdef", 4) == "abc…"


def test_control_python_calls_every_control_character_unprintable() -> None:
    controls = [chr(code) for code in range(0x110000) if unicodedata.category(chr(code)) in ("Cc", "Cf")]
    assert not any(character.isprintable() for character in controls)


def test_a_huge_text_costs_what_is_shown() -> None:
    assert shortened("x" * 50_000_000, 20) == "x" * 19 + "…"
