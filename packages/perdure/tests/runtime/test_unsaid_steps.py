"""Failed steps that are recorded with the next write: a write that fails loses none of them, and records none twice (P13)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from perdure.errors import Invalid, Unavailable
from perdure.log.change import Stream
from perdure.planes.execution import steps
from perdure.planes.execution.leases import Lease
from perdure.runtime.run_state import Activity, Hold

FIRST, SECOND = {"place": "0:1"}, {"place": "0:2"}


def verb(_tx: Any, _stream: Any) -> None: ...


@pytest.fixture
def hold() -> Hold:
    record: Any = SimpleNamespace(timeout_at=None)
    hold = Hold(Lease(Stream(1, bytes(16), 1, "run", "r", None, 0), "h", 1, 4), record, Activity(), lambda: 0)
    hold.unrecorded_steps.append(FIRST)
    return hold


def test_they_go_with_the_next_write_and_no_other(hold: Hold) -> None:
    assert hold.begin_write(verb, (7,)) == (steps.noting, ([FIRST], verb, 7), [FIRST])
    assert hold.begin_write(verb, (7,)) == (verb, (7,), [])
    for _ in range(2):
        hold.end_write(9)
    assert (hold.unrecorded_steps, hold.activity.busy, hold.lease.seq) == ([], 0, 9)


@pytest.mark.parametrize("error", [Invalid("it cannot be kept"), Unavailable("the store is away")])
def test_what_was_not_written_goes_with_the_next_one_in_its_order(hold: Hold, error: Exception) -> None:
    """Else a replay would call the step again, and go another way."""
    _, _, said = hold.begin_write(verb, ())
    hold.unrecorded_steps.append(SECOND)
    hold.fail_write(said, error)
    assert (hold.unrecorded_steps, hold.activity.busy) == ([FIRST, SECOND], 0)
    assert (hold.stopped is None) is isinstance(error, Invalid)


def test_the_head_of_a_lease_never_goes_back(hold: Hold) -> None:
    """Two branches write at once: the later answer may be about the earlier write. Without the lease there is none."""
    for seq, known in ((9, 9), (8, 9), (0, 0)):
        hold.begin_write(verb, ())
        hold.end_write(seq)
        assert hold.lease.seq == known
