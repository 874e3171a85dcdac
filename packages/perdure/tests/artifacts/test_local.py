"""Sources and targets of content."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.artifacts.local import pieces_from, rejoined, save_file, split_at
from perdure.errors import Invalid, NotFound


@given(st.lists(st.binary(max_size=20), max_size=8), st.integers(0, 60))
def test_splitting_loses_nothing(parts, count):
    head, rest = split_at(pieces_from(parts), count)
    tail = list(rest)
    assert len(head) > count or not tail
    assert head + b"".join(tail) == b"".join(parts) == b"".join(rejoined(head, iter(tail)))


@pytest.mark.parametrize("data", [b"ab", bytearray(b"ab"), memoryview(b"ab"), "ab", io.BytesIO(b"ab"), [b"a", b"b"]])
def test_every_source_gives_its_bytes(data):
    assert b"".join(pieces_from(data)) == b"ab"


@pytest.mark.parametrize(
    ("data", "path"), [(7, "data"), ("\udcff", "data"), ([1], "data[0]"), (io.StringIO("x"), "data[0]")]
)
def test_what_is_not_bytes_is_refused(data, path):
    with pytest.raises(Invalid) as caught:
        list(pieces_from(data))
    assert caught.value.path == path


def test_a_path_that_is_no_file_is_refused_at_once(tmp_path):
    with pytest.raises(NotFound):
        pieces_from(tmp_path / "missing")
    with pytest.raises(Invalid):
        pieces_from(tmp_path)


def test_a_saved_file_is_whole_or_as_before(tmp_path):
    target = tmp_path / "x"
    assert save_file(target, [b"a", b"b"]).read_bytes() == b"ab"

    def failing():
        yield b"c"
        raise RuntimeError

    with pytest.raises(RuntimeError):
        save_file(target, failing())
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"ab"]


def test_a_target_that_cannot_be_written_is_an_error_of_the_tree(tmp_path):
    with pytest.raises(NotFound, match=r"there is no folder .*/no"):
        save_file(tmp_path / "no" / "x", [b"a"])
    with pytest.raises(Invalid, match="is a folder"):
        save_file(tmp_path, [b"a"])
