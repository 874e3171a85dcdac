"""Backups while writers write. On SQLite: a copy of the whole database. On PostgreSQL: a logical snapshot
(see `archive`).

Blobs that lie outside the database are copied into `<target>.blobs/` after the database, so that the backup
has every blob that its database names. The target gets its name last: what has it is complete and synced.
Callers: the handles. Keeps P1.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from perdure.artifacts.disk import DiskPlace
from perdure.errors import Damaged, Full, Unavailable
from perdure.model.crash_points import reach
from perdure.model.records.integrity import Backup
from perdure.stores import migrate
from perdure.stores.atomic_files import (
    Progress,
    blobs_beside,
    check_folder,
    disk_errors,
    fill_copy,
    new_file,
    partition_beside,
    publish,
    refuse_existing,
    unfinished,
)
from perdure.stores.core import Core, Reader
from perdure.stores.dialect import copy_out
from perdure.stores.migrate import Q
from perdure.stores.schema_upgrade import PostgresScript, SqliteScript, told
from perdure.stores.sqlite import opened_to_read
from perdure.stores.store import WHOLE_STORE
from perdure.stores.tx import LOG
from perdure.upkeep import archive

SQLITE_NOTE = "A consistent copy of the whole database as of one moment, with the blobs that lie beside it."
POSTGRES_NOTE = (
    "A logical snapshot of one schema as of one moment. Not a physical backup: no point in time between two "
    "backups, no roles or rights, no settings of the server, nothing outside this schema."
)

OutsideBlob = tuple[int, bytes, int, int]  # tenant, address, size, codec


def backup(core: Core, target: Path, progress: Progress | None = None) -> Backup:
    """Back up an open store into a new file (mode 0600), and its large blobs into a folder beside it.

    Consistent while others write. Atomic: after a crash the file is there complete, or not at all; what else a
    killed one leaves behind goes with the next one. Conflict when either exists already, or another backup into it
    is under way; NotFound (no such folder), Refused or ReadOnly (it may not be written); Full; Damaged when the
    store, or a blob, is not what was written.
    """
    target = Path(target).absolute()
    check_folder(target)
    write, note = (_archive, POSTGRES_NOTE) if core.engine.is_server else (_copy, SQLITE_NOTE)
    with told("backup"), disk_errors(target):
        refuse_existing(target)
        with unfinished(target, blobs=True) as folder:
            partial = folder / target.name
            new_file(partial)
            facts, outside = write(core, partial, progress)
            _copy_blobs(core, outside, blobs_beside(target))
            size = partial.stat().st_size
            reach("copy.filled")
            publish(partial, target)
    schema, epoch = migrate.number_in(facts, "schema"), migrate.number_in(facts, "epoch")
    return Backup(
        path=str(target), store=facts["uid"], epoch=epoch, schema=schema, size=size, blobs=len(outside), note=note
    )


# -- SQLite ----------------------------------------------------------------------------------------


def _copy(core: Core, partial: Path, progress: Progress | None) -> tuple[dict[str, str], list[OutsideBlob]]:
    if core.engine.one_connection:
        _write_memory(core, partial)
    else:
        core.read(lambda reader: fill_copy(reader.connection.raw, partial, progress), tenant=WHOLE_STORE)
    with opened_copy(partial) as script:
        return migrate.facts_of(script), [*script.query(Q.blobs_outside)]  # type: ignore[list-item]


def _write_memory(core: Core, partial: Path) -> None:
    """A borrowed lane is inside a transaction, where SQLite copies nothing: its pages are written out
    instead."""
    pages = core.read(lambda reader: reader.connection.raw.serialize("main"), tenant=WHOLE_STORE)
    with disk_errors(partial):
        partial.write_bytes(pages)


@contextmanager
def opened_copy(path: Path) -> Iterator[SqliteScript]:
    """A copy that nobody else has open, to be read; nothing is switched or left beside it."""
    connection = opened_to_read(path)
    try:
        yield SqliteScript(connection)
    finally:
        connection.close()


# -- PostgreSQL ------------------------------------------------------------------------------------


def _archive(core: Core, partial: Path, progress: Progress | None) -> tuple[dict[str, str], list[OutsideBlob]]:
    at = core.clocks.now()

    def verb(reader: Reader) -> tuple[dict[str, str], list[OutsideBlob]]:
        script = PostgresScript(reader.connection)  # type: ignore[arg-type]
        script.query(Q.unhurried)
        facts = migrate.facts_of(script)
        counted = _Counted(progress, script.query(Q.rows_total)[0][0])
        with archive.writing(partial) as out:
            for table, columns in _tables(script):
                copied = _Copied(reader, copy_out(table, columns))
                out.add(table, columns, counted.count(copied), lambda copied=copied: copied.rows)
            out.finish(_manifest_of(facts, at, out.members))
        counted.end()
        return facts, script.query(Q.blobs_outside)  # type: ignore[return-value]

    return core.snapshot(verb, tenant=WHOLE_STORE)


def _tables(script: PostgresScript) -> list[tuple[str, list[str]]]:
    names = [name for (name,) in script.query(Q.table_names)]
    return [(name, columns_of(script, name)) for name in names]


def columns_of(script: PostgresScript, table: str) -> list[str]:
    """The columns of a table that a backup holds."""
    return [column for (column,) in script.query(Q.table_columns, name=table)]


class _Copied:
    """A table on its way out, row by row; `rows` is known at the end."""

    def __init__(self, reader: Reader, text: str) -> None:
        self._raw: Any = reader.connection
        self._text = text
        self.rows = 0

    def __iter__(self) -> Iterator[bytes]:
        with self._raw.raw.cursor() as cursor:
            with cursor.copy(self._text) as copy:
                yield from map(bytes, copy)
            self.rows = cursor.rowcount


class _Counted:
    """Progress over many rows: told now and then."""

    def __init__(self, progress: Progress | None, total: int) -> None:
        self._progress = progress
        self._total = max(total, 1)
        self._done = 0

    def count(self, pieces: Iterable[bytes]) -> Iterator[bytes]:
        """The pieces again, counted."""
        for piece in pieces:
            self._done += 1
            if self._progress and self._done % 1_000 == 0:
                self._progress(min(self._done, self._total), self._total)
            yield piece

    def end(self) -> None:
        """Say that all is done."""
        if self._progress:
            self._progress(self._total, self._total)


def _manifest_of(facts: dict[str, str], at: int, members: list[archive.ArchiveTable]) -> archive.ArchiveManifest:
    schema, epoch = migrate.number_in(facts, "schema"), migrate.number_in(facts, "epoch")
    return archive.ArchiveManifest(
        format=archive.FORMAT,
        kind=archive.KIND,
        schema=schema,
        store=facts["uid"],
        epoch=epoch,
        at=at,
        note=POSTGRES_NOTE,
        tables=members,
    )


# -- blobs -----------------------------------------------------------------------------------------


def _copy_blobs(core: Core, outside: list[OutsideBlob], folder: Path) -> None:
    place = DiskPlace(folder)
    for tenant, address, size, codec in outside:
        try:
            pieces = core.blobs.open(tenant, bytes(address), (size, codec, None))
            place.put(partition_beside(tenant), pieces)
        except Damaged as error:
            if _was_collected(core, tenant, bytes(address)):
                raise Unavailable("a blob was collected while the backup ran: run it again", path=error.path) from error
            raise
        except Full as error:
            raise Full(error.message, path=str(folder), hint="free some space; nothing was written") from error


def _was_collected(core: Core, tenant: int, address: bytes) -> bool:
    return not core.read(lambda reader: reader.query(LOG.blob_get, tenant=tenant, address=address), tenant=tenant)
