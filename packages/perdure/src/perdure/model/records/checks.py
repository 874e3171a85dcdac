"""Records of checks: the conditions under which a memory, value, decision or task holds, and the outcome of looking.

A check is data. `boot.checking` decides what is looked at, and whether a program may be run or a page asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import msgspec

from perdure.model.records.memories import Validity


class FileHash(msgspec.Struct, frozen=True, tag="file", tag_field="check", omit_defaults=True):
    """Holds while a file has this content. Without `sha256`, the content when the memory is written.

    folder: the start of a relative path. Default: the working folder of the writer, unless the reader names another.
    """

    path: str
    sha256: str = ""
    folder: str = ""


class GitRef(msgspec.Struct, frozen=True, tag="git", tag_field="check", omit_defaults=True):
    """Holds while a branch, tag or commit exists in the repository at `folder`, and is at `commit`, if one is given."""

    name: str
    commit: str = ""
    folder: str = ""


class Command(msgspec.Struct, frozen=True, tag="command", tag_field="check", omit_defaults=True):
    """Holds while a program with these arguments ends with `exit`. It is run only for readers that allow this very command."""

    argv: tuple[str, ...]
    exit: int = 0
    folder: str = ""


class Age(msgspec.Struct, frozen=True, tag="age", tag_field="check", omit_defaults=True):
    """Holds for so long after it was written, changed or confirmed: "30d"."""

    limit: str


class ValueIs(msgspec.Struct, frozen=True, tag="value", tag_field="check", omit_defaults=True):
    """Holds while a value of the same session or scope is still this one."""

    name: str
    value: Any


class AtCommit(msgspec.Struct, frozen=True, tag="commit", tag_field="check", omit_defaults=True):
    """Holds while the repository at `folder` is at this commit. Without `commit`, the commit when this is written."""

    commit: str = ""
    folder: str = ""


class UrlEtag(msgspec.Struct, frozen=True, tag="url", tag_field="check", omit_defaults=True):
    """Holds while a page has this ETag. Without `etag`, the ETag when this is written.

    The page is asked for only by readers that allow its address.
    """

    url: str
    etag: str = ""


class ModelOffered(msgspec.Struct, frozen=True, tag="model", tag_field="check", omit_defaults=True):
    """Holds while a model is offered: it is among those that the reader names."""

    model: str


class ClaimerAlive(msgspec.Struct, frozen=True, tag="claimer", tag_field="check", omit_defaults=True):
    """Holds while a task of the same session is claimed by a living holder. 0: the task that carries the check."""

    task: int = 0


class Unreadable(msgspec.Struct, frozen=True, tag="unreadable", tag_field="check"):
    """A check that a newer Perdure wrote, or that somebody altered: its result is unknown."""


Check: TypeAlias = (
    FileHash | GitRef | Command | Age | ValueIs | AtCommit | UrlEtag | ModelOffered | ClaimerAlive | Unreadable
)


class CheckResult(msgspec.Struct, frozen=True):
    """The outcome of one check: whether it holds, and if not, or if this is unknown, why."""

    check: Check
    standing: Validity
    why: str = ""


def standing_of(outcomes: Sequence[CheckResult]) -> Validity:
    """Return stale if one check is, unknown if one could not tell or there are none, else holds."""
    standings = {verdict.standing for verdict in outcomes}
    if Validity.STALE in standings:
        return Validity.STALE
    return Validity.HOLDS if standings == {Validity.HOLDS} else Validity.UNKNOWN
