"""A clock that moves only when told to: pass it to `perdure.open(clock=…)`."""

from __future__ import annotations

from perdure.model.instants import SECOND_US, duration_us


class FakeClock:
    """A callable clock, in microseconds; on PostgreSQL it also replaces the database's clock for leases and expiry."""

    def __init__(self, start_us: int = 1_800_000_000 * SECOND_US) -> None:
        self.now_us = start_us

    def __call__(self) -> int:
        """Now, in microseconds."""
        return self.now_us

    def advance(self, duration: str | float) -> None:
        """Let time pass."""
        self.now_us += duration_us(duration)
