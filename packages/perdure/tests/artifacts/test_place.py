"""URLs of places, and the verification that all places share."""

from __future__ import annotations

import sys
from pathlib import Path

import hypothesis
import pytest
from hypothesis import strategies as st

from artifacts.place_contract import address_of
from perdure.artifacts.disk import DiskPlace
from perdure.artifacts.objects import S3Place
from perdure.artifacts.place import ReadOnlyPlace, place_from_url, verified
from perdure.errors import Damaged, Invalid, ReadOnly, Refused


def test_a_file_url(tmp_path: Path) -> None:
    folder = tmp_path / "with space"
    for url in (f"file://{folder}", f"file://{tmp_path}/with%20space", f"file://localhost{folder}"):
        place = place_from_url(url)
        assert isinstance(place, DiskPlace)
        assert place.root == folder
    assert not folder.exists()


@pytest.mark.parametrize(
    "url",
    [
        "s3://bucket",
        "s3://bucket/a/prefix/",
        "s3://bucket/p?region=eu-central-1",
        "s3://bucket/p?endpoint=https://store.example:9000",
        "s3://bucket/p?endpoint=http://127.0.0.1:9000&allow_http=true",
        "s3://bucket/p?endpoint=http%3A%2F%2F%5B::1%5D%3A9000&allow_http=true&region=x",
    ],
)
def test_an_s3_url(url: str) -> None:
    assert isinstance(place_from_url(url), S3Place)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "/just/a/path",
        "ftp://host/dir",
        "file://host/dir",
        "file:relative",
        "file://",
        "file:///dir?mode=x",
        "file:///dir%00x",
        "file:///dir\n",
        "file:///dir#part",
        "s3://",
        "s3:///prefix",
        "s3://user:secret@bucket/p",
        "s3://bucket/../other",
        "s3://bucket/a//b",
        "s3://bucket/a%00b",
        "s3://buck et/a",
        "s3://bucket/p?colour=red",
        "s3://bucket/p?region=a&region=b",
        "s3://bucket/p?region=a%0d%0ab",
        "s3://bucket/p?region=",
        "s3://bucket/p?allow_http=yes",
        "s3://bucket/p?endpoint=http://127.0.0.1:9000",
        "s3://bucket/p?endpoint=ftp://host",
        "s3://bucket/p?endpoint=not a url",
        "s3://bucket/p?endpoint=https://host:port",
        "s3://bucket/p?endpoint=https://user:secret@host",
        "s3://[bucket/p",
    ],
)
def test_what_is_refused(url: str) -> None:
    with pytest.raises(Invalid) as caught:
        place_from_url(url)
    assert caught.value.path.startswith("url")
    assert "secret" not in str(caught.value)


def test_without_the_extra_the_way_out_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "obstore", None)
    with pytest.raises(Refused, match=r'pip install "perdure\[s3\]"'):
        place_from_url("s3://bucket/prefix")


def test_a_disk_needs_no_extra(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "obstore", None)
    assert place_from_url(f"file://{tmp_path}").put("t1", [b"x"]).size == 1


@hypothesis.given(st.lists(st.binary(max_size=5), max_size=6))
def test_verified_passes_what_is_right(pieces: list[bytes]) -> None:
    content = b"".join(pieces)
    assert b"".join(verified(address_of(content), pieces)) == content


@hypothesis.given(st.lists(st.binary(max_size=5), max_size=6).filter(any))
def test_verified_holds_back_the_end_of_what_is_wrong(pieces: list[bytes]) -> None:
    """Also when empty pieces follow the last real one."""
    given: list[bytes] = []
    with pytest.raises(Damaged, match="0" * 64) as caught:
        given.extend(verified("0" * 64, pieces))
    assert caught.value.path == f"blob:{'0' * 64}"
    assert "backup" in caught.value.hint
    assert sum(map(len, given)) < sum(map(len, pieces))


def test_a_place_for_reading_only(tmp_path: Path) -> None:
    """What would change it is refused before it is begun; the source is not even looked at."""
    place = place_from_url(f"file://{tmp_path}")
    stored = place.put("t1", [b"x"])
    fixed = ReadOnlyPlace(place)
    assert fixed.read("t1", stored.address, 1) == b"".join(fixed.open("t1", stored.address)) == b"x"
    assert fixed.exists("t1", stored.address)
    assert ([*fixed.tenants()], [address for address, _ in fixed.addresses("t1")]) == (["t1"], [stored.address])
    changes = (
        lambda: fixed.put("t1", iter(int, 1)),  # type: ignore[arg-type]
        lambda: fixed.delete("t1", stored.address),
        lambda: fixed.sweep(2**60),
    )
    for change in changes:
        with pytest.raises(ReadOnly) as caught:
            change()
        assert caught.value.path == "store"
    assert place.exists("t1", stored.address)
