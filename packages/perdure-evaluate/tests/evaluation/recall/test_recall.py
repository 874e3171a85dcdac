"""How well recall finds, on the labelled set that ships: hybrid is no worse than its better leg, and databases agree (P9)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

import perdure
from perdure.planes.memory import rank
from perdure.runtime.callers import caller_of
from perdure_evaluate.recall import labelled, measured

THINGS, QUESTIONS = labelled.history(), labelled.questions()


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[perdure.Store, dict[tuple[str, int], str]]]:
    """The history in an SQLite store, with its vectors."""
    url = f"sqlite:///{tmp_path_factory.mktemp('recall')}/agent.db"
    with perdure.open(url, embed=labelled.KeptVectors()) as store:
        ids = labelled.tell(store, THINGS)
        store.index()
        yield store, ids


@pytest.fixture(scope="module")
def hybrid(told: Any) -> measured.Measured:
    return measured.measure(measured.searching(*told), QUESTIONS)


def test_the_set_is_whole() -> None:
    ids = [thing.id for thing in THINGS]
    assert len(set(ids)) == len(ids)
    assert len({question.text for question in QUESTIONS}) == len(QUESTIONS) >= 300
    assert all(question.evidence and question.evidence <= set(ids) for question in QUESTIONS)
    chinese = [each for each in QUESTIONS if any("\u4e00" <= char <= "\u9fff" for char in each.text)]
    names = [each for each in QUESTIONS if any(mark in each.text for mark in ("_", "/", ".", "-", "()"))]
    assert len(chinese) >= 30
    assert len(names) >= 50
    kept = labelled.KeptVectors()
    assert len(kept(labelled.said_texts())) == len(labelled.said_texts())


def test_hybrid_is_no_worse_than_its_better_leg_and_words_beat_full_text_search(
    told: Any, hybrid: measured.Measured
) -> None:
    store, ids = told
    caller_of(store).core.embed = False
    by_words = measured.measure(measured.searching(store, ids), QUESTIONS)
    caller_of(store).core.embed = labelled.KeptVectors()
    by_vectors = measured.measure(measured.by_cosine(THINGS, labelled.KeptVectors()), QUESTIONS)
    default = measured.measure(measured.by_fts5(THINGS), QUESTIONS)
    assert hybrid.ndcg >= max(by_words.ndcg, by_vectors.ndcg) - 0.005
    assert by_words.ndcg >= default.ndcg + 0.10


def test_a_control_that_trusts_vectors_alone_is_worse(
    told: Any, hybrid: measured.Measured, monkeypatch: pytest.MonkeyPatch
) -> None:
    some = QUESTIONS[::4]
    monkeypatch.setattr(rank, "VECTOR_SHARE", 1.0)
    alone = measured.measure(measured.searching(*told), some)
    whole = sum(measured.ndcg(hybrid.found[each.text], each.evidence) for each in some) / len(some)
    assert alone.ndcg < whole - 0.03


def test_both_databases_give_one_answer(told: Any, postgres_store: str) -> None:
    some = QUESTIONS if "PERDURE_ROUNDS" in os.environ else QUESTIONS[::4]
    here = measured.measure(measured.searching(*told), some)
    with perdure.open(postgres_store, embed=labelled.KeptVectors()) as store:
        ids = labelled.tell(store, THINGS)
        store.index()
        there = measured.measure(measured.searching(store, ids), some)
    assert abs(there.ndcg - here.ndcg) <= 0.01
    assert measured.overlap(there, here) >= 0.95


def test_measures() -> None:
    assert measured.ndcg(["a", "b"], {"a", "b"}) == 1.0
    assert 0 < measured.ndcg(["x", "a"], {"a"}) < 1
    assert measured.ndcg(["x"] * 10 + ["a"], {"a"}) == 0
