"""The words of texts: one function, whatever the store; deterministic, bounded, and never raising on what people type."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perdure.model import words as module
from perdure.model.stems import stem
from perdure.model.words import STOP_WORDS, WORD_MAX_CHARS, words

# From Porter's paper, but for the rule about y.
STEMS = """
caresses=caress ponies=poni ties=ti cats=cat feed=feed agreed=agre plastered=plaster bled=bled motoring=motor
sing=sing conflated=conflat troubled=troubl sized=size hopping=hop tanned=tan falling=fall hissing=hiss fizzed=fizz
failing=fail filing=file happy=happi sky=ski relational=relat conditional=condit rational=ration digitizer=digit
operator=oper feudalism=feudal decisiveness=decis hopefulness=hope callousness=callous formality=formal
sensitivity=sensit sensibility=sensibl triplicate=triplic formative=form formalize=formal electrical=electr
hopeful=hope goodness=good revival=reviv allowance=allow inference=infer airliner=airlin adjustable=adjust
defensible=defens irritant=irrit replacement=replac adjustment=adjust dependent=depend adoption=adopt
communism=commun activate=activ effective=effect bowdlerize=bowdler probate=probat rate=rate cease=ceas
controller=control roll=roll deploy=deploy deployed=deploy deployment=deploy caching=cach cached=cach queries=queri
query=queri
"""


@pytest.mark.parametrize(("word", "expected"), [pair.split("=") for pair in STEMS.split()])
def test_english_words_have_the_stems_that_porter_gives(word: str, expected: str) -> None:
    assert stem(word) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The tests are running", ["test", "run"]),
        ("getUserName", ["getusername", "get", "user", "name"]),
        ("parseHTTPResponse", ["parsehttpresponse", "pars", "http", "respons"]),
        ("user_names __init__ _private", ["user_names", "user", "name", "init", "privat"]),
        ("src/auth/login.py", ["src/auth/login.py", "src", "auth", "login", "py"]),
        ("C:\\Temp\\x1", ["c:\\temp\\x1", "temp", "x1"]),
        ("v1.2.3", ["v1.2.3", "1.2.3", "v1"]),
        ("1.2.3-rc1", ["1.2.3-rc1", "1.2.3", "rc1"]),
        ("bob@example.com", ["bob@example.com", "bob", "exampl", "com"]),
        ("C++ and C#", ["c++", "c#"]),
        ("café CAFÉ cafe\u0301", ["cafe", "cafe", "cafe"]),
        ("Straße", ["strass"]),
        ("ＡＢＣ ﬁle", ["abc", "file"]),
        ("don't the user's", ["user"]),
        ("更喜欢深色", ["更喜", "喜欢", "欢深", "深色"]),
        ("我 用Python3编程", ["我", "用", "python3", "编程"]),
        ("한국어", ["한국", "국어"]),
        ("हिन्दी में", ["हिन्दी", "में"]),
        ("\u0639\u064e\u0631\u064e\u0628\u0650\u064a", ["عربي"]),
        ("-- ' \" * NEAR( …", ["near"]),
        ("a" * (WORD_MAX_CHARS + 1), []),
        ("", []),
    ],
)
def test_words(text: str, expected: list[str]) -> None:
    assert words(text) == expected


TEXTS = st.text(st.characters(codec="utf-8"), max_size=200) | st.text("aAbBzZ09_./-@'é深色 \n", max_size=60)


@settings(max_examples=300)
@given(TEXTS)
def test_every_text_has_words_and_they_are_short_and_folded(text: str) -> None:
    found = words(text)
    assert found == words(text)
    for word in found:
        assert 0 < len(word) <= WORD_MAX_CHARS
        assert "\0" not in word
        assert not any(c.isspace() for c in word)
        assert word == word.lower() or unicodedata.category(word[0]) not in ("Lu", "Ll")


@given(TEXTS)
def test_case_and_composition_make_no_difference_to_plain_words(text: str) -> None:
    plain = " ".join(part for part in text.split() if part.isalpha())
    assert words(plain.lower()) == words(unicodedata.normalize("NFD", plain.lower()))


@given(st.lists(TEXTS, max_size=5))
def test_the_words_of_a_page_are_those_of_its_lines(lines: list[str]) -> None:
    lines = [line.replace("\n", " ") for line in lines]
    assert words("\n".join(lines)) == [word for line in lines for word in words(line)]


@given(st.text("abcdefghijklmnopqrstuvwxyz", min_size=1, max_size=20))
def test_a_stem_is_never_longer_than_its_word_by_more_than_its_e(word: str) -> None:
    assert 0 < len(stem(word)) <= len(word) + 1


def test_what_is_remembered_of_tokens_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_KNOWN_MAX", 10)
    monkeypatch.setattr(module, "_words_by_token", {})
    for i in range(100):
        assert words(f"word{i}") == [f"word{i}"]
    assert len(module._words_by_token) <= 10


def test_stop_words_are_left_out() -> None:
    assert words(" ".join(STOP_WORDS)) == []
