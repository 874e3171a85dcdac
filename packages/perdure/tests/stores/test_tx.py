"""The transaction as verbs see it: own writes, the buffer, early flushes; failing leaves nothing (P5, P7)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from perdure.errors import Invalid, NotFound, Refused
from perdure.log.change import Change, Op, Stream
from perdure.log.event import SALT_BYTES
from perdure.planes.tables import HOLDERS, SESSIONS, TURNS
from perdure.stores import batch
from perdure.stores.store import Head, event_of
from perdure.stores.tx import LOG, Tx
from stores.verbs import Opened, append, begin, count_turns, everything, opened, retitle


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def store(request, tmp_path) -> Iterator[Opened]:
    urls = {
        "memory": lambda: "memory:",
        "sqlite": lambda: f"sqlite:///{tmp_path}/agent.db",
        "postgres": lambda: request.getfixturevalue("postgres_store"),
    }
    with opened(urls[request.param]()) as store:
        yield store


@pytest.fixture
def stream(store) -> Stream:
    return store.write(begin, "a")


def head(store: Opened, stream: Stream) -> Head:
    return store.write(lambda tx: tx._batch.connection.heads([stream.id], lock=False)[stream.id])


def test_record_returns_the_sequence_and_buffers(store, stream):
    def verb(tx: Any) -> tuple[int, int, int]:
        first, second = append(tx, stream, "x"), append(tx, stream, "y")
        assert len(tx.buffer.events) == 2
        return first, second, tx.seq(stream)

    assert store.write(verb) == (2, 3, 3)
    assert head(store, stream)[0] == 3


def test_a_verb_sees_its_own_writes_by_key_without_a_flush(store, stream):
    def verb(tx: Any) -> str:
        retitle(tx, stream, "new")
        assert not tx.flushed_early
        return tx.row(SESSIONS, stream)["title"]

    assert store.write(verb) == "new"


def test_a_query_that_touches_what_is_buffered_flushes_first(store, stream):
    def verb(tx: Any) -> tuple[int, bool, int, int]:
        append(tx, stream, "x")
        seen, flushed = count_turns(tx, stream), tx.flushed_early
        return seen, flushed, append(tx, stream, "y"), count_turns(tx, stream)

    assert store.write(verb) == (1, True, 3, 2)
    assert store.contents(stream) == ["x", "y"]


def test_a_query_that_touches_something_else_does_not_flush(store, stream):
    other = store.write(begin, "b")

    def verb(tx: Any) -> tuple[int, bool]:
        append(tx, stream, "x")
        return count_turns(tx, other), tx.flushed_early

    assert store.write(verb) == (0, False)


def test_a_stream_that_was_just_begun_is_found_by_its_name(store):
    def verb(tx: Any) -> tuple[Stream, Stream]:
        return begin(tx, "new"), begin(tx, "new")

    one, two = store.write(verb)
    assert one == two
    assert store.write(begin, "new") == one


def test_a_stream_without_an_event_is_never_real(store):
    store.write(lambda tx: tx.new_stream("session", "ghost"))
    assert store.write(lambda tx: tx.find_stream("session", "ghost")) is None


def test_a_stream_of_another_store_is_not_found(store):
    stranger = Stream(10**9, bytes(16), store.tenant, "session", "stranger")
    with pytest.raises(NotFound) as caught:
        store.write(append, stranger, "x")
    assert caught.value.path == "stream"


def test_a_failed_job_leaves_no_trace(store, stream):
    before = head(store, stream)

    def verb(tx: Any) -> None:
        retitle(tx, stream, "new")
        begin(tx, "never")
        tx.keep(b"blob" * 10_000)
        tx.touch(HOLDERS, {"holder": "h"}, {"actor": "a", "host": "b", "started_at": 1, "expires_at": 2})
        raise Invalid("no")

    with pytest.raises(Invalid, match="no"):
        store.write(verb)
    assert head(store, stream) == before
    assert store.read(lambda reads: reads.row(SESSIONS, stream))["title"] == ""
    assert store.write(lambda tx: tx.find_stream("session", "never")) is None
    assert store.write(lambda tx: tx.own_row(HOLDERS, "h")) is None


def test_a_tenant_of_a_failed_job_is_not_made(store):
    """It is inserted at once, past the buffer: failing afterwards must roll it back all the same."""

    def verb(tx: Any) -> None:
        tx.new_tenant("never")
        raise Invalid("no")

    with pytest.raises(Invalid, match="no"):
        store.write(verb)
    assert store.read(lambda reads: reads.query(LOG.tenant_by_name, name="never")) == []


def test_events_of_one_job_share_a_transaction_id_and_those_of_two_do_not(store, stream):
    def several(tx: Any) -> None:
        append(tx, stream, "x")
        append(tx, stream, "y")

    store.write(several)
    store.write(append, stream, "z")
    ids = [
        store.read(lambda reads, seq=seq: reads.query(LOG.event_tx, stream=stream.id, seq=seq))[0][0]
        for seq in (2, 3, 4)
    ]
    assert bytes(ids[0]) == bytes(ids[1]) != bytes(ids[2])


def test_each_event_has_a_salt_of_its_own(store, stream):
    """By a known salt, what was erased could be guessed from what its header commits to (P12)."""

    def several(tx: Any) -> None:
        append(tx, stream, "x")
        append(tx, stream, "x")

    for _ in range(2):
        store.write(several)
    rows = store.read(lambda reads: reads.query(LOG.events_page, stream=stream.id, after=0, upto=9, limit=9))
    salts = [bytes(event.salt) for event in map(event_of, rows)]
    assert [len(salt) for salt in salts] == [SALT_BYTES] * 5
    assert (
        len({*salts, *(bytes(event.tx)[:SALT_BYTES] for event in map(event_of, rows)), bytes(SALT_BYTES)}) == 5 + 3 + 1
    )


def test_a_large_document_becomes_a_blob_and_comes_back(store, stream):
    large = "x" * 100_000

    def verb(tx: Any) -> bytes:
        append(tx, stream, large)
        return tx.blob(tx.keep(b"small"))

    assert store.write(verb) == b"small"
    assert store.read(lambda reads: reads.row(TURNS, stream, 2))["role"] == "user"


def test_touch_writes_and_deletes_without_an_event(store, stream):
    values = {"actor": "a", "host": "b", "started_at": 1, "expires_at": 2}
    store.write(lambda tx: tx.touch(HOLDERS, {"holder": "h"}, values))
    assert store.write(lambda tx: tx.own_row(HOLDERS, "h"))["host"] == "b"
    store.write(lambda tx: tx.touch(HOLDERS, {"holder": "h"}, None))
    assert store.write(lambda tx: tx.own_row(HOLDERS, "h")) is None
    assert head(store, stream)[0] == 1


def test_whatever_was_written_verifies(tmp_path):
    url = f"sqlite:///{tmp_path}/agent.db"
    with opened(url) as store:
        stream = store.write(begin, "a")

        def mixed(tx: Any) -> None:
            append(tx, stream, "x")
            retitle(tx, stream, "one")
            count_turns(tx, stream)
            retitle(tx, stream, "two")
            append(tx, begin(tx, "b"), "y")

        store.write(mixed)
    assert everything(url) == {"x": 1, "y": 1}


# A transaction that is over -------------------------------------------------------------------------------------------------


def test_a_transaction_that_is_over_refuses_everything(store, stream):
    kept: list[Any] = []
    store.write(lambda tx: kept.extend((tx, tx.record, tx.touch, tx.query)))
    tx, *methods = kept
    for name in [name for name in vars(Tx) if not name.startswith("__")]:
        for use in (lambda name=name: getattr(tx, name), lambda name=name: setattr(tx, name, None)):
            with pytest.raises(Refused) as refused:
                use()
            assert refused.value.path == "atomic"
    change, touched = Change("x.y", stream, op=Op.NOTE), ({"holder": "h"}, None)
    for method, args in zip(methods, ((change,), (HOLDERS, *touched), (LOG.store_clock,)), strict=True):
        with pytest.raises(Refused):
            method(*args)


@pytest.mark.parametrize("wrong", [Invalid("no"), KeyError("ours")])
def test_it_is_over_also_when_the_verb_failed(store, stream, wrong):
    kept: list[Any] = []

    def fails(tx: Any) -> None:
        kept.append(tx)
        append(tx, stream, "x")
        count_turns(tx, stream)  # flushes early, so that the batch is tainted and the verb is run again
        raise wrong

    with pytest.raises(type(wrong)):
        store.write(fails)
    assert len(kept) > 1
    for tx in kept:
        with pytest.raises(Refused):
            append(tx, stream, "late")
    assert store.contents(stream) == []


def test_what_a_batch_begins_with_is_never_written_to(store, stream):
    def verb(tx: Any) -> None:
        append(tx, stream, "x")
        count_turns(tx, stream)  # flushes, so that the batch begins anew
        append(tx, stream, "y")

    store.write(verb)
    assert not any(getattr(batch._EMPTY, name) for name in batch.Buffer.__struct_fields__)


def test_a_cursor_that_was_left_in_the_middle_is_good_again(store, stream):
    """One cursor serves all statements of a connection: an error in one must not reach into the next."""
    twice = Change("turn.said", stream, TURNS, op=Op.BASE, key={"seq": 1}, set={"role": "nobody"})
    with pytest.raises(Invalid):
        store.write(lambda tx: (append(tx, stream, "x"), tx.record(twice)))
    assert store.write(append, stream, "y") == 2
