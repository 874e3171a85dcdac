# Generated from testing/contract/aio/retention.py by tools/unasync.py: edit that one.
"""What every store promises about letting old state go: what is kept reads as before, from everywhere, and the chain holds."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from perdure.errors import Invalid, NotFound
from perdure.handles.sync.run import Run
from perdure.handles.sync.session import Session
from perdure.handles.sync.store import Store
from perdure.model.records.conversation import Call
from perdure.model.records.retention import Retention
from perdure.runtime.agent import agent
from perdure.testing.openers import Opener

EVERYTHING = Retention(checkpoints=1, turns=0)
BIG = "x" * 20_000


def talked(store: Store, name: str = "a", rounds: int = 6) -> Session:
    """A session with something in every plane, and a conversation of several rounds."""
    session = store.session(name, goal="Login works", labels=["prod"], pins={"model": "m-1"})
    session.say("system", "Be brief")
    for n in range(rounds):
        session.say("user", f"question {n}", key=f"m{n}")
        session.say("assistant", "Let me look", calls=[Call(f"c{n}", "grep", {"q": n}), Call(f"d{n}", "ls", {})])
        session.result(f"c{n}", {"hits": n, "text": BIG + str(n)})
        session.result(f"d{n}", "ok")
        session.say("assistant", f"answer {n}")
        session.checkpoint({"n": n, "big": BIG})
        session.set("round", n)
    decision = session.decide("Use A", because="B breaks", refs=[(session.turns(last=1))[0]], tags=["auth"])
    decision.close("worked")
    session.decide("Use Z", because="why not")
    task = session.task("Write the test", detail={"file": "t.py"})
    session.task("Run it", needs=[task])
    session.attach("build.log", BIG.encode(), media_type="text/plain")
    session.emit("deploy.begun", {"n": 1})
    return session


def kept(session: Session) -> dict[str, Any]:
    """What every read verb says, but for what a rule lets go."""
    return {
        "openai": session.transcript(format="openai"),
        "anthropic": session.transcript(format="anthropic"),
        "last": session.transcript(format="openai", last=3),
        "pending": session.pending(),
        "covers": session.covers(),
        "nested": session.covers(nested=True),
        "values": [replace(each, age=None) for each in session.entries()],
        "decisions": [each.record for each in session.decisions()],
        "tasks": [each.record for each in session.tasks()],
        "ready": [each.record for each in session.ready()],
        "restored": session.restore(),
        "newest": (session.checkpoints(limit=1))[0],
        "artifacts": [each.record for each in session.artifacts()],
        "content": [each.read() for each in session.artifacts()],
        "emitted": session.events(emitted=True),
        "folded": session.fold(lambda state, event: (state or 0) + event.data["n"]),
        "info": replace(session.info(), last_seq=0, last_at=None),
    }


def covered_upto(session: Session, turns: int) -> None:
    """Cover the first so many turns."""
    seqs = [turn.seq for turn in session.turns(after=0, limit=1000)]
    session.summarise(upto=seqs[turns - 1], text=f"the first {turns} turns")


class RetentionContract:
    """`retain`."""

    def test_what_is_kept_reads_as_before(self, opener: Opener) -> None:
        with opener() as store:
            session = talked(store)
            covered_upto(session, 21)
            before = kept(session)
            headers = [(event.seq, event.kind, event.actor, event.at) for event in session.events(limit=1000)]
            turns = session.turns(after=0, limit=1000)
            report = store.retain(EVERYTHING, dry_run=False)
            assert (report.checkpoints, report.turns) == (5, 19)  # the rule, and the ends of the summary stay
            assert kept(session) == before
            left = session.turns(after=0, limit=1000)
            assert left == [turn for turn in turns if turn.seq not in report.streams[0].turns]
            events = session.events(limit=1000)
            assert [(event.seq, event.kind, event.actor, event.at) for event in events][: len(headers)] == headers
            gone = {*report.streams[0].turns, *report.streams[0].checkpoints}
            assert {event.seq for event in events if event.emptied} == gone
            verified = store.verify()
            assert verified.ok, verified
            assert {each.seq for each in verified.unverifiable} == gone

    def test_a_dry_run_changes_nothing_and_says_exactly_what_goes(self, opener: Opener) -> None:
        with opener() as store:
            session = talked(store)
            covered_upto(session, 21)
            talked(store, "untouched", rounds=1)
            events = len(session.events(limit=1000))
            said = store.retain(EVERYTHING)
            assert said.dry_run
            assert len(session.events(limit=1000)) == events
            done = store.retain(EVERYTHING, dry_run=False)
            assert replace(said, dry_run=False) == done
            # Three results are blobs of their own; the other session has said the first one too.
            assert done.bytes > 3 * len(BIG)
            assert [(each.kind, each.name) for each in done.streams] == [("session", "a")]
            again = store.retain(EVERYTHING, dry_run=False)
            assert (again.streams, again.blobs, again.bytes) == ((), 0, 0)

    def test_each_rule_judges_what_was_there_before_any_was_applied(self, opener: Opener) -> None:
        with opener() as store:
            session = talked(store)
            for n in range(5):
                session.checkpoint(BIG + BIG[n:], name="large")  # without them the session is a small one
            covered_upto(session, 21)
            rules = [Retention(checkpoints=1), Retention(turns=0, larger_than=200_000)]
            said, done = store.retain(*rules), store.retain(*rules, dry_run=False)
            assert (said.checkpoints, said.turns) == (9, 19)
            assert replace(said, dry_run=False) == done

    def test_what_a_fork_sees_stays(self, opener: Opener) -> None:
        with opener() as store:
            session = talked(store)
            early = session.fork(at=16, name="early")  # before there was a summary
            covered_upto(session, 21)
            late = session.fork(name="late")
            before = [kept(each) for each in (early, late, session)]
            said = early.turns(after=0, limit=1000)
            report = store.retain(EVERYTHING, dry_run=False)
            assert report.turns > 0
            assert min(report.streams[0].turns) > 16
            assert [kept(each) for each in (early, late, session)] == before
            assert early.turns(after=0, limit=1000) == said
            assert (store.verify()).ok

    def test_a_call_whose_result_is_still_to_come_stays(self, opener: Opener) -> None:
        with opener() as store:
            session = store.session("a")
            session.say("user", "look")
            asked = session.say("assistant", "looking", calls=[Call("c", "grep", {}), Call("d", "ls", {})])
            session.result("c", "found")
            for n in range(4):
                session.say("user", f"question {n}")
                session.say("assistant", f"answer {n}")
            covered_upto(session, 10)
            fork = session.fork(name="fork")
            assert (store.retain(EVERYTHING, dry_run=False)).turns > 0
            assert (session.result("d", "late")).seq > asked.seq
            assert (store.retain(EVERYTHING, dry_run=False)).turns == 0  # the fork still waits for it
            assert (fork.result("d", "later still")).seq > asked.seq
            assert (store.verify()).ok

    def test_the_past_says_what_it_lacks(self, opener: Opener) -> None:
        with opener() as store:
            session = talked(store)
            upto = (session.events(limit=1000))[-1].seq
            covered_upto(session, 21)
            now = (session.events(limit=1000))[-1].seq
            whole = (session.at(now)).transcript()
            store.retain(EVERYTHING, dry_run=False)
            assert (session.at(now)).transcript() == whole
            for incomplete in (session.at(upto), session.fork(at=upto, name="since")):
                with pytest.raises(NotFound, match="were pruned since"):
                    incomplete.transcript()
            with pytest.raises(NotFound, match="19 turns"):
                session.transcript(full=True)

    def test_a_fork_made_there_since_waits_for_nothing_that_was_answered(self, opener: Opener) -> None:
        """Whoever does what is pending would do it again; once the fork has said something of its own, it is decided by that."""
        with opener() as store:
            session = store.session("a")
            session.say("assistant", calls=[Call("lost", "noop", {})])
            session.say("user", "never mind")
            done = session.say("assistant", "done")
            session.say("user", "more")
            session.say("assistant", "fine")
            last = session.say("user", "thanks")
            session.say("assistant", "bye")
            session.summarise(upto=last.seq, text="all of it")
            assert (session.at(done.seq)).pending() is None
            store.retain(EVERYTHING, dry_run=False)
            fork = session.fork(at=done.seq, name="since")
            for telling in (fork, session.at(done.seq)):
                with pytest.raises(NotFound, match="were pruned since"):
                    telling.pending()
            fork.say("assistant", "where were we?")
            said = fork.say("user", "at the end")
            pending = fork.pending()
            assert pending is not None
            assert pending.turn.seq == said.seq
            assert session.pending() is None

    def test_summaries_go_on_after_it(self, opener: Opener) -> None:
        with opener() as store:
            session = talked(store)
            covered_upto(session, 21)
            store.retain(EVERYTHING, dry_run=False)
            session.say("user", "more")
            last = session.say("assistant", "done")
            cover = session.summarise(upto=last.seq, text="everything")
            assert cover.first_seq == (session.turns(after=0, limit=1))[0].seq
            report = store.retain(Retention(turns=0), dry_run=False)
            assert report.turns > 0
            assert (session.pending()) is None
            assert (store.verify()).ok

    def test_by_age_count_label_and_size(self, opener: Opener) -> None:
        with opener() as store:
            old = talked(store, "old")
            covered_upto(old, 21)
            opener.clock.advance("10d")
            young = talked(store, "young")
            covered_upto(young, 21)
            young.label("hold")
            small = store.session("small")
            for n in range(3):
                small.checkpoint(n)

            def names(**rule: Any) -> set[str]:
                return {each.name for each in (store.retain(Retention(**rule))).streams}

            assert names(checkpoints=1, turns=0) == {"old", "young", "small"}
            assert names(checkpoints=1, older_than="5d") == {"old"}
            assert names(turns=0, older_than="5d") == {"old"}
            assert names(turns=0, older_than="20d") == set()
            assert names(checkpoints=3) == {"old", "young"}
            assert names(turns=30) == set()
            assert names(checkpoints=1, label="hold") == {"young"}
            assert names(checkpoints=1, except_label="hold") == {"old", "small"}
            assert names(checkpoints=1, larger_than=20_000) == {"old", "young"}
            rules = [Retention(checkpoints=1, label="hold"), Retention(turns=0, older_than="5d")]
            said, done = store.retain(*rules), store.retain(*rules, dry_run=False)
            assert [(each.name, len(each.checkpoints), len(each.turns)) for each in done.streams] == [
                ("old", 0, 19),
                ("young", 5, 0),
            ]
            assert replace(said, dry_run=False) == done

    def test_a_rule_that_is_none_is_refused(self, opener: Opener) -> None:
        with opener() as store:
            rules: list[Any] = [
                Retention(), Retention(checkpoints=0), Retention(turns=-1), Retention(turns=True), Retention(turns=0, label=""),
                Retention(turns=0, older_than="soon"), Retention(turns=0, larger_than=-1), "turns", None,
            ]  # fmt: skip
            for rule in rules:
                with pytest.raises(Invalid, match="rules"):
                    store.retain(rule, dry_run=False)
            with pytest.raises(Invalid, match="at least one rule"):
                store.retain()

    def test_a_run_in_flight_keeps_all_and_one_that_is_over_its_newest(self, opener: Opener) -> None:
        @agent(name="asks models")
        def asks(run: Run, rounds: int) -> int:
            for n in range(rounds):
                run.model(lambda messages: {"text": str(len(messages))}, [BIG] * n)
            if rounds == 3:
                run.wait("go")
            return rounds

        with opener() as store:
            over = store.start(asks, 2, key="over")
            store.drive(asks, 2, key="over")
            waits = store.start(asks, 3, key="waits")
            store.recover(agents=[asks])
            report = store.retain(Retention(checkpoints=1), dry_run=False)
            assert [(each.kind, each.name, len(each.checkpoints)) for each in report.streams] == [("run", over.id, 1)]
            waits.signal("go")
            assert store.drive(asks, 3, key="waits") == 3
            assert (over.refresh()).record.result == 2
            assert (store.verify()).ok
