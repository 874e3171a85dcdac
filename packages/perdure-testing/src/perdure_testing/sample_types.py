"""A type of the user's own, for the contract: registered once, whatever the colour of the suite."""

from __future__ import annotations

import msgspec

from perdure.model.registered_types import registered


@registered(name="perdure.testing.Price", version=1)
class Price(msgspec.Struct, frozen=True, dict=True):
    """The price of something."""

    amount: int
    currency: str
