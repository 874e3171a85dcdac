"""What every place must keep, whatever it is made of: a place is a fixture of a subclass (P9)."""

from __future__ import annotations

import os
import random
import re
import tracemalloc
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256

import hypothesis
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from perdure.artifacts.compress import HEADER_BYTES
from perdure.artifacts.place import Place, Stored
from perdure.errors import Damaged, Invalid, NotFound
from perdure.model.instants import system_clock

TEXT = b"the same words again and again, " * 500
NOISE = random.Random(7).randbytes(3000)
SMALL = b"small"
CONTENTS = {"text": TEXT, "noise": NOISE, "small": SMALL, "empty": b""}
SHARED = [HealthCheck.function_scoped_fixture, HealthCheck.differing_executors]
HOSTILE_ADDRESSES = [
    "",
    "..",
    "../x",
    "/etc/passwd",
    "a" * 63,
    "a" * 65,
    "A" * 64,
    "g" * 64,
    "a" * 63 + "\0",
    "a" * 64 + "\n",
    "a" * 61 + "/..",
    "٣" * 64,
    b"a" * 64,
    None,
    7,
]
HOSTILE_TENANTS = [
    "",
    ".",
    "..",
    "../x",
    "/abs",
    "a/b",
    "a\0b",
    "Upper",
    "t" * 65,
    "é",
    "a\n",
    "C:\\x",
    None,
    b"t1",
]


def address_of(content: bytes) -> str:
    return sha256(content).hexdigest()


def megabytes(count: int, *, noisy: bool) -> Iterator[bytes]:
    """A stream that exists nowhere as a whole."""
    source = random.Random(count)
    for number in range(count * 8):
        yield source.randbytes(128 * 1024) if noisy else number.to_bytes(4) * (32 * 1024)


def peak_of_a_large_stream(place: Place, *, noisy: bool) -> int:
    place.put("t1", [SMALL])  # imports and connections are not what is measured
    tracemalloc.start()
    try:
        stored = place.put("t1", megabytes(20, noisy=noisy))
        digest = sha256()
        for piece in place.open("t1", stored.address):
            digest.update(piece)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (stored.size, digest.hexdigest()) == (20 * 1024 * 1024, stored.address)
    return peak_bytes


