"""A database as the log of a files store: how a backup is restored as files. Callers: `upkeep.restore`. Keeps P1, P5."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from perdure.artifacts.compress import unpack
from perdure.artifacts.place import Place
from perdure.errors import Damaged, Refused
from perdure.log.written import encode
from perdure.model.instants import system_clock
from perdure.stores.blobs import Blobs
from perdure.stores.sqlite import SqliteConnection, opened_to_read
from perdure_files.store import lines_from_tables
from perdure_files.store.cache_check import compared, said_by_lines, said_of
from perdure_files.store.journal import START, LineLog
from perdure_files.store.layout import Layout
from perdure_files.store.load import Q, facts_of


def as_files(database: Path, folder: Path, place: Place | None) -> None:
    """Write the log that a database tells into a folder that nobody has yet, and its blobs into a place; durable.

    Damaged when the log would not read the same.
    """
    layout = Layout(folder)
    layout.make()
    journal = LineLog(layout)
    with closing(opened_to_read(database)) as tables:
        _put_blobs(tables, place)
        lines = (entry.line for entry in lines_from_tables.missing(tables, lines_from_tables.LogTells()))
        for number, data in enumerate(lines_from_tables.segments(facts_of(tables), lines, system_clock()), 1):
            layout.place(layout.segment(number), data)
        differences = compared(said_of(tables), said_by_lines(journal))
    if differences:
        raise Damaged(f"the backup cannot be written as a log of lines: {differences[0]}", path="source")
    for mark, _ in journal.read_on(START):
        journal.note(encode(mark))  # it was seen here: whoever opens it need not take it for a clone
    journal.close()
    layout.within.remove(layout.cache.parent)
    layout.within.sync(layout.folder)


def _put_blobs(tables: SqliteConnection, place: Place | None) -> None:
    """A files store has all of its blobs as files, also those that a database has inside."""
    facts = facts_of(tables)
    blobs = Blobs(place, facts.partition or facts.uid)
    for tenant, address, size, codec, data in tables.query(Q.blobs_inside, {}):
        if place is None:
            raise Refused("there is no place for blobs", path="artifacts", hint="say where: artifacts=file:///dir")
        place.put(blobs.partition(tenant), [unpack(codec, bytes(data), size, path=bytes(address).hex())])
