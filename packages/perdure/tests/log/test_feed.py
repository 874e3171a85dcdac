"""The feed's cursor: opaque, checked, bound to its store and epoch."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.errors import Invalid, Stale
from perdure.log.feed import Position, decode_cursor, encode_cursor

big = st.integers(0, 2**63 - 1)


@given(st.text(), st.integers(0, 2**40), big, big)
def test_a_cursor_comes_back(store, epoch, xid, pos):
    assert decode_cursor(encode_cursor(store, epoch, Position(xid, pos)), store, epoch) == (xid, pos)


@given(st.text(max_size=80) | st.binary() | st.none() | st.integers())
def test_anything_else_is_refused(text):
    with pytest.raises(Invalid) as refused:
        decode_cursor(text, "store", 1)
    assert refused.value.path == "after"


@given(st.integers(0, 41), st.characters(codec="ascii"))
def test_a_changed_character_shows(at, character):
    cursor = encode_cursor("store", 1, Position(5, 7))
    changed = cursor[:at] + character + cursor[at + 1 :]
    if changed[:-1] == cursor[:-1]:
        return  # the spare bits of the last character mean nothing
    with pytest.raises(Invalid):
        decode_cursor(changed, "store", 1)


@pytest.mark.parametrize(("store", "epoch"), [("store", 2), ("other", 1)])
def test_a_cursor_of_before_a_restore_is_stale_and_says_the_way_out(store, epoch):
    with pytest.raises(Stale) as refused:
        decode_cursor(encode_cursor("store", 1, Position(0, 7)), store, epoch)
    assert "beginning" in refused.value.hint


def test_positions_are_ordered_by_transaction_first():
    assert Position(1, 9) < Position(2, 1) < Position(2, 2)
