"""Ranking: BM25 over our words, with the context of short turns and the weight of a person's. Pure, so that every store ranks
alike (P9). Callers: `search`.

A turn of up to 400 characters is lent the words of the two turns before and after it, at 0.3 of their weight: often it only
answers them. A user's turn gets 0.2 of the best score on top. Both figures are measured (docs/decisions/0021-memory.md).
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

Place = tuple[int, int, int, str]  # stream, event, part, shelf


class Text(NamedTuple):
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
    """A text with its score, the words of its own that match, and those that its neighbours lent."""

    text: Text
    score: float
    words: tuple[str, ...]
    lent: tuple[str, ...]


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


def rank(texts: Iterable[Text], found: Collection[Place], weights: Mapping[str, float], sizes: Sizes) -> list[Scored]:
    """The texts that were found, and those that they lend words to, best first. texts: these, with those around them."""
    by_place = {text.place: text for text in texts}
    turns = _Turns(by_place.values())
    wanted = {near.place for place in found for near in turns.around(place)}.union(found)
    scored = [_scored(by_place[place], turns.around(place), weights, sizes) for place in wanted if place in by_place]
    best = max((each.score for each in scored), default=0.0)
    lifted = [
        each._replace(score=each.score + USER_BONUS * best) if each.text.user_said else each
        for each in scored
        if each.score
    ]
    return sorted(lifted, key=lambda each: (-round(each.score, 9), -each.text.at, each.text.place[1:], each.text.place))


class _Turns:
    """Turns in the order of their streams, by their first parts."""

    def __init__(self, texts: Iterable[Text]) -> None:
        ordered = sorted(text for text in texts if text.place[3] == "turn" and text.place[2] == 0)
        self._turns = ordered
        self._order = {text.place: i for i, text in enumerate(ordered)}

    def around(self, place: Place) -> list[Text]:
        """The neighbours of a turn; nothing else has any."""
        i = self._order.get(place)
        if i is None:
            return []
        near = self._turns[max(0, i - NEIGHBOURS) : i] + self._turns[i + 1 : i + 1 + NEIGHBOURS]
        stream, seq = place[0], place[1]
        return [each for each in near if each.place[0] == stream and abs(each.place[1] - seq) <= NEAR_EVENTS]


def _scored(text: Text, around: Collection[Text], weights: Mapping[str, float], sizes: Sizes) -> Scored:
    own, lent = text.counts, dict[str, int]()
    length = text.length
    if text.is_short:
        for each in around:
            length += each.length
            for word, count in each.counts.items():
                lent[word] = lent.get(word, 0) + count
    norm = K1 * (1 - B + B * length / sizes.average_lent)
    score = 0.0
    for word in sorted({*own, *lent}):  # one order, so that every store adds alike
        often = own.get(word, 0) + LENT_WEIGHT * lent.get(word, 0)
        score += weights[word] * often * (K1 + 1) / (often + norm)
    return Scored(text, score, tuple(sorted(own)), tuple(sorted(word for word in lent if word not in own)))
