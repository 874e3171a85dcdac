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


def check_filter(condition: object) -> Mapping[str, Any]:
    """A filter that can be carried out; None is one that lets everything pass."""
    if condition is None:
        return {}
    if not isinstance(condition, Mapping):
        raise Invalid(f"expected a dict, got {type(condition).__name__}", path="filter")
    for name, value in condition.items():
        if not isinstance(name, str):
            raise Invalid(f"expected names of fields, got {type(name).__name__}", path="filter")
        _check_operators(value, f"filter[{name[:40]!r}]")
    return condition


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


def passes(item: Mapping[str, Any], condition: Mapping[str, Any]) -> bool:
    """Whether an item is what a filter wants."""
    return all(_fits(_at(item, name), value) for name, value in condition.items())


def _at(item: Mapping[str, Any], name: str) -> Any:
    value: Any = item
    if name in item:
        return item[name]
    for part in name.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def _fits(actual: Any, condition: Any) -> bool:
    if isinstance(condition, Mapping):
        if _has_operators(condition):
            return all(_holds(actual, name, value) for name, value in condition.items())
        return isinstance(actual, Mapping) and all(_fits(actual.get(name), value) for name, value in condition.items())
    if isinstance(condition, (list, tuple)):
        same = isinstance(actual, (list, tuple)) and len(actual) == len(condition)
        return same and all(map(_fits, actual, condition))
    return bool(actual == condition)


def _holds(actual: Any, name: str, value: Any) -> bool:
    if name in _ORDERS:
        try:
            return bool(_ORDERS[name](actual, value))
        except TypeError:
            return False
    return bool(actual == value) is (name == "$eq")
