"""The state of a store: findings, each with how bad it is and what mends it. `perdure doctor` shows them.

Only looks: nothing is made, migrated or repaired, and a store that cannot even be opened is a finding, not an
error. Only `verify` can prove that nothing was changed: that is not asked here. `strain` looks at what a living store suffers
from. Keeps P15.
"""

from __future__ import annotations

import shutil
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import msgspec

from perdure.errors import Error, Refused
from perdure.stores import migrate, mounts, one_path, schema_upgrade, url
from perdure.stores.core import engine_for
from perdure.stores.entry_points import files_kind
from perdure.stores.liveness import folder_for, marks_folder
from perdure.stores.sqlite import fault_of
from perdure.stores.statements import Statements
from perdure.stores.store import Connection, Engine, Fault, FaultKind, History, check_sees_all
from perdure.stores.tx import LOG
from perdure.upkeep import load
from perdure.upkeep.findings import MIB, Finding, Findings, Severity, ok, warning, wrong
from perdure.upkeep.remedies import Remedy, is_read_only, way_in

Q = Statements("perdure.upkeep", "health.sql")

SPACE_LOW_BYTES = 256 * MIB
SPACE_GONE_BYTES = 16 * MIB
HEADS_SHOWN = 20
QUICK_CHECK_OK = "ok"
# The WAL-reset bug (two checkpoints racing a commit could corrupt the file) is fixed from these on.
WAL_RESET_FIXED = ((3, 44, 6), (3, 50, 7), (3, 51, 3))
POSTGRES_OLDEST = 15


class Health(msgspec.Struct, frozen=True):
    """Everything that was found about one store."""

    store: str
    findings: list[Finding]

    @property
    def sound(self) -> bool:
        """Whether nothing is wrong; warnings are not wrong yet."""
        return all(finding.severity is not Severity.ERROR for finding in self.findings)

    @property
    def outgrown(self) -> list[Finding]:
        """The findings that call for a larger store."""
        return [
            finding
            for finding in self.findings
            if finding.check in load.OUTGROWN and finding.severity is not Severity.OK
        ]


# -- looking ----------------------------------------------------------------------------------------


def examine(store_url: str) -> Health:
    """Look at a store. Raises Invalid for a URL that names none; everything else is a finding."""
    address = url.parse(store_url)
    engine = engine_for(address, read_only=address.lasts)
    advice = Remedy(address)
    try:
        around = [*_around(address, engine), *_log(engine, advice), *_pages(advice)]
        inside = _inside(engine, advice) if _has_tables(address, engine) else ()
        return Health(url.without_password(store_url), [*around, *inside])
    finally:
        engine.close()


def _has_tables(address: url.Address, engine: Engine) -> bool:
    """Whether there is something to look into: a folder without a log gets no cache, and what is said of the log is all."""
    return address.log_folder is None or engine.one_connection or files_kind().cache(address.log_folder).exists()


ASIDES_SHOWN = 20


def _log(engine: Engine, advice: Remedy) -> Findings:
    """The lines of a log that are not in its cache. The cache is looked at afterwards, as `prepare` leaves it."""
    folder = advice.address.log_folder
    if folder is None:
        return
    try:
        engine.prepare()
        asides, lingering, cached = engine.asides(), engine.lingering(), engine.contradictions()
    except (Fault, Error) as error:
        problem = error.as_error() if isinstance(error, Fault) else error
        yield wrong("log", problem.message, advice.about_error(problem))
        return
    yield from _pruned_bodies(lingering)
    yield from (wrong("cache", says, advice.restore) for says in cached[:ASIDES_SHOWN])
    conflict = files_kind().is_in_conflict(folder)
    if conflict:
        yield wrong(
            "log", "a merge of two branches is not finished: not all of theirs is here", advice.command("merge")
        )
    for aside in asides[:ASIDES_SHOWN]:
        says = f"{aside.place}: {aside.reason}"
        if aside.lost:
            fix = "take it from another clone (perdure merge), or from a backup"
            yield wrong("log", says, advice.command("merge") if conflict else fix)
        elif not conflict:
            yield warning("log", says, "nothing is lost: look at .perdure/set-aside, and delete it there")
    if not asides and not conflict:
        yield ok("log", "every line of the log is in the cache")
    elif len(asides) > ASIDES_SHOWN:
        yield warning("log", f"{len(asides) - ASIDES_SHOWN} more such places", advice.command("verify"))


