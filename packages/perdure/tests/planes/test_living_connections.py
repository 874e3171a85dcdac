"""Every read statement on a PostgreSQL connection that lives: as cheap after many uses as with the better of its two plans (P8).

A server that has planned a prepared statement five times may keep one plan for all parameters. In a store with one long and many
short sessions that plan can read the long one again for each row. So statements that give a page are planned for each use
(docs/decisions/0158). Here each statement runs as the product runs it, and the server says how
many blocks it took. `PERDURE_BASE=ff295087 pytest …` compares them with the statements of a commit, in a store of PERDURE_COPIES.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure.planes.recovery import checkpoints
from perdure.planes.tables import RECORDED
from perdure.stores import statements
from perdure.stores.dialect import rows_page
from perdure.stores.postgres import PostgresConnection, PostgresEngine
from perdure.stores.statements import Statement, Statements
from perdure.stores.url import parse
from planes import crowded, multiplied
from stores.test_statements import sql_files

USES = 12  # the driver prepares after 5 uses, and the server may change to one plan for all after 5 more
RATIO_MAX = 1.5
NAMED_RATIO_MAX = 4.0
FEW_BLOCKS = 16  # so many may be the difference between two plans that both look up a few rows
COPIES, LONG = int(os.environ.get("PERDURE_COPIES", "40")), 50

NEIGHBOURS = "knowing the parameters, the server prefers blocks that lie beside each other to fewer of them"
KEPT = "looked up often and by keys alone: planning it for each use would cost more than the worse plan"
WHOLE = "reads a whole stream, and is prepared: the plan for one of average length goes to each row by the index"
NAMED = {
    "event_hashes": WHOLE,
    "turns_own": WHOLE,
    "rowless_own": WHOLE,
    "stream_size": WHOLE,
    "events_shown": NEIGHBOURS,
    "events_of_stream": NEIGHBOURS,
    "events_of_stream kind": NEIGHBOURS,
    "events_of_stream_back": NEIGHBOURS,
    "events_of_stream_back since": NEIGHBOURS,
    "events_of_stream_back until": NEIGHBOURS,
    "events_checked": NEIGHBOURS,
    "events_page": NEIGHBOURS,
    "events_of_stream low high": NEIGHBOURS,
    "events_of_stream_back kind": NEIGHBOURS,
    "events_of_stream_back low high": NEIGHBOURS,
    "feed_after stream": NEIGHBOURS,
    "memories_of_stream about": NEIGHBOURS,
    "tasks_of_session about": NEIGHBOURS,
    "memories_of_stream unread": NEIGHBOURS,
    "memories_of_store tag about": NEIGHBOURS,
    "texts_about_whole": NEIGHBOURS,
    "texts_tagged since": NEIGHBOURS,
    "texts_tagged until": NEIGHBOURS,
    "values_own": NEIGHBOURS,
    "runs_gone_wrong about": "runs that failed and runs that are parked are looked up apart, a page of each",
    "turn_by_key forked": KEPT,
    "tenants_recorded": KEPT,
    "quarantined": KEPT,
}
ELSEWHERE = {
    "files.sql",
    "foreign_sqlite.sql",
    "spilled.sql",
}  # of databases that are no PostgreSQL; so are those of importers
ONLY_SQLITE = {"database_size", "schema_objects", "page_faults", "key_faults"}
NEVER = {
    "call_makers",
    "turn_by_key",
    "turn_by_call",
}  # without its optional lines: it is asked of one session, or of a line of forks


def read_statements() -> Iterator[Statement]:
    """Those of all files, and the page of rows that is made for each recorded table."""
    for package, file in sql_files():
        if file not in ELSEWHERE and "importers" not in package and "evaluation" not in package:
            for statement in Statements(package, file):
                if statement.name not in ONLY_SQLITE and crowded.READS.match(statement.source_for("postgres")):
                    yield statement


class Living:
    """A connection of the product's own, and what the server says about the plans of what runs on it."""

    def __init__(self, connection: PostgresConnection, schema: str) -> None:
        self.connection = connection
        self._schema = schema
        self._blocks = 0
        raw = connection.raw
        raw.add_notice_handler(self._hear)
        raw.execute("LOAD 'auto_explain'")
        for name, value in {"log_analyze": "on", "log_buffers": "on", "log_format": "json", "log_level": "notice",
                            "log_timing": "off"}.items():  # fmt: skip
            raw.execute(f"SET auto_explain.{name} = {value}")
        raw.execute("SET client_min_messages = notice")

    def _hear(self, notice: Any) -> None:
        plan = re.search(r"plan:\s*(\{.*)", notice.message_primary, re.DOTALL)
        if plan:
            node = json.loads(plan[1])["Plan"]
            self._blocks += node["Shared Hit Blocks"] + node["Shared Read Blocks"]

    def blocks(self, statement: Statement, params: dict[str, Any], *, uses: int = 1, mode: str = "auto") -> int:
        """How many blocks the last of some uses took."""
        self.connection.raw.execute(f"SET plan_cache_mode = {mode}")
        for _ in range(uses - 1):
            self.connection.query(statement, params)
        self._blocks = 0
        self.connection.raw.execute("SET auto_explain.log_min_duration = 0")
        self.connection.query(statement, params)
        self.connection.raw.execute("SET auto_explain.log_min_duration = -1")
        return self._blocks

    def ratio(self, statement: Statement, params: dict[str, Any]) -> tuple[float, str]:
        """The blocks after many uses by those of the better plan."""
        lived = self.blocks(statement, params, uses=USES)
        plans = [self.blocks(statement, params, mode=f"force_{which}_plan") for which in ("generic", "custom")]
        better = max(min(plans), FEW_BLOCKS)
        return lived / better, f"{lived} blocks; generic {plans[0]}, custom {plans[1]}"


