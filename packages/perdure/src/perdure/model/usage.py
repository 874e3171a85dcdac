"""The usage that a model's answer states: tokens and the like, as plain data that is noted with its step.

Answers are mappings, registered types, or objects as SDKs make them. Nothing in here raises: an answer is paid for, and is kept
whatever it says of its usage. Callers: the steps of a run.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from perdure.errors import Invalid
from perdure.model.values import to_plain

NAMES = ("usage", "usage_metadata")
# The fields to ask for where an object shows none.
COUNTS = ("input_tokens", "output_tokens", "prompt_tokens", "completion_tokens", "total_tokens")
DEPTH_MAX = 3


def usage_of(answer: Any) -> Any:
    """The usage that an answer states, if it does: a mapping as it is, of an object its fields that are plain."""
    statement = next((part for name in NAMES if (part := _part(answer, name)) is not None), None)
    used = statement if _is_plain(statement) else _fields(statement, DEPTH_MAX)
    try:
        to_plain(used)
    except Invalid:
        return None
    return used


def _part(answer: Any, name: str) -> Any:
    try:
        return answer.get(name) if isinstance(answer, dict) else getattr(answer, name, None)
    except Exception:  # noqa: BLE001 - whatever a property raises
        return None


def _is_plain(value: object) -> bool:
    return isinstance(value, (dict, str, int, float)) or value is None


def _fields(statement: Any, depth: int) -> dict[str, Any] | None:
    """The fields of an object that are numbers or text, and those of what it holds."""
    values = {name: _part(statement, name) for name in _names(statement) if not name.startswith("_")}
    held = {name: value if _is_plain(value) else _fields(value, depth - 1) for name, value in values.items() if depth}
    return {name: value for name, value in held.items() if value is not None} or None


def _names(statement: object) -> Iterable[str]:
    """The fields of a Struct, a dataclass, a model of pydantic's, or any object with attributes of its own."""
    kind = type(statement)
    declared = getattr(kind, "__struct_fields__", None) or getattr(kind, "__dataclass_fields__", None)
    return declared or getattr(statement, "__dict__", None) or COUNTS
