"""Records of retention: the rules of what may go, and what went. Read and returned by `store.retain`."""

from __future__ import annotations

import msgspec


class Retention(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One rule of what may go. Everything else stays.

    checkpoints: how many of each name are kept, of sessions and of runs that are over (also what models were given).
    turns: turns that a summary stands for go, but for the newest so many turns of the session.
    sessions: all turns, checkpoints and emitted events of sessions that are closed, or whose `ttl` is over, go. The session
    itself, its tasks, decisions, values, artifacts and effects stay; so does a session that was
    forked, or has a run that is not over. One that is opened again begins anew.
    values: of the history of each value the newest so many versions are kept, at least 1, of sessions and scopes; the value
    that stands is never touched. `at` a moment between what went and what came after it refuses to tell values.
    emitted: of the events that were emitted the newest so many of each session, scope, or run that is over are kept.
    runs: all checkpoints and steps of runs that are over go; what a run was given, its result and its effects stay.
    older_than: only what is older ("30d"); of values, those that were replaced before that; of whole sessions and
    runs, those that ended and last changed before that.
    session: only this one, and its runs. label, except_label: only sessions, and runs of sessions, that have it, or have it
    not. larger_than: only sessions and runs that take more bytes than this.
    """

    checkpoints: int | None = None
    turns: int | None = None
    sessions: bool = False
    runs: bool = False
    values: int | None = None
    emitted: int | None = None
    session: str | None = None
    older_than: str | float | None = None
    label: str | None = None
    except_label: str | None = None
    larger_than: int | None = None


class Retained(msgspec.Struct, frozen=True):
    """The parts of one session or run that went: sequence numbers, oldest first, and the bytes of what their events said."""

    kind: str
    name: str
    checkpoints: tuple[int, ...]
    turns: tuple[int, ...]
    bytes: int
    events: tuple[int, ...] = ()  # emitted events, steps of a run
    values: tuple[int, ...] = ()  # versions of values that were replaced


class RetainReport(msgspec.Struct, frozen=True):
    """The parts that retention took away, or with `dry_run` would: of each session and run, and the blobs that nothing needs
    then.

    bytes: of all of it. lingering: bodies that went and still stand in the lines of a files store's log, because a retention was
    interrupted (the next one takes them out) or a file is damaged. Headers and hashes stay: the chain verifies, and `verify`
    lists what it can no longer compare.
    """

    streams: tuple[Retained, ...]
    blobs: int
    bytes: int
    dry_run: bool
    lingering: int = 0

    @property
    def checkpoints(self) -> int:
        """How many checkpoints."""
        return sum(len(each.checkpoints) for each in self.streams)

    @property
    def turns(self) -> int:
        """How many turns."""
        return sum(len(each.turns) for each in self.streams)

    @property
    def values(self) -> int:
        """How many versions of values."""
        return sum(len(each.values) for each in self.streams)

    @property
    def events(self) -> int:
        """How many emitted events and steps."""
        return sum(len(each.events) for each in self.streams)
