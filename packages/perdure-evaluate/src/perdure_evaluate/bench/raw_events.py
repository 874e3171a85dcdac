"""Filling a store, and a plain table beside it, with many events of several kinds, actors and days."""

from __future__ import annotations

from typing import Any

from perdure.runtime.callers import caller_of, stream_of

DAY_US = 86_400 * 1_000_000
_START_US = 1_790_000_000 * 1_000_000
_STEP = 2_000


def start_us() -> int:
    """The instant of the first event."""
    return _START_US


def _event(number: int, rows: int, kinds: int, actors: int, days: int) -> tuple[str, str, int]:
    at = _START_US + number * (days * DAY_US) // rows
    return f"kind.{number * 7919 % kinds}", f"actor {number * 104_729 % actors}", at


def say_many(store: Any, name: str, count: int) -> None:
    """Many turns of 1 KiB in one commit."""

    def say(tx: Any) -> None:
        session = tx.session(name)
        for _ in range(count):
            session.say("user", "x" * 1024)

    store.atomic(say)


def fill_events(store: Any, rows: int, *, kinds: int, actors: int, days: int) -> None:
    """Emit events through the one door, many in a commit, dated over several days."""
    core, tenant = caller_of(store).core, caller_of(store).tenant
    from perdure.planes.conversation import emitted  # noqa: PLC0415

    stream = stream_of(store.session("many"))

    def emit_some(tx: Any, first: int) -> None:
        for number in range(first, min(first + _STEP, rows)):
            kind, tx.actor, tx.now = _event(number, rows, kinds, actors, days)
            emitted.emit(tx, stream, kind, {"number": number})

    for first in range(0, rows, _STEP):
        core.write(emit_some, first, actor="bench", tenant=tenant)


def fill_raw(store: Any, rows: int, *, kinds: int, actors: int, days: int) -> Any:
    """Put these facts into a plain table with the best index for the question; returns a connection to it."""
    connection = caller_of(store).core.engine.connect()
    integer = "INTEGER" if connection.dialect == "sqlite" else "BIGINT"
    raw = connection.raw
    raw.execute(f"CREATE TABLE raw_events (pos {integer} PRIMARY KEY, kind TEXT, actor TEXT, at {integer}, body TEXT)")
    facts = ((number, *_event(number, rows, kinds, actors, days), '{"number": 1}') for number in range(rows))
    raw.execute("BEGIN")
    if connection.dialect == "sqlite":
        raw.executemany("INSERT INTO raw_events VALUES (?, ?, ?, ?, ?)", facts)
    else:
        with raw.cursor() as cursor, cursor.copy("COPY raw_events FROM STDIN") as copy:
            for fact in facts:
                copy.write_row(fact)
    raw.execute("CREATE INDEX raw_events_by ON raw_events (kind, actor, at)")
    raw.execute("COMMIT")
    raw.execute("ANALYZE")
    return connection


def raw_page(connection: Any, kind: str, actor: str, since_us: int, until_us: int) -> list[Any]:
    """Ask for this page in plain SQL."""
    mark = "?" if connection.dialect == "sqlite" else "%s"
    text = (
        f"SELECT pos, kind, actor, at, body FROM raw_events WHERE kind = {mark} AND actor = {mark} "
        f"AND at >= {mark} AND at < {mark} ORDER BY at DESC LIMIT 50"
    )
    cursor = connection.raw.execute(text, (kind, actor, since_us, until_us))
    return list(cursor) if connection.dialect == "sqlite" else cursor.fetchall()
