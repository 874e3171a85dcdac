"""Stores of any size that are like real ones: what verbs made once, copied within its database.

`written` has something for each filter of each listing. `copies` puts copies of its sessions, runs and scopes beside them, older
and under other names. Most are history: nothing in them is open, and their subjects are their own. The oldest are as current as
the original. `lengthened` puts copies of what a session holds behind it, so that it is long. No copy verifies: its hashes and
bodies are those of what it was made from.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import perdure
from furnished import furnish
from perdure.planes import tables
from perdure.stores.dialect import EVENT_COLUMNS

if TYPE_CHECKING:
    from perdure.handles.sync.store import Store

STRIDE = 1_000  # between the streams of two copies: verbs made fewer
STEP = 1_000_000  # microseconds between two copies
CURRENT = 8  # copies that are as current as the original: the oldest
SPAN = 200  # between the sequence numbers of two copies in one session: it had fewer events

SERIES = {
    "sqlite": "(WITH RECURSIVE g(k) AS (SELECT 1 UNION ALL SELECT k + 1 FROM g WHERE k < {0}) SELECT k FROM g) g",
    "postgres": "generate_series(1, {0}) AS g(k)",
}
OTHER_UID = {
    "sqlite": "unhex(substr(hex({0}), 1, 24) || printf('%08X', g.k))",
    "postgres": "decode(substr(encode({0}, 'hex'), 1, 24) || lpad(to_hex(g.k), 8, '0'), 'hex')",
}
OTHER_HEX = {
    "sqlite": "substr({0}, 1, 24) || printf('%08x', g.k)",
    "postgres": "substr({0}, 1, 24) || lpad(to_hex(g.k), 8, '0')",
}
STREAM = "{0} + g.k * " + str(STRIDE)
OLDER = "{0} - g.k * " + str(STEP)
LATER = "{0} + g.k * " + str(SPAN)
RENAMED = "{0} || '-' || g.k"
NAMED = f"CASE kind WHEN 'run' THEN <hex> ELSE {RENAMED} END"  # names of runs are hexadecimal

OPEN_RUNS = ("ready", "running", "waiting", "parked")
OPEN_TASKS = ("todo", "doing", "blocked")
OPEN_EFFECTS = ("planned", "dispatched", "in_doubt", "undoing")
STREAM_COLUMNS = ("id", "uid", "tenant", "kind", "name", "parent", "fork_seq", "seq", "hash")
INSTANTS = ("at", "created_at", "updated_at", "changed_at", "closed_at", "ended_at", "wake_at", "met_at", "used_at",
            "first_dispatched_at", "dispatched_at")  # fmt: skip
NUMBERS = ("seq", "doc_seq", "outcome_seq", "note_seq", "first_seq", "last_seq", "of_seq", "supersedes", "superseded_by",
           "memory", "effect", "taken_by", "retracted_seq")  # fmt: skip
LENGTHENED = ("turns", "calls", "covers", "tasks", "task_needs", "tags", "decisions", "entries", "artifacts", "effects",
              "waits", "memories", "memory_uses", "refs", "blob_refs", "subjects", "checks", "checkpoint_writes",
              "checkpoints")  # fmt: skip


@perdure.agent(name="sized broken")
def broken(run: perdure.Run, number: int) -> None:
    """A run that fails."""
    raise ValueError(number)


@perdure.agent(name="sized parent")
def parent(run: perdure.Run, number: int) -> Any:
    """A run that waits for another."""
    return run.start(child, number).result()


@perdure.agent(name="sized child", pins={"model": "m1"})
def child(run: perdure.Run, number: int) -> Any:
    """A run that waits for a person."""
    return run.ask(f"Go on with {number}?", choices=["yes", "no"])


def written(store: Store) -> None:
    """Write what is copied."""
    furnish(store, large=b"small")
    store.session("done", labels=["prod"], about=["customer:7"]).close()
    store.session("failed").close("failed")
    store.session("old").close()
    store.session("old").archive()
    store.session("short", ttl="1d").say("user", "I go soon")
    store.session("crashed").say("user", "x")
    bare = store.session("bare")
    for number in range(20):
        bare.say("user", f"turn {number}")
    asked = store.session("asked", about=["customer:8"])
    for number in range(2):
        with contextlib.suppress(perdure.Failed):
            store.drive(broken, number, key=f"b{number}", session="main")
        with contextlib.suppress(perdure.Waiting):
            store.drive(parent, number, key=f"p{number}", session="asked")
        with contextlib.suppress(perdure.Waiting):
            store.drive(child, number, key=f"c{number}", about=["customer:8"])
        store.start(child, number, key=f"r{number}", session="main")
    need = asked.task("Ask", labels=["test"])
    asked.task("Wait", needs=[need])
    need.claim().fail("no answer")
    asked.decide("Wait", because="nobody answered")
    asked.remember("Ann answers on Mondays", kind="workflow")
    asked.checkpoint({"step": 1})
    asked.attach("answer.txt", b"yes")
    asked.begin("deploy", {"to": "test"}, key="deploy-2")
    assert store.search("Safari")


def copies(raw: Any, dialect: str, count: int) -> None:
    """Put so many copies of all sessions, runs and scopes into the database that `raw` is a connection of."""
    _crash(raw)
    few = "SELECT id FROM streams WHERE kind IN ('session', 'run', 'scope') AND id < " + str(STRIDE)
    hexed = OTHER_HEX[dialect]
    of_streams = {"id": STREAM, "uid": OTHER_UID[dialect], "parent": STREAM, "name": NAMED.replace("<hex>", hexed)}
    _copy(raw, dialect, "streams", STREAM_COLUMNS, of_streams, f"id IN ({few})", count)
    past = f"g.k <= {count - CURRENT} AND "
    common = {"stream": STREAM, **dict.fromkeys(INSTANTS, OLDER)}
    own = {
        "sessions": {"name": RENAMED},
        "runs": {"name": hexed, "key": RENAMED, "session": RENAMED, "parent": hexed,
                 "status": f"CASE WHEN {past}t.status IN {OPEN_RUNS} THEN 'completed' ELSE {{0}} END",
                 "ended_at": f"CASE WHEN {past}t.status IN {OPEN_RUNS} THEN t.created_at ELSE {{0}} END - g.k * {STEP}"},
        "waits": {"name": f"CASE kind WHEN 'child' THEN {hexed} ELSE {{0}} END",
                  "state": f"CASE WHEN {past}t.state = 'open' THEN 'withdrawn' ELSE {{0}} END",
                  "met_at": f"CASE WHEN {past}t.state = 'open' THEN t.at ELSE {{0}} END - g.k * {STEP}"},
        "tasks": {"status": f"CASE WHEN {past}t.status IN {OPEN_TASKS} THEN 'done' ELSE {{0}} END",
                  "holder": f"CASE WHEN {past}t.status IN {OPEN_TASKS} THEN NULL ELSE {{0}} END"},
        "effects": {"state": f"CASE WHEN {past}t.state IN {OPEN_EFFECTS} THEN 'withdrawn' ELSE {{0}} END"},
        "subjects": {"subject": f"CASE WHEN {past}true THEN {RENAMED} ELSE {{0}} END"},
        "refs": {"target": OTHER_UID[dialect]},
    }  # fmt: skip
    more = ("sessions", "runs", "signals", "locks", "boots", "fold_snapshots")
    for table, columns in _tables(LENGTHENED + more):
        _copy(raw, dialect, table, columns, common | own.get(table, {}), f"stream IN ({few})", count)
    attending = f"stream IN ({few}) AND NOT ({past}true)"
    _copy(raw, dialect, "attendance", tables.ATTENDANCE.all_columns, common, attending, count)
    raw.execute("ANALYZE")


def lengthened(raw: Any, dialect: str, stream: int, count: int) -> None:
    """Put so many copies of what a session holds behind it."""
    changed = {**dict.fromkeys(NUMBERS, LATER), "key": RENAMED, "call": RENAMED, "name": RENAMED, "id": LATER}
    for table, columns in _tables(LENGTHENED):
        own = dict.fromkeys(("task", "needs"), LATER) if table == "task_needs" else {}
        _copy(raw, dialect, table, columns, changed | own, f"stream = {stream}", count)
    raw.execute(f"UPDATE streams SET seq = (SELECT max(seq) FROM events WHERE stream = {stream}) WHERE id = {stream}")
    raw.execute("ANALYZE")


def _tables(names: tuple[str, ...]) -> Iterator[tuple[str, tuple[str, ...]]]:
    yield "events", EVENT_COLUMNS
    for table in tables.ALL:
        if table.name in names:
            yield table.name, table.all_columns


def _crash(raw: Any) -> None:
    """What a process leaves that was killed in a session."""
    raw.execute(
        "INSERT INTO attendance (stream, tenant, holder) SELECT id, tenant, 'gone' FROM streams WHERE name = 'crashed'"
    )


def _copy(raw: Any, dialect: str, table: str, columns: Any, changed: dict[str, str], where: str, count: int) -> None:
    values = ", ".join(changed.get(column, "{0}").format(f"t.{column}") for column in columns)
    copied = f"SELECT {values} FROM {table} t, {SERIES[dialect].format(count)} WHERE {where}"
    raw.execute(f"INSERT INTO {table} ({', '.join(columns)}) {copied}")
