"""Spans of time, labels: what comes in, and what is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.errors import Invalid, TooLarge
from perdure.planes.reading import durations
from perdure.planes.reading.durations import Span, between, deadline, pauses
from perdure.planes.reading.labels import from_labels, to_labels

NOW = 1_800_000_000_000_000


class Clocked:
    """Reads that know nothing but the time."""

    tenant = 1

    def query(self, statement, **_):
        assert statement is durations.LOG.store_clock
        return [(NOW,)]


@given(st.floats(0.001, 3_600))
def test_pauses_grow_and_last_as_long_as_the_wait(seconds: float) -> None:
    all_of_them = list(pauses(seconds))
    assert sum(all_of_them) == pytest.approx(seconds, abs=1e-3)
    assert all_of_them[:-1] == sorted(all_of_them[:-1])
    assert max(all_of_them) <= 0.5


def test_no_wait_is_no_pause() -> None:
    assert list(pauses(None)) == []


def test_a_deadline_is_from_now() -> None:
    assert deadline(Clocked(), "1s") == NOW + 1_000_000
    assert deadline(Clocked(), None) is None
    with pytest.raises(Invalid) as refused:
        deadline(Clocked(), "300000000000s", "ttl")
    assert refused.value.path == "ttl"


def test_a_range_is_of_instants_or_ages() -> None:
    assert between(Clocked(), None, None) == Span(None, None)
    assert between(Clocked(), "1s", NOW) == Span(NOW - 1_000_000, NOW)
    for bad in (2**63, -(2**63), "yesterday", object()):
        with pytest.raises(Invalid) as refused:
            between(Clocked(), None, bad)
        assert refused.value.path == "until"


names = st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=5)


@given(st.sets(names, max_size=20))
def test_labels_come_back_sorted_whatever_their_order(labels: set[str]) -> None:
    column = to_labels(labels)
    assert from_labels(column) == tuple(sorted(labels))
    assert column == to_labels(sorted(labels, reverse=True) * 2)


def test_bad_labels_are_refused() -> None:
    for bad, error, path in (
        ("text", Invalid, "labels"),
        (7, Invalid, "labels"),
        (["ok", 7], Invalid, "labels[1]"),
        (["l" * 201], TooLarge, "labels[0]"),
        (map(str, range(65)), TooLarge, "labels"),
    ):
        with pytest.raises(error) as refused:
            to_labels(bad)
        assert refused.value.path == path
