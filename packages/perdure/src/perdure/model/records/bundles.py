"""Records of bundles: the contents of one, and the outcome of its export or import."""

from __future__ import annotations

import msgspec

FORMAT = 1
KIND = "perdure.bundle"


class Listed(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A stream in a bundle: its events from `first` to `last`, and the hash of the last, which proves all before it.

    session, session_uid: the name and the uid of a run's session in the store that the bundle comes from.
    """

    uid: str
    kind: str
    name: str
    first: int
    last: int
    head: str
    session: str = ""
    session_uid: str = ""

    @property
    def path(self) -> str:
        """How errors name it."""
        return f"{self.kind} {self.name}"


class Member(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file in a bundle."""

    name: str
    size: int
    sha256: str


class Manifest(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The contents of a bundle. Nothing in it depends on the store, the machine or the time of its making.

    actors: the names behind the random names in the headers of its events, as far as its store knew.
    """

    format: int
    kind: str
    about: str
    tenant: str
    streams: list[Listed]
    events: int
    members: list[Member]
    actors: dict[str, str] = {}


class Exported(msgspec.Struct, frozen=True):
    """A finished export. `digest` is the sha256 of the manifest, and so of everything."""

    path: str
    digest: str
    size: int
    streams: int
    events: int
    blobs: int


class Arrived(msgspec.Struct, frozen=True):
    """The outcome of an import for one stream: its name here, and how many events were `added`.

    without: the name of a run's session where it comes from, if that session is not here.
    keys: those of its runs, effects and tasks: a caller here that acts with one of them gets `Imported`.
    """

    uid: str
    kind: str
    name: str
    added: int
    events: int
    parked: bool = False
    without: str = ""
    keys: tuple[str, ...] = ()


class ImportedBundle(msgspec.Struct, frozen=True):
    """A finished import, or with `dry_run` a preview of one."""

    digest: str
    tenant: str
    streams: list[Arrived]
    blobs: int
    dry_run: bool = False

    @property
    def added(self) -> int:
        """How many events were added."""
        return sum(stream.added for stream in self.streams)
