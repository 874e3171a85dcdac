"""The reports of verify, anchors, backup and restore."""

from __future__ import annotations

import enum

import msgspec


class ProblemKind(enum.StrEnum):
    """The kinds of problems that verify can find. The names of broken chains are those of `log.chain`."""

    EVENT_ALTERED = "event-altered"  # a field of the header, or the hash, is not what was written
    BODY_ALTERED = "body-altered"  # the body or its salt is not the one that the header commits to
    EVENT_MISSING = "event-missing"
    EVENT_MOVED = "event-moved"  # two events stand in each other's places
    HEAD_WRONG = "head-wrong"  # the head of the stream is not its last event
    BODY_EMPTIED = "body-emptied"  # the body is gone and no prune says so
    EVENT_UNREADABLE = "event-unreadable"  # the chain holds, but what the event says cannot be applied
    EVENT_ASTRAY = "event-astray"  # an event or row of a stream that does not exist
    FORK_BROKEN = "fork-broken"  # the event that a fork continues from is not there
    STREAM_MISSING = "stream-missing"  # an anchor names it
    STREAM_ALTERED = "stream-altered"
    TENANT_ALTERED = "tenant-altered"  # the log knows a tenant by another name
    TAIL_CUT = "tail-cut"  # an anchor names an event after the last one
    REWRITTEN = "rewritten"  # an anchor names another hash for this event
    ANCHOR_INVALID = "anchor-invalid"  # the anchor itself does not hold
    ROW_ALTERED = "row-altered"
    ROW_MISSING = "row-missing"
    ROW_UNRECORDED = "row-unrecorded"  # written past the log
    DERIVED_WRONG = "derived-wrong"  # a derived row is not what the log gives
    BLOB_MISSING = "blob-missing"
    BLOB_ALTERED = "blob-altered"
    GUARD_MISSING = "guard-missing"  # the trigger that makes the database refuse to change events is gone
    DATABASE_DAMAGED = "database-damaged"  # the database cannot read its own pages
    CACHE = "cache"  # the tables of a files store do not say what its lines say
    SET_ASIDE = "set-aside"  # a stretch of a files store's log that is no valid line, or follows nothing


class Problem(msgspec.Struct, frozen=True):
    """One thing that is not as it was written, and its place. `seq` is the event that is wrong, or that says what is right."""

    kind: ProblemKind
    stream: str
    uid: str
    seq: int | None
    table: str
    message: str

    def __str__(self) -> str:
        where = " ".join(filter(None, [self.stream, f"seq {self.seq}" if self.seq else "", self.table]))
        return f"{self.kind}: {where}: {self.message}" if where else f"{self.kind}: {self.message}"


class Aside(msgspec.Struct, frozen=True):
    """A stretch of a files store's log that could not be loaded. lost: whether it may have said what is said nowhere else."""

    segment: int
    offset: int
    length: int
    reason: str
    lost: bool
    content: str  # bytes that are not text are shown as escapes

    @property
    def place(self) -> str:
        """Where it lies."""
        return f"log/{self.segment:06}.jsonl, byte {self.offset}"


class Unverifiable(msgspec.Struct, frozen=True):
    """An event whose body was pruned: the chain holds, but what it said can no longer be compared."""

    stream: str
    uid: str
    seq: int


class Counts(msgspec.Struct, frozen=True):
    """How much was looked at."""

    streams: int = 0
    events: int = 0
    rows: int = 0
    derived: int = 0
    blobs: int = 0
    plain_actors: int = (
        0  # events of before, whose headers name their actors as they were given: those cannot be erased
    )


class Report(msgspec.Struct, frozen=True):
    """The findings of verify. `signature` is the state of the anchor's: "", "unsigned", "unchecked", "good" or "bad"."""

    problems: list[Problem]
    unverifiable: list[Unverifiable]
    counts: Counts
    signature: str = ""
    left_out: int = 0  # problems beyond the first thousand are only counted
    unnamed: list[str] = []  # tenants whose names the log does not say: `perdure anchor` records them
    quarantined: list[Problem] = []  # known damage: `perdure quarantine` recorded it

    @property
    def ok(self) -> bool:
        """Whether everything is as it was written, except damage that was looked at and put into quarantine."""
        return not self.problems and not self.left_out


class Backup(msgspec.Struct, frozen=True):
    """A finished backup. `note` says what it holds and what it does not."""

    path: str
    store: str
    epoch: int
    schema: int
    size: int
    blobs: int
    note: str


class Restored(msgspec.Struct, frozen=True):
    """A finished restore: the store has a new epoch, so that open effects are settled rather than trusted."""

    url: str
    store: str
    epoch: int
    schema: int
    blobs: int
    report: Report


class WrittenBack(msgspec.Struct, frozen=True):
    """The lines that were, or would be, written back into the log of a files store.

    segments: the files of the log; behind: whether more was seen than the cache has.
    """

    events: int
    streams: int
    segments: list[str]
    behind: bool
    epoch: int
