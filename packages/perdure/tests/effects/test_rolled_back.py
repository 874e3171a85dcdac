"""A store that was put back to an older state is treated like a restored one, if what it had dispatched is noted beside it."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import perdure
from mailing import SENT, mailing, send
from perdure.stores import schema_upgrade
from perdure.stores.core import engine_for
from perdure.stores.url import parse


@pytest.fixture
def url(tmp_path: Path) -> str:
    SENT.clear()
    return f"sqlite:///{tmp_path}/a.db"


def copied(tmp_path: Path, *names: str) -> Callable[[], None]:
    """Copy the store as it is, closed; gives what puts the copy in its place."""
    (tmp_path / "copy").mkdir()
    for name in names:
        _copy(tmp_path / name, tmp_path / "copy" / name)

    def put_back() -> None:
        for name in names:
            _copy(tmp_path / "copy" / name, tmp_path / name)

    return put_back


def _copy(source: Path, target: Path) -> None:
    """A folder that is not there is copied too: there is none afterwards."""
    if source.is_file():
        shutil.copyfile(source, target)
        return
    shutil.rmtree(target, ignore_errors=True)
    if source.is_dir():
        shutil.copytree(source, target)


def waiting(url: str) -> str:
    """Begin a run that waits for an answer, and answer it."""
    with perdure.open(url) as store:
        with pytest.raises(perdure.Waiting):
            store.drive(mailing, key="k")
        store.answer(store.asks()[0].id, "yes")
        return store.runs()[0].id


def driven(url: str) -> str:
    with perdure.open(url) as store:
        return store.drive(mailing, key="k")


def epoch(url: str) -> int:
    with perdure.open(url) as store:
        return store._caller.core.epoch


def test_a_file_that_is_copied_back_is_noticed_and_what_it_may_have_sent_is_asked_about(
    url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    waiting(url)
    put_back = copied(tmp_path, "a.db")
    assert driven(url) == "mail"
    put_back()
    with caplog.at_level(logging.WARNING, "perdure.store"), pytest.raises(perdure.Waiting):
        driven(url)
    assert "older than what was done from it" in caplog.text
    assert SENT == ["mail"]
    assert epoch(url) == 2
    with perdure.open(url) as store:
        (doubt,) = store.effects(state="in_doubt")
        doubt.settle(perdure.Happened("mail"), by="ann")
    assert driven(url) == "mail"
    assert SENT == ["mail"]
    with perdure.open(url) as store:
        assert store.verify().ok


def test_control_where_the_note_is_copied_back_too_nobody_can_know(url: str, tmp_path: Path) -> None:
    waiting(url)
    put_back = copied(tmp_path, "a.db", "a.db.live")
    driven(url)
    put_back()
    assert driven(url) == "mail"
    assert SENT == ["mail", "mail"]


def test_a_store_that_went_on_as_it_was_keeps_its_epoch(url: str) -> None:
    waiting(url)
    driven(url)
    with perdure.open(url) as store:
        sent = store.session("s").begin("by hand", {}, key="1").dispatch()
        sent.commit(None)
    assert epoch(url) == 1


def test_what_was_dispatched_by_hand_is_noted_too(url: str, tmp_path: Path) -> None:
    with perdure.open(url) as store:
        store.session("s")
    put_back = copied(tmp_path, "a.db")
    with perdure.open(url) as store:
        store.session("s").begin("by hand", {}, key="1").dispatch().commit(None)
    put_back()
    assert epoch(url) == 2


def test_a_second_attempt_that_the_store_does_not_know_is_noticed(url: str, tmp_path: Path) -> None:
    with perdure.open(url) as store:
        effect = store.session("s").begin("by hand", {}, key="1")
        name = effect.id
    put_back = copied(tmp_path, "a.db")
    with perdure.open(url) as store:
        store.effect(name).dispatch().commit(None)
    put_back()
    assert epoch(url) == 2


def test_what_was_said_is_noted_too(url: str, tmp_path: Path) -> None:
    """No effect was sent since: turns that were acknowledged are gone all the same."""
    with perdure.open(url) as store:
        store.session("s").say("user", "one")
    put_back = copied(tmp_path, "a.db")
    with perdure.open(url) as store:
        store.session("s").say("user", "two")
    put_back()
    assert epoch(url) == 2


def test_an_event_that_another_process_made_is_noted_with_a_heartbeat(url: str, tmp_path: Path) -> None:
    with perdure.open(url) as idle:
        with perdure.open(url) as store:
            store.session("s").say("user", "one")
        put_back = copied(tmp_path, "a.db")
        with perdure.open(url) as store:
            store.session("s").say("user", "two")
        (tmp_path / "a.db.live" / "tide").unlink()  # its own note is lost
        idle.beat()
    put_back()
    assert epoch(url) == 2


def test_a_note_of_an_older_epoch_says_nothing(url: str, tmp_path: Path) -> None:
    """A restore began another epoch: what came after the backup is gone, and that is known."""
    with perdure.open(url) as store:
        store.session("s").say("user", "one")
    put_back = copied(tmp_path, "a.db")
    with perdure.open(url) as store:
        store.session("s").say("user", "two")
    put_back()
    with perdure.open(url, read_only=True) as store:
        assert schema_upgrade.raise_epoch(engine_for(parse(url)), 1) == 2
    assert epoch(url) == 2


def test_reading_changes_nothing(url: str, tmp_path: Path) -> None:
    waiting(url)
    put_back = copied(tmp_path, "a.db")
    driven(url)
    put_back()
    for _ in range(2):
        with perdure.open(url, read_only=True) as store:
            assert store._caller.core.epoch == 1
    assert epoch(url) == 2
    assert epoch(url) == 2


# -- however long ago it was put back ----------------------------------------------------------------------------------------


@perdure.agent
def later(run: perdure.Run) -> str:
    if run.restored is None:
        run.ask("?")
        run.checkpoint("asked")
    return run.act(send, "mail")


@perdure.tool(kind="keyed")
def order(number: int, *, key: str) -> str:
    SENT.append(key)
    return key


@perdure.agent
def ordering(run: perdure.Run) -> str:
    return run.act(order, 7)


@perdure.agent
def calling(run: perdure.Run) -> str:
    run.ask("?")
    return run.call(ordering)


def answered(url: str, agent: perdure.Agent) -> None:
    with perdure.open(url) as store:
        with pytest.raises(perdure.Waiting):
            store.drive(agent, key="k")
        store.answer(store.asks()[0].id, "yes")


def done_and_forgotten(url: str, tmp_path: Path, agent: perdure.Agent) -> None:
    """Driven to its end by an answer, and the file put back to before it went on."""
    answered(url, agent)
    put_back = copied(tmp_path, "a.db")
    with perdure.open(url) as store:
        store.drive(agent, key="k")
    put_back()


def test_a_checkpoint_since_then_does_not_make_it_trusted(url: str, tmp_path: Path) -> None:
    done_and_forgotten(url, tmp_path, later)
    for _ in range(2):
        with perdure.open(url) as store, pytest.raises(perdure.Waiting):
            store.drive(later, key="k")
    assert SENT == ["mail"]


def test_what_a_child_sends_again_has_the_key_that_it_had(url: str, tmp_path: Path) -> None:
    answered(url, calling)
    put_back = copied(tmp_path, "a.db")
    for _ in range(2):
        with perdure.open(url) as store:
            assert store.drive(calling, key="k") == SENT[-1]
        put_back()
    assert len(SENT) == 2
    assert len(set(SENT)) == 1


DRAWN = iter(range(100))


def drawn() -> int:
    """As a model: asked again, it says something else."""
    return next(DRAWN)


@perdure.agent
def otherwise(run: perdure.Run) -> None:
    run.ask("?")
    run.act(order, run.step(drawn))


def test_what_it_may_have_done_with_other_arguments_is_asked_about(url: str, tmp_path: Path) -> None:
    done_and_forgotten(url, tmp_path, otherwise)
    with perdure.open(url) as store:
        with pytest.raises(perdure.Waiting):
            store.drive(otherwise, key="k")
        (doubt,) = store.effects(state="in_doubt")
        assert doubt.record.error is not None
        assert doubt.record.error.code == "Strayed"
    assert len(SENT) == 1


def test_handed_over_it_is_as_wary_as_it_was(url: str, tmp_path: Path) -> None:
    done_and_forgotten(url, tmp_path, otherwise)
    with perdure.open(url) as store:
        envelope = store.runs()[0].hand_over()
    with perdure.open(f"sqlite:///{tmp_path}/b.db") as other:
        other.adopt(envelope, {})
        with pytest.raises(perdure.Waiting):
            other.drive(otherwise, key="k")
    assert len(SENT) == 1


@perdure.agent
def calling_one_that_draws(run: perdure.Run) -> None:
    run.ask("?")
    run.call(drawing)


@perdure.agent
def drawing(run: perdure.Run) -> None:
    run.act(order, run.step(drawn))


def test_a_child_that_it_may_have_started_before_is_as_wary(url: str, tmp_path: Path) -> None:
    done_and_forgotten(url, tmp_path, calling_one_that_draws)
    with perdure.open(url) as store:
        with pytest.raises(perdure.Waiting):
            store.drive(calling_one_that_draws, key="k")
        assert len(store.effects(state="in_doubt")) == 1
    assert len(SENT) == 1


@perdure.agent
def twice(run: perdure.Run) -> None:
    run.ask("?")
    number = run.step(drawn)
    run.act(order, number)
    run.act(order, number + 1000)


def test_put_back_twice_it_knows_from_when_on_it_is_not_known(url: str, tmp_path: Path) -> None:
    done_and_forgotten(url, tmp_path, twice)
    with perdure.open(url) as store:
        with pytest.raises(perdure.Waiting):
            store.drive(twice, key="k")  # the step is worked anew, and what follows is asked about
        store.effects(state="in_doubt")[0].settle(perdure.Happened("done"), by="ann")
    schema_upgrade.raise_epoch(engine_for(parse(url)), 2)  # that step is not known any better now
    with perdure.open(url) as store, pytest.raises(perdure.Waiting):
        store.drive(twice, key="k")
    assert len(SENT) == 2


# -- what can still happen twice after a restore: docs/guarantees.md says so ------------------------------------------------


def test_what_is_started_anew_is_not_known_to_have_run(url: str, tmp_path: Path) -> None:
    with perdure.open(url) as store:
        store.session("s")
    put_back = copied(tmp_path, "a.db")
    for _ in range(2):
        with perdure.open(url) as store:
            store.drive(ordering, key="k")
        put_back()
    assert len(set(SENT)) == 2
