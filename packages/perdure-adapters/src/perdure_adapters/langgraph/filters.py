"""The filters of a search in LangGraph's store: `{"tag": "a", "score": {"$gt": 3}, "user.name": "Ann"}`.

A name is a key of the item or, with periods, a path into it. A plain value must be equal; a dict without operators is matched
key by key. Values that have no order do not match. Nothing of a filter ever becomes SQL.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

from perdure.errors import Invalid

_ORDERS: dict[str, Callable[[Any, Any], bool]] = {
    "$gt": operator.gt, "$gte": operator.ge, "$lt": operator.lt, "$lte": operator.le,
}  # fmt: skip
OPERATORS = ("$eq", "$ne", *_ORDERS)


def check_filter(wanted: object) -> Mapping[str, Any]:
    """A filter that can be carried out; None is one that lets everything pass."""
    if wanted is None:
        return {}
    if not isinstance(wanted, Mapping):
        raise Invalid(f"expected a dict, got {type(wanted).__name__}", path="filter")
    for name, value in wanted.items():
        if not isinstance(name, str):
            raise Invalid(f"expected names of fields, got {type(name).__name__}", path="filter")
        _check_operators(value, f"filter[{name[:40]!r}]")
    return wanted


def _check_operators(value: Any, path: str) -> None:
    if not isinstance(value, Mapping):
        return
    for name, inner in value.items():
        if _has_operators(value) and name not in OPERATORS:
            raise Invalid(f"unknown operator {name!r}; there are {', '.join(OPERATORS)}", path=path)
        if not _has_operators(value):
            _check_operators(inner, path)


def _has_operators(value: Mapping[Any, Any]) -> bool:
    return any(isinstance(name, str) and name.startswith("$") for name in value)


def passes(item: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether an item is what a filter wants."""
    return all(_fits(_at(item, name), value) for name, value in wanted.items())


def _at(item: Mapping[str, Any], name: str) -> Any:
    found: Any = item
    if name in item:
        return item[name]
    for part in name.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return found


def _fits(found: Any, wanted: Any) -> bool:
    if isinstance(wanted, Mapping):
        if _has_operators(wanted):
            return all(_holds(found, name, value) for name, value in wanted.items())
        return isinstance(found, Mapping) and all(_fits(found.get(name), value) for name, value in wanted.items())
    if isinstance(wanted, (list, tuple)):
        same = isinstance(found, (list, tuple)) and len(found) == len(wanted)
        return same and all(map(_fits, found, wanted))
    return bool(found == wanted)


def _holds(found: Any, name: str, value: Any) -> bool:
    if name in _ORDERS:
        try:
            return bool(_ORDERS[name](found, value))
        except TypeError:
            return False
    return bool(found == value) is (name == "$eq")
