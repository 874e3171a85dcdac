"""The contract of the SQL views: they say what the verbs say, and cannot be written."""

from __future__ import annotations

import json
from typing import Any

import pytest

from perdure.errors import Error
from perdure.handles.aio.session import AsyncSession
from perdure.handles.aio.store import AsyncStore
from perdure.model.instants import to_datetime
from perdure.runtime.callers import caller_of
from perdure.stores.statements import Statement
from perdure_testing.contract.aio.history import lived_in
from perdure_testing.openers import AsyncOpener

VIEWS = (
    "events", "sessions", "turns", "calls", "covers", "tasks", "decisions", "entries", "locks", "checkpoints", "artifacts",
    "effects", "all_effects", "runs", "waits", "signals", "leases", "workers", "subscriptions",
)  # fmt: skip


def ask(store: AsyncStore, text: str) -> list[tuple[Any, ...]]:
    """Run SQL as a user would, on a connection of its own."""
    return caller_of(store).core.read(lambda reads: reads.query(Statement("ask", "", text)), tenant=0)


def rows(store: AsyncStore, session: AsyncSession, view: str, *columns: str) -> list[tuple[Any, ...]]:
    """The rows of a view about a session, all as text, in the order of the first column."""
    listed = ", ".join(f"CAST({column} AS TEXT)" for column in columns)
    where = f"WHERE tenant = 'default' AND session = '{session.name}'"
    return ask(store, f"SELECT {listed} FROM {view} v {where} ORDER BY v.{columns[0]}")


class AsyncViewsContract:
    """One view for each plane."""

    async def test_events_are_shown_with_their_bodies(self, opener: AsyncOpener) -> None:
        async with await opener(actor="alice") as store:
            session = await lived_in(store)
            columns = "tenant, session, seq, kind, tbl, actor, at_us, at, stream_uid, CAST(body AS TEXT)"
            rows = ask(store, f"SELECT {columns} FROM v_events WHERE tbl <> 'actors' ORDER BY seq")
            events = await session.events(limit=1000)
            assert len(rows) == len(events)
            for row, event in zip(rows, events, strict=True):
                assert row[:6] == ("default", "a", event.seq, event.kind, event.table, "alice")
                assert to_datetime(row[6]) == event.at
                assert row[7] == event.at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
                assert row[8] == session.uid
                if not event.body.get("doc_blob"):
                    assert json.loads(row[9]) == json.loads(json.dumps(event.body))

    async def test_the_planes_are_shown_as_the_verbs_say(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await lived_in(store)
            await self.compare(store, session, None)
            await self.compare(store, await session.fork(name="f"), "a")

    async def compare(self, store: AsyncStore, session: AsyncSession, parent: str | None) -> None:
        """Views and verbs, side by side."""
        (row,) = rows(store, session, "v_sessions", "title", "status", "labels", "goal", "pins", "forked_from")
        assert row[:2] == ("Fix login", "active")
        assert [json.loads(text) for text in row[2:4]] == [["prod"], "Login works"]
        assert "m-1" in row[4]
        assert row[5] == parent
        tasks = rows(store, session, "v_tasks", "seq", "title", "status", "labels", "needs")
        assert sorted((str(t.id), t.title, t.status, list(t.labels), list(t.needs)) for t in await session.tasks()) == [
            (*row[:3], *map(json.loads, row[3:])) for row in tasks
        ]
        listed = rows(store, session, "v_decisions", "seq", "status", "tags", "doc")
        decisions = sorted(await session.decisions(), key=lambda decision: decision.seq)
        assert [(str(d.seq), d.status, list(d.tags)) for d in decisions] == [
            (*row[:2], json.loads(row[2])) for row in listed
        ]
        assert all(d.because in row[3] for d, row in zip(decisions, listed, strict=True))
        assert rows(store, session, "v_entries", "name", "version", "doc") == [("branch", "1", '"fix-1"')]

    async def test_what_never_changes_is_shown_where_it_lies(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await lived_in(store)
            await session.fork(name="f")
            turns = ask(store, "SELECT session, seq, role, key, CAST(body AS TEXT) FROM v_turns ORDER BY seq")
            assert [row[:4] for row in turns] == [("a", t.seq, t.role, t.key) for t in await session.turns(last=9)]
            assert "Login fails" in turns[0][4]
            (checkpoint,) = ask(store, "SELECT session, seq, name FROM v_checkpoints")
            assert checkpoint == ("a", (await session.checkpoints())[0].seq, "default")
            (artifact,) = ask(store, "SELECT session, name, media_type, size, address FROM v_artifacts")
            attached = await session.artifact("build.log")
            assert artifact == ("a", "build.log", "text/plain", attached.size, attached.hash)

    @pytest.mark.parametrize("view", VIEWS)
    async def test_a_view_cannot_be_written(self, opener: AsyncOpener, view: str) -> None:
        async with await opener() as store:
            session = await lived_in(store)
            before = await session.events(limit=1000)
            writes = ("DELETE FROM v_{}", "UPDATE v_{} SET tenant = 'x'", "INSERT INTO v_{} (seq) VALUES (1)")
            for text in writes:
                with pytest.raises(Error):
                    ask(store, text.format(view) + " RETURNING 1")
            assert await session.events(limit=1000) == before
