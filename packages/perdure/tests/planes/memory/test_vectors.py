"""Vectors where they can go wrong: emptied meanwhile, two at once, stopped halfway; bits with and without numpy; pgvector."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import perdure
from perdure.model.records.memories import ByVectors
from perdure.planes.memory import nearest, search, vectors
from perdure.planes.memory.embedder import Embedder
from perdure.planes.memory.vector_bytes import bits_of, cosines, pack
from perdure.stores import pgvector
from perdure.stores.statements import Statement
from perdure_testing.embedding import HashedEmbedding

MEANINGS = {"bird": "heron"}


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Any) -> str:
    return f"sqlite:///{tmp_path}/agent.db" if request.param == "sqlite" else request.getfixturevalue("postgres_store")


@pytest.fixture
def function() -> HashedEmbedding:
    return HashedEmbedding(meanings=MEANINGS)


@pytest.fixture
def store(url: str, function: HashedEmbedding) -> Iterator[perdure.Store]:
    with perdure.open(url, embed=function) as opened:
        yield opened


def read(store: perdure.Store, verb: Any, *args: Any) -> Any:
    return store._caller.core.read(verb, *args, tenant=store._caller.tenant)


def rows(store: perdure.Store, text: str) -> list[Any]:
    return read(store, lambda reads: reads.query(Statement("ask", "", text)))


def empty(store: perdure.Store, session: Any, seq: int) -> None:
    caller = store._caller
    caller.core.write(lambda tx: tx.empty(session._stream, [seq]), actor="", tenant=caller.tenant)


# -- the table -----------------------------------------------------------------------------------------------


def test_a_text_that_is_emptied_while_it_is_embedded_gets_no_vector(store: perdure.Store) -> None:
    session = store.session("s")
    turns = [session.say("user", f"heron {i}") for i in range(2)]
    store.search("x", kinds=["task"])
    caller, embedder = store._caller, Embedder(HashedEmbedding(name="late"))
    batch = read(store, vectors.gather, embedder, 10)
    packed = vectors._packed(embedder, batch.waiting)
    empty(store, session, turns[0].seq)
    caller.core.write(vectors.put, embedder, batch, packed, actor="", tenant=caller.tenant)
    number = read(store, vectors.state_of, embedder).embedding
    assert rows(store, f"SELECT seq FROM vectors WHERE embedding = {number}") == [(turns[1].seq,)]


def test_emptying_takes_the_vector_and_the_bits_that_memory_holds(store: perdure.Store) -> None:
    session = store.session("s")
    turns = [session.say("user", f"heron {i}") for i in range(3)]
    assert len(store.search("bird")) == 3
    bits = nearest.bits_for(store._caller.core, store._caller.tenant)
    assert len(bits) == 3
    empty(store, session, turns[1].seq)
    assert rows(store, "SELECT count(*) FROM vectors") == [(2,)]
    assert len(store.search("bird")) == 2
    assert len(bits) == 2


def test_an_index_that_is_made_anew_gets_its_vectors_anew(
    store: perdure.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    from perdure.model import words
    from perdure.planes.memory import index

    store.session("s").say("user", "heron")
    assert len(store.search("bird")) == 1
    monkeypatch.setattr(index, "VERSION", words.VERSION + 1)
    assert len(store.search("bird")) == 1
    assert rows(store, "SELECT count(*) FROM vectors") == [(1,)]


def test_two_who_embed_the_same_texts_at_once_write_them_once(store: perdure.Store) -> None:
    store.session("s").say("user", "heron")
    caller, embedder = store._caller, Embedder(HashedEmbedding(name="late"))
    store.search("x", kinds=["task"])
    batches = [read(store, vectors.gather, embedder, 10) for _ in range(2)]
    for batch in batches:
        packed = vectors._packed(embedder, batch.waiting)
        caller.core.write(vectors.put, embedder, batch, packed, actor="", tenant=caller.tenant)
    number = read(store, vectors.state_of, embedder).embedding
    assert rows(store, f"SELECT count(*) FROM vectors WHERE embedding = {number}") == [(1,)]
    assert read(store, vectors.is_complete, embedder)


def test_a_job_that_stops_halfway_is_continued_and_nothing_is_embedded_twice(url: str) -> None:
    whole = HashedEmbedding(meanings=MEANINGS)
    asked: list[str] = []

    def function(texts: list[str]) -> list[list[float]]:
        asked.extend(texts)
        if len(asked) > 120:
            raise KeyboardInterrupt
        return whole(texts)

    function.name = "one"  # type: ignore[attr-defined]
    with perdure.open(url, embed=function) as store:
        session = store.session("s")
        for i in range(150):
            session.say("user", f"heron {i}")
        with pytest.raises(KeyboardInterrupt):
            store.index()
        assert rows(store, "SELECT count(*) FROM vectors") == [(64,)]
    done = {text for text in asked[:80] if text.startswith("heron")}
    assert len(done) == 64
    asked.clear()

    def again(texts: list[str]) -> list[list[float]]:
        asked.extend(texts)
        return whole(texts)

    again.name = "one"  # type: ignore[attr-defined]
    with perdure.open(url, embed=again) as store:
        assert store.index().vectors == 150
    assert not done & {*asked}


def test_an_embedding_that_knows_no_other_language_is_not_asked(store: perdure.Store, url: str) -> None:
    function = HashedEmbedding(name="latin", meanings=MEANINGS)
    function.reads = str.isascii  # type: ignore[attr-defined]
    with perdure.open(url, embed=function) as other:
        session = other.session("s")
        session.say("user", "heron")
        session.say("user", "苍鹭在河边")
        found = other.search("苍鹭")
        assert (found[0].text, found.vectors) == ("苍鹭在河边", ByVectors.UNREAD)
        assert other.search("bird").vectors is ByVectors.ALL
        assert rows(other, "SELECT count(*) FROM vectors WHERE length(bits) > 0") == [(1,)]


def test_a_store_that_is_only_read_uses_the_vectors_that_are_there(url: str, function: HashedEmbedding) -> None:
    with perdure.open(url, embed=function) as store:
        session = store.session("s")
        session.say("user", "heron")
        store.search("bird")
        session.say("user", "another heron")
    with perdure.open(url, embed=function, read_only=True) as store:
        found = store.search("bird")
        assert [each.text for each in found] == ["heron"]


# -- bits ----------------------------------------------------------------------------------------------------

numbers = st.lists(st.floats(-1e6, 1e6, width=32), min_size=1, max_size=100)


@given(numbers)
def test_a_packed_vector_points_where_the_vector_did(vector: list[float]) -> None:
    packed = pack(vector)
    if not any(vector):
        assert packed is None
        return
    assert packed is not None
    (near,) = cosines(vector, [packed.numbers])
    assert near > 0.98
    assert len(packed.numbers) == len(vector)
    assert len(packed.bits) % 8 == 0


@pytest.mark.parametrize("bad", [[], [0.0, 0.0], [math.nan, 1.0], [math.inf, 1.0], [1e308, 1e308]])
def test_a_vector_that_points_nowhere_is_not_kept(bad: list[float]) -> None:
    assert pack(bad) is None


def test_a_control_that_does_not_check_would_keep_it() -> None:
    """What the check is for: without it one zero vector made every score of its scope no number."""
    (near,) = cosines([1.0, 0.0], [b"\0\0"])
    assert near == 0.0
    assert bits_of([0.0, 0.0]) == bytes(8)


def test_bits_are_found_alike_with_and_without_numpy(store: perdure.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numpy")
    for name in ("one", "two"):
        session = store.session(name)
        for i in range(40):
            session.say("user" if i % 2 else "assistant", f"heron {i} {name} stork{i * 7 % 11}")
    store.index()
    asked = [{}, {"session": "one"}, {"actor": "nobody"}, {"since": "1h"}, {"until": "1h"}, {"kinds": ["task"]}]
    with_numpy = [[(each.ref, each.score) for each in store.search("bird stork3", **each)] for each in asked]
    monkeypatch.setattr(nearest, "numpy_or_none", lambda: None)
    nearest._KEPT.clear()
    monkeypatch.setattr(pgvector, "find", lambda _: None)
    without = [[(each.ref, each.score) for each in store.search("bird stork3", **each)] for each in asked]
    assert nearest.bits_for(store._caller.core, store._caller.tenant)._numpy is None
    assert [[ref for ref, _ in each] for each in with_numpy] == [[ref for ref, _ in each] for each in without]
    assert with_numpy[0]


def test_what_is_added_by_others_is_read_on(url: str, function: HashedEmbedding) -> None:
    with perdure.open(url, embed=function) as one, perdure.open(url, embed=function) as two:
        one.session("s").say("user", "heron")
        assert len(one.search("bird")) == 1
        two.session("t").say("user", "a heron too")
        assert len(two.search("bird")) == 2
        assert len(one.search("bird")) == 2


# -- pgvector ------------------------------------------------------------------------------------------------


def test_postgres_finds_the_nearest_by_itself_once_it_is_indexed(
    postgres_store: str, function: HashedEmbedding, monkeypatch: pytest.MonkeyPatch
) -> None:
    with perdure.open(postgres_store, embed=function) as store:
        session = store.session("s", labels=["project:x"])
        for i in range(30):
            session.say("user", f"heron {i} stork{i % 7}")
        memory = store.scope("project:x").remember("A heron", tags=["bird"], about=["user:al"])
        assert read(store, pgvector.find) is None
        by_bits = [(each.ref, each.score) for each in store.search("bird stork3", limit=20)]
        store.index()
        if read(store, pgvector.find) is None:
            pytest.skip("this PostgreSQL has no pgvector")
        monkeypatch.setattr(nearest.Bits, "nearest", None)  # not asked any more
        assert [(each.ref, each.score) for each in store.search("bird stork3", limit=20)] == by_bits
        monkeypatch.setattr(pgvector, "EXACT_MAX", -1)  # by the index, or as if
        assert len(store.search("bird", session="s")) == 10
        for asked in ({"tags": ["bird"]}, {"about": ["user:al"]}, {"since": "1h"}):
            assert [hit.memory.seq for hit in session.recall("bird", **asked)] == [memory.seq]
        assert not session.recall("bird", about=["user:bo"])
        store.scope("project:x").add_subjects("user:bo")
        assert [hit.memory.seq for hit in session.recall("bird", about=["user:bo"])] == [memory.seq]


def test_postgres_plans_for_the_scope_that_is_searched(postgres_store: str, function: HashedEmbedding) -> None:
    """A plan that is kept counts a small scope by reading every vector: seventy times as long among 200,000."""
    with perdure.open(postgres_store, embed=function) as store:
        session = store.session("s")
        session.say("user", "a heron by the lake")
        store.index()

        def searched(reads: Any) -> list[Any]:
            near, state = pgvector.find(reads), vectors.state_of(reads, Embedder(function))
            assert near is not None
            query = [*function(["heron"])[0]]
            whole = Statement("whole", "", "SELECT count(*) FROM vectors v WHERE v.tenant = :tenant")
            for _ in range(20):  # PostgreSQL keeps a plan after the fifth time
                found = pgvector.nearest(reads, near, state.embedding, query, ["turn"], [session._stream.id], {}, 5)
                assert [place[0] for place in found] == [session._stream.id]
                reads.query(whole, tenant=reads.tenant)  # the control: its plan may be kept
            kept = Statement("kept", "", "SELECT statement FROM pg_prepared_statements")
            return [text for (text,) in reads.query(kept) if "vectors v" in text]

        if read(store, pgvector.find) is None:
            pytest.skip("this PostgreSQL has no pgvector")
        planned = read(store, searched)
    assert [text.startswith("SELECT count(*) FROM vectors v") for text in planned] == [True]


def test_a_scope_that_is_about_somebody_is_found_by_meaning(store: perdure.Store) -> None:
    scope = store.scope("project:x", about=["user:bo"])
    memory = scope.remember("A heron")
    assert [hit.memory.seq for hit in store.recall("bird", about=["user:bo"])] == [memory.seq]
    assert not store.recall("bird", about=["user:al"])


def test_a_database_that_may_not_make_the_extension_does_without(
    postgres_store: str, function: HashedEmbedding, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pgvector, "_installed", lambda _: None)
    with perdure.open(postgres_store, embed=function) as store:
        store.session("s").say("user", "heron")
        assert store.index().vectors == 1
        assert read(store, pgvector.find) is None
        assert len(store.search("bird")) == 1


def test_searching_embeds_only_a_few_texts_first(store: perdure.Store, function: HashedEmbedding) -> None:
    session = store.session("s")
    for i in range(100):
        session.say("user", f"heron {i}")
    store.search("bird")
    assert rows(store, "SELECT count(*) FROM vectors") == [(search.EMBEDDED_FIRST,)]
