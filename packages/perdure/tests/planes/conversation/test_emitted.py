"""How events across the store are found: one index range for each kind, whatever the filters."""

from __future__ import annotations

import ast
import re
from contextlib import contextmanager

import apsw
import psycopg
import pytest

import perdure
from furnished import furnish
from perdure.model.kinds import is_reserved
from perdure.planes.conversation import emitted as own_events
from perdure.planes.conversation.emitted import Q
from perdure.stores.statements import Statement
from perdure.stores.store import event_of
from perdure.stores.url import parse
from sources import sources, within_package

EVENTS = 60_000
MANY = """
INSERT INTO events (tenant, stream, seq, kind, tbl, actor, at, codec, tx, commitment, hash, salt, body)
SELECT e.tenant, e.stream, 100 + g.n, 'k' || (g.n % 3) || '.x',
  CASE WHEN g.n % 3 = 1 THEN '' ELSE 'turns' END, 'a' || (g.n % 20),
  e.at + g.n, 1, e.tx, e.commitment, e.hash, e.salt, e.body FROM events e, """
FIRST = "e.kind = 'session.opened'"


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def store(request, tmp_path_factory):
    """Many events, written past the log once for all tests: only how they are found is looked at here."""
    with (
        request.getfixturevalue("schemas").store() if request.param == "postgres" else on_disk(tmp_path_factory) as url
    ):
        with perdure.open(url) as opened:
            opened.session("a")
            write_many(url)
            yield opened


@contextmanager
def on_disk(tmp_path_factory):
    yield f"sqlite:///{tmp_path_factory.mktemp('many')}/agent.db"


def write_many(url):
    address = parse(url)
    if address.scheme == "sqlite":
        numbers = f"WITH RECURSIVE g (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM g WHERE n < {EVENTS})"
        apsw.Connection(str(address.path)).execute(f"{numbers} {MANY} g WHERE {FIRST}")
        return
    options = f"-c search_path={address.schema}"
    with psycopg.connect(address.conninfo, options=options, autocommit=True) as raw:
        raw.execute(f"{MANY} generate_series(1, {EVENTS}) AS g (n) WHERE {FIRST}")
        raw.execute("ANALYZE events")


def plan(store, statement, **params):
    """How the database would run a statement."""
    core, tenant = store._caller.core, store._caller.tenant
    given = {"tenant": tenant, **params}
    source = statement._render("sqlite", frozenset(given))
    explain = "EXPLAIN QUERY PLAN " if core.engine.dialect == "sqlite" else "EXPLAIN "
    rows = core.read(lambda reads: reads.query(Statement("plan", "", explain + source), **given), tenant=tenant)
    return "\n".join(str(row[-1] if core.engine.dialect == "sqlite" else row[0]) for row in rows)


CASES = {
    "kind": {},
    "emitted": {"emitted": 1},
    "actor": {"actor": "a1"},
    "day": {"actor": "a1", "since": 0, "until": 2**60},
    "page": {"last_at": 2**60, "last_pos": 10},
}


@pytest.mark.parametrize("filters", CASES.values(), ids=CASES)
def test_a_page_is_one_range_of_an_index(store, filters):
    found = plan(store, Q.events_across, kind="k1.x", limit=50, **filters)
    assert "events_by_" in found or "events_emitted_by_kind" in found
    assert "Seq Scan" not in found
    assert "SCAN events" not in found
    assert "TEMP B-TREE" not in found
    for line in found.splitlines():
        assert "Sort  " not in line or "Incremental Sort" in line


def test_the_control_shows_that_a_plan_without_an_index_is_noticed(store):
    broken = Statement("broken", "", Q.events_across.source.replace("kind = :kind", "kind || '' = :kind"))
    found = plan(store, broken, kind="k1.x", limit=50)
    assert "TEMP B-TREE" in found or "Seq Scan" in found or "Sort  " in found or "events_by_kind" not in found


def test_kinds_are_found_by_hopping(store):
    found = plan(store, Q.kinds_across, low="", high=chr(0x10FFFF))
    assert "Seq Scan" not in found
    assert "SCAN events" not in found


