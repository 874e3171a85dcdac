"""Vectors of what was said: made later, from the index, when somebody searches or runs `perdure index`.

    gather   the texts that have no vector yet, outside the lane
    (embed)  outside of every transaction
    put      writes the vectors of those that are still there, and how far the embedding is

`say` and `remember` never wait for any of it. A process that dies loses the batch in hand; the next one continues. Another
embedding (its name, digest or size differs) gets vectors of its own; those of the ones before go when it is done. A vector goes
with its text, by a trigger. Callers: `search`, the handles. Keeps P8, P11, P12, P15.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import NamedTuple

from perdure.errors import Damaged
from perdure.log.event import Event, decode_body
from perdure.log.upcast import upcast
from perdure.planes.memory.embedder import Embedder
from perdure.planes.memory.index import Q as INDEX
from perdure.planes.memory.rank import Place
from perdure.planes.memory.texts import parts_of, said_by
from perdure.planes.memory.vector_bytes import Packed, pack
from perdure.planes.reading.body_reading import body_of
from perdure.planes.tables import EMBEDDINGS, VECTORS
from perdure.stores.core import Core
from perdure.stores.statements import Statements
from perdure.stores.store import Reads, event_of
from perdure.stores.tx import Tx

Q = Statements("perdure.planes.memory", "vectors.sql")
log = logging.getLogger("perdure.memory")

BATCH_TEXTS = 64  # in one commit: a `say` of the same process waits for at most so many
CLEAR_VECTORS = 1_000
NONE = Packed(b"", b"")  # of a text that has no vector: it is not embedded again
Tell = Callable[[int, int], None]  # how many are done, and of how many


class EmbeddingRow(NamedTuple):
    """The row of an embedding: its number, how far it is, and how often its vectors changed."""

    embedding: int
    done: int
    batches: int
    gone: int


class WaitingText(NamedTuple):
    """A text without a vector."""

    place: Place
    actor: str
    at: int
    text: str


class EmbeddingBatch(NamedTuple):
    """Texts to be embedded. before: how far the embedding was; done: how far it is then; is_last: no other text waits."""

    before: EmbeddingRow
    waiting: list[WaitingText]
    done: int
    is_last: bool


def state_of(reads: Reads, embedder: Embedder) -> EmbeddingRow:
    """How far an embedding is; nothing was done with one that is new."""
    rows = reads.query(
        Q.embedding_get, tenant=reads.tenant, name=embedder.name, sha256=embedder.sha256, dims=embedder.dims
    )
    return EmbeddingRow(*rows[0]) if rows else EmbeddingRow(embedder.number, 0, 0, 0)


def catch_up(
    core: Core, tenant: int, embedder: Embedder, *, texts_max: int | None = None, tell: Tell | None = None
) -> bool:
    """Make the vectors that are missing, at most so many; whether none is missing then. Blocking work.

    Unavailable or Invalid when the embedding fails: what was made before is kept.
    """
    count = 0
    total = core.read(_missing, embedder, tenant=tenant) if tell else 0
    while texts_max is None or count < texts_max:
        room = BATCH_TEXTS if texts_max is None else min(BATCH_TEXTS, texts_max - count)
        batch = core.read(gather, embedder, room, tenant=tenant)
        if not batch.waiting and batch.done == batch.before.done:
            return True
        packed = _packed(embedder, batch.waiting)
        core.write(put, embedder, batch, packed, actor="", tenant=tenant)
        count += len(batch.waiting)
        if tell:
            tell(count, max(total, count))
        if batch.is_last:
            return True
    return False


def _missing(reads: Reads, embedder: Embedder) -> int:
    state = state_of(reads, embedder)
    return reads.query(Q.texts_missing, tenant=reads.tenant, done=state.done, embedding=state.embedding)[0][0]


def is_complete(reads: Reads, embedder: Embedder) -> bool:
    """Whether every text of the index has been embedded."""
    return not gather(reads, embedder, 1).waiting


def gather(reads: Reads, embedder: Embedder, limit: int) -> EmbeddingBatch:
    """The next texts that have no vector."""
    state = state_of(reads, embedder)
    batches = reads.query(Q.indexing_batches, tenant=reads.tenant)
    rows = reads.query(
        Q.texts_without, tenant=reads.tenant, embedding=state.embedding, done=state.done, limit=limit + 1
    )
    is_last = len(rows) <= limit
    done = max(state.done, (batches[0][0] if batches else 0) if is_last else rows[-1][6] - 1)
    places = json.dumps([row[:2] for row in rows[:limit]])
    events = {
        (event.stream, event.seq): event for event in map(event_of, reads.query(Q.events_of_texts, places=places))
    }
    waiting = [
        WaitingText((row[0], row[1], row[2], row[3]), row[4], row[5], _text(reads, events.get(row[:2]), row[2]))
        for row in rows[:limit]
    ]
    return EmbeddingBatch(state, waiting, done, is_last)


def _text(reads: Reads, event: Event | None, part: int) -> str:
    """The words of a part of an event; nothing when it is gone or cannot be read."""
    if event is None or event.body is None:
        return ""
    try:
        body = upcast(event, decode_body(event.body))
        body.doc = body_of(reads, event.body).doc
        event_text = said_by(event, body)
        return parts_of(event_text.text)[part] if event_text else ""
    except (Damaged, TypeError, ValueError, KeyError, IndexError):  # as in `index`
        return ""


def _packed(embedder: Embedder, waiting: list[WaitingText]) -> list[Packed]:
    texts = [item.text for item in waiting if embedder.reads(item.text)]
    vectors = iter(embedder.vectors(texts) if texts else [])
    packed = [_pack(next(vectors)) if embedder.reads(item.text) else NONE for item in waiting]
    empty = packed.count(NONE) - (len(waiting) - len(texts))
    if empty:
        log.warning("%s of %s texts have no vector: %s gave zero or no numbers", empty, len(texts), embedder.name)
    return packed


def _pack(vector: list[float] | None) -> Packed:
    return (pack(vector) if vector else None) or NONE


def put(tx: Tx, embedder: Embedder, batch: EmbeddingBatch, packed: list[Packed]) -> None:
    """Write vectors down, but of no text that went meanwhile."""
    tx.query(INDEX.index_lock, tenant=tx.tenant)
    key = {"name": embedder.name, "sha256": embedder.sha256, "dims": embedder.dims}
    row = tx.own_row(EMBEDDINGS, *key.values())
    number = embedder.number
    state = EmbeddingRow(number, row["done"], row["batches"], row["gone"]) if row else EmbeddingRow(number, 0, 0, 0)
    places = json.dumps([item.place for item in batch.waiting])
    there = set(tx.query(Q.texts_there, tenant=tx.tenant, places=places))
    for item, (bits, numbers) in zip(batch.waiting, packed, strict=True):
        if item.place in there:
            tx.touch(
                VECTORS,
                dict(zip(VECTORS.key, (*item.place, number), strict=True)),
                {"batch": state.batches + 1, "actor": item.actor, "at": item.at, "bits": bits, "vector": numbers},
            )
    moved = state._replace(done=max(state.done, batch.done), batches=state.batches + 1)
    tx.touch(EMBEDDINGS, key, moved._asdict())


def drop_others(core: Core, tenant: int, embedder: Embedder) -> int:
    """Take away the vectors of every other embedding; how many went. Stopped halfway, it is continued by the next call."""
    dropped = 0
    while count := core.write(_drop_some, embedder, actor="", tenant=tenant):
        dropped += count - 1
    return dropped


def _drop_some(tx: Tx, embedder: Embedder) -> int:
    """Take some vectors of another embedding away, and that embedding when it has none left. 0: there is no other one."""
    mine = (embedder.name, embedder.sha256, embedder.dims)
    others = [row for row in tx.query(Q.embeddings_all, tenant=tx.tenant) if row[:3] != mine]
    if not others:
        return 0
    name, sha256, dims, number, _ = others[0]
    rows = tx.query(Q.vectors_some, tenant=tx.tenant, embedding=number, limit=CLEAR_VECTORS)
    for key in rows:
        tx.touch(VECTORS, dict(zip(VECTORS.key, key, strict=True)), None)
    if not rows:
        tx.touch(EMBEDDINGS, {"name": name, "sha256": sha256, "dims": dims}, None)
    return len(rows) + 1
