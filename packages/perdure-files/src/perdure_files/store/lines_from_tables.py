"""The lines of a log from the tables: what the log of a files store lost and its cache still has, or a backup as a log.

A transaction is a line again: the events in the order of the feed, with the tenants, streams and blobs that begin with them. The
lines say what the lost ones said, event by event, with the same hashes; their own checksums may differ, so the last one of a
segment that others follow keeps the checksum by which the next line names it (`was`).

Callers: `engine` (`perdure restore --from-cache`), `upkeep.restore`. Keeps P1, P5, P6.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby

import msgspec

from perdure.errors import Damaged
from perdure.log.written import WrittenEvent, WrittenStream, event_written, name_of
from perdure.stores.sqlite import SqliteConnection
from perdure.stores.store import event_of
from perdure_files.store.journal import START, LineLog
from perdure_files.store.line import FORMAT, FoundLine, Line, WrittenBlob, WrittenStore, WrittenTenant, written
from perdure_files.store.load import Q

LINES_BYTES = 8 * 1024 * 1024  # of one segment that is written anew
SEGMENTS_MAX = 10_000  # that may be missing in between


class LogTells:
    """The statements that the whole lines of a log make already. events: by their hashes, each with its segment."""

    def __init__(self, lines: Iterable[tuple[int, Line]] = ()) -> None:
        self.events: dict[str, int] = {}
        self.streams: set[str] = set()
        self.tenants: set[str] = set()
        self.blobs: set[tuple[str, str]] = set()
        for number, line in lines:
            self._hear(number, line)

    def _hear(self, number: int, line: Line) -> None:
        self.events.update((event.hash, number) for event in line.events)
        self.streams.update(stream.uid for stream in line.streams)
        self.tenants.update(tenant.name for tenant in line.tenants)
        self.blobs.update((blob.tenant, blob.address) for blob in line.blobs)


class Missing(msgspec.Struct, frozen=True):
    """A line that the tables know and the log does not. after: the last segment of the log that it follows."""

    line: Line
    after: int


def statements_of(journal: LineLog) -> tuple[LogTells, dict[int, str]]:
    """The statements of a log, and for each segment the checksum that its first line names."""
    lines, first_checks = list[tuple[int, Line]](), dict[int, str]()
    for _, entries in journal.read_on(START):
        for number, part in entries:
            if isinstance(part, FoundLine):
                lines.append((number, part.line))
                first_checks.setdefault(number, part.line.prev)
    return LogTells(lines), first_checks


def missing(tables: SqliteConnection, statements: LogTells) -> Iterator[Missing]:
    """The lines that are not told, in the order in which they were recorded."""
    tenants = dict[int, str](tables.query(Q.tenants_all, {}))  # type: ignore[arg-type] - pairs
    begins = Line(FORMAT, "", tenants=_tenants(tables, statements), blobs=_blobs(tables, tenants, statements))
    if begins.tenants or begins.blobs:
        yield Missing(begins, 0)
    names = _names(tables, tenants)
    streams = _streams(tables, tenants, names)
    after = 0
    for tx, rows in groupby(tables.query(Q.events_all, {}), key=lambda row: bytes(row[-1])):
        events = list[WrittenEvent]()
        for row in rows:
            event = _event(row, names)
            if event.hash in statements.events:
                after = max(after, statements.events[event.hash])
            else:
                events.append(event)
        if events:
            uids = [uid for uid in dict.fromkeys(event.stream for event in events) if uid not in statements.streams]
            statements.streams.update(uids)
            begun = [streams[uid] for uid in uids]
            yield Missing(Line(FORMAT, "", events[0].at, tx.hex(), streams=begun, events=events), after)


def _event(row: tuple[object, ...], names: dict[int, str]) -> WrittenEvent:
    stream, *columns = row
    try:
        return event_written(names[stream], event_of(tuple(columns)))  # type: ignore[index] - the number of a stream
    except (ValueError, TypeError, KeyError) as error:
        raise Damaged(f"an event cannot be written as a line: {error}", path="events") from None


def _tenants(tables: SqliteConnection, statements: LogTells) -> list[WrittenTenant]:
    rows = tables.query(Q.tenants_whole, {})
    return [
        WrittenTenant(number, bytes(uid).hex(), name) for number, uid, name in rows if name not in statements.tenants
    ]


def _blobs(tables: SqliteConnection, tenants: dict[int, str], statements: LogTells) -> list[WrittenBlob]:
    rows = tables.query(Q.blobs_all, {})
    blobs = [WrittenBlob(tenants[tenant], bytes(address).hex(), size) for tenant, address, size in rows]
    return [blob for blob in blobs if (blob.tenant, blob.address) not in statements.blobs]


def _names(tables: SqliteConnection, tenants: dict[int, str]) -> dict[int, str]:
    """The name of each stream in lines: of several with one uid the first has the plain one."""
    first: dict[bytes, int] = {}
    return {
        number: name_of(bytes(uid), "" if first.setdefault(bytes(uid), number) == number else tenants[tenant])
        for number, uid, tenant, *_ in tables.query(Q.streams_all, {})
    }


def _streams(tables: SqliteConnection, tenants: dict[int, str], names: dict[int, str]) -> dict[str, WrittenStream]:
    return {
        names[number]: WrittenStream(names[number], tenants[tenant], kind, name, names.get(parent, ""), fork)
        for number, _uid, tenant, kind, name, parent, fork in tables.query(Q.streams_all, {})
    }


def segments(store: WrittenStore, lines: Iterable[Line], at: int) -> Iterator[bytes]:
    """Lines as segments of a moderate size, each with its head."""
    data, prev = written(Line(FORMAT, "", at, store=store))
    parts, size = [data], len(data)
    for line in lines:
        data, prev = written(msgspec.structs.replace(line, prev=prev))
        parts.append(data)
        size += len(data)
        if size > LINES_BYTES:
            yield b"".join(parts)
            data, prev = written(Line(FORMAT, prev, at, store=store))
            parts, size = [data], len(data)
    yield b"".join(parts)
