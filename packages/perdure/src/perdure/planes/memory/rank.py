"""Ranking: BM25 over our words, with the context of short turns and the weight of a person's, and how near texts are as
vectors, if they have some. Pure, so that every store ranks alike (P9). Callers: `search`.

A turn of up to 400 characters is lent the words of the two turns before and after it, at 0.3 of their weight: often it only
answers them. A user's turn gets 0.2 of the best score on top. Words and vectors are joined by their scores, each as a share of
the best one: 0 is what has nothing to do with the query. All figures are measured (docs/decisions/0021 and 0039).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

K1, B = 1.2, 0.75
LENT_WEIGHT = 0.3
NEIGHBOURS = 2
NEAR_EVENTS = 8  # two turns with more events between them are no neighbours
USER_BONUS = 0.2
VECTOR_SHARE = 0.5  # of a score, where there are vectors; the rest is of the words

Place = tuple[int, int, int, str]  # stream, event, part, shelf


class RankedText(NamedTuple):
    """A text that may be found: `counts` says how often it has each word of the query."""

    place: Place
    of_seq: int
    actor: str
    at: int
    user_said: bool
    is_short: bool
    length: int
    counts: Mapping[str, int]


class Scored(NamedTuple):
    """A text with its score, the words of its own that match, those that its neighbours lent, and how near it is."""

    text: RankedText
    score: float
    words: tuple[str, ...]
    lent: tuple[str, ...]
    cosine: float | None = None


class Near(NamedTuple):
    """How near texts are to a query as vectors: the cosine of each that has one. floor: that of what has nothing to do with the
    query; cut: what must be reached by a text that shares no word with it.
    """

    cosines: Mapping[Place, float]
    floor: float
    cut: float


class Sizes(NamedTuple):
    """The size of what is searched: how many texts, words and short texts."""

    texts: int
    words: int
    shorts: int

    @property
    def average(self) -> float:
        """Words in a text, by itself."""
        return self.words / self.texts if self.words else 1.0

    @property
    def average_lent(self) -> float:
        """Words in a text, with those that it is lent."""
        return self.average * (1 + 2 * NEIGHBOURS * self.shorts / max(self.texts, 1))


def weight_of(sizes: Sizes, count: int) -> float:
    """The weight of a word that stands in so many texts: rare words weigh more, none weighs nothing."""
    return math.log(1 + (max(sizes.texts - count, 0) + 0.5) / (count + 0.5))


def rankable_places(texts: Iterable[RankedText], places: Collection[Place]) -> set[Place]:
    """The places that may be ranked: those that were found by words, and those that they lend words to."""
    turns = _Turns(texts)
    return {near.place for place in places for near in turns.around(place)}.union(places)


def rank(
    texts: Collection[RankedText], places: Collection[Place], weights: Mapping[str, float], sizes: Sizes, near: Near | None = None
) -> list[Scored]:  # fmt: skip
    """The texts at these places, best first. texts: these, with those around them."""
    by_place = {text.place: text for text in texts}
    turns = _Turns(texts)
    scored = [_scored(by_place[place], turns.around(place), weights, sizes) for place in places if place in by_place]
    joined = scored if near is None else _joined(scored, near)
    best = max((hit.score for hit in joined), default=0.0)
    lifted = [
        hit._replace(score=hit.score + USER_BONUS * best) if hit.text.user_said else hit for hit in joined if hit.score
    ]
    return sorted(lifted, key=lambda hit: (-round(hit.score, 9), -hit.text.at, hit.text.place[1:], hit.text.place))


def _joined(scored: list[Scored], near: Near) -> list[Scored]:
    """Scores of words and of vectors as one. A text without a vector is judged by its words alone."""
    best_words = max((hit.score for hit in scored), default=0.0)
    room = max(near.cosines.values(), default=near.floor) - near.floor
    if room <= 0:
        return scored
    joined: list[Scored] = []
    for hit in scored:
        by_words = hit.score / best_words if best_words else 0.0
        cosine = near.cosines.get(hit.text.place)
        if cosine is None:
            joined.append(hit._replace(score=by_words))
        elif by_words or cosine >= near.cut:
            by_vector = max(0.0, (cosine - near.floor) / room)
            score = VECTOR_SHARE * by_vector + (1 - VECTOR_SHARE) * by_words
            joined.append(hit._replace(score=score, cosine=cosine))
    return joined


class _Turns:
    """Turns in the order of their streams, by their first parts."""

    def __init__(self, texts: Iterable[RankedText]) -> None:
        ordered = sorted(text for text in texts if text.place[3] == "turn" and text.place[2] == 0)
        self._turns = ordered
        self._order = {text.place: i for i, text in enumerate(ordered)}

    def around(self, place: Place) -> list[RankedText]:
        """The neighbours of a turn; nothing else has any."""
        i = self._order.get(place)
        if i is None:
            return []
        near = self._turns[max(0, i - NEIGHBOURS) : i] + self._turns[i + 1 : i + 1 + NEIGHBOURS]
        stream, seq = place[0], place[1]
        return [turn for turn in near if turn.place[0] == stream and abs(turn.place[1] - seq) <= NEAR_EVENTS]


def _scored(text: RankedText, around: Collection[RankedText], weights: Mapping[str, float], sizes: Sizes) -> Scored:
    own, lent = text.counts, dict[str, int]()
    length = text.length
    if text.is_short:
        for neighbour in around:
            length += neighbour.length
            for word, count in neighbour.counts.items():
                lent[word] = lent.get(word, 0) + count
    norm = K1 * (1 - B + B * length / sizes.average_lent)
    score = 0.0
    for word in sorted({*own, *lent}):  # one order, so that every store adds alike
        often = own.get(word, 0) + LENT_WEIGHT * lent.get(word, 0)
        score += weights[word] * often * (K1 + 1) / (often + norm)
    return Scored(text, score, tuple(sorted(own)), tuple(sorted(word for word in lent if word not in own)))
