"""A sender that lives but is stopped, and one that a person declares gone."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure.errors import Conflict, InDoubt, NotFound
from perdure.model.records.effects import EffectState
from runtime.crew import until

SENDER = """
import os, signal, sys
import perdure
@perdure.tool(probe=lambda: perdure.Absent(), lands_within=0)
def send():
    os.kill(os.getpid(), signal.SIGSTOP)
with perdure.open(sys.argv[1], lease=1) as store:
    store.session("s").act(send, key="k")
"""


@pytest.fixture
def sender(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that is stopped in the middle of its call."""
    with subprocess.Popen([sys.executable, "-c", SENDER, f"sqlite:///{tmp_path}/a.db"]) as started:
        until(lambda: "T (stopped)" in Path(f"/proc/{started.pid}/status").read_text() or started.poll() is not None)
        yield started
        started.kill()


@pytest.fixture
def store(tmp_path: Path, sender: subprocess.Popen[bytes]) -> Iterator[perdure.Store]:
    with perdure.open(f"sqlite:///{tmp_path}/a.db", actor="alice") as opened:
        yield opened


def tool(sent: list[str]) -> Any:
    @perdure.tool(probe=perdure.Absent, lands_within=0)
    def send() -> str:
        sent.append("sent")
        return "sent"

    return send


def doubted(store: perdure.Store, sent: list[str]) -> Any:
    """The effect, once its sender's heartbeat has lapsed, and somebody has looked."""

    def look() -> Any:
        try:
            store.session("s").act(tool(sent), key="k")
        except Conflict:
            return None
        except InDoubt:
            return store.session("s").effects()[0]
        raise AssertionError

    return until(look)


def test_a_stopped_sender_is_not_called_dead_and_absent_needs_force(store: perdure.Store) -> None:
    sent: list[str] = []
    effect = doubted(store, sent)
    assert effect.record.error.code == "Silent"
    with pytest.raises(Conflict, match="lives, perhaps stopped: it may still send it"):
        effect.settle(perdure.Absent())
    with pytest.raises(Conflict, match="signs of life"):
        store.declare_gone(effect.record.holder, apply=True)
    assert effect.refresh().state is EffectState.IN_DOUBT
    effect.settle(perdure.Absent("I looked, and will kill it"), force=True)
    assert sent == []


def test_a_call_of_this_process_that_was_left_behind_may_still_send(tmp_path: Path) -> None:
    free, sent = threading.Event(), list[str]()

    def send() -> None:
        assert free.wait(60)
        sent.append("sent")
        raise OSError("reset")

    with perdure.open(f"sqlite:///{tmp_path}/a.db") as store:
        session = store.session("s")
        with pytest.raises(InDoubt, match="Overdue"):
            session.act(perdure.tool(send, name="left-behind", timeout=0.02, known=False), key="k")
        effect = session.effects()[0]
        with pytest.raises(Conflict, match="it may still send it"):
            effect.settle(perdure.Absent())
        free.set()
        until(lambda: effect.refresh().record.quiet_at)
        assert (effect.settle(perdure.Absent()).state, sent) == (EffectState.PLANNED, ["sent"])


def test_a_sender_that_is_declared_gone_counts_as_quiet(
    store: perdure.Store, sender: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    sent: list[str] = []
    effect = doubted(store, sent)
    holder = effect.record.holder
    sender.send_signal(signal.SIGKILL)
    sender.wait()
    shutil.rmtree(tmp_path / "a.db.live")  # as if it had run on another machine: nothing proves its death
    with pytest.raises(InDoubt, match="its caller may still send it"):  # the control
        store.session("s").act(tool(sent), key="k")
    (about,) = store.declare_gone(holder)
    assert (about.id, effect.refresh().record.quiet_at) == (effect.id, None)  # a dry run
    store.declare_gone(holder[:12], apply=True)
    assert effect.refresh().record.quiet_at is not None
    assert store.session("s").act(tool(sent), key="k") == "sent"
    with pytest.raises(NotFound, match="nothing that"):
        store.declare_gone(holder)
    assert any(event.kind == "effect.doubted" and event.actor == "alice" for event in store.events(limit=100))
    assert sent == ["sent"]
