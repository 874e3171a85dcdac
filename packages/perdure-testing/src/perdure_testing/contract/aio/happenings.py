"""The contract of emitted events, of events across the store, and of folds."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from perdure.errors import Conflict, Error, Invalid, TooLarge
from perdure.model.records.emitted import EventRecord
from perdure_testing.openers import AsyncOpener
from perdure_testing.races import AsyncRace


def total(state: int | None, event: EventRecord) -> int:
    """A reducer: adds up what was emitted."""
    return (state or 0) + event.data["n"]


class AsyncEmittedContract:
    """Emitting, listing and folding."""

    async def test_an_emitted_event_is_read_back(self, opener: AsyncOpener) -> None:
        async with await opener(actor="alice") as store:
            session = await store.session("a")
            first = await session.emit("deploy.begun", {"sha": b"\1", "at": None}, about=["customer:7"])
            second = await session.emit("deploy.finished", refs=[first])
            events = await session.events(emitted=True)
            assert events == [first, second]
            assert first.data == {"sha": b"\1", "at": None}
            assert (first.actor, first.table, first.about, first.emitted) == (
                "alice",
                "",
                ("customer:7",),
                True,
            )
            assert second.refs == (first.ref,)
            assert second.session == "a"

    async def test_every_change_of_the_session_is_an_event(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("a")
            await session.emit("deploy.begun")
            events = await session.events()
            assert [event.seq for event in events] == list(range(1, len(events) + 1))
            assert events[0].table == "sessions"
            assert events[0].body["op"] == "insert"
            assert await session.events(after=events[-2].seq) == events[-1:]
            assert await session.events(limit=1) == events[:1]

    async def test_a_kind_is_exact_or_all_below_a_word(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("a")
            for kind in ("deploy.a", "deploy.b.c", "deployment.x", "DEPLOY.x", "deploy-2.x", "de_loy.x"):
                await session.emit(kind)
            kinds = {
                "deploy.*": ["deploy.a", "deploy.b.c"],
                "deploy.b.*": ["deploy.b.c"],
                "deploy.a": ["deploy.a"],
                "deploy": [],
                "d_ploy.a": [],
            }
            for pattern, expected in kinds.items():
                assert [event.kind for event in await session.events(kind=pattern)] == expected
                across = [event.kind for event in await store.events(kind=pattern)]
                assert across == expected[::-1]

    @pytest.mark.parametrize(
        "kind",
        ["deploy", "a..b", ".a", "a.", "a.*", "a b.c", "", "a.b\0", "x" * 201, "log.pruned", None,
         "turn.said", "task.done", "decision.made.late", "Session.closed", "effect.committed", "run.finished"],
    )  # fmt: skip
    async def test_a_kind_that_is_none_is_refused(self, opener: AsyncOpener, kind: Any) -> None:
        async with await opener() as store:
            session = await store.session("a")
            with pytest.raises(Invalid) as refused:
                await session.emit(kind)
            assert refused.value.path == "kind"
            assert await session.events(emitted=True) == []

    async def test_bad_input_is_refused_with_its_path(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("a")
            bad: list[tuple[dict[str, Any], type[Error], str]] = [
                ({"data": {"x": [1, float("nan")]}}, Invalid, "data.x[1]"),
                ({"data": {1: 2}}, Invalid, "data"),
                ({"expect": -1}, Invalid, "expect"),
                ({"expect": True}, Invalid, "expect"),
                ({"about": "alice"}, Invalid, "about"),
                ({"about": ["a", ""]}, Invalid, "about[1]"),
                ({"about": [str(i) for i in range(300)]}, TooLarge, "about"),
                ({"refs": [7]}, Invalid, "refs[0]"),
            ]
            for arguments, error, path in bad:
                with pytest.raises(error) as refused:
                    await session.emit("a.b", **arguments)
                assert refused.value.path == path
            assert await session.events(emitted=True) == []

    async def test_reading_refuses_bad_arguments(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("a")
            with pytest.raises(Invalid, match="after"):
                await session.events(after=-1)
            with pytest.raises(Invalid, match="kind"):
                await session.events(kind="*")
            with pytest.raises(Invalid, match="limit"):
                await session.events(limit=0)
            with pytest.raises(Invalid, match="emitted"):
                await session.events(emitted=False)
            with pytest.raises(Invalid, match="after"):
                await store.events(after="nonsense")
            with pytest.raises(Invalid, match="since"):
                await store.events(since="yesterday")

    async def test_an_expected_sequence_is_compared_and_the_current_one_given(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("a")
            first = await session.emit("a.b")
            assert (await session.emit("a.b", expect=first.seq)).seq == first.seq + 1
            with pytest.raises(Conflict) as refused:
                await session.emit("a.b", expect=first.seq)
            assert refused.value.facts["seq"] == first.seq + 1
            assert len(await session.events(emitted=True)) == 2

    async def test_of_two_who_expect_the_same_sequence_one_wins(self, opener: AsyncOpener) -> None:
        async with await opener() as a, await opener() if opener.shared else a as b:
            one, other = await a.session("s"), await b.session("s")
            seq = (await one.emit("a.b")).seq
            for _ in range(8):
                outcomes = await AsyncRace.between(
                    partial(one.emit, "a.b", expect=seq), partial(other.emit, "a.b", expect=seq)
                )
                assert [type(error) for error in outcomes.refused] == [Conflict]
                assert outcomes.won[0].seq == outcomes.refused[0].facts["seq"] == seq + 1
                seq += 1

    async def test_names_are_only_data(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            name = "'; DROP TABLE events; -- <b>../..\\%_*"
            session = await store.as_(name).session(name)
            event = await session.emit("a.b", {name: name}, about=[name])
            assert event in await store.events(actor=name, session=name)
            assert await store.events(actor="%") == []
            assert await store.events(session="no such") == []

    async def test_a_large_document_is_read_back(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("a")
            event = await session.emit("a.b", {"text": "x" * 50_000})
            (read_back,) = await session.events(emitted=True)
            assert read_back.data == event.data

    async def test_events_across_sessions_come_newest_first_in_pages(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            sessions = [await store.session(name) for name in ("a", "b", "c")]
            events = []
            for i in range(20):
                events.append(await sessions[i % 3].emit(f"k{i % 4}.x", {"n": i}))
                if i % 3:
                    opener.clock.advance("1s")
            cases: list[tuple[dict[str, Any], set[str]]] = [
                ({"emitted": True}, {"k0.x", "k1.x", "k2.x", "k3.x"}),
                ({"actor": "me", "emitted": True}, {"k0.x", "k1.x", "k2.x", "k3.x"}),
                ({"kind": "k1.*"}, {"k1.x"}),
                ({"kind": "k2.x"}, {"k2.x"}),
            ]
            for filters, kinds in cases:
                listed = await store.events(limit=100, **filters)
                assert listed == [event for event in reversed(events) if event.kind in kinds]
                page = await store.events(limit=3, **filters)
                paged = list(page)
                while page.next:
                    page = await store.events(limit=3, after=page.next, **filters)
                    paged += page
                assert paged == listed

    async def test_events_across_are_filtered_by_time_actor_and_session(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            first = await (await store.session("a")).emit("x.y")
            opener.clock.advance("1h")
            second = await (await store.as_("bob").session("b")).emit("x.y")
            assert await store.events(kind="x.y", since="30m") == [second]
            assert await store.events(kind="x.y", until=second.at) == [first]
            assert await store.events(kind="x.y", actor="bob") == [second]
            assert await store.events(actor="bob", emitted=True) == [second]
            assert await store.events(session="a", kind="x.*") == [first]
            pages = [await store.events(session="a", limit=1)]
            while pages[-1].next:
                pages.append(await store.events(session="a", limit=1, after=pages[-1].next))
            assert [event.seq for page in pages for event in page] == [first.seq - i for i in range(first.seq)]

    async def test_another_tenant_sees_nothing(self, opener: AsyncOpener) -> None:
        if not opener.shared:
            pytest.skip("needs a second open of the same store")
        async with await opener() as store, await opener(tenant="other") as other:
            await (await store.session("a")).emit("x.y")
            assert await other.events() == []
            assert await other.events(session="a") == []

    async def test_folding_adds_up_what_was_emitted(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("a")
            seqs = [(await session.emit("n.added", {"n": n})).seq for n in range(1, 5)]
            assert await session.fold(total) == 10
            assert await session.fold(total, 100) == 110
            assert await session.fold(total, 0, at=seqs[1]) == 3
            opener.clock.advance("1h")
            await session.emit("n.added", {"n": 5})
            assert await session.fold(total, at="30m") == 10

    async def test_a_named_fold_goes_on_from_its_snapshot(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("a")

            def fill(tx: Any) -> None:
                for n in range(600):
                    tx.session("a").emit("n.added", {"n": n})

            await store.atomic(fill)
            folded: list[int] = []

            def counted(state: int | None, event: EventRecord) -> int:
                folded.append(event.seq)
                return total(state, event)

            expected = sum(range(600))
            assert await session.fold(counted, name="sum") == expected
            assert len(folded) == 600
            last = await session.emit("n.added", {"n": 1})
            folded.clear()
            assert await session.fold(counted, name="sum") == expected + 1
            assert folded == [last.seq]
            folded.clear()
            assert await session.fold(counted, name="sum", at=last.seq - 300) == sum(range(301))
            assert len(folded) == 301  # a snapshot of later is of no use
            assert await session.fold(counted, name="other") == expected + 1

    async def test_a_named_fold_needs_a_state_that_can_be_stored(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("a")
            await store.atomic(lambda tx: [tx.session("a").emit("n.added", {"n": n}) for n in range(501)] and None)
            assert await session.fold(lambda _, __: object) is object
            with pytest.raises(Invalid, match="state"):
                await session.fold(lambda _, __: object(), name="bad")

    async def test_a_transaction_sees_its_own_events(self, opener: AsyncOpener) -> None:
        async with await opener() as store:

            def both(tx: Any) -> tuple[int, list[EventRecord]]:
                session = tx.session("a")
                session.emit("n.added", {"n": 2})
                session.emit("n.added", {"n": 3})
                return session.fold(total), session.events(emitted=True)

            added, events = await store.atomic(both)
            assert added == 5
            assert await (await store.session("a")).events(emitted=True) == events
