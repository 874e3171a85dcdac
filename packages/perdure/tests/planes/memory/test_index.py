"""The index where it can go wrong: two who index at once, texts that are emptied meanwhile, transactions in flight, restores."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

import perdure
from perdure.log.event import Body, Event
from perdure.model import words
from perdure.planes.memory import index
from perdure.planes.memory.texts import PART_MAX_CHARS, TEXT_MAX_CHARS, TextsGone, flat, moved_by, parts_of, said_by
from perdure.stores.statements import Statement
from perdure.stores.tx import Tx


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Any) -> str:
    return f"sqlite:///{tmp_path}/agent.db" if request.param == "sqlite" else request.getfixturevalue("postgres_store")


@pytest.fixture
def store(url: str) -> Iterator[perdure.Store]:
    with perdure.open(url) as opened:
        yield opened


def tenant_of(store: perdure.Store) -> int:
    return store._caller.tenant


def rows(store: perdure.Store, text: str) -> list[Any]:
    return store._caller.core.read(lambda reads: reads.query(Statement("ask", "", text)), tenant=tenant_of(store))


def gathered(store: perdure.Store) -> index.IndexBatch:
    batch = store._caller.core.read(index.gather, tenant=tenant_of(store))
    assert batch is not None
    return batch


def put(store: perdure.Store, batch: index.IndexBatch) -> bool:
    return store._caller.core.write(index.put, batch, actor="", tenant=tenant_of(store))


def consistent(store: perdure.Store) -> None:
    """What the triggers keep is what the texts say."""
    counted = rows(store, "SELECT shelf, count(*), sum(len), sum(is_short) FROM texts GROUP BY shelf ORDER BY shelf")
    kept = rows(store, "SELECT shelf, texts, words, shorts FROM shelves WHERE texts > 0 ORDER BY shelf")
    assert [tuple(map(str, row)) for row in counted] == [tuple(map(str, row)) for row in kept]
    postings = rows(store, "SELECT shelf, term, count(*) FROM postings GROUP BY shelf, term ORDER BY shelf, term")
    assert postings == rows(store, "SELECT shelf, term, df FROM terms ORDER BY shelf, term")
    assert rows(store, "SELECT coalesce(sum(tf), 0) FROM postings") == rows(
        store, "SELECT coalesce(sum(len), 0) FROM texts"
    )


def test_of_two_who_index_at_once_one_does(store: perdure.Store) -> None:
    store.session("s").say("user", "a heron")
    first, second = gathered(store), gathered(store)
    assert (put(store, first), put(store, second)) == (True, False)
    assert len(store.search("heron")) == 1
    consistent(store)


def test_indexing_again_changes_nothing(store: perdure.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.session("s").say("user", "a heron and another heron")
    batch = gathered(store)
    put(store, batch)
    put(store, batch._replace(before=batch.place))
    assert rows(store, "SELECT df FROM terms WHERE term = 'heron'") == [(1,)]
    consistent(store)


def test_a_text_that_is_emptied_while_it_is_indexed_leaves_no_word(store: perdure.Store) -> None:
    session = store.session("s")
    turn = session.say("user", "the secret is a heron")
    batch = gathered(store)

    def empty(tx: Tx) -> None:
        tx.empty(session._stream, [turn.seq])

    store._caller.core.write(empty, actor="", tenant=tenant_of(store))
    assert put(store, batch)
    assert rows(store, "SELECT count(*) FROM texts") == [(0,)]
    assert store.search("heron") == []


def test_control_a_text_that_is_not_emptied_is_there(store: perdure.Store) -> None:
    store.session("s").say("user", "the secret is a heron")
    assert put(store, gathered(store))
    assert rows(store, "SELECT count(*) FROM texts") == [(1,)]


def test_emptying_takes_every_word_and_every_count(store: perdure.Store) -> None:
    session = store.session("s")
    turns = [session.say("user", f"heron {i} stork") for i in range(3)]
    store.search("x")
    store._caller.core.write(lambda tx: tx.empty(session._stream, [turns[1].seq]), actor="", tenant=tenant_of(store))
    consistent(store)
    assert rows(store, "SELECT df FROM terms WHERE term = 'heron'") == [(2,)]
    assert rows(store, "SELECT count(*) FROM terms WHERE term = '1'") == [(0,)]


def test_other_words_make_the_index_anew(store: perdure.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    session = store.session("s")
    for i in range(5):
        session.say("user", f"heron {i}")
    session.remember("herons fish").supersede("herons hunt", because="x")
    assert len(store.search("heron", kinds=["turn"])) == 5
    before = rows(store, "SELECT in_stream, seq, part, shelf, terms FROM texts ORDER BY 1, 2, 3, 4")
    monkeypatch.setattr(index, "VERSION", words.VERSION + 1)
    monkeypatch.setattr(index, "CLEAR_TEXTS", 2)
    assert len(store.search("heron", kinds=["turn"])) == 5
    assert rows(store, "SELECT version FROM indexing") == [(words.VERSION + 1,)]
    assert rows(store, "SELECT in_stream, seq, part, shelf, terms FROM texts ORDER BY 1, 2, 3, 4") == before
    consistent(store)


def test_a_backlog_is_read_in_batches_and_goes_on_where_it_stopped(
    store: perdure.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index, "BATCH_EVENTS", 3)
    session = store.session("s")
    for i in range(10):
        session.say("user", f"heron {i}")
    monkeypatch.setattr(store._caller.core, "timeout_seconds", -1)
    with pytest.raises(perdure.TimedOut) as late:
        store.search("heron")
    assert "continues" in late.value.hint
    monkeypatch.setattr(store._caller.core, "timeout_seconds", 30)
    assert len(store.search("heron", limit=20)) == 10
    consistent(store)


def test_what_is_committed_behind_a_transaction_in_flight_is_found(postgres_store: str) -> None:
    """The feed stops there; a search must not: whoever was told that it is kept looks for it."""
    with perdure.open(postgres_store) as store:
        session = store.session("s")
        session.say("user", "heron 0")
        raw: Any = store._caller.core.engine.connect().raw
        raw.execute("BEGIN")
        raw.execute("SELECT pg_current_xact_id()")
        try:
            for i in range(1, 4):
                session.say("user", f"heron {i}")
                assert len(store.search("heron")) == i + 1
            with perdure.open(postgres_store, read_only=True) as reader:
                assert reader.search("heron").complete  # the index has them all, though its position lags behind
                session.say("user", "heron 4")
                assert not reader.search("heron").complete
        finally:
            raw.execute("ROLLBACK")
            raw.close()
        assert isinstance(raw, psycopg.Connection)
        assert len(store.search("heron")) == 5
        consistent(store)


def test_memories_that_were_made_and_superseded_in_one_batch_are_past(store: perdure.Store) -> None:
    scope = store.scope("project:acme")
    scope.remember("herons fish").supersede("herons hunt", because="x").supersede("herons wait", because="y")
    scope.remember("herons sing").forget("they do not")
    assert [hit.memory.text for hit in scope.recall("heron")] == ["herons wait"]
    assert {shelf for (shelf,) in rows(store, "SELECT DISTINCT shelf FROM texts")} == {"memory.fact", "past.fact"}
    consistent(store)


def test_parts_together_are_the_text() -> None:
    for text in ("short", "word " * 2_000, "x" * 5_000, "line\n" * 900, ""):
        parts = parts_of(text)
        assert "".join(parts) == text
        assert all(len(part) <= PART_MAX_CHARS for part in parts)
    assert sum(map(len, parts_of("x" * (TEXT_MAX_CHARS + 5)))) == TEXT_MAX_CHARS


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda each: (
        st.lists(each, max_size=3)
        | st.dictionaries(st.sampled_from(["seq", "text", "content", "$", "a"]), each, max_size=3)
    ),
    max_leaves=6,
)
COLUMNS = st.dictionaries(
    st.sampled_from(["status", "kind", "role", "title", "tool"]), JSON | st.sampled_from(["live", "fact", "superseded"])
)
TABLES = st.sampled_from(["turns", "covers", "decisions", "tasks", "effects", "memories", "", "locks"])


@given(TABLES, st.sampled_from(["insert", "base", "set", "note"]), st.dictionaries(st.just("seq"), JSON), COLUMNS, JSON)
def test_whatever_a_body_says_it_is_read_or_passed_over(table: str, op: str, key: Any, columns: Any, doc: Any) -> None:
    event = Event(7, "app.x", table, "me", 1, 1, b"", b"", b"", b"x", stream=3)
    body = Body(op=op, key=key, set=columns, doc=doc)
    said, moved = said_by(event, body), moved_by(event, body)
    for found in (said, moved):
        assert found is None or 0 < (found.seq if isinstance(found, TextsGone) else found.of_seq) < 2**62
    assert said is None or (type(said.text) is str and said.text.strip())


def test_documents_are_flattened_in_their_order_and_bytes_are_passed_over() -> None:
    tree = {"a": ["one", {"b": "two"}], "c": 3, "d": {"$": ["bytes", "aGVyb24="]}, "e": None, "f": True}
    assert flat(tree) == "one\ntwo\n3"
