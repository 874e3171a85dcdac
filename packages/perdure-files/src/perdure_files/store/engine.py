"""The files store as an engine: SQLite on a cache that is brought to the log's end, or made anew from it, when it is opened.

Whether the log is the one that this machine saw last is told by the mark in the cache, or by the head beside it: a log that does
not hold it was put back (by git, mostly), and one without either is a clone. Both are another world: the epoch rises, in the log
too, and whatever was under way is settled anew, as after a restore. Callers: `core`. Keeps P1, P3, P4, P5, P9.
"""

from __future__ import annotations

import gc
import logging
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import apsw
from msgspec.structs import replace

from perdure.errors import Damaged, NewerSchema, NotFound, Refused
from perdure.log.written import encode
from perdure.model.instants import system_clock
from perdure.model.records.integrity import Aside
from perdure.stores import migrate, one_path, schema_upgrade
from perdure.stores.atomic_files import disk_errors, sync
from perdure.stores.lane import CommitUnknown
from perdure.stores.sqlite import SqliteConnection, SqliteEngine, opened_to_read, opened_to_write
from perdure.stores.store import Fault, FaultKind, Writes
from perdure.stores.url import NOT_YET, without_password
from perdure_files.store import cache_check, damage, purge, set_aside
from perdure_files.store.connection import CacheReader, FilesConnection, mark_of, put_mark, raised
from perdure_files.store.journal import START, LineLog, LogMark, replaced
from perdure_files.store.layout import SEGMENT_MAX_BYTES, Layout
from perdure_files.store.line import Piece, WrittenStore
from perdure_files.store.load import Loader, Q, facts_of, put_facts
from perdure_files.store.set_aside import gathered

log = logging.getLogger("perdure.store")

_USELESS = (FaultKind.DAMAGED, FaultKind.FOREIGN, FaultKind.BROKEN)  # a cache in this state is made again


