"""Items of LangGraph's store as values of scopes: what is asked for, how it is read, searched and written.

    value of a scope  =  {"item": …, "created_at": …, "ttl": minutes, "vectors": {field: numbers}}     the last two if it has them

All reads of a batch see the store before its writes; all writes are one commit. A value that somebody set by hand in such a scope
is an item too. Keeps P1, P5, P8.
"""

from __future__ import annotations

import heapq
import math
import sys
from array import array
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from operator import mul
from typing import Any, NamedTuple

from langgraph.store.base import GetOp, Item, ListNamespacesOp, PutOp, SearchItem, SearchOp

from perdure.errors import Invalid
from perdure.log.change import Stream
from perdure.model.instants import duration_us, to_datetime
from perdure.model.limits import PAGE_MAX_ROWS
from perdure.model.values import to_plain
from perdure.planes.memory import across, values
from perdure.planes.memory.across import HeldValue
from perdure.planes.memory.vector_bytes import numpy_or_none
from perdure.planes.tables import ENTRIES
from perdure.stores.store import Reads
from perdure.stores.tx import Tx
from perdure_adapters.both import Asked, Read, Write
from perdure_adapters.langgraph.filters import check_filter, passes
from perdure_adapters.langgraph.namespaces import (
    PREFIX,
    check_listing,
    checked,
    key_of,
    listed,
    name_of,
    namespace_of,
    scope_of,
    tree_of,
)

FIRST_PAGE_ROWS = 100  # of a search with a filter; the next ones grow
SWEPT_ROWS = 200  # in one commit
# This part of its time must have passed before a read gives an item all of it again: a hot item is not written at every read.
OLD_PART = 0.05

Place = tuple[str, str]  # scope and name
Reading = GetOp | SearchOp | ListNamespacesOp


class ItemPut(NamedTuple):
    """An item to write. item: None takes it away. vectors: of its fields."""

    item: dict[str, Any] | None
    ttl: float | None = None
    vectors: Mapping[str, bytes] = {}


class ItemsAsked(NamedTuple):
    """A batch that can be carried out: what to read (by its place in the batch), what to write, and how many were asked for."""

    total: int
    reads: Sequence[tuple[int, Reading]]
    puts: Mapping[Place, PutOp]


class ItemsRead(NamedTuple):
    """The answers to the reads of a batch, and the items whose time is to begin anew, with their minutes."""

    answers: list[Any]
    refresh: dict[Place, float]


# -- checking ------------------------------------------------------------------------------------------------


def check_ops(ops: Sequence[Any]) -> ItemsAsked:
    """A batch, checked before anything of it is done. Of two writes to one item the last one counts."""
    reads: list[tuple[int, Reading]] = []
    puts: dict[Place, PutOp] = {}
    for i, op in enumerate(ops):
        if isinstance(op, PutOp):
            place = (scope_of(checked(op.namespace)), name_of(op.key))
            _check_put(op)
            puts.pop(place, None)
            puts[place] = op
        elif isinstance(op, GetOp):
            scope_of(checked(op.namespace))
            name_of(op.key)
            reads.append((i, op))
        elif isinstance(op, SearchOp):
            tree_of(checked(op.namespace_prefix, "namespace_prefix", empty=True))
            check_filter(op.filter)
            _check_part(op.limit, op.offset)
            reads.append((i, op))
        elif isinstance(op, ListNamespacesOp):
            _check_part(op.limit, op.offset)
            reads.append((i, check_listing(op)))
        else:
            raise Invalid(f"expected an operation of a store, got {type(op).__name__}", path=f"ops[{i}]")
    return ItemsAsked(len(ops), reads, puts)


def _check_put(op: PutOp) -> None:
    if op.value is None:
        return
    if not isinstance(op.value, Mapping):
        raise Invalid(f"expected a dict, got {type(op.value).__name__}", path="value")
    to_plain(dict(op.value), "value")
    if op.ttl is not None:
        _lasting(op.ttl)
    if not (op.index is None or op.index is False or isinstance(op.index, (list, tuple))):
        raise Invalid(f"expected a list of fields, or False, got {op.index!r}", path="index")


def _lasting(minutes: float) -> timedelta:
    if isinstance(minutes, bool) or not isinstance(minutes, (int, float)):
        raise Invalid(f"expected minutes, got {type(minutes).__name__}", path="ttl")
    return timedelta(microseconds=duration_us(minutes * 60, "ttl"))


