"""Pruned bodies leave the lines of the log too: files that hold emptied bodies are written anew, without them.

    look    which events the cache holds without a body, and in which files of the log their bodies still stand
    settle  the marks (cache, head) stand durably behind whatever will change, in a new segment if need be; so a file that is
            replaced is never taken for a log that was put back. The cache is scrubbed: pages keep what was deleted from them
    rewrite each file for itself, under the lock: whole and synced beside the log, then renamed over the old one

A line that loses a body says which checksums it had (`was`): the line after it names one of those, so no other line changes.
Killed anywhere the log is whole and says the same, and what still holds a body is found again. Git keeps what it has; lines that
were set aside are not touched. Callers: `engine`, for `perdure retain --apply`. Keeps P1, P5, P6.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import NamedTuple

from msgspec.structs import replace

from perdure.log.written import emptied
from perdure.model.crash_points import reach
from perdure.model.instants import system_clock
from perdure.stores.atomic_files import disk_errors
from perdure.stores.sqlite import SqliteConnection
from perdure.stores.store import Writes
from perdure_files.store.connection import FilesConnection, mark_of, put_mark
from perdure_files.store.journal import LineLog
from perdure_files.store.layout import Layout
from perdure_files.store.line import FoundLine, lines_in, written
from perdure_files.store.load import Q, facts_of

Gone = frozenset[str]  # the hashes of events whose bodies went


class Purged(NamedTuple):
    """The content of a file without the bodies that went, and how many those are."""

    data: bytes
    bodies: int


def gone_of(cache: SqliteConnection) -> Gone:
    """Which events have no body any more."""
    return frozenset(bytes(digest).hex() for (digest,) in cache.query(Q.emptied_hashes, {}))


def without(data: bytes, hashes: Gone) -> Purged:
    """A segment without the bodies of these events; whatever else is in it stays as it is, damage too."""
    parts: list[bytes] = []
    done = bodies = 0
    for part in lines_in(data, 0):
        if not isinstance(part, FoundLine):
            continue
        count = sum(1 for event in part.line.events if event.salt and event.hash in hashes)
        if count:
            parts += [data[done : part.start], _rewritten(part, hashes)]
            done, bodies = part.end, bodies + count
    return Purged(b"".join([*parts, data[done:]]), bodies)


def _rewritten(part: FoundLine, hashes: Gone) -> bytes:
    """A line without some bodies, and without its end. It keeps every checksum that a later line may name it by."""
    events = [emptied(event) if event.hash in hashes else event for event in part.line.events]
    return written(replace(part.line, events=events, was=[*part.line.was, part.check]))[0][:-1]


def lingering(layout: Layout, hashes: Gone) -> dict[int, int]:
    """In which segments bodies that went still stand, and how many. Reads the whole log, if anything ever went."""
    if not hashes:
        return {}
    counts = {
        number: sum(without(layout.read(path), hashes).bodies for path in layout.files(number))
        for number in layout.numbers()
    }
    return {number: count for number, count in counts.items() if count}


class Purge:
    """One purge of one store. `connected` gives a connection that follows the log of the journal it is given."""

    def __init__(self, journal: LineLog, wait_seconds: float, connected: Callable[[], FilesConnection]) -> None:
        self._journal = journal
        self._layout = journal.layout
        self._wait_seconds = wait_seconds
        self._connected = connected

    def run(self) -> int:
        """Take every body that went out of the log; returns how many stay, in files that cannot be unpacked.

        Repeatable; others write between two segments. Raises Fault or Error, and the rest is left for the next time.
        """
        with closing(self._connected()) as connection, closing(self._journal):
            hashes = gone_of(connection)
            counts = lingering(self._layout, hashes)
            if not counts:
                return 0
            with self._locked(connection):
                self._settle(connection, max(counts))
            return sum(self._rewrite(connection, number, hashes) for number in counts)

    @contextmanager
    def _locked(self, connection: FilesConnection) -> Iterator[None]:
        """With the cache at the end of a log that nobody else writes to."""
        self._journal.lock(self._wait_seconds)
        try:
            connection.follow(self._journal)
            with disk_errors(self._layout.log, "store"):
                yield
        finally:
            self._journal.unlock()

    def _settle(self, connection: FilesConnection, last: int) -> None:
        """Nothing marks a place in a segment up to the last one that is written anew, also after a loss of power."""
        cache = SqliteConnection(connection.raw)
        mark = mark_of(cache)
        if mark.segment <= last:
            mark = self._journal.rotate(mark, facts_of(cache), system_clock())
        cache.query(Q.fully_synced, {})
        cache.begin()
        self._journal.note(put_mark(cache, mark))
        cache.write(Writes(), commit=True)
        self._layout.within.sync_file(self._layout.head)
        reach("purge.settled")
        self._layout.sweep_all()
        for statement in (Q.scrubbed, Q.drained):
            cache.query(statement, {})
        reach("purge.scrubbed")

    def _rewrite(self, connection: FilesConnection, number: int, hashes: Gone) -> int:
        """Every file of one segment; how many bodies stay in it."""
        stay = 0
        with self._locked(connection):
            for path in self._layout.files(number):
                data, bodies = without(self._layout.read(path), hashes)
                if bodies and self._layout.is_cut_short(data):
                    stay += bodies
                elif bodies:
                    self._layout.put(path, data)
                    reach("purge.rewritten")
        return stay