def _pruned_bodies(bodies: int) -> Findings:
    if bodies:
        says = f"{bodies} bodies that were pruned still stand in lines of the log"
        yield warning("log", says, "a retention that was interrupted: any `perdure retain … --apply` takes them out")


def _pages(advice: Remedy) -> Findings:
    """Views that somebody edited: nothing is wrong with that, but nothing of it is recorded yet."""
    folder = advice.address.log_folder
    if folder is None or not folder.is_dir():
        return
    for page in files_kind().edited_pages(folder)[:ASIDES_SHOWN]:
        fix = f"{advice.command('apply')} {page}, or {advice.command('views')} --discard {page}"
        yield warning("views", f"{page.name} was edited by hand, and is not kept up to date", fix)


def _around(address: url.Address, engine: Engine) -> Findings:
    if not engine.is_server:
        yield library(apsw.sqlite_lib_version())
    if address.path is not None:
        try:
            yield from _beside(address.path)
        except OSError as error:
            says = f"cannot look at {address.path}: {error.strerror}"
            yield wrong("file", says, way_in(address.path, is_read_only(address.path)))
    yield from _locks(folder_for(getattr(engine, "path", None), "", remote=engine.is_server))


def _beside(path: Path) -> Findings:
    if path.is_file():
        yield from _file(path)
    if path.exists():
        yield space(path, shutil.disk_usage(path.absolute().parent).free)
        yield network(path, mounts.table())


def _locks(folder: Path | None) -> Findings:
    """Whether a process that lives can be taken for dead: a network file system lets its locks go when it is cut off."""
    kind = mounts.network_kind(folder) if folder else ""
    if kind:
        says = f"the locks that prove which processes live ({folder}) lie on a network file system: {kind}"
        yield warning("locks", says, "put the store, or for PostgreSQL TMPDIR, on a disk of this machine")


def _inside(engine: Engine, advice: Remedy) -> Findings:
    try:
        schema, upto_date = _schema(engine, advice)
        yield schema
        if not upto_date:
            return
        connection = engine.reader()
    except Fault as fault:
        yield wrong("open", fault.as_error().message, fault.hint or advice.about(fault.kind))
        return
    except Error as error:
        yield wrong("open", error.message, advice.about_error(error))
        return
    try:
        yield from _checks(connection, advice)
    finally:
        if not engine.one_connection:
            connection.close()


def _checks(connection: Connection, advice: Remedy) -> Findings:
    """All of them: one that fails on a damaged page says so, and the others still look. A role that does not see the whole store
    is told so, and nothing is said of what it cannot see.
    """
    checks = CHECKS
    try:
        check_sees_all(connection)
    except Refused as error:
        yield wrong("role", error.message, error.hint or "")
        checks = {name: CHECKS[name] for name in SEEN_BY_ALL}
    for name, check in checks.items():
        try:
            yield from check(connection, advice)
        except Fault as fault:
            yield wrong(name, fault.as_error().message, advice.about(fault.kind))
            if fault.kind is FaultKind.LOST:
                return


# -- the file ---------------------------------------------------------------------------------------


def library(version: str) -> Finding:
    """Whether this SQLite has the fix of the WAL-reset bug: on its own branch, or because it is newer."""
    number = tuple(int(part) for part in version.split(".")[:3])
    newest = WAL_RESET_FIXED[-1]
    if number >= newest or any(number[:2] == fixed[:2] and number >= fixed for fixed in WAL_RESET_FIXED):
        return ok("sqlite", f"SQLite {version}, with the WAL-reset fix")
    return wrong(
        "sqlite",
        f"SQLite {version} can corrupt a file in WAL mode (WAL-reset bug)",
        "pip install --upgrade apsw",
    )


def _file(path: Path) -> Findings:
    status = path.stat()
    wal = path.with_name(f"{path.name}-wal")
    wal_bytes = wal.stat().st_size if wal.exists() else 0
    yield ok("file", f"{status.st_size / MIB:.1f} MiB, WAL {wal_bytes / MIB:.1f} MiB")
    if stat.S_IMODE(status.st_mode) & 0o077:
        yield warning("mode", f"others may read the file (mode {stat.S_IMODE(status.st_mode):o})", f"chmod 600 {path}")


