"""Every read statement at 100,000 rows, on both databases: none does work that grows with what it skips (P8).

SQLite counts the steps of its machine; PostgreSQL says how many rows each node of the plan had in its hands. Statements that look
at everything by design (verification, retention, doctor) are named here, each with its reason.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import apsw
import psycopg
import pytest

from perdure.handles.opening import open as open_store
from perdure.stores.statements import Statement, Statements
from perdure.stores.url import parse
from planes import crowded
from stores.test_statements import sql_files

STEPS_MAX = 60_000  # a look at all 100,000 rows takes 300,000 and more
ROWS_MAX = 12_000
PAGE = 11

UPKEEP = {"verify.sql", "retain.sql", "collect.sql", "health.sql", "load.sql", "migrate.sql", "move.sql", "merge.sql",
          "views.sql", "imported.sql", "user_transaction.sql", "moved_away.sql", "foreign_sqlite.sql", "files.sql",
          "spilled.sql"}  # fmt: skip
WHOLE = {
    "checkpoints_own": "what a retention judges",
    "rowless_own": "what a retention judges",
    "feed_bound": "looks so many events ahead as it is told, in the index",
    "events_last_not_after": "time travel by an instant folds anyway, and says what that costs",
    "events_of_mutable_rows": "a fork restates what is mutable",
    "actors_all": "shows the whole directory of actors, and nothing else asks for it",
    "actors_replayed": "only in a copy of the past, in memory",
    "holders_named": "only in a copy of the past, in memory",
    "of_range": "the subjects of the turns that a summary covers, which the verb has read",
    "lineage": "follows the parents of a fork; here a stream has none, and PostgreSQL plans for many",
    "decisions_of_session status": "a status in one session has no index of its own",
    "tasks_of_session status": "likewise",
    "tasks_of_session parent": "likewise",
    "tasks_of_session stuck": "what is stuck depends on other tasks",
    "tasks_of_store stuck": "likewise",
    "answer_across": "results after a checkpoint, whose calls are looked up",
    "cover_crossing": "summaries of one session, which are few",
    "found_out_after": "what a run found out since a restore",
    "progress_after": "what a run did since its last claim",
    "events_of_stream low high": "a kind inside one stream between two events",
    "events_of_stream_back low high": "likewise",
    "events_of_stream_back actor": "likewise: each event between the two is compared with the random names of one actor",
    "effect_get": "by number or key, never without either",
    "effects_of_stream open": "what is open in a run since its last checkpoint",
    "effects_of_store of": "effects of runs only, where a store has none",
    "effects_counted": "the page of a run says how many effects it had: counted in the index",
    "effects_kept": "the journal of a run since its last checkpoint",
    "waits_kept": "likewise",
    "wait_get": "likewise",
    "wait_get after": "likewise",
    "wait_get kind": "likewise",
    "wait_get name": "likewise",
    "texts_missing": "how many texts `perdure index` has yet to embed: it shows its progress",
    "texts_and_vectors": "how many there are, after `perdure index` has looked at all of them",
    "subjects_page": "counts the records of each subject of a page; here half of all rows have one subject",
    "subjects_page after": "likewise",
    "sessions_page state": "whether an open session waits or crashed is worked out one by one, until a page is full",
    "holders_needed": "of all runs and effects that somebody has",
    "memories_of_stream unread": "the report of what nobody reads looks whether each was read",
    "memories_of_store unread": "likewise",
}


def read_statements() -> Iterator[Statement]:
    for package, file in sql_files():
        if file not in UPKEEP and "importers" not in package and "evaluation" not in package:
            for statement in Statements(package, file):
                if crowded.READS.match(statement.source):
                    yield statement


def given(stream: Any) -> dict[str, Any]:
    """Far in the middle, where much is skipped, and filters that nothing passes."""
    t0 = crowded.T0
    late = {
        "after": 90_000,
        "first": 90_000,
        "last": 10**12,
        "upto": 10**12,
        "before": 95_000,
        "cut": 90_000,
        "seq": 90_000,
        "start": 90_000,
    }
    then = {"at": t0 + 50_000, "since": t0 + 50_000, "until": t0 + 50_010, "now": t0, "id": 50_000}
    cursor = {
        f"{word}_{part}": value
        for word in ("after", "last")
        for part, value in (("at", t0 + 50_000), ("stream", stream.id), ("seq", 50_000))
    }
    nobody = {
        "status": "failed",
        "state": "met",
        "tool": "nobody",
        "creator": "nobody",
        "actor": "nobody",
        "label": "rare",
        "tag": "rare",
        "agent": "nobody",
        "about": "user:9500",
    }
    names = {
        "key": "k5",
        "call": "c3",
        "name": "v50",
        "kind": "signal",
        "addresses": "[]",
        "address": "x",
        "prefix": "v5",
        "uid": b"0" * 16,
        "of": "run",
    }
    return {
        "stream": stream.id,
        "alone": stream.id,
        "tenant": stream.tenant,
        "limit": PAGE,
        **late,
        **then,
        **cursor,
        **nobody,
        **names,
    }


@pytest.fixture(scope="module")
def sqlite(tmp_path_factory):
    path = tmp_path_factory.mktemp("plans") / "a.db"
    with open_store(f"sqlite:///{path}") as store:
        session = store.session("a")
        session.say("user", "x")
    raw = apsw.Connection(str(path))
    raw.pragma("synchronous", 0)
    with raw:
        crowded.fill(raw, "sqlite", session._stream.tenant, session._stream.id)
    yield raw, given(session._stream)
    raw.close()


def steps_of(raw: Any, text: str, params: dict[str, Any]) -> int:
    steps = 0

    def count() -> bool:
        nonlocal steps
        steps += 100
        return steps > STEPS_MAX

    raw.set_progress_handler(count, 100)
    try:
        for _ in zip(raw.execute(text, params), range(PAGE), strict=False):
            pass
    except apsw.InterruptError:
        pass
    finally:
        raw.set_progress_handler(None)
    return steps


def test_on_sqlite_no_statement_pays_for_what_it_skips(sqlite):
    raw, values = sqlite
    wrong = [
        label
        for statement in read_statements()
        for label, params in crowded.variants(statement, values).items()
        if label not in WHOLE
        and steps_of(raw, statement.text("sqlite", params), {**params, "now": crowded.T0}) > STEPS_MAX
    ]
    assert not wrong, "\n".join(wrong)


def test_control_a_statement_that_passes_over_everything_is_found(sqlite):
    raw, values = sqlite
    assert steps_of(raw, "SELECT seq FROM events WHERE stream = :stream AND actor = 'nobody'", values) > STEPS_MAX


@pytest.fixture(scope="module")
def postgres(postgres_server):
    from schemas import Schemas

    with Schemas.on(postgres_server) as schemas, schemas.store() as url:
        with open_store(url) as store:
            session = store.session("a")
            session.say("user", "x")
        address = parse(url)
        with psycopg.connect(address.conninfo, autocommit=True, options=f"-c search_path={address.schema}") as raw:
            crowded.fill(raw, "postgres", session._stream.tenant, session._stream.id)
            raw.execute("SET statement_timeout = 4000")
            raw.execute("SET plan_cache_mode = force_generic_plan")  # what a prepared statement gets in the end
            yield raw, given(session._stream)


def rows_of(plan: dict[str, Any]) -> float:
    """The most rows that any node of a plan read, those included that it threw away."""
    loops = plan.get("Actual Loops", 1)
    own = (
        plan.get("Actual Rows", 0) + plan.get("Rows Removed by Filter", 0) + plan.get("Rows Removed by Join Filter", 0)
    ) * loops
    return max([own, *(rows_of(each) for each in plan.get("Plans", ()))])


def rows_read(raw: Any, statement: Statement, params: dict[str, Any]) -> float:
    """How many rows a statement had in its hands; all of them, if it took too long."""
    text = f"EXPLAIN (ANALYZE, FORMAT JSON) {statement.text('postgres', params)}"
    try:
        ((found,),) = raw.execute(text, {**params, "now": crowded.T0}).fetchall()
    except psycopg.errors.QueryCanceled:
        return crowded.ROWS
    except (psycopg.ProgrammingError, psycopg.DataError):
        return 0  # a parameter of another type: SQLite has looked at it
    return rows_of((json.loads(found) if isinstance(found, str) else found)[0]["Plan"])


def test_on_postgres_no_statement_pays_for_what_it_skips(postgres):
    raw, values = postgres
    wrong = [
        label
        for statement in read_statements()
        for label, params in crowded.variants(statement, values).items()
        if label not in WHOLE and rows_read(raw, statement, params) > ROWS_MAX
    ]
    assert not wrong, "\n".join(wrong)
