"""The promises of every store about letting old state go: the rest reads as before, from everywhere, and the chain holds."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from perdure.errors import Invalid, NotFound
from perdure.handles.aio.run import AsyncRun
from perdure.handles.aio.session import AsyncSession
from perdure.handles.aio.store import AsyncStore
from perdure.model.records.conversation import Call
from perdure.model.records.retention import Retention
from perdure.runtime.agent import agent
from perdure_testing.openers import AsyncOpener

EVERYTHING = Retention(checkpoints=1, turns=0)
BIG = "x" * 20_000


async def talked(store: AsyncStore, name: str = "a", rounds: int = 6) -> AsyncSession:
    """A session with something in every plane, and a conversation of several rounds."""
    session = await store.session(name, goal="Login works", labels=["prod"], pins={"model": "m-1"})
    await session.say("system", "Be brief")
    for n in range(rounds):
        await session.say("user", f"question {n}", key=f"m{n}")
        await session.say("assistant", "Let me look", calls=[Call(f"c{n}", "grep", {"q": n}), Call(f"d{n}", "ls", {})])
        await session.result(f"c{n}", {"hits": n, "text": BIG + str(n)})
        await session.result(f"d{n}", "ok")
        await session.say("assistant", f"answer {n}")
        await session.checkpoint({"n": n, "big": BIG})
        await session.set("round", n)
    decision = await session.decide("Use A", because="B breaks", refs=[(await session.turns(last=1))[0]], tags=["auth"])
    await decision.close("worked")
    await session.decide("Use Z", because="why not")
    task = await session.task("Write the test", detail={"file": "t.py"})
    await session.task("Run it", needs=[task])
    await session.attach("build.log", BIG.encode(), media_type="text/plain")
    await session.emit("deploy.begun", {"n": 1})
    return session


async def kept(session: AsyncSession) -> dict[str, Any]:
    """The answers of every read verb, but for what a rule lets go."""
    return {
        "openai": await session.transcript(format="openai"),
        "anthropic": await session.transcript(format="anthropic"),
        "last": await session.transcript(format="openai", last=3),
        "pending": await session.pending(),
        "covers": await session.covers(),
        "nested": await session.covers(nested=True),
        "values": [replace(entry, age=None) for entry in await session.entries()],
        "decisions": [decision.record for decision in await session.decisions()],
        "tasks": [task.record for task in await session.tasks()],
        "ready": [task.record for task in await session.ready()],
        "restored": await session.restore(),
        "newest": (await session.checkpoints(limit=1))[0],
        "artifacts": [artifact.record for artifact in await session.artifacts()],
        "content": [await artifact.read() for artifact in await session.artifacts()],
        "emitted": await session.events(emitted=True),
        "folded": await session.fold(lambda state, event: (state or 0) + event.data["n"]),
        "info": replace(await session.info(), last_seq=0, last_at=None, copy=False),
    }


async def covered_upto(session: AsyncSession, turns: int) -> None:
    """Cover the first so many turns."""
    seqs = [turn.seq for turn in await session.turns(after=0, limit=1000)]
    await session.summarise(upto=seqs[turns - 1], text=f"the first {turns} turns")


class AsyncRetentionContract:
    """`retain`."""

    async def test_what_is_kept_reads_as_before(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await talked(store)
            await covered_upto(session, 21)
            before = await kept(session)
            headers = [(event.seq, event.kind, event.actor, event.at) for event in await session.events(limit=1000)]
            turns = await session.turns(after=0, limit=1000)
            report = await store.retain(EVERYTHING, dry_run=False)
            assert (report.checkpoints, report.turns) == (5, 19)  # the rule, and the ends of the summary stay
            assert await kept(session) == before
            remaining = await session.turns(after=0, limit=1000)
            assert remaining == [turn for turn in turns if turn.seq not in report.streams[0].turns]
            events = await session.events(limit=1000)
            assert [(event.seq, event.kind, event.actor, event.at) for event in events][: len(headers)] == headers
            emptied = {*report.streams[0].turns, *report.streams[0].checkpoints}
            assert {event.seq for event in events if event.emptied} == emptied
            verified = await store.verify()
            assert verified.ok, verified
            assert {place.seq for place in verified.unverifiable} == emptied

    async def test_a_dry_run_changes_nothing_and_says_exactly_what_goes(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await talked(store)
            await covered_upto(session, 21)
            await talked(store, "untouched", rounds=1)
            events = len(await session.events(limit=1000))
            plan = await store.retain(EVERYTHING)
            assert plan.dry_run
            assert len(await session.events(limit=1000)) == events
            done = await store.retain(EVERYTHING, dry_run=False)
            assert replace(plan, dry_run=False) == done
            # Three results are blobs of their own; the other session has said the first one too.
            assert done.bytes > 3 * len(BIG)
            assert [(stream.kind, stream.name) for stream in done.streams] == [("session", "a")]
            again = await store.retain(EVERYTHING, dry_run=False)
            assert (again.streams, again.blobs, again.bytes) == ((), 0, 0)

    async def test_each_rule_judges_what_was_there_before_any_was_applied(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await talked(store)
            for n in range(5):
                await session.checkpoint(BIG + BIG[n:], name="large")  # without them the session is a small one
            await covered_upto(session, 21)
            rules = [Retention(checkpoints=1), Retention(turns=0, larger_than=200_000)]
            plan, done = await store.retain(*rules), await store.retain(*rules, dry_run=False)
            assert (plan.checkpoints, plan.turns) == (9, 19)
            assert replace(plan, dry_run=False) == done

    async def test_what_a_fork_sees_stays(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await talked(store)
            early = await session.fork(at=16, name="early")  # before there was a summary
            await covered_upto(session, 21)
            late = await session.fork(name="late")
            before = [await kept(branch) for branch in (early, late, session)]
            turns = await early.turns(after=0, limit=1000)
            report = await store.retain(EVERYTHING, dry_run=False)
            assert report.turns > 0
            assert min(report.streams[0].turns) > 16
            assert [await kept(branch) for branch in (early, late, session)] == before
            assert await early.turns(after=0, limit=1000) == turns
            assert (await store.verify()).ok

    async def test_a_call_whose_result_is_still_to_come_stays(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("a")
            await session.say("user", "look")
            turn = await session.say("assistant", "looking", calls=[Call("c", "grep", {}), Call("d", "ls", {})])
            await session.result("c", "found")
            for n in range(4):
                await session.say("user", f"question {n}")
                await session.say("assistant", f"answer {n}")
            await covered_upto(session, 10)
            fork = await session.fork(name="fork")
            assert (await store.retain(EVERYTHING, dry_run=False)).turns > 0
            assert (await session.result("d", "late")).seq > turn.seq
            assert (await store.retain(EVERYTHING, dry_run=False)).turns == 0  # the fork still waits for it
            assert (await fork.result("d", "later still")).seq > turn.seq
            assert (await store.verify()).ok

    async def test_the_past_says_what_it_lacks(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await talked(store)
            upto = (await session.events(limit=1000))[-1].seq
            await covered_upto(session, 21)
            now = (await session.events(limit=1000))[-1].seq
            transcript = await (await session.at(now)).transcript()
            await store.retain(EVERYTHING, dry_run=False)
            assert await (await session.at(now)).transcript() == transcript
            for incomplete in (await session.at(upto), await session.fork(at=upto, name="since")):
                with pytest.raises(NotFound, match="were pruned since"):
                    await incomplete.transcript()
            with pytest.raises(NotFound, match="19 turns"):
                await session.transcript(full=True)

    async def test_a_fork_made_there_since_waits_for_nothing_that_was_answered(self, opener: AsyncOpener) -> None:
        """A caller that does what is pending would do it again; once the fork has said something of its own, that decides."""
        async with await opener() as store:
            session = await store.session("a")
            await session.say("assistant", calls=[Call("lost", "noop", {})])
            await session.say("user", "never mind")
            done = await session.say("assistant", "done")
            await session.say("user", "more")
            await session.say("assistant", "fine")
            last = await session.say("user", "thanks")
            await session.say("assistant", "bye")
            await session.summarise(upto=last.seq, text="all of it")
            assert await (await session.at(done.seq)).pending() is None
            await store.retain(EVERYTHING, dry_run=False)
            fork = await session.fork(at=done.seq, name="since")
            for telling in (fork, await session.at(done.seq)):
                with pytest.raises(NotFound, match="were pruned since"):
                    await telling.pending()
            await fork.say("assistant", "where were we?")
            turn = await fork.say("user", "at the end")
            pending = await fork.pending()
            assert pending is not None
            assert pending.turn.seq == turn.seq
            assert await session.pending() is None

    async def test_summaries_go_on_after_it(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await talked(store)
            await covered_upto(session, 21)
            await store.retain(EVERYTHING, dry_run=False)
            await session.say("user", "more")
            last = await session.say("assistant", "done")
            cover = await session.summarise(upto=last.seq, text="everything")
            assert cover.first_seq == (await session.turns(after=0, limit=1))[0].seq
            report = await store.retain(Retention(turns=0), dry_run=False)
            assert report.turns > 0
            assert (await session.pending()) is None
            assert (await store.verify()).ok

    async def test_by_age_count_label_and_size(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            old = await talked(store, "old")
            await covered_upto(old, 21)
            opener.clock.advance("10d")
            young = await talked(store, "young")
            await covered_upto(young, 21)
            await young.label("hold")
            small = await store.session("small")
            for n in range(3):
                await small.checkpoint(n)

            async def names(**rule: Any) -> set[str]:
                return {stream.name for stream in (await store.retain(Retention(**rule))).streams}

            assert await names(checkpoints=1, turns=0) == {"old", "young", "small"}
            assert await names(checkpoints=1, older_than="5d") == {"old"}
            assert await names(turns=0, older_than="5d") == {"old"}
            assert await names(turns=0, older_than="20d") == set()
            assert await names(checkpoints=3) == {"old", "young"}
            assert await names(turns=30) == set()
            assert await names(checkpoints=1, label="hold") == {"young"}
            assert await names(checkpoints=1, except_label="hold") == {"old", "small"}
            assert await names(checkpoints=1, larger_than=20_000) == {"old", "young"}
            rules = [Retention(checkpoints=1, label="hold"), Retention(turns=0, older_than="5d")]
            plan, done = await store.retain(*rules), await store.retain(*rules, dry_run=False)
            assert [(stream.name, len(stream.checkpoints), len(stream.turns)) for stream in done.streams] == [
                ("old", 0, 19),
                ("young", 5, 0),
            ]
            assert replace(plan, dry_run=False) == done

    async def test_a_session_that_ended_goes_and_its_record_stays(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            ended, forked, open_ = [await talked(store, name) for name in ("ended", "forked", "open")]
            await forked.fork(at=16, name="fork")
            for session in (ended, forked):
                await session.close()
            short = await store.session("short", ttl="1h")
            await short.say("user", "hello")
            spoken_to = await store.session("spoken to")
            await spoken_to.close()
            rule = Retention(sessions=True, older_than="30d")
            assert (await store.retain(rule)).streams == ()
            opener.clock.advance("31d")
            await spoken_to.say("user", "are you still there?")  # a closed session takes turns, and they are young
            before = [
                task.record for task in [*await ended.tasks(), *await ended.decisions(), *await ended.artifacts()]
            ]
            plan = await store.retain(rule)
            assert [stream.name for stream in plan.streams] == ["ended", "short"]
            assert (len(plan.streams[0].turns), len(plan.streams[0].checkpoints), len(plan.streams[0].events)) == (
                31,
                6,
                1,
            )
            done = await store.retain(rule, dry_run=False)
            assert replace(plan, dry_run=False) == done
            assert [
                task.record for task in [*await ended.tasks(), *await ended.decisions(), *await ended.artifacts()]
            ] == before
            assert await ended.turns(after=0) == []
            for kept_whole in (forked, open_):
                assert len(await kept_whole.turns(after=0, limit=1000)) == 31
            assert await ended.pending() is None
            for verb in (ended.transcript, lambda: ended.fold(lambda state, _: state, 0)):
                with pytest.raises(NotFound, match="pruned"):
                    await verb()
            assert (await store.verify()).ok
            again = await store.retain(rule, dry_run=False)
            assert (again.streams, again.blobs) == ((), 0)

    async def test_one_session_can_be_chosen_and_one_that_is_held_stays(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            for name in ("a", "b", "held"):
                session = await store.session(name)
                await session.say("user", "hello")
                await session.close()
            await session.label("hold")
            one = await store.retain(Retention(sessions=True, session="a"))
            assert [stream.name for stream in one.streams] == ["a"]
            rest = await store.retain(Retention(sessions=True, except_label="hold"), dry_run=False)
            assert [stream.name for stream in rest.streams] == ["a", "b"]
            assert len(await session.turns()) == 1

    async def test_a_run_that_is_over_goes_but_for_its_result_and_effects(self, opener: AsyncOpener) -> None:
        @agent(name="takes steps")
        async def steps(run: AsyncRun, waits: bool) -> int:
            total = sum([await run.step(lambda n=n: len(BIG) + n) for n in range(3)])
            if waits:
                await run.wait("go")
            return total

        async with await opener() as store:
            session = await store.session("s")
            await store.drive(steps, 0, key="over", session="s")
            waits = await store.start(steps, 1, key="waits", session="s")
            await store.recover(agents=[steps])
            await session.close()
            rule = Retention(runs=True, sessions=True)
            plan = await store.retain(rule)
            counts = [(stream.kind, len(stream.events)) for stream in plan.streams]
            assert counts == [("run", 3)]  # the session has a run in flight
            assert replace(plan, dry_run=False) == await store.retain(rule, dry_run=False)
            (over,) = await store.runs(status="completed")
            assert await over.steps() == []
            assert over.record.result == 3 * len(BIG) + 3
            with pytest.raises(NotFound, match="pruned"):
                await over.fork(1, 7)
            await waits.signal("go")
            assert await store.drive(steps, 1, key="waits", session="s") == 3 * len(BIG) + 3
            assert (await store.verify()).ok

    async def test_old_versions_of_values_go_and_the_past_does_not_lie_about_them(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session, scope = await store.session("a"), await store.scope("team")
            for number in range(5):
                await session.set("v", number)
                await scope.set("w", BIG + str(number))
                opener.clock.advance("1d")
            await session.set("once", "kept")
            await session.unset("v", expect=5)
            await session.set("v", "now")  # version 7
            opener.clock.advance("1h")
            seqs = [event.seq for event in await session.events(limit=100) if event.kind.startswith("value.")]
            before = [replace(entry, age=None) for entry in await session.entries()]
            rule = Retention(values=2, older_than="30m")
            planned = await store.retain(rule)
            assert (planned.values, planned.events, planned.turns) == (5 + 3, 0, 0)
            report = await store.retain(rule, dry_run=False)
            assert (report.streams, report.values) == (planned.streams, planned.values)
            assert {stream.name: stream.values for stream in report.streams}["a"] == tuple(seqs[:5])
            assert [replace(entry, age=None) for entry in await session.entries()] == before
            assert ((await session.get("v")), (await scope.get("w"))) == ("now", BIG + "4")
            assert (await store.verify()).ok
            for seq in (seqs[0], seqs[4]):
                past = await session.at(seq)
                with pytest.raises(NotFound, match="pruned"):
                    await past.get("v")
                with pytest.raises(NotFound, match="pruned"):
                    await past.entries()
                with pytest.raises(NotFound, match="pruned"):
                    await session.fork(seq, name=f"fork-{seq}")
            assert await (await session.at(seqs[0] - 1)).get("v") is None  # nothing had been set by then
            assert await (await session.at(seqs[-1])).get("v") == "now"
            assert await (await session.fork(name="fork")).get("v") == "now"
            again = await store.retain(rule)
            assert again.values == 0
            await session.set("v", "later")
            later = await session.entry("v")
            assert later is not None
            assert later.version == 8
            assert (await store.verify()).ok

    async def test_values_that_were_replaced_lately_stay_and_so_does_time_travel(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("a")
            for number in range(3):
                await session.set("v", number)
                opener.clock.advance("10d")
            seq = (await session.events(limit=100))[-1].seq - 1
            rule = Retention(values=1, older_than="15d")  # the first was replaced 20 days ago, the second 10
            report = await store.retain(rule, dry_run=False)
            assert report.values == 1
            assert await (await session.at("12d")).get("v") == 1
            assert await (await session.at(seq)).get("v") == 1

    async def test_emitted_events_go_but_for_the_newest_and_those_that_a_fork_shares(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("a")
            for number in range(4):
                await session.emit("deploy.seen", {"n": number})
            fork = await session.fork(name="b")
            for number in range(4, 8):
                await session.emit("deploy.seen", {"n": number})
            rule = Retention(emitted=2)
            planned = await store.retain(rule)
            report = await store.retain(rule, dry_run=False)
            assert (report.streams, report.events) == (planned.streams, 2)
            assert [event.data["n"] for event in await fork.events(kind="deploy.seen")] == [0, 1, 2, 3]
            events = await session.events(kind="deploy.seen")
            assert [event.data for event in events if event.data is not None] == [{"n": n} for n in (0, 1, 2, 3, 6, 7)]
            assert (await store.verify()).ok
            assert (await store.retain(Retention(emitted=0, older_than="1h"))).events == 0

    async def test_a_rule_that_is_none_is_refused(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            rules: list[Any] = [
                Retention(), Retention(checkpoints=0), Retention(turns=-1), Retention(turns=True), Retention(turns=0, label=""),
                Retention(sessions=1), Retention(runs="all"), Retention(sessions=True, session=""),  # type: ignore[arg-type]
                Retention(turns=0, older_than="soon"), Retention(turns=0, larger_than=-1), "turns", None,
            ]  # fmt: skip
            for rule in rules:
                with pytest.raises(Invalid, match="rules"):
                    await store.retain(rule, dry_run=False)
            with pytest.raises(Invalid, match="at least one rule"):
                await store.retain()

    async def test_a_run_in_flight_keeps_all_and_one_that_is_over_its_newest(self, opener: AsyncOpener) -> None:
        @agent(name="asks models")
        async def asks(run: AsyncRun, rounds: int) -> int:
            for n in range(rounds):
                await run.model(lambda messages: {"text": str(len(messages))}, [BIG] * n)
            if rounds == 3:
                await run.wait("go")
            return rounds

        async with await opener() as store:
            over = await store.start(asks, 2, key="over")
            await store.drive(asks, 2, key="over")
            waits = await store.start(asks, 3, key="waits")
            await store.recover(agents=[asks])
            report = await store.retain(Retention(checkpoints=1), dry_run=False)
            assert [(stream.kind, stream.name, len(stream.checkpoints)) for stream in report.streams] == [
                ("run", over.id, 1)
            ]
            await waits.signal("go")
            assert await store.drive(asks, 3, key="waits") == 3
            assert (await over.refresh()).record.result == 2
            assert (await store.verify()).ok
