"""The contract of decisions: outcomes, supersession, references in both directions, and those left open."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from perdure.errors import Conflict, Invalid, NotFound, TooLarge
from perdure.model.refs import Ref
from perdure_testing.openers import AsyncOpener
from perdure_testing.races import AsyncRace


class AsyncDecisionsContract:
    """The duties of every store with decisions."""

    async def test_a_decision_comes_back_as_it_was_made(self, opener: AsyncOpener) -> None:
        async with await opener(actor="architect") as store:
            session = await store.session("s")
            task = await session.task("t")
            decision = await session.decide(
                "Use approach A",
                because="B breaks Safari",
                then="patch auth.py",
                refs=[task],
                tags=["web", "auth"],
            )
            (listed,) = await session.decisions()
            for handle in (decision, listed, await session.decision(decision.seq), await decision.refresh()):
                assert (handle.text, handle.because, handle.then) == (
                    "Use approach A",
                    "B breaks Safari",
                    "patch auth.py",
                )
                assert (handle.status, handle.outcome, handle.tags) == ("open", None, ("auth", "web"))
                assert (handle.actor, handle.session, handle.refs) == ("architect", "s", (task.ref,))
                assert handle.ref == Ref(session.uid, handle.seq)
            assert decision.record == listed.record

    async def test_long_texts_come_back(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("s")
            decision = await session.decide("x" * 30_000, because="y" * 90_000, tags=["t"])
            assert (await session.decision(decision.seq)).record == decision.record

    # -- outcomes --------------------------------------------------------------------------------------------

    async def test_closing_says_what_came_of_it(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("s")
            decision, other = await session.decide("a", because="b"), await session.decide("c", because="d")
            await decision.close("worked", note="on all browsers")
            assert (decision.status, decision.outcome, decision.note) == (
                "closed",
                "worked",
                "on all browsers",
            )
            assert (await session.decision(decision.seq)).record == decision.record
            assert [decision.seq for decision in await session.decisions(open=True)] == [other.seq]
            assert [decision.seq for decision in await session.decisions(open=False)] == [decision.seq]
            await decision.close("worked", note="on all browsers")  # again: the same
            with pytest.raises(Conflict) as refused:
                await decision.close("failed")
            assert (refused.value.path, refused.value.facts["outcome"]) == ("decision", "worked")

    async def test_of_two_outcomes_one_stands(self, opener: AsyncOpener) -> None:
        async with await opener() as a, await opener() if opener.shared else a as b:
            one, other = await a.session("s"), await b.session("s")
            for _ in range(6):
                mine = await one.decide("a", because="b")
                theirs = await other.decision(mine.seq)
                outcomes = await AsyncRace.between(partial(mine.close, "worked"), partial(theirs.close, "failed"))
                assert len(outcomes.won) == 1
                assert type(outcomes.refused[0]) is Conflict
                assert (await one.decision(mine.seq)).outcome == outcomes.won[0].outcome

    # -- supersession ----------------------------------------------------------------------------------------

    async def test_superseding_links_both(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("s")
            old = await session.decide("a", because="b", tags=["t"])
            new = await old.supersede("c", because="d", then="e")
            assert (old.status, old.superseded_by) == ("superseded", new.seq)
            assert (new.status, new.supersedes, new.tags, new.refs) == ("open", old.seq, ("t",), (old.ref,))
            for handle in (old, new):
                assert (await session.decision(handle.seq)).record == handle.record
            assert [decision.seq for decision in await session.decisions(open=True)] == [new.seq]
            assert [reference.seq for reference in await old.referred_by()] == [new.seq]
            with pytest.raises(Conflict) as refused:
                await old.supersede("x", because="y")
            assert refused.value.facts["superseded_by"] == new.seq
            with pytest.raises(Conflict):
                await old.close("worked")
            assert len(await session.decisions()) == 2

    async def test_a_closed_decision_may_be_superseded_and_keeps_its_outcome(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("s")
            old = await session.decide("a", because="b")
            await old.close("worked")
            new = await old.supersede("c", because="times change", tags=["other"])
            assert (await old.refresh()).outcome == "worked"
            assert (old.status, new.tags) == ("superseded", ("other",))

    async def test_a_decision_is_dated(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("s")
            first = await session.decide("A", because="b")
            assert (first.changed_at, first.closed_at) == (first.at, None)
            opener.clock.advance("1m")
            await first.close("worked")
            closed_at = first.at + timedelta(minutes=1)
            assert first.closed_at == first.changed_at == closed_at
            opener.clock.advance("1m")
            second = await first.supersede("B", because="c")
            assert (first.closed_at, first.changed_at) == (closed_at, second.at)
            assert first.record == (await session.decisions())[1].record
            third = await second.supersede("C", because="d")
            assert second.closed_at == third.at

    async def test_of_two_who_supersede_one_does(self, opener: AsyncOpener) -> None:
        async with await opener() as a, await opener() if opener.shared else a as b:
            one, other = await a.session("s"), await b.session("s")
            for i in range(1, 7):
                mine = await one.decide("a", because="b")
                theirs = await other.decision(mine.seq)
                outcomes = await AsyncRace.between(
                    partial(mine.supersede, "c", because="d"), partial(theirs.supersede, "e", because="f")
                )
                assert len(outcomes.won) == 1
                assert type(outcomes.refused[0]) is Conflict
                assert len(await one.decisions(open=True)) == i
                assert (await one.decision(mine.seq)).superseded_by == outcomes.won[0].seq

    # -- references ------------------------------------------------------------------------------------------

    async def test_references_are_found_from_both_ends(self, opener: AsyncOpener) -> None:
        async with await opener(actor="alice") as store:
            session, other = await store.session("s"), await store.session("other")
            task = await session.task("t")
            first = await session.decide("a", because="b", refs=[task, task])
            second = await other.decide("c", because="d", refs=[first, task.record, Ref("ab" * 16, 7)])
            assert first.refs == (task.ref,)
            assert second.refs == (first.ref, task.ref, Ref("ab" * 16, 7))
            references = await session.referring(task)
            assert [(reference.kind, reference.session, reference.seq) for reference in references] == [
                ("decision.made", "s", first.seq),
                ("decision.made", "other", second.seq),
            ]
            assert (references[0].ref, references[0].actor) == (first.ref, "alice")
            assert [reference.ref for reference in await first.referred_by()] == [second.ref]
            assert [reference.ref for reference in await other.referring(Ref("ab" * 16, 7))] == [second.ref]
            assert await second.referred_by() == []

    async def test_references_come_in_pages(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("s")
            task = await session.task("t")
            seqs = [(await session.decide(f"d{i}", because="b", refs=[task])).seq for i in range(5)]
            page = await session.referring(task, limit=3)
            rest = await session.referring(task, limit=3, after=page.next)
            assert [row.seq for row in [*page, *rest]] == seqs
            assert rest.next is None

    async def test_another_tenant_shows_no_references(self, opener: AsyncOpener) -> None:
        if not opener.shared:
            pytest.skip("a memory store has no second open")
        async with await opener(tenant="one") as a, await opener(tenant="other") as b:
            task = await (await a.session("s")).task("t")
            spy = await b.session("s")
            await spy.decide("x", because="y", refs=[task.ref])
            assert await (await a.session("s")).referring(task) == []
            assert len(await spy.referring(task.ref)) == 1
            assert [decision.text for decision in await b.decisions()] == ["x"]
            assert await a.decisions() == []

    # -- asking ----------------------------------------------------------------------------------------------

    async def test_lists_go_on_where_they_ended(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("s")
            seqs = [(await session.decide(f"d{i}", because="b", tags=["odd"] * (i % 2))).seq for i in range(7)]
            for listing in (session.decisions, store.decisions):
                listed, after = [], None
                while True:
                    page = await listing(limit=3, after=after)
                    listed += [decision.seq for decision in page]
                    if page.next is None:
                        break
                    after = page.next
                assert listed == seqs[::-1]
                assert [decision.seq for decision in await listing(tag="odd")] == seqs[5::-2]

    async def test_asking_across_sessions(self, opener: AsyncOpener) -> None:
        async with await opener(actor="alice") as store:
            old = await (await store.session("a")).decide("old", because="x", tags=["x"])
            opener.clock.advance("2d")
            new = await (await store.as_("bob").session("b")).decide("new", because="y", tags=["x", "y"])
            await new.close("worked")
            for options, expected in (
                ({}, [new, old]),
                ({"status": "closed"}, [new]),
                ({"status": "open"}, [old]),
                ({"actor": "bob"}, [new]),
                ({"tag": "x"}, [new, old]),
                ({"tag": "y", "status": "open"}, []),
                ({"since": "1d"}, [new]),
                ({"until": "1d"}, [old]),
            ):
                listed = await store.decisions(**options)  # type: ignore[arg-type]
                assert [row.record for row in listed] == [row.record for row in expected]
            (listed,) = await store.decisions(status="open")
            assert (await listed.close("failed")).outcome == "failed"

    # -- refusals --------------------------------------------------------------------------------------------

    @pytest.mark.parametrize(
        ("text", "options", "error", "path"),
        [
            ("", {}, Invalid, "text"),
            (" \n", {}, Invalid, "text"),
            ("a\0", {}, Invalid, "text"),
            (None, {}, Invalid, "text"),
            ("a" * 100_001, {}, TooLarge, "text"),
            ("a", {"because": ""}, Invalid, "because"),
            ("a", {"then": 7}, Invalid, "then"),
            ("a", {"tags": "abc"}, Invalid, "tags"),
            ("a", {"tags": ["ok", "n\no"]}, Invalid, "tags[1]"),
            ("a", {"refs": ["task 1"]}, Invalid, "refs[0]"),
            ("a", {"refs": 3}, Invalid, "refs"),
            ("a", {"refs": [Ref("nonsense", 1)]}, Invalid, "refs[0]"),
            ("a", {"refs": [Ref("ab" * 16, 0)]}, NotFound, "refs[0]"),
            ("a", {"refs": [Ref("ab" * 16, 2**70)]}, NotFound, "refs[0]"),
            ("a", {"refs": [Ref("ab" * 16, 1)] * 257}, TooLarge, "refs"),
        ],
    )
    async def test_bad_input_is_refused_with_its_path(
        self, opener: AsyncOpener, text: Any, options: dict[str, Any], error: type[Invalid], path: str
    ) -> None:
        async with await opener() as store:
            session = await store.session("s")
            with pytest.raises(error) as refused:
                await session.decide(text, **({"because": "b"} | options))
            assert (type(refused.value), refused.value.path) == (error, path)
            assert await session.decisions() == []

    async def test_bad_questions_are_refused_with_their_path(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("s")
            decision = await session.decide("a", because="b")
            number: Any = "1"
            head = Ref(session.uid, 99)
            for asking, error, path in (
                (partial(session.decision, 99), NotFound, "decision"),
                (partial(session.decision, number), Invalid, "decision"),
                (partial(session.decisions, limit=0), Invalid, "limit"),
                (partial(session.decisions, after="x"), Invalid, "after"),
                (partial(store.decisions, after="x"), Invalid, "after"),
                (partial(store.decisions, status="done"), Invalid, "status"),  # type: ignore[arg-type]
                (partial(store.decisions, since="yesterday"), Invalid, "since"),
                (partial(session.referring, "thing"), Invalid, "ref"),
                (partial(session.decide, "a", because="b", refs=[head]), NotFound, "refs[0]"),
                (partial(decision.close, ""), Invalid, "outcome"),
                (partial(decision.supersede, "", because="b"), Invalid, "text"),
            ):
                with pytest.raises(error) as refused:
                    await asking()
                assert (type(refused.value), refused.value.path) == (error, path)
            assert (await decision.refresh()).status == "open"

    @pytest.mark.parametrize("text", ["../../x", "'; DROP TABLE decisions; --", "<script>", "100% {x} %s", "решение ✓"])
    async def test_hostile_texts_are_only_texts(self, opener: AsyncOpener, text: str) -> None:
        async with await opener() as store:
            session = await store.session("s")
            await (await session.decide(text, because=text, then=text, tags=[text])).close(text, note=text)
            (decision,) = await store.decisions(tag=text)
            assert {
                decision.text,
                decision.because,
                decision.then,
                decision.outcome,
                decision.note,
                *decision.tags,
            } == {text}

    # -- in one commit with others ---------------------------------------------------------------------------

    async def test_atomic_sees_its_own_decisions(self, opener: AsyncOpener) -> None:
        def both(tx: Any) -> int:
            session = tx.session("s")
            old = session.decide("a", because="b", tags=["x"])
            new = old.supersede("c", because="d")
            assert [decision.seq for decision in session.decisions(tag="x")] == [new.seq, old.seq]
            assert [reference.seq for reference in old.referred_by()] == [new.seq]
            return new.seq

        async with await opener() as store:
            new = await store.atomic(both)
            session = await store.session("s")
            assert [decision.seq for decision in await session.decisions(open=True)] == [new]
