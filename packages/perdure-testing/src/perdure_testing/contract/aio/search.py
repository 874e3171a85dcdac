"""The contract of recall and search: what is found, in which order and why; nothing acknowledged is missed (P9, P11, P12)."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from perdure.effects.tool import tool
from perdure.errors import Invalid, NotFound, Refused, TooLarge
from perdure.handles.aio.memory import AsyncHit
from perdure.handles.aio.run import AsyncRun
from perdure.model.records.conversation import Call
from perdure.model.records.retention import Retention
from perdure.runtime.agent import agent
from perdure.runtime.callers import caller_of
from perdure_testing.openers import AsyncOpener


@tool(kind="idempotent")
def restart(service: str) -> dict[str, str]:
    """A tool."""
    return {"restarted": service}


def watched(bird: str) -> str:
    """A step."""
    return f"{bird} seen"


def texts(hits: list[AsyncHit]) -> list[str]:
    """The recalled texts, in order."""
    return [hit.memory.text for hit in hits]


class AsyncRecallContract:
    """The memories that every store must recall."""

    async def test_what_was_remembered_is_recalled_at_once_and_says_why(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("s")
            turn = await session.say("user", "make test, please")
            memory = await session.remember("Tests run with make test", source=[turn, "file:Makefile"])
            await session.remember("The port is 8080")
            opener.clock.advance(3600)
            (hit,) = await session.recall("How do I run the tests?")
            assert hit.memory.record == memory.record
            assert (hit.why.words, hit.standing, hit.why.age.total_seconds()) == (("run", "test"), "unknown", 3600)
            assert hit.score > 0
            assert "file:Makefile" in str(hit.why)
            again = await session.remember("Testing takes a minute")
            assert {hit.memory.seq for hit in await session.recall("tests")} == {memory.seq, again.seq}

    async def test_a_session_reads_upward_and_nothing_beside(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("s", labels=["user:alice", "project:acme", "nothing"])
            for name in ("user:alice", "project:acme", "tenant", "user:bob"):
                await (await store.scope(name)).remember(f"The theme of {name} is dark")
            await session.remember("The theme of the session is dark")
            await (await store.session("other")).remember("The theme of the other session is dark")
            hits = {hit.memory.scope for hit in await session.recall("theme")}
            assert hits == {"s", "user:alice", "project:acme", "tenant"}
            assert {hit.memory.scope for hit in await session.recall("theme", scopes=["user:bob"])} == {"user:bob"}
            assert {hit.memory.scope for hit in await session.recall("theme", scopes=["session"])} == {"s"}
            assert len(await store.recall("theme")) == 6
            scope = await store.scope("user:bob")
            assert {hit.memory.scope for hit in await scope.recall("theme")} == {"user:bob", "tenant"}
            with pytest.raises(NotFound) as refused:
                await session.recall("theme", scopes=["session", "user:eve"])
            assert refused.value.path == "scopes[1]"

    async def test_of_equal_memories_the_narrow_one_goes_first(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            names = ["branch:fix", "repository:api", "project:acme", "user:alice"]
            session = await store.session("s", labels=names)
            await session.remember("The theme is dark")
            for name in [*names, "tenant"]:
                opener.clock.advance(1)
                await (await store.scope(name)).remember("The theme is dark")
            assert [hit.memory.scope for hit in await session.recall("theme")] == ["s", *names, "tenant"]

    async def test_superseded_and_forgotten_memories_are_not_recalled(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("s")
            old = await session.remember("Tests run with make")
            assert texts(await session.recall("tests")) == ["Tests run with make"]
            opener.clock.advance(60)
            before = old.at
            new = await old.supersede("Tests run with tox", because="moved")
            assert texts(await session.recall("tests")) == ["Tests run with tox"]
            assert texts(await session.recall("tests", at=before)) == ["Tests run with make"]
            assert texts(await session.recall("tests", at=new.at)) == ["Tests run with tox"]
            await new.forget("gone")
            assert texts(await session.recall("tests")) == []
            assert texts(await session.recall("tests", at=new.at)) == []
            assert await store.search("tests") == []

    async def test_a_memory_is_recalled_while_it_holds(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("s")
            now = (await session.say("user", "x")).at
            await session.remember("The freeze is on", valid_from="1h", valid_to=now)
            await session.remember("The freeze was lifted", valid_from=now)
            assert texts(await session.recall("freeze")) == ["The freeze was lifted"]
            assert texts(await session.recall("freeze", at="30m")) == ["The freeze is on"]
            assert texts(await session.recall("freeze", at="2h")) == []

    async def test_recall_can_be_narrowed(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("s")
            rule = await session.remember("Deploy on Mondays", kind="rule", tags=["ops", "x"], about=["team:a"])
            opener.clock.advance(10)
            lesson = await session.remember(
                "Deploy before lunch", kind="lesson", tags=["ops"], about=["team:a", "team:b"]
            )
            for options, expected in (
                ({"kinds": ["rule"]}, [rule]), ({"kinds": []}, []), ({"tags": ["ops", "x"]}, [rule]),
                ({"about": ["team:b"]}, [lesson]), ({"about": ["team:a", "team:b"]}, [lesson]), ({"tags": ["y"]}, []),
                ({"since": lesson.at}, [lesson]), ({"k": 1}, 1), ({"kinds": ["rule", "lesson"]}, 2),
            ):  # fmt: skip
                filters: dict[str, Any] = options
                hits = await session.recall("deploying", **filters)
                if isinstance(expected, int):
                    assert len(hits) == expected
                else:
                    assert [hit.memory.seq for hit in hits] == [row.seq for row in expected], options

    async def test_uses_are_counted_and_what_was_never_read_is_listed(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("s")
            read = await session.remember("The sky is blue")
            unread = await session.remember("Grass is green")
            for _ in range(2):
                await session.recall("sky")
            assert (await session.memory(read.seq)).record.uses == 2
            assert [memory.seq for memory in await session.memories(unread=True)] == [unread.seq]
            assert [memory.seq for memory in await store.memories(unread=True)] == [unread.seq]
            assert (await store.verify()).ok

    async def test_long_documents_are_found_by_any_part(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            scope = await store.scope("project:acme")
            filling = "nothing to see here, move along please. " * 300
            text = f"{filling} the zebra crossing {filling} the quokka enclosure {filling}"
            document = await scope.remember(text, kind="document", source=["https://example.org/zoo"])
            for word in ("zebra", "quokka"):
                (hit,) = await scope.recall(word)
                assert hit.memory.seq == document.seq
                (results,) = await store.search(word)
                assert word in results.text
                assert len(results.text) < 400

    @pytest.mark.parametrize(
        ("said", "asked"),
        [
            ("getUserName fails", "user name"),
            ("see src/auth/login.py", "login.py"),
            ("broken since v1.2.3", "1.2.3"),
            ("更喜欢深色模式", "深色"),
            ("ダークモードが好き", "モード"),
            ("le café est fermé", "CAFE"),
            ("the caches were invalidated", "invalidate the cache"),
            ("MAX_RETRIES is 5", "max retries"),
            ("Ünïcode", "unicode"),
        ],
    )
    async def test_words_are_found_however_they_are_written(self, opener: AsyncOpener, said: str, asked: str) -> None:
        async with await opener() as store:
            session = await store.session("s")
            await session.remember("something else entirely")
            await session.remember(said)
            assert texts(await session.recall(asked)) == [said]

    async def test_the_past_is_recalled_as_it_was(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("s")
            memory = await session.remember("Tests run with make")
            await memory.forget("no")
            past = await session.at(memory.seq)
            assert texts(await past.recall("tests")) == ["Tests run with make"]
            assert await session.recall("tests") == []


class AsyncSearchContract:
    """The texts that every store must find."""

    async def test_everything_that_was_said_decided_and_done_is_found(self, opener: AsyncOpener) -> None:
        async with await opener(actor="agent") as store:
            session = await store.session("s")
            turn = await session.say("user", "Safari fails", key="k")
            call = Call("c1", "grep", {"q": "Safari"})
            await session.say("assistant", None, calls=[call])
            await session.result("c1", {"hits": ["safari.css"]})
            await session.summarise(upto=turn.seq, text="Safari was reported")
            decision = await session.decide("Patch it", because="Safari matters")
            await decision.close("worked", note="on Safari 17")
            await session.task("Test on Safari", detail={"browser": "Safari"})
            await session.act(restart, "safari-proxy", key="e1")
            await session.emit("browser.checked", {"name": "Safari"})
            await session.remember("Safari caches hard")
            hits = await store.search("safari", limit=50)
            assert hits.complete
            assert {hit.kind for hit in hits} == {
                "turn", "summary", "decision", "task", "effect", "event", "memory",
            }  # fmt: skip
            assert all(hit.stream == "s" and hit.actor == "agent" and hit.score > 0 for hit in hits)
            assert hits[0].score >= hits[-1].score
            assert len({hit.ref for hit in hits}) == len(hits)
            (first,) = await store.search("patch", kinds=["decision"])
            assert (first.seq, first.ref, first.why.words) == (decision.seq, decision.ref, ("patch",))
            assert "Patch it" in first.text

    async def test_search_can_be_narrowed(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            one, two = await store.session("one"), await store.session("two")
            first = await one.say("user", "the parser breaks")
            opener.clock.advance(100)
            await (await store.as_("bob").session("two")).say("assistant", "the parser works")
            for options, expected in (
                ({}, {"one", "two"}), ({"session": "one"}, {"one"}), ({"actor": "bob"}, {"two"}), ({"since": "50s"}, {"two"}),
                ({"until": "50s"}, {"one"}), ({"kinds": ["decision"]}, set()), ({"kinds": []}, set()),
            ):  # fmt: skip
                filters: dict[str, Any] = options
                assert {hit.stream for hit in await store.search("parser", **filters)} == expected, options
            fork = await one.fork(name="three")
            await one.say("user", "the parser again")
            await fork.say("user", "another parser")
            assert {hit.text for hit in await store.search("parser", session="three")} == {
                "the parser breaks", "another parser",
            }  # fmt: skip
            assert (await store.search("parser", session="one", limit=1))[0].seq >= first.seq
            assert two.name == "two"

    async def test_search_takes_the_filters_of_recall(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session, scope = await store.session("s"), await store.scope("project:acme")
            await session.say("user", "deploy for alice", about=["alice"])
            opener.clock.advance(10)
            await session.say("assistant", "deploy for both", about=["alice", "bob"])
            await session.decide("deploy on Monday", because="quiet", tags=["ops", "x"], about=["bob"])
            await session.task("deploy it", labels=["ops"])
            await session.begin("deploy", {"to": "deploy host"}, key="e", about=["carol"])
            await session.emit("deploy.done", "deploy ended", about=["carol"])
            memory = await scope.remember("deploy before lunch", tags=["ops"], about=["alice"])
            await memory.confirm(about=["dora"])
            await (await store.session("other")).say("user", "deploy elsewhere")
            await (await store.session("whole", about=["erin"])).say("user", "deploy for erin")
            for options, expected in (
                ({"about": ["alice"]}, ["deploy before lunch", "deploy for alice", "deploy for both"]),
                ({"about": ["alice", "bob"]}, ["deploy for both"]),
                ({"about": ["alice"], "kinds": ["memory"]}, ["deploy before lunch"]),
                ({"about": ["alice"], "since": "5s"}, ["deploy before lunch", "deploy for both"]),
                ({"about": ["alice"], "until": "5s"}, ["deploy for alice"]),
                ({"about": ["carol"]}, ["deploy\ndeploy host", "deploy.done\ndeploy ended"]),
                ({"about": ["dora"]}, ["deploy before lunch"]), ({"about": ["erin"]}, ["deploy for erin"]),
                ({"about": ["nobody"]}, []),
                ({"tags": ["ops"]}, ["deploy before lunch", "deploy it", "deploy on Monday\nquiet"]),
                ({"tags": ["ops", "x"]}, ["deploy on Monday\nquiet"]), ({"tags": ["y"]}, []),
                ({"tags": ["ops"], "about": ["bob"]}, ["deploy on Monday\nquiet"]),
                ({"scopes": ["project:acme"]}, ["deploy before lunch"]), ({"scopes": []}, []),
                ({"scopes": ["project:acme"], "session": "other"}, ["deploy before lunch", "deploy elsewhere"]),
                ({"scopes": ["session"], "session": "other"}, ["deploy elsewhere"]),
            ):  # fmt: skip
                filters: dict[str, Any] = options
                assert sorted(hit.text for hit in await store.search("deploy", **filters)) == expected, options

    async def test_results_of_calls_effects_steps_and_runs_are_a_kind(self, opener: AsyncOpener) -> None:
        @agent(name="watches herons")
        async def watch(run: AsyncRun, bird: str) -> str:
            await run.step(watched, bird)
            return f"the {bird} run ended"

        async with await opener() as store:
            session = await store.session("s")
            await session.say("user", "tell me of the heron")
            await session.say("assistant", None, calls=[Call("c1", "look", {"at": "heron"})])
            answered = await session.result("c1", {"line": "heron is down"})
            await session.act(restart, "heron", key="e1")
            await store.drive(watch, "heron", session="s")
            hits = await store.search("heron", kinds=["result"])
            assert {hit.kind for hit in hits} == {"result"}
            assert {hit.text for hit in hits} >= {"heron is down", "watched\nheron seen", "the heron run ended"}
            assert answered.ref in [hit.ref for hit in hits]
            assert not any("tell me" in hit.text or hit.why.lent for hit in hits)
            effects = await store.search("heron", kinds=["effect"])
            assert {effect.kind for effect in effects} == {"effect"}
            assert {effect.ref for effect in effects} <= {hit.ref for hit in hits}
            every = await store.search("heron", limit=50)
            assert len({effect.ref for effect in every}) == len(every)
            assert {effect.kind for effect in every} == {"turn", "effect", "result"}
            mixed = await store.search("heron", kinds=["turn", "result"])
            assert [hit.kind for hit in mixed if hit.ref == answered.ref] == ["turn"]

    async def test_short_turns_are_lent_the_words_around_them(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("s")
            await session.say("user", "Which soup did you have for lunch?")
            await session.say("assistant", "Ramen")
            await session.say("user", "Thanks")
            for i in range(8):
                await session.say("user", f"Unrelated matter number {i}")
            hits = await store.search("soup lunch")
            assert hits[0].text == "Which soup did you have for lunch?"
            (lent,) = [hit for hit in hits if hit.text == "Ramen"]
            assert (lent.why.words, set(lent.why.lent)) == ((), {"soup", "lunch"})
            assert not any("number 7" in hit.text for hit in hits)

    async def test_a_users_words_go_before_the_same_words_of_others(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            for name in ("a", "b", "c"):
                role = "user" if name == "b" else "assistant"
                await (await store.session(name)).say(role, "The budget is 500 euros")
            assert (await store.search("budget"))[0].stream == "b"

    async def test_a_query_is_only_words(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("s")
            await session.say("user", "NEAR the end, OR so I hear; SELECT * FROM x")
            for query in (
                '"near" OR (',
                "near*",
                "NEAR(end so)",
                "end -hear",
                "'; DROP TABLE texts; --near",
                "near\n\t\"'",
            ):
                assert len(await store.search(query)) == 1, query
            for query in ("!!! ??? …", "the of and", "zzz"):
                assert await store.search(query) == []

    async def test_what_a_model_was_shown_is_kept_with_its_turn(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("s")
            question = await session.say("user", "How do I run the tests?")
            memory = await session.remember("Tests run with make")
            hits = await session.recall("tests")
            results = await store.search("tests", kinds=["turn"])
            answer = await session.say("assistant", "With make.", key="a", shown=[*hits, *results, memory])
            assert answer.shown == (memory.ref, question.ref)
            assert (await session.turns())[-1] == answer
            again = await session.say("assistant", "With make.", key="a")
            assert again == answer
            assert (await session.say("user", "thanks")).shown == ()
            for wrong in ([7], "memory", [answer.ref.__class__("zz", 1)]):
                with pytest.raises(Invalid) as refused:
                    await session.say("assistant", "x", shown=wrong)
                assert refused.value.path.startswith("shown")
            assert len(await session.turns()) == 3

    async def test_pruned_turns_are_not_found_and_leave_no_word(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("s")
            for i in range(6):
                await session.say("user", f"xylophone {i}" if i == 1 else f"turn {i}")
                await session.say("assistant", f"answer {i}")
            assert len(await store.search("xylophone", limit=50)) > 0
            last = (await session.turns())[-5].seq
            await session.summarise(upto=last, text="A summary")
            report = await store.retain(Retention(turns=1), dry_run=False)
            assert any(stream.turns for stream in report.streams)
            assert await store.search("xylophone", limit=50) == []
            for table in ("texts", "postings", "terms"):
                assert "xylophon" not in str(await caller_of(store).read(_all_of, table)), table
            assert (await store.verify()).ok

    async def test_tenants_find_and_weigh_only_their_own(self, opener: AsyncOpener) -> None:
        if not opener.shared:
            return
        async with await opener(tenant="a") as mine, await opener(tenant="b") as theirs:
            await (await mine.session("s")).say("user", "our secret plan")
            assert await theirs.search("secret") == []
            (alone,) = await mine.search("secret")
            for i in range(20):
                await (await theirs.session("s")).say("user", f"secret number {i}")
            assert (await theirs.search("secret", limit=1))[0].text.startswith("secret number")
            assert (await mine.search("secret"))[0].score == alone.score

    async def test_whoever_opens_the_store_finds_what_others_wrote(self, opener: AsyncOpener) -> None:
        if not opener.shared:
            return
        async with await opener() as one, await opener() as two:
            session = await one.session("s")
            for i in range(3):
                await session.say("user", f"heron {i}")
                assert len(await two.search("heron")) == i + 1
            await session.remember("Herons nest in March")
            assert len(await two.recall("nest")) == 1
        async with await opener(read_only=True) as reader:
            hits = await reader.search("heron", kinds=["turn"])
            assert (len(hits), hits.complete) == (3, True)
            for reading in (reader, await reader.session("s")):
                (hit,) = await reading.recall("nest")
                assert hit.memory.record.uses == 1  # a store that is only read counts no use

    async def test_bad_searches_are_refused_with_their_path(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            session = await store.session("s")
            nothing: Any = None
            for asking, error, path in (
                (partial(store.search, ""), Invalid, "query"),
                (partial(session.recall, " \n"), Invalid, "query"),
                (partial(session.recall, nothing), Invalid, "query"),
                (partial(session.recall, "a\0"), Invalid, "query"),
                (partial(session.recall, "a" * 10_001), TooLarge, "query"),
                (partial(session.recall, "a", k=0), Invalid, "k"),
                (partial(session.recall, "a", kinds="fact"), Invalid, "kinds"),
                (partial(session.recall, "a", kinds=["fact", "guess"]), Invalid, "kinds[1]"),
                (partial(session.recall, "a", scopes="user:x"), Invalid, "scopes"),
                (partial(session.recall, "a", tags="x"), Invalid, "tags"),
                (partial(session.recall, "a", at="someday"), Invalid, "at"),
                (partial(store.search, "a", kinds=["memories"]), Invalid, "kinds[0]"),
                (partial(store.search, "a", session="nobody"), NotFound, "session"),
                (partial(store.search, "a", since="someday"), Invalid, "since"),
                (partial(store.search, "a", limit=0), Invalid, "limit"),
                (partial(store.search, "a", scopes="user:x"), Invalid, "scopes"),
                (partial(store.search, "a", scopes=["session"]), NotFound, "scopes[0]"),
                (partial(store.search, "a", session="s", scopes=["session", "user:x"]), NotFound, "scopes[1]"),
                (partial(store.search, "a", tags="x"), Invalid, "tags"),
                (partial(store.search, "a", tags=["x", nothing]), Invalid, "tags[1]"),
                (partial(store.search, "a", about="x"), Invalid, "about"),
                (partial(store.search, "a", about=["x", ""]), Invalid, "about[1]"),
                (partial(store.search, "a", until="someday"), Invalid, "until"),
            ):
                with pytest.raises(error) as refused:
                    await asking()
                assert (type(refused.value), refused.value.path) == (error, path)

    async def test_nothing_is_searched_inside_atomic(self, opener: AsyncOpener) -> None:
        async with await opener() as store:
            with pytest.raises(Refused) as refused:
                await store.atomic(lambda tx: tx.session("s").recall("x"))
            assert refused.value.path == "search"


def _all_of(reader: Any, table: str) -> list[Any]:
    """Every row of a table, from whichever database."""
    connection = reader.connection
    cursor = connection.raw.execute(f"SELECT * FROM {table}")
    return cursor.fetchall() if hasattr(cursor, "fetchall") else list(cursor)
