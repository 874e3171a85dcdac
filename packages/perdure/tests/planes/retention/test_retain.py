"""Retention: whatever was said, covered and forked, what is kept reads as before; killed anywhere, nothing is broken."""

from __future__ import annotations

import signal
import threading

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import forked
from perdure.errors import Conflict, NotFound
from perdure.handles.opening import open as open_store
from perdure.log.change import Change, Op
from perdure.model.crash_points import arm
from perdure.model.records.conversation import Call
from perdure.model.records.retention import Retention
from perdure.planes.recovery import checkpoints
from perdure.planes.retention import prunable, retain
from perdure.planes.retention.prunable import CoveredTurn, Covering, free_to_go, outermost
from perdure.planes.tables import ENTRIES
from perdure.stores.tx import Tx
from perdure_testing.clock import FakeClock
from perdure_testing.contract.sync.retention import EVERYTHING, covered_upto, kept, talked

# -- which turns may go --------------------------------------------------------------------------------------


def said(*roles: str) -> list[CoveredTurn]:
    return [CoveredTurn(seq, role, None, seq) for seq, role in enumerate(roles, 1)]


TALK = said("system", "user", "assistant", "user", "assistant", "user", "assistant", "user", "assistant")


def test_what_lies_inside_a_summary_may_go_but_for_its_ends_and_the_rules():
    assert free_to_go(TALK, [Covering(10, 1, 5)], (), 0) == {2, 3, 4}
    assert free_to_go(TALK, [Covering(10, 2, 5)], (), 0) == {3, 4}
    assert free_to_go(TALK, [], (), 0) == set()


def test_of_summaries_the_outermost_count():
    covers = [Covering(10, 2, 3), Covering(11, 2, 5), Covering(12, 6, 7)]
    assert outermost(covers) == [Covering(11, 2, 5), Covering(12, 6, 7)]
    assert free_to_go(TALK, covers, (), 0) == {3, 4}


def test_the_newest_stay():
    assert free_to_go(TALK, [Covering(10, 1, 9)], (), 0) == {2, 3, 4, 5, 6, 7}  # the last question and answer decide
    assert free_to_go(TALK, [Covering(10, 1, 9)], (), 5) == {2, 3, 4}


@pytest.mark.parametrize("keep", [len(TALK), len(TALK) + 1, len(TALK) + 3, 2 * len(TALK), 2**70])
def test_who_keeps_as_many_as_there_are_or_more_keeps_them_all(keep):
    assert free_to_go(TALK, [Covering(10, 1, 9)], (), keep) == set()


def test_a_fork_keeps_what_no_summary_stood_for_when_it_left():
    assert free_to_go(TALK, [Covering(10, 1, 7)], {4}, 0) == {5, 6}
    assert free_to_go(TALK, [Covering(10, 1, 7)], {10}, 0) == {2, 3, 4, 5, 6}


def test_a_call_and_its_result_stay_together():
    talk = [
        *said("user", "assistant"),
        CoveredTurn(3, "tool", 2, 3),
        *(turn._replace(seq=turn.seq + 3) for turn in TALK),
    ]
    assert free_to_go(talk, [Covering(20, 1, 3)], (), 0) == set()  # the result is an end
    assert free_to_go(talk, [Covering(20, 1, 6)], (), 0) == {2, 3, 5}


def test_a_call_stays_until_all_its_results_are_there_seen_from_everywhere():
    asked, told = (
        CoveredTurn(2, "assistant", None, 2, calls=2),
        [CoveredTurn(3, "tool", 2, 3), CoveredTurn(4, "tool", 2, 4)],
    )
    rest = [turn._replace(seq=turn.seq + 4) for turn in TALK]
    assert free_to_go([*said("user"), asked, told[0], *rest], [Covering(20, 1, 9)], (), 0) == {6, 7, 8}
    assert free_to_go([*said("user"), asked, *told, *rest], [Covering(20, 1, 9)], (), 0) == {2, 3, 4, 6, 7, 8}
    late = [
        *said("user"),
        asked,
        told[0],
        *rest,
        CoveredTurn(15, "tool", 2, 15),
        *said(*["user"] * 20)[15:],
        *said(*["assistant"] * 21)[20:],
    ]
    assert 2 in free_to_go(late, [Covering(14, 1, 9), Covering(30, 1, 18)], (), 0)
    assert 2 not in free_to_go(late, [Covering(14, 1, 9), Covering(30, 1, 18)], {14}, 0)


