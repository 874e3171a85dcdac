"""The contract of `store.query`: SQL of the user's own reads the views of one tenant, and does nothing else."""

from __future__ import annotations

import pytest

from perdure.errors import Invalid, Refused, TimedOut, TooLarge
from perdure_testing.contract.aio.history import lived_in
from perdure_testing.contract.aio.views import VIEWS
from perdure_testing.openers import AsyncOpener

WRITES = [
    "DELETE FROM turns",
    "INSERT INTO meta (name, value) VALUES ('x', 'y')",
    "UPDATE streams SET seq = 0",
    "DROP VIEW v_turns",
    "CREATE TABLE mine (x INTEGER)",
    "WITH gone AS (DELETE FROM turns RETURNING 1) SELECT * FROM gone",
    "SELECT 1; DELETE FROM turns",
    "SELECT 1; COMMIT; DELETE FROM turns",
    "COMMIT",
    "ATTACH 'x.db' AS x",
    "VACUUM",
    "SELEC",
    "",
]
ENDLESS = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) AS all_of_them FROM n"


class AsyncQueryingContract:
    """Asking with SQL."""

    async def test_rows_come_by_column(self, opener: AsyncOpener) -> None:
        async with await opener(actor="alice") as store:
            session = await lived_in(store)
            text = "SELECT seq, role, key, actor FROM v_turns WHERE session = :name AND seq > :after ORDER BY seq"
            rows = await store.query(text, {"name": session.name, "after": 0})
            turns = await session.turns(last=100)
            assert rows == [{"seq": t.seq, "role": t.role, "key": t.key, "actor": t.actor} for t in turns]
            assert await store.query("SELECT 1 AS one, ':not' AS text, '100%' AS much") == [
                {"one": 1, "text": ":not", "much": "100%"}
            ]
            assert await store.query("SELECT seq FROM v_turns WHERE session = 'nobody';") == []

    async def test_what_was_committed_is_seen_at_once(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("a")
            for number in range(1, 4):
                await session.say("user", str(number))
                assert await store.query("SELECT count(*) AS n FROM v_turns") == [{"n": number}]

    async def test_times_are_text_that_sorts(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await lived_in(store)
            rows = await store.query(
                "SELECT at, at_us FROM v_events WHERE session = :s ORDER BY seq", {"s": session.name}
            )
            events = await session.events(limit=1000)
            assert [row["at"] for row in rows] == [e.at.strftime("%Y-%m-%dT%H:%M:%S.%fZ") for e in events]
            one = events[1].at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
            counts = await store.query("SELECT count(*) AS n FROM v_events WHERE at <= :at", {"at": one})
            assert counts[0]["n"] >= 1

    async def test_large_documents_are_whole_and_found_by_a_path(self, opener: AsyncOpener) -> None:
        """A question about what documents say must not miss those that are large."""
        async with await opener() as store:
            session = await store.session("a")
            texts = ["é" * 100, "b" * 20_000, "ü" * 30_000]
            for number, text in enumerate(texts):
                await session.set(f"v{number}", {"status": "open", "text": text})
            query = "SELECT name, doc ->> 'text' AS text FROM v_entries WHERE doc ->> 'status' = 'open' ORDER BY name"
            assert await store.query(query) == [{"name": f"v{i}", "text": text} for i, text in enumerate(texts)]
            (turn,) = [await session.say("user", "c" * 20_000)]
            rows = await store.query(
                "SELECT doc ->> 'content' AS said FROM v_turns WHERE seq = :seq", {"seq": turn.seq}
            )
            assert rows == [{"said": "c" * 20_000}]

    async def test_a_tenant_sees_its_own(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            await (await store.session("mine")).say("user", "x")
            async with await opener(tenant="other") as other:
                await (await other.session("theirs")).say("user", "y")
                assert await other.query("SELECT session, tenant FROM v_turns") == [
                    {"session": "theirs", "tenant": "other"}
                ]
            assert await store.query("SELECT session FROM v_sessions") == [{"session": "mine"}]

    async def test_every_view_can_be_asked(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            await lived_in(store)
            for view in VIEWS:
                rows = await store.query(f"SELECT * FROM v_{view}")
                assert all(row["tenant"] == "default" for row in rows)
                assert await store.query(f"SELECT count(*) AS n FROM v_{view}") == [{"n": len(rows)}]

    @pytest.mark.parametrize("text", WRITES)
    async def test_it_changes_nothing(self, opener: AsyncOpener, text: str) -> None:
        async with await opener() as store:
            session = await lived_in(store)
            before = await session.events(limit=1000)
            with pytest.raises((Refused, Invalid)):
                await store.query(text)
            assert await session.events(limit=1000) == before
            await session.say("user", "and the store works")
            assert (await store.verify()).ok

    async def test_it_is_bounded(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            await lived_in(store)
            with pytest.raises(TimedOut):
                await store.query(ENDLESS, timeout=0.2)
            with pytest.raises(TooLarge):
                await store.query("SELECT seq FROM v_events", limit=2)
            assert len(await store.query("SELECT seq FROM v_events ORDER BY seq LIMIT 2", limit=2)) == 2

    async def test_bad_questions_say_why(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            with pytest.raises(Invalid, match="nobody_has_this"):
                await store.query("SELECT nobody_has_this FROM v_turns")
            with pytest.raises(Invalid, match="x"):
                await store.query("SELECT :x AS x")
            with pytest.raises(Invalid, match="same name"):
                await store.query("SELECT 1 AS a, 2 AS a")
            with pytest.raises(Invalid):
                await store.query("SELECT 1 AS a", limit=0)
            with pytest.raises(Invalid):
                await store.query(7)  # type: ignore[arg-type] - what is wrong
