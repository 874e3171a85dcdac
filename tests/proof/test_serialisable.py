"""Concurrent transactions on several streams have a serial order, on SQLite and on PostgreSQL (P5, P9; docs/decisions/0003).

Threads on stores of their own read some values and write others, in `store.atomic` or with `expect=`; every write makes a new
version, so every read says whose write it saw. From the versions follows who comes before whom: ww, wr and rw. A cycle would be
a history that no serial order gives (write skew, lost updates, read skew). PERDURE_ROUNDS: transactions of each thread.
Controls: values that are read before the transaction, and on PostgreSQL heads that were read and are not verified.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from graphlib import CycleError, TopologicalSorter
from typing import Any, NamedTuple

import pytest

import perdure
from perdure.stores.batch import Batch

ROUNDS = int(os.environ.get("PERDURE_ROUNDS", "25"))
STORES, THREADS, KEYS = 3, 2, 3
Do = Callable[[perdure.Store, random.Random, str], "Done | None"]


class Done(NamedTuple):
    """One transaction that was committed: versions by key, as it saw them and as it made them."""

    name: str
    reads: dict[int, int]
    writes: dict[int, int]


def seen_in(scopes: Callable[[str], Any], keys: list[int]) -> dict[int, int]:
    found = {}
    for key in keys:
        entry = scopes(f"k{key}").entry("x")
        found[key] = 0 if entry is None else entry.version
        time.sleep(0)  # let others in, if they can
    return found


def written(scopes: Callable[[str], Any], keys: list[int], name: str) -> dict[int, int]:
    return {key: scopes(f"k{key}").set("x", name).version for key in keys}


def choose(chance: random.Random) -> tuple[list[int], list[int]]:
    """What is read and what is written: mostly not the same, which is what skews are made of."""
    keys = list(range(KEYS))
    return chance.sample(keys, chance.randint(1, KEYS)), chance.sample(keys, chance.randint(1, 2))


def atomically(store: perdure.Store, chance: random.Random, name: str) -> Done | None:
    reads, writes = choose(chance)
    return store.atomic(lambda tx: Done(name, seen_in(tx.scope, reads), written(tx.scope, writes, name)))


def only_reading(store: perdure.Store, chance: random.Random, name: str) -> Done | None:
    keys = chance.sample(range(KEYS), 2)
    return store.atomic(lambda tx: Done(name, seen_in(tx.scope, keys), {}))


def with_expect(store: perdure.Store, chance: random.Random, name: str) -> Done | None:
    """One value, read and then written if it is still as it was read."""
    key = chance.randrange(KEYS)
    seen = seen_in(store.scope, [key])
    try:
        made = store.scope(f"k{key}").set("x", name, expect=seen[key])
    except perdure.Conflict:
        return None
    return Done(name, seen, {key: made.version})


def read_before(store: perdure.Store, chance: random.Random, name: str) -> Done | None:
    """Control: what is decided by is read outside the transaction."""
    reads, writes = choose(chance)
    seen = seen_in(store.scope, reads)
    return store.atomic(lambda tx: Done(name, seen, written(tx.scope, writes, name)))


# -- histories ---------------------------------------------------------------------------------------------------


def history_of(url: str, *ways: Do, seed: int = 7, rounds: int = ROUNDS) -> list[Done]:
    """What several threads did at once."""
    begin = threading.Barrier(STORES * THREADS)

    def work(store: perdure.Store, number: int) -> Iterator[Done]:
        chance = random.Random(seed * 1_000 + number)
        begin.wait(60)
        for i in range(rounds):
            done = chance.choice(ways)(store, chance, f"t{number}.{i}")
            if done is not None:
                yield done

    stores = [perdure.open(url) for _ in range(STORES)]
    try:
        with ThreadPoolExecutor(STORES * THREADS) as threads:
            jobs = [threads.submit(lambda n=n: list(work(stores[n % STORES], n))) for n in range(STORES * THREADS)]
            return [done for job in jobs for done in job.result()]
    finally:
        for store in stores:
            store.close()


def order_of(history: list[Done]) -> list[str]:
    """A serial order that explains a history. CycleError if there is none."""
    writers = {(key, version): done.name for done in history for key, version in done.writes.items()}
    if len(writers) != sum(len(done.writes) for done in history):
        raise CycleError("a version was made twice")
    before: dict[str, set[str]] = defaultdict(set)

    def precedes(first: str | None, second: str | None) -> None:
        if first is not None and second is not None and first != second:
            before[second].add(first)

    for done in history:
        before[done.name] = before[done.name]
        for key, version in done.reads.items():
            precedes(writers.get((key, version)), done.name)  # wr: it saw that write
            precedes(done.name, writers.get((key, version + 1)))  # rw: and not the next one
        for key, version in done.writes.items():
            precedes(writers.get((key, version - 1)), done.name)  # ww
    return list(TopologicalSorter(before).static_order())


def explained(history: list[Done]) -> bool:
    """Whether there is a serial order; it is then tried out."""
    try:
        order = order_of(history)
    except CycleError:
        return False
    by_name: dict[str, Done] = {done.name: done for done in history}
    now: dict[int, int] = {}
    for name in order:
        done = by_name[name]
        assert all(now.setdefault(key, version) == version for key, version in done.reads.items())
        now |= done.writes
    return True


@pytest.fixture(params=["sqlite", "postgres"])
def url(request, tmp_path):
    return f"sqlite:///{tmp_path}/a.db" if request.param == "sqlite" else request.getfixturevalue("postgres_store")


def is_skewed(url: str, *ways: Do) -> bool:
    """Whether one of some histories has no serial order."""
    return any(not explained(history_of(url, *ways, seed=seed, rounds=12)) for seed in range(20))


def test_every_history_has_a_serial_order(url):
    reading = [only_reading] if url.startswith("sqlite") else []  # on PostgreSQL: see test_findings
    history = history_of(url, atomically, atomically, with_expect, *reading)
    assert len(history) > ROUNDS
    assert any(done.reads and done.writes for done in history)
    assert explained(history)


def test_control_what_is_read_before_the_transaction_shows(url):
    assert is_skewed(url, read_before)


def test_control_heads_that_are_not_verified_show(postgres_store, monkeypatch):
    monkeypatch.setattr(Batch, "_verify_read", lambda *_: None)
    assert is_skewed(postgres_store, atomically)


def test_the_checker_knows_the_anomalies():
    skew = [Done("a", {0: 0, 1: 0}, {0: 1}), Done("b", {0: 0, 1: 0}, {1: 1})]
    lost = [Done("a", {0: 0}, {0: 1}), Done("b", {0: 0}, {0: 2})]
    torn = [Done("a", {}, {0: 1, 1: 1}), Done("b", {0: 1, 1: 0}, {})]
    assert not any(explained(each) for each in (skew, lost, torn))
    assert explained([Done("a", {0: 0}, {0: 1}), Done("b", {0: 1, 1: 0}, {1: 1}), Done("c", {0: 1, 1: 1}, {})])
