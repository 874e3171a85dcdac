"""What a tool raises is judged by what it says itself; and what is known of its attempts is kept together (P3, P4)."""

from __future__ import annotations

import apsw
import pytest

import perdure
from perdure.effects import ledger, outcomes
from perdure.effects.ledger import Outcome
from perdure.effects.outcomes import is_own_word
from perdure.model.records.effects import EffectError, EffectRecord


@pytest.fixture
def url(tmp_path) -> str:
    return f"sqlite:///{tmp_path}/a.db"


def charged(tmp_path, url: str, *, sends: bool = True) -> list[str]:
    """What was sent by an unsafe tool that notes in another store what it did, while that one is busy."""
    sent: list[str] = []
    with perdure.open(f"sqlite:///{tmp_path}/notes.db") as notes, perdure.open(url) as store:
        session = notes.session("charges")
        notes._caller.core.lane._timeout_seconds = 0.05
        notes._caller.core.lane._connection.raw.set_busy_timeout(50)

        @perdure.tool(retries=2, backoff=0.01)
        def charge() -> None:
            if sends:
                sent.append("charge")
                session.say("user", "charged")
            raise perdure.Unavailable("no connection")

        @perdure.agent(name="charger")
        def charger(run: perdure.Run) -> None:
            run.act(charge)

        busy = apsw.Connection(f"{tmp_path}/notes.db")
        busy.execute("BEGIN IMMEDIATE")
        try:
            store.drive(charger, key="k")
        finally:
            busy.execute("ROLLBACK")
            busy.close()
    return sent


def test_a_store_that_is_away_in_a_tool_says_nothing_about_what_the_tool_sent(tmp_path, url):
    with pytest.raises(perdure.Waiting, match="outcome of charge is unknown"):
        charged(tmp_path, url)


def test_control_taken_for_the_word_of_the_tool_it_is_sent_again_and_again(tmp_path, url, monkeypatch):
    monkeypatch.setattr(outcomes, "is_own_word", lambda _: True)
    with pytest.raises(perdure.Failed):
        charged(tmp_path, url)


def test_what_the_tool_says_itself_counts(tmp_path, url):
    with pytest.raises(perdure.Failed, match="no connection"):
        charged(tmp_path, url, sends=False)


def test_whose_word_an_error_is(url):
    with perdure.open(url) as store, pytest.raises(perdure.NotFound) as stores:
        store.run("nope")
    assert not is_own_word(stores.value)
    with pytest.raises(perdure.Unavailable) as own:
        raise perdure.Unavailable("not now") from stores.value
    assert is_own_word(own.value)
    assert is_own_word(perdure.Failed("never raised"))


# -- several attempts ----------------------------------------------------------------------------------------------------------


def test_that_the_last_attempt_was_not_sent_says_nothing_about_the_first(url):
    sent: list[str] = []

    @perdure.tool(kind="keyed", retries=1, backoff=0.01)
    def pay(*, key: str) -> None:
        sent.append(key)
        if len(sent) == 1:
            raise ConnectionError("the reply was lost")
        raise perdure.Unavailable("no connection")

    @perdure.agent(name="payer")
    def payer(run: perdure.Run) -> None:
        run.act(pay)

    with perdure.open(url) as store:
        with pytest.raises(perdure.Waiting, match="outcome of pay is unknown"):
            store.drive(payer, key="k")
        (effect,) = store.runs()[0].effects()
        assert (effect.state, effect.record.attempt, effect.record.doubtful) == ("in_doubt", 2, True)
        effect.settle(perdure.Absent())
        assert not effect.record.doubtful  # a person spoke of all attempts


def putting(url: str, *, then: type[Exception]) -> tuple[list[str], str]:
    """A saga with an idempotent tool that lands, gives no clear answer, and raises this at its second attempt."""
    seen: list[str] = []

    def unput(name: str) -> None:
        seen.append(f"-{name}")

    @perdure.tool(kind="idempotent", undo=unput, retries=1, backoff=0.01, lands_within=0.001)
    def put(name: str) -> None:
        seen.append(f"+{name}")
        raise ConnectionError("the reply was lost") if len(seen) == 1 else then("quota")

    @perdure.agent(name="putter")
    def putter(run: perdure.Run) -> None:
        with run.saga():
            run.act(put, "x")

    with perdure.open(url) as store:
        with pytest.raises(perdure.Failed, match="quota"):
            store.drive(putter, key="k")
        return seen, store.runs()[0].effects()[0].state


@pytest.mark.parametrize("then", [perdure.Failed, perdure.Unavailable, ConnectionError])
def test_a_saga_undoes_what_an_attempt_before_the_last_may_have_done(url, then):
    assert putting(url, then=then) == (["+x", "+x", "-x"], "undone")


def test_control_what_is_known_of_the_attempts_before_is_forgotten(url, monkeypatch):
    monkeypatch.setattr(Outcome, "doubtful", False)
    assert putting(url, then=perdure.Failed) == (["+x", "+x"], "failed")


def test_a_clear_no_to_the_only_attempt_leaves_nothing_to_undo(url):
    undone: list[int] = []

    @perdure.tool(kind="idempotent", undo=lambda: undone.append(1), retries=1, backoff=0.01)
    def put() -> None:
        raise perdure.Unavailable("no connection")

    @perdure.agent(name="putter")
    def putter(run: perdure.Run) -> None:
        with run.saga():
            run.act(put)

    with perdure.open(url) as store:
        with pytest.raises(perdure.Failed, match="no connection"):
            store.drive(putter, key="k")
        assert (undone, store.runs()[0].effects()[0].state) == ([], "failed")


# -- what a sender says of his own attempt, whoever waits for it ---------------------------------------------------------------


def taken_back(store: perdure.Store, *, again: bool) -> EffectRecord:
    """An effect whose sender says that it was not sent: the only attempt, or the second one because of doubt."""

    @perdure.tool(kind="keyed", name="pay")
    def pay(*, key: str) -> None:
        """Never called."""

    session = store.session("s")
    effect = session.begin(pay, key="k").dispatch()
    write, stream, seq = store._caller.write, session._stream, effect.record.seq
    if again:
        write(ledger.doubt, stream, seq, 1, EffectError("Lost", "no reply"))
        write(ledger.begin_attempt_again, stream, seq, 1, ledger.Sender(store._caller.core.holder, 1))
    said = Outcome(error=EffectError("Stopped", "before its call"), by=ledger.UNSENT)
    return write(ledger.unsent, stream, seq, 2 if again else 1, said)


@pytest.mark.parametrize(("again", "state"), [(False, "planned"), (True, "in_doubt")])
def test_an_attempt_that_was_not_sent_is_planned_again_unless_one_before_it_may_have_happened(url, again, state):
    with perdure.open(url) as store:
        found = taken_back(store, again=again)
        assert (found.state, found.settled_by) == (state, ledger.UNSENT)


def test_what_is_said_late_says_that_it_is_late():
    """By that a woken sender's word about his own attempt is told from that of whoever has the run."""
    for error in (None, perdure.Failed("no"), perdure.Unavailable("away"), RuntimeError("torn")):
        late = outcomes.late_answer(perdure.tool(kind="keyed")(lambda *, key: key), "result", error)
        assert late.outcome.by == outcomes.LATE, error
