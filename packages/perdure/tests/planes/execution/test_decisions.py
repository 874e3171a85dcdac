"""What of decisions no store decides: references through forks, the plans of queries, folding, controls."""

from __future__ import annotations

import msgspec
import pytest

import perdure
from perdure.errors import Invalid
from perdure.log.change import Stream
from perdure.model.refs import Ref
from perdure.planes.execution import decisions
from perdure.planes.reading.origins import check_seq, to_ref
from perdure_testing.contract.sync.decisions import DecisionsContract
from perdure_testing.openers import Opener


@pytest.fixture
def store(tmp_path):
    with perdure.open(f"sqlite:///{tmp_path}/a.db") as store:
        yield store


class Thing:
    ref = Ref("ab" * 16, 3)


def test_anything_with_a_ref_can_be_referred_to() -> None:
    assert to_ref(Thing()) == to_ref(Thing.ref) == Ref("ab" * 16, 3)
    assert to_ref(Stream(1, bytes(16), 1, "session", "s").ref(2)) == Ref("00" * 16, 2)


NO_REFS = [None, "turn", 7, object(), Ref("AB" * 16, 1), Ref("ab" * 15, 1), Ref("ab" * 16, True)]


@pytest.mark.parametrize("thing", NO_REFS)
def test_nothing_else_can(thing) -> None:
    with pytest.raises(Invalid):
        to_ref(thing)


@pytest.mark.parametrize("seq", [0, -1, 2**62, True, "1", None, 1.0])
def test_what_is_no_sequence_number_is_refused(seq) -> None:
    with pytest.raises(Invalid):
        check_seq(seq, "seq")


def test_one_thing_seen_through_a_fork_is_one_thing(store) -> None:
    session = store.session("s")
    task = session.task("t")
    mine = session.decide("a", because="b", refs=[task])
    fork = session.fork(name="f")
    (same,) = fork.tasks()
    theirs = fork.decide("c", because="d", refs=[same])
    assert theirs.refs == (task.ref,)
    found = {(each.session, each.seq) for each in fork.referring(same) if each.kind == "decision.made"}
    assert found == {("s", mine.seq), ("f", theirs.seq)}
    assert list(session.referring(task)) == list(fork.referring(same))


def test_a_fork_has_the_decisions(store) -> None:
    session = store.session("s")
    decision = session.decide("a", because="b" * 20_000, tags=["t"], refs=[session.task("t")])
    closed = session.decide("c", because="d")
    closed.close("worked", note="n")
    fork = session.fork(name="f")
    assert [each.text for each in fork.decisions(tag="t")] == ["a"]
    theirs = fork.decision(decision.seq)
    assert (theirs.because, theirs.refs) == (decision.because, decision.refs)
    assert fork.decision(closed.seq).outcome == "worked"
    theirs.close("failed")
    assert (session.decision(decision.seq).status, fork.decisions(open=True)) == ("open", [])


def test_decisions_fold_to_what_the_tables_say(store) -> None:
    session = store.session("s")
    first = session.decide("a", because="b", tags=["t"])
    first.close("worked")
    first.supersede("c", because="x" * 20_000).supersede("d", because="e")
    assert store.verify().ok


@pytest.mark.parametrize(
    ("filters", "index"),
    [
        ({}, "decisions_by_time"),
        ({"status": "open"}, "decisions_by_status"),
        ({"actor": "a"}, "decisions_by_actor"),
    ],
)
def test_asking_across_walks_an_index_in_its_order(store, filters, index) -> None:
    params = {"tenant": 1, "limit": 1, **filters}

    def explain(reads):
        text = decisions.Q.decisions_of_store.text("sqlite", params)
        return "\n".join(row[3] for row in reads.connection.raw.execute(f"EXPLAIN QUERY PLAN {text}", params))

    said = store._caller.read(explain)
    assert f"INDEX {index}" in said
    assert "TEMP B-TREE" not in said


def test_control_a_decision_that_is_superseded_twice_is_noticed(monkeypatch, tmp_path) -> None:
    look = decisions.decision
    always_open = lambda *args: msgspec.structs.replace(look(*args), status=decisions.OPEN)  # noqa: E731
    monkeypatch.setattr(decisions, "decision", always_open)
    contract = DecisionsContract()
    for test in (contract.test_of_two_who_supersede_one_does, contract.test_of_two_outcomes_one_stands):
        with pytest.raises(AssertionError):
            test(Opener(f"sqlite:///{tmp_path}/{test.__name__}.db"))
