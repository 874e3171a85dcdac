"""Restoring a backup into a new place: loaded, checked, its epoch raised, and only then visible.

SQLite: into a file beside the target, which gets its name last; files: from there into a folder. PostgreSQL: in one
transaction. An error, or the death of the process at any moment, leaves no half store. The check is passed in: verifying stands
above the stores. Callers: the handles. Keeps P1, P6 and P10. A restored store has a partition of its own,
so it may share an artifact place with its original: collecting in one takes nothing from the other.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Protocol
from urllib.parse import quote

import apsw
import msgspec

from perdure.artifacts.disk import DiskPlace
from perdure.artifacts.place import Place, name_of
from perdure.errors import Conflict, Damaged, Invalid, NotFound, Refused, Unavailable
from perdure.model.crash_points import reach
from perdure.model.ids import new_uid
from perdure.model.instants import system_clock
from perdure.model.records.integrity import Report, Restored
from perdure.stores import artifact_places, migrate, moved_away, url
from perdure.stores.atomic_files import (
    Progress,
    blobs_beside,
    check_folder,
    disk_errors,
    fill_copy,
    new_file,
    partition_beside,
    publish,
    publish_folder,
    refuse_existing,
    refuse_remains,
    unfinished,
)
from perdure.stores.blobs import Blobs
from perdure.stores.clocks import Clocks
from perdure.stores.core import Core, Reader, engine_for
from perdure.stores.dialect import copy_in
from perdure.stores.entry_points import files_kind
from perdure.stores.migrate import Q, Script
from perdure.stores.schema_upgrade import PostgresScript, SqliteScript, bring_up_to_date, changing, told
from perdure.stores.sqlite import SqliteEngine
from perdure.stores.store import WHOLE_STORE, Engine, Fault, FaultKind
from perdure.stores.url import without_password
from perdure.upkeep import archive
from perdure.upkeep.backup import OutsideBlob, columns_of, opened_copy


class Check(Protocol):
    """Looks through a store before it becomes visible: gets what runs read verbs, returns what it found."""

    def __call__(self, snapshots: Callable[..., Any]) -> Report:
        """Verify."""
        ...


def restore(
    source: Path,
    target_url: str,
    check: Check,
    *,
    artifacts: str | None = None,
    progress: Progress | None = None,
) -> Restored:
    """Restore a backup (and the blobs beside it) as a new store; an existing one is never touched.

    Atomic: on any error, and after a crash, there is no store at the target. The restored store keeps its
    identity and gets the next epoch. Raises NotFound (no such backup, or folder), Conflict (something is there
    already, or another restore into it is under way), Refused (a newer schema), Invalid (not a backup) or Damaged
    (it does not verify, or a blob is missing); `facts["report"]` then says what was found.
    """
    source = Path(source).absolute()
    address = url.parse(target_url)
    if not source.is_file():
        hint = "check the path; `perdure backup FILE` writes one"
        raise NotFound("there is no such backup", path=str(source), hint=hint)
    if not address.lasts:
        hint = "sqlite:///FILE, files:///FOLDER or postgresql://…"
        raise Invalid("a backup cannot be restored into a store in memory", path="store", hint=hint)
    with told("restore"), disk_errors(source):
        engine = engine_for(address)
        if engine.is_server:
            return _restore_archive(engine, source, address, check, artifacts, progress)
        if address.log_folder is not None:
            return _restore_files(source, address, check, artifacts, progress)
        return _restore_file(source, address, check, artifacts, progress)


# -- SQLite ----------------------------------------------------------------------------------------


def _restore_file(
    source: Path, address: url.Address, check: Check, artifacts: str | None, progress: Progress | None
) -> Restored:
    assert address.path is not None
    target = address.path.absolute()
    check_folder(target)
    refuse_existing(target)
    refuse_remains(target)
    beside = not (artifacts or address.artifacts)
    with disk_errors(target), unfinished(target, blobs=beside) as folder, _new_place(address, artifacts) as new:
        staging = folder / target.name
        _load_file(source, staging, progress)
        engine = SqliteEngine(address.url, staging)
        bring_up_to_date(engine, keep_copy=False)
        with changing(engine) as script:
            _begin_anew(script)
            outside: list[OutsideBlob] = script.query(Q.blobs_outside)  # type: ignore[assignment]
        report, uid, epoch = _checked_file(engine, source, outside, new.place, check)
        new.keep()
        _publish_database(staging, target)
    schema = migrate.latest(migrate.migrations())
    return Restored(without_password(address.url), uid, epoch, schema, len(outside), report)


# -- files -----------------------------------------------------------------------------------------


def _restore_files(
    source: Path, address: url.Address, check: Check, artifacts: str | None, progress: Progress | None
) -> Restored:
    """As an SQLite file first, which is checked; then its events as a log, which is read and compared with it."""
    assert address.path is not None
    target = address.path.absolute()
    check_folder(target)
    refuse_existing(target)
    with disk_errors(target), unfinished(target) as folder:
        beside = url.Address(f"sqlite:///{folder}/loaded", "sqlite", folder / "loaded")
        blobs = artifacts or address.artifacts or f"file://{quote(str(folder / target.name))}/blobs"
        (folder / target.name).mkdir(mode=0o700)
        restored = _restore_file(source, beside, check, blobs, progress)
        files_kind().write_log(folder / "loaded", folder / target.name, artifact_places.place_for(beside, blobs))
        publish_folder(folder / target.name, target)
    return msgspec.structs.replace(restored, url=address.url)


def _publish_database(staging: Path, target: Path) -> None:
    """The last connection has moved everything into the file itself; if it could not, part would be left
    behind."""
    wal = staging.with_name(staging.name + "-wal")
    if wal.exists() and wal.stat().st_size:
        raise Unavailable("the restored database could not be brought into one file: run it again", path=str(target))
    publish(staging, target)


def _load_file(source: Path, staging: Path, progress: Progress | None) -> None:
    """Copy what the backup holds, once its schema is known to be one of ours: no trigger or table comes
    along unseen."""
    new_file(staging)
    with _opened_backup(source) as script:
        try:
            number = _schema_of(script, source)
            migrate.check(number, migrate.latest(migrate.migrations()))
            _check_schema(script, number)
            _check_pages(script)
            fill_copy(script.connection.raw, staging, progress)
        except apsw.Error as error:
            raise Damaged(f"the backup cannot be read: {error}", path=str(source)) from error


@contextmanager
def _opened_backup(source: Path) -> Iterator[SqliteScript]:
    try:
        with opened_copy(source) as script:
            yield script
    except Fault as fault:
        if fault.kind is FaultKind.FOREIGN:
            raise archive.no_backup(source) from fault
        raise


def _schema_of(script: Script, source: Path) -> int:
    """A database that is nobody's, or somebody else's, is no backup."""
    try:
        number = migrate.current(script)
    except Refused as error:
        raise _not_ours(source) from error
    if number == 0:
        raise _not_ours(source)
    return number


def _not_ours(source: Path) -> Invalid:
    what = f"{source.name} is not a backup that Perdure made, but another SQLite database"
    return Invalid(what, path=str(source), hint="name another file")


def _check_schema(script: Script, number: int) -> None:
    expected = _objects(_reference(number))
    objects = _objects(script)
    triggers = {
        name for name, (kind, _, text) in objects.items() if kind == "trigger" and not moved_away.is_seal(name, text)
    }
    ours = {name for name, (kind, *_) in expected.items() if kind == "trigger"}
    if any(objects.get(name) != what for name, what in expected.items()) or triggers != ours:
        raise Invalid("its tables and triggers are not those that Perdure makes", path="source")


def _objects(script: Script) -> dict[str, tuple[Any, ...]]:
    return {name: (kind, table, text) for kind, name, table, text in script.query(Q.schema_objects)}


def _reference(number: int) -> Script:
    """An empty store of this schema, to compare with."""
    engine = SqliteEngine("memory:", None)
    steps = [step for step in migrate.migrations() if step.number <= number]
    bring_up_to_date(engine, steps)
    return SqliteScript(engine.connect())


def _check_pages(script: Script) -> None:
    fault = script.query(Q.page_faults)[0][0]
    if fault != "ok":
        raise Damaged(f"the backup's pages are damaged: {str(fault)[:200]}", path="source")
    if script.query(Q.key_faults)[0][0]:
        raise Damaged("the backup holds references that lead nowhere", path="source")


def _checked_file(
    engine: SqliteEngine, source: Path, outside: list[OutsideBlob], place: Place | None, check: Check
) -> tuple[Report, str, int]:
    core = Core(engine, place, None, 30.0)
    try:
        _put_blobs(core.blobs, outside, source)
        reach("restore.loaded")
        report = check(lambda verb, *args: core.snapshot(verb, *args, tenant=WHOLE_STORE))
        _refuse_unclean(report)
        return report, core.uid, core.epoch
    finally:
        core.close()


# -- PostgreSQL ------------------------------------------------------------------------------------


def _restore_archive(
    engine: Engine, source: Path, address: url.Address, check: Check, artifacts: str | None, progress: Progress | None
) -> Restored:
    steps = migrate.migrations()
    with archive.reading(source) as opened, _new_place(address, artifacts) as new:
        manifest = opened.manifest
        migrate.check(manifest.schema, migrate.latest(steps))
        with changing(engine) as changed:
            script: Any = changed  # a server's
            _refuse_existing_schema(script, address)
            migrate.apply(script, 0, [step for step in steps if step.number <= manifest.schema])
            _load_tables(script, opened, progress)
            script.query(Q.numbers_forward)
            script.query(Q.meta_put, name="uid", value=manifest.store)
            script.query(Q.meta_put, name="epoch", value=str(manifest.epoch))
            partition = _begin_anew(script)
            migrate.apply(script, manifest.schema, steps)
            outside: list[OutsideBlob] = script.query(Q.blobs_outside)  # type: ignore[assignment]
            blobs = Blobs(new.place, partition)
            _put_blobs(blobs, outside, source)
            reach("restore.loaded")
            report = check(_inside(script, blobs))
            _refuse_unclean(report)
            new.keep()  # a COMMIT without a reply may have taken place: its blobs must not go
    where = without_password(address.url)
    return Restored(where, manifest.store, manifest.epoch + 1, migrate.latest(steps), len(outside), report)


def _refuse_existing_schema(script: PostgresScript, address: url.Address) -> None:
    if script.query(Q.relations):
        message = f"the schema {address.schema!r} is not empty, and nothing is ever overwritten"
        raise Conflict(message, path="store.schema", hint="restore into a new one")


def _load_tables(script: PostgresScript, opened: archive.ArchiveReader, progress: Progress | None) -> None:
    names = [name for (name,) in script.query(Q.table_names)]
    members = {member.table: member for member in opened.manifest.tables}
    if set(members) != set(names):
        raise Invalid("the archive does not hold the tables of its schema", path=archive.MANIFEST)
    total, done = sum(member.size for member in members.values()), 0
    for table in names:
        member = members[table]
        if member.columns != columns_of(script, table):
            raise Invalid(f"the columns of {table} are not those of its schema", path=archive.MANIFEST)
        _load_table(script, copy_in(table, member.columns), opened.pieces(member))
        done += member.size
        if progress:
            progress(done, total)


def _load_table(script: PostgresScript, text: str, pieces: Iterator[bytes]) -> None:
    import psycopg  # noqa: PLC0415 - only where PostgreSQL is used

    raw: Any = script.connection.raw
    try:
        with raw.cursor() as cursor, cursor.copy(text) as copy:
            for piece in pieces:
                copy.write(piece)
    except (psycopg.DataError, psycopg.IntegrityError) as error:
        raise Invalid(f"the archive holds what no store can hold: {error}".splitlines()[0], path="source") from error


def _inside(script: PostgresScript, blobs: Blobs) -> Callable[..., Any]:
    """Runs read verbs inside the restore's own transaction: nobody else can see it yet."""
    reader = Reader(script.connection, Clocks(system_clock, system_clock), 0, blobs)
    return lambda verb, *args: verb(reader, *args)


