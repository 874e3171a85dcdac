"""What the lane tells: retries at info, failures as warnings, without the words of the database."""

from __future__ import annotations

import logging

import pytest

import perdure
from perdure.stores.sqlite import SqliteConnection
from perdure.stores.store import Fault, FaultKind

SECRET = "row (secret) violates"


def failing(kind: FaultKind, times: int):
    left = times
    real = SqliteConnection.write

    def write(self, writes, *, commit):
        nonlocal left
        if writes.events and left:
            left -= 1
            raise Fault(kind, SECRET)
        return real(self, writes, commit=commit)

    return write


@pytest.fixture
def told(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.DEBUG, "perdure")
    return caplog


def facts(told) -> list[tuple[str, str | None]]:
    records = [record for record in told.records if record.name == "perdure.commit" and record.levelno > logging.DEBUG]
    return [(record.levelname, getattr(record, "fault", None)) for record in records]


def test_a_retry_is_told_and_nothing_is_logged_twice(told, monkeypatch) -> None:
    with perdure.open("memory:") as store:
        session = store.session("s")
        monkeypatch.setattr(SqliteConnection, "write", failing(FaultKind.BUSY, 2))
        told.clear()
        turn = session.say("user", "x")
        seqs = [record.seq for record in told.records if record.name == "perdure.event"]
    assert seqs == [turn.seq]
    assert set(facts(told)) == {("INFO", "busy")}
    assert SECRET not in told.text


def test_a_failure_is_a_warning(told, monkeypatch) -> None:
    with perdure.open("memory:") as store:
        session = store.session("s")
        monkeypatch.setattr(SqliteConnection, "write", failing(FaultKind.FULL, 99))
        with pytest.raises(perdure.Full):
            session.say("user", "x")
        monkeypatch.undo()
    assert ("WARNING", "full") in facts(told)
    assert SECRET not in told.text


def test_a_verb_that_refuses_is_no_failure(told) -> None:
    with perdure.open("memory:") as store, pytest.raises(perdure.Invalid):
        store.session("s").say("nobody", "x")
    assert facts(told) == []
