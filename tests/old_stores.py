"""Stores of earlier schemas as their own releases left them, on SQLite and on PostgreSQL, with runs in flight.

`tests/fixtures/schema` has a store of each schema; `tests/fixtures/in_flight` the rows of three runs that died in the code of
that schema. Used by `packages/perdure/tests/stores/test_old_stores.py` and, at size, by `benchmarks/migration.py`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import apsw

import perdure
from furnished import _fix
from perdure.log.event import commit_to, hash_header
from perdure.stores import migrate, schema_upgrade
from perdure.stores.url import parse

if TYPE_CHECKING:
    from perdure.handles.sync.store import Store
    from perdure.stores.store import Engine

FOLDER = Path(__file__).parent / "fixtures"
NUMBERS = [step.number for step in migrate.migrations()][:-1]
FIRST_KEYS = {  # with which the call that died was made; nothing in the store is equal to it
    2: "18c4bbb18820177377b2bb9943733780",
    3: "e36df3c4e95e64e0f771cb15f267f78c",
    4: "0914897a0257a5eb64a24b400f2e7c55",
}
ORDERS = {"keyed": 1, "unsafe": 2, "sleep": 3}
PAGE = 20_000
COLUMNS = ("tenant", "stream", "seq", "kind", "tbl", "actor", "at", "codec", "tx", "commitment", "hash", "salt", "body")
HEADS = "SELECT uid, seq, hash FROM streams ORDER BY uid"

CALLS: list[str] = []  # what the tools below were called with, in order


@perdure.tool(kind="keyed")
def charge(amount: int, *, key: str) -> str:
    """Died here in the run `keyed`."""
    CALLS.append(f"charge {amount} {key}")
    return f"charged {amount}"


@perdure.tool
def mail(to: str) -> str:
    """Died here in the run `unsafe`."""
    CALLS.append(f"mail {to}")
    return f"mailed {to}"


def price(number: int) -> int:
    """A step that all of them had done."""
    CALLS.append(f"price {number}")
    return number * 10


@perdure.agent(name="in_flight")
def order(run: perdure.Run, number: int) -> str:
    """The program of the runs, as it was written for the code of each schema."""
    amount = run.step(price, number)
    charged = run.act(charge, amount)
    if number == 3:
        run.sleep("1h")
    mailed = run.act(mail, "ann@example.org")
    return f"{charged}, {mailed}"


# -- a store of before -----------------------------------------------------------------------------


def write(path: Path | str, number: int, events: int = 0) -> None:
    """The store of a schema in a new file, with its runs in flight, filled to at least so many events by turns of one session."""
    with closing(apsw.Connection(str(path))) as raw:
        raw.execute("PRAGMA journal_mode = WAL").get  # noqa: B018 - the row must be read for the pragma to run
        raw.execute("PRAGMA synchronous = OFF")
        for folder in ("schema", "in_flight"):
            script = FOLDER / folder / f"{number:04}.sql"
            for _ in raw.execute(script.read_text("utf-8") if script.exists() else ""):
                pass
        _fill(raw, events - raw.execute("SELECT count(*) FROM events").get)


class _Tail(NamedTuple):
    """The end of the session that is filled."""

    stream: int
    uid: bytes
    tenant: int
    seq: int
    head: bytes
    at: int


def _fill(raw: apsw.Connection, missing: int) -> None:
    at = raw.execute("SELECT max(at) FROM events").get
    main = "SELECT id, uid, tenant, seq, hash FROM streams WHERE kind = 'session' AND name = 'main'"
    stream, uid, tenant, seq, head = raw.execute(main).get
    tail = _Tail(stream, uid, tenant, seq, head, at)
    marks = ", ".join("?" * len(COLUMNS))
    has_tenant = "tenant" in [row[1] for row in raw.execute("PRAGMA table_info(turns)")]
    owner = f", {tenant} AS tenant" if has_tenant else ""
    turn = f"INSERT INTO turns (stream, seq, role{', tenant' if has_tenant else ''}) SELECT ?, ?, 'user'{owner}"
    while missing > 0:
        events = [*_turns(tail, min(PAGE, missing))]
        missing -= len(events)
        tail = tail._replace(seq=events[-1][2], at=events[-1][6], head=events[-1][10])
        raw.execute("BEGIN")
        raw.executemany(f"INSERT INTO events ({', '.join(COLUMNS)}) VALUES ({marks})", events)
        raw.executemany(turn, [each[1:3] for each in events])
        raw.execute("UPDATE streams SET seq = ?, hash = ? WHERE id = ?", (tail.seq, tail.head, tail.stream))
        raw.execute("COMMIT")


def _turns(tail: _Tail, count: int) -> Iterator[tuple[Any, ...]]:
    """So many events that follow, whose chain is a real one."""
    head = tail.head
    for seq in range(tail.seq + 1, tail.seq + 1 + count):
        at = tail.at + 1000 * (seq - tail.seq)
        body = json.dumps({"set": {"role": "user"}, "doc": {"content": f"turn {seq} " + "x" * 200}}).encode()
        salt = os.urandom(16)
        commitment = commit_to(salt, body)
        head = hash_header(tail.uid, seq, head, "turn.said", "turns", "me", at, 1, commitment)
        yield tail.tenant, tail.stream, seq, "turn.said", "turns", "me", at, 1, salt, commitment, head, salt, body


def copy_to_postgres(path: Path | str, number: int, engine: Engine) -> None:
    """The store of a schema in a file as PostgreSQL had it: made by the migrations of that time, with the rows of the file."""
    import psycopg

    schema_upgrade.bring_up_to_date(engine, migrate.migrations()[:number])
    address = parse(engine.url)
    connected: Any = psycopg.connect(address.conninfo, options=f"-c search_path={address.schema}")
    with closing(apsw.Connection(str(path))) as raw, connected as postgres:
        postgres.execute("SET session_replication_role = replica")  # in any order: neither triggers nor references
        tables = [name for (name,) in raw.execute("SELECT name FROM tables WHERE name NOT IN ('tables', 'pruning')")]
        for table in tables:
            _copy(raw, postgres, table)
        for table, column in (("events", "pos"), ("blobs", "id")):
            postgres.execute(
                f"SELECT setval(pg_get_serial_sequence('{table}', '{column}'), max({column})) FROM {table}"
            )
        postgres.execute("SELECT setval('stream_ids', max(id)) FROM streams")


def _copy(raw: apsw.Connection, postgres: Any, table: str) -> None:
    columns = [column for _, column, *_ in raw.execute(f"PRAGMA table_info({table})")]
    listed = ", ".join(columns)
    postgres.execute(f"DELETE FROM {table}")
    with postgres.cursor().copy(f"COPY {table} ({listed}) FROM STDIN") as copying:
        for row in raw.execute(f"SELECT {listed} FROM {table}"):
            copying.write_row(row)


def heads(engine: Engine) -> list[tuple[Any, ...]]:
    """The end of every chain: a migration changes none."""
    with schema_upgrade.reading(engine) as connection:
        found = connection.raw.execute(HEADS)
        return [(bytes(uid), seq, bytes(head)) for uid, seq, head in found]


# -- after it --------------------------------------------------------------------------------------


def resume(store: Store, number: int) -> dict[str, Any]:
    """Carry the runs of a schema to their end as users do, and return their results: somebody answers, and settles doubt."""
    if number not in FIRST_KEYS:
        return {}
    ended: dict[str, Any] = {key: _driven(store, key) for key in ("issue-42", *ORDERS)}
    store.answer(store.asks()[0].id, "merge")
    for effect in store.effects(state="in_doubt"):
        effect.settle(perdure.Happened("mailed by hand"), by="ada")
    return ended | {key: _driven(store, key) for key, result in ended.items() if result is None}


def _driven(store: Store, key: str) -> Any:
    """The result of a run, as far as it comes without anybody; None when it waits."""
    try:
        if key == "issue-42":
            return store.drive(_fix, 42, key=key, session="main")
        return store.drive(order, ORDERS[key], key=key, session="main")
    except perdure.Waiting:
        return None
