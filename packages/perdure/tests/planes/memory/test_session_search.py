"""What was said is found at a cost that does not grow with the session, and rare words are found however old they are."""

from __future__ import annotations

from typing import Any

import pytest

import perdure
from perdure.planes.memory import session_search
from perdure.stores.sqlite import SqliteConnection


def rows_read(monkeypatch: pytest.MonkeyPatch, turns: int) -> tuple[int, dict[int, int]]:
    """How many rows a look at a session of so many turns reads, and what it finds."""
    counted = 0
    query = SqliteConnection.query

    def counting(*args: Any) -> Any:
        nonlocal counted
        rows = query(*args)
        counted += len(rows)
        return rows

    with perdure.open("memory://") as store:
        session = store.session("s")
        old = session.say("user", "the heron password hint is blue")

        def say(tx: Any) -> None:
            for i in range(turns):
                tx.session("s").say("user", f"the login of module {i % 50} is blue")

        store.atomic(say)
        session.recall("login")
        core, stream = session._caller.core, session._stream
        with monkeypatch.context() as patched:
            patched.setattr(SqliteConnection, "query", counting)
            found = core.read(
                session_search.best_in_session,
                stream,
                "is the heron of the login blue?",
                10,
                tenant=session._caller.tenant,
            )
        assert next(iter(found)) == old.seq
        assert set(found) <= {turn.seq for turn in session.turns(last=1_000)} | {old.seq}
    return counted, found


def test_it_reads_as_much_of_a_long_session_as_of_a_short_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_search, "POSTINGS_MAX", 60)
    short, _ = rows_read(monkeypatch, 100)
    long, _ = rows_read(monkeypatch, 1_000)
    assert long <= short + 5


def test_control_without_the_bound_it_reads_them_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_search, "POSTINGS_MAX", 10**9)
    short, _ = rows_read(monkeypatch, 100)
    long, _ = rows_read(monkeypatch, 1_000)
    assert long > short + 900


def test_a_fork_finds_what_was_said_before_it_and_nothing_of_the_parent_after_it() -> None:
    with perdure.open("memory://") as store:
        session = store.session("s")
        before = session.say("user", "herons fish at dawn")
        fork = session.fork(at=before.seq, name="t")
        session.say("user", "herons sleep at noon")
        own = fork.say("user", "herons fly at dusk")
        fork.recall("herons")
        found = fork._caller.core.read(
            session_search.best_in_session, fork._stream, "herons", 10, tenant=fork._caller.tenant
        )
        assert set(found) == {before.seq, own.seq}