def _check_part(limit: object, offset: object) -> None:
    for name, value in (("limit", limit), ("offset", offset)):
        if type(value) is not int or value < 0:
            raise Invalid(f"expected a whole number, not below zero, got {value!r}", path=name)


# -- carrying out --------------------------------------------------------------------------------------------


def carry_out(
    items: ItemsAsked, puts: Mapping[Place, ItemPut], queries: Mapping[str, bytes], *, refresh: bool
) -> Asked[list[Any]]:
    """The answers to a batch. refresh: whether the store gives items their time anew when they are read."""
    answers: list[Any] = [None] * items.total
    if items.reads:
        looked: ItemsRead = yield Read(_look, (items, queries, refresh))
        answers = looked.answers
        if looked.refresh:
            yield Write(_refresh, (looked.refresh,))
    if puts:
        yield Write(_put, (puts,))
    return answers


def swept() -> Asked[int]:
    """Take items away whose time has ended. Returns how many."""
    total = 0
    while True:
        rows: int = yield Write(across.sweep, (PREFIX, SWEPT_ROWS))
        total += rows
        if rows < SWEPT_ROWS:
            return total


# -- reading -------------------------------------------------------------------------------------------------


def _look(reads: Reads, items: ItemsAsked, queries: Mapping[str, bytes], refresh: bool) -> ItemsRead:
    looked = ItemsRead([None] * items.total, {})
    scopes: dict[str, Stream | None] = {}
    for i, op in items.reads:
        if isinstance(op, ListNamespacesOp):
            looked.answers[i] = listed(reads, op)
            continue
        if isinstance(op, GetOp):
            item = _get(reads, op, scopes)
            held = [] if item is None else [item]
            looked.answers[i] = None if item is None else Item(**_fields(item))
        else:
            ranked = _search(reads, op, queries)
            held = [item for item, _ in ranked]
            looked.answers[i] = [SearchItem(**_fields(item), score=score) for item, score in ranked]
        if refresh and op.refresh_ttl:
            looked.refresh.update(_grown_old(held))
    return looked


def _get(reads: Reads, op: GetOp, scopes: dict[str, Stream | None]) -> HeldValue | None:
    scope, name = scope_of(tuple(op.namespace)), name_of(op.key)
    if scope not in scopes:
        scopes[scope] = values.find_scope(reads, scope)
    stream = scopes[scope]
    entry = None if stream is None else values.entry(reads, stream, name)
    if stream is None or entry is None:
        return None
    return HeldValue(
        scope=scope, name=name, value=entry.value, updated_at=entry.updated_at, expires_at=entry.expires_at,
        now=entry.updated_at + entry.age, place=(0, stream.id, name),
    )  # fmt: skip


def _grown_old(held: Sequence[HeldValue]) -> Iterator[tuple[Place, float]]:
    """The items of which a part of their time has passed."""
    for item in held:
        minutes = item.value.get("ttl") if _is_ours(item.value) else None
        if minutes is not None and item.expires_at is not None:
            lifetime = _lasting(minutes)
            if item.expires_at - item.now <= lifetime * (1 - OLD_PART):
                yield (item.scope, item.name), minutes


def _is_ours(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and isinstance(value.get("item"), dict)
        and isinstance(value.get("created_at"), datetime)
        and value.keys() <= {"item", "created_at", "ttl", "vectors"}
    )


def _content(value: Any) -> dict[str, Any]:
    """The item in a value; one that was set by hand is its own item."""
    if _is_ours(value):
        return value["item"]
    return value if isinstance(value, dict) else {"value": value}


def _fields(held: HeldValue) -> dict[str, Any]:
    return {
        "namespace": namespace_of(held.scope),
        "key": key_of(held.name),
        "value": _content(held.value),
        "created_at": held.value["created_at"] if _is_ours(held.value) else held.updated_at,
        "updated_at": held.updated_at,
    }


# -- searching -----------------------------------------------------------------------------------------------


def _search(reads: Reads, op: SearchOp, queries: Mapping[str, bytes]) -> list[tuple[HeldValue, float | None]]:
    end = op.offset + op.limit
    if not op.limit:
        return []
    query = queries.get(op.query) if op.query else None
    if query is None:
        newest: list[HeldValue] = []
        first = max(end, FIRST_PAGE_ROWS) if op.filter else end
        for held in _passing(reads, op, first):
            newest.append(held)
            if len(newest) == end:
                break
        return [(held, None) for held in newest[op.offset :]]
    near = _nearness(query)
    scored = ((near(held.value), held) for held in _passing(reads, op, PAGE_MAX_ROWS))
    best = heapq.nlargest(end, (pair for pair in scored if pair[0] is not None), key=lambda pair: pair[0])
    return [(held, score) for score, held in best[op.offset :]]


