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


def of_unknown(arguments: Mapping[str, Any], parameters: tuple[str, ...]) -> str:
    """The text about arguments that a tool does not have: ignored, they would be lost without a word."""
    unknown = [f"Invalid: {name[:100]}: there is no such argument" for name in arguments if name not in parameters]
    return _text(unknown, f" This tool takes: {', '.join(parameters)}.") if unknown else ""


def of_wrong(error: ValidationError) -> str:
    """The text about arguments that do not fit the schema."""
    return _text([_fault(dict(fault)) for fault in error.errors(include_url=False)])


def _text(faults: list[str], more: str = "") -> str:
    rest = len(faults) - SHOWN_MAX
    lines = faults[:SHOWN_MAX] + ([f"and {rest} more"] if rest > 0 else [])
    return "\n".join([*lines, NEXT + more])


def _fault(wrong: dict[str, Any]) -> str:
    path = ".".join(str(part)[:100] for part in wrong["loc"])
    if wrong["type"] == "missing":
        return f"Invalid: {path}: it is missing"
    message = str(wrong["msg"]).replace("Input", "it", 1)
    value = "null" if wrong["input"] is None else _brief.repr(wrong["input"])
    return f"Invalid: {path}: {message[0].lower()}{message[1:]}, not {value}"