# -- any conversation ----------------------------------------------------------------------------------------

MOVES = st.lists(
    st.sampled_from(["user", "assistant", "calls", "system", "cover", "cover", "inner", "fork", "say in fork"]),
    min_size=4,
    max_size=40,
)


def play(store, moves):
    """A conversation with summaries and forks; returns the sessions."""
    sessions = [store.session("s")]
    for n, move in enumerate(moves):
        session = sessions[-1 if move == "say in fork" else 0]
        turns = session.turns(after=0, limit=1000)
        if move in ("user", "assistant", "system"):
            session.say(move, f"{move} {n}", key=f"k{n}")
        elif move == "calls":
            session.say("assistant", None, calls=[Call(f"c{n}", "grep", {}), Call(f"d{n}", "ls", {})])
            session.result(f"d{n}", n)
            session.result(f"c{n}", n)
        elif move in ("cover", "inner") and len(turns) > 2:
            first = turns[n % len(turns)].seq if move == "inner" else None
            try:
                session.summarise(upto=turns[-1 - n % 3].seq, text=f"summary {n}", from_=first)
            except (Conflict, NotFound):
                continue
        elif move == "fork":
            sessions.append(session.fork(at=max(1, session.info().last_seq - n % 4) if n % 2 else None, name=f"f{n}"))
        elif move == "say in fork":
            session.say("assistant", f"in the fork {n}")
    return sessions


def seen(session):
    return session.transcript(), session.transcript(format="anthropic"), session.pending(), session.covers(nested=True)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(MOVES, st.integers(0, 4), st.booleans())
def test_whatever_was_said_what_is_kept_reads_as_before(moves, keep, short):
    with open_store("memory:") as store, pytest.MonkeyPatch.context() as patch:
        if short:  # `pending` looks at fewer: so also what lies beyond them is tried
            patch.setattr(prunable, "PENDING_LOOKBACK_TURNS", 3)
            patch.setattr("perdure.planes.conversation.pending.PENDING_LOOKBACK_TURNS", 3)
        sessions = play(store, moves)
        before = [seen(session) for session in sessions]
        store.retain(Retention(turns=keep), dry_run=False)
        assert [seen(session) for session in sessions] == before
        report = store.verify()
        assert report.ok, report.problems


def test_control_a_rule_that_spares_nothing_is_caught(monkeypatch):
    monkeypatch.setattr(retain, "free_to_go", lambda turns, covers, forks, keep: {turn.seq for turn in turns})
    with open_store("memory:") as store:
        session = talked(store)
        covered_upto(session, 21)
        before = kept(session)
        store.retain(Retention(turns=0), dry_run=False)
        assert kept(session) != before


# -- killed anywhere -----------------------------------------------------------------------------------------


class Killed(BaseException):
    """The process dies here."""


def died_at(nth):
    count = [0]

    def act():
        count[0] += 1
        if count[0] == nth:
            raise Killed

    return act, count


def retained_until(url, point, nth):
    """Whether a retention came to its end before it reached a point for the n-th time."""
    with open_store(url) as store:
        act, _ = died_at(nth)
        disarm = arm(point, act)
        try:
            store.retain(EVERYTHING, dry_run=False)
        except Killed:
            return False
        finally:
            disarm()
        return True


