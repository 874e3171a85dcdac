"""A result that this process alone knows outlives a store that is away: it is kept, tried again, and never got twice."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure.errors import Invalid, Unavailable
from perdure.model.records.effects import EffectState

LOCKER = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=60)
connection.execute("BEGIN IMMEDIATE")
print("locked", flush=True)
sys.stdin.read()
"""


class Away:
    """Another process takes the store's lock when it is told to, and lets it go when somebody has complained, or at the end."""

    def __init__(self, path: Path, caplog: pytest.LogCaptureFixture) -> None:
        self._path = path
        self._caplog = caplog
        self._threads: list[threading.Thread] = []
        self.over = threading.Event()
        self.calls = 0

    def begin(self) -> None:
        self.calls += 1
        if self.calls > 1:
            return
        locker = subprocess.Popen(
            [sys.executable, "-c", LOCKER, str(self._path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert locker.stdout is not None
        assert locker.stdout.readline() == b"locked\n"
        self._threads = [threading.Thread(target=self._wait, args=(locker,))]
        self._threads[0].start()

    def _wait(self, locker: subprocess.Popen[bytes]) -> None:
        while "cannot be recorded yet" not in self._caplog.text and not self.over.wait(0.01):
            continue
        locker.communicate()

    def end(self) -> None:
        self.over.set()
        for each in self._threads:
            each.join()


@pytest.fixture
def away(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Iterator[Away]:
    caplog.set_level(logging.WARNING, "perdure.effects")
    made = Away(tmp_path / "a.db", caplog)
    yield made
    made.end()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[perdure.Store]:
    with perdure.open(f"sqlite:///{tmp_path}/a.db", timeout=0.2, keep=60) as opened:
        yield opened


def test_the_result_of_an_effect_is_kept(store: perdure.Store, away: Away) -> None:
    @perdure.tool
    def pay(amount: int) -> int:
        away.begin()
        return amount

    session = store.session("s")
    assert session.act(pay, 7, key="k") == 7
    assert session.act(pay, 7, key="k") == 7
    assert away.calls == 1


def test_a_clear_no_is_kept(store: perdure.Store, away: Away) -> None:
    @perdure.tool
    def pay(amount: int) -> int:
        away.begin()
        raise perdure.Failed(f"no {amount}", code="Poor")

    session = store.session("s")
    with pytest.raises(perdure.Failed, match="no 7"):
        session.act(pay, 7, key="k")
    assert session.effects()[0].state is EffectState.FAILED


@pytest.mark.parametrize("kind", ["step", "model", "act"])
def test_so_is_what_a_run_got(store: perdure.Store, away: Away, kind: str) -> None:
    def ask() -> dict[str, Any]:
        away.begin()
        return {"content": "four"}

    tool = perdure.tool(ask)

    @perdure.agent(name=f"asking-{kind}")
    def asking(run: perdure.Run) -> Any:
        if kind == "act":
            return run.act(tool)
        return run.model(ask) if kind == "model" else run.step(ask)

    assert store.drive(asking) == {"content": "four"}
    assert away.calls == 1


def test_an_answer_that_comes_late_is_kept(store: perdure.Store, away: Away) -> None:
    left = threading.Event()

    @perdure.tool(timeout=0.05)
    def pay(amount: int) -> int:
        left.wait(60)  # the caller has gone on by then
        away.begin()
        return amount

    session = store.session("s")
    with pytest.raises(perdure.InDoubt):
        session.act(pay, 7, key="k")
    left.set()
    for _ in range(600):
        if session.effects()[0].state is EffectState.COMMITTED:
            break
        away.over.wait(0.05)
    assert (session.effects()[0].result, away.calls) == (7, 1)


def test_the_log_says_how_many_are_kept_and_when_it_is_over(store: perdure.Store, away: Away, caplog: Any) -> None:
    @perdure.tool
    def pay() -> int:
        away.begin()
        return 1

    store.session("s").act(pay, key="k")
    assert "(this process keeps 1, the oldest for 0 s)" in caplog.text
    assert "a result in session s was recorded after" in caplog.text
    assert store._caller.core.kept_since == []


def test_control_without_keeping_it_is_lost(tmp_path: Path, away: Away) -> None:
    with perdure.open(f"sqlite:///{tmp_path}/a.db", timeout=0.2, keep=0) as store:

        @perdure.tool
        def pay(amount: int) -> int:
            away.begin()
            return amount

        session = store.session("s")
        with pytest.raises(Unavailable):
            session.act(pay, 7, key="k")
        away.end()
        assert session.effects()[0].state is EffectState.DISPATCHED


class Answer:
    """As an SDK gives it."""

    def __repr__(self) -> str:
        return "Answer(text='four')"


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (Answer(), {"unstorable": f"{__name__}.Answer", "text": "Answer(text='four')"}),
        ({"a": [1, float("nan")]}, {"a": [1, {"unstorable": "float", "text": "nan"}]}),
        (["a\ud800b", 2], [{"unstorable": "str", "text": "a\\ud800b"}, 2]),
        ({"a": "x\0y"}, {"a": {"unstorable": "str", "text": "x\\x00y"}}),
        ({1: 2, "b": 3}, {"1": 2, "b": 3}),
    ],
)
def test_what_no_store_takes_is_kept_as_text(store: perdure.Store, given: Any, kept: Any) -> None:
    called: list[int] = []

    @perdure.tool
    def ask() -> Any:
        called.append(1)
        return given

    session = store.session("s")
    for _ in range(2):
        with pytest.raises(Invalid, match="happened, but its result cannot be kept as it is") as raised:
            session.act(ask, key="k")
        assert raised.value.facts["kept"] == kept
    (effect,) = session.effects()
    assert (effect.state, effect.result, called) == (EffectState.COMMITTED, kept, [1])


@pytest.mark.parametrize("kind", ["step", "model"])
def test_so_is_what_a_step_or_a_model_gave(store: perdure.Store, kind: str) -> None:
    called: list[int] = []
    seen: list[Any] = []

    def ask() -> Any:
        called.append(1)
        return {"text": "four", "raw": Answer()}

    @perdure.agent(name=f"odd-{kind}")
    def odd(run: perdure.Run) -> str:
        try:
            run.model(ask) if kind == "model" else run.step(ask)
        except Invalid as error:
            seen.append(error.facts["kept"])
        if len(seen) == 1:
            run.sleep("1h")
        return "done"

    handle = store.start(odd, key="k")
    kept = {"text": "four", "raw": {"unstorable": f"{__name__}.Answer", "text": "Answer(text='four')"}}
    for _ in range(2):
        with pytest.raises(perdure.Waiting):
            store.drive(odd, key="k", wait=False)
        seen[1:] = []
    assert (seen, called) == ([kept], [1])
    assert handle.steps()[0].notes["unkept"]["kept"] == kept


def test_a_run_that_ends_by_it_keeps_it_too_and_may_be_tried_again(store: perdure.Store) -> None:
    gives: list[Any] = [Answer(), "five"]

    def ask() -> Any:
        return gives.pop(0)

    @perdure.agent(name="ends")
    def ends(run: perdure.Run) -> Any:
        return run.model(ask)

    handle = store.start(ends, key="k")
    with pytest.raises(perdure.Failed):
        store.drive(ends, key="k")
    assert handle.steps()[0].notes["unkept"]["kept"]["text"] == "Answer(text='four')"
    handle.retry()
    assert store.drive(ends, key="k") == "five"
