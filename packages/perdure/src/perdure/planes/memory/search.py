"""Recall and search: what answers a query, by its words and by its meaning, best first, and why.

    words of the query  ─▶ how rare each is ─▶ the best texts by SQL ─▶ the turns around them ─┐
    vector of the query ─▶ the nearest texts (`nearest`), where the store has an embedding ────┴─▶ `rank` ─▶ what is shown

A search finds everything that was committed before it began (`index.catch_up`). A query is only words: it has no operators.
Callers: the handles. Keeps P8, P9, P11, P15.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Any, NamedTuple, TypeVar

import msgspec

from perdure.errors import Invalid, NotFound, ReadOnly, Unavailable
from perdure.log.change import Stream
from perdure.log.event import decode_body
from perdure.log.upcast import upcast
from perdure.model.filters import SearchFilters
from perdure.model.instants import Instant, instant_us, to_datetime
from perdure.model.limits import check_name, check_one_of, check_page, check_text
from perdure.model.records.memories import ByVectors, Found, MemoryKind, MemoryRecord, MemoryStatus, SearchKind, Why
from perdure.model.words import words
from perdure.planes.conversation import sessions
from perdure.planes.memory import index, memories, vectors
from perdure.planes.memory.embedder import embedder_of
from perdure.planes.memory.nearest import NearestFilter, Sought, bits_for, cosines_at, nearest
from perdure.planes.memory.rank import (
    NEAR_EVENTS,
    Near,
    Place,
    RankedText,
    Scored,
    Sizes,
    rank,
    rankable_places,
    weight_of,
)
from perdure.planes.memory.scopes import named_scopes, read_from
from perdure.planes.memory.texts import kind_of, memory_shelves, parts_of, results_alone, said_by, shelves_of
from perdure.planes.reading.body_reading import body_of
from perdure.planes.reading.durations import between, store_now
from perdure.planes.reading.lineage import MAX_SEQ, ancestry
from perdure.planes.reading.paging import DamagedRow, read_rows
from perdure.stores import pgvector
from perdure.stores.core import Core
from perdure.stores.statements import Statements
from perdure.stores.store import Reads, event_of
from perdure.stores.tx import LOG

Q = Statements("perdure.planes.memory", "search.sql")
T = TypeVar("T")

QUERY_MAX_CHARS = 10_000
WORDS_MAX = 64  # of one query; the rarest are taken
POSTINGS_MAX = 40_000  # that are looked at for one query: of the rarest words, at least one
CANDIDATES = 60
CANDIDATES_MAX = 2_000
RESULTS_REACH = 8  # so many times the nearest texts are looked at where only the results among them are asked for
EXCERPT_CHARS = 300
EMBEDDED_FIRST = 32  # texts that a search embeds before it looks; the others wait for `perdure index`
# From the mean of what is unrelated: down to where nearness begins, up to what a text without a common word must reach.
SCATTERS = 2.0
log = logging.getLogger("perdure.memory")
_decode_terms = msgspec.json.Decoder(list[str]).decode


class Results(list[T]):
    """The hits of a search or recall, best first, as a list.

    complete: whether everything was searched. The index of a read-only store may lag behind, and cannot be brought up to date.
    vectors: how far the search went by meaning, too.
    damaged: hits that cannot be read, and are not in the list.
    """

    def __init__(
        self, found: Iterable[T] = (), *, complete: bool = True, vectors: ByVectors = ByVectors.OFF,
        damaged: tuple[DamagedRow, ...] = (),
    ) -> None:  # fmt: skip
        super().__init__(found)
        self.complete = complete
        self.vectors = vectors
        self.damaged = damaged


class Marks(NamedTuple):
    """The tags and the subjects that a text must have, all of them."""

    tags: list[str]
    about: list[str]


class SearchRequest(NamedTuple):
    """The query, and where to look. results: the shelves of which only results are asked for."""

    words: list[str]
    shelves: list[str]
    streams: list[int] | None
    filters: dict[str, Any]
    marks: Marks
    near: Sought | None = None
    results: list[str] = []  # noqa: RUF012 - never changed

    @property
    def narrowed(self) -> dict[str, Any]:
        """The filters of a statement: one tag and one subject; `_fitting` looks for the others."""
        tags, about = self.marks
        results = json.dumps(self.results) if self.results else None
        marked = {"tag": tags[0] if tags else None, "about": about[0] if about else None, "results": results}
        return self.filters | marked


class Recalled(NamedTuple):
    """A memory that was found, with the stream that holds it."""

    stream: Stream
    memory: MemoryRecord
    score: float
    why: Why


# -- memories ------------------------------------------------------------------------------------------------


def recall(
    core: Core,
    tenant: int,
    stream: Stream | None,
    query: str,
    *,
    k: int = 10,
    kinds: Iterable[str] | None = None,
    scopes: Iterable[str] | None = None,
    at: Instant | None = None,
    tags: Iterable[str] = (),
    about: Iterable[str] = (),
    since: Instant | None = None,
    counted: bool = True,
) -> Results[Recalled]:
    """The memories that answer a query. Blocking work; counts what it gives as used, unless its caller does."""
    sought, count = _query(query), check_page(k, "k")
    only = _kinds(MemoryKind, kinds)
    marks = Marks(_names(tags, "tags"), _names(about, "about"))
    complete = index.catch_up(core, tenant)
    by_vectors, near = _near(core, tenant, query)
    hits, damaged = core.read(_recall, stream, sought, near, count, only, scopes, at, marks, since, tenant=tenant)
    used = [(hit.stream, hit.memory.seq) for hit in hits]
    if used and complete and counted:
        with suppress(ReadOnly):  # its index may be complete: a store that is only read counts no use
            core.write(memories.count_uses, used, actor="", tenant=tenant)
    return Results(hits, complete=complete, vectors=by_vectors, damaged=damaged)


def _recall(
    reads: Reads, stream: Stream | None, sought: list[str], near: Sought | None, count: int, kinds: list[MemoryKind],
    scopes: Iterable[str] | None, at: Instant | None, marks: Marks, since: Instant | None,
) -> tuple[list[Recalled], tuple[DamagedRow, ...]]:  # fmt: skip
    now = store_now(reads)
    moment = now if at is None else instant_us(at, now, "at")
    readable = None if stream is None else read_from(reads, stream, scopes)
    request = SearchRequest(
        sought,
        memory_shelves(kinds, past=at is not None),
        None if readable is None else [scope.id for scope in readable],
        between(reads, since, None)._asdict(),
        marks,
        near,
    )
    streams = {scope.id: scope for scope in readable or ()}
    narrow_first = {number: i for i, number in enumerate(streams)}
    limit = max(CANDIDATES, 5 * count)
    while True:
        hits: list[Recalled] = []
        damaged: tuple[DamagedRow, ...] = ()
        scored, full = _best(reads, request, limit)
        scored.sort(key=lambda hit: (-round(hit.score, 9), narrow_first.get(hit.text.place[0], 0)))
        for hit in scored:
            if len(hits) == count:
                break
            page = read_rows((hit,), lambda hit: _recalled(reads, streams, hit, moment, now, live=at is None))
            hits += filter(None, page)
            damaged += page.damaged
        if len(hits) >= count or not full or limit >= CANDIDATES_MAX:
            return hits, damaged
        limit = CANDIDATES_MAX


def _recalled(
    reads: Reads, streams: dict[int, Stream], hit: Scored, moment: int, now: int, *, live: bool
) -> Recalled | None:
    """The memory of a text, if it holds at a moment: what it is now is read from its row, never from the index."""
    stream = _stream(reads, streams, hit.text.place[0])
    try:
        record = memories.memory(reads, stream, hit.text.of_seq)
    except NotFound:
        return None
    holds = (record.valid_from is None or instant_us(record.valid_from, 0) <= moment) and (
        record.valid_to is None or moment < instant_us(record.valid_to, 0)
    )
    if not holds or record.status is MemoryStatus.FORGOTTEN or (live and record.status is not MemoryStatus.LIVE):
        return None
    source = ", ".join([*record.sources, *(f"event {ref.seq}" for ref in record.refs)][:3])
    origin = f"{record.kind} of {record.scope_kind} {record.scope}" + (f", from {source}" if source else "")
    newest = record.confirmed_at or record.at
    age = timedelta(microseconds=max(0, now - instant_us(newest, 0)))
    return Recalled(stream, record, round(hit.score, 6), _why(hit, age, origin))


# -- everything ----------------------------------------------------------------------------------------------


def search(core: Core, tenant: int, query: str, asked: SearchFilters) -> Results[Found]:
    """The turns, decisions, effects, memories and other texts that share words with a query. Blocking work."""
    sought, count, kinds = _query(query), check_page(asked.limit), _kinds(SearchKind, asked.kinds)
    marks = Marks(_names(asked.tags, "tags"), _names(asked.about, "about"))
    speaker = None if asked.actor is None else check_name(asked.actor, "actor")
    complete = index.catch_up(core, tenant)
    by_vectors, near = _near(core, tenant, query)
    request = SearchRequest(
        words=sought, shelves=shelves_of(kinds), streams=None, filters={"actor": speaker}, marks=marks, near=near,
        results=results_alone(kinds),
    )  # fmt: skip
    hits, damaged = core.read(_search, request, asked, count, tenant=tenant)
    return Results(hits, complete=complete, vectors=by_vectors, damaged=damaged)


def _search(
    reads: Reads, request: SearchRequest, options: SearchFilters, count: int
) -> tuple[list[Found], tuple[DamagedRow, ...]]:
    ends = _places(reads, options)
    filters = request.filters | between(reads, options.since, options.until)._asdict()
    request = request._replace(streams=None if ends is None else list(ends), filters=filters)
    now = store_now(reads)
    streams: dict[int, Stream] = {}
    limit = max(CANDIDATES, 5 * count)
    while True:
        hits: list[Found] = []
        damaged: tuple[DamagedRow, ...] = ()
        scored, full = _best(reads, request, limit)
        for hit in scored:
            if len(hits) < count and (ends is None or hit.text.place[1] <= ends[hit.text.place[0]]):
                stream = _stream(reads, streams, hit.text.place[0])
                read_hit = partial(_read_hit, reads, stream, now=now, is_result=hit.text.place[3] in request.results)
                page = read_rows((hit,), read_hit)
                hits += filter(None, page)
                damaged += page.damaged
        if len(hits) >= count or not full or limit >= CANDIDATES_MAX:
            return hits, damaged
        limit = CANDIDATES_MAX


def _places(reads: Reads, options: SearchFilters) -> dict[int, int] | None:
    """The streams of the session and the scopes that are named, each with its last event; None: everywhere."""
    if options.session is None and options.scopes is None:
        return None
    ends = {} if options.session is None else _streams_of(reads, options.session)
    own = None if options.session is None else sessions.find_session(reads, options.session)
    for scope in named_scopes(reads, own[0] if own else None, options.scopes or ()):
        ends.setdefault(scope.id, MAX_SEQ)
    return ends


def _streams_of(reads: Reads, session: str) -> dict[int, int]:
    """The streams of a session and its runs, with the last event of each that belongs to it: a fork has its parent's past."""
    own = sessions.find_session(reads, check_name(session, "session"))
    if own is None:
        raise NotFound(f"there is no session {session!r}", path="session", hint="`perdure sessions` lists them")
    ends: dict[int, int] = {}
    last = MAX_SEQ
    for stream in ancestry(reads, own[0]):
        ends[stream.id] = last
        last = min(last, stream.fork_seq)
    return ends | {run: MAX_SEQ for (run,) in reads.query(Q.runs_of_session, tenant=reads.tenant, session=session)}