# -- both ------------------------------------------------------------------------------------------


def _begin_anew(script: Script) -> str:
    """Raise the epoch, and give the copy a partition of its own in whatever place it uses: collecting in one store must never
    take blobs of the other. Returns the partition.
    """
    partition = new_uid().hex()
    migrate.next_epoch(script)
    moved_away.open_again(script)
    script.query(Q.meta_put, name="partition", value=partition)
    # The process that opens it first with another place says so.
    script.query(moved_away.Q.meta_drop, name=artifact_places.FACT)
    return partition


def _refuse_unclean(report: Report) -> None:
    if not report.ok:
        first = report.problems[0]
        more = len(report.problems) + report.left_out - 1
        message = f"the backup does not verify: {first}" + (f", and {more} more" if more else "")
        raise Damaged(message, path="source", report=report)


class _NewPlace(NamedTuple):
    """The artifact place of the new store, and what is said right before the store becomes visible."""

    place: Place | None
    keep: Callable[[], object]


@contextmanager
def _new_place(address: url.Address, artifacts: str | None) -> Iterator[_NewPlace]:
    """The artifact place of the new store. A folder that did not exist goes again if the restore fails before `keep`; one
    beside the file is looked after by `unfinished` too."""
    place = artifact_places.place_for(address, artifacts)
    with ExitStack() as undo:
        if isinstance(place, DiskPlace) and not place.root.exists():
            undo.callback(shutil.rmtree, place.root, ignore_errors=True)
        yield _NewPlace(place, undo.pop_all)


def _put_blobs(blobs: Blobs, outside: list[OutsideBlob], source: Path) -> None:
    """Durable before the store is visible (P1); what an existing place keeps of a failed restore is an
    orphan there."""
    beside = DiskPlace(blobs_beside(source))
    for tenant, address, _, _ in outside:
        if blobs.place is None:
            what = "the backup has large blobs, and there is no place for them"
            raise Refused(what, path="artifacts", hint="say where: artifacts=file:///dir")
        try:
            pieces = beside.open(partition_beside(tenant), bytes(address).hex())
            blobs.place.put(blobs.partition(tenant), pieces)
        except NotFound as error:
            message = "a blob of the backup is missing"
            hint = f"look for {blobs_beside(source).name} beside the backup, or name another backup"
            raise Damaged(message, path=name_of(bytes(address).hex()), hint=hint) from error