@pytest.mark.parametrize("point", ["lane.before_commit", "lane.after_commit"])
def test_killed_anywhere_it_is_as_before_or_pruned_further(tmp_path, monkeypatch, point):
    monkeypatch.setattr(retain, "PAGE_EVENTS", 4)
    monkeypatch.setattr("perdure.planes.retention.collect.SWEEP_ROWS", 2)
    url = f"sqlite:///{tmp_path}/a.db"
    with open_store(url) as store:
        session = talked(store)
        covered_upto(session, 21)
        fork = session.fork(at=16, name="f")
        before = [kept(session), kept(fork)]
        total = store.retain(EVERYTHING)
    gone, kills = -1, 0
    while not retained_until(url, point, 2):
        kills += 1
        with open_store(url) as store:
            assert [kept(store.session("a")), kept(store.session("f"))] == before
            report = store.verify()
            assert report.ok, report.problems
            assert len(report.unverifiable) >= gone
            gone = len(report.unverifiable)
    assert kills > 3
    with open_store(url) as store:
        assert len(store.verify().unverifiable) == total.turns + total.checkpoints
        assert store.retain(EVERYTHING).streams == ()


# -- controls ------------------------------------------------------------------------------------------------


def problems_after(store, verb):
    store._caller.write(verb)
    return {problem.kind.value for problem in store.verify().problems}


def test_control_emptying_what_feeds_a_live_row_is_caught():
    """Without restating it: the fold no longer gives the row."""
    with open_store("memory:") as store:
        session = store.session("s")
        session.set("x", 1)
        stream = session._stream

        def empties(tx):
            seq = tx.row(ENTRIES, stream, "x")["seq"]
            tx.record(Change("log.pruned", stream, op=Op.NOTE, doc={"emptied": [seq]}))
            tx.empty(stream, [seq])

        assert problems_after(store, empties) == {"row-unrecorded"}


def test_control_emptying_without_saying_so_is_caught():
    with open_store("memory:") as store:
        session = talked(store)
        seq = session.turns(last=3)[0].seq
        assert problems_after(store, lambda tx: tx.empty(session._stream, [seq])) == {"body-emptied"}


def test_control_a_row_that_stays_behind_is_caught(monkeypatch):
    from perdure.stores import sqlite

    monkeypatch.setattr(sqlite, "_EMPTY", sqlite._EMPTY[:3])
    monkeypatch.setattr(sqlite, "_EMPTY_CALLS", "DELETE FROM calls WHERE stream = ? AND ? IS NULL")
    with open_store("memory:") as store:
        session = talked(store)
        covered_upto(session, 21)
        store.retain(Retention(turns=0), dry_run=False)
        assert {problem.kind.value for problem in store.verify().problems} == {"row-unrecorded", "derived-wrong"}


# -- beside others -------------------------------------------------------------------------------------------


def test_a_fork_that_was_made_since_the_choice_is_seen(tmp_path):
    with open_store(f"sqlite:///{tmp_path}/a.db") as store:
        session = talked(store)
        covered_upto(session, 21)
        (found,) = store._judged()
        doomed = store._caller.read(retain.choose, found, EVERYTHING)
        fork = session.fork(at=16, name="since")
        before = kept(fork)
        taken = store._caller.write(retain.take_turns, doomed, doomed.turns)
        assert min(taken.seqs) > 16
        store._caller.write(retain.take_checkpoints, doomed, doomed.checkpoints)
        assert kept(fork) == before


def test_control_without_looking_again_the_fork_loses_its_turns(tmp_path, monkeypatch):
    with open_store(f"sqlite:///{tmp_path}/a.db") as store:
        session = talked(store)
        covered_upto(session, 21)
        (found,) = store._judged()
        doomed = store._caller.read(retain.choose, found, EVERYTHING)
        fork = session.fork(at=16, name="since")
        monkeypatch.setattr(checkpoints, "forks_of", lambda *_: doomed.forks)
        store._caller.write(retain.take_turns, doomed, doomed.turns)
        with pytest.raises(NotFound, match="pruned"):
            fork.transcript()