class PlaceContract:
    """Subclasses give the fixture `place`, and the ways to look at and to damage what is stored."""

    place: Place

    def stored_form(self, place: Place, tenant: str, address: str) -> bytes:
        raise NotImplementedError

    def damage(self, place: Place, tenant: str, address: str, stored: bytes) -> None:
        raise NotImplementedError

    def age(self, place: Place, tenant: str, address: str) -> None:
        """Make the blob look a day old, where that is possible."""
        raise NotImplementedError

    # what goes in comes out

    @pytest.mark.parametrize("content", CONTENTS.values(), ids=CONTENTS)
    def test_what_is_put_is_read(self, place: Place, content: bytes) -> None:
        stored = place.put("t1", [content])
        assert (stored.address, stored.size) == (address_of(content), len(content))
        assert stored.stored_bytes == len(self.stored_form(place, "t1", stored.address))
        assert place.read("t1", stored.address, len(content)) == content
        assert b"".join(place.open("t1", stored.address)) == content
        assert place.exists("t1", stored.address)

    def test_the_pieces_do_not_matter(self, place: Place) -> None:
        pieces = [b"", TEXT[:1], bytearray(TEXT[1:70]), memoryview(TEXT)[70:], b""]
        assert place.put("t1", pieces) == place.put("t1", iter([TEXT]))

    def test_compression_is_used_when_it_pays(self, place: Place) -> None:
        assert place.put("t1", [TEXT]).stored_bytes < len(TEXT) // 10
        assert place.put("t1", [NOISE]).stored_bytes == len(NOISE) + HEADER_BYTES

    @pytest.mark.parametrize("noisy", [True, False])
    def test_a_large_stream_takes_little_memory(self, place: Place, noisy: bool) -> None:
        """20 MiB in and out; tracemalloc sees Python's memory, not that of zstd (a window of 2 MiB)."""
        assert 0 < self.peak_bytes(place, noisy=noisy) < self.peak_max_bytes

    def peak_bytes(self, place: Place, *, noisy: bool) -> int:
        return peak_of_a_large_stream(place, noisy=noisy)

    peak_max_bytes = 4 * 1024 * 1024

    def test_the_memory_measure_sees_a_stream_that_is_held(self) -> None:
        """Control for the test above."""
        tracemalloc.start()
        held = b"".join(megabytes(20, noisy=True))
        _, peak_bytes = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak_bytes > len(held) > self.peak_max_bytes

    def test_errors_of_the_source_pass_through_and_leave_nothing(self, place: Place) -> None:
        def source() -> Iterator[bytes]:
            yield TEXT
            raise PermissionError("the user's own file")

        with pytest.raises(PermissionError, match="the user's own file"):
            place.put("t1", source())
        assert list(place.addresses("t1")) == []
        assert place.sweep(system_clock() + 10_000_000) == 0

    @pytest.mark.parametrize("source", [b"bytes", ["text"], [1], [None]])
    def test_what_is_not_bytes_is_refused(self, place: Place, source: object) -> None:
        with pytest.raises(Invalid) as caught:
            place.put("t1", source)  # type: ignore[arg-type]
        assert caught.value.path == "source"
        assert list(place.addresses("t1")) == []

    # absent, deleted, listed

    def test_absent_is_not_found_at_once(self, place: Place) -> None:
        place.put("t1", [TEXT])
        absent = address_of(b"absent")
        for ask in (place.open, lambda tenant, address: place.read(tenant, address, 6)):
            with pytest.raises(NotFound) as caught:
                ask("t1", absent)
            assert caught.value.path == f"blob:{absent}"
        assert not place.exists("t1", absent)
        assert not place.delete("t1", absent)

    def test_another_tenant_learns_nothing(self, place: Place) -> None:
        """P11: the same answer whether somebody else holds the content or nobody does."""
        held, absent = place.put("t1", [TEXT]).address, address_of(b"absent")
        answers: list[list[str]] = []
        for address in (held, absent):
            with pytest.raises(NotFound) as caught:
                place.open("t2", address)
            answers.append([caught.value.message, str(place.exists("t2", address)), str(place.delete("t2", address))])
        assert answers[0] == answers[1]
        assert place.read("t1", held, len(TEXT)) == TEXT
        assert place.put("t2", [TEXT]) == place.put("t1", [TEXT])
        assert place.delete("t2", held)
        assert place.exists("t1", held)

    def test_delete_is_idempotent(self, place: Place) -> None:
        address = place.put("t1", [TEXT]).address
        assert [place.delete("t1", address), place.delete("t1", address)] == [True, False]
        with pytest.raises(NotFound):
            place.open("t1", address)
        assert place.put("t1", [TEXT]).address == address
        assert place.exists("t1", address)

    def test_listing(self, place: Place) -> None:
        assert list(place.tenants()) == []
        assert list(place.addresses("t1")) == []
        put = {place.put("t1", [content]).address for content in CONTENTS.values()}
        place.put("t-2_", [SMALL])
        listed = dict(place.addresses("t1"))
        assert listed.keys() == put
        assert all(abs(put_us - system_clock()) < 3_600_000_000 for put_us in listed.values())
        assert sorted(place.tenants()) == ["t-2_", "t1"]

    def test_a_put_again_is_stored_once(self, place: Place) -> None:
        first = place.put("t1", [TEXT])
        assert place.put("t1", [TEXT]) == first
        assert [address for address, _ in place.addresses("t1")] == [first.address]

    # the collector

    def test_a_collector_spares_what_was_put_again(self, place: Place) -> None:
        address = place.put("t1", [TEXT]).address
        self.age(place, "t1", address)
        cutoff_us = dict(place.addresses("t1"))[address] + 1
        place.put("t1", [TEXT])  # after the collector has chosen it, before it deletes
        assert not place.delete("t1", address, before_us=cutoff_us)
        assert place.read("t1", address, len(TEXT)) == TEXT

    def test_a_collector_deletes_what_is_old(self, place: Place) -> None:
        """Control for the test above."""
        address = place.put("t1", [TEXT]).address
        self.age(place, "t1", address)
        cutoff_us = dict(place.addresses("t1"))[address] + 1
        assert place.delete("t1", address, before_us=cutoff_us)
        assert not place.exists("t1", address)

    # damage

    @pytest.mark.parametrize("content", [SMALL, TEXT[:200]], ids=["raw", "zstd"])
    def test_every_flipped_byte_shows(self, place: Place, content: bytes) -> None:
        stored = place.put("t1", [content])
        good = self.stored_form(place, "t1", stored.address)
        for position in range(len(good)):
            flipped = bytearray(good)
            flipped[position] ^= 1 << position % 8
            self.damage(place, "t1", stored.address, bytes(flipped))
            self.assert_damaged(place, stored)
        self.damage(place, "t1", stored.address, good)
        assert place.read("t1", stored.address, stored.size) == content

    @pytest.mark.parametrize(
        "cut",
        [
            lambda form: b"",
            lambda form: form[: HEADER_BYTES - 1],
            lambda form: form[:-1],
            lambda form: form + b"x",
        ],
        ids=["empty", "header", "truncated", "longer"],
    )
    @pytest.mark.parametrize("content", [NOISE, TEXT, b""], ids=["raw", "zstd", "nothing"])
    def test_a_torn_form_is_damaged_and_a_put_repairs_it(
        self, place: Place, content: bytes, cut: Callable[[bytes], bytes]
    ) -> None:
        stored = place.put("t1", [content])
        good = self.stored_form(place, "t1", stored.address)
        self.damage(place, "t1", stored.address, cut(good))
        self.assert_damaged(place, stored)
        assert place.put("t1", [content]) == stored
        assert place.read("t1", stored.address, stored.size) == content

    def test_other_content_under_the_address_is_damaged(self, place: Place) -> None:
        """A well-formed file with the wrong content, in several pieces: the last one is never handed out."""
        wanted = place.put("t1", megabytes(1, noisy=True))
        other = place.put("t1", megabytes(2, noisy=True))
        self.damage(place, "t1", wanted.address, self.stored_form(place, "t1", other.address))
        given: list[bytes] = []
        with pytest.raises(Damaged, match=wanted.address):
            given.extend(place.open("t1", wanted.address))
        assert 0 < sum(map(len, given)) < other.size
        with pytest.raises(Damaged, match=wanted.address):
            place.read("t1", wanted.address, other.size)

    def test_another_size_than_expected_is_damaged(self, place: Place) -> None:
        address = place.put("t1", [TEXT]).address
        for size in (0, len(TEXT) - 1, len(TEXT) + 1):
            with pytest.raises(Damaged, match=address):
                place.read("t1", address, size)

    def assert_damaged(self, place: Place, stored: Stored) -> None:
        with pytest.raises(Damaged, match=stored.address):
            place.read("t1", stored.address, stored.size)
        with pytest.raises(Damaged, match=stored.address):
            list(place.open("t1", stored.address))

    # hostile names

    @pytest.mark.parametrize("address", HOSTILE_ADDRESSES, ids=repr)
    def test_hostile_addresses(self, place: Place, address: str) -> None:
        place.put("t1", [TEXT])
        self.assert_refused(place, "t1", address, "address")

    @pytest.mark.parametrize("tenant", HOSTILE_TENANTS, ids=repr)
    def test_hostile_tenants(self, place: Place, tenant: str) -> None:
        self.assert_refused(place, tenant, "a" * 64, "tenant")
        for ask in (lambda: place.put(tenant, [TEXT]), lambda: place.addresses(tenant)):
            with pytest.raises(Invalid):
                ask()
        assert list(place.tenants()) == []

    # The place is not changed by a refusal, and the same test runs in every subclass.
    @settings(max_examples=30, suppress_health_check=SHARED, deadline=None)
    @hypothesis.given(name=st.text(max_size=70))
    def test_any_text_as_a_name(self, place: Place, name: str) -> None:
        if re.fullmatch(r"[0-9a-f]{64}", name) is None:
            self.assert_refused(place, "t1", name, "address")
        if re.fullmatch(r"[0-9a-z_-]{1,64}", name) is None:
            self.assert_refused(place, name, "a" * 64, "tenant")

    def assert_refused(self, place: Place, tenant: str, address: str, path: str) -> None:
        asks: list[Callable[[], object]] = [
            lambda: place.open(tenant, address),
            lambda: place.read(tenant, address, 1),
            lambda: place.exists(tenant, address),
            lambda: place.delete(tenant, address),
        ]
        for ask in asks:
            with pytest.raises(Invalid) as caught:
                ask()
            assert caught.value.path == path
            assert not isinstance(caught.value, NotFound)

    # together

    def test_equal_content_from_many_threads(self, place: Place) -> None:
        content = os.urandom(200_000)
        with ThreadPoolExecutor(8) as threads:
            stored = set(threads.map(lambda _: place.put("t1", [content]), range(16)))
        assert len(stored) == 1
        assert place.read("t1", address_of(content), len(content)) == content
        assert len(list(place.addresses("t1"))) == 1
