"""How well recall finds, on the labelled set that ships: hybrid is no worse than its better leg, and databases agree (P9)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

import perdure
from perdure.planes.memory import rank
from perdure.runtime.callers import caller_of
from perdure_evaluate.recall import measures, question_set

THINGS, QUESTIONS = question_set.history(), question_set.questions()


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[perdure.Store, dict[tuple[str, int], str]]]:
    """The history in an SQLite store, with its vectors."""
    url = f"sqlite:///{tmp_path_factory.mktemp('recall')}/agent.db"
    with perdure.open(url, embed=question_set.KeptVectors()) as store:
        ids = question_set.tell(store, THINGS)
        store.index()
        yield store, ids


@pytest.fixture(scope="module")
def hybrid(told: Any) -> measures.Measured:
    return measures.measure(measures.searching(*told), QUESTIONS)


def test_the_set_is_whole() -> None:
    ids = [thing.id for thing in THINGS]
    assert len(set(ids)) == len(ids)
    assert len({question.text for question in QUESTIONS}) == len(QUESTIONS) >= 300
    assert all(question.evidence and question.evidence <= set(ids) for question in QUESTIONS)
    chinese = [each for each in QUESTIONS if any("\u4e00" <= char <= "\u9fff" for char in each.text)]
    names = [each for each in QUESTIONS if any(mark in each.text for mark in ("_", "/", ".", "-", "()"))]
    assert len(chinese) >= 30
    assert len(names) >= 50
    kept = question_set.KeptVectors()
    assert len(kept(question_set.said_texts())) == len(question_set.said_texts())


def test_hybrid_is_no_worse_than_its_better_leg_and_words_beat_full_text_search(
    told: Any, hybrid: measures.Measured
) -> None:
    store, ids = told
    caller_of(store).core.embed = False
    by_words = measures.measure(measures.searching(store, ids), QUESTIONS)
    caller_of(store).core.embed = question_set.KeptVectors()
    by_vectors = measures.measure(measures.by_cosine(THINGS, question_set.KeptVectors()), QUESTIONS)
    default = measures.measure(measures.by_fts5(THINGS), QUESTIONS)
    assert hybrid.ndcg >= max(by_words.ndcg, by_vectors.ndcg) - 0.005
    assert by_words.ndcg >= default.ndcg + 0.10


def test_a_control_that_trusts_vectors_alone_is_worse(
    told: Any, hybrid: measures.Measured, monkeypatch: pytest.MonkeyPatch
) -> None:
    some = QUESTIONS[::4]
    monkeypatch.setattr(rank, "VECTOR_SHARE", 1.0)
    alone = measures.measure(measures.searching(*told), some)
    whole = sum(measures.ndcg(hybrid.rankings[each.text], each.evidence) for each in some) / len(some)
    assert alone.ndcg < whole - 0.03


def test_both_databases_give_one_answer(told: Any, postgres_store: str) -> None:
    some = QUESTIONS if "PERDURE_ROUNDS" in os.environ else QUESTIONS[::4]
    here = measures.measure(measures.searching(*told), some)
    with perdure.open(postgres_store, embed=question_set.KeptVectors()) as store:
        ids = question_set.tell(store, THINGS)
        store.index()
        there = measures.measure(measures.searching(store, ids), some)
    assert abs(there.ndcg - here.ndcg) <= 0.01
    assert measures.overlap(there, here) >= 0.95


def test_measures() -> None:
    assert measures.ndcg(["a", "b"], {"a", "b"}) == 1.0
    assert 0 < measures.ndcg(["x", "a"], {"a"}) < 1
    assert measures.ndcg(["x"] * 10 + ["a"], {"a"}) == 0