def test_a_label_that_spares_it_and_was_set_since_the_choice_is_seen(tmp_path):
    rule = Retention(checkpoints=1, turns=0, except_label="hold")
    with open_store(f"sqlite:///{tmp_path}/a.db") as store:
        session = talked(store)
        covered_upto(session, 21)
        (found,) = store._judged()
        doomed = store._caller.read(retain.choose, found, rule)
        assert doomed.turns
        assert doomed.checkpoints
        session.label("hold")
        assert store._caller.write(retain.take_turns, doomed, doomed.turns) == ([], 0)
        assert store._caller.write(retain.take_checkpoints, doomed, doomed.checkpoints) == ([], 0)


def test_beside_a_writer_nothing_is_lost(tmp_path, monkeypatch):
    monkeypatch.setattr(retain, "PAGE_EVENTS", 2)
    url = f"sqlite:///{tmp_path}/a.db"
    with open_store(url) as store, open_store(url) as other:
        session = talked(store)
        covered_upto(session, 21)
        writer = other.session("a")
        thread = threading.Thread(target=lambda: [writer.say("user", f"n{n}") for n in range(60)])
        thread.start()
        store.retain(EVERYTHING, dry_run=False)
        thread.join()
        assert [turn.content for turn in session.turns(last=60)] == [f"n{n}" for n in range(60)]
        assert store.verify().ok


def test_a_batch_does_not_build_on_what_its_own_prune_took():
    """Two jobs in one transaction: the second one sees no turn that the first one took."""
    with open_store("memory:") as store:
        session = talked(store)
        covered_upto(session, 21)
        (found,) = store._judged()
        doomed = store._caller.read(retain.choose, found, EVERYTHING)

        def both(tx: Tx):
            retain.take_turns(tx, doomed, doomed.turns)
            return tx.query(retain.Q.turns_own, stream=session._stream.id)

        left = store._caller.write(both)
        assert not {row[0] for row in left} & {*doomed.turns}


# -- by SIGKILL ----------------------------------------------------------------------------------------------


def retain_killed_at(url, point):
    """`perdure retain --apply` in a process of its own; whether it came to its end."""
    words = ["retain", "--checkpoints", "1", "--turns", "0", "--apply", "--store", url]
    program = "import sys; from perdure.cli.main import cli; cli(sys.argv[1:])"
    ran = forked.run("-c", program, *words, env=forked.environment(PERDURE_CRASH_AT=point))
    assert ran.returncode in (0, -signal.SIGKILL), ran.stderr
    return ran.returncode == 0


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
@pytest.mark.parametrize("point", ["lane.before_commit", "lane.after_commit"])
def test_a_process_that_is_killed_leaves_nothing_broken(kind, point, request, tmp_path):
    url = f"sqlite:///{tmp_path}/a.db" if kind == "sqlite" else request.getfixturevalue("postgres_store")
    with open_store(url) as store:
        session = talked(store)
        covered_upto(session, 21)
        before = kept(session)
    kills = 0
    while not retain_killed_at(url, f"{point}:{kills + 1}"):
        kills += 1
        with open_store(url) as store:
            assert kept(store.session("a")) == before
            assert store.verify().ok
    assert kills >= 2
    with open_store(url) as store:
        assert kept(store.session("a")) == before
        assert store.retain(EVERYTHING).streams == ()


@pytest.mark.parametrize("change", ["hold", "reopen", "fork", "say", None])
def test_what_changes_between_choosing_and_taking_keeps_a_session_that_ended(tmp_path, change):
    clock = FakeClock()
    with open_store(f"sqlite:///{tmp_path}/agent.db", clock=clock) as store:
        session = store.session("a")
        session.say("user", "hello")
        session.emit("n.added")
        session.checkpoint(1)
        session.close()
        clock.advance("1d")
        rule = Retention(sessions=True, except_label="hold", older_than="1h")
        doomed = store._caller.read(retain.choose, store._judged()[0], rule)
        assert doomed
        if change == "hold":
            session.label("hold")
        elif change == "reopen":
            session.reopen()
        elif change == "fork":
            session.fork(name="b")
        elif change == "say":
            session.say("user", "wait")
        taken = [store._caller.write(verb, doomed, seqs).seqs for verb, seqs in retain.ways(doomed) if seqs]
        assert [bool(each) for each in taken] == [change is None] * 3
        assert store.verify().ok
