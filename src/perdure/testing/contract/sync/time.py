# Generated from testing/contract/aio/time.py by tools/unasync.py: edit that one.
"""The contract of time travel and forks."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from msgspec.structs import replace

from perdure.errors import Conflict, Invalid, ReadOnly
from perdure.handles.sync.run import Run
from perdure.handles.sync.session import Session
from perdure.handles.sync.store import Store
from perdure.model.instants import to_datetime
from perdure.model.records.conversation import Call, Origin
from perdure.model.records.differences import How
from perdure.runtime.agent import agent
from perdure.testing.openers import Opener
from perdure.testing.races import Race

BIG = "x" * 100_000


def lived_in(store: Store, name: str = "a") -> Session:
    """A session with something in every plane."""
    session = store.session(name, title="Fix login", labels=["prod"], goal="Login works", pins={"model": "m-1"})
    turn = session.say("user", "Login fails", key="m1")
    session.say("assistant", "Let me look", calls=[Call("c1", "grep", {"q": "Safari"})])
    session.set("branch", "fix-1")
    session.set("gone", 1)
    session.delete("gone")
    decision = session.decide("Use A", because="B breaks", then="patch", refs=[turn], tags=["auth"])
    session.decide("Use Z", because="why not")
    decision.close("worked", "well")
    task = session.task("Write the test", detail={"file": "t.py"}, labels=["x"])
    other = session.task("Run it", needs=[task])
    task.claim()
    session.checkpoint({"cursor": 7, "big": BIG})
    session.attach("build.log", BIG.encode(), media_type="text/plain")
    session.emit("deploy.begun", {"n": 1})
    other.block("waits for CI")
    effect = session.begin("open_pr", {"repo": "acme/api"}, kind="keyed", key="pr-42")
    effect.dispatch()
    effect.commit({"number": 7})
    session.summarise(upto=turn.seq, text="Login fails")
    return session


def claims(session: Session) -> list[Any]:
    """Who holds what, and what may be begun: a fork leaves this behind, the past does not."""
    ready = [task.id for task in session.ready()]
    return [(t.id, t.status, t.claimed_by, t.record.abandoned) for t in session.tasks()] + ready


def facts(session: Session) -> dict[str, Any]:
    """What the read verbs say, but for what a fork changes about itself."""
    return {
        "turns": [replace(turn, ref=None) for turn in session.turns(last=50)],
        "transcript": session.transcript(format="openai"),
        "pending": getattr(session.pending(), "calls", None),
        "branch": session.get("branch"),
        "gone": session.get("gone", "none"),
        "decisions": [
            (d.seq, d.text, d.because, d.then, d.status, d.outcome, d.note, d.tags, d.refs) for d in session.decisions()
        ],
        "tasks": sorted((t.id, t.title, t.detail, t.note, t.needs, t.labels, t.actor, t.at) for t in session.tasks()),
        "restored": session.restore(),
        "checkpoints": [(c.seq, c.name, c.hash) for c in session.checkpoints()],
        "artifacts": [(a.seq, a.name, a.hash) for a in session.artifacts()],
        "entries": [(e.name, e.value, e.version, e.updated_at) for e in session.entries()],
        "covers": [replace(cover, ref=None) for cover in session.covers(nested=True)],
        "effects": [(e.record.seq, e.tool, e.state, e.record.result) for e in session.effects()],
        "emitted": [event.data for event in session.events(emitted=True)],
        "artifact": (session.artifact("build.log")).read(),
        "folded": session.fold(lambda state, event: (state or 0) + event.data["n"]),
        "goal": session.get_goal(),
        "pins": session.pins(),
        "labels": (session.info()).labels,
    }


def last_seq(session: Session) -> int:
    """The sequence number of the last event."""
    return (session.events(limit=1000))[-1].seq


class TimeContract:
    """`at` and `fork`."""

    def test_the_past_reads_as_it_was_and_cannot_be_written(self, opener: Opener) -> None:
        with opener() as store:
            session = lived_in(store)
            before, seq, held = facts(session), last_seq(session), claims(session)
            session.say("user", "And now?")
            session.set("branch", "fix-2")
            session.set_goal("Something else")
            session.emit("deploy.finished", {"n": 10})
            (session.decisions())[0].close("failed")
            then = session.at(seq)
            assert facts(then) == before
            assert claims(then) == held
            assert (facts(session)) != before
            assert then.events(limit=1000) == (session.events(limit=1000))[:seq]
            assert (then.name, then.uid) == (session.name, session.uid)
            writes: list[Callable[[], Any]] = [
                lambda: then.say("user", "x"),
                lambda: then.set("a", 1),
                lambda: then.emit("a.b"),
                lambda: then.fork(name="f"),
                lambda: then.decide("a", because="b"),
                lambda: then.attach("x", b"y"),
                lambda: then.checkpoint({}),
            ]
            for write in writes:
                with pytest.raises(ReadOnly):
                    write()

    def test_every_point_of_the_past_can_be_read(self, opener: Opener) -> None:
        with opener() as store:
            session = lived_in(store)
            for seq in range(1, last_seq(session) + 1):
                then = session.at(seq)
                assert [event.seq for event in then.events(limit=1000)] == list(range(1, seq + 1))
                then.turns(last=10)
                then.decisions()

    def test_the_past_at_an_instant_or_an_age(self, opener: Opener) -> None:
        with opener() as store:
            session = store.session("a")
            first = session.emit("a.b")
            session.set("short", 1, ttl="10m")
            opener.clock.advance("1h")
            second = session.emit("a.b")
            assert session.get("short") is None
            for moment in (first.at, "30m", timedelta(minutes=30)):
                then = session.at(moment)
                assert then.events(emitted=True) == [first]
            assert (session.at(first.at)).get("short") == 1  # it had not expired then
            assert (session.at("30m")).get("short") is None
            assert (session.at(second.at)).events(emitted=True) == [first, second]

    def test_a_scope_and_a_run_as_they_were(self, opener: Opener) -> None:
        @agent(name="waits twice")
        def waits(run: Run) -> int:
            first = run.step(lambda: 1)
            return first + run.wait("go")

        with opener() as store:
            scope = store.scope("user:alice")
            scope.set("x", 1)
            opener.clock.advance("1h")
            scope.set("x", 2)
            assert (scope.at("30m")).get("x") == 1
            with pytest.raises(ReadOnly):
                (scope.at("30m")).set("x", 3)
            handle = store.start(waits, key="w")
            store.recover(agents=[waits])
            waiting = handle.refresh()
            seq = (handle.timeline())[-1].seq
            handle.signal("go", 41)
            assert store.drive(waits, key="w") == 42
            then = handle.at(seq)
            assert then.record == waiting.record
            assert ([step.value for step in then.steps()], len(then.waits())) == ([1], 1)
            assert (handle.refresh()).record.result == 42
            with pytest.raises(ReadOnly):
                then.signal("go", 1)

    def test_a_moment_that_is_none_is_refused(self, opener: Opener) -> None:
        with opener() as store:
            session = store.session("a")
            last = last_seq(session)
            for moment in (0, -1, last + 1, 2**70, "10d", "soon", True, None, 1.5):
                with pytest.raises(Invalid) as refused:
                    session.at(moment if moment is not None else "")  # type: ignore[arg-type]
                assert refused.value.path == "at"
                if moment is not None:
                    with pytest.raises(Invalid) as refused:
                        session.fork(at=moment, name="f")  # type: ignore[arg-type]
                    assert refused.value.path == "at"
            assert len(store.sessions()) == 1

    def test_a_moment_that_has_not_come_is_refused(self, opener: Opener) -> None:
        with opener() as store:
            session = store.session("a")
            now = to_datetime(opener.clock())
            assert (session.at(now + timedelta(seconds=30))).info() == session.info()  # clocks differ
            for moment in (now + timedelta(minutes=2), "2099-01-01"):
                for ask in (session.at, (store.scope("s")).at, partial(session.fork, name="f")):
                    with pytest.raises(Invalid, match="has not come yet") as refused:
                        ask(moment)
                    assert (refused.value.path, "leave it out" in refused.value.hint) == ("at", True)
            then = session.at(now)
            opener.clock.advance("1h")
            with pytest.raises(Invalid, match="has not come yet"):
                then.at(to_datetime(opener.clock()))  # there, time stands still
            event = session.emit("a.b")
            opener.clock.now_us -= 3_600_000_000  # it was wrong, and is set back: its instants have names all the same
            assert (session.at(event.at)).events(emitted=True) == [event]

    def test_a_fork_begins_as_its_parent_is(self, opener: Opener) -> None:
        with opener() as store:
            session = lived_in(store)
            before = facts(session)
            seq = last_seq(session)
            fork = store.as_("bob").session("unrelated")
            fork = session.fork(name="try-b")
            assert facts(fork) == before
            assert (fork.info()).name == "try-b"
            assert fork.events(limit=seq) == session.events(limit=seq)
            (forked,) = fork.events(after=seq, limit=1)
            assert (forked.seq, forked.kind) == (seq + 1, "session.forked")
            assert (forked.data["parent"], forked.data["seq"]) == (session.uid, seq)
            again = store.session("try-b")
            assert (again.uid, facts(again)) == (fork.uid, before)
            assert [t.status for t in fork.tasks() if t.title == "Write the test"] == ["todo"]  # nobody holds it

    def test_a_fork_and_its_parent_go_on_apart(self, opener: Opener) -> None:
        with opener() as store:
            session = lived_in(store)
            fork = session.fork(name="try-b")
            before, shared = facts(session), facts(fork)
            fork.result("c1", {"hits": 3})
            fork.say("user", "in the fork", key="m2")
            fork.set("branch", "other")
            fork.checkpoint({"cursor": 8})
            fork.set_goal("Another goal")
            fork.emit("deploy.begun", {"n": 100})
            open_one = (fork.decisions())[0]
            open_one.supersede("Use Y", because="Z is old")
            (fork.ready())[0].claim()
            assert facts(session) == before
            session.say("user", "in the parent", key="m2")
            session.set("branch", "parent")
            after = facts(fork)
            assert (after["branch"], after["goal"], after["folded"]) == ("other", "Another goal", 101)
            assert [turn.content for turn in after["turns"]][-1] == "in the fork"
            assert len(after["turns"]) == len(shared["turns"]) + 2
            assert after["restored"] == {"cursor": 8}

    def test_a_fork_from_before_knows_nothing_of_what_came_after(self, opener: Opener) -> None:
        with opener() as store:
            session = store.session("a")
            session.set("x", 1)
            turn = session.say("user", "one", key="k")
            session.say("user", "two")
            session.set("x", 2)
            session.close()
            fork = session.fork(at=turn.seq, name="f")
            assert fork.get("x") == 1
            assert [t.content for t in fork.turns(last=9)] == ["one"]
            assert fork.get_status() == "active"
            entry = fork.set("x", 3, expect=1)
            assert entry.version == 2
            assert (fork.say("user", "one", key="k")).seq == turn.seq  # the same key: the same turn

    def test_forks_of_forks(self, opener: Opener) -> None:
        with opener() as store:
            root = lived_in(store)
            before = facts(root)
            seq = last_seq(root)
            one = root.fork(name="one")
            opened = last_seq(one)
            one.say("user", "first")
            one.set("branch", "one")
            two = one.fork(name="two")
            two.say("user", "second")
            three = two.fork(at=seq, name="three")  # a point that lies in the root
            assert facts(three) == before
            assert [t.content for t in two.turns(last=2)] == ["first", "second"]
            assert two.get("branch") == "one"
            assert facts(two.at(seq)) == before
            for inside in range(seq, opened + 1):  # while `one` was still restating, it was where the root was
                assert facts(one.at(inside)) == before
            assert facts(one.fork(at=seq + 1, name="four")) == before
            assert [e.seq for e in two.events(limit=1000)] == list(range(1, last_seq(two) + 1))

    def test_a_fork_needs_a_name_of_its_own(self, opener: Opener) -> None:
        with opener() as store:
            session = store.session("a")
            session.fork(name="'; -- ../<b>")
            for taken in ("a", "'; -- ../<b>"):
                with pytest.raises(Conflict) as refused:
                    session.fork(name=taken)
                assert refused.value.path == "name"
            with pytest.raises(Invalid, match="name"):
                session.fork(name="")
            assert len(store.sessions()) == 2

    def test_of_two_forks_of_one_name_one_wins(self, opener: Opener) -> None:
        with opener() as a, opener() if opener.shared else a as b:
            one, other = a.session("s"), b.session("s")
            for n in range(4):
                outcomes = Race.between(partial(one.fork, name=f"f{n}"), partial(other.fork, name=f"f{n}"))
                assert len(outcomes.won) == 1
                assert [type(error) for error in outcomes.refused] == [Conflict]

    def test_forks_are_verified(self, opener: Opener) -> None:
        with opener() as store:
            session = lived_in(store)
            fork = session.fork(name="f")
            fork.say("user", "on")
            (fork.fork(name="g")).set("branch", 2)
            report = store.verify()
            assert report.ok, report

    def test_a_fork_inside_a_transaction(self, opener: Opener) -> None:
        with opener() as store:

            def both(tx: Any) -> list[Any]:
                session = tx.session("a")
                session.set("x", 1)
                fork = session.fork(name="f").fork(name="g")
                session.set("x", 2)
                return [fork.get("x"), session.at(2).get("x"), session.get("x")]

            assert store.atomic(both) == [1, 1, 2]
            assert (store.session("g")).get("x") == 1

    def test_a_fork_costs_little(self, opener: Opener) -> None:
        with opener() as store:
            session = store.session("a")
            session.set("x", 1)
            for n in range(20):
                session.say("user", f"{n} " + "y" * 2000)
            seq = last_seq(session)
            fork = session.fork(name="f")
            added = fork.events(after=seq)
            assert sum(len(str(event.body)) for event in added) < 1000
            assert len(added) == 2

    def test_a_fork_says_what_it_went_on_from(self, opener: Opener) -> None:
        with opener() as store:
            session = lived_in(store)
            fork = session.fork(3, name="f")
            assert session.origin() is None
            assert fork.origin() == Origin(session.name, session.uid, 3)
            assert (fork.at(last_seq(fork))).origin() == Origin(session.name, session.uid, 3)

    def test_what_differs_between_two_points(self, opener: Opener) -> None:
        with opener() as store:
            session = lived_in(store)
            then = session.at(last_seq(session))
            assert (then.diff(session)).same
            assert (session.diff(session)).same
            session.set("branch", 2)
            session.set("new", None)
            session.set_goal("Another goal")
            said = session.say("user", "And now?")
            (decision,) = session.decisions(open=True)
            decision.close("failed")
            (session.tasks(status="blocked"))[0].unblock()
            session.task("Ship it")
            session.checkpoint({"cursor": 8})
            found = then.diff(session)
            assert [(d.how, d.name, d.before, d.after) for d in found.values] == [
                (How.CHANGED, "branch", "fix-1", 2),
                (How.ADDED, "new", None, None),
            ]
            assert [(d.name, d.after) for d in found.about] == [("goal", "Another goal")]
            assert [turn.seq for turn in found.turns_added] == [said.seq]
            assert [(d.how, d.after["status"]) for d in found.decisions] == [(How.CHANGED, "closed")]
            assert [(d.how, d.after["status"]) for d in found.tasks] == [(How.CHANGED, "todo"), (How.ADDED, "todo")]
            assert [(d.how, d.name) for d in found.checkpoints] == [(How.CHANGED, "default")]
            back = session.diff(then)
            assert [turn.seq for turn in back.turns_removed] == [said.seq]
            assert (back.turns_added, [d.how for d in back.values]) == ((), [How.CHANGED, How.REMOVED])

    def test_what_differs_between_a_session_and_its_fork(self, opener: Opener) -> None:
        with opener() as store:
            session = lived_in(store)
            fork = session.fork(name="f")
            assert [d.how for d in (session.diff(fork)).tasks] == [How.CHANGED]  # nobody holds anything in a fork
            mine, theirs = session.say("user", "here"), fork.say("user", "there")
            fork.set("branch", "fix-2")
            found = session.diff(fork)
            assert ([t.seq for t in found.turns_removed], [t.seq for t in found.turns_added]) == (
                [mine.seq],
                [theirs.seq],
            )
            assert [(d.before, d.after) for d in found.values] == [("fix-1", "fix-2")]
            assert (found.decisions, found.checkpoints, found.artifacts) == ((), (), ())
            other = lived_in(store, "other")
            strangers = session.diff(other)
            assert (strangers.values, strangers.decisions, strangers.checkpoints, strangers.tasks) == ((), (), (), ())
            assert len(strangers.turns_added) == len(other.turns(last=50))
            with pytest.raises(Invalid, match="other"):
                session.diff("f")  # type: ignore[arg-type]
