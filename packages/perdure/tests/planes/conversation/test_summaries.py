"""Summaries nest, so that opening a long session reads few rows; and they name what they cover."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

import perdure
from perdure.model.identifiers import identifiers
from perdure.stores.sqlite import SqliteConnection

WIDTH, FAN = 10, 4


def grown(store: perdure.Store, turns: int, *, compacted: bool = True) -> perdure.Session:
    """A session of so many turns, summarised as `due` says."""
    session = store.session("s")

    def say(tx: Any, start: int) -> None:
        for i in range(start, start + 100):
            tx.session("s").say("user", f"turn {i} of fn_{i}")

    for start in range(0, turns, 100):
        store.atomic(partial(say, start=start))
        while compacted and (due := session.due(width=WIDTH, fan=FAN)) is not None:
            session.summarise(due.last_seq, f"{due.first_seq} to {due.last_seq}", from_=due.first_seq)
    return session


def rows_read(monkeypatch: pytest.MonkeyPatch, read: Callable[[], object]) -> int:
    counted = 0
    query = SqliteConnection.query

    def counting(*args: Any) -> Any:
        nonlocal counted
        rows = query(*args)
        counted += len(rows)
        return rows

    with monkeypatch.context() as patched:
        patched.setattr(SqliteConnection, "query", counting)
        read()
    return counted


def test_opening_a_long_session_reads_few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    counts: dict[int, int] = {}
    for turns in (300, 3_000):
        with perdure.open("memory://") as store:
            session = grown(store, turns)
            counts[turns] = rows_read(monkeypatch, session.transcript)
            assert session.turns(last=1)[0].content == f"turn {turns - 1} of fn_{turns - 1}"
            shown = str(session.transcript())
            assert f"fn_{turns - 1}" in shown
    levels = 3  # more of them for ten times as many turns, each of at most 4 summaries
    assert counts[3_000] <= counts[300] + 2 * FAN * levels
    assert counts[3_000] < 100


def test_control_without_summaries_it_reads_them_all(monkeypatch: pytest.MonkeyPatch) -> None:
    with perdure.open("memory://") as store:
        session = grown(store, 300, compacted=False)
        assert rows_read(monkeypatch, session.transcript) >= 300


def test_nothing_is_due_between_a_call_and_its_result() -> None:
    with perdure.open("memory://") as store:
        session = store.session("s")
        session.say("user", "go")
        session.say("assistant", "", calls=[perdure.Call("c", "grep", {})])
        session.result("c", "found")
        for number in range(6):
            session.say("user", str(number))
        due = session.due(width=2, fan=2)
        assert due is not None
        assert due.last_seq == due.first_seq
        session.summarise(due.last_seq, "x", from_=due.first_seq)
        with pytest.raises(perdure.Invalid):
            session.due(width=1)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("getUserName fails in src/auth.py since v1.2.3, see #42", ["getUserName", "src/auth.py", "v1.2.3", "#42"]),
        ("It was late. The engineers agreed, e.g. to wait.", []),
        ("see https://example.org/a?b=1 and ABC-123", ["https://example.org/a?b=1", "ABC-123"]),
        ("HttpClient at 1a2b3c4d in auth.py of MAX_RETRIES", ["HttpClient", "1a2b3c4d", "auth.py", "MAX_RETRIES"]),
        ("深色模式 in ./src/主.py", ["./src/主.py"]),
    ],
)
def test_identifiers(text: str, found: list[str]) -> None:
    assert identifiers(text) == found
