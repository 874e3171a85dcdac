"""A driver that lost its lease while it was about to call, or while its call was under way (P4, P7, P13).

In one process: the driver's clock is moved past its lease, and another store takes the run over while it stands still.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import perdure
from perdure.model import crash_points
from perdure_testing.clock import FakeClock

SENT: list[str] = []
MEANWHILE: list[Callable[[], None]] = []  # what others do while the call is under way


@perdure.tool
def send(what: str) -> str:
    SENT.append(what)
    while MEANWHILE:
        MEANWHILE.pop()()
    return what


@perdure.agent
def sender(run: perdure.Run) -> str:
    return run.act(send, "a")


@pytest.fixture
def stores(tmp_path) -> Iterator[tuple[Any, Callable[[], None], Any]]:
    """The driver's store, what lets its lease lapse and the other take over, and the other's."""
    SENT.clear()
    clock = FakeClock()
    url = f"sqlite:///{tmp_path}/a.db"
    with perdure.open(url, clock=clock) as mine, perdure.open(url, clock=clock) as other:

        def take_over() -> None:
            clock.advance("1h")
            with pytest.raises(perdure.Waiting, match="outcome of send is unknown"):
                other.drive(sender, key="k")

        yield mine, take_over, other


def test_who_lost_its_lease_before_the_call_says_so_and_the_run_goes_on(stores):
    mine, take_over, other = stores

    def dispatched() -> None:
        disarm()
        take_over()

    disarm = crash_points.arm("effect.dispatch.after", dispatched)
    assert mine.drive(sender, key="k") == "a"
    assert SENT == ["a"]
    assert other.drive(sender, key="k") == "a"


def test_a_late_result_settles_its_own_doubt(stores):
    mine, take_over, other = stores
    MEANWHILE.append(take_over)
    assert mine.drive(sender, key="k") == "a"
    assert SENT == ["a"]
    (effect,) = other.effects()
    assert (effect.state, effect.record.attempt) == ("committed", 1)


@perdure.tool
def refuse(what: str) -> str:
    SENT.append(what)
    while MEANWHILE:
        MEANWHILE.pop()()
    raise perdure.Failed("no such address")


@perdure.agent
def refused(run: perdure.Run) -> str:
    return run.act(refuse, "a")


def test_a_late_clear_no_settles_its_own_doubt(stores):
    mine, _, other = stores
    clock = mine._caller.core.clocks.now

    def take_over() -> None:
        clock.advance("1h")
        with pytest.raises(perdure.Waiting, match="outcome of refuse is unknown"):
            other.drive(refused, key="k")

    MEANWHILE.append(take_over)
    with pytest.raises(perdure.Failed, match="no such address"):
        mine.drive(refused, key="k")
    assert SENT == ["a"]
    (effect,) = other.effects()
    assert (effect.state, effect.record.attempt) == ("failed", 1)


def test_a_result_that_comes_after_a_person_settled_it_is_noted_and_changes_nothing(stores):
    mine, take_over, other = stores

    def settle() -> None:
        take_over()
        (effect,) = other.effects(state="in_doubt")
        effect.settle(perdure.Happened("said so"), by="ada")
        assert other.drive(sender, key="k") == "said so"

    MEANWHILE.append(settle)
    assert mine.drive(sender, key="k") == "said so"
    assert SENT == ["a"]
    (effect,) = other.effects()
    assert (effect.result, effect.record.settled_by) == ("said so", "ada")
