"""Records of checks: what must be so for a memory, value, decision or task to hold, and what came of looking.

A check is data. `boot.checking` decides what is looked at, and whether a program may be run or a page asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import msgspec

from perdure.model.records.memories import Validity


class FileHash(msgspec.Struct, frozen=True, tag="file", tag_field="check", omit_defaults=True):
    """A file has this content: the content that it has when the memory is written, unless `sha256` is given.

    folder: what a relative path starts from; the working folder of the writer, unless the reader names another.
    """

    path: str
    sha256: str = ""
    folder: str = ""


class GitRef(msgspec.Struct, frozen=True, tag="git", tag_field="check", omit_defaults=True):
    """A branch, tag or commit exists in the repository at `folder`, and is at `commit`, if one is given."""

    name: str
    commit: str = ""
    folder: str = ""


class Command(msgspec.Struct, frozen=True, tag="command", tag_field="check", omit_defaults=True):
    """A program with these arguments ends with `exit`. It is run only for readers that allow this very command."""

    argv: tuple[str, ...]
    exit: int = 0
    folder: str = ""


class Age(msgspec.Struct, frozen=True, tag="age", tag_field="check", omit_defaults=True):
    """It was written, changed or confirmed no longer ago than this: "30d"."""

    limit: str


class ValueIs(msgspec.Struct, frozen=True, tag="value", tag_field="check", omit_defaults=True):
    """A value of the same session or scope is still this one."""

    name: str
    value: Any


class AtCommit(msgspec.Struct, frozen=True, tag="commit", tag_field="check", omit_defaults=True):
    """The repository at `folder` is still at this commit: the one that it is at when this is written, unless one is given."""

    commit: str = ""
    folder: str = ""


class UrlEtag(msgspec.Struct, frozen=True, tag="url", tag_field="check", omit_defaults=True):
    """A page has this ETag: the one that it has when this is written, unless one is given. It is asked for only by readers that
    allow its address.
    """

    url: str
    etag: str = ""


class ModelOffered(msgspec.Struct, frozen=True, tag="model", tag_field="check", omit_defaults=True):
    """A model is still offered: it is among those that the reader names."""

    model: str


class ClaimerAlive(msgspec.Struct, frozen=True, tag="claimer", tag_field="check", omit_defaults=True):
    """A task of the same session is claimed by somebody who lives. A task's own: 0."""

    task: int = 0


class Unreadable(msgspec.Struct, frozen=True, tag="unreadable", tag_field="check"):
    """A check that a newer Perdure wrote, or that somebody altered: its result is unknown."""


Check: TypeAlias = (
    FileHash | GitRef | Command | Age | ValueIs | AtCommit | UrlEtag | ModelOffered | ClaimerAlive | Unreadable
)


class CheckResult(msgspec.Struct, frozen=True):
    """The outcome of one check: whether its statement holds, and why not or why this is not known."""

    check: Check
    standing: Validity
    why: str = ""


def standing_of(outcomes: Sequence[CheckResult]) -> Validity:
    """Stale if one check says so, unknown if one could not tell or there are none, else it holds."""
    found = {verdict.standing for verdict in outcomes}
    if Validity.STALE in found:
        return Validity.STALE
    return Validity.HOLDS if found == {Validity.HOLDS} else Validity.UNKNOWN