def space(path: Path, free_bytes: int) -> Finding:
    """Whether there is room to continue writing."""
    says = f"{free_bytes / MIB:,.0f} MiB free beside {path.name}"
    if free_bytes < SPACE_GONE_BYTES:
        return wrong("space", says, "make room: writes are about to be refused")
    return (
        warning("space", says, "make room, or perdure collect --execute")
        if free_bytes < SPACE_LOW_BYTES
        else ok("space", says)
    )


def network(path: Path, table: str) -> Finding:
    """Whether the file lies on a network file system, where SQLite's locks cannot be trusted."""
    kind = mounts.filesystem_of(path.absolute(), table)
    if kind.startswith(mounts.NETWORK_KINDS):
        return wrong(
            "filesystem",
            f"{kind} is a network file system: its locks cannot be trusted",
            "perdure move STORE sqlite:////LOCAL/DISK/agent.db, or to PostgreSQL",
        )
    return ok("filesystem", kind or "unknown")


# -- the database -----------------------------------------------------------------------------------


def _schema(engine: Engine, advice: Remedy) -> tuple[Finding, bool]:
    number, newest = schema_upgrade.schema_of(engine), migrate.latest(migrate.migrations())
    if number == newest:
        return ok("schema", f"schema {number}, the newest"), True
    if number > newest:
        newer = f"schema {number}, newer than this Perdure knows ({newest})"
        return wrong("schema", newer, "pip install --upgrade perdure"), False
    older = f"schema {number}; this Perdure writes {newest}" if number else "no tables of Perdure"
    return warning("schema", older, advice.command("migrate")), False


def _pragma(connection: Any, name: str, *value: Any) -> Any:
    try:
        return connection.raw.pragma(name, *value)
    except apsw.Error as error:
        raise fault_of(error, connection.file) from error


def _wall(connection: Any) -> Findings:
    """The wall around tenants, where one was raised."""
    from perdure.stores.postgres_wall import look  # noqa: PLC0415 - an extra, loaded where it is used

    state = look(connection.raw, connection.query(Q.schema, {})[0][0])
    fix = "perdure migrate --roles, as a superuser"
    if state.raised:
        yield from (wrong("tenants", gap, fix) for gap in state.gaps)
        says = "servers and workers connect as perdure_app; this role is for upkeep"
        yield from (warning("tenants", why, says) for why in state.sees_through)
        if not state.gaps and not state.sees_through:
            yield ok("tenants", "row-level security walls tenants off, and holds for this role")


def _settings(connection: Connection, _advice: Remedy) -> Findings:
    if connection.is_server:
        yield from server(connection.query(Q.server, {})[0])
        between: Any = connection
        yield pooler(pooled=between.pooled)
        yield history(between.history)
        yield mark(marks_folder(connection.query(LOG.meta_get, {"name": "uid"})[0][0]))
        yield from _wall(between)
        return
    journal, synchronous = (_pragma(connection, name) for name in ("journal_mode", "synchronous"))
    if journal in ("wal", "memory"):
        yield ok("journal", f"journal_mode={journal}, synchronous={synchronous}")
    else:
        yield warning(
            "journal",
            f"journal_mode={journal}: readers and writers block each other",
            "open it for writing: perdure.open sets this right",
        )
    if synchronous not in (2, 3) and not connection.is_cache:
        yield wrong(
            "synchronous",
            f"synchronous={synchronous}: a power loss takes acknowledged commits",
            "report this",
        )


def server(row: tuple[Any, ...]) -> Findings:
    """The settings of a PostgreSQL."""
    number, version, superuser, fsync, full_pages, _commit, checksums, replica, size, _most = row
    if int(number) // 10_000 < POSTGRES_OLDEST:
        yield warning("server", f"PostgreSQL {version}; tested from {POSTGRES_OLDEST} on", "upgrade PostgreSQL")
    else:
        yield ok("server", f"PostgreSQL {version}, database {int(size) / MIB:.1f} MiB")
    if superuser == "on":
        yield warning(
            "role",
            "the role is a superuser: nothing holds it back",
            "use a role of its own that owns only its schema",
        )
    if fsync != "on" or full_pages != "on":
        yield wrong(
            "fsync",
            f"fsync={fsync}, full_page_writes={full_pages}: a power loss takes acknowledged commits",
            "set both to on in postgresql.conf",
        )
    if replica:
        yield wrong("replica", "this server is a replica: it cannot be written to", "name the primary in the URL")
    if checksums != "on":
        yield warning(
            "checksums",
            "data checksums are off: silent damage of the disk is not noticed",
            "pg_checksums --enable",
        )