def _read_hit(reads: Reads, stream: Stream, hit: Scored, *, now: int, is_result: bool) -> Found | None:
    """A hit, with the part of it that matches. None when it went meanwhile."""
    text = hit.text
    kind = SearchKind.RESULT if is_result else kind_of(text.place[3])
    if kind is SearchKind.MEMORY and memories.memory(reads, stream, text.of_seq).status is not MemoryStatus.LIVE:
        return None
    rows = reads.query(LOG.event_by_seq, stream=stream.id, seq=text.place[1])
    event = event_of(rows[0]) if rows else None
    if event is None or event.body is None:
        return None
    body = upcast(event, decode_body(event.body))
    body.doc = body_of(reads, event.body).doc
    event_text = said_by(event, body)
    part = parts_of(event_text.text)[text.place[2]] if event_text else ""
    why = _why(hit, timedelta(microseconds=max(0, now - text.at)), f"{stream.kind} {stream.name}")
    return Found(
        kind=kind, stream_kind=stream.kind, stream=stream.name, seq=text.of_seq, text=excerpt(part, hit.words),
        actor=text.actor, at=to_datetime(text.at), score=round(hit.score, 6), why=why,
        ref=stream.ref(text.of_seq),
    )  # fmt: skip


def excerpt(text: str, matched: Sequence[str]) -> str:
    """The stretch of a text around the first word that matches."""
    text = text.strip()
    if len(text) <= EXCERPT_CHARS:
        return text
    terms, place = set(matched), 0
    for word in text.split():
        place = text.index(word, place)
        if terms.intersection(words(word)):
            break
        place += len(word)
    else:
        place = 0
    start = max(0, min(place - EXCERPT_CHARS // 4, len(text) - EXCERPT_CHARS))
    return (
        ("…" if start else "")
        + text[start : start + EXCERPT_CHARS].strip()
        + ("…" if start + EXCERPT_CHARS < len(text) else "")
    )


# -- finding -------------------------------------------------------------------------------------------------


def _best(reads: Reads, request: SearchRequest, limit: int) -> tuple[list[Scored], bool]:
    """The best texts, each thing once, and whether there may be more."""
    counted = [
        row for row in reads.query(Q.shelves_counted, tenant=reads.tenant) if row[0] in request.shelves and row[1]
    ]
    request = request._replace(shelves=[row[0] for row in counted])
    sizes = Sizes(*(sum(row[column] for row in counted) for column in (1, 2, 3)))
    if not sizes.texts:
        return [], False
    weights, by_words = _by_words(reads, request, sizes, limit)
    within = NearestFilter(request.shelves, request.streams, {**request.narrowed, "results": None})
    reach = limit * RESULTS_REACH if request.results else limit
    by_vector = nearest(reads, request.near, within, reach) if request.near else []
    around = "turn" in request.shelves
    texts = _texts(reads, list(dict.fromkeys([*by_words, *by_vector])), set(weights), around=around)
    places = sorted(rankable_places(texts, by_words).union(by_vector))
    near = None
    if request.near:
        near = Near(cosines_at(reads, request.near, places), request.near.floor, request.near.cut)
    ranked = [hit for hit in rank(texts, places, weights, sizes, near) if _fits(hit.text, request.filters)]
    return _each_once(_fitting(reads, request, ranked)), len(by_words) >= limit or len(by_vector) >= reach


def _by_words(reads: Reads, request: SearchRequest, sizes: Sizes, limit: int) -> tuple[dict[str, float], list[Place]]:
    """The weight of each word of the query, and the places with the best scores by them."""
    lists = {"tenant": reads.tenant, "shelves": json.dumps(request.shelves)}
    rows = reads.query(Q.terms_counted, **lists, words=json.dumps(request.words))
    counts = dict(sorted(rows, key=lambda row: (row[1], row[0]))[:WORDS_MAX])
    weights = {word: weight_of(sizes, count) for word, count in counts.items()}
    if not counts:
        return weights, []
    filters = request.narrowed
    best = reads.query(
        Q.texts_best,
        **lists,
        weights=json.dumps([[word, weights[word]] for word in _rarest(counts, capped=request.streams is None)]),
        average=sizes.average,
        streams=None if request.streams is None else json.dumps(request.streams),
        filtered=True if any(value is not None for value in filters.values()) else None,
        limit=limit,
        **filters,
    )
    return weights, [(row[0], row[1], row[2], row[3]) for row in best]


def _near(core: Core, tenant: int, query: str) -> tuple[ByVectors, Sought | None]:
    """The query as a vector, if the store has an embedding; a few texts that have no vector yet are given theirs first.

    An embedding that fails does not keep anything from being found by words.
    """
    embedder = embedder_of(core.embed)
    if embedder is None:
        return ByVectors.OFF, None
    core.embed = embedder
    try:
        try:
            complete = vectors.catch_up(core, tenant, embedder, texts_max=EMBEDDED_FIRST)
        except ReadOnly:
            complete = core.read(vectors.is_complete, embedder, tenant=tenant)
        if not embedder.reads(query):
            return ByVectors.UNREAD, None
        (vector,) = embedder.vectors([query])
        if vector is None:
            return ByVectors.FAILED, None
        unrelated, scatter = embedder.unrelated(vector)
    except Unavailable as error:
        if error.path != "embed":
            raise
        log.warning("searched by words alone: %s", error)
        return ByVectors.FAILED, None
    state, near = core.read(lambda reads: (vectors.state_of(reads, embedder), pgvector.find(reads)), tenant=tenant)
    reach = SCATTERS * scatter
    sought = Sought(vector, state, unrelated - reach, unrelated + reach, bits_for(core, tenant), near)
    return (ByVectors.ALL if complete else ByVectors.SOME), sought


def _why(hit: Scored, age: timedelta, source: str) -> Why:
    near = None if hit.cosine is None else round(hit.cosine, 4)
    return Why(hit.words, hit.lent, age, source, near, hit.text.user_said)


def _fits(text: RankedText, filters: dict[str, Any]) -> bool:
    """Whether a text is among what was asked for: one that was only lent words has not been through the statement."""
    since, until, actor = (filters.get(name) for name in ("since", "until", "actor"))
    return (since is None or text.at >= since) and (until is None or text.at < until) and actor in (None, text.actor)


def _fitting(reads: Reads, request: SearchRequest, ranked: list[Scored]) -> list[Scored]:
    """Those that have every tag and subject, and are results where only these are asked for."""
    tags, about = request.marks
    each_alone = [("tag", tag) for tag in tags] + [("about", subject) for subject in about]
    if request.results:
        each_alone.append(("results", json.dumps(request.results)))
    for name, value in each_alone if ranked else ():
        places = json.dumps([hit.text.place for hit in ranked])
        params: dict[str, Any] = {"tenant": reads.tenant, "places": places, name: value}
        fitting = set(reads.query(Q.texts_fitting, **params))
        ranked = [hit for hit in ranked if hit.text.place in fitting]
    return ranked


def _rarest(counts: dict[str, int], *, capped: bool) -> list[str]:
    """The words whose texts are looked at, rarest first: the others only add to the scores of these."""
    rarest: list[str] = []
    total = 0
    for word, count in counts.items():
        total += count
        if rarest and capped and total > POSTINGS_MAX:
            break
        rarest.append(word)
    return rarest


def _texts(reads: Reads, places: list[Place], sought: set[str], *, around: bool) -> list[RankedText]:
    """These texts, and the turns around the turns among them."""
    stretches = _stretches(places, NEAR_EVENTS if around else 0)
    rows = reads.query(Q.texts_near, tenant=reads.tenant, stretches=json.dumps(stretches)) if stretches else []
    own_places = set(places)
    return [
        _text(row, sought)
        for row in rows
        if (row[0], row[1], row[2], row[3]) in own_places or (around and row[3] == "turn")
    ]


def _stretches(places: list[Place], reach: int) -> list[list[int]]:
    """The events to be read, joined where they overlap."""
    stretches: list[list[int]] = []
    for stream, seq, _, shelf in sorted(places):
        width = reach if shelf == "turn" else 0
        if stretches and stretches[-1][0] == stream and stretches[-1][2] >= seq - width - 1:
            stretches[-1][2] = max(stretches[-1][2], seq + width)
        else:
            stretches.append([stream, seq - width, seq + width])
    return stretches


def _text(row: tuple[Any, ...], sought: set[str]) -> RankedText:
    stream, seq, part, shelf, of_seq, actor, at, user_said, is_short, length, terms = row
    counts: dict[str, int] = {}
    for term in _decode_terms(terms):
        if term in sought:
            counts[term] = counts.get(term, 0) + 1
    return RankedText(
        place=(stream, seq, part, shelf),
        of_seq=of_seq,
        actor=actor,
        at=at,
        user_said=bool(user_said),
        is_short=bool(is_short),
        length=length,
        counts=counts,
    )


def _each_once(scored: list[Scored]) -> list[Scored]:
    best: dict[tuple[int, str, int], Scored] = {}
    for hit in scored:
        stream, _, _, shelf = hit.text.place
        best.setdefault((stream, kind_of(shelf).value, hit.text.of_seq), hit)
    return list(best.values())


def _stream(reads: Reads, streams: dict[int, Stream], number: int) -> Stream:
    if number not in streams:
        streams[number] = Stream(*reads.query(LOG.stream_by_id, id=number)[0])
    return streams[number]


# -- what was asked ------------------------------------------------------------------------------------------


def _query(query: object) -> list[str]:
    text = check_text(query, "query", QUERY_MAX_CHARS)
    if not text.strip():
        raise Invalid("a query cannot be empty", path="query", hint="give the words to look for")
    return sorted(set(words(text)))


def _kinds(of: Any, kinds: Iterable[str] | None) -> list[Any]:
    if kinds is None:
        return list(of)
    if isinstance(kinds, (str, bytes)) or not isinstance(kinds, Iterable):
        raise Invalid(f"expected a list of kinds, got {type(kinds).__name__}", path="kinds")
    return list(dict.fromkeys(check_one_of(of, kind, f"kinds[{i}]") for i, kind in enumerate(kinds)))


def _names(names: Iterable[str], path: str) -> list[str]:
    if isinstance(names, (str, bytes)) or not isinstance(names, Iterable):
        raise Invalid(f"expected a list of names, got {type(names).__name__}", path=path)
    return [check_name(name, f"{path}[{i}]") for i, name in enumerate(names)]
