"""Retention rules as people write them: in a TOML file, or as options of a command. Pure functions.

    [[rule]]
    label = "scratch"
    checkpoints = 1
    turns = 0
    older_than = "7d"

Callers: the doors. Keeps P10, P15: what is no rule is refused with its path.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from typing import Any

import msgspec

from perdure.errors import Invalid
from perdure.model.records.retention import Retention
from perdure.planes.retention.retain import check_rules

RULES_MAX = 100
_SIZE = re.compile(r"(\d{1,18})\s*(B|KiB|MiB|GiB|TiB)?")
_UNITS = {None: 1, "B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}


def policy_rules(text: bytes) -> list[Retention]:
    """The rules of a policy. Invalid names what is wrong in which of them."""
    try:
        table = tomllib.loads(text.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Invalid(f"it is not TOML: {error}", path="policy") from None
    rules = table.pop("rule", None)
    if table or not isinstance(rules, list) or not 1 <= len(rules) <= RULES_MAX:
        raise Invalid(f"expected [[rule]] tables and nothing else, at most {RULES_MAX}", path="policy")
    return check_rules([rule_of(rule, f"rule[{i}]") for i, rule in enumerate(rules)])


def rule_of(fields: Mapping[str, Any], path: str) -> Retention:
    """One rule from its fields; a size may be written as 10MiB."""
    values = dict(fields)
    if isinstance(values.get("larger_than"), str):
        values["larger_than"] = _bytes(values["larger_than"], f"{path}.larger_than")
    try:
        return msgspec.convert(values, Retention)
    except msgspec.ValidationError as error:
        raise Invalid(f"it is no rule: {error}", path=path) from None


def _bytes(size: str, path: str) -> int:
    match = _SIZE.fullmatch(size.strip())
    if match is None:
        raise Invalid(f"expected a size such as 500KiB or 10MiB, got {size[:40]!r}", path=path)
    return int(match[1]) * _UNITS[match[2]]