def given_for(raw: Any, stream: int) -> dict[str, Any]:
    """A value for each parameter, by its name: what the product would ask for in the middle of this long session."""
    tenant, last, uid = raw.execute("SELECT tenant, seq, uid FROM streams WHERE id = %s", (stream,)).fetchone()
    now, pos, xid = raw.execute("SELECT max(at), max(pos), max(xid::text::bigint) FROM events").fetchone()
    (parent,) = raw.execute("SELECT parent FROM runs WHERE parent IS NOT NULL LIMIT 1").fetchone()
    middle = last // 2
    place = json.dumps([[stream, middle, 0, "turn"]])
    streams = dict.fromkeys(("stream", "alone", "heir", "id", "in_stream"), stream)
    numbers = {"seq": middle, "first": 0, "last": last, "upto": last, "whole": last, "before": last, "after": middle,
               "start": middle, "cut": middle, "maker": 0, "fork_seq": 0, "of_seq": middle, "target_seq": middle,
               "effects": middle, "waits": middle, "newest": last - 50, "pos": pos - 100, "end_pos": pos, "xid": xid - 1,
               "end_xid": xid, "limit": 51, "skipped": 50, "steps": 50, "number": 50, "span": 1000, "blob": 0,
               "end_blob": 10**9, "effect": middle, "task": 1, "attempt": 1, "token": 1, "embedding": 1, "done": 0, "dims": 4,
               "batch": 0, "unread": 1, "own": 1, "open": 1, "forked": 1, "rules": 1, "stuck": 1, "abandoned": 1,
               "due": 1, "expired": 1, "filtered": 1, "asked": 1, "crashed": 1, "current": 1, "listed": 1,
               "emitted": 1}  # fmt: skip
    instants = {
        "now": now,
        "at": now,
        "since": now - 10**9,
        "until": now + 1,
        "quiet": 10**6,
        "age": 10**6,
        "updated_at": now,
    }
    cursors = {f"{word}_{part}": value for word in ("after", "last")
               for part, value in (("at", now), ("stream", stream), ("seq", middle), ("pos", pos))}  # fmt: skip
    words = {"name": "main", "kind": "turn.said", "key": "m1", "call": "c1", "status": "completed", "status_not": "open",
             "state": "committed", "tool": "deploy", "creator": "me", "actor": "me", "label": "prod", "tag": "ci",
              "agent": "sized child", "version": "model=m1", "about": "customer:7", "session": "main", "parent": parent,
              "holder": "h", "me": "h", "agents": '["sized child", "sized parent"]',
              "programs": "|p|", "dead": "|h|", "prefix": "m", "prefix_end": "n", "low": "turn.",
             "high": "turn/", "media_type": "text/plain", "address": "a", "digest": "d", "base": "a", "checkpoint": "b",
             "reducer": "count", "of": "run", "thing": "memory", "shelf": "turn", "term": "turn", "sha256": "s",
             "schema": "perdure", "search_path": "perdure", "lock_timeout": "1000", "control": "control",
             "scope": "s", "mark": "m", "below": "user:", "beyond": "user;", "reason": "deaths"}  # fmt: skip
    lists = {"addresses": "[]", "seqs": f"[{middle}, {last}]", "kinds": '["turn.*"]', "words": '["turn"]',
             "shelves": '["turn"]', "weights": '[["turn", 1.0]]', "streams": f"[{stream}]", "results": '["call"]',
             "places": place, "stretches": f"[[{stream}, {middle}, {last}]]"}  # fmt: skip
    others = {"tenant": tenant, "uid": uid, "target": uid, "hash": bytes(32), "average": 10.0}
    return streams | numbers | instants | cursors | words | lists | others


# Where one name means several things.
OWN: dict[str, dict[str, Any]] = {
    "checks_get": {"thing": "value"},
    "entries_page": {"after": "a"},
    "keyed_page": {"before": "z"},
    "keyed_across": {"upto": "z"},
    "scopes_below": {"first": "user:", "after": "user:a"},
    "values_below": {"first": "user:"},
    "subjects_page": {"after": "a"},
    "wait_get": {"kind": "ask", "name": ""},
    "waits_of_store": {"kind": "ask"},
    "memories_of_store": {"kind": "fact", "status": "live"},
    "memories_of_stream": {"kind": "fact", "status": "live"},
    "writes_standing": {"task": "task"},
    "run_names_between": {"low": "0", "high": "8"},
    "addresses_between": {"low": "0", "high": "8"},
    "tasks_of_session": {"parent": 2},
    "lineage": {"parent": 2},
}


