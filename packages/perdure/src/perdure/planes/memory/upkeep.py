"""Bringing the index and the vectors up to date in the background, so that nobody who searches waits for it.

Everything here can be stopped anywhere and is continued by the next one who does it. Callers: `store.index`, `perdure index`,
workers that have nothing else to do.
"""

from __future__ import annotations

from collections.abc import Callable

from perdure.model.records.memories import Indexed
from perdure.planes.memory import index, vectors
from perdure.planes.memory.embedder import embedder_of
from perdure.planes.memory.vectors import Q
from perdure.stores import pgvector
from perdure.stores.core import Core
from perdure.stores.store import Reads

SOME_VECTORS = 16  # that are made before somebody is let in

Tell = Callable[[str, int, int], None]  # events or vectors, how many of them are done, and of how many


def bring_up_to_date(core: Core, tenant: int, tell: Tell | None = None) -> Indexed:
    """Index everything that was said, then make the vectors that are missing, then drop those of other embeddings.

    Blocking work, however long it takes. ReadOnly in a store that cannot be written; Unavailable or Invalid when the embedding
    fails: what was done is kept.
    """
    index.catch_up(core, tenant, patient=True, tell=None if tell is None else lambda *done: tell("events", *done))
    core.embed = embedder = embedder_of(core.embed) or False
    if not embedder:
        return core.read(_counted, None, tenant=tenant)
    # Before there are many: PostgreSQL computes a new column for every row that there is.
    pgvector.prepare(core, 0, embedder.dims)
    vectors.catch_up(core, tenant, embedder, tell=None if tell is None else lambda *done: tell("vectors", *done))
    state = core.read(vectors.state_of, embedder, tenant=tenant)
    pgvector.prepare(core, state.embedding, embedder.dims)
    vectors.drop_others(core, tenant, embedder)
    return core.read(_counted, embedder.name, tenant=tenant)


def bring_some(core: Core, tenant: int) -> bool:
    """Index a little of what waits, or make a few of the vectors that are missing; whether more waits. Blocking, not for long.

    Raises as `bring_up_to_date` does. Leaves the indexes of PostgreSQL to that.
    """
    if not index.catch_up(core, tenant, patient=True, batches_max=1):
        return True
    core.embed = embedder = embedder_of(core.embed) or False
    return bool(embedder) and not vectors.catch_up(core, tenant, embedder, texts_max=SOME_VECTORS)


def _counted(reads: Reads, embedding: str | None) -> Indexed:
    texts, vectors = reads.query(Q.texts_and_vectors, tenant=reads.tenant)[0]
    return Indexed(texts, vectors, embedding)
