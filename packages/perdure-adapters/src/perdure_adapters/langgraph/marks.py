"""How a list of messages is seen to be as it was when it was stored, at a fraction of the cost of serialising it.

A message may be changed in place, so that it is the same object says nothing: its content is compared, that of all messages in
one call that runs no line of Python for each. Called by `layout`, which keeps a mark for each element of a list, and by `turns`.
Keeps P8.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter, eq
from typing import Any, NamedTuple

from langchain_core.messages import BaseMessage

from perdure.artifacts.shared_list import SharedList

_FIXED = frozenset({type(None), bool, int, float, str, bytes})  # of these an equal one is as good, and none can change
_NO_FIELDS: dict[Any, Any] = {}  # one for all marks: most fields are empty, and memory that is not read costs nothing
_NO_ITEMS: list[Any] = []

_look = attrgetter("__class__", "__dict__", "__pydantic_extra__")  # a message as its mark has it


class Mark(NamedTuple):
    """A message as it was when it was stored. Texts are the message's own; lists and dicts are copies."""

    kind: type
    fields: dict[str, Any]
    extra: dict[str, Any] | None


class Opaque(NamedTuple):
    """A message that holds more than plain data: that might change, and be equal to itself all the same."""

    id: str | None


Marks = SharedList[Mark | Opaque | None]


def mark_of(element: Any) -> Mark | Opaque | None:
    """The mark of a message; None for anything else."""
    if not isinstance(element, BaseMessage):
        return None
    try:
        return Mark(type(element), _copy(element.__dict__), _copy(element.__pydantic_extra__))
    except (TypeError, RecursionError):
        return Opaque(element.id)


def marked_id(mark: Mark | Opaque) -> str | None:
    """The id of the message that has this mark."""
    return mark.id if isinstance(mark, Opaque) else mark.fields.get("id")


def _copy(value: Any) -> Any:
    """A copy of plain data. TypeError for anything else."""
    kind = type(value)
    if kind in _FIXED:
        return value
    if kind is dict:
        return {_copy(key): _copy(item) for key, item in value.items()} if value else _NO_FIELDS
    if kind is list:
        return [*map(_copy, value)] if value else _NO_ITEMS
    raise TypeError(kind)


def same_in_front(
    value: Sequence[Any], marks: Marks, is_other_same: Callable[[int], bool] = lambda _place: False
) -> int:
    """How many elements in front are as they were. is_other_same: asked about those whose mark does not tell, by their place."""
    count = min(len(value), len(marks))
    try:
        if all(map(eq, marks, map(_look, value))):
            return count
    except AttributeError:
        pass  # not all of them are messages
    for place, (element, mark) in enumerate(zip(value, marks, strict=False)):
        if isinstance(mark, Mark):
            same = type(element) is mark.kind and _look(element) == mark
        else:
            same = is_other_same(place)
        if not same:
            return place
    return count
