"""Arguments that a tool does not take, as texts for a model: which one, what is wrong with it, what to do. Callers: `server`.

The SDK checks arguments by pydantic, whose own text has addresses of its manual and no way out. Keeps P15.
"""

from __future__ import annotations

from collections.abc import Mapping
from reprlib import Repr
from typing import Any

from pydantic import ValidationError

SHOWN_MAX = 5  # faults of one call: a list of a thousand wrong items says the same a thousand times
NEXT = "Next: Correct this and call again; nothing was written."

_brief = Repr()
_brief.maxstring = _brief.maxother = _brief.maxlong = 60
_brief.maxlevel = _brief.maxdict = _brief.maxlist = 3


def of_unknown(given: Mapping[str, Any], taken: tuple[str, ...]) -> str:
    """The text about arguments that a tool does not have: ignored, they would be lost without a word."""
    unknown = [f"Invalid: {name[:100]}: there is no such argument" for name in given if name not in taken]
    return _text(unknown, f" This tool takes: {', '.join(taken)}.") if unknown else ""


def of_wrong(error: ValidationError) -> str:
    """The text about arguments that do not fit the schema."""
    return _text([_fault(dict(each)) for each in error.errors(include_url=False)])


def _text(faults: list[str], more: str = "") -> str:
    left = len(faults) - SHOWN_MAX
    shown = faults[:SHOWN_MAX] + ([f"and {left} more"] if left > 0 else [])
    return "\n".join([*shown, NEXT + more])


def _fault(wrong: dict[str, Any]) -> str:
    path = ".".join(str(part)[:100] for part in wrong["loc"])
    if wrong["type"] == "missing":
        return f"Invalid: {path}: it is missing"
    said = str(wrong["msg"]).replace("Input", "it", 1)
    found = "null" if wrong["input"] is None else _brief.repr(wrong["input"])
    return f"Invalid: {path}: {said[0].lower()}{said[1:]}, not {found}"
