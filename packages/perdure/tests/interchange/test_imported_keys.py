"""A key that a copy holds is no answer: whoever acts with it hears of the copy, until it is taken over or gives its keys up."""

from __future__ import annotations

import pytest

import perdure
from installed import stores_here
from perdure import errors
from perdure.model.records.runs import RunStatus
from perdure.upkeep.health import examine

DONE: list[str] = []


@perdure.tool(kind="idempotent")
def pay(amount: int) -> str:
    DONE.append(f"pay {amount}")
    return f"paid {amount}"


@perdure.agent(name="nightly")
def nightly(run: perdure.Run) -> str:
    return run.act(pay, 5)


@perdure.agent(name="outer")
def outer(run: perdure.Run, url: str) -> str:
    return run.step(ordered, url)


def ordered(url: str) -> str:
    with perdure.open(url) as store:
        return store.drive(nightly, key="tonight")


@pytest.fixture(params=stores_here("sqlite", "postgres", "files"))
def store(request, tmp_path):
    if request.param == "postgres":
        url = request.getfixturevalue("postgres_store")
    else:
        url = f"sqlite:///{tmp_path}/here.db" if request.param == "sqlite" else f"files:///{tmp_path}/here"
    with perdure.open(url, actor="bob") as here:
        yield here


@pytest.fixture
def bundle(tmp_path):
    """What staging did: a run that paid under `tonight`, and a session that acted, began, asked once and planned under keys."""
    with perdure.open("memory:", actor="staging") as staging:
        assert staging.drive(nightly, key="tonight", session="work") == "paid 5"
        session = staging.session("work")
        session.act(pay, 7, key="bill")
        session.begin("mail", {"to": "ann"}, kind="unsafe", key="mail")
        session.task("send the report", key="report")
        session.once("ordered", lambda tx: "order 1")
        staging.export(tmp_path / "staging.perdure", everything=True)
    DONE.clear()
    return tmp_path / "staging.perdure"


def attempts(store):
    """Every call that a key could keep from doing something here."""
    session = store.session("work")
    return {
        "start": lambda: store.start(nightly, key="tonight"),
        "drive": lambda: store.drive(nightly, key="tonight"),
        "act": lambda: session.act(pay, 7, key="bill"),
        "begin": lambda: session.begin("mail", {"to": "ann"}, kind="unsafe", key="mail"),
        "task": lambda: session.task("send the report", key="report"),
        "once": lambda: session.once("ordered", lambda tx: "order 1"),
    }


def test_a_copy_answers_nobody_and_names_both_ways(store, bundle):
    arrived = store.import_(bundle)
    before = store.events(limit=500)
    for what, attempt in attempts(store).items():
        with pytest.raises(errors.Imported) as refused:
            attempt()
        assert "perdure unpark" in refused.value.hint, what
        assert "--keys-apart" in refused.value.hint
        assert refused.value.facts["key"]
    assert (DONE, store.events(limit=500)) == ([], before)
    assert {key for each in arrived.streams for key in each.keys} >= {"tonight", "bill", "mail", "report"}
    assert {each.record.copy for each in store.runs()} == {True}
    assert {each.record.copy for each in store.effects()} == {True}
    assert store.verify().ok


def test_a_dry_run_names_the_keys(store, bundle):
    found = store.import_(bundle, dry_run=True)
    assert {key for each in found.streams for key in each.keys} >= {"tonight", "bill", "mail", "report", "ordered"}
    held = store.import_(bundle, keys_apart=True, dry_run=True)
    assert [each.keys for each in held.streams] == [()] * len(held.streams)


def test_a_copy_that_was_taken_over_answers(store, bundle):
    store.import_(bundle)
    (run,) = store.runs()
    assert store.run(run.id).unpark().status is RunStatus.COMPLETED
    store.session("work").unpark()
    store.session("work").unpark()
    assert store.drive(nightly, key="tonight") == "paid 5"
    assert store.session("work").act(pay, 7, key="bill") == "paid 7"
    assert store.session("work").task("send the report", key="report").title == "send the report"
    assert store.session("work").once("ordered", lambda tx: "order 2") == "order 1"
    assert DONE == []
    assert {each.record.copy for each in store.runs()} == {False}
    assert {each.record.copy for each in store.effects()} == {False}
    assert store.verify().ok


@pytest.mark.parametrize("when", ["first", "later"])
def test_a_copy_without_its_keys_lets_work_be_done_here(store, bundle, when):
    if when == "later":
        store.import_(bundle)
    assert store.import_(bundle, keys_apart=True).streams[0].keys == ()
    assert store.verify().ok, store.verify().problems
    assert store.drive(nightly, key="tonight") == "paid 5"
    assert store.session("work").act(pay, 7, key="bill") == "paid 7"
    assert store.session("work").task("send the report", key="report")
    assert [store.session("work").once("ordered", lambda tx: "order 2") for _ in range(2)] == ["order 2", "order 2"]
    assert sorted(DONE) == ["pay 5", "pay 7"]
    assert sorted(each.record.copy for each in store.runs()) == [False, True]
    assert store.verify().ok, store.verify().problems


