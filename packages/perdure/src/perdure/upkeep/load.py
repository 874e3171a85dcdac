"""The strain on a living store, measured: who waits, what grows, what is held by the dead, what nobody needs.

Called by `health`, on a connection that only reads. Every look is bounded (so many rows by an index, so many looks at the
locks, a part of the newest values); nothing is locked. Together they say when a store is outgrown. Keeps P15.
"""

from __future__ import annotations

import math
import re
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from perdure.model.instants import SECOND_US, system_clock
from perdure.planes.access.tokens import CONTROL
from perdure.planes.conversation.feed import FeedHolder, holding
from perdure.planes.execution import parked_runs
from perdure.stores import dialect, migrate
from perdure.stores.core import Reader
from perdure.stores.sqlite import WAL_PAGES
from perdure.stores.statements import Statement, Statements
from perdure.stores.store import Connection, Rows
from perdure.stores.tx import LOG
from perdure.upkeep import lock_owners
from perdure.upkeep.findings import MIB, Finding, Findings, ok, warning, wrong
from perdure.upkeep.lock_owners import Contention
from perdure.upkeep.remedies import Remedy

Q = Statements("perdure.upkeep", "load.sql")

HOUR_US, DAY_US = 3_600 * SECOND_US, 86_400 * SECOND_US
QUIET_US = HOUR_US  # a run that has not moved for so long is stuck
ROWS_MAX = 10_000  # more than this is not counted
SHOWN = 5
WRITING_SHARE = 0.5  # of the looks: whoever comes waits as often as not
STARVED_FRAMES = 4 * WAL_PAGES  # the writer moves the WAL in after WAL_PAGES; so many mean that it cannot
LOG_LARGE_BYTES = 8 * 1024 * MIB
GROWTH_SPAN = 10_000  # events
GROWTH_KNOWN_US = HOUR_US  # a younger log says nothing about a day
DISK_FULL_DAYS = 30
UNREAD_AGE_US = 30 * DAY_US
UNREAD_MAX = 1_000
VALUES_SEEN = 2_000  # of the last events
NESTED_DEEP = 8
WAITING_SESSIONS = 3
LONG_TRANSACTION_SECONDS = 60
STRINGS, MARKS = re.compile(rb'"(?:[^"\\]|\\.)*"'), re.compile(rb"[\[\]{}]")
OUTGROWN = ("writer", "size", "growth")  # checks whose warning means that a larger store is due


def _ask(connection: Connection, statement: Statement, **params: Any) -> Rows:
    """Run a statement; on a server, its own clock says what is now."""
    now = None if connection.is_server else system_clock()
    return connection.query(statement, {"now": now, **params} if statement.uses_now else params)


def _file_of(connection: Connection) -> Path | None:
    return Path(connection.file) if connection.file else None


def _processes(pids: frozenset[int]) -> str:
    """The processes; those of another container have no number here."""
    numbers = [str(pid) for pid in sorted(pids) if pid > 0]
    return f"process {', '.join(numbers[:SHOWN])}" if numbers else "a process that cannot be named from here"


# -- who waits --------------------------------------------------------------------------------------


def writers(connection: Connection, advice: Remedy) -> Findings:
    """Whether writers wait for each other: on SQLite there is one at a time, on a server each stream has one."""
    path = _file_of(connection)
    if path is not None:
        contention = lock_owners.watch(path)
        if contention is not None:
            yield writing(contention, advice)
        yield backlog(connection.backlog(), contention.readers if contention else frozenset())
    elif connection.is_server:
        yield from waiting_sessions(*_ask(connection, Q.sessions_waiting)[0])
        yield held_feed(holding(_ask(connection, LOG.feed_held)))


def writing(contention: Contention, advice: Remedy) -> Finding:
    """How often somebody held the writer's lock."""
    says = f"a writer held the lock in {contention.writing} of {contention.looks} looks"
    if contention.writing < contention.looks * WRITING_SHARE:
        return ok("writer", says)
    says += f" ({_processes(contention.writers)}): other writers wait, because one process writes at a time"
    return warning("writer", says, advice.move)


