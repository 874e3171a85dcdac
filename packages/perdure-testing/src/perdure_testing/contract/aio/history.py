"""The contract of time travel and forks."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from msgspec.structs import replace

from perdure.errors import Conflict, Invalid, ReadOnly
from perdure.handles.aio.run import AsyncRun
from perdure.handles.aio.session import AsyncSession
from perdure.handles.aio.store import AsyncStore
from perdure.model.instants import to_datetime
from perdure.model.records.conversation import Call, Origin
from perdure.model.records.differences import How
from perdure.runtime.agent import agent
from perdure_testing.openers import AsyncOpener
from perdure_testing.races import AsyncRace

BIG = "x" * 100_000


async def lived_in(store: AsyncStore, name: str = "a") -> AsyncSession:
    """A session with something in every plane."""
    session = await store.session(name, title="Fix login", labels=["prod"], goal="Login works", pins={"model": "m-1"})
    turn = await session.say("user", "Login fails", key="m1")
    await session.say("assistant", "Let me look", calls=[Call("c1", "grep", {"q": "Safari"})])
    await session.set("branch", "fix-1")
    await session.set("gone", 1)
    await session.unset("gone")
    decision = await session.decide("Use A", because="B breaks", then="patch", refs=[turn], tags=["auth"])
    await session.decide("Use Z", because="why not")
    await decision.close("worked", "well")
    task = await session.task("Write the test", detail={"file": "t.py"}, labels=["x"])
    other = await session.task("Run it", needs=[task])
    await task.claim()
    await session.checkpoint({"cursor": 7, "big": BIG})
    await session.attach("build.log", BIG.encode(), media_type="text/plain")
    await session.emit("deploy.begun", {"n": 1})
    await other.block("waits for CI")
    effect = await session.begin("open_pr", {"repo": "acme/api"}, kind="keyed", key="pr-42")
    await effect.dispatch()
    await effect.commit({"number": 7})
    await session.summarise(upto=turn.seq, text="Login fails")
    return session


async def claims(session: AsyncSession) -> list[Any]:
    """The holders and the tasks that may be begun: a fork leaves this behind, the past does not."""
    ready = [task.id for task in await session.ready()]
    return [(t.id, t.status, t.claimed_by, t.record.abandoned) for t in await session.tasks()] + ready


async def facts(session: AsyncSession) -> dict[str, Any]:
    """The answers of the read verbs, but for what a fork changes about itself."""
    return {
        "turns": [replace(turn, ref=None) for turn in await session.turns(last=50)],
        "transcript": await session.transcript(format="openai"),
        "pending": getattr(await session.pending(), "calls", None),
        "branch": await session.get("branch"),
        "gone": await session.get("gone", "none"),
        "decisions": [
            (d.seq, d.text, d.because, d.then, d.status, d.outcome, d.note, d.tags, d.refs)
            for d in await session.decisions()
        ],
        "tasks": sorted(
            (t.id, t.title, t.detail, t.note, t.needs, t.labels, t.actor, t.at) for t in await session.tasks()
        ),
        "restored": await session.restore(),
        "checkpoints": [(c.seq, c.name, c.hash) for c in await session.checkpoints()],
        "artifacts": [(a.seq, a.name, a.hash) for a in await session.artifacts()],
        "entries": [(e.name, e.value, e.version, e.updated_at) for e in await session.entries()],
        "covers": [replace(cover, ref=None) for cover in await session.covers(nested=True)],
        "effects": [(e.record.seq, e.tool, e.state, e.record.result) for e in await session.effects()],
        "emitted": [event.data for event in await session.events(emitted=True)],
        "artifact": await (await session.artifact("build.log")).read(),
        "folded": await session.fold(lambda state, event: (state or 0) + event.data["n"]),
        "goal": await session.get_goal(),
        "pins": await session.pins(),
        "labels": (await session.info()).labels,
    }


async def last_seq(session: AsyncSession) -> int:
    """The sequence number of the last event."""
    return (await session.events(limit=1000))[-1].seq


class AsyncTimeContract:
    """`at` and `fork`."""

    async def test_the_past_reads_as_it_was_and_cannot_be_written(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await lived_in(store)
            before, seq, held = await facts(session), await last_seq(session), await claims(session)
            await session.say("user", "And now?")
            await session.set("branch", "fix-2")
            await session.set_goal("Something else")
            await session.emit("deploy.finished", {"n": 10})
            await (await session.decisions())[0].close("failed")
            then = await session.at(seq)
            assert await facts(then) == before
            assert await claims(then) == held
            assert (await facts(session)) != before
            assert await then.events(limit=1000) == (await session.events(limit=1000))[:seq]
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
                    await write()

    async def test_every_point_of_the_past_can_be_read(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await lived_in(store)
            for seq in range(1, await last_seq(session) + 1):
                then = await session.at(seq)
                assert [event.seq for event in await then.events(limit=1000)] == list(range(1, seq + 1))
                await then.turns(last=10)
                await then.decisions()

    async def test_the_past_at_an_instant_or_an_age(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("a")
            first = await session.emit("a.b")
            await session.set("short", 1, ttl="10m")
            opener.clock.advance("1h")
            second = await session.emit("a.b")
            assert await session.get("short") is None
            for moment in (first.at, "30m", timedelta(minutes=30)):
                then = await session.at(moment)
                assert await then.events(emitted=True) == [first]
            assert await (await session.at(first.at)).get("short") == 1  # it had not expired then
            assert await (await session.at("30m")).get("short") is None
            assert await (await session.at(second.at)).events(emitted=True) == [first, second]

    async def test_a_scope_and_a_run_as_they_were(self, opener: AsyncOpener) -> None:
        @agent(name="waits twice")
        async def waits(run: AsyncRun) -> int:
            first = await run.step(lambda: 1)
            return first + await run.wait("go")

        async with await opener() as store:
            scope = await store.scope("user:alice")
            await scope.set("x", 1)
            opener.clock.advance("1h")
            await scope.set("x", 2)
            assert await (await scope.at("30m")).get("x") == 1
            with pytest.raises(ReadOnly):
                await (await scope.at("30m")).set("x", 3)
            handle = await store.start(waits, key="w")
            await store.recover(agents=[waits])
            waiting = await handle.refresh()
            seq = (await handle.timeline())[-1].seq
            await handle.signal("go", 41)
            assert await store.drive(waits, key="w") == 42
            then = await handle.at(seq)
            assert then.record == waiting.record
            assert ([step.value for step in await then.steps()], len(await then.waits())) == ([1], 1)
            assert (await handle.refresh()).record.result == 42
            with pytest.raises(ReadOnly):
                await then.signal("go", 1)

    async def test_a_moment_that_is_none_is_refused(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("a")
            last = await last_seq(session)
            for moment in (0, -1, last + 1, 2**70, "10d", "soon", True, None, 1.5):
                with pytest.raises(Invalid) as refused:
                    await session.at(moment if moment is not None else "")  # type: ignore[arg-type]
                assert refused.value.path == "at"
                if moment is not None:
                    with pytest.raises(Invalid) as refused:
                        await session.fork(at=moment, name="f")  # type: ignore[arg-type]
                    assert refused.value.path == "at"
            assert len(await store.sessions()) == 1

    async def test_a_moment_that_has_not_come_is_refused(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("a")
            now = to_datetime(opener.clock())
            assert await (await session.at(now + timedelta(seconds=30))).info() == await session.info()  # clocks differ
            for moment in (now + timedelta(minutes=2), "2099-01-01"):
                for ask in (session.at, (await store.scope("s")).at, partial(session.fork, name="f")):
                    with pytest.raises(Invalid, match="has not come yet") as refused:
                        await ask(moment)
                    assert (refused.value.path, "leave it out" in refused.value.hint) == ("at", True)
            then = await session.at(now)
            opener.clock.advance("1h")
            with pytest.raises(Invalid, match="has not come yet"):
                await then.at(to_datetime(opener.clock()))  # there, time stands still
            event = await session.emit("a.b")
            opener.clock.now_us -= 3_600_000_000  # it was wrong, and is set back: its instants have names all the same
            assert await (await session.at(event.at)).events(emitted=True) == [event]

    async def test_a_fork_begins_as_its_parent_is(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await lived_in(store)
            before = await facts(session)
            seq = await last_seq(session)
            fork = await store.as_("bob").session("unrelated")
            fork = await session.fork(name="try-b")
            assert await facts(fork) == before
            assert (await fork.info()).name == "try-b"
            assert await fork.events(limit=seq) == await session.events(limit=seq)
            (forked,) = await fork.events(after=seq, limit=1)
            assert (forked.seq, forked.kind) == (seq + 1, "session.forked")
            assert (forked.data["parent"], forked.data["seq"]) == (session.uid, seq)
            again = await store.session("try-b")
            assert (again.uid, await facts(again)) == (fork.uid, before)
            assert [t.status for t in await fork.tasks() if t.title == "Write the test"] == ["todo"]  # nobody holds it

    async def test_a_fork_and_its_parent_go_on_apart(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await lived_in(store)
            fork = await session.fork(name="try-b")
            before, shared = await facts(session), await facts(fork)
            await fork.result("c1", {"hits": 3})
            await fork.say("user", "in the fork", key="m2")
            await fork.set("branch", "other")
            await fork.checkpoint({"cursor": 8})
            await fork.set_goal("Another goal")
            await fork.emit("deploy.begun", {"n": 100})
            open_one = (await fork.decisions())[0]
            await open_one.supersede("Use Y", because="Z is old")
            await (await fork.ready())[0].claim()
            assert await facts(session) == before
            await session.say("user", "in the parent", key="m2")
            await session.set("branch", "parent")
            after = await facts(fork)
            assert (after["branch"], after["goal"], after["folded"]) == ("other", "Another goal", 101)
            assert [turn.content for turn in after["turns"]][-1] == "in the fork"
            assert len(after["turns"]) == len(shared["turns"]) + 2
            assert after["restored"] == {"cursor": 8}

    async def test_a_fork_from_before_knows_nothing_of_what_came_after(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("a")
            await session.set("x", 1)
            turn = await session.say("user", "one", key="k")
            await session.say("user", "two")
            await session.set("x", 2)
            await session.close()
            fork = await session.fork(at=turn.seq, name="f")
            assert await fork.get("x") == 1
            assert [t.content for t in await fork.turns(last=9)] == ["one"]
            assert await fork.get_status() == "active"
            entry = await fork.set("x", 3, expect=1)
            assert entry.version == 2
            assert (await fork.say("user", "one", key="k")).seq == turn.seq  # the same key: the same turn

    async def test_forks_of_forks(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            root = await lived_in(store)
            before = await facts(root)
            seq = await last_seq(root)
            one = await root.fork(name="one")
            opened = await last_seq(one)
            await one.say("user", "first")
            await one.set("branch", "one")
            two = await one.fork(name="two")
            await two.say("user", "second")
            three = await two.fork(at=seq, name="three")  # a point that lies in the root
            assert await facts(three) == before
            assert [t.content for t in await two.turns(last=2)] == ["first", "second"]
            assert await two.get("branch") == "one"
            assert await facts(await two.at(seq)) == before
            for inside in range(seq, opened + 1):  # while `one` was still restating, it was where the root was
                assert await facts(await one.at(inside)) == before
            assert await facts(await one.fork(at=seq + 1, name="four")) == before
            assert [e.seq for e in await two.events(limit=1000)] == list(range(1, await last_seq(two) + 1))

    async def test_a_fork_needs_a_name_of_its_own(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("a")
            await session.fork(name="'; -- ../<b>")
            for name in ("a", "'; -- ../<b>"):
                with pytest.raises(Conflict) as refused:
                    await session.fork(name=name)
                assert refused.value.path == "name"
            with pytest.raises(Invalid, match="name"):
                await session.fork(name="")
            assert len(await store.sessions()) == 2

    async def test_of_two_forks_of_one_name_one_wins(self, opener: AsyncOpener) -> None:
        async with await opener() as a, await opener() if opener.shared else a as b:
            one, other = await a.session("s"), await b.session("s")
            for n in range(4):
                outcomes = await AsyncRace.between(partial(one.fork, name=f"f{n}"), partial(other.fork, name=f"f{n}"))
                assert len(outcomes.won) == 1
                assert [type(error) for error in outcomes.refused] == [Conflict]

    async def test_forks_are_verified(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await lived_in(store)
            fork = await session.fork(name="f")
            await fork.say("user", "on")
            await (await fork.fork(name="g")).set("branch", 2)
            report = await store.verify()
            assert report.ok, report

    async def test_a_fork_inside_a_transaction(self, opener: AsyncOpener) -> None:
        async with await opener() as store:

            def both(tx: Any) -> list[Any]:
                session = tx.session("a")
                session.set("x", 1)
                fork = session.fork(name="f").fork(name="g")
                session.set("x", 2)
                return [fork.get("x"), session.at(2).get("x"), session.get("x")]

            assert await store.atomic(both) == [1, 1, 2]
            assert await (await store.session("g")).get("x") == 1

    async def test_a_fork_costs_little(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("a")
            await session.set("x", 1)
            for n in range(20):
                await session.say("user", f"{n} " + "y" * 2000)
            seq = await last_seq(session)
            fork = await session.fork(name="f")
            added = await fork.events(after=seq)
            assert sum(len(str(event.body)) for event in added) < 1000
            assert len(added) == 2

    async def test_a_fork_says_what_it_went_on_from(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await lived_in(store)
            fork = await session.fork(3, name="f")
            assert await session.origin() is None
            assert await fork.origin() == Origin(session.name, session.uid, 3)
            assert await (await fork.at(await last_seq(fork))).origin() == Origin(session.name, session.uid, 3)

    async def test_what_differs_between_two_points(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await lived_in(store)
            then = await session.at(await last_seq(session))
            assert (await then.diff(session)).same
            assert (await session.diff(session)).same
            await session.set("branch", 2)
            await session.set("new", None)
            await session.set_goal("Another goal")
            turn_after = await session.say("user", "And now?")
            (decision,) = await session.decisions(open=True)
            await decision.close("failed")
            await (await session.tasks(status="blocked"))[0].unblock()
            await session.task("Ship it")
            await session.checkpoint({"cursor": 8})
            changes = await then.diff(session)
            assert [(d.how, d.name, d.before, d.after) for d in changes.values] == [
                (How.CHANGED, "branch", "fix-1", 2),
                (How.ADDED, "new", None, None),
            ]
            assert [(d.name, d.after) for d in changes.about] == [("goal", "Another goal")]
            assert [turn.seq for turn in changes.turns_added] == [turn_after.seq]
            assert [(d.how, d.after["status"]) for d in changes.decisions] == [(How.CHANGED, "closed")]
            assert [(d.how, d.after["status"]) for d in changes.tasks] == [(How.CHANGED, "todo"), (How.ADDED, "todo")]
            assert [(d.how, d.name) for d in changes.checkpoints] == [(How.CHANGED, "default")]
            back = await session.diff(then)
            assert [turn.seq for turn in back.turns_removed] == [turn_after.seq]
            assert (back.turns_added, [d.how for d in back.values]) == ((), [How.CHANGED, How.REMOVED])

    async def test_what_differs_between_a_session_and_its_fork(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await lived_in(store)
            fork = await session.fork(name="f")
            assert [d.how for d in (await session.diff(fork)).tasks] == [How.CHANGED]  # nobody holds anything in a fork
            mine, theirs = await session.say("user", "here"), await fork.say("user", "there")
            await fork.set("branch", "fix-2")
            changes = await session.diff(fork)
            assert ([t.seq for t in changes.turns_removed], [t.seq for t in changes.turns_added]) == (
                [mine.seq],
                [theirs.seq],
            )
            assert [(d.before, d.after) for d in changes.values] == [("fix-1", "fix-2")]
            assert (changes.decisions, changes.checkpoints, changes.artifacts) == ((), (), ())
            other = await lived_in(store, "other")
            strangers = await session.diff(other)
            assert (strangers.values, strangers.decisions, strangers.checkpoints, strangers.tasks) == ((), (), (), ())
            assert len(strangers.turns_added) == len(await other.turns(last=50))
            with pytest.raises(Invalid, match="other"):
                await session.diff("f")  # type: ignore[arg-type]
