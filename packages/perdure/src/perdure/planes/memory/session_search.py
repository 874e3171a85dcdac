"""The turns or decisions of one session that share words with a query, at a cost that does not grow with the session. For boot.

    words of the query ─▶ the newest postings of each, within a bound ─▶ the best few ─▶ the turns around them ─▶ `rank`

A rare word has few postings, so all of its turns are seen. Of a common word only the newest turns are: an old turn that shares
nothing but common words with the query is found by `search`, not here. Callers: `boot`. Keeps P8, P9, P11.
"""

from __future__ import annotations

import heapq
import json
from typing import Any

import msgspec

from perdure.log.change import Stream
from perdure.model.words import words
from perdure.planes.memory.rank import K1, B, Place, RankedText, Sizes, rank, weight_of
from perdure.planes.memory.search import Q
from perdure.planes.reading.lineage import ancestry
from perdure.stores.store import Reads

WORDS_MAX = 16  # of one query; the rarest are taken
POSTINGS_MAX = 1_200  # that are looked at for one query
CANDIDATES = 16  # whose neighbours are read
REACH_EVENTS = 4  # in which the neighbours of a turn are looked for
_decode_terms = msgspec.json.Decoder(list[str]).decode


def best_in_session(reads: Reads, stream: Stream, query: str, limit: int, shelf: str = "turn") -> dict[int, int]:
    """The numbers of those that fit a query best, also of the sessions that this one was forked from; the best first. With
    each, how many words it shares with the query.

    shelf: "turn" or "decision".
    """
    sizes = _sizes(reads, shelf)
    counts = _counted(reads, words(query), shelf) if sizes.texts else {}
    if not counts:
        return {}
    weights = {word: weight_of(sizes, count) for word, count in counts.items()}
    streams = _spans(reads, stream)
    scores: dict[Place, float] = {}
    for word, weight in weights.items():
        params = {"tenant": reads.tenant, "shelf": shelf, "term": word}
        _score(reads, streams, params, weight, sizes, POSTINGS_MAX // len(weights), scores)
    best = heapq.nlargest(CANDIDATES, scores, key=lambda place: (scores[place], place[1]))
    ranked = rank(_texts(reads, best, set(weights)), best, weights, sizes)
    ends = dict(streams)
    shared: dict[int, int] = {}
    for hit in ranked:
        if hit.text.place[1] <= ends[hit.text.place[0]] and len(shared) < limit:
            shared.setdefault(hit.text.of_seq, len(hit.words))
    return shared


def _sizes(reads: Reads, shelf: str) -> Sizes:
    rows = [row for row in reads.query(Q.shelves_counted, tenant=reads.tenant) if row[0] == shelf]
    return Sizes(*rows[0][1:]) if rows else Sizes(0, 0, 0)


def _counted(reads: Reads, sought: list[str], shelf: str) -> dict[str, int]:
    """In how many texts of this tenant each word stands, the rarest words alone."""
    shelves, listed = json.dumps([shelf]), json.dumps(sorted(set(sought)))
    rows = reads.query(Q.terms_counted, tenant=reads.tenant, shelves=shelves, words=listed)
    return dict(sorted(rows, key=lambda row: (row[1], row[0]))[:WORDS_MAX])


def _spans(reads: Reads, stream: Stream) -> list[tuple[int, int]]:
    """The streams of a session and of those that it was forked from, each with the last event that belongs to it."""
    spans: list[tuple[int, int]] = []
    last = 2**62
    for ancestor in ancestry(reads, stream):
        spans.append((ancestor.id, last))
        last = min(last, ancestor.fork_seq)
    return spans


def _score(
    reads: Reads, streams: list[tuple[int, int]], params: dict[str, Any], weight: float, sizes: Sizes, most: int,
    scores: dict[Place, float],
) -> None:  # fmt: skip
    """Add what one word gives the newest texts that have it."""
    for stream, last in streams:
        rows = reads.query(Q.postings_newest, **params, stream=stream, last=last, limit=most)
        for seq, part, often, length in rows:
            place = (stream, seq, part, params["shelf"])
            gives = weight * often * (K1 + 1) / (often + K1 * (1 - B + B * length / sizes.average))
            scores[place] = scores.get(place, 0.0) + gives
        most -= len(rows)
        if most <= 0:
            return


def _texts(reads: Reads, places: list[Place], sought: set[str]) -> list[RankedText]:
    """These texts, and those around the turns among them."""
    stretches: list[list[int]] = []
    for stream, seq, _, shelf in sorted(places):
        reach = REACH_EVENTS if shelf == "turn" else 0
        first, last = seq - reach, seq + reach
        if stretches and stretches[-1][0] == stream and stretches[-1][2] >= first - 1:
            stretches[-1][2] = last
        else:
            stretches.append([stream, first, last])
    rows = reads.query(Q.texts_near, tenant=reads.tenant, stretches=json.dumps(stretches)) if stretches else []
    texts: list[RankedText] = []
    for stream, seq, part, shelf, of_seq, actor, at, user_said, is_short, length, terms in rows:
        if shelf == places[0][3]:
            shared_terms = [term for term in _decode_terms(terms) if term in sought]
            counts = {term: shared_terms.count(term) for term in shared_terms}
            place = (stream, seq, part, shelf)
            texts.append(
                RankedText(
                    place=place,
                    of_seq=of_seq,
                    actor=actor,
                    at=at,
                    user_said=bool(user_said),
                    is_short=bool(is_short),
                    length=length,
                    counts=counts,
                )
            )
    return texts
