"""Pins: the versions of software under which a run works, as texts by names. Pure.

Pins of an agent may be nested; a version of a tool is then `tools.git`. A long text, such as a whole prompt, is known by
its sha256. A version that is not named is unknown, and unknown differs from any other. Callers: agents, runs, the doors.
"""

from __future__ import annotations

import enum
import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any, Literal, TypeAlias

from perdure.errors import Invalid, TooLarge
from perdure.model.limits import check_name, check_text
from perdure.model.values import TAG, to_plain

VERSIONS_MAX = 1_100
VERSION_MAX_CHARS = 200
NAMED_MAX_CHARS = 2 * VERSION_MAX_CHARS  # the name of a tool, and above it `tools.`
ASKED_MAX_CHARS = NAMED_MAX_CHARS + 1 + VERSION_MAX_CHARS
UNKNOWN = "unknown"

Versions: TypeAlias = dict[str, str]
Moved: TypeAlias = dict[str, list[str | None]]


class OnChange(enum.StrEnum):
    """The policy for a run that would continue under other versions: see `@perdure.agent`."""

    CONTINUE = "continue"
    PARK = "park"
    ASK = "ask"


OnChangeName: TypeAlias = Literal["continue", "park", "ask"]


def versions_of(pins: Mapping[str, Any], path: str = "pins") -> Versions:
    """The versions that an agent or a session pins. Invalid names what is wrong."""
    versions: Versions = {}
    plain: Any = to_plain(dict(pins), path)
    for name, value in _leaves(plain, "", path):
        if name in versions:
            raise Invalid(f"the version of {name!r} is said twice", path=f"{path}.{name}")
        versions[name] = _version(value, f"{path}.{name}")
    if len(versions) > VERSIONS_MAX:
        raise TooLarge(f"{len(versions):,} versions, at most {VERSIONS_MAX:,} are kept", path=path)
    return versions


def _leaves(pins: Mapping[str, Any], above: str, path: str) -> Iterator[tuple[str, Any]]:
    """The versions by their whole names. None is no version."""
    for name, value in pins.items():
        full_name = check_name(f"{above}{check_name(name, path)}", path, NAMED_MAX_CHARS)
        if isinstance(value, dict) and TAG not in value:
            yield from _leaves(value, f"{full_name}.", f"{path}.{name}")
        elif value is not None:
            yield full_name, value


def _version(value: Any, path: str) -> str:
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True)
    check_text(text, path)
    if len(text) > VERSION_MAX_CHARS:
        return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"
    return text


def moved(before: Mapping[str, str], after: Mapping[str, str]) -> Moved:
    """The versions that differ, by name, before and after. None: unknown."""
    names = sorted({*before, *after})
    return {name: [before.get(name), after.get(name)] for name in names if before.get(name) != after.get(name)}


def moved_text(change: Mapping[str, list[str | None]]) -> str:
    """A change of versions for people."""
    return ", ".join(f"{name} {old or UNKNOWN} → {new or UNKNOWN}" for name, (old, new) in change.items())


def check_version(text: object, path: str = "version") -> str:
    """A version by which runs are asked for, NAME=VALUE. Invalid for anything else."""
    pair = check_text(text, path, ASKED_MAX_CHARS)
    name, _, value = pair.partition("=")
    if not (name and value):
        raise Invalid(f"expected NAME=VALUE, got {pair!r}", path=path, hint="for example model=m1")
    return pair
