"""The index: the words of everything that was said, read from the feed when somebody searches.

    gather   reads the events after the index's position, outside the lane, and works their words out
    put      writes them and the new position, if nobody else did meanwhile

The position only ever moves to where no transaction in flight can come before (as in `planes.conversation.feed`); what is
committed behind that is indexed too, and comes by again. Adding a text that is there changes nothing. The index is rebuilt
when the store was restored or `words` gives other words. Callers: `search`.
Keeps P8 (a search costs what was said since the last), P11, P12, P15.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import msgspec

from perdure.errors import Damaged, ReadOnly, TimedOut
from perdure.log.event import Event, decode_body
from perdure.log.feed import Position
from perdure.log.upcast import upcast
from perdure.model.words import VERSION, words
from perdure.planes.conversation import feed
from perdure.planes.memory.texts import SHORT_MAX_CHARS, ShelfMove, TextsGone, moved_by, parts_of, past_shelf, said_by
from perdure.planes.reading.body_reading import body_of
from perdure.planes.tables import INDEXING, TEXTS
from perdure.stores.core import Core
from perdure.stores.statements import Statements
from perdure.stores.store import Reads
from perdure.stores.tx import LOG, Tx

Q = Statements("perdure.planes.memory", "index.sql")

BATCH_EVENTS = 1_000
PATIENT_EVENTS = 200
CLEAR_TEXTS = 2_000

Tell = Callable[[int, int], None]  # up to which position it is done, and where it ends
Key = tuple[int, int, int, str]  # stream, event, part, shelf
_encode = msgspec.json.Encoder().encode


class IndexPlace(NamedTuple):
    """How far an index is: of which epoch, up to where, by which words, in how many batches. As `indexing` keeps it."""

    epoch: int
    xid: int
    pos: int
    version: int
    added: int


class IndexedText(NamedTuple):
    """One part of what an event says, in the order of the columns of `texts` after its key."""

    of_seq: int
    actor: str
    at: int
    user_said: int
    is_short: int
    len: int
    terms: str


IndexItem: TypeAlias = "tuple[Key, IndexedText] | ShelfMove | TextsGone"


class IndexBatch(NamedTuple):
    """The texts to be added. before: where the index was; place: where it is then; until: up to where was read."""

    before: IndexPlace | None
    place: IndexPlace
    until: Position
    items: list[IndexItem]
    span: tuple[int, int]  # the positions of its first and last event
    end: Position  # up to where this search has to read
    clears: bool = False


def catch_up(
    core: Core, tenant: int, *, patient: bool = False, batches_max: int | None = None, tell: Tell | None = None
) -> bool:
    """Index everything that is committed now, or so many batches of it; whether the index has all of it then (a store that is
    only read adds nothing).

    Blocking work. TimedOut when it takes longer than the store's timeout, unless it is patient: what was done is kept, and the
    next one continues. A patient one adds less at a time, so that others get in between.
    """
    deadline = time.monotonic() + core.timeout_seconds
    after: Position | None = None
    end: Position | None = None
    for _ in itertools.count() if batches_max is None else range(batches_max):
        batch = core.read(gather, after, end, PATIENT_EVENTS if patient else BATCH_EVENTS, tenant=tenant)
        if batch is None:
            return True
        try:
            added = core.write(put, batch, actor="", tenant=tenant)
        except ReadOnly:
            if patient:
                raise
            added = core.read(holds, batch, tenant=tenant)
            if not added:
                return False
        after, end = (batch.until, batch.end) if added and not batch.clears else (None, None)
        if tell is not None:
            tell(batch.until.pos, max(batch.end.pos, batch.until.pos))
        if not patient and time.monotonic() > deadline:
            hint = "search again: it continues where it stopped; or open the store with a longer timeout"
            raise TimedOut("the index is not complete yet", path="search", hint=hint)
    return False


def gather(
    reads: Reads, after: Position | None = None, end: Position | None = None, limit: int = BATCH_EVENTS
) -> IndexBatch | None:
    """The next events with their words, after a position (None: the index's own) and up to an end (None: what is
    committed now). None when there are none.
    """
    epoch = feed.epoch_of(reads)
    current = _place(reads)
    if current is not None and (current.epoch, current.version) != (epoch, VERSION):
        return IndexBatch(
            current, IndexPlace(epoch, 0, 0, VERSION, current.added), Position(), [], (0, 0), Position(), clears=True
        )
    start = after or (Position(current.xid, current.pos) if current else Position())
    safe = Position(*reads.query(LOG.feed_end)[0])
    end = end or Position(*reads.query(Q.feed_visible_end)[0])
    if end <= start:
        return None
    events, until = feed.events_between(reads, start, end, limit)
    if not events and current is not None and safe <= start:
        return None
    position = max(min(until, safe), Position(current.xid, current.pos) if current else Position())
    items = [item for event in events for item in _items(reads, event)]
    span = (min(event.position for event in events), max(event.position for event in events)) if events else (0, 0)
    place = IndexPlace(epoch, *position, VERSION, current.added + 1 if current else 1)
    return IndexBatch(current, place, until, items, span, end)


def _place(reads: Reads) -> IndexPlace | None:
    rows = reads.query(Q.indexing_get, tenant=reads.tenant)
    return IndexPlace(*rows[0]) if rows else None


def _items(reads: Reads, event: Event) -> list[IndexItem]:
    try:
        body = upcast(event, decode_body(event.body)) if event.body is not None else None
        if body is None:
            return []
        moved = moved_by(event, body)
        if moved is not None:
            return [moved]
        if body.doc_blob:
            body.doc = body_of(reads, event.body).doc
        event_text = said_by(event, body)
    except (Damaged, TypeError, ValueError, KeyError):  # verify says so; a search finds the rest
        return []
    if event_text is None:
        return []
    parts = parts_of(event_text.text)
    is_short = int(event_text.shelf == "turn" and len(event_text.text) <= SHORT_MAX_CHARS)
    texts: list[IndexItem] = []
    for part, text in enumerate(parts):
        terms = words(text)
        fixed = (event_text.of_seq, event.actor, event.at, int(event_text.user_said), is_short)
        texts.append(
            (
                (event.stream, event.seq, part, event_text.shelf),
                IndexedText(*fixed, len(terms), _encode(terms).decode()),
            )
        )
    return texts


def put(tx: Tx, batch: IndexBatch) -> bool:
    """Write a batch. False, and nothing is written, if somebody else moved the index since it was gathered."""
    tx.query(Q.index_lock, tenant=tx.tenant)
    row = tx.own_row(INDEXING)
    current = IndexPlace(*(row[column] for column in IndexPlace._fields)) if row else None
    if current != batch.before:
        return False
    if batch.clears and not _clear(tx):
        return True
    for key, text in _texts_after(tx, batch).items():
        tx.touch(
            TEXTS,
            dict(zip(TEXTS.key, key, strict=True)),
            None if text is None else text._asdict() | {"added": batch.place.added},
        )
    tx.touch(INDEXING, {}, batch.place._asdict())
    return True


def holds(reads: Reads, batch: IndexBatch) -> bool:
    """Whether the index is already as the batch would leave it: its position lags while a transaction is in flight."""
    if batch.clears:
        return False
    texts = _texts_after(reads, batch)
    seqs: dict[int, list[int]] = {}
    for key in texts:
        seqs.setdefault(key[0], []).append(key[1])
    there = {
        (stream, *row)
        for stream, of in seqs.items()
        for row in reads.query(Q.texts_between, stream=stream, first=min(of), last=max(of))
    }
    return all((key in there) == (text is not None) for key, text in texts.items())


def _clear(tx: Tx) -> bool:
    """Take some texts away; whether none is left."""
    rows = tx.query(Q.texts_some, tenant=tx.tenant, limit=CLEAR_TEXTS)
    for key in rows:
        tx.touch(TEXTS, dict(zip(TEXTS.key, key, strict=True)), None)
    return not rows


def _texts_after(reads: Reads, batch: IndexBatch) -> dict[Key, IndexedText | None]:
    """The texts as the batch leaves them; None: it goes. Without what was emptied since they were read."""
    emptied = (
        set(reads.query(Q.events_emptied_among, first=batch.span[0], last=batch.span[1])) if batch.items else set()
    )
    texts: dict[Key, IndexedText | None] = {}
    of_memory: dict[tuple[int, int], list[Key]] = {}
    for item in batch.items:
        if isinstance(item, ShelfMove):
            _move(reads, item, texts, of_memory)
            continue
        if isinstance(item, TextsGone):
            rows = reads.query(Q.texts_between, stream=item.stream, first=item.seq, last=item.seq)
            texts |= dict.fromkeys((item.stream, *row) for row in rows)
            texts |= dict.fromkeys(key for key in texts if key[:2] == item)
            continue
        key, text = item
        if (key[0], key[1]) in emptied:
            continue
        texts[key] = text
        of_memory.setdefault((key[0], text.of_seq), []).append(key)
    return texts


def _move(
    reads: Reads, moved: ShelfMove, texts: dict[Key, IndexedText | None], of_memory: dict[tuple[int, int], list[Key]]
) -> None:
    rows = reads.query(Q.texts_of_memory, stream=moved.stream, of_seq=moved.of_seq)
    present: dict[Key, IndexedText | None] = {(moved.stream, *row[:3]): IndexedText(*row[3:]) for row in rows}
    present |= {key: texts[key] for key in of_memory.get((moved.stream, moved.of_seq), [])}
    for key, text in present.items():
        if text is None or not key[3].startswith("memory."):
            continue
        texts[key] = None
        if moved.status == "superseded":
            texts[*key[:3], past_shelf(key[3])] = text