def test_a_key_that_is_in_use_here_is_no_conflict_for_a_copy_without_keys(store, bundle):
    assert store.drive(nightly, key="tonight") == "paid 5"
    with pytest.raises(errors.Conflict, match="keys-apart"):
        store.import_(bundle)
    store.import_(bundle, keys_apart=True)
    assert len(store.runs()) == 2
    assert store.drive(nightly, key="tonight") == "paid 5"
    assert DONE == ["pay 5"]
    assert store.verify().ok


def test_a_copy_that_is_deleted_gives_its_keys_up(store, bundle):
    store.import_(bundle)
    store.session("work").close()
    store.delete("work", dry_run=False)
    assert store.drive(nightly, key="tonight", session="other") == "paid 5"
    assert store.session("work").once("ordered", lambda tx: "order 2") == "order 2"
    assert DONE == ["pay 5"]
    assert store.verify().ok


def test_replay_of_a_run_that_was_taken_over_uses_its_record(store, tmp_path):
    with perdure.open("memory:") as staging:
        handle = staging.start(halfway, key="k")
        with pytest.raises(errors.Waiting):
            staging.drive(halfway, key="k")
        staging.export(tmp_path / "half.perdure", runs=[handle.id])
    DONE.clear()
    for apart in (False, True):
        with perdure.open("memory:") as here:
            here.import_(tmp_path / "half.perdure", keys_apart=apart)
            copy = here.run(handle.id)
            copy.unpark()
            here.answer(here.asks()[0].id, "yes", by="bob")
            here.recover([halfway])
            assert copy.refresh().record.result == "paid 3"
            assert here.verify().ok
    assert DONE == []


@perdure.agent(name="halfway")
def halfway(run: perdure.Run) -> str:
    paid = run.act(pay, 3)
    run.ask("Go on?")
    return paid


def test_a_copy_that_ended_is_not_tried_again_before_it_is_taken_over(store, tmp_path):
    with perdure.open("memory:") as staging:
        with pytest.raises(errors.Failed):
            staging.drive(failing, key="k")
        staging.export(tmp_path / "failed.perdure", everything=True)
    store.import_(tmp_path / "failed.perdure")
    copy = store.run(store.runs()[0].id)
    with pytest.raises(errors.Conflict, match="copy"):
        copy.retry()
    copy.unpark()
    assert copy.retry().status is RunStatus.READY


@perdure.agent(name="failing")
def failing(run: perdure.Run) -> str:
    raise ValueError("no")


def test_a_run_that_meets_a_copy_is_parked_and_continues_when_a_person_decided(bundle, tmp_path):
    url = f"sqlite:///{tmp_path}/here.db"
    with perdure.open(url) as store:
        store.import_(bundle)
        (copy,) = store.runs()
        with pytest.raises(errors.Parked, match="copy"):
            store.drive(outer, url, key="o")
        (parked,) = [each.record for each in store.runs(errors=True) if each.record.agent == "outer"]
        assert (parked.status, parked.reason) == (RunStatus.PARKED, "imported key")
        assert parked.error is not None
        assert copy.id in parked.error.message
        assert "unpark" in parked.hint
        assert any(parked.id in each.says and "copy" in each.says for each in examine(url).findings)
        copy.unpark()
        store.run(parked.id).resume()
        assert store.drive(outer, url, key="o") == "paid 5"
    assert DONE == []


def test_forks_moves_restores_and_what_is_done_here_are_no_copies(store, bundle, tmp_path):
    store.import_(bundle)
    fork = store.session("work").fork(name="ours")
    assert fork.act(pay, 7, key="bill") == "paid 7"  # the fork has it as done: no import, a person's choice
    assert store.session("work").act(pay, 8, key="own") == "paid 8"
    assert store.session("work").act(pay, 8, key="own") == "paid 8"  # recorded here, though in a copy
    assert DONE == ["pay 8"]


def test_what_a_clone_did_in_a_stream_of_ours_is_a_copy_and_the_rest_is_not(tmp_path):
    with perdure.open(f"sqlite:///{tmp_path}/a.db") as ours:
        ours.session("work").act(pay, 1, key="before")
    (tmp_path / "b.db").write_bytes((tmp_path / "a.db").read_bytes())
    with perdure.open(f"sqlite:///{tmp_path}/b.db") as clone:
        clone.session("work").act(pay, 2, key="after")
        clone.export(tmp_path / "clone.perdure", ["work"])
    DONE.clear()
    with perdure.open(f"sqlite:///{tmp_path}/a.db") as ours:
        ours.import_(tmp_path / "clone.perdure")
        assert ours.session("work").act(pay, 1, key="before") == "paid 1"
        with pytest.raises(errors.Imported):
            ours.session("work").act(pay, 2, key="after")
    assert DONE == []
