"""The contract of looking at runs as at sessions: by part of an id, their events, what differs, for reading (P8, P15)."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.effects.tool import tool
from perdure.errors import Conflict, Invalid, NotFound, Waiting
from perdure.handles.aio.run import AsyncRun
from perdure.handles.aio.store import AsyncStore
from perdure.planes.execution import runs
from perdure.runtime.agent import agent
from perdure_testing.openers import AsyncOpener


@tool(name="looked_at", kind="idempotent")
async def looked_at(text: str) -> str:
    """An external call."""
    return f"sent {text}"


@agent(name="looked_at")
async def looking(run: AsyncRun, text: str) -> Any:
    """Does something, and waits for a person."""
    await run.act(looked_at, text)
    return await run.ask("Go on?", choices=["yes", "no"])


async def waiting(store: AsyncStore, text: str, key: str) -> str:
    """A run that has done something and waits; its id."""
    with pytest.raises(Waiting) as refusal:
        await store.drive(looking, text, key=key)
    return refusal.value.facts["run"]


class AsyncLookingContract:
    """A run as people see it."""

    async def test_an_id_may_be_shortened_to_what_is_unique(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            run_id = await waiting(store, "a", "k")
            for digits in (4, 8, len(run_id)):
                assert await store.run_id(run_id[:digits]) == run_id
            for wrong in (run_id[:3], "zzzz", f"{run_id}0", "ffff" if run_id[:4] != "ffff" else "0000"):
                with pytest.raises(NotFound):
                    await store.run_id(wrong)
            for odd in ("", "a\0b", "x" * 10_000):
                with pytest.raises(Invalid):
                    await store.run_id(odd)
            with pytest.raises(NotFound):
                await store.run(run_id[:8])  # a program names it whole

    async def test_one_that_is_not_unique_lists_the_candidates(
        self, opener: AsyncOpener, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        ids = [f"abcd{number:028x}" for number in (1 << 80, 2 << 80)]
        async with await opener() as store:
            for run_id in ids:
                with monkeypatch.context() as patched:
                    patched.setattr(runs, "new_uid", lambda run_id=run_id: bytes.fromhex(run_id))
                    await store.start(looking, "x")
            names = [run_id[: runs.ID_CHARS] for run_id in ids]
            assert [await store.run_id(name) for name in names] == names
            with pytest.raises(Conflict, match=f"2 runs begin with abcd: {', '.join(names)}") as refusal:
                await store.run_id("abcd")
            assert refusal.value.facts["candidates"] == names

    async def test_events_of_a_run(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            run = await waiting(store, "a", "k")
            await (await store.session("s")).say("user", "x")
            events = await store.events(run=run)
            assert {(event.stream_kind, event.stream) for event in events} == {("run", f"run:{run}")}
            assert [event.seq for event in events] == [*range(len(events), 0, -1)]
            first = await store.events(run=run, limit=2)
            second = await store.events(run=run, limit=2, after=first.next)
            assert [row.seq for row in (*first, *second)] == [event.seq for event in events[:4]]
            assert [event.kind for event in await store.events(run=run, kind="run.started")] == ["run.started"]
            assert {event.stream for event in await store.events(session="s")} == {"s"}
            assert await store.events(run="0" * 12) == []
            with pytest.raises(Invalid):
                await store.events(run=run, session="s")

    async def test_what_differs_from_a_run_to_another(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            a, b = [await store.run(await waiting(store, text, text)) for text in ("a", "b")]
            assert (await a.diff(a)).same
            await store.answer((await b.waits())[0].id, "yes")
            await store.recover([looking])
            changes = await a.diff(await b.refresh())
            assert {change.name for change in changes.about} >= {"args", "result", "status", "key"}
            (effect,) = changes.effects
            assert (effect.before["args"], effect.after["args"]) == ({"text": "a"}, {"text": "b"})
            (wait,) = changes.waits
            assert (wait.how, wait.before["state"], wait.after["answer"]) == ("changed", "open", "yes")
            past = await (await b.at(1)).diff(b)
            assert [effect.how for effect in past.effects] == ["added"]
            with pytest.raises(Invalid):
                await a.diff(await store.session("s"))  # type: ignore[arg-type]

    async def test_a_run_for_reading(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            run = await waiting(store, "a", "k")
            await store.session("s")
            document = await store.readable(["s"], runs=[run])
            assert ([session.session.name for session in document.sessions], [run.run.id for run in document.runs]) == (
                ["s"],
                [run],
            )
            assert [effect.tool for effect in document.runs[0].effects] == ["looked_at"]
            page = document.markdown()
            assert "# Session s" in page
            assert f"# Run {run} of looked\\_at" in page
            assert "Go on?" in page
            with pytest.raises(NotFound):
                await store.readable(runs=["0" * 12])

    async def test_what_a_recovery_would_take_is_told_and_nothing_is_taken(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            handle = await store.start(looking, "a", key="k")
            for _ in range(2):
                report = await store.recoverable([looking])
                assert [(run.id, run.status) for run in report.runs] == [(handle.id, "ready")]
            assert (await handle.refresh()).status == "ready"
            assert [run.id for run in (await store.recover([looking])).runs] == [handle.id]
            assert (await store.recoverable([looking])).runs == ()
