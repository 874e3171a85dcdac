"""The clocks and the epoch that an open store decides leases by. Callers: `core`, `lane`, `tx`. Keeps P7."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from perdure.model.instants import SECOND_US
from perdure.model.limits import LEASE_TTL_SECONDS


def _nobody(holder: str) -> bool:  # noqa: ARG001 - nothing is proved about anybody
    return False


class Epochs:
    """The epoch that an open store believes in; another process may have raised it since."""

    def __init__(self, epoch: int = 0) -> None:
        self.epoch = epoch

    def heard(self, epoch: int) -> None:
        """The store says that it is in this one. An epoch never falls."""
        self.epoch = max(self.epoch, epoch)


class Clocks(NamedTuple):
    """The clocks that decide whether a lease is over. `now` dates events (data); `store` decides leases, and gives None where the
    database's own is to decide.
    """

    now: Callable[[], int]
    store: Callable[[], int | None]
    lease_us: int = LEASE_TTL_SECONDS * SECOND_US  # how long a heartbeat of this open store is good for
    is_dead: Callable[[str], bool] = (
        _nobody  # whether a holder is proved to be dead (`liveness`), before its lease has lapsed
    )
    epochs: Epochs | None = None  # a lease of another epoch is over
