"""Which texts lie nearest to a query: by bits in memory, or by pgvector where the database has it.

    bits      the signs of every vector of a tenant, 48 bytes each, kept in memory and read on as batches are added; the few
              hundred nearest by differing bits are ranked by their bytes, read from the table
    pgvector  `stores.pgvector`: exact inside small scopes, its index else

Both give candidates; `search` ranks them by the same cosine, so that every store gives one answer (P9). A vector that went from
the table is not given, whatever memory still has. Callers: `search`. Keeps P8, P11, P12.
"""

from __future__ import annotations

import json
import threading
import weakref
from array import array
from collections.abc import Iterable, Sequence
from heapq import nsmallest
from typing import Any, NamedTuple

from perdure.planes.memory.rank import Place
from perdure.planes.memory.vector_bytes import bits_of, cosines, numpy_or_none
from perdure.planes.memory.vectors import EmbeddingRow, Q
from perdure.stores import pgvector
from perdure.stores.core import Core
from perdure.stores.store import Reads

RERANKED = 400  # of the nearest by bits, at least
TAGGED_MAX = 20_000  # texts with a tag, or about a subject, that are compared one by one
_CHUNK = 2_000


class Sought(NamedTuple):
    """A query as a vector. floor: how near it is to what does not answer it; cut: nearer than almost all of that. near: how
    the database finds the nearest, if it does.
    """

    vector: list[float]
    state: EmbeddingRow
    floor: float
    cut: float
    bits: Bits
    near: pgvector.NearColumn | None = None


class NearestFilter(NamedTuple):
    """Where is looked: on these shelves, in these streams (None: all), and only what fits the filters."""

    shelves: list[str]
    streams: list[int] | None
    filters: dict[str, Any]


class Bits:
    """The signs of all vectors of one embedding, in memory. Threads may share it."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._numpy = numpy_or_none()
        self._start()

    def _start(self) -> None:
        self._batches, self._gone, self._embedding = 0, 0, 0
        self._codes: dict[str, int] = {}  # shelves and actors, by number
        self._streams, self._seqs, self._parts = array("q"), array("q"), array("H")
        self._shelves, self._actors, self._ats = array("H"), array("I"), array("q")
        self._bits = bytearray()
        self._ints: list[int] = []
        self._width = 0

    def __len__(self) -> int:
        return len(self._streams)

    @property
    def size_bytes(self) -> int:
        """Its size in memory."""
        columns = (self._streams, self._seqs, self._parts, self._shelves, self._actors, self._ats)
        return sum(column.itemsize * len(column) for column in columns) + len(self._bits) + 84 * len(self._ints)

    def refresh(self, reads: Reads, state: EmbeddingRow) -> None:
        """Read what was added; everything again when something went: no bit of it stays."""
        with self._mutex:
            if (self._gone, self._embedding) != (state.gone, state.embedding):
                self._start()
            if self._batches != state.batches:
                rows = reads.query(Q.vectors_since, tenant=reads.tenant, embedding=state.embedding, batch=self._batches)
                self._add(rows)
            self._batches, self._gone, self._embedding = state.batches, state.gone, state.embedding

    def _add(self, rows: Iterable[tuple[Any, ...]]) -> None:
        codes = self._codes
        for stream, seq, part, shelf, at, actor, bits in rows:
            if not bits:
                continue
            self._streams.append(stream)
            self._seqs.append(seq)
            self._parts.append(part)
            self._shelves.append(codes.setdefault(f"shelf {shelf}", len(codes)))
            self._actors.append(codes.setdefault(f"actor {actor}", len(codes)))
            self._ats.append(at)
            self._width = len(bits)
            if self._numpy is None:
                self._ints.append(int.from_bytes(bits, "little"))
            else:
                self._bits += bits

    def nearest(self, query: Sequence[float], within: NearestFilter, count: int) -> list[Place]:
        """The places whose bits differ least from the query's; it may name what is gone."""
        with self._mutex:
            near = bits_of(query)
            if not self._streams or len(near) != self._width:
                return []
            rows = self._by_numpy(near, within, count) if self._numpy else self._by_counting(near, within, count)
            shelves = {code: name[6:] for name, code in self._codes.items() if name.startswith("shelf ")}
            return [(self._streams[i], self._seqs[i], self._parts[i], shelves[self._shelves[i]]) for i in rows]

    def _by_numpy(self, near: bytes, within: NearestFilter, count: int) -> list[int]:
        np = self._numpy
        # Copies of nothing: the arrays are looked at where they lie, and let go before anything is added.
        fits = np.ones(len(self), dtype=bool)
        for held, dtype, allowed in self._lists(within):
            fits &= np.isin(np.frombuffer(held, dtype=dtype), allowed)
        ats = np.frombuffer(self._ats, dtype=np.int64)
        since, until = within.filters.get("since"), within.filters.get("until")
        fits &= (ats >= since) if since is not None else True
        fits &= (ats < until) if until is not None else True
        rows = np.flatnonzero(fits)
        bits = np.frombuffer(self._bits, dtype=np.uint64).reshape(len(self), -1)
        bits = bits if len(rows) == len(self) else bits[rows]
        differing = np.bitwise_count(bits ^ np.frombuffer(near, dtype=np.uint64)).sum(axis=1, dtype=np.uint16)
        if len(rows) > count:
            rows = rows[np.argpartition(differing, count)[:count]]
        return rows.tolist()

    def _lists(self, within: NearestFilter) -> list[tuple[Any, str, list[int]]]:
        """The conditions: an array, its type, and the values that fit."""
        shelves = [self._codes[f"shelf {name}"] for name in within.shelves if f"shelf {name}" in self._codes]
        conditions: list[tuple[Any, str, list[int]]] = [(self._shelves, "uint16", shelves)]
        if within.streams is not None:
            conditions.append((self._streams, "int64", within.streams))
        names = within.filters.get("actor")
        if names is not None:
            actors = [self._codes[f"actor {name}"] for name in names if f"actor {name}" in self._codes]
            conditions.append((self._actors, "uint32", actors))
        return conditions

    def _by_counting(self, near: bytes, within: NearestFilter, count: int) -> list[int]:
        query = int.from_bytes(near, "little")
        rows: Iterable[int] = range(len(self))
        for held, _, allowed in self._lists(within):
            among = set(allowed)
            rows = [i for i in rows if held[i] in among]
        since, until = within.filters.get("since"), within.filters.get("until")
        if since is not None or until is not None:
            first, last = since or -(2**63), 2**63 if until is None else until
            rows = [i for i in rows if first <= self._ats[i] < last]
        ints = self._ints
        return [i for _, i in nsmallest(count, (((query ^ ints[i]).bit_count(), i) for i in rows))]


