"""Text that no store can keep, made into text that it can: NUL and lone surrogates, as broken terminals and cut emoji leave them.

Callers: the writer, on its way to the verbs, outside any transaction. It also measures, so that a commit stays small.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from perdure.errors import TooLarge
from perdure.model.limits import VALUE_MAX_DEPTH

NUL_SHOWN = "\u2400"


class Mend(NamedTuple):
    """A value that can be kept, about how many bytes it has, and how many of its texts were changed."""

    value: Any
    size: int
    changed: int


def mend(value: Any, depth: int = 0) -> Mend:
    """The value itself, uncopied, if nothing in it needs mending. TooLarge when it is nested too deep."""
    if depth > VALUE_MAX_DEPTH:
        raise TooLarge(f"nested more than {VALUE_MAX_DEPTH} deep")
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, dict):
        return _dict(value, depth)
    if isinstance(value, list):
        return _list(value, depth)
    return Mend(value, len(value) if isinstance(value, bytes) else 8, 0)


def _text(text: str) -> Mend:
    if text.isascii() and "\0" not in text:
        return Mend(text, len(text), 0)
    clean = text.replace("\0", NUL_SHOWN).encode("utf-8", "replace").decode()
    return Mend(text if clean == text else clean, len(clean), int(clean != text))


def _list(items: list[Any], depth: int) -> Mend:
    mends = [mend(item, depth + 1) for item in items]
    changed = sum(repair.changed for repair in mends)
    return Mend([repair.value for repair in mends] if changed else items, sum(repair.size for repair in mends), changed)


def _dict(items: dict[Any, Any], depth: int) -> Mend:
    keys = [mend(str(key)) for key in items]
    mends = [mend(item, depth + 1) for item in items.values()]
    changed = sum(repair.changed for repair in (*keys, *mends)) + sum(type(key) is not str for key in items)
    fields = {key.value: repair.value for key, repair in zip(keys, mends, strict=True)} if changed else items
    return Mend(fields, sum(repair.size for repair in (*keys, *mends)), changed)
