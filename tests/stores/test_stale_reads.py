"""A verb that read a stream before somebody else changed it is run again: deciding on what was read is a
compare-and-set.
"""

from __future__ import annotations

import pytest

from perdure.handles.opening import open as open_store
from perdure.log.change import Change, Op
from perdure.planes.tables import SESSIONS
from perdure.stores.statements import Statement
from perdure.stores.tx import Batch, Tx

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
def test_an_overtaken_verb_is_run_again(postgres_url: str, look) -> None:
    assert overtaken(postgres_url, look) == (["active", "failed"], "failed")


def test_control_heads_taken_after_the_reads_lose_the_other_write(postgres_url: str, monkeypatch) -> None:
    taken = Batch.head

    def unwatched(tx, table, stream):
        monkeypatch.setattr(Batch, "head", lambda *_: (0, b""))
        try:
            return tx._find(table, stream.id, stream.tenant, ())
        finally:
            monkeypatch.setattr(Batch, "head", taken)

    monkeypatch.setattr(Tx, "row", unwatched)
    assert overtaken(postgres_url, by_row) != (["active", "failed"], "failed")
