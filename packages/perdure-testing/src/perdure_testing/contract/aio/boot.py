"""The contract of booting and of checks: what a pack holds, that it fits, and that what is stale is said to be so."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from perdure.boot.items import blocks
from perdure.boot.manifest import difference
from perdure.errors import Invalid, NotFound, Refused, TooLarge
from perdure.handles.aio.run import AsyncRun
from perdure.model.records.checks import Age, ClaimerAlive, Command, FileHash, GitRef, ModelOffered, UrlEtag, ValueIs
from perdure.model.records.conversation import Call
from perdure.model.records.memories import Validity
from perdure_testing.contract.aio.runs import driven, program
from perdure_testing.openers import AsyncOpener


class AsyncBootContract:
    """The duties of every store when a session is booted."""

    async def test_a_pack_holds_what_is_needed_to_continue(self, opener: AsyncOpener) -> None:
        async with await opener(actor="agent") as store:
            session = await store.session("s", labels=["project:acme"])
            await session.set_goal("Login works on Safari")
            project = await store.scope("project:acme")
            await project.remember("Never push to main", kind="rule")
            await session.remember("Patching cookies broke Firefox", kind="failed_approach")
            await session.remember("Tests run with make test", kind="workflow")
            await session.remember("ITP: a protection of Safari", kind="vocabulary")
            first = await session.task("Write the test")
            await session.task("Ship it", needs=[first])
            await session.decide("Use approach A", because="B breaks Safari")
            await (await session.decide("Keep sessions short", because="memory")).close("worked")
            await session.set("branch", "fix-42")
            await session.begin("open_pr", {"repo": "acme"}, key="pr-1")
            await session.say("user", "Login fails on Safari")
            await session.say("assistant", "Let me look", calls=[Call("c1", "grep", {"q": "Safari"})])
            await session.result("c1", {"hits": 3})
            await session.say("user", "And now?")
            pack = await session.boot(budget=4000, task="run the tests")
            items = [(item.section, item.kind) for item in pack.manifest.shown]
            assert items == [
                ("rules", "rule"), ("plan", "goal"), ("plan", "task"), ("plan", "task"), ("loops", "effect"), ("loops", "turn"),
                ("loops", "decision"), ("decisions", "decision"), ("lessons", "memory"), ("workspace", "value"),
                ("tail", "turn"), ("tail", "turn"), ("tail", "turn"), ("recalled", "memory"), ("words", "memory"),
            ]  # fmt: skip
            assert [block.heading.split()[0] for block in blocks(pack.text)] == [kind for _, kind in items]
            assert "old: look again" in pack.text
            assert pack.tokens <= 4000
            assert pack.text == (await session.boot(budget=4000, task="run the tests")).text
            messages = pack.messages("anthropic")
            assert [message["role"] for message in messages] == ["user", "assistant", "user"]
            assert pack.parts() == [pack.text]

    async def test_a_small_budget_keeps_the_rules_and_says_what_was_left_out(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("s")
            await session.remember("Never push to main", kind="rule")
            for number in range(30):
                await session.say("user", f"turn {number} says something about the login of module {number}")
            with pytest.raises(TooLarge) as raised:
                await session.boot(budget=20)
            needed = raised.value.facts["needed"]
            least = await session.boot(budget=needed)
            assert "Never push to main" in least.text
            assert least.tokens <= needed
            some = await session.boot(budget=400, max_chars=900)
            assert (some.tokens <= 400, some.chars <= 900) == (True, True)
            assert some.manifest.left_out["tail"]
            assert "left out; `perdure show s --turns 100`" in some.text
            assert (await session.boot(budget=400, tokenizer=len)).chars <= 400

    async def test_profiles_leave_sections_out(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("s")
            await session.remember("Never push", kind="rule")
            await session.remember("Tests run with make", kind="workflow")
            await session.say("user", "run the tests")
            packs = {
                name: await session.boot(task="tests", profile=name) for name in ("full", "small", "without-memory")
            }
            sections = {name: {item.section for item in pack.manifest.shown} for name, pack in packs.items()}
            assert sections == {
                "full": {"rules", "loops", "tail", "recalled"},
                "small": {"rules", "recalled"},
                "without-memory": {"rules", "loops", "tail"},
            }

    async def test_what_people_are_asked_and_answered_is_an_open_loop(self, opener: AsyncOpener) -> None:
        async with await opener() as store:

            async def asking(run: AsyncRun) -> object:
                first = await run.ask("Which port?")
                return [first, await run.ask("Merge?", choices=["merge", "hold"])]

            await store.session("s")
            agent = program(asking)
            await driven(store, agent, session="s")
            (ask,) = await store.asks()
            await store.answer(ask.id, "8080", by="alice")
            await driven(store, agent, session="s")
            pack = await (await store.session("s")).boot()
            assert "Answer: 8080" in pack.text
            assert "Merge?\nChoices: merge, hold" in pack.text

    async def test_the_doubt_of_a_run_is_an_open_loop(self, opener: AsyncOpener) -> None:
        def mail() -> str:
            raise OSError("the answer was lost")

        async def mailing(run: AsyncRun) -> object:
            return await run.act(mail)

        async with await opener() as store:
            session = await store.session("s")
            await driven(store, program(mailing), session="s")
            items = (await session.boot()).manifest.shown
            assert [item.kind for item in items if item.section == "loops"] == ["effect"]

    async def test_a_parked_run_and_what_it_waits_for_are_open_loops(self, opener: AsyncOpener) -> None:
        async def asking(run: AsyncRun) -> object:
            return await run.ask("Merge?")

        async def changed(run: AsyncRun) -> object:
            return await run.ask("Deploy?")

        async with await opener() as store:
            session = await store.session("s")
            await driven(store, program(asking), session="s")
            await (await store.runs())[0].resume()
            await driven(store, program(changed), session="s")
            assert [run.status for run in await store.runs()] == ["parked"]
            pack = await session.boot()
            assert [item.kind for item in pack.manifest.shown if item.section == "loops"] == ["ask", "run"]
            assert "Merge?" in pack.text

    async def test_memories_are_shown_in_the_time_for_which_they_hold(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("s")
            await session.remember("The freeze was on", kind="rule", valid_from="2020-01-01", valid_to="2020-02-01")
            await session.remember("The freeze is on", kind="rule", valid_from="2020-01-01")
            await session.remember("The freeze will be on", kind="rule", valid_from="2999-01-01")
            assert [block.text for block in blocks((await session.boot()).text)] == ["The freeze is on"]

    async def test_an_earlier_turn_is_recalled_for_the_task(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("s")
            await session.say("user", "The heron password hint is blue")
            for number in range(60):
                await session.say(
                    "user", f"turn {number} is about other matters altogether, at length and in some detail"
                )
            pack = await session.boot(budget=900, task="heron hint")
            assert "The heron password hint is blue" in pack.text
            assert next(item.id for item in pack.manifest.shown if item.section == "recalled") == "s/2"

    async def test_boot_in_a_transaction_and_bad_arguments_are_refused(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("s")
            odd = {"budget": 0, "profile": "x", "tokenizer": 3, "max_chars": -1, "root": 3, "commands": "ls"}
            for name, value in odd.items():
                options: dict[str, Any] = {name: value}
                with pytest.raises(Invalid):
                    await session.boot(**options)
            with pytest.raises(Refused):
                await store.atomic(lambda tx: tx.session("s").boot())

    # -- checks ----------------------------------------------------------------------------------------------

    async def test_checks_say_whether_a_memory_still_holds(self, opener: AsyncOpener, tmp_path: Path) -> None:
        async with await opener() as store:
            session = await store.session("s")
            makefile = tmp_path / "Makefile"
            makefile.write_text("all:\n")
            await session.set("branch", "fix-42")
            checks = [FileHash(str(makefile)), Age("30d"), ValueIs("branch", "fix-42")]
            memory = await session.remember("Tests run with make", checks=checks)
            assert [type(check).__name__ for check in memory.record.checks] == ["FileHash", "Age", "ValueIs"]
            assert await self._standing_of(session) == Validity.HOLDS
            makefile.write_text("none:\n")
            assert await self._standing_of(session) == Validity.STALE
            makefile.unlink()
            assert await self._standing_of(session) == Validity.STALE
            makefile.write_text("all:\n")
            await session.set("branch", "main")
            assert await self._standing_of(session) == Validity.STALE
            await session.set("branch", "fix-42")
            opener.clock.advance(31 * 86_400)
            (checked,) = await store.checked()
            assert "Tests run with make" in (await session.boot(task="tests")).text
            assert (checked.name, len(checked.outcomes)) == (str(memory.seq), 3)
            assert (await store.verify()).ok

    async def test_a_check_that_cannot_be_looked_at_is_unknown(self, opener: AsyncOpener, tmp_path: Path) -> None:
        async with await opener() as store:
            session = await store.session("s")
            file = tmp_path / "left"
            ran = tmp_path / "ran"
            touch = ["touch", str(ran)]
            for check in (
                FileHash("x", sha256="0" * 64, folder=str(tmp_path / "gone")),
                GitRef("main", folder=str(tmp_path)),
                Command(("no-such-program-here",), folder=str(tmp_path)),
                Command(tuple(touch), folder=str(tmp_path)),
            ):
                memory = await session.remember("Tests run with make", checks=[check])
                assert await self._standing_of(session) == Validity.UNKNOWN, check
                await memory.forget("next")
            assert not ran.exists()
            await session.remember("Tests run with make", checks=[Command(tuple(touch), folder=str(tmp_path))])
            (hit,) = await session.recall("tests", commands=[touch])
            assert (hit.standing, ran.exists(), file.exists()) == (Validity.HOLDS, True, False)

    async def test_checks_that_make_no_sense_are_refused(self, opener: AsyncOpener, tmp_path: Path) -> None:
        async with await opener() as store:
            session = await store.session("s")
            odd: Any = ("x", [3], [Age("x")], [Command(cast("Any", "ls -l"))], [GitRef("")], [Age("1d")] * 21, 7)
            for checks in odd:
                with pytest.raises(Invalid) as raised:
                    await session.remember("x", checks=checks)
                assert raised.value.path.startswith("checks")
            with pytest.raises(NotFound):
                await session.remember("x", checks=[FileHash(str(tmp_path / "nope"))])
            assert await session.memories() == []

    async def test_values_decisions_and_tasks_rest_on_checks_too(self, opener: AsyncOpener, tmp_path: Path) -> None:
        async with await opener() as store:
            session = await store.session("s")
            makefile = tmp_path / "Makefile"
            makefile.write_text("all:\n")
            await session.set("tests", "12 passed", checks=[FileHash(str(makefile))])
            decision = await session.decide("Use make", because="it is there", checks=[FileHash(str(makefile))])
            await session.task("Mend the Makefile", key="mend", checks=[FileHash(str(makefile)), Age("30d")])
            assert await self._standings(store) == {("value", "holds"), ("decision", "holds"), ("task", "holds")}
            makefile.write_text("none:\n")
            assert await self._standings(store) == {("value", "stale"), ("decision", "stale"), ("task", "stale")}
            pack = await session.boot()
            words = {item.kind: item.said.split()[0] for item in pack.manifest.shown}
            assert words == {"task": "stale", "decision": "stale", "value": "stale"}
            assert "Makefile has changed" in pack.text
            # A new version of a value rests on nothing, a superseded decision and a finished task count no more.
            await session.set("tests", "13 passed")
            await decision.supersede("Use tox", because="make went")
            await (await session.tasks())[0].done()
            assert await self._standings(store) == set()
            assert (await store.verify()).ok

    async def test_a_fork_rests_on_what_its_parent_does(self, opener: AsyncOpener, tmp_path: Path) -> None:
        async with await opener() as store:
            session = await store.session("s")
            makefile = tmp_path / "f"
            makefile.write_text("x")
            await session.set("tests", "12 passed", checks=[FileHash(str(makefile))])
            await session.fork(at=(await session.info()).last_seq, name="t")
            makefile.unlink()
            checks = {(check.scope, check.kind, check.standing.value) for check in await store.checked()}
            assert checks == {("s", "value", "stale"), ("t", "value", "stale")}
            assert (await store.verify()).ok

    async def test_models_pages_and_claimers_are_checked(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("s")
            task = await session.task("Write the test")
            checks = [ModelOffered("old-1"), ClaimerAlive(task.id), UrlEtag("https://example.org/a", etag='"1"')]
            for number, check in enumerate(checks):
                await session.remember(f"memory {number}", checks=[check])

            async def standings(**looking: Any) -> list[str]:
                return [check.standing.value for check in await store.checked(**looking)][::-1]

            assert await standings() == ["unknown", "unknown", "unknown"]
            await task.claim()
            assert await standings(models=["old-1"]) == ["holds", "holds", "unknown"]
            assert await standings(models=["new-2"], urls=["https://example.com/"]) == ["stale", "holds", "unknown"]

    async def test_a_task_whose_claim_is_over_is_listed_as_stale(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("s")
            await (await session.task("Write the test", checks=[ClaimerAlive()])).claim()
            await (await session.task("Read it")).claim(ttl="1s")
            assert await self._standings(store) == {("task", "holds")}
            opener.clock.advance(3600)
            await session.say("user", "still here")  # its heartbeat lives on
            assert ("task", "stale") in await self._standings(store)

    # -- manifests -------------------------------------------------------------------------------------------

    async def test_a_boot_keeps_its_manifest_and_counts_what_it_showed(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("s", labels=["project:acme"])
            project = await store.scope("project:acme")
            await project.remember("Never push to main", kind="rule")
            await project.remember("Herons fish at dawn")
            assert await session.boots() == []
            first = await session.boot(task="herons")
            position = (await session.info()).last_seq
            second = await session.boot(task="herons")
            assert (first.text, position) == (second.text, (await session.info()).last_seq)
            assert await session.boots() == [second.manifest, first.manifest]
            assert [memory.record.uses for memory in await project.memories()] == [2, 2]
            assert difference(first.manifest, second.manifest) == []
            await session.task("Feed them")
            third = await session.boot(task="herons")
            assert [(change.how, change.kind) for change in difference(first.manifest, third.manifest)] == [
                ("came", "task")
            ]
            for _ in range(20):
                await session.boot()
            assert len(await session.boots()) == 20
            assert (await store.verify()).ok

    async def test_of_a_document_the_part_that_answers_is_shown(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("s")
            chapters = [f"Chapter {i}. " + f"Water and reeds of pond {i}. " * 80 for i in range(12)]
            chapters[7] += "Herons are fed at dawn by the ranger."
            await session.remember("\n".join(chapters), kind="document", source=["file:ponds.md"])
            pack = await session.boot(budget=2000, task="who feeds the herons?")
            (part,) = [item for item in pack.manifest.shown if item.kind == "memory"]
            assert "Herons are fed at dawn by the ranger." in pack.text
            assert "part " in part.said
            (hit,) = await session.recall("herons")
            assert hit.memory.text == "\n".join(chapters)

    async def test_decisions_are_shown_by_depth(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("s")
            rule = await session.decide("Never vendor code", because="licences", tags=["standing"])
            await rule.close("agreed")
            old = await session.decide("Herons are fed at dawn", because="they fish then")
            await old.close("worked")
            for number in range(30):
                await (await session.decide(f"Use approach {number}", because="x")).close("worked")
            items = {item.id for item in (await session.boot(budget=20_000)).manifest.shown}
            assert (f"s/{rule.seq}" in items, f"s/{old.seq}" in items) == (True, False)
            pack = await session.boot(budget=20_000, task="when are herons fed?")
            assert f"s/{old.seq}" in {item.id for item in pack.manifest.shown}

    async def test_the_last_summary_of_a_session_of_the_same_scope_is_shown(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            other = await store.session("before", labels=["project:acme"])
            turn = await other.say("user", "Herons were fed")
            await other.summarise(upto=turn.seq, text="The herons are fed.")
            session = await store.session("now", labels=["project:acme"])
            alone = await store.session("elsewhere", labels=["project:other"])
            assert "The herons are fed." in (await session.boot()).text
            assert "The herons are fed." not in (await alone.boot()).text
            assert "The herons are fed." not in (await session.boot(profile="without-memory")).text

    @staticmethod
    async def _standings(store: Any) -> set[tuple[str, str]]:
        return {(check.kind, check.standing.value) for check in await store.checked()}

    @staticmethod
    async def _standing_of(session: Any) -> Validity:
        (hit,) = await session.recall("tests")
        return hit.standing