def backlog(frames: int, readers: frozenset[int]) -> Finding:
    """Whether the WAL can be moved in: a reader that stays keeps it growing."""
    says = f"{frames} pages of the WAL are not in the database yet"
    if frames < STARVED_FRAMES:
        return ok("wal", says)
    says += ": a long read keeps them from being moved in"
    return warning("wal", says, f"end the long read of {_processes(readers)}; the next commit moves it in")


def waiting_sessions(waiting: int, oldest_pid: int, oldest_seconds: int) -> Findings:
    """Whether sessions of a server wait for locks, and whether one holds up the feed and the vacuum."""
    if waiting >= WAITING_SESSIONS:
        fix = "spread the work over more sessions and runs: each stream has one writer at a time"
        yield warning("writer", f"{waiting} connections wait for a lock", fix)
    else:
        yield ok("writer", f"{waiting} connections wait for a lock")
    if oldest_seconds >= LONG_TRANSACTION_SECONDS:
        says = f"a transaction of backend {oldest_pid} is open for {oldest_seconds} s: the feed stops at it"
        yield warning("transaction", says, f"psql -c 'select pg_terminate_backend({oldest_pid})'")


def held_feed(holder: FeedHolder | None) -> Finding:
    """Whether subscriptions wait for a transaction now, however young it is."""
    if holder is None:
        return ok("feed", "nothing holds it back")
    fix = f"select pg_terminate_backend({holder.pid})" if holder.pid else f"rollback prepared '{holder.application}'"
    return warning("feed", f"{holder}: subscriptions get nothing newer until it ends", f"psql -c {shlex.quote(fix)}")


# -- what grows -------------------------------------------------------------------------------------


def growth(connection: Connection, advice: Remedy) -> Findings:
    """How large the log is, how fast it grows, and when the disk is full at this rate."""
    path = _file_of(connection)
    rows = _ask(connection, Q.log_growth, span=GROWTH_SPAN)
    if not rows:
        return
    last, early, since, now, size = rows[0]
    yield log_size(size, advice) if path is not None else ok("size", f"{size / MIB:,.1f} MiB")
    # How full a server's disk is, only it knows.
    free = shutil.disk_usage(path.parent).free if path is not None else None
    yield growing(size / last, last - early, now - since, free, advice)


def log_size(size: int, advice: Remedy) -> Finding:
    """Whether the file is so large that verifying and copying it takes long."""
    says = f"{size / MIB:,.1f} MiB"
    if size < LOG_LARGE_BYTES:
        return ok("size", says)
    return warning("size", f"{says}: verify and backup read all of it", f"{advice.retain}, or {advice.move}")


def growing(event_bytes: float, events: int, span_us: int, free_bytes: int | None, advice: Remedy) -> Finding:
    """When the disk is full at the rate of the last events."""
    if span_us < GROWTH_KNOWN_US:
        return ok("growth", "too young to say how fast it grows")
    daily = events * DAY_US / span_us
    says = f"{daily:,.0f} events a day, {daily * event_bytes / MIB:,.1f} MiB"
    days = math.inf if free_bytes is None else free_bytes / max(daily * event_bytes, 1)
    if days > DISK_FULL_DAYS:
        return ok("growth", says)
    fix = f"{advice.retain}, a larger disk, or {advice.move}"
    return warning("growth", f"{says}: the disk is full in {days:.0f} days", fix)


# -- what stands still ------------------------------------------------------------------------------


def leases(connection: Connection, advice: Remedy, tenant: int | None = None) -> Findings:
    """Whether something is held by somebody whose heartbeat has lapsed, by the rule of the listings."""
    rows = _ask(connection, Q.leases_lapsed, limit=ROWS_MAX, tenant=tenant)
    lapsed = {kind: (count, name) for kind, count, name in rows if count}
    fixes = {
        "runs": f"{advice.command('worker MODULE')} takes them over, store.recover() in a program",
        "tasks": f"claim them anew; {advice.command('tasks --status doing')}",
        "sessions": f"{advice.command('sessions --status crashed')}; open them again, or close them",
    }
    for kind, (count, name) in lapsed.items():
        yield warning(
            "leases",
            f"{kind} held by processes that have ended, or give no sign of life: {count}, such as {name!r}",
            fixes[kind],
        )
    if not lapsed:
        yield ok("leases", "no leases held by silent processes")


