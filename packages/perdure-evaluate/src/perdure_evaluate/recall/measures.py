"""Measuring recall: nDCG@10 and R@10 of each way to search, over questions whose answers are known. Pure but for `legs`.

last        what was said last, the baseline of those who only keep a tail
fts5        SQLite's full-text search with its defaults, all words OR
words       ours, without vectors
vectors     the nearest by exact cosine alone
hybrid      ours, words and vectors
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import apsw

import perdure
from perdure.planes.memory.vector_bytes import cosines, pack
from perdure_evaluate.recall.question_set import LabelledQuestion, LabelledThing, as_said, tell

AT = 10
Answer = Callable[[str], list[str]]  # from a question to ids, best first


class Measured(NamedTuple):
    """How well one way of searching did, as means over all questions."""

    ndcg: float
    recall: float
    rankings: dict[str, list[str]]  # by the question, the ids that it gave


def ndcg(ranking: Sequence[str], evidence: Iterable[str]) -> float:
    """The gain of a ranking, discounted by rank, as a share of the best order's."""
    relevant = set(evidence)
    gained = sum(1 / math.log2(i + 2) for i, thing in enumerate(ranking[:AT]) if thing in relevant)
    return gained / sum(1 / math.log2(i + 2) for i in range(min(len(relevant), AT)))


def measure(answer: Answer, questions: Sequence[LabelledQuestion]) -> Measured:
    """Ask everything."""
    rankings = {question.text: answer(question.text)[:AT] for question in questions}
    gains = [ndcg(rankings[question.text], question.evidence) for question in questions]
    recalls = [len(question.evidence & {*rankings[question.text]}) / len(question.evidence) for question in questions]
    return Measured(sum(gains) / len(gains), sum(recalls) / len(recalls), rankings)


def overlap(one: Measured, other: Measured) -> float:
    """Which share of the first ten two ways have in common."""
    pairs = [(first, other.rankings[question]) for question, first in one.rankings.items()]
    shares = [len({*a} & {*b}) / max(len(a), len(b)) if a or b else 1.0 for a, b in pairs]
    return sum(shares) / len(shares)


def legs(
    url: str, things: Sequence[LabelledThing], questions: Sequence[LabelledQuestion], embed: Any
) -> dict[str, Measured]:
    """Every way to search, measured on a store that is made at this URL."""
    with perdure.open(url, embed=False) as store:
        ids = tell(store, things)
        by_words = measure(searching(store, ids), questions)
    with perdure.open(url, embed=embed) as store:
        store.index()
        hybrid = measure(searching(store, ids), questions)
    return {
        "last": measure(lambda _: [thing.id for thing in reversed(things)], questions),
        "fts5": measure(by_fts5(things), questions),
        "words": by_words,
        "vectors": measure(by_cosine(things, embed), questions),
        "hybrid": hybrid,
    }


def searching(store: perdure.Store, ids: dict[tuple[str, int], str]) -> Answer:
    """As `store.search` answers."""

    def answer(question: str) -> list[str]:
        return [ids[hit.stream, hit.seq] for hit in store.search(question, limit=AT)]

    return answer


def by_fts5(things: Sequence[LabelledThing]) -> Answer:
    """As SQLite's full-text search answers, with its defaults."""
    connection = apsw.Connection(":memory:")
    connection.execute("CREATE VIRTUAL TABLE said USING fts5(text)")
    connection.executemany(
        "INSERT INTO said (rowid, text) VALUES (?, ?)", [(i, thing.text) for i, thing in enumerate(things)]
    )

    def answer(question: str) -> list[str]:
        query = " OR ".join(f'"{word}"' for word in re.findall(r"\w+", question))
        if not query:
            return []
        rows = connection.execute("SELECT rowid FROM said WHERE said MATCH ? ORDER BY rank LIMIT ?", (query, AT))
        return [things[row[0]].id for row in rows]

    return answer


def by_cosine(things: Sequence[LabelledThing], embed: Any) -> Answer:
    """As vectors answer alone."""
    packed = [pack([float(x) for x in vector]) for vector in embed([as_said(thing) for thing in things])]

    def answer(question: str) -> list[str]:
        (vector,) = embed([question])
        near = cosines(list(vector), [entry.numbers for entry in packed if entry])
        order = sorted(range(len(near)), key=lambda i: -near[i])
        return [things[i].id for i in order[:AT]]

    return answer