def test_no_more_than_a_page_of_each_kind_is_read(store, monkeypatch):
    read = []

    def counted(row):
        read.append(row)
        return event_of(row)

    monkeypatch.setattr(own_events, "event_of", counted)
    page = store.events(limit=20)
    assert [event.seq for event in page] == [100 + EVENTS - n for n in range(20)]
    assert len(read) < 4 * 21 + 1
    assert len(store.events(kind="k1.*", emitted=True, limit=20)) == 20


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("a.*", {"kind": None, "low": "a.", "high": "a/"}),
        ("a.b.*", {"kind": None, "low": "a.b.", "high": "a.b/"}),
        ("a.b", {"kind": "a.b", "low": None, "high": None}),
        ("%", {"kind": "%", "low": None, "high": None}),
        (None, {"kind": None, "low": None, "high": None}),
    ],
)
def test_a_kind_becomes_an_equality_or_a_range(kind, expected):
    assert own_events._kind_filter(kind) == expected


@pytest.mark.parametrize("kind", ["*", "a*", "a.*.b", "*.a", "a.**", ""])
def test_other_patterns_are_refused(kind):
    with pytest.raises(perdure.Invalid):
        own_events._kind_filter(kind)


# Kinds ------------------------------------------------------------------------------------------------------

IMPORTS = "from perdure.log.change import "
KIND = re.compile(r"[a-z]+\.[a-z_]+")
NAMED_ELSEWHERE = {
    "effects.adopting",
    "effects.ledger",
    "log.actors",
    "planes.actors",
    "planes.audit.base_events",
    "planes.conversation.sessions",
    "planes.execution.imported",
    "planes.execution.model_inputs",
    "planes.execution.runs",
    "planes.execution.tasks",
    "planes.execution.waits",
    "planes.memory.memories",
    "planes.recovery.checkpoints",
    "planes.recovery.keyed",
    "planes.execution.leases",
    "stores.tx",
}  # modules that give `Change` a kind by a name; all strings count
NO_KINDS = {
    "checkpoints.root",
    "envelope.checkpoint",
    "envelope.children",
    "envelope.run",
    "envelope.sealed",
    "envelope.subjects",
    "perdure.effects",
    "perdure.stores",
    "pins.tools",
}  # paths in errors, and packages


def kinds_of(module: str, text: str) -> set[str]:
    """The kinds that a module records. A kind that cannot be read off is an error, unless `emit` checks it."""
    tree, found = ast.parse(text), set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Change":
            kind = node.args[0] if node.args else next(each.value for each in node.keywords if each.arg == "kind")
            if isinstance(kind, ast.Constant):
                found.add(kind.value)
            else:
                assert module in NAMED_ELSEWHERE | {"planes.conversation.emitted"}, (
                    f"{module}: which kinds does line {node.lineno} record?"
                )
        elif module in NAMED_ELSEWHERE and isinstance(node, ast.Constant) and isinstance(node.value, str):
            found |= (
                {node.value} if KIND.fullmatch(node.value) and not node.value.endswith((".sql", ".planes")) else set()
            )
    return found - NO_KINDS


def recorded_kinds():
    paths = [path for path in sources(".py") if "testing" not in path.parts]
    texts = [(".".join(within_package(path).with_suffix("").parts), path.read_text("utf-8")) for path in paths]
    may_record = [(module, text) for module, text in texts if IMPORTS in text or module in NAMED_ELSEWHERE]
    return set().union(*(kinds_of(module, text) for module, text in may_record))


def forgeable(kinds):
    return sorted(kind for kind in kinds if not is_reserved(kind))


def test_nobody_can_emit_a_kind_that_the_planes_record():
    kinds = recorded_kinds()
    assert len(kinds) > 30
    assert {"tenant.actor_named", "tenant.actor_forgotten", "session.taken_over", "task.key_given_up"} <= kinds
    assert forgeable(kinds) == []


def test_what_a_furnished_store_holds_is_reserved_or_emitted(tmp_path):
    with perdure.open(f"sqlite:///{tmp_path}/agent.db") as opened:
        furnish(opened)
        kinds = {event.kind: event.emitted for event in opened.events(limit=1000)}
        assert {event.kind for event in opened.events(emitted=True)} == {"deploy.finished"}
        assert opened.events(emitted=True, kind="scope.opened") == []
    assert forgeable(kinds) == ["deploy.finished"] == [kind for kind, emitted in kinds.items() if emitted]


def test_control_a_kind_outside_is_seen():
    assert forgeable(kinds_of("new", 'tx.record(Change("turnip.pulled", stream))')) == ["turnip.pulled"]
    with pytest.raises(AssertionError, match="which kinds"):
        kinds_of("new", "tx.record(Change(kind, stream))")
