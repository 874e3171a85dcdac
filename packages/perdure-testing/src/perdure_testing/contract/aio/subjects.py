"""The contract of subjects: whom a record is about, what inherits that, and asking for it (docs/decisions/0035)."""

from __future__ import annotations

import pytest

from perdure.errors import Invalid, TooLarge
from perdure.handles.aio.run import AsyncRun
from perdure.handles.aio.store import AsyncStore
from perdure.model.records.conversation import Call
from perdure.model.records.effects import Happened
from perdure.runtime.agent import agent
from perdure_testing.contract.aio.effects import CountingWorld
from perdure_testing.contract.aio.runs import program
from perdure_testing.openers import AsyncOpener

MARKER, OTHER = "customer:7", "customer:8"


async def kinds_about(store: AsyncStore, subject: str) -> list[tuple[str, str]]:
    """The events about a subject: stream and kind, oldest first."""
    events = await store.events(about=subject, limit=1000)
    return [(event.session, event.kind) for event in reversed(events)]


class AsyncSubjectsContract:
    """A record is about whom it names, whom its stream is about, and whom its sources are about."""

    async def test_every_listing_can_be_asked_for_a_subject(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session, scope = await store.session("a"), await store.scope("user:x")
            for subject in (MARKER, OTHER):
                about = [subject]
                await session.say("user", subject, about=about)
                await session.decide(subject, because="so", about=about)
                await session.task(subject, about=about)
                await session.set(subject, subject, about=about)
                await session.checkpoint({"of": subject}, name=subject, about=about)
                await session.emit("app.noted", subject, about=about)
                await session.attach(subject, subject, about=about)
                await session.begin("send", {"to": subject}, key=subject, about=about)
                await session.ask(subject, about=about)
                await scope.remember(subject, about=about)
            assert [turn.content for turn in await session.turns(about=MARKER)] == [MARKER]
            assert [turn.content for turn in await session.turns(after=0, about=MARKER)] == [MARKER]
            assert [decision.text for decision in await session.decisions(about=MARKER)] == [MARKER]
            assert [decision.text for decision in await store.decisions(about=MARKER)] == [MARKER]
            assert [task.title for task in await session.tasks(about=MARKER)] == [MARKER]
            assert [task.title for task in await store.tasks(about=MARKER)] == [MARKER]
            assert [entry.name for entry in await session.entries(about=MARKER)] == [MARKER]
            assert [artifact.name for artifact in await session.artifacts(about=MARKER)] == [MARKER]
            assert [artifact.name for artifact in await store.artifacts(about=MARKER)] == [MARKER]
            assert [effect.key for effect in await session.effects(about=MARKER)] == [MARKER]
            assert [effect.key for effect in await store.effects(about=MARKER)] == [MARKER]
            assert [ask.question for ask in await store.asks(about=MARKER)] == [MARKER]
            assert [memory.text for memory in await store.memories(about=MARKER)] == [MARKER]
            assert [memory.text for memory in await scope.memories(about=MARKER)] == [MARKER]
            assert [event.data for event in await session.events(emitted=True, about=MARKER)] == [MARKER]
            assert [event.data for event in await store.events(emitted=True, about=MARKER)] == [MARKER]
            assert [event.data for event in await store.events(emitted=True, session="a", about=MARKER)] == [MARKER]
            # A state may hold whatever its session held before it.
            assert [saved.name for saved in await session.checkpoints(about=MARKER)] == [OTHER, MARKER]
            assert [saved.name for saved in await session.checkpoints(about=OTHER)] == [OTHER]
            assert [session.name for session in await store.sessions(about=MARKER)] == ["a"]
            assert list(await store.sessions(about="customer:9")) == []
            assert (await store.verify()).ok

    async def test_a_record_is_about_whom_a_later_event_of_it_names(self, opener: AsyncOpener) -> None:
        """It is listed once, however many of its events name the subject; the events before are about nobody."""
        async with await opener() as store:
            session = await store.session("a")
            question = await session.ask("Who called?")
            await store.answer(question.id, MARKER, about=[MARKER])
            effect = await session.begin("send", {"to": "x"}, key="e")
            await effect.dispatch()
            await (await store.effect(effect.id)).settle(Happened(MARKER), about=[MARKER], force=True)
            assert [ask.id for ask in await store.asks(state=None, about=MARKER)] == [question.id]
            assert [effect.id for effect in await store.effects(about=MARKER)] == [effect.id]
            assert [effect.id for effect in await session.effects(about=MARKER)] == [effect.id]
            assert await kinds_about(store, MARKER) == [("a", "ask.answered"), ("a", "effect.committed")]
            assert (await store.verify()).ok

    async def test_a_subject_is_found_through_derivations_forks_and_children(self, opener: AsyncOpener) -> None:
        outside = CountingWorld()

        async def work(run: AsyncRun, text: str) -> str:
            return await run.step(outside.seen, text)

        child = agent(name="child")(work)

        async def lead(run: AsyncRun, text: str) -> str:
            return await run.call(child, text)

        own_agent = program(lead)
        async with await opener() as store:
            session = await store.session("a")
            turn = await session.say("assistant", "x", calls=[Call("c1", "look", {})], about=[MARKER])
            answer = await session.result("c1", "y")
            await session.summarise(answer.seq, "one")
            await session.say("user", "z")
            second = await session.summarise((await session.turns(last=1))[0].seq, "both")
            decision = await session.decide("A", because="b", refs=[second])
            memory = await (await store.scope("project:p")).remember("m", source=[decision])
            await decision.supersede("B", because="c")
            fork = await (await session.fork(name="b")).fork(name="c")
            await fork.say("assistant", "again", shown=[memory])
            await fork.checkpoint({"of": "all"})
            await fork.add_subjects(MARKER)
            await store.drive(own_agent, "t", key="k", session="c")
            pairs = await kinds_about(store, MARKER)
            assert [kind for name, kind in pairs if name == "a"] == [
                "turn.said", "call.answered", "turns.summarised", "turns.summarised", "decision.made", "decision.made",
                "decision.superseded",
            ]  # fmt: skip
            assert ("project:p", "memory.made") in pairs
            assert {name for name, kind in pairs if kind == "session.forked"} == {"b", "c"}
            # The turn in between is the parent's, and about nobody.
            spoken = [turn.content for turn in await fork.turns(about=MARKER)]
            assert spoken == [turn.content, answer.content, "again"]
            assert {run.record.agent for run in await store.runs(about=MARKER)} == {"a", "child"}
            assert {session.name for session in await store.sessions(about=MARKER)} == {"a", "b", "c"}
            assert len([1 for _, kind in pairs if kind == "step.done"]) == 1
            assert (await store.verify()).ok

    async def test_control_nothing_else_is_about_them(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("a")
            await session.say("user", "x", about=[MARKER])
            plain = await session.say("user", "y")
            await session.decide("A", because="b", refs=[plain])
            await session.set("v", 1, about=[MARKER])
            await session.set("v", 2)  # another version, about nobody
            await (await store.session("other")).say("user", "z")
            assert [kind for _, kind in await kinds_about(store, MARKER)] == ["turn.said", "value.set"]
            assert list(await session.entries(about=MARKER)) == []
            assert [session.name for session in await store.sessions(about=MARKER)] == ["a"]

    async def test_what_becomes_of_a_record_is_about_whom_it_is(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("a")
            task = await session.task("t", about=[MARKER])
            await (await task.claim()).done("all good", about=[OTHER])
            decision = await session.decide("d", because="b", about=[MARKER])
            await decision.close("worked", "well")
            effect = await session.begin("send", {}, key="k", about=[MARKER])
            await (await effect.dispatch()).commit({"ok": True}, about=[OTHER])
            ask = await session.ask("q", about=[MARKER])
            await store.answer(ask.id, "yes", about=[OTHER])
            await session.set("n", 1, about=[MARKER])
            await session.update("n", lambda n: n + 1, about=[OTHER])
            await session.unset("n")
            assert [kind for _, kind in await kinds_about(store, MARKER)] == [
                "task.added", "task.claimed", "task.done", "decision.made", "decision.closed", "effect.planned",
                "effect.dispatched", "effect.committed", "ask.opened", "ask.answered", "value.set", "value.set",
            ]  # fmt: skip
            assert [kind for _, kind in await kinds_about(store, OTHER)] == [
                "task.done", "effect.committed", "ask.answered", "value.set",
            ]  # fmt: skip
            assert (await store.verify()).ok

    async def test_a_session_run_or_scope_is_about_somebody_as_a_whole(self, opener: AsyncOpener) -> None:
        async def work(run: AsyncRun) -> str:
            await run.add_subjects(OTHER)
            return await run.wait("go")

        agent = program(work)
        async with await opener() as store:
            session = await store.session("a", about=[MARKER])
            await session.say("user", "x")
            started = await store.start(agent, key="k", session="a")
            await started.signal("go", 1, about=["customer:9"])
            await store.drive(agent, key="k", session="a")
            assert {run.id for run in await store.runs(about=MARKER)} == {started.id}
            await session.add_subjects("customer:5")  # later: what there is gets it too
            assert {run.id for run in await store.runs(about="customer:5")} == {started.id}
            await store.session("a", about=["customer:5", "customer:6"])
            assert [turn.content for turn in await session.turns(about="customer:6")] == ["x"]
            assert [kind for _, kind in await kinds_about(store, "customer:9")][-1] == "run.wait.answered"
            scope = await store.scope("user:x", about=[MARKER])
            await scope.set("v", 1)
            await scope.add_subjects(OTHER)
            assert [entry.name for entry in await scope.entries(about=OTHER)] == ["v"]
            assert await scope.add_subjects() == (MARKER, OTHER)
            await scope.remember("walks to work", about=["customer:4"])
            await (await store.scope("user:y")).remember("walks to school", about=["customer:4"])
            for subjects in ([OTHER], [OTHER, "customer:4"]):
                assert [hit.memory.text for hit in await store.recall("walks", about=subjects)] == ["walks to work"]
            assert len(await store.memories(about=OTHER)) == 1
            assert len(await store.recall("walks", about=["customer:4"])) == 2
            by_name = {subject.subject: subject for subject in await store.subjects()}
            assert by_name[MARKER].streams == 3
            assert by_name[MARKER].records > by_name["customer:9"].records >= 2
            assert by_name[MARKER].first_at <= by_name[MARKER].last_at
            assert (await store.verify()).ok

    async def test_subjects_are_listed_by_name_page_by_page(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("a")
            for n in range(5):
                await session.say("user", "x", about=[f"customer:{n}", "everybody"])
            page = await store.subjects(limit=2)
            names = [row.subject for row in page]
            while page.next:
                page = await store.subjects(limit=2, after=page.next)
                names += [row.subject for row in page]
            assert names == [f"customer:{n}" for n in range(5)] + ["everybody"]
            assert [(row.subject, row.records, row.streams) for row in page] == [
                ("customer:4", 1, 1), ("everybody", 5, 1),
            ]  # fmt: skip

    async def test_what_goes_takes_its_subjects_along(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("a")
            for n in range(3):
                await session.checkpoint({"n": n}, about=[MARKER])
            await session.prune_checkpoints(keep=1)
            assert [subject.records for subject in await store.subjects()] == [1]
            assert (await store.verify()).ok

    @pytest.mark.parametrize(
        ("about", "path"), [("customer", "about"), ([""], "about[0]"), (["a", 7], "about[1]"), (None, "about")]
    )
    async def test_bad_subjects_are_refused_with_their_path(
        self, opener: AsyncOpener, about: object, path: str
    ) -> None:
        async with await opener() as store:
            session = await store.session("a")
            with pytest.raises(Invalid) as refused:
                await session.task("t", about=about)  # type: ignore[arg-type]
            assert refused.value.path == path
            with pytest.raises(TooLarge):
                await session.task("t", about=[str(n) for n in range(1001)])
            assert list(await session.tasks()) == []
