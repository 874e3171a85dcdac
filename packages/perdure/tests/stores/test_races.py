"""Verbs that look more than once while others commit: on PostgreSQL each statement sees what was committed when it began.

What a verb answers, or refuses, is by one state of the streams that it looked at; else it is run again (P3, P9).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import perdure
from installed import stores_here
from perdure.effects import commits, ending
from perdure.effects.effect_engine import EffectEngine
from perdure.errors import Conflict, Failed, InDoubt, Waiting
from perdure.model.limits import INLINE_MAX_BYTES
from perdure.model.records.conversation import Call
from perdure.model.records.runs import RunStatus
from perdure.planes.conversation import turns
from perdure.planes.execution import leases, waits
from perdure.planes.memory import values
from perdure.runtime import untaken
from perdure.stores.tx import Tx
from perdure_testing.clock import FakeClock
from perdure_testing.contract.sync.runs import claimed, driven, program
from stores.verbs import append, begin, count_turns, opened

Meanwhile = Callable[[Any, str, Callable[[], Any]], None]


@pytest.fixture
def meanwhile(monkeypatch) -> Meanwhile:
    """`meanwhile(module, name, others)`: others commit right before the next call of that function, once."""

    def arrange(module: Any, name: str, others: Callable[[], Any]) -> None:
        given = getattr(module, name)

        def others_first(*args: Any, **kwargs: Any) -> Any:
            monkeypatch.setattr(module, name, given)
            others()
            return given(*args, **kwargs)

        monkeypatch.setattr(module, name, others_first)

    return arrange


@pytest.fixture
def two(postgres_store):
    """The same store, open twice, as in two processes."""
    with perdure.open(postgres_store) as one, perdure.open(postgres_store) as other:
        yield one, other


# -- any verb -------------------------------------------------------------------------------------------------


class Refusal(Exception):
    """What a verb of these tests refuses with."""


def test_a_verb_that_refuses_by_two_states_is_run_again(postgres_store):
    with opened(postgres_store) as one, opened(postgres_store) as other:
        stream = one.write(begin, "a")
        came: list[int] = []

        def twice(tx: Any) -> int:
            first = count_turns(tx, stream)
            if not came:
                came.append(other.write(append, stream, "meanwhile"))
            if count_turns(tx, stream) != first:
                raise Refusal
            return first

        assert one.write(twice) == 1


def test_a_verb_that_answers_by_two_states_is_run_again(postgres_store):
    with opened(postgres_store) as one, opened(postgres_store) as other:
        stream = one.write(begin, "a")
        came: list[int] = []

        def twice(tx: Any) -> tuple[int, int]:
            first = count_turns(tx, stream)
            if not came:
                came.append(other.write(append, stream, "meanwhile"))
            return first, count_turns(tx, stream)

        assert one.write(twice) == (1, 1)


def test_a_refusal_by_one_state_stands(two):
    one, other = two
    session, same = one.session("s"), other.session("s")
    session.set("x", 1)
    same.set("x", 2)
    with pytest.raises(Conflict, match="is at version 2, not at 1"):
        session.set("x", 3, expect=1)
    assert session.get("x") == 2


# -- where a stream is, as this process saw it last -------------------------------------------------------------


def test_what_another_process_wrote_since_is_known_to_who_names_it(two):
    one, other = two
    session, same = one.session("s"), other.session("s")
    session.say("user", "where this process saw it last")
    said = [same.say("user", f"since {number}") for number in range(3)]
    session.emit("app.seen", expect=said[-1].seq)
    said = [same.say("user", f"since {number}") for number in range(3)]
    assert session.decide("go", because="it was said", refs=[said[-1]]).refs == (said[-1].ref,)
    said = [same.say("user", f"since {number}") for number in range(3)]
    assert session.summarise(said[-1].seq, "all of it").last_seq == said[-1].seq


# -- verbs that others may be in the middle of ------------------------------------------------------------------


def long_ago(session: Any) -> None:
    """A conversation in whose past something long was said, for which a summary stands."""
    session.say("user", "first")
    session.say("user", "long" * INLINE_MAX_BYTES, key="long")
    last = session.say("user", "last")
    session.say("assistant", "yes")
    session.summarise(last.seq, "they talked")


def let_go(store: Any) -> None:
    """What a summary stands for goes, and so does the blob of what was long."""
    assert store.retain(perdure.Retention(turns=0), dry_run=False).blobs == 1


@pytest.mark.parametrize("kind", stores_here("postgres", "sqlite", "files"))
def test_what_others_let_go_while_it_is_read_is_no_damage(kind, request, tmp_path, meanwhile):
    url = request.getfixturevalue("postgres_store") if kind == "postgres" else f"{kind}:///{tmp_path}/store"
    with perdure.open(url) as one, perdure.open(url) as other:
        session = one.session("s")
        long_ago(session)
        meanwhile(turns, "body_of", lambda: let_go(other))
        assert [each.content for each in session.turns()] == ["first", "last", "yes"]


def test_a_key_whose_turn_others_let_go_while_it_is_found_is_free(two, meanwhile):
    one, other = two
    session = one.session("s")
    long_ago(session)
    meanwhile(turns, "body_of", lambda: let_go(other))
    assert session.say("user", "short", key="long").content == "short"


def test_who_says_the_same_with_its_calls_at_once_is_given_the_turn(two, meanwhile):
    one, other = two
    said = {"key": "k", "calls": [Call("c", "search")]}
    session, same = one.session("s"), other.session("s")
    meanwhile(turns, "_refuse_open", lambda: same.say("assistant", "looking", **said))
    assert session.say("assistant", "looking", **said).ref == same.turns()[0].ref
    assert len(session.turns()) == 1


def test_a_conflict_of_versions_names_the_version_that_it_is_about(two, meanwhile):
    one, other = two
    session, same = one.session("s"), other.session("s")
    session.set("x", 1)
    meanwhile(values, "_refuse", lambda: same.unset("x"))
    assert session.set("x", 2, expect=0).version == 3


def test_a_value_whose_time_ends_while_it_is_looked_at_is_not_there(tmp_path, meanwhile):
    clock = FakeClock()
    with perdure.open(f"sqlite:///{tmp_path}/agent.db", clock=clock) as store:
        session = store.session("s")
        session.set("x", 1, ttl="1s")
        meanwhile(values, "_refuse", lambda: clock.advance("1s"))
        assert session.set("x", 2, expect=0).version == 2


def test_of_two_who_settle_at_once_the_later_one_is_told(two, meanwhile):
    one, other = two

    @perdure.tool
    def lost() -> None:
        raise OSError("reset")

    with pytest.raises(InDoubt):
        one.session("s").act(lost, key="k")
    effect, same = one.effects()[0], other.effects()[0]
    meanwhile(commits, "settle_and_wake", lambda: same.settle(perdure.Happened(1), by="ann"))
    with pytest.raises(Conflict, match="settled by ann"):
        effect.settle(perdure.Happened(2), by="bob")
    assert effect.refresh().result == 1


def test_an_approval_whose_time_is_over_is_ended_by_one_of_two(postgres_store, meanwhile):
    clock = FakeClock()

    @perdure.tool
    def pay() -> None:
        raise AssertionError("nobody approved")

    def act(store: Any) -> None:
        store.session("s").act(pay, key="k", approve="Really?", approve_within="1h")

    def act_in_vain(store: Any) -> None:
        with pytest.raises(Failed, match="nobody approved in time"):
            act(store)

    with perdure.open(postgres_store, clock=clock) as one, perdure.open(postgres_store, clock=clock) as other:
        with pytest.raises(Waiting):
            act(one)
        clock.advance("1h")
        meanwhile(waits, "expire", lambda: act_in_vain(other))
        act_in_vain(one)


@pytest.mark.parametrize("kind", stores_here("postgres", "sqlite", "files"))
def test_of_two_who_act_once_it_is_approved_one_sends_and_both_have_the_result(kind, request, tmp_path, meanwhile):
    """Between finding it planned and dispatching it another one may do all of it, on every store."""
    sent: list[int] = []

    @perdure.tool
    def pay() -> int:
        sent.append(1)
        return len(sent)

    def act(store: Any) -> Any:
        return store.session("s").act(pay, key="k", approve="Really?")

    url = request.getfixturevalue("postgres_store") if kind == "postgres" else f"{kind}:///{tmp_path}/store"
    with perdure.open(url) as one, perdure.open(url) as other:
        with pytest.raises(Waiting):
            act(one)
        one.answer(one.asks()[0].id, "approve")
        meanwhile(EffectEngine, "dispatch_effect", lambda: act(other))
        assert [act(one), act(other), sent] == [1, 1, [1]]


@pytest.mark.parametrize("at", [(waits, "waiting"), (untaken, "waiting_for")], ids=["waits", "waiting_for"])
def test_who_drives_while_another_answers_goes_on(tmp_path, meanwhile, at):
    """Found waiting, and with nothing that it waits for: it is looked at again."""

    def asking(run: Any) -> Any:
        return run.ask("Merge?")

    made, url = program(asking), f"sqlite:///{tmp_path}/agent.db"
    with perdure.open(url) as one, perdure.open(url) as other:
        driven(one, made)
        (ask,) = one.asks()
        meanwhile(*at, lambda: other.answer(ask.id, "yes"))
        assert one.drive(made, key="k") == "yes"


def test_who_adopts_while_another_adopts_the_same_run_is_told_so(two, tmp_path, meanwhile):
    one, other = two

    def nothing(run: Any) -> None: ...

    with perdure.open(f"sqlite:///{tmp_path}/agent.db") as origin:
        envelope = origin.start(program(nothing), key="k").hand_over()
    meanwhile(Tx, "find_stream", lambda: other.adopt(envelope))
    with pytest.raises(Conflict, match="this store has run"):
        one.adopt(envelope)


def test_who_cancels_while_another_answers_cancels(two, meanwhile):
    one, other = two

    def asking(run: Any) -> Any:
        return run.ask("Merge?")

    driven(one, program(asking))
    (ask,) = one.asks()
    meanwhile(waits, "withdraw", lambda: other.answer(ask.id, "yes", by="ann"))
    one.runs()[0].cancel()
    assert one.runs()[0].status == "cancelled"
    assert one.asks(state=None)[0].met_by == "ann"


def test_a_child_ends_while_its_parent_is_cancelled(two, meanwhile):
    """It finds nobody who waits for it any more: that is no reason not to end."""
    one, other = two

    def work(run: Any) -> Any:
        return run.ask("Child?")

    child = perdure.agent(name="child")(work)

    def lead(run: Any) -> Any:
        return run.start(child).result()

    driven(one, program(lead))
    one.answer(one.asks()[0].id, "done")
    (begun,), (parent,) = one.runs(agent="child"), other.runs(agent="a")
    lease, epoch = claimed(one, begun), one._caller.core.epoch
    meanwhile(waits, "meet", parent.cancel)
    one._caller.write(leases.fenced, lease, ending.end_run, epoch, RunStatus.COMPLETED, "done")
    assert [begun.refresh().status, parent.refresh().status] == ["completed", "cancelled"]
    assert one.verify().ok
