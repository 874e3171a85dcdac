"""The tool of the sweeps of kills: a card that is charged, the probe that looks into the bank's book, and a person who does."""

from __future__ import annotations

from typing import Any

import perdure
from adapters.lives import Life
from adapters.sweeping import happened


def bank(life: Life, *, is_async: bool) -> Any:
    def charge(cents: int) -> str:
        """Charge a card."""
        life.at("tool.charge.before")
        life.see("charged", cents)
        life.at("tool.charge.after")
        return f"charged {cents}"

    async def async_charge(cents: int) -> str:
        """Charge a card."""
        return charge(cents)

    return async_charge if is_async else charge


def kinds_of(life: Life, *, unsafe: bool) -> dict[str, Any]:
    """The declaration of the tool, with its probe; of an unsafe one nothing is declared."""

    def looked_up(cents: int) -> Any:
        return perdure.Happened(f"charged {cents}") if happened(life, f"charged {cents}") else perdure.Absent()

    if unsafe:
        return {}
    return {"charge": perdure.tool(lambda cents: None, name="charge", probe=looked_up, lands_within=0)}


def said_of(life: Life, cents: int) -> Any:
    """The verdict of a person who looks at the bank's book."""
    return {"happened": f"charged {cents}"} if happened(life, f"charged {cents}") else "absent"
