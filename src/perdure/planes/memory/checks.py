"""The checks of a memory, as they are written down and read back. Running them is `boot.checking`'s: verbs never call out.

Callers: `memories`. Keeps P10: what is stored is data, and an odd check is unknown, never an error of its reader.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from perdure.errors import Invalid, TooLarge
from perdure.model.instants import duration_us
from perdure.model.limits import check_name, check_text
from perdure.model.records.checks import Age, Check, Command, FileHash, GitRef, Unreadable, ValueIs
from perdure.model.values import to_plain

CHECKS_MAX = 20
PATH_MAX_CHARS = 4_000
ARGUMENTS_MAX = 100


def to_stored(checks: Iterable[object]) -> list[dict[str, Any]]:
    """The checks as a document keeps them. Invalid with the path of what is none."""
    if isinstance(checks, (str, bytes)) or not isinstance(checks, Iterable):
        hint = "checks=[perdure.FileHash('Makefile'), perdure.Age('30d')]"
        raise Invalid(f"expected a list of checks, got {type(checks).__name__}", path="checks", hint=hint)
    given = list(checks)
    if len(given) > CHECKS_MAX:
        raise TooLarge(f"{len(given)} checks, at most {CHECKS_MAX} are kept", path="checks")
    return [_stored(each, f"checks[{i}]") for i, each in enumerate(given)]


def from_stored(stored: Any) -> tuple[Check, ...]:
    """The checks of a document."""
    return tuple(map(_read, stored)) if isinstance(stored, list) else (Unreadable(),)


def _stored(check: object, path: str) -> dict[str, Any]:
    match check:
        case FileHash(name, digest, folder):
            check_text(name, f"{path}.path", PATH_MAX_CHARS)
            if not name or len(digest) != 64 or not set(digest) <= set("0123456789abcdef"):
                raise Invalid("a file and the sha256 of its content are needed", path=path)
            check_text(folder, f"{path}.folder", PATH_MAX_CHARS)
        case GitRef(name, commit, folder):
            check_name(name, f"{path}.name")
            check_text(commit, f"{path}.commit", 64)
            check_text(folder, f"{path}.folder", PATH_MAX_CHARS)
        case Command(argv, _, folder):
            if isinstance(argv, str) or not argv or len(argv) > ARGUMENTS_MAX:
                hint = "a list, which no shell reads: perdure.Command(['make', '--version'])"
                raise Invalid("a command is a program and its arguments", path=f"{path}.argv", hint=hint)
            for i, each in enumerate(argv):
                check_text(each, f"{path}.argv[{i}]", PATH_MAX_CHARS)
            check_text(folder, f"{path}.folder", PATH_MAX_CHARS)
        case Age(limit):
            duration_us(limit, f"{path}.limit")
        case ValueIs(name, value):
            check_name(name, f"{path}.name")
            return {"check": "value", "name": name, "value": to_plain(value, f"{path}.value")}
        case _:
            hint = "perdure.FileHash, GitRef, Command, Age or ValueIs"
            raise Invalid(f"expected a check, got {type(check).__name__}", path=path, hint=hint)
    return msgspec.to_builtins(check)


def _read(stored: Any) -> Check:
    try:
        return msgspec.convert(stored, Check)
    except msgspec.ValidationError:
        return Unreadable()