def stuck(connection: Connection, advice: Remedy, tenant: int | None = None) -> Findings:
    """Whether runs make no progress: held without a sign, due without a taker, pinned to what nobody has, parked, in doubt."""
    findings = [
        *_held_still(connection, advice, tenant), *_untaken(connection, advice, tenant),
        *_stranded(connection, advice, tenant), *_meeting_copies(connection, advice, tenant),
        *_interrupted(connection, advice, tenant),
        *_for_people(connection, advice, tenant),
    ]  # fmt: skip
    yield from findings or [ok("runs", "no stalled runs")]


def _held_still(connection: Connection, advice: Remedy, tenant: int | None = None) -> Findings:
    for name, seconds in _ask(connection, Q.runs_stuck, quiet=QUIET_US, limit=SHOWN, tenant=tenant):
        says = f"run {name!r} is held and recorded nothing for {seconds // 60} minutes"
        yield warning(
            "runs", says, f"{advice.command('workers --stuck 10m')}; {advice.command(f'show {shlex.quote(name)}')}"
        )


def _untaken(connection: Connection, advice: Remedy, tenant: int | None = None) -> Findings:
    for agent, count, seconds in _ask(connection, Q.runs_untaken, quiet=QUIET_US, limit=ROWS_MAX, tenant=tenant):
        says = f"{count} of agent {agent!r} wait for a worker, the oldest for {seconds // 60} minutes"
        yield warning("runs", says, f"{advice.command('worker MODULE')}, where MODULE declares {agent!r}")


def _stranded(connection: Connection, advice: Remedy, tenant: int | None = None) -> Findings:
    for name, program in _ask(connection, Q.runs_stranded, limit=SHOWN, tenant=tenant):
        says = f"run {name!r} is pinned to program {program[:12]}, which no living worker has"
        yield warning("runs", says, f"start a worker with it, or {advice.command(f'pin {shlex.quote(name)} --any')}")


def _meeting_copies(connection: Connection, advice: Remedy, tenant: int | None = None) -> Findings:
    rows = _ask(connection, Q.runs_parked_for, reason=parked_runs.MEETS_COPY, limit=SHOWN, tenant=tenant)
    for name, agent in rows:
        says = f"run {name!r} of {agent!r} met a key that a copy holds, which came by import"
        yield warning(
            "runs", says, f"{advice.command(f'show {shlex.quote(name)}')} names the copy; then `perdure resume`"
        )


def _interrupted(connection: Connection, advice: Remedy, tenant: int | None = None) -> Findings:
    rows = _ask(connection, Q.runs_parked_for, reason=parked_runs.INTERRUPTED, limit=SHOWN, tenant=tenant)
    for name, agent in rows:
        says = f"run {name!r} of {agent!r} cancelled a part of its work in an earlier drive, and does not again"
        yield warning("runs", says, advice.command(f"retry {shlex.quote(name)}"))


def _for_people(connection: Connection, advice: Remedy, tenant: int | None = None) -> Findings:
    counts = dict(_ask(connection, Q.waiting_for_people, quiet=QUIET_US, limit=ROWS_MAX, tenant=tenant))
    if counts["runs"]:
        yield warning("runs", f"parked: {counts['runs']}", advice.command("runs --status parked"))
    if counts["effects"]:
        says = f"in doubt for more than an hour: {counts['effects']} effects"
        yield warning("effects", says, f"{advice.command('effects --state in_doubt')}, then perdure settle")


# -- what nobody needs, and what nobody can ask for ---------------------------------------------------