_KEPT: weakref.WeakKeyDictionary[Core, dict[int, Bits]] = weakref.WeakKeyDictionary()
_mutex = threading.Lock()


def bits_for(core: Core, tenant: int) -> Bits:
    """The bits of a tenant that this open store keeps."""
    with _mutex:
        return _KEPT.setdefault(core, {}).setdefault(tenant, Bits())


def nearest(reads: Reads, sought: Sought, within: NearestFilter, count: int) -> list[Place]:
    """The texts that lie nearest to a query, nearest first."""
    within = _naming(reads, within)
    if within.filters.get("tag") or within.filters.get("about"):
        places = _tagged(reads, within)
    elif sought.near is not None:
        filters = {name: value for name, value in within.filters.items() if value is not None}
        return pgvector.nearest(
            reads, sought.near, sought.state.embedding, sought.vector, within.shelves, within.streams, filters, count
        )
    else:
        sought.bits.refresh(reads, sought.state)
        places = sought.bits.nearest(sought.vector, within, max(RERANKED, 2 * count))
    near = cosines_at(reads, sought, places)
    return sorted(near, key=lambda place: (-near[place], place))[:count]


def _naming(reads: Reads, within: NearestFilter) -> NearestFilter:
    """With every name under which texts of the actor are kept, as a list."""
    actor = within.filters.get("actor")
    if actor is None:
        return within
    names = [row[0] for row in reads.query(Q.actors_named, tenant=reads.tenant, name=actor)]
    return within._replace(filters={**within.filters, "actor": [actor, *names]})


def _tagged(reads: Reads, within: NearestFilter) -> list[Place]:
    """The texts with the tag; or else those of the subject, by themselves or because their whole stream is about it."""
    tag, about = within.filters.get("tag"), within.filters.get("about")
    params = {
        "tenant": reads.tenant, "streams": None if within.streams is None else json.dumps(within.streams),
        "since": within.filters.get("since"), "until": within.filters.get("until"), "limit": TAGGED_MAX,
    }  # fmt: skip
    if tag:
        rows = reads.query(Q.texts_tagged, thing="memory", tag=tag, **params)
        rows = {*rows, *reads.query(Q.texts_labelled, tag=tag, **params)}
    else:
        rows = reads.query(Q.texts_tagged, thing="memory_about", tag=about, **params)
        rows = {*rows, *reads.query(Q.texts_about, about=about, **params)}
        rows |= {*reads.query(Q.texts_about_whole, about=about, **params)}
    shelves = set(within.shelves)
    return [(row[0], row[1], row[2], row[3]) for row in rows if row[3] in shelves]


def cosines_at(reads: Reads, sought: Sought, places: Sequence[Place]) -> dict[Place, float]:
    """How near each of these texts is; those without a vector are left out."""
    by_place: dict[Place, float] = {}
    for start in range(0, len(places), _CHUNK):
        some = json.dumps(places[start : start + _CHUNK])
        rows = reads.query(Q.vectors_at, tenant=reads.tenant, embedding=sought.state.embedding, places=some)
        comparable = [row for row in rows if len(row[4]) == len(sought.vector)]
        near = _cosines(sought.vector, [bytes(row[4]) for row in comparable])
        by_place |= {
            (row[0], row[1], row[2], row[3]): round(cosine, 7) for row, cosine in zip(comparable, near, strict=True)
        }
    return by_place


def _cosines(query: Sequence[float], vectors: list[bytes]) -> list[float]:
    np = numpy_or_none()
    if np is None or not vectors:
        return cosines(query, vectors)
    small = np.frombuffer(b"".join(vectors), dtype=np.int8).reshape(len(vectors), -1).astype(np.float32)
    vector = np.asarray(query, dtype=np.float32)
    norms = np.sqrt(np.einsum("ij,ij->i", small, small)) * float(np.linalg.norm(vector))
    return (small @ vector / np.where(norms == 0, 1, norms)).tolist()
