"""A sender that dies, in a session: its death is proved by its lock, and from then on Absent is final (P4, P13)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

import perdure
from perdure.effects import settling
from perdure.errors import Conflict, InDoubt
from perdure_testing.clock import FakeClock

SENT: list[str] = []


def look(to: str) -> perdure.Happened | perdure.Absent:
    return perdure.Happened("seen") if to in SENT else perdure.Absent()


@perdure.tool(name="dead-senders-send", probe=look, lands_within=1)
def send(to: str) -> str:
    SENT.append(to)
    return "sent"


class Sender:
    """Another process that has dispatched a mail to ann; it is at the call."""

    def __init__(self, url: str, clock: FakeClock) -> None:
        self.store = perdure.open(url, clock=clock)
        self.store.session("s").begin(send.name, {"to": "ann"}, kind="probed", key="k").dispatch()

    def die(self) -> None:
        """The kernel lets its lock go, and the file stays."""
        liveness = self.store._caller.core.liveness
        assert liveness._fd is not None
        os.close(liveness._fd)
        liveness._fd = None


@pytest.fixture
def clock() -> FakeClock:
    SENT.clear()
    return FakeClock()


@pytest.fixture
def sender(tmp_path, clock) -> Iterator[Sender]:
    sender = Sender(f"sqlite:///{tmp_path}/a.db", clock)
    yield sender
    sender.store.close()


@pytest.fixture
def session(tmp_path, clock, sender) -> Iterator[Any]:
    with perdure.open(f"sqlite:///{tmp_path}/a.db", clock=clock) as store:
        yield store.session("s")


def doubt(session: Any, clock: FakeClock) -> str:
    """Why it is in doubt, after what was sent has had its time; empty if it was sent now."""
    try:
        session.act(send, "ann", key="k")
    except InDoubt:
        clock.advance("1h")
    try:
        assert session.act(send, "ann", key="k") == "sent"
    except InDoubt as still:
        return str(still)
    return ""


def test_while_it_lives_nobody_else_sends(session):
    with pytest.raises(Conflict, match="is being sent by"):
        session.act(send, "ann", key="k")
    assert SENT == []


def test_after_its_death_it_is_asked_for_and_sent(session, sender, clock):
    sender.die()
    with pytest.raises(InDoubt, match="a sent call may still arrive"):
        session.act(send, "ann", key="k")
    assert session.effects()[0].record.error.message == settling.HAS_DIED
    assert doubt(session, clock) == ""
    assert SENT == ["ann"]


def test_silence_is_no_proof_and_a_death_after_it_is(session, sender, clock):
    clock.advance("1h")  # its heartbeat lapses; it may be stopped, and send it yet
    assert "its caller may still send it" in doubt(session, clock)
    assert (session.effects()[0].record.error.code, SENT) == (settling.SILENT, [])
    sender.die()
    assert doubt(session, clock) == ""
    assert SENT == ["ann"]