def unread(connection: Connection, advice: Remedy, tenant: int | None = None) -> Findings:
    """Whether values lie in sessions that are over. Reads are not recorded, so this is as near as one can come to
    "never read" without writing at every read.
    """
    [(count,)] = _ask(connection, Q.values_of_ended, age=UNREAD_AGE_US, limit=ROWS_MAX, tenant=tenant)
    says = f"{count} values in sessions that ended more than 30 days ago"
    if count < UNREAD_MAX:
        yield ok("unread", says)
        return
    fix = f"{advice.command('sessions --status completed --until 30d')}; delete what nobody reads, or set values with a ttl"
    yield warning("unread", f"{says}; does anything still read them?", fix)


def nested(connection: Connection, advice: Remedy) -> Findings:
    """Whether values lately written are nested so deeply that nobody can query them or see what changed."""
    deep = []
    for session, body in _ask(connection, Q.values_lately, limit=VALUES_SEEN):
        depth, name = depth_and_name(bytes(body))
        if depth > NESTED_DEEP:
            deep.append((depth, session, name))
    if not deep:
        yield ok("nested", f"no value lately is nested deeper than {NESTED_DEEP}")
        return
    depth, session, name = max(deep)
    many = "1 value is" if len(deep) == 1 else f"{len(deep)} values are"
    says = f"{many} nested deeper than {NESTED_DEEP}; {name!r} of {session!r}: {depth}"
    fix = f"keep its parts as values of their own; {advice.command(f'show {shlex.quote(session)}')}"
    yield warning("nested", says, fix)


class _Key(msgspec.Struct, frozen=True):
    name: str = ""


class _Body(msgspec.Struct, frozen=True):
    key: _Key = _Key()
    doc: msgspec.Raw = msgspec.Raw(b"null")


def depth_and_name(body: bytes) -> tuple[int, str]:
    """How deeply the value of an event is nested, and its name. A value in a blob counts as flat: it is not fetched."""
    try:
        read = msgspec.json.decode(body, type=_Body)
    except msgspec.DecodeError:
        return 0, ""
    return _depth(bytes(read.doc)), read.key.name


def _depth(document: bytes) -> int:
    """The deepest nesting of a JSON text that is known to be valid; without building it."""
    depth = deepest = 0
    for mark in MARKS.findall(STRINGS.sub(b"", document)):
        depth += 1 if mark in b"{[" else -1
        deepest = max(deepest, depth)
    return deepest


# -- indexes ----------------------------------------------------------------------------------------


def indexes(connection: Connection, advice: Remedy) -> Findings:
    """Whether every index of the schema is there."""
    expected = dialect.indexes_of(connection, [step.text for step in migrate.migrations()])
    there = {name for (name,) in _ask(connection, Q.indexes_named)}
    missing = [name for name in expected if name not in there]
    for name in missing:
        statement = expected[name]
        if dialect.is_unique(statement):
            yield wrong(
                "indexes",
                f"{name} is missing: nothing keeps keys unique",
                advice.run_sql(statement, _file_of(connection)),
            )
        else:
            yield warning(
                "indexes",
                f"{name} is missing: its queries scan the whole table now",
                advice.run_sql(statement, _file_of(connection)),
            )
    if not missing:
        yield ok("indexes", f"all {len(expected)} are there")


CHECKS: dict[str, Callable[[Connection, Remedy], Findings]] = {
    "writer": writers,
    "growth": growth,
    "indexes": indexes,
    "leases": leases,
    "runs": stuck,
    "unread": unread,
    "nested": nested,
}
# The checks of one tenant: nothing of the machine, the file, the server or another tenant is in them.
OF_TENANT = (leases, stuck, unread)


def is_alone(reader: Reader) -> bool:
    """Whether a store holds no other tenant than this one and that of the tokens."""
    [(others,)] = _ask(reader.connection, Q.tenants_besides, tenant=reader.tenant, control=CONTROL)
    return not others


def of_tenant(reader: Reader, advice: Remedy) -> list[Finding]:
    """The findings about one tenant."""
    return [finding for check in OF_TENANT for finding in check(reader.connection, advice, reader.tenant)]