@pytest.fixture(scope="module")
def living(postgres_server):
    from schemas import Schemas

    with Schemas.on(postgres_server) as schemas, schemas.store() as url:
        with perdure.open(url) as store:
            multiplied.written(store)
            long = [store.session(name)._stream.id for name in ("main", "bare")]
        address = parse(url)
        with (
            closing(PostgresEngine(url, address.conninfo, address.schema)) as engine,
            closing(engine.reader()) as reader,
        ):
            multiplied.copies(reader.raw, "postgres", COPIES)
            for stream in long:
                multiplied.lengthened(reader.raw, "postgres", stream, LONG)
            yield Living(reader, address.schema), [given_for(reader.raw, stream) for stream in long]


def cases(statement: Statement, given: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The parameters of each form of a statement. A statement with a parameter of a new name needs a value for it."""
    own = given | OWN.get(statement.name, {})
    variants = crowded.variants(statement, own)
    unknown = {name for params in variants.values() for name in params} - own.keys()
    assert not unknown, f"{statement.name}: no value for {', '.join(sorted(unknown))} in given_for"
    return {label: {**params, "now": own["now"]} for label, params in variants.items() if label not in NEVER}


def worse(living: Living, statements: Iterator[Statement], given: dict[str, Any]) -> dict[str, str]:
    """The statements that take more blocks than they should, and how many."""
    found = {}
    for statement in statements:
        for label, params in cases(statement, given).items():
            ratio, plans = living.ratio(statement, params)
            if ratio > (NAMED_RATIO_MAX if label in NAMED else RATIO_MAX):
                found[label] = f"{ratio:.1f}: {plans}"
    return found


def is_of_a_session(statement: Statement) -> bool:
    """Whether it matters which session is long."""
    return re.search(r":(stream|alone|heir|id)\b", statement.source) is not None


def test_no_statement_is_dearer_on_a_connection_that_lives(living):
    connection, (full, bare) = living
    for given, looked_at in ((full, read_statements()), (bare, filter(is_of_a_session, read_statements()))):
        wrong = worse(connection, looked_at, given)
        assert not wrong, "\n".join(f"{label} {plans}" for label, plans in wrong.items())


class OfCommit(Statements):
    """The statements of a file as they were in a commit."""

    def __init__(self, path: str) -> None:
        self.file = path
        self._by_name: dict[str, Statement] = {}
        show = ["git", "show", f"{BASE}:packages/perdure/src/perdure/{path}"]
        self._parse(subprocess.run(show, check=False, capture_output=True, text=True, cwd=Path(__file__).parent).stdout)


BASE = os.environ.get("PERDURE_BASE", "")
THEN = {"runs_takeable": {"agents": "|child|parent|"}}  # whose parameters had another form


@pytest.mark.skipif(not BASE, reason="a sweep of its own: PERDURE_BASE names the commit to compare with")
def test_no_statement_is_dearer_than_the_better_plan_of_a_commit(living, monkeypatch):
    connection, sessions = living
    paths = ["/".join((*package.split(".")[1:], file)) for package, file in sql_files()]
    then: dict[str, Statement] = {statement.name: statement for path in paths for statement in OfCommit(path)}
    words = {statement.name: statement for statement in OfCommit("stores/about_words.sql")}
    wrong, compared = {}, 0

    def better(statement: Statement, params: dict[str, Any]) -> int:
        with monkeypatch.context() as patch:
            patch.setattr(statements, "_about_words", lambda: words)
            return min(
                connection.blocks(statement, params, mode=f"force_{which}_plan") for which in ("generic", "custom")
            )

    for given in sessions:
        for statement in read_statements():
            if statement.name not in then:
                continue
            before = then[statement.name]
            known = cases(before, given)
            for label in known.keys() & (asked := cases(statement, given)).keys():
                compared += 1
                least = better(before, known[label] | THEN.get(statement.name, {}))
                lived = connection.blocks(statement, asked[label], uses=USES)
                if lived > (NAMED_RATIO_MAX if label in NAMED else RATIO_MAX) * max(least, FEW_BLOCKS):
                    wrong[label] = f"{lived} blocks, and {least} then"
    assert compared > 400
    assert not wrong, "\n".join(f"{label}: {blocks}" for label, blocks in wrong.items())


def test_control_a_page_that_is_prepared_is_found(living, monkeypatch):
    connection, (main, _) = living
    statement = checkpoints.Q.checkpoints_page
    assert not worse(connection, iter([statement]), main)
    monkeypatch.setattr(statement, "spans", False)
    assert worse(connection, iter([statement]), main)


def test_the_rows_of_each_table_too(living):
    connection, sessions = living
    for table in RECORDED.values():
        if not table.rowless:
            for given in sessions:
                assert not worse(connection, iter([rows_page(table, first=True)]), given)
