"""Functions that users pass by mistake, for the contract: async in both colours, so they are written by hand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


async def awaited(*args: Any) -> Any:
    """It would never run."""
    return args


def generated(*args: Any) -> Iterator[Any]:
    """Nor would this."""
    yield args
