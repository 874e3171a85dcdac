"""`perdure restore --from-cache`: what a log lost and its cache still has is written back, line by line.

A segment that is missing, or has no line, gets the lines that stood there; what was lost at the end is appended. A segment is put
there whole: a crash leaves the log as it was or with some segments more, and repeating it does the rest. Before the cache takes
the log for its own again the log is read anew and compared with it. If the log is known to have had more after the cache's last
line, the epoch rises, as after a restore. Callers: the handles. Keeps P1, P3, P5.
"""

from __future__ import annotations

from contextlib import closing

import msgspec

from perdure.errors import Damaged, Invalid, NotFound
from perdure.log.written import encode
from perdure.model.instants import system_clock
from perdure.model.records.integrity import WrittenBack
from perdure.stores import schema_upgrade, url
from perdure.stores.atomic_files import disk_errors
from perdure.stores.sqlite import SqliteConnection, SqliteEngine
from perdure.stores.store import Writes
from perdure_files.store import lines_from_tables, set_aside
from perdure_files.store.cache_check import compared, said_by_lines, said_of
from perdure_files.store.connection import mark_of, put_mark, raised
from perdure_files.store.engine import FilesEngine
from perdure_files.store.journal import START, LineLog, LogMark
from perdure_files.store.line import FORMAT, Line, written
from perdure_files.store.load import facts_of, put_facts
from perdure_files.store.set_aside import gathered

WAIT_SECONDS = 10.0


def from_cache(store_url: str, *, dry_run: bool = False) -> WrittenBack:
    """Write what the cache has and the log has not back into the log. Repeatable; nothing of the log is taken away.

    Raises Invalid (no files store), NotFound (no cache of this user's), Unavailable (somebody holds the lock), or Damaged (not
    all of it can be put where it stood).
    """
    address = url.parse(store_url)
    if address.scheme != "files" or address.path is None:
        raise Invalid(
            "only the log of a files store is restored from its cache",
            path="store",
            hint="`perdure restore BACKUP` makes another store",
        )
    engine = FilesEngine(address.url, address.path)
    layout = engine.layout
    if not layout.cache.exists():
        hint = "bring the log back from git, another clone or a backup"
        raise NotFound(f"there is no cache of this user's in {layout.own}", path="store", hint=hint)
    with schema_upgrade.told("store"), disk_errors(layout.folder, "store"):
        layout.check_regular()
        journal = engine.journal()
        journal.lock(WAIT_SECONDS)
        try:
            with closing(SqliteEngine(engine.url, layout.cache).connect()) as cache:
                return _Mending(journal, cache).run(dry_run=dry_run)
        finally:
            journal.close()


class _Mending:
    def __init__(self, journal: LineLog, cache: SqliteConnection) -> None:
        self._journal, self._layout, self._cache = journal, journal.layout, cache
        self._facts = facts_of(cache)
        self._at = system_clock()

    def run(self, *, dry_run: bool) -> WrittenBack:
        statements, first_checks = lines_from_tables.statements_of(self._journal)
        lines = [*lines_from_tables.missing(self._cache, statements)]
        placed = self._placed(lines, set(first_checks))
        behind = self._is_behind()
        if not dry_run:
            for number, some in placed.items():
                self._write(number, [entry.line for entry in some], first_checks)
            self._take_over(behind=behind)
        events = [event for entry in lines for event in entry.line.events]
        names = [self._layout.segment(number).name for number in sorted(placed)]
        return WrittenBack(len(events), len({event.stream for event in events}), names, behind, self._facts.epoch)

    def _placed(
        self, lines: list[lines_from_tables.Missing], speaking: set[int]
    ) -> dict[int, list[lines_from_tables.Missing]]:
        """Which lines go into which segment: one that is missing or silent, after what they follow; else the end."""
        numbers = self._layout.numbers()
        last = max(numbers, default=1)
        silent = [number for number in range(1, last + 1) if number not in speaking][: lines_from_tables.SEGMENTS_MAX]
        end = last if last in silent or self._layout.exists(self._layout.segment(last)) else last + 1
        placed: dict[int, list[lines_from_tables.Missing]] = {number: [] for number in silent}
        for entry in lines:
            number = next((number for number in silent if number > entry.after), end)
            placed.setdefault(number, []).append(entry)
        return placed

    def _write(self, number: int, lines: list[Line], first_checks: dict[int, str]) -> None:
        """One segment: what is whole in it stays, and these lines follow. A torn end is set aside first."""
        torn = self._journal.mend(LogMark(number))
        if torn is not None:
            torn = torn._replace(reason="torn: what it was part of was written back from the cache", lost=False)
            set_aside.keep(self._layout, gathered([(number, torn)]))
            self._journal.cut(LogMark(number), torn)
        before = self._layout.content(number) if number in first_checks else b""
        head = [] if before else [Line(FORMAT, "", self._at, store=self._facts)]
        data = before + _joined([*head, *lines], self._last_check(number), first_checks.get(number + 1, ""))
        self._layout.place(self._layout.segment(number), data)

    def _last_check(self, number: int) -> str:
        """The checksum of the last line up to this segment."""
        checks = [mark.check for mark, _ in self._journal.read_on(START) if mark.segment <= number]
        return checks[-1] if checks else ""

    def _is_behind(self) -> bool:
        """Whether the log was seen here beyond what the cache has of it."""
        noted, mark = self._journal.noted(), mark_of(self._cache)
        return noted is not None and (noted.segment, noted.end) > (mark.segment, mark.end)

    def _take_over(self, *, behind: bool) -> None:
        """The log says what the cache says: from here on it is the log that the cache has read."""
        differences = compared(said_of(self._cache), said_by_lines(self._journal))
        if differences:
            hint = "the cache keeps what it has; take the rest from another clone (perdure merge) or a backup"
            raise Damaged(f"not all of the log could be restored: {differences[0]}", path="store", hint=hint)
        mark = START
        for mark, _ in self._journal.read_on(START):  # noqa: B007 - the last one is needed
            pass
        if behind:
            self._facts, mark = raised(self._journal, self._facts, mark)
        self._cache.begin()
        put_facts(self._cache, self._facts)
        put_mark(self._cache, mark)
        self._cache.write(Writes(), commit=True)
        self._journal.note(encode(mark))


def _joined(lines: list[Line], prev: str, name: str) -> bytes:
    """Lines, each after the one before it; the last can also be called by the name that the next segment has for it."""
    parts = list[bytes]()
    for at, line in enumerate(lines):
        was = [name] if name and at == len(lines) - 1 else line.was
        data, prev = written(msgspec.structs.replace(line, prev=prev, was=was))
        parts.append(data)
    return b"".join(parts)