def pooler(*, pooled: bool) -> Finding:
    """Whether a pooler stands between us and the server, and what that takes away."""
    if not pooled:
        return ok("pooler", "the server itself answers")
    return warning(
        "pooler",
        "a pooler answers for the server. It takes away LISTEN (an idle worker looks every second, and is not woken), prepared"
        " statements, and settings and timeouts of a session (each transaction brings its own: two round trips more)",
        "name the server itself, at least for workers; a process needs three connections",
    )


def history(record: History) -> Finding:
    """Whether a database that went back in time would be noticed."""
    if record.recovers:
        return ok("history", "a standby: it is of the history of the server that it follows")
    if not record.name:
        return warning(
            "history",
            "the server does not say its time line: only a program that runs through a failover or restore notices what is lost",
            "GRANT EXECUTE ON FUNCTION pg_control_system(), pg_current_wal_insert_lsn(), pg_walfile_name(pg_lsn) TO the role",
        )
    waits = (
        "commits wait for a standby. Nothing is promised for the time in which that list is empty or is changed (Patroni:"
        " synchronous_mode_strict)"
        if record.synchronous
        else "commits wait for no standby (synchronous_standby_names is empty): a failover may lose some"
    )
    return ok("history", f"system {record.system}, time line {record.line}; {waits}")


def mark(folder: Path | None) -> Finding:
    """Whether data that was put back while no program ran would be noticed by the programs of this user on this machine."""
    if folder is not None and (folder / "tide").is_file():
        return ok("mark", f"programs of this user note in {folder} how far the store had come")
    return warning(
        "mark",
        "no program of this user has noted on this machine how far the store had come: data that is put back on the same time"
        " line while nothing runs would not be noticed here",
        "set XDG_STATE_HOME of workers and servers to a folder that lasts (a volume)",
    )


def _links(connection: Connection, advice: Remedy) -> Findings:
    since = dict(connection.query(migrate.Q.meta_facts, {})).get(one_path.FACT)
    if since is not None:
        says = (
            f"opened with links=ignore since {since}: a program that opens another link of the file takes writes away"
        )
        fix = "copy by `perdure backup`, remove the other links, and open it without links=ignore"
        yield warning("links", says, fix) if advice.address.links_ignored else ok("links", says)


def _structure(connection: Connection, advice: Remedy) -> Findings:
    if not connection.is_server:
        verdict = _pragma(connection, "quick_check", 10)
        if verdict == QUICK_CHECK_OK:
            yield ok("structure", "quick_check is clean")
        else:
            yield wrong("structure", f"quick_check: {verdict}", advice.restore)


def _guards(connection: Connection, advice: Remedy) -> Findings:
    triggers = {row[0] for row in connection.query(Q.guards, {})}
    if len(triggers) >= 2:
        yield ok("guards", "the database refuses to change events")
    else:
        fix = f"{advice.command('verify')}; if it finds anything: {advice.restore}"
        yield wrong("guards", "the triggers that protect events are missing", fix)


def _heads(connection: Connection, advice: Remedy) -> Findings:
    astray = connection.query(Q.heads_astray, {"limit": HEADS_SHOWN})
    for uid, kind, name, seq in astray:
        says = f"{kind} {name!r} ({bytes(uid).hex()}): the head at {seq} is not the last event"
        yield wrong("heads", says, advice.command("verify"))
    if not astray:
        yield ok("heads", "every stream ends where its head says")


def _counts(connection: Connection, _advice: Remedy) -> Findings:
    tenants, streams, events, blobs, size = connection.query(Q.counts, {})[0]
    yield ok(
        "contents",
        f"tenants: {tenants}, streams: {streams}, events: {events}, blobs: {blobs} ({int(size) / MIB:.1f} MiB)",
    )


SEEN_BY_ALL = ("settings", "guards")  # checks that read no row of a tenant
CHECKS: dict[str, Callable[[Connection, Remedy], Findings]] = {
    "settings": _settings,
    "links": _links,
    "structure": _structure,
    "guards": _guards,
    "heads": _heads,
    "contents": _counts,
    **load.CHECKS,
}
