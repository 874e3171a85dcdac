"""The contract of memories: what is remembered, superseded, confirmed and forgotten, and what it was made from."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from perdure.errors import Conflict, Invalid, KeyReused, NotFound, Refused, TooLarge
from perdure.handles.aio.run import AsyncRun
from perdure.model.refs import Ref
from perdure_testing.contract.aio.runs import driven, program
from perdure_testing.openers import AsyncOpener


class AsyncMemoriesContract:
    """The duties of every store with memories."""

    async def test_a_memory_comes_back_as_it_was_made(self, opener: AsyncOpener) -> None:
        async with await opener(actor="agent") as store:
            session = await store.session("s")
            turn = await session.say("user", "Run the tests with make")
            memory = await session.remember(
                "Tests run with make test", kind="workflow", source=[turn, "file:Makefile"], tags=["ci", "a"],
                about=["user:bob"], confidence=0.75, valid_from="2026-01-01", valid_to="2027-01-01", key="m1",
            )  # fmt: skip
            (listed,) = await session.memories()
            for handle in (memory, listed, await session.memory(memory.seq), await memory.refresh()):
                record = handle.record
                assert (handle.text, handle.kind, handle.status, handle.tags) == (
                    "Tests run with make test", "workflow", "live", ("a", "ci"),
                )  # fmt: skip
                assert (handle.about, record.sources, handle.refs) == (("user:bob",), ("file:Makefile",), (turn.ref,))
                assert (record.confidence, record.actor, record.key, handle.scope) == (0.75, "agent", "m1", "s")
                assert [str(row)[:10] for row in (record.valid_from, record.valid_to)] == ["2026-01-01", "2027-01-01"]
                assert (record.uses, record.used_at, handle.ref) == (0, None, Ref(session.uid, handle.seq))
            assert memory.record == listed.record
            assert [reference.kind for reference in await session.referring(turn)] == ["memory.made"]
            assert (await store.verify()).ok

    async def test_a_key_stands_for_one_memory(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            scope = await store.scope("user:alice")
            first = await scope.remember("Prefers dark mode", kind="preference", key="k", tags=["ui"])
            again = await scope.remember("Prefers dark mode", kind="preference", key="k", tags=["ui"])
            assert first.record == again.record
            for options in ({"kind": "fact"}, {"tags": ["x"]}, {"about": ["user:alice"]}):
                fields: Any = {"kind": "preference", "tags": ["ui"]} | options
                with pytest.raises(KeyReused):
                    await scope.remember("Prefers dark mode", key="k", **fields)
            with pytest.raises(KeyReused):
                await scope.remember("Prefers light mode", kind="preference", key="k", tags=["ui"])
            assert len(await scope.memories()) == 1

    async def test_superseding_leaves_what_was_known(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("s")
            old = await session.remember("Tests run with make", kind="workflow", tags=["ci"], about=["user:bob"])
            opener.clock.advance(60)
            new = await old.supersede("Tests run with tox", because="the Makefile went", confidence=1)
            assert (old.status, old.superseded_by, old.record.note) == ("superseded", new.seq, "the Makefile went")
            assert (new.kind, new.tags, new.about, new.record.supersedes) == (
                "workflow",
                ("ci",),
                ("user:bob",),
                old.seq,
            )
            assert old.record.valid_to == new.record.valid_from == new.at
            assert new.refs == (old.ref,)
            assert (await old.refresh()).record == (await session.memory(old.seq)).record
            assert [memory.seq for memory in await session.memories()] == [new.seq]
            assert [memory.seq for memory in await session.memories(status="superseded")] == [old.seq]
            with pytest.raises(Conflict) as refused:
                await old.supersede("Tests run with nox", because="again")
            assert refused.value.facts["superseded_by"] == new.seq
            assert (await store.verify()).ok

    async def test_superseding_with_a_key_can_be_repeated(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("s")
            old = await session.remember("a", key="one")
            new = await old.supersede("b", because="c", key="two")
            again = await (await session.memory(old.seq)).supersede("b", because="c", key="two")
            assert again.seq == new.seq
            with pytest.raises(KeyReused):
                await (await session.memory(old.seq)).supersede("b", because="another reason", key="two")
            with pytest.raises(KeyReused):
                await new.supersede("d", because="e", key="one")
            assert len(await session.memories(status=None)) == 2

    async def test_confirming_and_forgetting(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("s")
            memory = await session.remember("The port is 8080")
            opener.clock.advance(3600)
            await memory.confirm("asked the server")
            assert memory.record.confirmed_at is not None
            assert memory.record.confirmed_at > memory.at
            assert (await memory.confirm()).record.note == "asked the server"
            await memory.forget("it was wrong")
            assert (await memory.forget("once more")).record.note == "it was wrong"
            assert (await session.memory(memory.seq)).record == memory.record
            for verb in (partial(memory.confirm), partial(memory.supersede, "x", because="y")):
                with pytest.raises(Conflict):
                    await verb()
            assert await session.memories() == []
            assert (await store.verify()).ok

    async def test_listing_by_what_a_memory_is_about(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session, scope = await store.session("s"), await store.scope("project:acme")
            a = await session.remember("a", kind="rule", tags=["x"], about=["user:bob"])
            opener.clock.advance(1)
            b = await scope.remember("b", kind="fact", tags=["x", "y"])
            opener.clock.advance(1)
            c = await store.as_("carol").scope("project:acme")
            carols = await c.remember("c", kind="fact", about=["user:bob", "user:eve"])
            for filters, expected in (
                ({}, [carols, b, a]), ({"kind": "fact"}, [carols, b]), ({"tag": "x"}, [b, a]), ({"tag": "z"}, []),
                ({"about": "user:bob"}, [carols, a]), ({"actor": "carol"}, [carols]), ({"unread": True}, [carols, b, a]),
                ({"since": a.at}, [carols, b, a]), ({"until": b.at}, [a]), ({"status": "forgotten"}, []),
            ):  # fmt: skip
                options: dict[str, Any] = filters
                memories = await store.memories(**options)
                assert [memory.ref for memory in memories] == [row.ref for row in expected], filters
            page = await store.memories(limit=2)
            rest = await store.memories(limit=2, after=page.next)
            assert [row.text for row in (*page, *rest)] == ["c", "b", "a"]
            page = await scope.memories(limit=1)
            assert [memory.text for memory in await scope.memories(after=page.next)] == ["b"]

    async def test_a_rule_is_made_of_a_decision_and_of_a_correction(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session, scope = await store.session("s"), await store.scope("project:acme")
            decision = await session.decide("Keep the lock file", because="builds differ", tags=["build"])
            rule = await scope.rule_from(decision)
            assert (rule.kind, rule.refs, rule.tags) == ("rule", (decision.ref,), ("build",))
            assert "Keep the lock file" in rule.text
            assert "builds differ" in rule.text
            assert (await scope.rule_from(decision)).seq == rule.seq
            corrected = await session.correct("You deleted the lock file", rule="Never delete lock files", key="c1")
            again = await session.correct("You deleted the lock file", rule="Never delete lock files", key="c1")
            (correction,) = await session.memories(kind="correction")
            assert corrected.seq == again.seq
            assert corrected.refs == (correction.ref,)

    async def test_a_workflow_is_made_of_a_run_that_worked(self, opener: AsyncOpener) -> None:
        def look() -> str:
            return "seen"

        async def works(run: AsyncRun) -> str:
            return await run.step(look)

        async def breaks(run: AsyncRun) -> str:
            await run.step(look)
            raise ValueError

        async with await opener() as store:
            scope = await store.scope("project:acme")
            good = await store.start(program(works), key="good")
            await driven(store, program(works), key="good")
            workflow = await scope.workflow_from(good, text="How to look", tags=["t"])
            assert (workflow.kind, workflow.text) == ("workflow", "How to look\n1. step: look")
            assert (await scope.workflow_from(good.id, text="How to look", tags=["t"])).seq == workflow.seq
            bad = await store.start(program(breaks), key="bad")
            await driven(store, program(breaks), key="bad")
            with pytest.raises(Refused) as refused:
                await scope.workflow_from(bad)
            assert refused.value.path == "run"
            for run, error in (("nothing", NotFound), (7, Invalid)):
                with pytest.raises(error):
                    await scope.workflow_from(run)

    async def test_a_fork_has_the_memories_of_then(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("s")
            first = await session.remember("kept", tags=["x"])
            changed = await session.remember("old", confidence=0.5)
            await first.confirm("yes")
            fork = await session.fork(name="f")
            await changed.supersede("new", because="later")
            records = {memory.text: memory.record for memory in await fork.memories()}
            assert set(records) == {"kept", "old"}
            assert (records["kept"].note, records["kept"].tags, records["old"].confidence) == ("yes", ("x",), 0.5)
            await (await fork.memory(changed.seq)).forget("in the fork")
            assert (await session.memory(changed.seq)).status == "superseded"
            assert [memory.text for memory in await (await session.at(first.seq)).memories()] == ["kept"]
            assert (await store.verify()).ok

    async def test_atomic_sees_its_own_memories(self, opener: AsyncOpener) -> None:
        def both(tx: Any) -> int:
            old = tx.session("s").remember("a", tags=["x"])
            new = old.supersede("b", because="c")
            assert [memory.seq for memory in tx.session("s").memories(tag="x", status=None)] == [new.seq, old.seq]
            tx.scope("user:alice").remember("d", source=[new])
            return new.seq

        async with await opener() as store:
            new = await store.atomic(both)
            assert [memory.seq for memory in await (await store.session("s")).memories()] == [new]

    # -- refusals --------------------------------------------------------------------------------------------

    @pytest.mark.parametrize(
        ("text", "options", "error", "path"),
        [
            ("", {}, Invalid, "text"),
            (" \n", {}, Invalid, "text"),
            ("a\0", {}, Invalid, "text"),
            (None, {}, Invalid, "text"),
            ("a" * 100_001, {}, TooLarge, "text"),
            ("a", {"kind": "guess"}, Invalid, "kind"),
            ("a", {"kind": None}, Invalid, "kind"),
            ("a", {"source": "file:x"}, Invalid, "source"),
            ("a", {"source": ["file:x", "Makefile"]}, Invalid, "source[1]"),
            ("a", {"source": ["file:x", 7]}, Invalid, "source[1]"),
            ("a", {"source": [Ref("ab" * 16, 0)]}, NotFound, "source[0]"),
            ("a", {"source": ["file:x"] * 257}, TooLarge, "source"),
            ("a", {"about": "user:bob"}, Invalid, "about"),
            ("a", {"tags": ["ok", ""]}, Invalid, "tags[1]"),
            ("a", {"confidence": 1.1}, Invalid, "confidence"),
            ("a", {"confidence": float("nan")}, Invalid, "confidence"),
            ("a", {"confidence": True}, Invalid, "confidence"),
            ("a", {"valid_from": "someday"}, Invalid, "valid_from"),
            ("a", {"valid_from": "2026-01-02", "valid_to": "2026-01-02"}, Invalid, "valid_to"),
            ("a", {"key": ""}, Invalid, "key"),
        ],
    )
    async def test_bad_memories_are_refused_with_their_path(
        self, opener: AsyncOpener, text: Any, options: dict[str, Any], error: type[Invalid], path: str
    ) -> None:
        async with await opener() as store:
            session = await store.session("s")
            with pytest.raises(error) as refused:
                await session.remember(text, **options)
            assert (type(refused.value), refused.value.path) == (error, path)
            assert await session.memories() == []

    async def test_bad_questions_about_memories_are_refused_with_their_path(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("s")
            memory = await session.remember("a")
            for asking, error, path in (
                (partial(session.memory, 99), NotFound, "memory"),
                (partial(session.memories, limit=0), Invalid, "limit"),
                (partial(session.memories, after="x"), Invalid, "after"),
                (partial(session.memories, kind="guess"), Invalid, "kind"),
                (partial(store.memories, status="gone"), Invalid, "status"),
                (partial(store.memories, since="yesterday"), Invalid, "since"),
                (partial(memory.supersede, "", because="b"), Invalid, "text"),
                (partial(memory.supersede, "a", because=" "), Invalid, "because"),
                (partial(memory.forget, ""), Invalid, "because"),
                (partial(memory.confirm, ""), Invalid, "because"),
                (partial(session.rule_from, "a decision"), Invalid, "decision"),
                (partial(session.rule_from, memory), NotFound, "decision"),
            ):
                with pytest.raises(error) as refused:
                    await asking()
                assert (type(refused.value), refused.value.path) == (error, path)
            assert (await memory.refresh()).status == "live"

    @pytest.mark.parametrize("text", ["../../x", "'; DROP TABLE memories; --", "<script>", "100% {x} %s", "запомни ✓"])
    async def test_hostile_memories_are_only_texts(self, opener: AsyncOpener, text: str) -> None:
        async with await opener() as store:
            session = await store.session("s")
            first = await session.remember(text, tags=[text], about=[text], source=[f"file:{text}"], key=text)
            await first.confirm(text)
            (memory,) = await store.memories(tag=text, about=text)
            assert {memory.text, memory.record.note, memory.record.key, *memory.tags, *memory.about} == {text}
