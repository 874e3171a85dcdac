"""The form in which a result is kept that no store takes: an SDK's object, NaN, a lone surrogate, NUL, too large a value.

The effect happened and is committed, so its result must not be lost with the process that has it. Pure. Callers: the code that
records results. Keeps P4.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from perdure.errors import Invalid
from perdure.model.limits import INT_SHOWN_MAX_BITS
from perdure.model.values import to_plain

TEXT_MAX_CHARS = 100_000
DEPTH_MAX = 20


class Unkept(NamedTuple):
    """Stands for a result that cannot be kept, and says why. kept: the form of it that can be."""

    kept: Any
    message: str
    path: str


def storable(value: Any, depth: int = 0) -> Any:
    """The value as it can be kept: each part that cannot becomes {"unstorable": its type, "text": its text}."""
    if _fits(value):
        return value
    tree: Any = None
    if depth < DEPTH_MAX and type(value) is dict:
        tree = {_key(name): storable(part, depth + 1) for name, part in value.items()}
    elif depth < DEPTH_MAX and type(value) in (list, tuple):
        tree = [storable(part, depth + 1) for part in value]
    return tree if tree is not None and _fits(tree) else _in_text(value)


def _fits(value: Any) -> bool:
    try:
        to_plain(value, "result")
    except Invalid:
        return False
    return True


def _key(name: Any) -> str:
    return name if isinstance(name, str) and _fits({name: None}) else _text_of_value(name)


def _in_text(value: Any) -> dict[str, str]:
    kind = type(value)
    type_name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    return {"unstorable": type_name, "text": _text_of_value(value)}


def _text_of_value(value: Any) -> str:
    """The text of a value, in characters that every store takes: others are escaped."""
    try:
        long = type(value) is int and value.bit_length() > INT_SHOWN_MAX_BITS
        text = str(value) if isinstance(value, str) else hex(value) if long else repr(value)
    except Exception:  # noqa: BLE001 - whatever an odd object raises
        text = "(it cannot be printed)"
    excerpt = text[:TEXT_MAX_CHARS] + ("…" if len(text) > TEXT_MAX_CHARS else "")
    return excerpt.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")
