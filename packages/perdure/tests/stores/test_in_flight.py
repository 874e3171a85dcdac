"""The work of one process: an entry ends by the owner that made it, and any attempt that has not come back counts (P3, P4)."""

from __future__ import annotations

import pytest

from perdure.stores.in_flight import Attempt, InFlight

FIRST, SECOND = object(), object()


@pytest.fixture
def flights() -> InFlight:
    return InFlight()


def test_one_owner_is_at_it_and_nobody_else_ends_it(flights: InFlight) -> None:
    assert [flights.begin("run", owner) for owner in (FIRST, SECOND, FIRST)] == [True, False, True]
    flights.end("run", SECOND)
    assert "run" in flights
    flights.end("run", FIRST)
    assert "run" not in flights
    flights.end("run", FIRST)
    assert flights.begin("run", SECOND)


@pytest.mark.parametrize("attempt", [1, 2, 3])
def test_every_attempt_up_to_the_last_counts(flights: InFlight, attempt: int) -> None:
    flight = Attempt(flights, (7, 4, attempt))
    assert not flights.has_attempt(7, 4, attempt)
    flight.begin()
    assert [flights.has_attempt(7, 4, upto) for upto in range(5)] == [attempt <= upto for upto in range(5)]
    assert not flights.has_attempt(7, 5, 3)
    assert not flights.has_attempt(8, 4, 3)
    flight.recorded()
    assert not flights.has_attempt(7, 4, 3)


def test_a_call_that_was_left_behind_is_in_flight_until_it_lands(flights: InFlight) -> None:
    flight = Attempt(flights, (7, 4, 1))
    flight.begin()
    flight.goes_on = True
    flight.recorded()
    assert flights.has_attempt(7, 4, 1)
    flight.landed()
    assert not flights.has_attempt(7, 4, 1)


def test_an_effect_is_announced_until_its_last_caller_has_begun(flights: InFlight) -> None:
    for caller in (FIRST, SECOND):
        flights.announce(7, "key", caller)
    flights.unannounce(7, "key", FIRST)
    flights.unannounce(7, "key", FIRST)
    assert flights.is_announced(7, 4, "key")
    assert not flights.is_announced(8, 4, "key")
    flights.unannounce(7, "key", SECOND)
    assert not flights.is_announced(7, 4, "key")