class FilesEngine(SqliteEngine):
    """One folder. `prepare` comes before everything else. Blobs are files: what lay in the cache alone would go with it."""

    blobs_inside_max_bytes = -1

    def __init__(
        self,
        url: str,
        folder: Path,
        timeout_seconds: float = 30.0,
        *,
        read_only: bool = False,
        links_ignored: bool = False,
        segment_max_bytes: int = SEGMENT_MAX_BYTES,
    ) -> None:
        self.layout = Layout(folder)
        super().__init__(url, self.layout.cache, timeout_seconds, read_only=read_only, links_ignored=links_ignored)
        self.quick_reads = False  # a reader may have to load lines of others first
        self._segment_max_bytes = segment_max_bytes
        self._unkept: list[Aside] = []  # pieces that a reader without a cache of its own could not load

    def connect(self) -> SqliteConnection:
        """A connection that may write, and that knows the end of the log before it answers."""
        return super().connect() if self.path is None or self.read_only else self._files(self.journal(), unsure=True)

    def _new_reader(self) -> SqliteConnection:
        if self.path is None or self.read_only:
            return super()._new_reader()
        return self._files(self.journal(), unsure=False)

    def _open(self, path: Path) -> SqliteConnection:
        """To read alone: who writes follows the log (`_files`)."""
        return opened_to_read(path, self.busy_wait_ms, CacheReader)

    def keep(self, looked: SqliteConnection) -> None:
        """Close it: readers follow the log."""
        looked.close()

    def _files(self, journal: LineLog, *, unsure: bool) -> FilesConnection:
        if not self.layout.cache.exists():  # it was there when the store was opened
            raise replaced(self.layout.cache)

        def connect(raw: apsw.Connection) -> FilesConnection:
            return FilesConnection(raw, journal, self.busy_wait_ms / 1000, unsure=unsure)

        connection = opened_to_write(self.layout.cache, self.busy_wait_ms, connect)
        assert isinstance(connection, FilesConnection)
        connection.raw.execute(Q.lightly_synced.source)
        return connection

    def journal(self) -> LineLog:
        """The log, for a connection or a merge of its own."""
        return LineLog(self.layout, self._segment_max_bytes, links_ignored=self.links_ignored)

    def asides(self) -> list[Aside]:
        """The parts of the log that are not in the cache, and why: as it was when it was read, and as it is now. Reads the whole
        log.
        """
        with disk_errors(self.layout.folder, "store"):
            pieces = [entry for _, entries in self.journal().read_on(START) for entry in entries]
            damaged = gathered((number, part) for number, part in pieces if isinstance(part, Piece))
            asides = [*(self._unkept or set_aside.listed(self.layout)), *damaged]
        by_place = {(aside.segment, aside.offset, aside.reason): aside for aside in asides}
        return [by_place[place] for place in sorted(by_place)]

    def contradictions(self) -> list[str]:
        """The contradictions between the cache and the lines. Reads the whole log."""
        if self.one_connection:  # made from the lines just now
            return []
        with disk_errors(self.layout.folder, "store"), schema_upgrade.reading(self) as cache:
            return cache_check.differences(cache, self.journal())

    def lingering(self) -> int:
        """How many bodies that went still stand in lines of the log. Reads it whole, if any went."""
        connection = self.reader()
        try:
            with disk_errors(self.layout.folder, "store"):
                return sum(purge.lingering(self.layout, purge.gone_of(connection)).values())
        finally:
            if not self.one_connection:
                connection.close()

    def purge(self) -> int:
        """Take the bodies that went out of the log's lines, and their remains out of the cache (`purge`).

        Returns how many stay because their file is damaged. Repeatable, also after a crash. Raises Fault.
        """
        seconds = self.busy_wait_ms / 1000
        return purge.Purge(self.journal(), seconds, lambda: self._files(self.journal(), unsure=False)).run()

    # -- opening -------------------------------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Make the folder if it is new, and bring the cache to the end of the log, whatever became of both.

        Safe beside anybody and after any crash. Raises Fault, NotFound, or Invalid for what is no folder.
        """
        self.layout.check()
        with disk_errors(self.layout.folder, "store"):
            if self.read_only:
                return self._prepare_to_read()
            self.layout.make()
            self._check_paths()
            self.path = self.layout.cache
            journal = self.journal()
            journal.lock(self.busy_wait_ms / 1000)
            try:
                self._settle(journal)
            except CommitUnknown as unknown:
                raise unknown.as_error() from unknown
            finally:
                journal.close()
        return None

    def _check_paths(self) -> None:
        """Refuse a folder whose log, or whose lock, has another path. (A lock is the same file under all its links.)"""
        for part in (self.layout.log, self.layout.own, self.layout.lock):
            one_path.check(part, links_ignored=True)
        for number in self.layout.numbers()[-1:]:
            self.check_path(self.layout.segment(number))

    def _settle(self, journal: LineLog) -> None:
        """Under the lock: whatever became of log and cache, they belong together after this."""
        self.layout.sweep()
        self.layout.unite()
        cached, noted = self._cached(), journal.noted()
        damage.check(journal, [noted, cached and cached[0]])
        if cached is not None and not journal.holds(cached[0]):
            return self._rebuild(journal, cached[1], familiar=False)
        if cached is None and self.layout.numbers():
            return self._rebuild(journal, None, familiar=noted is not None and journal.holds(noted))
        if cached is None:
            self._make_cache(self.layout.cache)
        return self._follow(journal)

    def _cached(self) -> tuple[LogMark, WrittenStore] | None:
        """How far the cache is, and of which store; None when there is none that can be used."""
        if not self.layout.cache.exists():
            return None
        if one_path.has_links(self.layout.cache):  # a copy of the folder may have them, and nothing rests on a cache
            log.warning("the cache has another link, and is made again", extra={"cache": str(self.layout.cache)})
            return None
        engine = SqliteEngine(self.url, self.layout.cache)
        try:
            schema_upgrade.bring_up_to_date(engine, keep_copy=False, keep=True)
            with closing(engine.reader()) as connection:
                return mark_of(connection), facts_of(connection)
        except NewerSchema:
            raise
        except (Fault, Damaged, Refused) as error:
            if isinstance(error, Fault) and error.kind not in _USELESS:
                raise
            log.warning("the cache cannot be used, and is made again", extra={"cause": str(error)})
            return None

    def _follow(self, journal: LineLog) -> None:
        """Bring a cache that the log continues from to its end; a log that is not there yet begins."""
        with schema_upgrade.reading(self) as connection:
            assert isinstance(connection, FilesConnection)
            if not self.layout.numbers():
                journal.begin(facts_of(connection), system_clock())
            connection.follow(journal)
            journal.note(encode(mark_of(connection)))

    # -- making the cache anew -------------------------------------------------------------------------------------------

    def _rebuild(self, journal: LineLog, before: WrittenStore | None, *, familiar: bool) -> None:
        """Read the whole log into a new cache. known: this machine has seen this very log, so nothing was put back."""
        set_aside.forget(self.layout)
        pieces = _mended(journal, familiar=familiar)
        path = self.layout.cache.with_name("cache.db.new")
        with closing(self._make_cache(path).connect()) as cache:
            for pragma in (Q.unsynced, Q.unlogged, Q.roomy):
                cache.raw.execute(pragma.source)
            cache.begin()
            facts, mark, more = _loaded(cache, journal, before)
            asides = gathered([*pieces, *more])
            set_aside.keep(self.layout, asides)
            if not familiar or any(aside.lost for aside in asides):
                facts, mark = raised(journal, facts, mark)
            put_facts(cache, facts)
            put_mark(cache, mark)
            cache.commit()  # not `write`: it has no WAL that could be looked at
        sync(path)
        _take_away(self.layout.cache)
        path.rename(self.layout.cache)
        sync(path.parent)
        journal.note(encode(mark))

    def _make_cache(self, path: Path) -> SqliteEngine:
        """An empty database of our schema, in place of whatever was left there."""
        _take_away(path)
        engine = SqliteEngine(self.url, path)
        schema_upgrade.bring_up_to_date(engine)
        return engine

    def _prepare_to_read(self) -> None:
        """Use the cache if it is at the end of the log; else read the log into memory: nothing may be changed."""
        self.layout.check_regular()
        self._check_paths()
        journal, mark = self.journal(), self._readable_mark()
        damage.check(journal, [journal.noted(), mark])
        if not self.layout.numbers():
            raise NotFound(f"there is no store yet at {without_password(self.url)}", path="store", hint=NOT_YET)
        if mark is not None and journal.holds(mark) and journal.is_at(mark):
            return
        engine = SqliteEngine("memory:", None)
        schema_upgrade.bring_up_to_date(engine)
        cache = engine.connect()
        cache.begin()
        facts, _, pieces = _loaded(cache, journal, None)
        put_facts(cache, facts)
        cache.write(Writes(), commit=True)
        cache.raw.execute(Q.unwritable.source)
        self._memory, self.path, self.one_connection = _Unwritable(cache.raw), None, True
        self._unkept = gathered(pieces)

    def _readable_mark(self) -> LogMark | None:
        """How far the cache is; None when there is none that can be read as it is."""
        if not self.layout.cache.exists():
            return None
        engine = SqliteEngine(self.url, self.layout.cache, read_only=True)
        try:
            schema, latest = schema_upgrade.schema_of(engine, keep=True), migrate.latest(migrate.migrations())
            migrate.check(schema, latest)  # a newer Perdure writes here: its log may say what this one cannot read
            if schema != latest:
                return None
            with closing(engine.reader()) as connection:
                return mark_of(connection)
        except NewerSchema:
            raise
        except (Fault, Damaged, Refused):
            return None


class _Unwritable(SqliteConnection):
    """A log that was read into memory: whatever would be written there is refused by the database."""

    is_cache = True

    def begin(self) -> None:
        """Begin to read."""
        self.begin_reading()


def _loaded(
    cache: SqliteConnection, journal: LineLog, before: WrittenStore | None
) -> tuple[WrittenStore, LogMark, list[tuple[int, Piece]]]:
    """The whole log into an empty cache: who the store is, the mark after it, and what could not be loaded."""
    loader, mark = Loader(cache), START
    pieces: list[tuple[int, Piece]] = []
    with _without_collecting():
        for mark, entries in journal.read_on(START):  # noqa: B007 - the last one is needed
            pieces += loader.load(entries)
    facts = loader.facts or before or facts_of(cache)
    before = before or facts
    move = before.moved if before.uid == facts.uid else ""  # a log from before the move does not open the store again
    return replace(facts, epoch=max(facts.epoch, before.epoch), moved=facts.moved or move), mark, pieces


@contextmanager
def _without_collecting() -> Iterator[None]:
    """Many small things that stay for a while, and no circles: looking for those costs a fifth of the time."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def _mended(journal: LineLog, *, familiar: bool) -> list[tuple[int, Piece]]:
    """Take a torn end off; what was torn is kept before that."""
    last = LogMark(max(journal.layout.numbers(), default=1))
    torn = journal.mend(last)
    if torn is None:
        return []
    torn = torn._replace(lost=False) if familiar else torn._replace(reason="torn: the rest of it is missing")
    pieces = [(last.segment, torn)]
    set_aside.keep(journal.layout, gathered(pieces))
    journal.cut(last, torn)
    return pieces


def _take_away(path: Path) -> None:
    """A database and what belongs to it; its WAL last, which nobody takes for another's while it has no database."""
    for suffix in ("", "-wal", "-shm", "-journal"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
