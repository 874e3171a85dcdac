"""A verb that read a stream before somebody else changed it is run again: deciding on what was read is a
compare-and-set.
"""

from __future__ import annotations

import pytest

from perdure.handles.opening import open as open_store
from perdure.log.change import Change, Op
from perdure.planes.tables import SESSIONS
from perdure.stores.batch import Batch
from perdure.stores.statements import Statement
from perdure.stores.tx import Tx

STATUS = Statement("session_status", "the status of a session", "SELECT status FROM sessions WHERE stream = :stream")


def by_row(tx: Tx, stream) -> str:
    row = tx.row(SESSIONS, stream)
    assert row is not None
    return row["status"]


def by_query(tx: Tx, stream) -> str:
    return tx.query(STATUS, touches=[(SESSIONS, stream.id)], stream=stream.id)[0][0]


def overtaken(url: str, look) -> tuple[list[str], str]:
    """What a verb saw on each run when another store closed the session right after its first look; and
    the end of it.
    """
    with open_store(url) as store:
        store.session("s")
    with open_store(url) as mine, open_store(url) as theirs:
        session, other = mine.session("s"), theirs.session("s")
        seen: list[str] = []

        def verb(tx: Tx, stream) -> None:
            seen.append(look(tx, stream))
            if len(seen) == 1:
                other.close("failed")
            if seen[-1] == "active":
                tx.record(
                    Change(
                        "session.suspended",
                        stream,
                        SESSIONS,
                        Op.SET,
                        set={"status": "waiting", "ended_at": None},
                    )
                )

        mine._caller.write(verb, session._stream)
        return seen, session.status


@pytest.mark.parametrize("look", [by_row, by_query])
def test_an_overtaken_verb_is_run_again(postgres_store: str, look) -> None:
    assert overtaken(postgres_store, look) == (["active", "failed"], "failed")


def test_control_heads_taken_after_the_reads_lose_the_other_write(postgres_store: str, monkeypatch) -> None:
    taken = Batch.head

    def unwatched(tx, table, stream):
        monkeypatch.setattr(Batch, "head", lambda *_: (0, b""))
        try:
            return tx._find(table, stream.id, stream.tenant, ())
        finally:
            monkeypatch.setattr(Batch, "head", taken)

    monkeypatch.setattr(Tx, "row", unwatched)
    assert overtaken(postgres_store, by_row) != (["active", "failed"], "failed")


def skewed(url: str) -> list[str]:
    """Two doctors on call: each may leave only while the other stays. Who stays when both ask at once?"""
    with open_store(url) as one, open_store(url) as two:
        for name in ("a", "b"):
            one.session(name).set("on call", True)
        overtaken = False

        def leave(tx, own: str, other: str) -> None:
            nonlocal overtaken
            if tx.session(other).get("on call"):
                if own == "a" and not overtaken:
                    overtaken = True
                    two.atomic(lambda inner: leave(inner, "b", "a"))
                tx.session(own).set("on call", False)

        one.atomic(lambda tx: leave(tx, "a", "b"))
        return [name for name in ("a", "b") if one.session(name).get("on call")]


def test_a_decision_by_another_stream_is_run_again_when_that_moved(postgres_store: str) -> None:
    assert skewed(postgres_store) == ["a"]


def test_control_without_the_heads_that_were_read_both_leave(postgres_store: str, monkeypatch) -> None:
    monkeypatch.setattr(Batch, "_verify_read", lambda self, writes: None)
    assert skewed(postgres_store) == []


def test_a_tenant_is_not_taken_for_a_new_stream_of_the_same_number() -> None:
    from perdure.planes.audit import subscriptions
    from perdure.planes.conversation import sessions

    with open_store("memory:") as store:
        store.subscribe("reader")

        def verb(tx: Tx) -> object:
            stream, _pin = sessions.open_session(tx, "first")
            assert stream.id == tx.tenant
            return subscriptions.take(tx, "reader")

        assert store._caller.write(verb) is not None
