"""kill -9 while memories are made, superseded and searched: what was acknowledged is there, once, and is found (P1, P5)."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

import perdure
from faults.rememberer import reembedding, remembering
from faults.writer import ROUNDS, SEED
from perdure_testing.embedding import HashedEmbedding
from perdure_testing.faults import kill_after


@pytest.mark.parametrize("kind", ["sqlite", "postgres", "files"])
def test_no_acknowledged_memory_is_lost_or_made_twice(kind: str, request: pytest.FixtureRequest, tmp_path: Any) -> None:
    on_disk = {"sqlite": f"sqlite:///{tmp_path}/agent.db", "files": f"files:///{tmp_path}/agent"}
    url = on_disk.get(kind) or request.getfixturevalue("postgres_store")
    rng = random.Random(SEED)
    acked: set[str] = set()
    for round_number in range(ROUNDS):
        acked.update(kill_after(remembering(url, round_number * 1_000), rng.randint(1, 60)))
    with perdure.open(url) as store:
        scope = store.scope("project:acme")
        found: list[Any] = []
        after = None
        while True:
            page = scope.memories(status=None, limit=1000, after=after)
            found += page
            after = page.next
            if after is None:
                break
        keys = Counter(each.record.key for each in found)
        assert acked <= set(keys)
        assert set(keys.values()) <= {1}
        live = [each for each in found if each.status == "live"]
        for each in live[:: max(1, len(live) // 10)]:
            word = each.text.split()[-1]
            assert [hit.memory.seq for hit in scope.recall(word)] == [each.seq]
        assert store.verify().ok


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_embedding_anew_is_continued_wherever_it_was_killed(
    kind: str, request: pytest.FixtureRequest, tmp_path: Any
) -> None:
    url = f"sqlite:///{tmp_path}/agent.db" if kind == "sqlite" else request.getfixturevalue("postgres_store")
    rng = random.Random(SEED)
    with perdure.open(url, embed=HashedEmbedding(name="old", meanings={"bird": "heron"})) as store:
        scope = store.scope("project:acme")
        for i in range(300):
            scope.remember(f"heron number n{i}", key=f"a{i}")
        assert store.index().vectors == 300
    for _ in range(ROUNDS):
        kill_after(reembedding(url, "new"), rng.randint(1, 8))
    with perdure.open(url, embed=HashedEmbedding(name="new", meanings={"bird": "heron"})) as store:
        indexed = store.index()
        assert indexed.vectors == indexed.texts >= 300
        keys = {each.record.key for each in store.scope("project:acme").memories(limit=1000)}
        assert {f"a{i}" for i in range(300)} <= keys
        hits = store.scope("project:acme").recall("bird", k=1000)
        assert len(hits) == indexed.texts
        assert store.verify().ok
