"""Closing: a store that its caller has begun to close is closed, whatever becomes of that caller (P15)."""

from __future__ import annotations

import asyncio
import threading

import pytest

import perdure
from perdure.stores.core import READ_THREADS


def test_a_cancelled_close_closes_the_store_all_the_same(tmp_path):
    """Every thread of the store is busy, so its close has not begun when it is cancelled; nobody calls it again."""
    busy, before = threading.Event(), set(threading.enumerate())

    async def work() -> perdure.AsyncStore:
        store = await perdure.aopen(f"sqlite:///{tmp_path}/a.db")
        await (await store.session("s")).say("user", "hello")
        readers = [asyncio.ensure_future(store._caller.work(busy.wait)) for _ in range(READ_THREADS)]
        await asyncio.sleep(0)
        closing = asyncio.ensure_future(store.close())
        await asyncio.sleep(0)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        busy.set()
        await asyncio.gather(*readers)
        return store

    store = asyncio.run(work())  # which waits for its threads
    with pytest.raises(perdure.Refused, match="closed"):
        store.sync.session("s")
    ours = {thread.name for thread in set(threading.enumerate()) - before}
    assert not ours & {"perdure-heartbeat", "perdure-lane"}
    with perdure.open(f"sqlite:///{tmp_path}/a.db") as again:
        assert again.query("SELECT count(*) AS turns FROM v_turns") == [{"turns": 1}]
