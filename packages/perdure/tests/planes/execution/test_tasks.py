"""What of tasks no store decides: ways between tasks, the plans of queries, folding, forks, and controls."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

import perdure
from perdure.planes.execution import task_needs, tasks
from perdure_testing.contract.sync.claims import ClaimsContract
from perdure_testing.contract.sync.work import WorkContract
from perdure_testing.openers import Opener

edges = st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), max_size=20)


@given(edges, st.integers(0, 7), st.integers(0, 7))
def test_a_way_is_found_if_and_only_if_there_is_one(graph, start, goal) -> None:
    reached = {start}
    for _ in range(8):
        reached |= {target for source, target in graph if source in reached}
    way = task_needs.way_between(graph, start, goal)
    assert bool(way) == (goal in reached)
    if way:
        assert (way[0], way[-1]) == (start, goal)
        assert all(step in graph for step in pairwise(way))
        assert len(set(way)) == len(way)


@pytest.fixture
def store(tmp_path):
    with perdure.open(f"sqlite:///{tmp_path}/a.db") as store:
        yield store


def plan(store, statement, **params) -> str:
    params = {name: value for name, value in params.items() if value is not None}

    def explain(reads):
        text = statement.text("sqlite", params)
        return "\n".join(row[3] for row in reads.connection.raw.execute(f"EXPLAIN QUERY PLAN {text}", params))

    return store._caller.read(explain)


def test_ready_walks_an_index_in_its_order(store) -> None:
    for status, abandoned in (("todo", None), ("doing", 1)):
        said = plan(store, tasks.Q.tasks_ready, stream=1, status=status, abandoned=abandoned, dead="|", limit=1, now=0)
        assert "INDEX tasks_open" in said
        assert "SCAN" not in said
        assert "TEMP B-TREE" not in said


@pytest.mark.parametrize(
    ("filters", "index"),
    [({}, "tasks_by_time"), ({"status": "todo"}, "tasks_by_status"), ({"actor": "a"}, "tasks_by_actor")],
)
def test_asking_across_walks_an_index_in_its_order(store, filters, index) -> None:
    said = plan(store, tasks.Q.tasks_of_store, tenant=1, limit=1, now=0, **filters)
    assert f"INDEX {index}" in said
    assert "TEMP B-TREE" not in said


def test_a_claim_begins_a_heartbeat(store) -> None:
    task = store.session("s").task("t").claim()
    assert not task.refresh().abandoned
    assert store.session("s").ready() == []


def test_tasks_fold_to_what_the_tables_say(store) -> None:
    session = store.session("s")
    first = session.task("a", labels=["x"], detail="d" * 20_000)
    second = session.task("b", needs=[first], parent=first)
    first.claim(ttl="1h").block("why")
    first.unblock().claim().fail("no")
    second.unneed(first).put_under(None)
    first.reopen()
    second.need(first)
    assert store.verify().ok


def test_a_fork_has_the_plan_and_none_of_the_claims(store) -> None:
    session = store.session("s")
    first = session.task("a", detail={"x": 1}, labels=["l"])
    second = session.task("b", needs=[first])
    first.claim()
    fork = session.fork(name="f")
    (theirs,) = fork.ready()
    assert (theirs.id, theirs.detail, theirs.labels) == (first.id, {"x": 1}, ("l",))
    theirs.claim().done("in the fork")
    assert [task.id for task in fork.ready()] == [second.id]
    first.done("in the parent")
    assert [task.note for task in (fork.tasks(status="done") + session.tasks(status="done"))] == [
        "in the fork",
        "in the parent",
    ]


# -- controls: the contract notices what it is there to notice -----------------------------------------------


def fails(test, tmp_path) -> None:
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        test(Opener(f"sqlite:///{tmp_path}/{test.__name__}.db"))


def test_control_without_the_fence_the_contract_fails(monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(tasks, "fence", lambda found, token, anybody=False: None)
    fails(ClaimsContract().test_a_claim_ends_with_its_time_and_the_old_one_is_fenced_off, tmp_path)
    fails(ClaimsContract().test_a_claim_keeps_others_off, tmp_path)


def test_control_a_claim_that_looks_at_nothing_is_noticed(monkeypatch, tmp_path) -> None:
    def claim(tx, stream, seq, *, holder, ttl=None):
        return tasks._take(tx, stream, tasks.task(tx, stream, seq), holder, ttl)

    monkeypatch.setattr(tasks, "claim", claim)
    fails(ClaimsContract().test_of_two_claimers_one_wins, tmp_path)
    fails(ClaimsContract().test_of_two_who_take_over_one_wins, tmp_path)


def test_control_a_cycle_that_is_let_through_is_noticed(monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(task_needs, "_refuse_cycle", lambda *_: None)
    fails(WorkContract().test_needs_never_close_a_cycle, tmp_path)
    fails(WorkContract().test_two_needs_at_once_do_not_close_a_cycle, tmp_path)
