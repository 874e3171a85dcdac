"""One finding of a look at a store: how bad it is, and what mends it. Words of `health` and `strain`."""

from __future__ import annotations

import enum
from collections.abc import Iterator

import msgspec

MIB = 1024 * 1024


class Severity(enum.StrEnum):
    """How bad it is: a warning can cost something later, an error costs something now."""

    OK = "ok"
    WARNING = "warning"
    ERROR = "error"


class Finding(msgspec.Struct, frozen=True):
    """One thing that was looked at. `fix` is the command or the step that mends it."""

    check: str
    severity: Severity
    says: str
    fix: str = ""


Findings = Iterator[Finding]


def ok(check: str, says: str) -> Finding:
    """As it should be."""
    return Finding(check, Severity.OK, says)


def warning(check: str, says: str, fix: str) -> Finding:
    """Works, and will bite."""
    return Finding(check, Severity.WARNING, says, fix)


def wrong(check: str, says: str, fix: str) -> Finding:
    """Does not work, or does not keep the promises."""
    return Finding(check, Severity.ERROR, says, fix)
