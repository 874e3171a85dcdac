"""The contract of vectors: what is found by meaning, on every store alike; nothing waits for them, nothing is spoilt (P8–P12)."""

from __future__ import annotations

import math
from typing import Any

import pytest

from perdure.errors import Invalid, Unavailable
from perdure.model.records.conversation import Call
from perdure.model.records.memories import ByVectors
from perdure.model.records.retention import Retention
from perdure_testing.embedding import HashedEmbedding
from perdure_testing.openers import AsyncOpener

MEANINGS = {"automobil": "car", "vehicl": "car", "begin": "start", "kitten": "cat"}


def embedding(**options: Any) -> HashedEmbedding:
    """An embedding that knows a few words of one meaning."""
    return HashedEmbedding(meanings=MEANINGS, **options)


class AsyncVectorsContract:
    """Every store finds by vectors."""

    async def test_a_memory_is_found_by_its_meaning_and_says_so(self, opener: AsyncOpener) -> None:
        async with await opener(embed=embedding()) as store:
            session = await store.session("s")
            near = await session.remember("The car is red")
            await session.remember("Tests run with make")
            hits = await session.recall("automobile")
            assert [hit.memory.seq for hit in hits] == [near.seq]
            assert hits.vectors is ByVectors.ALL
            assert (hits[0].why.words, hits[0].why.lent) == ((), ())
            assert hits[0].why.vector is not None
            assert "near in meaning" in str(hits[0].why)

    async def test_without_an_embedding_it_is_found_by_words_alone_and_says_so(self, opener: AsyncOpener) -> None:
        async with await opener(embed=False) as store:
            session = await store.session("s")
            await session.remember("The car is red")
            hits = await session.recall("automobile")
            assert (list(hits), hits.vectors) == ([], ByVectors.OFF)
            hits = await session.recall("car")
            assert (len(hits), hits[0].why.vector) == (1, None)

    async def test_saying_and_remembering_never_call_it(self, opener: AsyncOpener) -> None:
        function = embedding()
        async with await opener(embed=function) as store:
            session = await store.session("s")
            await session.say("user", "The car is red")
            await session.remember("The car is blue")
            assert function.calls == 0
            await store.search("vehicle")
            called = function.calls
            await store.search("vehicle")
            assert function.calls == called + 1  # the query alone

    async def test_words_and_vectors_together_are_no_worse_than_either(self, opener: AsyncOpener) -> None:
        async with await opener(embed=embedding()) as store:
            session = await store.session("s")
            both = await session.say("assistant", "Start the car")
            await session.say("assistant", "The automobile must begin to move at once, said the tall man in the hat")
            await session.say("assistant", "A car, a boat and a plane stood in the yard beside the house")
            hits = await store.search("start the car")
            assert hits[0].seq == both.seq
            assert len(hits) == 3

    async def test_filters_hold_for_what_is_found_by_vectors(self, opener: AsyncOpener) -> None:
        async with await opener(embed=embedding()) as store:
            one, two = await store.session("one"), await store.session("two", labels=["project:x"])
            await one.say("user", "The car is red")
            opener.clock.advance(100)
            scope = await store.scope("project:x")
            tagged = await scope.remember("A car is fast", tags=["speed"], about=["user:al"])
            plain = await scope.remember("The car is slow", kind="lesson")
            hits = await store.search("vehicle", kinds=["turn"])
            assert [hit.stream for hit in hits] == ["one"]
            assert not await store.search("vehicle", session="two", kinds=["turn"])
            assert not await store.search("vehicle", kinds=["turn"], since="50s")
            assert len(await store.search("vehicle", until="50s")) == 1
            assert not await store.search("vehicle", actor="nobody")
            assert len(await store.search("vehicle", kinds=["turn"], actor="me")) == 1
            assert {hit.memory.seq for hit in await two.recall("vehicle")} == {tagged.seq, plain.seq}
            filters: list[dict[str, Any]] = [{"tags": ["speed"]}, {"about": ["user:al"]}, {"kinds": ["fact"]}]
            for options in filters:
                assert [hit.memory.seq for hit in await two.recall("vehicle", **options)] == [tagged.seq]
            assert not await one.recall("vehicle")

    async def test_superseded_and_forgotten_memories_are_found_by_no_vector(self, opener: AsyncOpener) -> None:
        async with await opener(embed=embedding()) as store:
            scope = await store.scope("project:x")
            old = await scope.remember("The car is red")
            assert len(await scope.recall("vehicle")) == 1
            before = old.at
            opener.clock.advance(60)
            new = await old.supersede("The car is blue", because="painted")
            assert [hit.memory.seq for hit in await scope.recall("vehicle")] == [new.seq]
            assert [hit.memory.seq for hit in await scope.recall("vehicle", at=before)] == [old.seq]
            await new.forget("sold")
            assert not await scope.recall("vehicle")

    async def test_what_was_pruned_has_no_vector(self, opener: AsyncOpener) -> None:
        async with await opener(embed=embedding()) as store:
            session = await store.session("s")
            for i in range(6):
                await session.say("user", "The car is red" if i == 1 else f"turn {i}")
                await session.say("assistant", f"answer {i}")
            first = await store.search("vehicle")
            assert first[0].text == "The car is red"
            before = await store.index()
            await session.summarise(upto=(await session.turns())[-5].seq, text="A summary")
            await store.retain(Retention(turns=1), dry_run=False)
            assert not [hit for hit in await store.search("vehicle") if "car" in hit.text]
            after = await store.index()
            assert after.vectors == after.texts < before.vectors
            assert (await store.verify()).ok

    async def test_vectors_of_another_tenant_are_never_found(self, opener: AsyncOpener) -> None:
        if not opener.shared:
            pytest.skip("needs a second open of the same store")
        async with (
            await opener(embed=embedding(), tenant="a") as store,
            await opener(embed=embedding(), tenant="b") as other,
        ):
            await (await store.session("s")).say("user", "The car is red")
            await (await other.session("s")).say("user", "The kitten sleeps")
            await store.index()
            await other.index()
            assert len(await store.search("vehicle")) == 1
            assert not await other.search("vehicle")

    @pytest.mark.parametrize("bad", [0.0, math.nan, math.inf])
    async def test_a_vector_that_points_nowhere_spoils_nothing(self, opener: AsyncOpener, bad: float) -> None:
        complete = embedding()

        def function(texts: list[str]) -> list[list[float]]:
            return [
                [bad] * 64 if "broken" in text else vector for text, vector in zip(texts, complete(texts), strict=True)
            ]

        async with await opener(embed=function) as store:
            session = await store.session("s")
            await session.say("user", "A broken car")
            near = await session.say("user", "The automobile is red")
            hits = await store.search("vehicle")
            assert [hit.seq for hit in hits] == [near.seq]
            assert len(await store.search("car")) == 2
            failure = await store.search("broken")
            assert (failure[0].text, failure.vectors) == ("A broken car", ByVectors.FAILED)

    async def test_a_vector_of_another_size_is_refused_and_nothing_is_kept(self, opener: AsyncOpener) -> None:
        complete = embedding()

        def function(texts: list[str]) -> list[list[float]]:
            return [
                vector[:7] if "odd" in text else vector for text, vector in zip(texts, complete(texts), strict=True)
            ]

        async with await opener(embed=function) as store:
            await (await store.session("s")).say("user", "an odd car")
            with pytest.raises(Invalid) as refused:
                await store.search("car")
            assert refused.value.path == "embed"
            with pytest.raises(Invalid):
                await store.index()
        async with await opener(embed=False) as store:
            if opener.shared:
                assert len(await store.search("car")) == 1

    async def test_an_embedding_that_fails_leaves_the_words(self, opener: AsyncOpener) -> None:
        def function(_: list[str]) -> list[list[float]]:
            raise OSError("the server is away")

        async with await opener(embed=function) as store:
            await (await store.session("s")).say("user", "The car is red")
            hits = await store.search("car")
            assert (len(hits), hits.vectors) == (1, ByVectors.FAILED)
            with pytest.raises(Unavailable) as refused:
                await store.index()
            assert refused.value.path == "embed"

    async def test_something_that_is_no_function_is_refused_before_anything_is_opened(
        self, opener: AsyncOpener
    ) -> None:
        with pytest.raises(Invalid) as refused:
            await opener(embed="all-MiniLM")
        assert refused.value.path == "embed"

    async def test_a_search_by_meaning_takes_the_same_filters(self, opener: AsyncOpener) -> None:
        async with await opener(embed=embedding()) as store:
            session, scope = await store.session("s"), await store.scope("project:acme")
            await session.say("user", "The car is red", about=["alice"])
            await session.decide("The car is blue", because="so", tags=["ops"])
            await scope.remember("The car is green", tags=["ops"], about=["alice"])
            await session.say("assistant", None, calls=[Call("c1", "look", {"at": "it"})])
            await session.result("c1", "The car is gone")
            for options, expected in (
                ({"about": ["alice"]}, {"The car is red", "The car is green"}),
                ({"tags": ["ops"]}, {"The car is blue\nso", "The car is green"}),
                ({"tags": ["ops"], "about": ["alice"]}, {"The car is green"}),
                ({"scopes": ["project:acme"]}, {"The car is green"}),
                ({"kinds": ["result"]}, {"The car is gone"}),
            ):
                filters: dict[str, Any] = options
                hits = await store.search("automobile", **filters)
                assert {hit.text for hit in hits} == expected, options
                assert all(hit.why.vector is not None and not hit.why.words for hit in hits)

    async def test_a_backlog_is_embedded_by_index_and_searches_say_so(self, opener: AsyncOpener) -> None:
        async with await opener(embed=embedding()) as store:
            session = await store.session("s")
            for number in range(150):
                await session.say("user", f"The kitten number {number} sleeps")
            assert (await store.search("cat")).vectors is ByVectors.SOME
            progress: list[tuple[str, int, int]] = []
            indexed = await store.index(tell=lambda *done: progress.append(done))
            assert (indexed.texts, indexed.vectors, indexed.embedding) == (150, 150, "hashed")
            assert progress[-1] == ("vectors", 118, 118)
            assert (await store.search("cat")).vectors is ByVectors.ALL
            assert (await store.index()) == indexed

    async def test_another_embedding_makes_its_own_vectors_and_takes_the_place_of_the_old(
        self, opener: AsyncOpener
    ) -> None:
        if not opener.shared:
            pytest.skip("needs a second open of the same store")
        async with await opener(embed=embedding()) as store:
            await (await store.session("s")).say("user", "The car is red")
            assert len(await store.search("vehicle")) == 1
        async with await opener(embed=embedding(name="other", dims=100)) as store:
            indexed = await store.index()
            assert (indexed.vectors, indexed.embedding) == (1, "other")
            assert len(await store.search("vehicle")) == 1
