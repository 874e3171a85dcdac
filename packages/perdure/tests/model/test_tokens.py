"""The estimate of tokens errs upward, is bounded by the bytes, and can be added up."""

from __future__ import annotations

import base64
import hashlib
import uuid

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perdure.model.tokens import estimate

PROSE = "It was late when the engineers agreed that the deployment should wait until the following morning. "
LINES = st.text(st.sampled_from("aAzZeé09 .,;_-/\t\n的ด😀\u0301\u200d") | st.characters(codec="utf-8"), max_size=200)

# Kinds of text and what the offline tokenizer that gives most of them gave (cl100k, o200k, voyage3, tekken, Claude's old one).
MEASURED = [
    (PROSE * 10, 171),
    (" ".join(str(uuid.uuid5(uuid.NAMESPACE_URL, str(i))) for i in range(20)), 646),
    ("".join(hashlib.sha256(bytes([i])).hexdigest() for i in range(10)), 569),
    (base64.b64encode(b"".join(hashlib.sha256(bytes([i])).digest() for i in range(30))).decode(), 977),
    ("用户更喜欢深色模式，而且希望登录页面在手机浏览器上也能正常工作。" * 10, 360),
    ("ผู้ใช้ชอบโหมดมืด และต้องการให้หน้าเข้าสู่ระบบทำงาน" * 10, 840),
    (
        "Użytkownik woli tryb ciemny i chce, aby strona logowania działała prawidłowo w przeglądarce mobilnej.\n" * 10,
        470,
    ),
    ("1234567890" * 20, 200),
    ("😀🎉🚀👩‍👩‍👧‍👦✅" * 10, 340),
]


@pytest.mark.parametrize(("text", "measured"), MEASURED)
def test_it_is_never_below_what_the_greediest_tokenizer_gave(text: str, measured: int) -> None:
    assert measured <= estimate(text)


def test_it_stays_near_on_prose() -> None:
    assert estimate(PROSE * 10) <= 1.6 * 171
    assert estimate("Login fails on Safari") == 5
    assert estimate("") == 0


@given(LINES)
@settings(max_examples=300, deadline=None)
def test_it_is_never_above_the_bytes(text: str) -> None:
    assert (1 if text else 0) <= estimate(text) <= len(text.encode())


@given(st.lists(LINES, max_size=6))
@settings(max_examples=300, deadline=None)
def test_lines_never_add_up_to_less_than_the_text(lines: list[str]) -> None:
    ended = [f"{line}\n" for line in lines]
    assert estimate("".join(ended)) <= sum(map(estimate, ended))


@given(LINES, LINES)
@settings(max_examples=200, deadline=None)
def test_more_text_never_takes_fewer_tokens(text: str, more: str) -> None:
    assert estimate(text) <= estimate(f"{text}\n{more}")
