"""Records of retention: the rules of what may go, and a report of what went. See `store.retain`."""

from __future__ import annotations

import msgspec


class Retention(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One rule of what may go. Everything else stays.

        perdure.Retention(checkpoints=5, turns=50, older_than="30d")

    checkpoints: keep so many of each name, of sessions and of runs that are over (and of the inputs of their models).
    turns: turns that a summary covers go, except the newest so many turns of the session.
    sessions: all turns, checkpoints and emitted events of sessions that are closed, or whose `ttl` is over, go. The session
        itself, its tasks, decisions, values, artifacts and effects stay. A session that was forked, or has an unfinished run,
        is not touched. A session that is opened again begins anew.
    values: keep the newest so many versions of each value, at least 1, of sessions and scopes. The present value is never
        touched. `at` refuses to tell values at a moment whose versions went.
    emitted: keep the newest so many emitted events of each session, scope, or run that is over.
    runs: all checkpoints and steps of runs that are over go; arguments, result and effects of a run stay.
    older_than: only what is older ("30d"); values that were replaced before that; whole sessions and runs that ended and last
        changed before that.
    session: only this session, and its runs.
    label, except_label: only sessions, and runs of sessions, with this label, or without it.
    larger_than: only sessions and runs that take more bytes than this.
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
    """The parts of one session or run that went: sequence numbers, oldest first, and the bytes of their content."""

    kind: str
    name: str
    checkpoints: tuple[int, ...]
    turns: tuple[int, ...]
    bytes: int
    events: tuple[int, ...] = ()  # emitted events, steps of a run
    values: tuple[int, ...] = ()  # versions of values that were replaced


class RetainReport(msgspec.Struct, frozen=True):
    """The parts that retention removed, or with `dry_run` would remove: of each session and run, and the blobs that nothing
    needs then.

    bytes: of all of it.
    lingering: bodies that went and still stand in the lines of a files store's log, because a retention was interrupted (the
        next one takes them out) or a file is damaged.

    Headers and hashes stay: the chain verifies, and `verify` lists what it can no longer compare.
    """

    streams: tuple[Retained, ...]
    blobs: int
    bytes: int
    dry_run: bool
    lingering: int = 0

    @property
    def checkpoints(self) -> int:
        """How many checkpoints."""
        return sum(len(stream.checkpoints) for stream in self.streams)

    @property
    def turns(self) -> int:
        """How many turns."""
        return sum(len(stream.turns) for stream in self.streams)

    @property
    def values(self) -> int:
        """How many versions of values."""
        return sum(len(stream.values) for stream in self.streams)

    @property
    def events(self) -> int:
        """How many emitted events and steps."""
        return sum(len(stream.events) for stream in self.streams)
