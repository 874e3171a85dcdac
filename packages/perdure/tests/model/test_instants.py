"""Instants and durations that come from outside: in range, or refused with their path."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from perdure.errors import Invalid
from perdure.model.instants import FIRST_US, LAST_US, duration_us, instant_us, to_datetime

NOW = 1_800_000_000_000_000


@pytest.mark.parametrize(
    "value",
    [
        "99999999999999999999d",
        f"{'9' * 400}d",
        LAST_US + 1,
        FIRST_US - 1,
        2**70,
        -(2**70),
        timedelta.max,
        "9" * 30 + "s",
    ],
)
def test_an_instant_outside_of_time_is_refused(value):
    with pytest.raises(Invalid) as refused:
        instant_us(value, NOW, "since")
    assert refused.value.path == "since"


@pytest.mark.parametrize("value", [datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)])
def test_the_ends_of_time_are_instants(value):
    assert to_datetime(instant_us(value, NOW)) == value


def test_a_duration_without_end_is_refused():
    with pytest.raises(Invalid):
        duration_us(f"{'9' * 400}d")
