"""A page of each listing costs the same in a large store as in a small one (P8).

Each listing is asked through its handle, with each of its filters, for a full page in two stores that differ in their history
alone (`multiplied`). What it queried is counted: the steps of SQLite's machine, the blocks that PostgreSQL read. `make test`
compares 10^3 with 2 * 10^4 events; with PERDURE_ROUNDS the larger one has 10^5.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import apsw
import psycopg
import pytest

import perdure
from perdure.model import filters
from perdure.planes.execution import workers
from perdure.planes.retention import collect, retain
from perdure.stores.postgres import PostgresConnection
from perdure.stores.sqlite import SqliteConnection
from perdure.stores.statements import Statement
from perdure.stores.url import parse
from planes import multiplied

if TYPE_CHECKING:
    from perdure.handles.sync.store import Store

SMALL, LARGE = 10, 600 if os.environ.get("PERDURE_ROUNDS") else 120  # copies of 168 events
PAGE = 5
RATIO_MAX = {
    "sqlite": 1.2,
    "postgres": 2.0,
}  # the index of a large store is a level deeper, and tables of some hundred blocks are read whole: their rows say nothing
FLOOR = {"sqlite": 2_000, "postgres": 150}  # a page has so many steps, or blocks, whatever it lists
Query = tuple[Statement, dict[str, Any]]

# No copy has a part in the answer.
OF_ONE = ("session ", "blobs", "asks session", "runs parent", "events run", "effects in_doubt")
PARENT = "the last run of the agent `parent`"  # its name, which is random

# Grow by their nature, each with its reason.
COUNTED = {
    "events about customer:8": "each event of a subject is looked up, once for each kind",
    "effects errors True": "the last trouble first: when that was stands in the outcome of each",
}

# A value for each filter of each listing of a store, with which a page is full.
VALUES: dict[str, dict[str, list[Any]]] = {
    "sessions": {"status": ["active", "waiting", "crashed", "completed", "failed"], "label": ["prod"], "expired": [True],
                 "creator": ["me"], "archived": [True]},
    "runs": {"status": ["ready", "waiting", "completed", "failed"], "agent": ["sized child"], "session": ["main"],
             "parent": [PARENT], "version": ["model=m1"], "errors": [True]},
    "effects": {"in_doubt": [True], "state": ["committed", "failed", "dispatched"], "tool": ["_open_pr"], "errors": [True],
                "what_if": [True]},
    "decisions": {"status": ["open", "closed", "superseded"], "actor": ["me"], "tag": ["auth"]},
    "tasks": {"status": ["todo", "doing", "done", "failed", "blocked"], "label": ["test"], "actor": ["me"], "stuck": [True]},
    "memories": {"kind": ["workflow"], "status": ["live", "superseded", "forgotten"], "unread": [True], "tag": ["ci"],
                 "actor": ["me"]},
    "events": {"kind": ["turn.said", "deploy.*"], "actor": ["me"], "session": ["main"], "run": [PARENT], "emitted": [True]},
    "artifacts": {"name": ["build.log"], "media_type": ["text/plain"], "actor": ["me"]},
    "asks": {"state": ["open"], "session": ["asked"]},
}  # fmt: skip
LISTINGS: dict[str, type[filters.ListingFilters]] = {
    "sessions": filters.SessionFilters, "runs": filters.RunFilters, "effects": filters.EffectFilters,
    "decisions": filters.DecisionFilters, "tasks": filters.TaskFilters, "memories": filters.MemoryFilters,
    "events": filters.EventFilters, "artifacts": filters.ArtifactFilters, "asks": filters.AskFilters,
}  # fmt: skip
OF_SESSION: dict[str, type[filters.ListingFilters]] = {
    "decisions": filters.SessionDecisionFilters, "tasks": filters.SessionTaskFilters, "memories": filters.OwnMemoryFilters,
}  # fmt: skip
COMMON = {"about": ["customer:8"], "since": ["365d"], "until": ["0s"]}


def listings() -> Iterator[tuple[str, Callable[[Store], Any]]]:
    """Each listing of the surface, without filters and with each alone."""
    for name, record in LISTINGS.items():
        yield name, lambda store, name=name: getattr(store, name)(limit=PAGE)
        known = VALUES[name] | COMMON
        for word in filters.filters_of(record):
            for value in known[word]:  # a new filter needs a value
                yield f"{name} {word} {value}", partial(filtered, name=name, word=word, value=value)
    for name in (
        "decisions",
        "tasks",
        "memories",
        "turns",
        "events",
        "effects",
        "entries",
        "checkpoints",
        "artifacts",
        "covers",
        "ready",
    ):
        yield f"session {name}", lambda store, name=name: getattr(store.session("main"), name)()
    yield "subjects", lambda store: store.subjects(limit=PAGE)
    yield "feed", lambda store: store.feed(limit=PAGE)
    yield (
        "a worker's look",
        lambda store: (
            store._caller.read(workers.look, workers.drivable(["sized child"], ["p"]), PAGE, bool, "me").takeable
        ),
    )
    yield "blobs that are named", lambda store: store._caller.read(named_blobs)


def filtered(store: Store, name: str, word: str, value: Any) -> Any:
    """A page of a listing with one filter."""
    if value is PARENT:
        value = store.runs(agent="sized parent", limit=1)[0].id
    return getattr(store, name)(limit=PAGE, **{word: value})


def named_blobs(reads: Any) -> list[Any]:
    """What a retention and a collection ask of a page of blobs; nobody names these."""
    addresses = json.dumps([f"{number:064x}" for number in range(100)])
    asked = {"tenant": reads.tenant, "addresses": addresses}
    return [*reads.query(retain.Q.blobs_naming, **asked), *reads.query(collect.Q.blobs_needed, **asked)]


class Sized:
    """A store of some size, and how much its database does for what a listing asks."""

    def __init__(self, dialect: str, store: Store, raw: Any) -> None:
        self.dialect = dialect
        self._store = store
        self._raw = raw

    def work(self, listing: Callable[[Store], Any]) -> tuple[int, dict[str, int], int]:
        """How much there was to do, by statement, and how long the answer is."""
        kind = SqliteConnection if self.dialect == "sqlite" else PostgresConnection
        queries: list[Query] = []
        plain = kind.query

        def query(connection: Any, statement: Statement, params: dict[str, Any]) -> Any:
            queries.append((statement, params))
            return plain(connection, statement, params)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(kind, "query", query)
            answer = listing(self._store)
        count = self._steps if self.dialect == "sqlite" else self._blocks
        parts: dict[str, int] = {}
        for statement, params in queries:
            parts[statement.name] = parts.get(statement.name, 0) + count(statement.text(self.dialect, params), params)
        return sum(parts.values()), parts, len(answer)

    def _steps(self, text: str, params: dict[str, Any]) -> int:
        steps = 0

        def count() -> bool:
            nonlocal steps
            steps += 10
            return False

        self._raw.set_progress_handler(count, 10)
        self._raw.execute(text, params).fetchall()
        self._raw.set_progress_handler(None)
        return steps

    def _blocks(self, text: str, params: dict[str, Any]) -> int:
        ((plan,),) = self._raw.execute(f"EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) {text}", params).fetchall()
        return plan[0]["Plan"]["Shared Hit Blocks"] + plan[0]["Plan"]["Shared Read Blocks"]


def sqlite_store(folder: Any, copies: int) -> Iterator[Sized]:
    url = f"sqlite:///{folder}/{copies}.db"
    with perdure.open(url, actor="me") as store:
        multiplied.written(store)
    raw = apsw.Connection(f"{folder}/{copies}.db")
    raw.pragma("synchronous", 0)
    with raw:
        multiplied.copies(raw, "sqlite", copies)
    with perdure.open(url, actor="me") as store:
        yield Sized("sqlite", store, raw)
    raw.close()


def postgres_store(schemas: Any, copies: int) -> Iterator[Sized]:
    with schemas.store() as url:
        with perdure.open(url, actor="me") as store:
            multiplied.written(store)
        address = parse(url)
        with psycopg.connect(address.conninfo, autocommit=True, options=f"-c search_path={address.schema}") as raw:
            multiplied.copies(raw, "postgres", copies)
            raw.execute("VACUUM ANALYZE")
            with perdure.open(url, actor="me") as store:
                yield Sized("postgres", store, raw)


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def sized(request, tmp_path_factory):
    with contextlib.ExitStack() as stack:
        made = []
        for copies in (SMALL, LARGE):
            if request.param == "sqlite":
                store = contextlib.contextmanager(sqlite_store)(tmp_path_factory.mktemp("sized"), copies)
            else:
                store = contextlib.contextmanager(postgres_store)(request.getfixturevalue("schemas"), copies)
            made.append(stack.enter_context(store))
        yield made


def test_a_page_of_each_listing_costs_what_it_costs_in_a_small_store(sized):
    small, large = sized
    wrong = []
    for name, listing in listings():
        before, _, expected = small.work(listing)
        after, parts, found = large.work(listing)
        if expected != found or (found < PAGE and not name.startswith(OF_ONE)):
            wrong.append(f"{name}: {expected} and {found} were listed")
        ratio = after / max(before, FLOOR[small.dialect])
        if ratio > RATIO_MAX[small.dialect] and name not in COUNTED:
            wrong.append(f"{name}: {ratio:.1f}: {before}, then {after} ({parts})")
    assert not wrong, "\n".join(wrong)