def _passing(reads: Reads, op: SearchOp, rows: int) -> Iterator[HeldValue]:
    """The items below a namespace that pass the filter, newest first, read page by page."""
    tree = tree_of(tuple(op.namespace_prefix))
    condition = check_filter(op.filter)
    after: HeldValue | None = None
    while True:
        rows = min(rows, PAGE_MAX_ROWS)
        page = across.newest(reads, tree, after=after, limit=rows)
        for held in page:
            if passes(_content(held.value), condition):
                yield held
        if len(page) < rows:
            return
        after, rows = page[-1], rows * 2


# -- vectors -------------------------------------------------------------------------------------------------


def unit(vector: Sequence[float], dims: int | None) -> bytes | None:
    """A vector of length one, as it is kept: four bytes a number. None if it points nowhere."""
    try:
        numbers = [float(number) for number in vector]
    except (TypeError, ValueError):
        raise Invalid("the embedding is not a list of numbers", path="index.embed") from None
    if dims is not None and len(numbers) != dims:
        raise Invalid(f"the embedding has {len(numbers)} numbers, and dims says {dims}", path="index.dims")
    length = math.hypot(*numbers)
    if not 0 < length < math.inf:
        return None
    return _turned(array("f", [number / length for number in numbers])).tobytes()


def _turned(numbers: array[float]) -> array[float]:
    """Least byte first, wherever it is."""
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers


def _nearness(query: bytes) -> Any:
    """The cosine of an item's nearest vector and the query; None if it has none of that size."""
    numpy = numpy_or_none()
    query_vector = _turned(array("f", query)) if numpy is None else numpy.frombuffer(query, "<f4")

    def cosine(data: bytes) -> float:
        if numpy is not None:
            return float(numpy.dot(query_vector, numpy.frombuffer(data, "<f4")))
        return sum(map(mul, query_vector, _turned(array("f", data))))

    def near(value: Any) -> float | None:
        vectors = value.get("vectors") if _is_ours(value) else None
        stored = vectors.values() if isinstance(vectors, dict) else ()
        return max(
            (cosine(vector) for vector in stored if type(vector) is bytes and len(vector) == len(query)), default=None
        )

    return near


# -- writing -------------------------------------------------------------------------------------------------


def _put(tx: Tx, puts: Mapping[Place, ItemPut]) -> None:
    streams = {scope: _opened(tx, scope, puts) for scope in sorted({scope for scope, _ in puts})}
    begun = {place: _created(tx, streams[place[0]], place[1]) for place, put in puts.items() if put.item is not None}
    for place, put in puts.items():
        stream = streams[place[0]]
        if stream is None:
            continue
        if put.item is None:
            values.delete(tx, stream, place[1])
            continue
        document: dict[str, Any] = {"item": put.item, "created_at": begun[place]}
        if put.ttl is not None:
            document["ttl"] = float(put.ttl)
        if put.vectors:
            document["vectors"] = {**put.vectors}
        values.put(tx, stream, place[1], document, ttl=None if put.ttl is None else _lasting(put.ttl))


def _opened(tx: Tx, scope: str, puts: Mapping[Place, ItemPut]) -> Stream | None:
    """The stream of a scope; made if it is new and something is to be put there."""
    is_written = any(put.item is not None for (name, _), put in puts.items() if name == scope)
    return values.open_scope(tx, scope) if is_written else tx.find_stream("scope", scope)


def _created(tx: Tx, stream: Stream | None, name: str) -> datetime:
    """When an item was first put: it keeps that as long as it is there."""
    now = to_datetime(tx.now)
    if stream is None or tx.row(ENTRIES, stream, name) is None:
        return now
    before = values.entry(tx, stream, name)
    if before is None:
        return now
    return before.value["created_at"] if _is_ours(before.value) else before.updated_at


def _refresh(tx: Tx, refresh: Mapping[Place, float]) -> None:
    for (scope, name), minutes in refresh.items():
        stream = tx.find_stream("scope", scope)
        if stream is not None:
            values.extend(tx, stream, name, _lasting(minutes))
