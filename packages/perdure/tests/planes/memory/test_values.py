"""What of values no store decides: the end of a prefix, retries; and that the races prove something."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import perdure
from perdure.errors import Conflict
from perdure.planes.memory import values
from perdure.planes.recovery import locks
from perdure_testing.contract.sync.locks import LocksContract
from perdure_testing.contract.sync.values import ValuesContract
from perdure_testing.openers import Opener

names = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)


@given(names, names)
def test_a_prefix_is_a_range_of_bytes(prefix: str, name: str) -> None:
    end = values.after_prefix(prefix)
    inside = name.encode() >= prefix.encode() and (end is None or name.encode() < end.encode())
    assert inside == name.startswith(prefix)


@pytest.mark.parametrize(
    ("prefix", "end"),
    [("", None), ("a", "b"), ("\ud7ff", "\ue000"), ("a\U0010ffff", "b"), ("\U0010ffff", None), ("a%", "a&")],
)
def test_the_end_of_a_prefix(prefix: str, end: str | None) -> None:
    assert values.after_prefix(prefix) == end


@pytest.fixture
def store(tmp_path):
    with perdure.open(f"sqlite:///{tmp_path}/a.db") as store:
        yield store


def test_update_gives_up_after_its_retries(store) -> None:
    session = store.session("s")
    calls = []

    def overtaken(value):
        calls.append(value)
        session.set("x", len(calls))
        return "mine"

    with pytest.raises(Conflict):
        session.update("x", overtaken, retries=3)
    assert calls == [None, 1, 2, 3]
    assert session.get("x") == 4


def test_update_runs_its_function_outside_the_transaction(store) -> None:
    session = store.session("s")
    session.update("x", lambda _: session.set("other", 1) and "done")
    assert (session.get("x"), session.get("other")) == ("done", 1)


def test_values_and_locks_fold_to_what_the_tables_say(store) -> None:
    session = store.session("s")
    session.set("a", 1, ttl="1h")
    session.set("a", "x" * 20_000)
    session.unset("a")
    session.set("a", 3)
    with session.lock("l") as lock:
        lock.renew()
    store.scope("p").set("b", (1, 2))
    assert store.verify().ok


def test_a_fork_has_the_values_and_none_of_the_locks(store) -> None:
    session = store.session("s")
    session.set("a", 1)
    session.set("b", "gone")
    session.unset("b")
    with session.lock("l"):
        fork = session.fork(name="f")
        with fork.lock("l") as lock:
            assert lock.token == 1
    fork.set("a", 2, expect=1)
    assert (session.get("a"), fork.get("a"), fork.get("b")) == (1, 2, None)
    assert fork.set("b", 1).version == 3


# -- controls: the contract notices what it is there to notice -----------------------------------------------


NOTICED = (AssertionError, pytest.fail.Exception)


def fails(test, tmp_path) -> None:
    with pytest.raises(NOTICED):
        test(Opener(f"sqlite:///{tmp_path}/{test.__name__}.db"))


def fails_in_time(test, tmp_path, times: int = 50) -> None:
    """Whoever races may all come one after the other, by chance; not each time."""
    for number in range(times):
        try:
            test(Opener(f"sqlite:///{tmp_path}/{test.__name__}-{number}.db"))
        except NOTICED:
            return
    pytest.fail("what is broken is not noticed")


def test_control_a_store_that_ignores_expect_is_noticed(monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(values, "_checked", lambda tx, stream, name, _: tx.row(values.ENTRIES, stream, name))
    fails(ValuesContract().test_of_two_who_set_it_first_one_wins, tmp_path)
    fails(ValuesContract().test_of_two_who_change_a_version_one_wins, tmp_path)
    fails_in_time(ValuesContract().test_updates_from_two_connections_are_not_lost, tmp_path)


def test_control_a_lock_that_is_always_free_is_noticed(monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(locks, "_is_held", lambda reads, row: False)
    fails(LocksContract().test_of_two_who_take_over_one_gets_it, tmp_path)


def test_control_a_lock_that_anybody_gets_is_noticed(monkeypatch, tmp_path) -> None:
    held = locks._is_held
    monkeypatch.setattr(
        locks, "_is_held", lambda reads, row: hasattr(reads, "flushed_early") is False and held(reads, row)
    )
    fails(LocksContract().test_of_two_who_acquire_one_gets_it, tmp_path)


def test_control_a_lock_without_a_deadline_is_noticed(monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(locks, "_is_held", lambda reads, row: row["holder"] is not None)
    fails(LocksContract().test_a_deadline_that_passed_inside_is_told_on_leaving, tmp_path)
