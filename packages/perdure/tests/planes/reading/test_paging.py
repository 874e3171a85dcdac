"""Pages and their cursors."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.errors import Invalid
from perdure.planes.reading.paging import Page, decode_cursor, encode_cursor

INTS = st.integers(-(2**63) + 1, 2**63 - 1)


@given(st.lists(INTS, min_size=1, max_size=4))
def test_a_cursor_comes_back(ints):
    assert decode_cursor(encode_cursor(*ints), len(ints)) == tuple(ints)


@given(st.lists(INTS, min_size=1, max_size=4))
def test_a_cursor_of_another_listing_is_refused(ints):
    with pytest.raises(Invalid) as caught:
        decode_cursor(encode_cursor(*ints), len(ints) + 1)
    assert caught.value.path == "after"


@given(st.one_of(st.text(), st.binary(), st.integers(), st.none()))
def test_anything_else_is_refused(text):
    with pytest.raises(Invalid) as caught:
        decode_cursor(text, 2, path="here")
    assert caught.value.path == "here"


@pytest.mark.parametrize("text", ["", "=", "MQ", encode_cursor(2**63, 1), "M" * 201, "é", "MSwy\n,"])
def test_known_bad_cursors(text):
    with pytest.raises(Invalid):
        decode_cursor(text, 2)


def test_a_page_is_a_list_with_a_way_on():
    assert Page([1, 2], "x") == [1, 2]
    assert Page([1, 2], "x").next == "x"
    assert Page().next is None
