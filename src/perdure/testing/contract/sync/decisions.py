# Generated from testing/contract/aio/decisions.py by tools/unasync.py: edit that one.
"""The contract of decisions: outcomes, supersession, references in both directions, and those left open."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from perdure.errors import Conflict, Invalid, NotFound, TooLarge
from perdure.model.refs import Ref
from perdure.testing.openers import Opener
from perdure.testing.races import Race


class DecisionsContract:
    """What every store must do with decisions."""

    def test_a_decision_comes_back_as_it_was_made(self, opener: Opener) -> None:
        with opener(actor="architect") as store:
            session = store.session("s")
            task = session.task("t")
            made = session.decide(
                "Use approach A",
                because="B breaks Safari",
                then="patch auth.py",
                refs=[task],
                tags=["web", "auth"],
            )
            (listed,) = session.decisions()
            for known in (made, listed, session.decision(made.seq), made.refresh()):
                assert (known.text, known.because, known.then) == (
                    "Use approach A",
                    "B breaks Safari",
                    "patch auth.py",
                )
                assert (known.status, known.outcome, known.tags) == ("open", None, ("auth", "web"))
                assert (known.actor, known.session, known.refs) == ("architect", "s", (task.ref,))
                assert known.ref == Ref(session.uid, known.seq)
            assert made.record == listed.record

    def test_long_texts_come_back(self, opener: Opener) -> None:
        with opener() as store:
            session = store.session("s")
            made = session.decide("x" * 30_000, because="y" * 90_000, tags=["t"])
            assert (session.decision(made.seq)).record == made.record

    # -- outcomes --------------------------------------------------------------------------------------------

    def test_closing_says_what_came_of_it(self, opener: Opener) -> None:
        with opener() as store:
            session = store.session("s")
            decision, left = session.decide("a", because="b"), session.decide("c", because="d")
            decision.close("worked", note="on all browsers")
            assert (decision.status, decision.outcome, decision.note) == (
                "closed",
                "worked",
                "on all browsers",
            )
            assert (session.decision(decision.seq)).record == decision.record
            assert [each.seq for each in session.decisions(open=True)] == [left.seq]
            assert [each.seq for each in session.decisions(open=False)] == [decision.seq]
            decision.close("worked", note="on all browsers")  # again: the same
            with pytest.raises(Conflict) as refused:
                decision.close("failed")
            assert (refused.value.path, refused.value.facts["outcome"]) == ("decision", "worked")

    def test_of_two_outcomes_one_stands(self, opener: Opener) -> None:
        with opener() as a, opener() if opener.shared else a as b:
            one, other = a.session("s"), b.session("s")
            for _ in range(6):
                mine = one.decide("a", because="b")
                theirs = other.decision(mine.seq)
                outcomes = Race.between(partial(mine.close, "worked"), partial(theirs.close, "failed"))
                assert len(outcomes.won) == 1
                assert type(outcomes.refused[0]) is Conflict
                assert (one.decision(mine.seq)).outcome == outcomes.won[0].outcome

    # -- supersession ----------------------------------------------------------------------------------------

    def test_superseding_links_both(self, opener: Opener) -> None:
        with opener() as store:
            session = store.session("s")
            old = session.decide("a", because="b", tags=["t"])
            new = old.supersede("c", because="d", then="e")
            assert (old.status, old.superseded_by) == ("superseded", new.seq)
            assert (new.status, new.supersedes, new.tags, new.refs) == ("open", old.seq, ("t",), (old.ref,))
            for known in (old, new):
                assert (session.decision(known.seq)).record == known.record
            assert [each.seq for each in session.decisions(open=True)] == [new.seq]
            assert [reference.seq for reference in old.referred_by()] == [new.seq]
            with pytest.raises(Conflict) as refused:
                old.supersede("x", because="y")
            assert refused.value.facts["superseded_by"] == new.seq
            with pytest.raises(Conflict):
                old.close("worked")
            assert len(session.decisions()) == 2

    def test_a_closed_decision_may_be_superseded_and_keeps_its_outcome(self, opener: Opener) -> None:
        with opener() as store:
            session = store.session("s")
            old = session.decide("a", because="b")
            old.close("worked")
            new = old.supersede("c", because="times change", tags=["other"])
            assert (old.refresh()).outcome == "worked"
            assert (old.status, new.tags) == ("superseded", ("other",))

    def test_of_two_who_supersede_one_does(self, opener: Opener) -> None:
        with opener() as a, opener() if opener.shared else a as b:
            one, other = a.session("s"), b.session("s")
            for i in range(1, 7):
                mine = one.decide("a", because="b")
                theirs = other.decision(mine.seq)
                outcomes = Race.between(
                    partial(mine.supersede, "c", because="d"), partial(theirs.supersede, "e", because="f")
                )
                assert len(outcomes.won) == 1
                assert type(outcomes.refused[0]) is Conflict
                assert len(one.decisions(open=True)) == i
                assert (one.decision(mine.seq)).superseded_by == outcomes.won[0].seq

    # -- references ------------------------------------------------------------------------------------------

    def test_references_are_found_from_both_ends(self, opener: Opener) -> None:
        with opener(actor="alice") as store:
            session, other = store.session("s"), store.session("other")
            task = session.task("t")
            first = session.decide("a", because="b", refs=[task, task])
            second = other.decide("c", because="d", refs=[first, task.record, Ref("ab" * 16, 7)])
            assert first.refs == (task.ref,)
            assert second.refs == (first.ref, task.ref, Ref("ab" * 16, 7))
            found = session.referring(task)
            assert [(each.kind, each.session, each.seq) for each in found] == [
                ("decision.made", "s", first.seq),
                ("decision.made", "other", second.seq),
            ]
            assert (found[0].ref, found[0].actor) == (first.ref, "alice")
            assert [each.ref for each in first.referred_by()] == [second.ref]
            assert [each.ref for each in other.referring(Ref("ab" * 16, 7))] == [second.ref]
            assert second.referred_by() == []

    def test_references_come_in_pages(self, opener: Opener) -> None:
        with opener() as store:
            session = store.session("s")
            task = session.task("t")
            seqs = [(session.decide(f"d{i}", because="b", refs=[task])).seq for i in range(5)]
            page = session.referring(task, limit=3)
            rest = session.referring(task, limit=3, after=page.next)
            assert [each.seq for each in [*page, *rest]] == seqs
            assert rest.next is None

    def test_another_tenant_shows_no_references(self, opener: Opener) -> None:
        if not opener.shared:
            pytest.skip("a memory store has no second open")
        with opener(tenant="one") as a, opener(tenant="other") as b:
            task = (a.session("s")).task("t")
            spy = b.session("s")
            spy.decide("x", because="y", refs=[task.ref])
            assert (a.session("s")).referring(task) == []
            assert len(spy.referring(task.ref)) == 1
            assert [each.text for each in b.decisions()] == ["x"]
            assert a.decisions() == []

    # -- asking ----------------------------------------------------------------------------------------------

    def test_lists_go_on_where_they_ended(self, opener: Opener) -> None:
        with opener() as store:
            session = store.session("s")
            seqs = [(session.decide(f"d{i}", because="b", tags=["odd"] * (i % 2))).seq for i in range(7)]
            for listing in (session.decisions, store.decisions):
                seen, after = [], None
                while True:
                    page = listing(limit=3, after=after)
                    seen += [decision.seq for decision in page]
                    if page.next is None:
                        break
                    after = page.next
                assert seen == seqs[::-1]
                assert [decision.seq for decision in listing(tag="odd")] == seqs[5::-2]

    def test_asking_across_sessions(self, opener: Opener) -> None:
        with opener(actor="alice") as store:
            old = (store.session("a")).decide("old", because="x", tags=["x"])
            opener.clock.advance("2d")
            new = (store.as_("bob").session("b")).decide("new", because="y", tags=["x", "y"])
            new.close("worked")
            for options, wanted in (
                ({}, [new, old]),
                ({"status": "closed"}, [new]),
                ({"status": "open"}, [old]),
                ({"actor": "bob"}, [new]),
                ({"tag": "x"}, [new, old]),
                ({"tag": "y", "status": "open"}, []),
                ({"since": "1d"}, [new]),
                ({"until": "1d"}, [old]),
            ):
                found = store.decisions(**options)  # type: ignore[arg-type]
                assert [each.record for each in found] == [each.record for each in wanted]
            (found,) = store.decisions(status="open")
            assert (found.close("failed")).outcome == "failed"

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
    def test_bad_input_is_refused_with_its_path(
        self, opener: Opener, text: Any, options: dict[str, Any], error: type[Invalid], path: str
    ) -> None:
        with opener() as store:
            session = store.session("s")
            with pytest.raises(error) as refused:
                session.decide(text, **({"because": "b"} | options))
            assert (type(refused.value), refused.value.path) == (error, path)
            assert session.decisions() == []

    def test_bad_questions_are_refused_with_their_path(self, opener: Opener) -> None:
        with opener() as store:
            session = store.session("s")
            decision = session.decide("a", because="b")
            number: Any = "1"
            head = Ref(session.uid, 99)
            for asking, error, path in (
                (partial(session.decision, 99), NotFound, "decision"),
                (partial(session.decision, number), Invalid, "decision"),
                (partial(session.decisions, limit=0), Invalid, "limit"),
                (partial(session.decisions, after="x"), Invalid, "after"),
                (partial(store.decisions, after="x"), Invalid, "after"),
                (partial(store.decisions, status="done"), Invalid, "status"),
                (partial(store.decisions, since="yesterday"), Invalid, "since"),
                (partial(session.referring, "thing"), Invalid, "ref"),
                (partial(session.decide, "a", because="b", refs=[head]), NotFound, "refs[0]"),
                (partial(decision.close, ""), Invalid, "outcome"),
                (partial(decision.supersede, "", because="b"), Invalid, "text"),
            ):
                with pytest.raises(error) as refused:
                    asking()
                assert (type(refused.value), refused.value.path) == (error, path)
            assert (decision.refresh()).status == "open"

    @pytest.mark.parametrize("text", ["../../x", "'; DROP TABLE decisions; --", "<script>", "100% {x} %s", "решение ✓"])
    def test_hostile_texts_are_only_texts(self, opener: Opener, text: str) -> None:
        with opener() as store:
            session = store.session("s")
            (session.decide(text, because=text, then=text, tags=[text])).close(text, note=text)
            (found,) = store.decisions(tag=text)
            assert {found.text, found.because, found.then, found.outcome, found.note, *found.tags} == {text}

    # -- in one commit with others ---------------------------------------------------------------------------

    def test_atomic_sees_its_own_decisions(self, opener: Opener) -> None:
        def both(tx: Any) -> int:
            session = tx.session("s")
            old = session.decide("a", because="b", tags=["x"])
            new = old.supersede("c", because="d")
            assert [each.seq for each in session.decisions(tag="x")] == [new.seq, old.seq]
            assert [each.seq for each in old.referred_by()] == [new.seq]
            return new.seq

        with opener() as store:
            new = store.atomic(both)
            session = store.session("s")
            assert [each.seq for each in session.decisions(open=True)] == [new]
